"""Everything in one team's ledger, through one connection."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from interlock.model.team import LedgerStart, Member, Outstanding, TeamRecord
from interlock.storage import sql
from interlock.storage.sql.events import SqlEvents, SqlUpkeep
from interlock.storage.sql.runs import BY_HAND, DRIVEN, LAPSED
from interlock.storage.sql.table import SqlConnection
from interlock.storage.sql.tasks import MERGING, VERIFYING, WAITING, SqlGraph, SqlGroups, SqlTasks
from interlock.storage.sql.team import KEPT, SqlSessions, SqlTeam

_EARLIER = (
    "UPDATE tasks SET not_before = {not_before}, verifying = {verifying}, merging = {merging} "
    "WHERE state NOT IN ('done', 'deadletter', 'cancelled', 'deleted') AND "
    "(not_before IS NOT NULL OR verifying IS NOT NULL OR merging IS NOT NULL) RETURNING id",
    "UPDATE runs SET started_at = {started_at}, heartbeat_at = {heartbeat_at}, expires_at = {expires_at} "
    "WHERE ended_at IS NULL RETURNING task_id",
    "UPDATE sessions SET gone_at = {gone_at}, ended_at = {ended_at} WHERE (member, id) IN "
    "(SELECT member, session FROM runs WHERE ended_at IS NULL) RETURNING NULL",
    "UPDATE questions SET asked_at = {asked_at}, reminded_at = {reminded_at} WHERE state = 'open' RETURNING task_id",
    "UPDATE requests SET expires_at = {expires_at} WHERE state = 'open' RETURNING NULL",
)
"""What `set_back` dates earlier: the column in braces, or the `at` in it."""
_OUTSTANDING = ", ".join(
    f"EXISTS (SELECT 1 FROM {table} WHERE {which})"
    for table, which in (
        ("requests", "state = 'open'"),
        ("questions", "state = 'open'"),
        ("runs", BY_HAND),
        ("runs", DRIVEN),
        ("runs", LAPSED),
        ("tasks", "state = 'review'"),
        ("tasks", VERIFYING),
        ("tasks", MERGING),
        ("sessions", KEPT),
    )
)
"""The fields of `Outstanding`, but for the last."""


class SqlRows:
    """See `ledger.Rows`."""

    earlier: ClassVar[str]
    """The time in a column by `?1`, such as "-2.5 seconds", earlier."""
    earlier_at: ClassVar[str]
    """The JSON in a column, its `at` earlier."""

    start = LedgerStart(0, "", "", {}, None)
    """Of a ledger that is being made; `begin` knows better."""

    def __init__(self, connection: SqlConnection) -> None:
        self.connection = connection
        self.team = SqlTeam(connection)
        self.sessions = SqlSessions(connection)
        self.tasks = SqlTasks(connection)
        self.graph = SqlGraph(connection)
        self.events = SqlEvents(connection)
        self.groups = SqlGroups(connection)

    def found(self, team: TeamRecord, lead: Member, at: str) -> None:
        """What the ledger of a new team begins with."""
        self.team.insert(team)
        self.team.add_member(lead)
        self.events.append("team.created", lead.name, None, at, {"name": team.name, "lead": team.lead_session_key})
        spawned = {"name": lead.name, "session_key": lead.session_key, "agent": None}
        self.events.append("member.spawned", lead.name, None, at, spawned)
        self.events.flush()

    def begin(self, found: Sequence[Any]) -> Sequence[Any]:
        """A transaction or snapshot begins with what `START` found; what else was asked is answered."""
        self.start, others = self.team.begin(found)
        self.events.begin(self.start.head)
        return others

    @cached_property
    def runs(self) -> sql.runs.SqlRuns:
        return sql.runs.SqlRuns(self.connection)

    @cached_property
    def handoffs(self) -> sql.runs.SqlHandoffs:
        return sql.runs.SqlHandoffs(self.connection)

    @cached_property
    def messages(self) -> sql.messages.SqlMessages:
        return sql.messages.SqlMessages(self.connection)

    @cached_property
    def questions(self) -> sql.questions.SqlQuestions:
        return sql.questions.SqlQuestions(self.connection)

    @cached_property
    def requests(self) -> sql.questions.SqlRequests:
        return sql.questions.SqlRequests(self.connection)

    @cached_property
    def workflows(self) -> sql.workflows.SqlWorkflows:
        return sql.workflows.SqlWorkflows(self.connection)

    @cached_property
    def queue(self) -> sql.workflows.SqlQueue:
        return sql.workflows.SqlQueue(self.connection)

    @cached_property
    def upkeep(self) -> SqlUpkeep:
        return SqlUpkeep(self.connection)

    def outstanding(self, now: str) -> Outstanding:
        *kinds, later = self.connection.execute(f"SELECT {_OUTSTANDING}, ({WAITING})", (now, now)).fetchone()
        return Outstanding._make((*map(bool, kinds), later))

    def set_back(self, seconds: float) -> list[str]:
        concerned: set[str | None] = set()
        for statement in _EARLIER:
            columns = {name: self.earlier.format(name) for name in re.findall(r"{(\w+)}", statement)}
            columns.update({name: self.earlier_at.format(name) for name in ("verifying", "merging")})
            found = self.connection.execute(statement.format(**columns), (f"-{seconds:.3f} seconds",))
            concerned.update(id for (id,) in found)
        return sorted(id for id in concerned if id is not None)
