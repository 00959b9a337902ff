"""Single files of packages from npm: fetched once into `.cache/npm` and checked against the hash of their package."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

CACHE = Path(__file__).resolve().parent.parent.parent / ".cache" / "npm"
SECONDS = 300


def file_of(package: str, version: str, sha512: str, member: str) -> Path:
    """Return the file `member` of a package; skip the test where there is no npm, or, but on CI, no registry."""
    kept = CACHE / f"{package}-{version}-{Path(member).name}"
    if not kept.exists():
        if shutil.which("npm") is None:
            pytest.skip(f"needs npm to fetch {package}, which this machine does not have")
        try:
            _fetch(package, version, sha512, member, kept)
        except (OSError, subprocess.SubprocessError) as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"{package} could not be fetched: {error}")
    return kept


def _fetch(package: str, version: str, sha512: str, member: str, kept: Path) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    # In a directory of its own: another test process may be fetching the same package.
    with tempfile.TemporaryDirectory(dir=CACHE) as own:
        subprocess.run(
            ["npm", "pack", f"{package}@{version}", "--loglevel=error", "--pack-destination", own],
            cwd=own, check=True, capture_output=True, timeout=SECONDS,
        )  # fmt: skip
        archive = Path(own, f"{package}-{version}.tgz")
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != sha512:
            raise OSError(f"{archive.name} is not the file that the tests were written for: sha512 is {found}")
        with tarfile.open(archive) as tar:
            packed = tar.extractfile(f"package/{member}")
            assert packed is not None
            fresh = Path(own, kept.name)
            fresh.write_bytes(packed.read())
        fresh.replace(kept)
