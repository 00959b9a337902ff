"""What every test runs in: this tree's code, a private runtime directory, nothing of the caller's environment."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# Each test has the same examples whenever it runs, so that a change is judged by what it changed; a storm without a
# seed looks for new ones. Times on a busy machine say nothing about the code, so no example has a deadline.
STORM = "DOSE" in os.environ and not os.environ.get("SEED")
settings.register_profile("here", deadline=None, derandomize=not STORM, print_blob=True,
                          suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
settings.load_profile("here")


def pytest_configure(config: pytest.Config) -> None:
    # Tests start hundreds of programs: compiling every module in each of them takes longer than what they do.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Programs that tests start must run the code under test, and must not find the developer's own teams.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    for name in [
        name for name in os.environ if name.startswith("INTERLOCK_") and not name.startswith("INTERLOCK_TEST_")
    ]:
        del os.environ[name]
    # What a shell starts in the background ignores interrupts, and hands that on to what it starts itself.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """With `ONLY_MARKED=long,dosed`, leave out files without such a test: to import them takes each process seconds."""
    marks = os.environ.get("ONLY_MARKED", "").split(",")
    if marks == [""] or not collection_path.name.startswith("test_") or "corpus" in collection_path.parts:
        return None  # What lies in tests/corpus is marked as a whole.
    text = collection_path.read_text(encoding="utf-8")
    return None if any(f"mark.{mark}" in text for mark in marks) else True


@pytest.fixture(scope="session", autouse=True)
def runtime() -> Iterator[Path]:
    """A runtime directory of this test process alone. Its path is short, since names of sockets must be."""
    path = Path(tempfile.mkdtemp(prefix="il-", dir="/tmp"))
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(path)
    yield path
    if before is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = before
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def dose() -> float:
    """How much of a storm to run: 1 is all of it (`make storm DOSE=0.1` is a tenth)."""
    return float(os.environ.get("DOSE", "1"))


@pytest.fixture(scope="session")
def seed() -> int:
    """Where a storm begins: `make full` has always the same one, `make storm SEED=7` that one, or else any."""
    return int(os.environ.get("SEED") or int.from_bytes(os.urandom(3), "big"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how many requirements have a test, after every full run."""
    if config.args != config.getini("testpaths") or config.option.keyword or config.option.collectonly:
        return
    from tests.architecture import requirements

    marked, known = requirements.marked(), requirements.known()
    groups = {one.split("-")[0] + "-" for one in known}
    counts = (
        f"{group[:-1]} {sum(one in marked for one in known if one.startswith(group))}"
        f"/{sum(one.startswith(group) for one in known)}"
        for group in sorted(groups)
    )
    terminalreporter.write_line("requirements with a test: " + ", ".join(counts))


def pytest_collection_finish() -> None:
    """Leave what was collected out of every later look for garbage."""
    gc.freeze()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    if os.getuid() != 0 or sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root on Linux may mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)
