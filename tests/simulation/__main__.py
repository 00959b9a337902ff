"""`python -m tests.simulation [--seed N] [--count N]`: play one seed, telling every step, or many."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.story import STEPS, play


def main() -> int:
    """Play what was asked for; 1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="play this one, and tell every step")
    parser.add_argument("--first", type=int, default=0, help="the first seed of many (default 0)")
    parser.add_argument("--count", type=int, default=100, help="how many seeds (default 100)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of each (default {STEPS})")
    options = parser.parse_args()
    if options.seed is not None:
        play(options.seed, print, options.steps)
        print(f"seed {options.seed}: everything held")
        return 0
    failed = 0
    began = time.monotonic()
    for seed in range(options.first, options.first + options.count):
        try:
            play(seed, steps=options.steps)
        except Exception as error:  # boundary: the other seeds are played all the same
            failed += 1
            print(f"seed {seed}: {type(error).__name__}: {error}", file=sys.stderr)
            print(f"    python -m tests.simulation --seed {seed} --steps {options.steps}", file=sys.stderr)
    print(f"{options.count} seeds, {failed} failed, {time.monotonic() - began:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
