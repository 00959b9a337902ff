"""`python -m tests.mutants [NAME...]`: plant each bug in a copy, and see that its test fails (`make mutants`)."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.planted import Copy, Unproven, chosen


def main(names: list[str]) -> int:
    """1 where one was not found."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="il-mutants-") as directory:
        copy = Copy(Path(directory))
        for bug in chosen(names):
            started = time.monotonic()
            try:
                copy.prove(bug)
            except Unproven as error:
                failed += 1
                print(f"NOT FOUND  {bug.name}\n{error}", flush=True)
            else:
                print(f"found      {bug.name}: {bug.why} ({time.monotonic() - started:.0f} s)", flush=True)
    print(f"{failed} of {len(chosen(names))} planted bugs were not found" if failed else "every planted bug is found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
