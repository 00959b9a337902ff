"""Processes send to one inbox, empty or full. The floor is a bare durable insert of the same message by as many."""

from __future__ import annotations

from collections.abc import Callable

from bench import homes
from bench.crew import Crew
from bench.measure import Row, at_least_times, median
from interlock.clock import SystemClock

SENDERS = 4
MESSAGES = 500
ROUNDS = 3
FULL = 50_000
CONTENT = "The parser is done; the tests that failed were about surrogates. Have a look at the second commit, please."


def run() -> list[Row]:
    """An empty inbox and a full one, each beside the floor."""
    found: dict[str, list[float]] = {"bare": [], "empty": [], "full": []}
    for _ in range(ROUNDS):
        found["bare"].append(rate("bare", 0))
        found["empty"].append(rate("sender", 0))
        found["full"].append(rate("sender", FULL))
    floor = median(found["bare"])
    goals = (at_least_times(0.4),)
    return [
        Row(f"send, {SENDERS} processes to an empty inbox", median(found["empty"]), floor, goals, "/s"),
        Row(f"send, {SENDERS} processes to {FULL:,} unread", median(found["full"]), floor, goals, "/s"),
    ]


def rate(work: str, unread: int) -> float:
    """Messages per second."""
    with homes.directory() as home:
        homes.make(home, SENDERS + 1)
        if unread:
            connection = homes.ledger(home)
            homes.fill_mail(connection, "m0", unread)
            connection.close()
        members = [(home, f"m{number + 1}") for number in range(SENDERS)]
        with Crew(f"send:{work}", members, homes.OFF) as crew:
            _, seconds = crew.race()
    return SENDERS * MESSAGES / seconds


def sender(home: str, member: str) -> Callable[[], int]:
    """A sender through the public API."""
    team = homes.open_team(home, member)

    def send() -> int:
        for _ in range(MESSAGES):
            team.send(to="m0", content=CONTENT)
        return MESSAGES

    return send


def bare(home: str, member: str) -> Callable[[], int]:
    """A sender that inserts the row into the same table, and does nothing else."""
    connection = homes.ledger(home)
    clock = SystemClock()

    def send() -> int:
        for _ in range(MESSAGES):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "INSERT INTO messages (id, sender, recipient, type, content, timestamp, stage) "
                "VALUES (?, ?, 'm0', 'message', ?, ?, 'stored')",
                (clock.new_id(), member, CONTENT, homes.AT),
            )
            connection.execute("COMMIT")
        return MESSAGES

    return send
