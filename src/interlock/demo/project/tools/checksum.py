"""Writes dist/SHA256SUMS; with --check, compares the package with it."""

import hashlib
import sys
from pathlib import Path


def main() -> int:
    """Write or compare; the exit code says whether they agree."""
    package, sums = Path("dist/tally.pyz"), Path("dist/SHA256SUMS")
    line = f"{hashlib.sha256(package.read_bytes()).hexdigest()}  {package.name}\n"
    if "--check" in sys.argv:
        agrees = sums.exists() and sums.read_text(encoding="utf-8") == line
        print("the checksum is right" if agrees else "the checksum is wrong")
        return 0 if agrees else 1
    sums.write_text(line, encoding="utf-8")
    print(line, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
