"""Builds what is published, and tries it as a stranger would: `make release-check`.

    python scripts/release_check.py [--keep DIRECTORY]

sdist and wheel are built, `twine check --strict` reads their metadata, the wheel that is built from the sdist is
installed into an environment of its own, and there the version, the demo and the commands of the documentation's first
page are run. `uvx` runs the demo from the wheel, `pipx` installs it. Needs PyPI. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import email
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 900
IN_SDIST = ("plugins/interlock/.claude-plugin/plugin.json", ".claude-plugin/marketplace.json", "server.json", "LICENSE",
            "action.yml", "docs/README.md", "CHANGELOG.md")  # fmt: skip


class NotReady(Exception):
    """Something of it would not work for those who install it."""


def check(directory: Path) -> list[str]:
    """Build into `directory` and try; what is worth knowing. Raises NotReady."""
    sys.path.insert(0, str(ROOT / "src"))
    from interlock.version import __version__

    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    notes = []
    if f"## [{__version__}]" not in changes:
        notes.append(f"CHANGELOG.md has no section for {__version__}: name one before you publish.")
    _run("reference", [sys.executable, "scripts/reference.py", "--check"])
    # The wheel is made from the sdist, so that the sdist is known to be whole.
    _run("build", [sys.executable, "-m", "build", "--outdir", str(directory), "."])
    [wheel], [sdist] = list(directory.glob("*.whl")), list(directory.glob("*.tar.gz"))
    _run("metadata", [_uv(), "tool", "run", "twine", "check", "--strict", str(wheel), str(sdist)])
    notes += _metadata(wheel, __version__)
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    lacking = [name for name in IN_SDIST if name not in inside]
    if lacking:
        raise NotReady(f"the sdist lacks {', '.join(lacking)}")
    _try(wheel, sdist, directory, __version__)
    return notes


def _metadata(wheel: Path, version: str) -> list[str]:
    """What the package's page will show. Raises NotReady."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [path] = [name for name in names if name.endswith(".dist-info/METADATA")]
        about = email.message_from_bytes(archive.read(path))
    if about["Version"] != version:
        raise NotReady(f"pyproject.toml says {about['Version']}, the package {version}")
    for name, found in {
        "a licence": about["License-Expression"] and any(one.endswith("licenses/LICENSE") for one in names),
        "the marker of types": "interlock/py.typed" in names,
        "its description": about["Description-Content-Type"] == "text/markdown" and "mcp-name:" in about.get_payload(),
    }.items():
        if not found:
            raise NotReady(f"the wheel lacks {name}")
    stray = [name for name in names if not name.startswith("interlock") or "__pycache__" in name]
    if stray:
        raise NotReady(f"the wheel holds {', '.join(stray[:5])}")
    if not about.get_all("Project-URL"):
        return ["The package's page will have no links: [project.urls] in pyproject.toml is where they go."]
    return []


def _try(wheel: Path, sdist: Path, directory: Path, version: str) -> None:
    """Install it where nothing of this repository is, and use it. Raises NotReady."""
    home = directory / "clean"
    venv.create(home / "venv", with_pip=True, clear=True)
    bin = home / "venv" / "bin"
    environment = {"PATH": f"{bin}{os.pathsep}{os.defpath}{os.pathsep}{os.environ.get('PATH', '')}", "HOME": str(home)}
    passed = (
        "PIP_CERT",
        "SSL_CERT_FILE",
        "PIP_INDEX_URL",
        "PIP_FIND_LINKS",
        "LANG",
        "UV_DEFAULT_INDEX",
        "UV_INDEX_URL",
    )
    environment |= {name: os.environ[name] for name in passed if name in os.environ}
    _run("install", [str(bin / "python"), "-m", "pip", "install", "--quiet", str(wheel)], home, environment)
    for command in ("interlock", "interlock-agents"):
        said = _run(f"{command} --version", [str(bin / command), "--version"], home, environment)
        if version not in said:
            raise NotReady(f"{command} says {said.strip()}, not {version}")
    _run("demo", [str(bin / "interlock"), "demo"], home, environment)
    _run("uvx", [_uv(), "tool", "run", "--from", str(wheel), "interlock", "demo"], home, environment)
    pipx = environment | {"PIPX_HOME": str(home / "pipx"), "PIPX_BIN_DIR": str(home / "pipx-bin")}
    _run("pipx", [_uv(), "tool", "run", "pipx", "install", str(wheel)], home, pipx)
    _run("what pipx installed", [str(home / "pipx-bin" / "interlock"), "--version"], home, environment)
    # The tests of the documentation carry out its commands; here the installed package answers them.
    with tarfile.open(sdist) as archive:
        archive.extractall(home / "source", filter="data")
    [source] = (home / "source").iterdir()
    tools = ["pytest", "pytest-timeout", "hypothesis", "jsonschema"]
    _run("test tools", [str(bin / "python"), "-m", "pip", "install", "--quiet", *tools], home, environment)
    (source / "src").rename(source / "not-used")
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default", "tests/docs/test_pages.py", "-k",
             "tutorial or by-hand"]  # fmt: skip
    _run("documentation", [str(bin / "python"), *tests], source, environment)


def _uv() -> str:
    return os.path.join(os.path.dirname(sys.executable), "uv")


def _run(what: str, command: list[str], directory: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    print(f"{what} ...", flush=True)
    done = subprocess.run(
        command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-30:])
        raise NotReady(f"{what} ended with {done.returncode}:\n{last}")
    return done.stdout


def main(arguments: list[str]) -> int:
    """Check; 1 where it is not ready."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="leave sdist and wheel there")
    keep = parser.parse_args(arguments).keep
    with tempfile.TemporaryDirectory() as temporary:
        try:
            notes = check(Path(temporary))
        except (NotReady, subprocess.TimeoutExpired) as error:
            print(f"not ready: {error}", file=sys.stderr)
            return 1
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            for file in (*Path(temporary).glob("*.whl"), *Path(temporary).glob("*.tar.gz")):
                file.replace(keep / file.name)
    print("\n".join([*(f"note: {note}" for note in notes), "ready"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
