"""axe-core, the accessibility checker, from npm: fetched once into `.cache/axe` and checked against its hash."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path

VERSION = "4.10.3"
HASH = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
CACHE = Path(__file__).resolve().parent.parent.parent / ".cache" / "axe"
SECONDS = 120


class NoNpm(Exception):
    """This machine has no npm; nothing was tried."""


def script() -> str:
    """The text of `axe.min.js`.

    Raises:
        NoNpm: it is not here and there is no npm to fetch it with.
        OSError, subprocess.SubprocessError: fetching it failed.
    """
    kept = CACHE / f"axe-{VERSION}.min.js"
    if not kept.exists():
        if shutil.which("npm") is None:
            raise NoNpm("needs npm to fetch axe-core, which this machine does not have")
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["npm", "pack", f"axe-core@{VERSION}", "--loglevel=error", "--pack-destination", str(CACHE)],
            cwd=CACHE, check=True, capture_output=True, timeout=SECONDS,
        )  # fmt: skip
        archive = CACHE / f"axe-core-{VERSION}.tgz"
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != HASH:
            raise OSError(f"{archive.name} is not the file that the tests were written for: sha512 is {found}")
        with tarfile.open(archive) as tar:
            member = tar.extractfile("package/axe.min.js")
            assert member is not None
            fresh = kept.with_suffix(".new")
            fresh.write_bytes(member.read())
        fresh.rename(kept)
    return kept.read_text(encoding="utf-8")
