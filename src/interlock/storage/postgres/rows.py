"""The rows of a ledger on PostgreSQL: what it says in other words than SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from interlock.model.team import ActingMember
from interlock.storage.postgres.server import PostgresConnection
from interlock.storage.sql.rows import SqlRows
from interlock.storage.sql.runs import SqlRuns
from interlock.storage.sql.tasks import SqlTasks
from interlock.storage.sql.team import SqlTeam

_EARLIER = "to_char({}::timestamptz AT TIME ZONE 'UTC' + ?1::interval, 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"


_DAYS = "(extract(epoch FROM {}::timestamptz)::float8 / 86400)"


class PostgresTasks(SqlTasks):
    """See `ledger.TaskRows`."""

    days = _DAYS
    epic = (  # No text of PostgreSQL has a NUL, so it takes nothing out of JSON with one.
        "CASE WHEN strpos(metadata, '\\u0000') > 0 THEN metadata "
        "ELSE '{\"epic\": ' || coalesce(CAST(CAST(metadata AS json) -> 'epic' AS text), 'null') || '}' END"
    )
    in_index = "coalesce(reserved, assignee), command IS NULL, labels,"


class PostgresRuns(SqlRuns):
    """See `ledger.RunRows`."""

    days = _DAYS
    names = "string_agg(DISTINCT {}, ',')"


class PostgresTeam(SqlTeam):
    """See `ledger.TeamRows`."""

    asked: tuple[tuple[str, str | None], Sequence[Any]] | None = None
    """Who entered with what the transaction began with, and what was answered."""

    def enter(self, name: str, session: str | None, at: str) -> ActingMember | None:
        asked, self.asked = self.asked, None
        if asked is not None and asked[0] == (name, session):
            return self._entered([asked[1]] if asked[1][0] is not None else [])
        return super().enter(name, session, at)


class PostgresRows(SqlRows):
    """See `ledger.Rows`."""

    connection: PostgresConnection
    team: PostgresTeam

    earlier = _EARLIER
    earlier_at = (
        f"jsonb_set({{0}}::jsonb, '{{{{at}}}}', to_jsonb({_EARLIER.format('({0}::jsonb ->> $$at$$)')}), false)::text"
    )

    def __init__(self, connection: PostgresConnection) -> None:
        super().__init__(connection)
        self.team = PostgresTeam(connection)
        self.tasks = PostgresTasks(connection)

    @cached_property
    def runs(self) -> SqlRuns:
        return PostgresRuns(self.connection)
