"""Writes what `tally --help` prints into the README; with --check, only says whether it is there."""

import os
import subprocess
import sys
from pathlib import Path

BEGIN, END = "<!-- usage -->", "<!-- end of usage -->"


def main() -> int:
    """Write or check; the exit code says whether the README is up to date."""
    command = [sys.executable, "-m", "tally", "--help"]
    plain = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=plain).stdout
    readme = Path("README.md")
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    wanted = f"{before}{BEGIN}\n```\n{printed.strip()}\n```\n{END}{after}"
    if "--check" in sys.argv:
        print("the usage is up to date" if text == wanted else "the usage is out of date")
        return 0 if text == wanted else 1
    readme.write_text(wanted, encoding="utf-8")
    print("wrote the usage into README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
