"""AOF/1 messages per second, end to end: text in, parsed, validated, one transaction, files written, answered.

The floor does for each message what nobody can leave out: pydantic validates it, and one row is committed to disk.
Each task gets two updates and a report, so that the mix holds what agents send most.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import homes
from bench.measure import Row, at_least_times, median
from interlock.protocol.envelope import KINDS

TASKS = 150
ROUNDS = 3


def run() -> list[Row]:
    """The router with the mirror off and on, beside the floor."""
    floor, off, on = [], [], []
    for _ in range(ROUNDS):
        floor.append(bare())
        off.append(routed(homes.OFF))
        on.append(routed(homes.ON))
    return [
        Row("AOF/1 messages, mirror off", median(off), median(floor), (at_least_times(0.4),), "/s"),
        Row("AOF/1 messages, mirror on", median(on), median(floor), (at_least_times(0.15),), "/s"),
    ]


def messages() -> list[str]:
    """What m0 says about its tasks, in order."""
    said: list[str] = []
    for number in range(1, TASKS + 1):
        task = homes.task_id(number)
        updates = ({"taskId": task, "progress": f"{share} % done", "notes": "as planned"} for share in (30, 60))
        report = {
            "outcome": "partial", "notes": "The parser reads all but comments.", "deliverables": ["src/parser.py"],
            "tests": {"total": 10, "passed": 8, "failed": 2}, "blockers": ["the grammar of comments is missing"],
        }  # fmt: skip
        said += [envelope("status.update", task, update) for update in updates]
        said.append(envelope("completion.report", task, report))
    return said


def envelope(type: str, task: str, payload: dict[str, Any]) -> str:
    """One message as text."""
    fields = {
        "protocol": "aof", "version": 1, "type": type, "taskId": task, "fromAgent": "m0", "toAgent": "lead",
        "sentAt": homes.AT, "payload": payload,
    }  # fmt: skip
    return f"AOF/1 {json.dumps(fields)}"


def routed(environment: dict[str, str]) -> float:
    """Messages per second through the public API."""
    with homes.directory() as home:
        homes.make(home, 1)
        connection = homes.ledger(home)
        homes.fill_tasks(connection, 1, TASKS)
        connection.close()
        team = homes.open_team(home, "m0", environment)
        while team.next_task() is not None:
            pass

        def send(message: str) -> None:
            answer = team.protocol(message)
            if not (answer.accepted and answer.applied):
                raise AssertionError(answer)

        return rate(send)


def bare() -> float:
    """Messages per second that are validated and written down as one row."""
    with homes.directory() as home:
        connection = sqlite3.connect(Path(home) / "floor.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE rows (n INTEGER PRIMARY KEY, text TEXT)")

        def send(message: str) -> None:
            fields = json.loads(message.removeprefix("AOF/1 "))
            KINDS[fields["type"]].model_validate(fields)
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO rows (text) VALUES (?)", (message,))
            connection.execute("COMMIT")

        found = rate(send)
        connection.close()
        return found


def rate(send: Callable[[str], None]) -> float:
    """How many messages a second `send` gets through."""
    said = messages()
    before = time.perf_counter()
    for message in said:
        send(message)
    return len(said) / (time.perf_counter() - before)
