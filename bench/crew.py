"""Processes that do one kind of work at the same time: `python -m bench.crew WORK ARGUMENT …` is one of them.

Each prepares itself, says `ready`, waits for a line, works, and answers one JSON value. So neither imports nor opening
a ledger count, and all start together.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class Crew:
    """Members of a crew, each with its own arguments. `work` is `module:function` of this package."""

    def __init__(
        self, work: str, arguments: Sequence[Sequence[object]], environment: Mapping[str, str] | None = None
    ) -> None:
        values = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", **(environment or {})}
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "bench.crew", work, *map(str, own)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=values,
            )
            for own in arguments
        ]
        for process in self._processes:
            self._line(process)

    @property
    def pids(self) -> list[int]:
        """The process ids of the members."""
        return [process.pid for process in self._processes]

    def race(self) -> tuple[list[Any], float]:
        """Let all work; their answers, and the seconds until the last of them was done."""
        began = time.perf_counter()
        self.go()
        return [self.answer(place) for place in range(len(self._processes))], time.perf_counter() - began

    def go(self) -> None:
        """Let all begin."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

    def answer(self, place: int) -> Any:
        """The next answer of one of them."""
        return json.loads(self._line(self._processes[place]))

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    @staticmethod
    def _line(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"a member of the crew ended early, with exit code {process.wait()}")
        return line


def say(value: object) -> None:
    """Answer, from within a member."""
    print(json.dumps(value), flush=True)


def main(work: str, *arguments: str) -> None:
    """Be one member."""
    module, function = work.split(":")
    prepared = getattr(import_module(f"bench.{module}"), function)(*arguments)
    print("ready", flush=True)
    sys.stdin.readline()
    say(prepared())


if __name__ == "__main__":
    main(*sys.argv[1:])
