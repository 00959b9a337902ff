"""Sets the package's version to the newest one of CHANGELOG.md; with --check, only compares the two."""

import re
import sys
from pathlib import Path


def main() -> int:
    """Set or compare; the exit code says whether they agree."""
    newest = re.search(r"^## (\d+\.\d+\.\d+)$", Path("CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if newest is None:
        print("CHANGELOG.md has no heading with a version")
        return 1
    module = Path("tally/__init__.py")
    text = module.read_text(encoding="utf-8")
    wanted = re.sub(r'__version__ = ".*"', f'__version__ = "{newest[1]}"', text)
    if "--check" in sys.argv:
        print(f"the version is {newest[1]}" if text == wanted else f"the version is not {newest[1]}")
        return 0 if text == wanted else 1
    module.write_text(wanted, encoding="utf-8")
    print(f"set the version to {newest[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
