"""The statements by which mail is handed over, one for each step.

The ledger's rows run them, and so does the hooks' fast path, which pays for every import: there is none. Lists, such as
numbers of messages, are given as JSON.
"""

TOUCH = "UPDATE members SET last_active_at=?, session=? WHERE name=?"
NOTE_ALIVE = (
    "UPDATE sessions SET gone_at = NULL, process = CASE WHEN program IS NULL THEN coalesce(CAST(?1 AS TEXT), process) "
    "ELSE process END WHERE member=?2 AND id=?3 "
    "AND (gone_at IS NOT NULL OR (CAST(?1 AS TEXT) IS NOT NULL AND process IS DISTINCT FROM ?1 AND program IS NULL))"
)
NOTE_SENT_BACK = "UPDATE sessions SET sent_back=?1 WHERE member=?2 AND id=?3 AND sent_back != ?1"
OFFER = (
    "UPDATE messages SET stage='offered', attempt=attempt+1, session=?, process=?, offered_at=? "
    "WHERE n IN (SELECT value FROM json_each(?))"
)
DELIVER = (
    "UPDATE messages SET stage='delivered', delivered_at=? "
    "WHERE n IN (SELECT value FROM json_each(?)) AND stage='offered' AND session=? RETURNING id"
)
_UNSEEN = "recipient=? AND session=? AND stage='delivered'"
# Asked at each turn and nearly always for nothing: a look costs a tenth of an update that returns.
UNACKNOWLEDGED = f"SELECT id FROM messages WHERE {_UNSEEN}"
ACKNOWLEDGE = f"UPDATE messages SET stage='acknowledged', acknowledged_at=? WHERE {_UNSEEN}"
COUNT_UNREAD = "UPDATE members SET unread = unread + ? WHERE name=?"
EVENT = "INSERT INTO events (type, at, actor, task_id, payload) VALUES (?, ?, ?, ?, ?)"
NEWEST = "SELECT seq, at FROM events ORDER BY seq DESC LIMIT 1"
