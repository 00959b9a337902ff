"""Everything in one team's ledger, through one connection."""

from __future__ import annotations

import sqlite3
from functools import cached_property

from interlock.storage import sqlite
from interlock.storage.sqlite.events import SqliteEvents
from interlock.storage.sqlite.messages import SqliteMessages
from interlock.storage.sqlite.tasks import SqliteGraph, SqliteGroups, SqliteTasks
from interlock.storage.sqlite.team import SqliteSessions, SqliteTeam

_WAITING = (
    "UPDATE tasks SET not_before = [not_before], verifying = json_replace(verifying, '$.at', "
    "[json_extract(verifying, '$.at')]), merging = json_replace(merging, '$.at', [json_extract(merging, '$.at')]) "
    "WHERE state NOT IN ('done', 'deadletter', 'cancelled', 'deleted') AND "
    "(not_before IS NOT NULL OR verifying IS NOT NULL OR merging IS NOT NULL) RETURNING id",
    "UPDATE runs SET started_at = [started_at], heartbeat_at = [heartbeat_at], expires_at = [expires_at] "
    "WHERE ended_at IS NULL RETURNING task_id",
    "UPDATE sessions SET gone_at = [gone_at], ended_at = [ended_at] WHERE (member, id) IN "
    "(SELECT member, session FROM runs WHERE ended_at IS NULL) RETURNING NULL",
    "UPDATE questions SET asked_at = [asked_at], reminded_at = [reminded_at] WHERE state = 'open' RETURNING task_id",
    "UPDATE requests SET expires_at = [expires_at] WHERE state = 'open' RETURNING NULL",
)
"""What `set_back` dates earlier; [column] stands for its time less so many seconds."""


class SqliteRows:
    """See `ledger.Rows`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.team = SqliteTeam(connection)
        self.sessions = SqliteSessions(connection)
        self.tasks = SqliteTasks(connection)
        self.graph = SqliteGraph(connection)
        self.messages = SqliteMessages(connection)
        self.events = SqliteEvents(connection)
        self.groups = SqliteGroups(connection)

    @cached_property
    def runs(self) -> sqlite.runs.SqliteRuns:
        return sqlite.runs.SqliteRuns(self.connection)

    @cached_property
    def handoffs(self) -> sqlite.runs.SqliteHandoffs:
        return sqlite.runs.SqliteHandoffs(self.connection)

    @cached_property
    def questions(self) -> sqlite.questions.SqliteQuestions:
        return sqlite.questions.SqliteQuestions(self.connection)

    @cached_property
    def requests(self) -> sqlite.questions.SqliteRequests:
        return sqlite.questions.SqliteRequests(self.connection)

    @cached_property
    def workflows(self) -> sqlite.workflows.SqliteWorkflows:
        return sqlite.workflows.SqliteWorkflows(self.connection)

    @cached_property
    def queue(self) -> sqlite.workflows.SqliteQueue:
        return sqlite.workflows.SqliteQueue(self.connection)

    def set_back(self, seconds: float) -> list[str]:
        concerned: set[str | None] = set()
        for statement in _WAITING:
            sql = statement.replace("[", "strftime('%Y-%m-%dT%H:%M:%fZ', ").replace("]", ", :by)")
            concerned.update(id for (id,) in self.connection.execute(sql, {"by": f"-{seconds:.3f} seconds"}))
        return sorted(id for id in concerned if id is not None)
