-- What a worker must offer to be given a task: labels, sorted; null where any worker will do.
ALTER TABLE tasks ADD COLUMN labels TEXT CHECK (labels IS NULL OR json_valid(labels));
DROP INDEX tasks_ready;
CREATE INDEX tasks_ready ON tasks (coalesce(reserved, assignee), command IS NULL, labels, priority, n) WHERE state = 'ready';
CREATE INDEX tasks_labels ON tasks (labels) WHERE state = 'ready' AND labels IS NOT NULL;

-- The processes that do a team's tasks, and those that did. Times are those of the ledger.
CREATE TABLE workers (
    name TEXT PRIMARY KEY,
    process TEXT NOT NULL,
    host TEXT NOT NULL,
    version TEXT NOT NULL,
    labels TEXT NOT NULL CHECK (json_valid(labels)),
    members TEXT CHECK (members IS NULL OR json_valid(members)),
    parallel INTEGER,
    load REAL,
    status TEXT NOT NULL,
    status_at TEXT NOT NULL,
    began_at TEXT NOT NULL,
    beat_at TEXT NOT NULL,
    ended_at TEXT
) WITHOUT ROWID;
