-- Changes that were asked for with a key: what is sent again is not made again. `first` and `last` are the events that
-- it wrote; `status` and `answer` are null until what was answered is known.
CREATE TABLE changes (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    at TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    status INTEGER,
    answer TEXT
) WITHOUT ROWID;
CREATE INDEX changes_at ON changes (at);
