"""Builds dist/tally.pyz, one file that runs wherever there is a Python."""

import shutil
import sys
import zipapp
from pathlib import Path

START = "from tally.cli import main\n\nraise SystemExit(main())\n"


def main() -> int:
    """Build it afresh."""
    stage = Path("build/package")
    shutil.rmtree(stage, ignore_errors=True)
    shutil.copytree("tally", stage / "tally", ignore=shutil.ignore_patterns("__pycache__"))
    (stage / "__main__.py").write_text(START, encoding="utf-8")
    target = Path("dist/tally.pyz")
    target.parent.mkdir(exist_ok=True)
    zipapp.create_archive(stage, target, interpreter="/usr/bin/env python3", compressed=True)
    print(f"built {target}, {target.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
