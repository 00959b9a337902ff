"""The board of 2,000 tasks of a real `interlock up` in Lighthouse, on a desktop and on a phone.

Performance is a score of times: it is shown here, the median of three runs, and judged by people. What a busy machine
does not change, `tests/browser/test_lighthouse.py` holds. Nothing is measured where Lighthouse is not installed
(`make programs`) or Chromium is missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import homes
from bench.measure import Row, at_least, median
from bench.server import server
from interlock.app.tokens import Tokens
from scripts import pinned
from scripts.chromium import chromium

TASKS = 2000
BOARD = f"/projects/{homes.TEAM}/board"
DEVICES = {"desktop": ("--preset=desktop",), "phone": ()}
"""Options of Lighthouse; without any it plays a phone four times slower than this machine."""
GOAL = 95
RUNS = 3
SECONDS = 240.0
FLAGS = ("--quiet", "--no-enable-error-reporting", "--output=json", "--chrome-flags=--headless --no-sandbox")


def run() -> list[Row]:
    """Performance and accessibility on each device."""
    if chromium() is None or not pinned.is_there("lighthouse"):
        return []
    rows = []
    with homes.directory() as home, board(home) as (url, cookie):
        for device in DEVICES:
            reports = [audit(url, cookie, device) for _ in range(RUNS)]
            for category in ("performance", "accessibility"):
                score = median([points(report, category) for report in reports])
                work = f"Lighthouse {category}, board of {TASKS:,} tasks, {device}"
                rows.append(Row(work, score, goals=(at_least(GOAL),), unit="points"))
    return rows


@contextmanager
def board(home: Path) -> Iterator[tuple[str, str]]:
    """Serve a board with a card of each kind: its address, and the cookie of a person."""
    team = homes.make(home, 3)
    rows = homes.ledger(home)
    half = TASKS // 2
    homes.fill_tasks(rows, 1, half, state="done", owner="m1", run=1, completed_at=homes.AT)
    homes.fill_tasks(rows, half + 1, TASKS)
    homes.fill_edges(rows, [(n, n + 1) for n in range(half + 1, TASKS, 2)])
    homes.fill_runs(rows, half)
    rows.close()
    working, asked, blocked = map(homes.task_id, range(half + 1, half + 7, 2))
    member = team.acting("m0", session="s")
    for task in (working, asked):
        member.claim(task)
    member.ask(asked, "Which port?", options=["8080", "9090"], held=False)
    team.block(blocked, reason="The staging cluster is down until noon. Shall I wait for it?")
    tokens = Tokens(str(home))
    found = tokens.redeem(tokens.new_code(), scripted=True)
    assert found is not None
    words = ["--home", str(home), "--json", "up", "--port", "0"]
    with server([sys.executable, "-m", "interlock.surfaces.cli", *words]) as (url, _):
        yield url + BOARD, f"{tokens.cookie_name}={found[0]}"


def audit(url: str, cookie: str, device: str, options: Sequence[str] = ()) -> dict[str, Any]:
    """Return Lighthouse's report on a page, as that device shows it.

    Raises:
        RuntimeError: it came to none; says why.
    """
    program = chromium()
    assert program is not None
    with TemporaryDirectory(prefix="il-", dir="/tmp") as kept:
        headers, written = Path(kept, "headers.json"), Path(kept, "report.json")
        headers.write_text(json.dumps({"Cookie": cookie}), encoding="utf-8")
        command = [str(pinned.programs("lighthouse") / "lighthouse"), url, *FLAGS, f"--extra-headers={headers}"]
        ran = subprocess.run(
            [*command, f"--output-path={written}", *DEVICES[device], *options], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=SECONDS, env={**os.environ, "CHROME_PATH": program},
        )  # fmt: skip
        if not written.exists():
            raise RuntimeError(f"Lighthouse ended with {ran.returncode}: {ran.stderr[-2000:]}")
        report: dict[str, Any] = json.loads(written.read_bytes())
    if report.get("runtimeError"):
        raise RuntimeError(f"Lighthouse: {report['runtimeError']['message']}")
    if report["finalDisplayedUrl"] != url:
        raise RuntimeError(f"Lighthouse was led to {report['finalDisplayedUrl']}")
    return report


def points(report: dict[str, Any], category: str) -> float:
    """The score in a category, of 100."""
    return 100 * float(report["categories"][category]["score"])
