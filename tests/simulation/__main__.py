"""`python -m tests.simulation`: play one seed (`--seed N`), telling every step, or many, and say what they reached."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.story import STEPS, play
from tests.simulation.world import EVERYTHING


def main() -> int:
    """Play what was asked for; 1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="play this one, and tell every step")
    parser.add_argument("--first", type=int, default=0, help="the first seed of many (default 0)")
    parser.add_argument("--count", type=int, default=100, help="how many seeds (default 100)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of each (default {STEPS})")
    parser.add_argument("--postgres", action="store_true", help="over a ledger on PostgreSQL")
    options = parser.parse_args()
    if options.seed is not None:
        play(options.seed, print, options.steps, postgres=options.postgres)
        print(f"seed {options.seed}: everything held")
        return 0
    failed = 0
    reached: Counter[tuple[str, str]] = Counter()
    began, used = time.monotonic(), time.process_time()
    for seed in range(options.first, options.first + options.count):
        try:
            reached += play(seed, steps=options.steps, postgres=options.postgres)
        except Exception as error:  # boundary: the other seeds are played all the same
            failed += 1
            print(f"seed {seed}: {type(error).__name__}: {error}", file=sys.stderr)
            print(f"    python -m tests.simulation --seed {seed} --steps {options.steps}", file=sys.stderr)
    passed, cpu = time.monotonic() - began, time.process_time() - used
    speed = f"{options.count / cpu:.1f} seeds and {options.count * options.steps / cpu:,.0f} steps a second of CPU time"
    print(f"{options.count} seeds, {failed} failed, {passed:.1f} s; {speed}")
    for kind, names in EVERYTHING.items():
        missed = [name for name in names if not reached[kind, name]]
        print(f"{kind}: {len(names) - len(missed)} of {len(names)} reached", f"not: {', '.join(missed)}" * bool(missed))
    for name in EVERYTHING["faults"]:
        print(f"    {reached['faults', name]:6,} × {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
