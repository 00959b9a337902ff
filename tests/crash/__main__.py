"""`python -m tests.crash --kills N --seed S`: kill workers at random and say whether anything was lost."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time

from tests.crash.harness import storm
from tests.crash.migrating import migrations


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="how many processes to kill (default 100)")
    parser.add_argument("--seed", type=int, default=None, help="repeat the decisions of an earlier storm")
    parser.add_argument("--keep", action="store_true", help="keep the files also when nothing is wrong")
    parser.add_argument("--migrations", action="store_true", help="kill processes that migrate a ledger instead")
    parser.add_argument("--postgres", action="store_true", help="with a ledger on PostgreSQL")
    parser.add_argument("--agents", action="store_true", help="with Claude Code and Codex among those killed")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(3), "big")
    with tempfile.TemporaryDirectory(prefix="il-") as runtime:
        os.environ["XDG_RUNTIME_DIR"] = runtime
        started = time.monotonic()
        problems = (
            migrations(options.kills, seed, options.keep)
            if options.migrations
            else storm(options.kills, seed, options.keep, postgres=options.postgres, agents=options.agents)
        )
    for problem in problems:
        print(problem, file=sys.stderr)
    verdict = f"{len(problems)} problems" if problems else "nothing was lost"
    print(f"{options.kills} kills, seed {seed}, {time.monotonic() - started:.1f} s: {verdict}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
