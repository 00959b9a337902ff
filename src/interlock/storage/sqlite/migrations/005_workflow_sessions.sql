-- What the workflows of one session share: what a person wants of them, and what was done once for all of them.
CREATE TABLE workflow_sessions (
    id TEXT PRIMARY KEY,
    document TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(document)),
    updated_at TEXT NOT NULL
) WITHOUT ROWID;
