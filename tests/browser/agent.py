"""An agent for tests of the page: says what it does, asks which colour, and goes on with the answer.

    python agent.py PLACE

It waits for the file PLACE/go before it asks, so that a test can see it at work.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.05)


def main() -> None:
    place = Path(sys.argv[1])
    prompt = sys.stdin.read().lower()
    if "the blue one" in prompt:
        print("Painting it blue", flush=True)
        print(json.dumps({"status": "COMPLETE", "output": "Painted it **blue**."}))
        return
    print("Looking at the bikeshed", flush=True)
    until((place / "go").exists)
    print(json.dumps({"status": "AWAITING_RESPONSE", "output": "Which colour should the bikeshed have?"}))


main()
