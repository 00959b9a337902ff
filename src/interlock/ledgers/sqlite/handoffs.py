"""What was handed over to whom."""

from __future__ import annotations

from typing import Any

from interlock.jsontext import from_json
from interlock.ledgers.sqlite.table import Table, assign
from interlock.model.handoff import Handoff

_HANDOFF = "task_id, parent_id, from_agent, to_agent, payload, state, reason, requested_at, answered_at"


class SqliteHandoffs(Table):
    """See `ledger.HandoffRows`."""

    name = "handoffs"
    key = "task_id"
    columns = tuple(_HANDOFF.split(", "))
    json_columns = frozenset({"payload"})

    def put(self, handoff: Handoff) -> None:
        values = [self.encoded(column, getattr(handoff, column)) for column in self.columns]
        self.connection.execute(
            f"INSERT OR REPLACE INTO handoffs ({_HANDOFF}) VALUES (?{', ?' * (len(values) - 1)})", values
        )

    def update(self, handoff: Handoff, **changes: Any) -> None:
        self.write(handoff.task_id, changes)
        assign(handoff, changes)

    def get(self, task_id: str) -> Handoff | None:
        row = self.connection.execute(f"SELECT {_HANDOFF} FROM handoffs WHERE task_id=?", (task_id,)).fetchone()
        if row is None:
            return None
        handoff = Handoff(*row)
        handoff.payload = from_json(row[4])
        return handoff
