"""A little of `make week`: what may not grow in a server that is never idle. Times are for the whole dose."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from scripts import week

DAYS = 4
HANDLES, MEMORY = 12, 1.3
"""Idle readers of the ledger come and go within their limit; heaps settle in days, not in minutes."""


@pytest.mark.storm
@pytest.mark.timeout(1200)
def test_a_week_leaves_nothing_behind_and_nothing_grows(tmp_path: Path) -> None:
    rows, again = week.week(tmp_path, dose=0.004, days=DAYS)
    second, last = rows[1], rows[-1]
    home = tmp_path / "home"

    assert last.tasks > 1.8 * second.tasks and last.messages > 1.5 * second.messages, "it was at work"
    assert last.fds <= second.fds + HANDLES, rows
    assert last.rss <= second.rss * MEMORY, rows
    assert [one.processes for one in rows] == [1] * DAYS, rows
    assert [one.logs for one in rows] == [0] * DAYS, "the output of finished tasks is pruned"
    assert last.wal <= 2 * 16_777_216

    for table in ("sessions", "questions", "members", "workers"):
        assert last.rows[table] <= second.rows[table] * 1.5 + 20, (table, last.rows)
    assert again.rows["events"] <= last.rows["events"] + 10, "a start that recovers nothing says that it began"
    assert (tmp_path / "up.log").read_text() == "", "a reader that leaves is no news"
    assert not [path for path in home.rglob("*") if path.suffix == ".tmp" or path.name.startswith(".deleting")]
    assert not (home / "server.json").exists()
    assert not [one for one in psutil.Process().children(recursive=True) if str(home) in " ".join(one.cmdline())]
