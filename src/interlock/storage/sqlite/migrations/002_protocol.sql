-- AOF/1: what a run reported, and what was handed over to whom.

ALTER TABLE runs ADD COLUMN result TEXT CHECK (result IS NULL OR json_valid(result));
ALTER TABLE runs ADD COLUMN applied TEXT;
ALTER TABLE runs ADD COLUMN seen TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(seen));

CREATE TABLE handoffs (
    task_id TEXT PRIMARY KEY,
    parent_id TEXT NOT NULL,
    from_agent TEXT NOT NULL,
    to_agent TEXT NOT NULL,
    payload TEXT NOT NULL CHECK (json_valid(payload)),
    state TEXT NOT NULL CHECK (state IN ('requested', 'accepted', 'rejected')),
    reason TEXT,
    requested_at TEXT NOT NULL,
    answered_at TEXT
) WITHOUT ROWID;
