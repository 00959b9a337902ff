"""`python -m tests.history WHERE`: clients work while everything below them fails; were they told the truth?"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time

from tests.history.faults import KINDS
from tests.history.harness import storm


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.history", description=__doc__)
    parser.add_argument("where", choices=["calm", *KINDS])
    parser.add_argument("--operations", type=int, default=10_000, help="how many (default 10000)")
    parser.add_argument("--seconds", type=float, default=3600, help="at most so long (default 3600)")
    parser.add_argument("--seed", type=int, default=None, help="repeat the decisions of an earlier storm")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(3), "big")
    with tempfile.TemporaryDirectory(prefix="il-") as runtime:
        os.environ["XDG_RUNTIME_DIR"] = runtime
        started = time.monotonic()
        report = storm(options.operations, options.seconds, seed, options.where)
    for problem in report.problems:
        print(problem, file=sys.stderr)
    print(f"{options.where}, seed {seed}, {time.monotonic() - started:.0f} s: {report}")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
