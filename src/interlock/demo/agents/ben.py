"""ben, an agent program: takes a task's text on standard input and fixes the bug that the unit tests show.

The first time he stops in the middle of his edit and dawdles, so that there is time to kill him. What he was about to
change he keeps in a file; when that is there at the start, an earlier attempt did not come to its end.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

SOURCE = Path("tally/amounts.py")
FAILING = Path("build/failing.txt")
UNFINISHED = Path(".ben-unfinished")  # the source as it was before he touched it
DAWDLE = 20  # seconds

# The bug: parentheses, which mark a refund, are thrown away together with what they mean.
FIRST = (
    '    cleaned = cleaned.strip("()")\n',
    '    refund = cleaned.startswith("(") and cleaned.endswith(")")\n    cleaned = cleaned.strip("()")\n',
)
SECOND = (
    "        return Decimal(cleaned)\n",
    "        return -Decimal(cleaned) if refund else Decimal(cleaned)\n",
)


def say(text: str) -> None:
    print(f"[ben] {text}", flush=True)


def edit(old: str, new: str) -> None:
    text = SOURCE.read_text(encoding="utf-8")
    if text.count(old) != 1:
        sys.exit(f"[ben] {SOURCE} is not as I expected it; I would rather not guess")
    SOURCE.write_text(text.replace(old, new), encoding="utf-8")


def keep() -> None:
    """Keep the source as it is now. Whenever he is killed, the copy is there whole or not at all."""
    fresh = UNFINISHED.with_suffix(".new")
    fresh.write_text(SOURCE.read_text(encoding="utf-8"), encoding="utf-8")
    fresh.replace(UNFINISHED)


def main() -> None:
    prompt = sys.stdin.read().strip()
    say(f"my task: {prompt.splitlines()[0] if prompt else 'none given'}")
    another_attempt = UNFINISHED.exists()
    if another_attempt:
        say(f"an earlier attempt ended halfway; putting {SOURCE} back as it was and starting again")
        SOURCE.write_text(UNFINISHED.read_text(encoding="utf-8"), encoding="utf-8")
    elif SECOND[1] in SOURCE.read_text(encoding="utf-8"):
        say("it is fixed already; nothing to do")
        return
    if FAILING.exists():
        say(f"failing: {', '.join(FAILING.read_text(encoding='utf-8').split())}")
    time.sleep(0.5)
    say("a refund such as (12.50) is counted as if it had been spent: its sign gets lost")

    if not another_attempt:
        keep()
    edit(*FIRST)
    if not another_attempt:
        say("halfway")
        for second in range(DAWDLE):
            say(f"thinking ... ({second} s)")
            time.sleep(1)
    edit(*SECOND)
    UNFINISHED.unlink()
    say(f"fixed {SOURCE}: amounts in parentheses are negative now")


if __name__ == "__main__":
    main()
