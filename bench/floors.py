"""What the machine itself takes for the smallest thing of each kind. Also a scenario: `python -m bench floors`."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import Row, median, quantile, times


def durable_transactions(count: int = 200) -> list[float]:
    """One row inserted and committed to disk (WAL, synchronous=FULL), bare SQLite: ms each."""
    with tempfile.TemporaryDirectory() as directory:
        connection = sqlite3.connect(Path(directory) / "floor.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE rows (n INTEGER PRIMARY KEY, text TEXT)")

        def insert() -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO rows (text) VALUES (?)", ("x" * 100,))
            connection.execute("COMMIT")

        taken = times(insert, count)
        connection.close()
    return taken


def python_starts(count: int = 20) -> list[float]:
    """A Python that does nothing, from start to end: ms each."""
    return times(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), count)


def run() -> list[Row]:
    """The floors themselves."""
    commits, starts = durable_transactions(), python_starts()
    return [
        Row("bare SQLite durable transaction, median", median(commits)),
        Row("bare SQLite durable transaction, p99", quantile(commits, 0.99)),
        Row("bare Python start-up, median", median(starts)),
    ]
