"""What waits for a time, dated earlier by as much as the clock was set back."""

from __future__ import annotations

import sqlite3

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


def set_back(connection: sqlite3.Connection, seconds: float) -> list[str]:
    """See `ledger.Rows.set_back`."""
    concerned: set[str | None] = set()
    for statement in _WAITING:
        sql = statement.replace("[", "strftime('%Y-%m-%dT%H:%M:%fZ', ").replace("]", ", :by)")
        concerned.update(id for (id,) in connection.execute(sql, {"by": f"-{seconds:.3f} seconds"}))
    return sorted(id for id in concerned if id is not None)
