-- A task has a list of rows of evidence, each with its kind: so far it had what its last check showed.
UPDATE tasks SET evidence = json_array(json_set(
    evidence, '$.kind', 'verify', '$.tree', NULL, '$.by', 'interlock', '$.red_before', NULL
)) WHERE json_type(evidence) = 'object';

-- Whether a check failed on a tree before anybody worked on it; null where it came to no end of its own.
CREATE TABLE baselines (
    tree TEXT NOT NULL,
    setup TEXT NOT NULL,
    command TEXT NOT NULL,
    red INTEGER CHECK (red IN (0, 1)),
    at TEXT NOT NULL,
    PRIMARY KEY (tree, setup, command)
) WITHOUT ROWID;

-- What steers a task stands in columns that only plans, people and a lead outside of every run write (`workflow`: the
-- engine); its `metadata` is data. What members of a team put there is dropped.
ALTER TABLE tasks ADD COLUMN env TEXT CHECK (env IS NULL OR json_valid(env));
ALTER TABLE tasks ADD COLUMN timeout REAL;
ALTER TABLE tasks ADD COLUMN retries INTEGER;
ALTER TABLE tasks ADD COLUMN limits TEXT CHECK (limits IS NULL OR json_valid(limits));
ALTER TABLE tasks ADD COLUMN workflow TEXT;
ALTER TABLE tasks ADD COLUMN review_required INTEGER;
ALTER TABLE tasks ADD COLUMN delegation_depth INTEGER;
UPDATE tasks SET
    env = CASE json_type(metadata, '$.env') WHEN 'array' THEN json_extract(metadata, '$.env') END,
    timeout = CASE WHEN json_type(metadata, '$.timeout') IN ('integer', 'real') THEN json_extract(metadata, '$.timeout') END,
    retries = CASE json_type(metadata, '$.retries') WHEN 'integer' THEN json_extract(metadata, '$.retries') END,
    limits = CASE json_type(metadata, '$.limits') WHEN 'object' THEN json_extract(metadata, '$.limits') END,
    review_required = CASE json_type(metadata, '$.reviewRequired') WHEN 'true' THEN 1 WHEN 'false' THEN 0 END
WHERE metadata <> '{}' AND json_valid(metadata) AND created_by NOT IN (SELECT name FROM members WHERE role = 'member');
UPDATE tasks SET
    workflow = json_extract(metadata, '$.workflow'), retries = 0
WHERE metadata <> '{}' AND json_valid(metadata) AND json_extract(metadata, '$.workflow') IN (SELECT id FROM workflows);
UPDATE tasks SET
    delegation_depth = CASE json_type(metadata, '$.delegationDepth')
        WHEN 'integer' THEN json_extract(metadata, '$.delegationDepth') END,
    metadata = json_remove(metadata, '$.env', '$.timeout', '$.retries', '$.limits', '$.run', '$.verify', '$.workflow',
        '$.reviewRequired', '$.delegationDepth')
WHERE metadata <> '{}' AND json_valid(metadata);

-- What a run made that is in no commit: kept with the run, or only listed. See `model.artifact`.
CREATE TABLE artifacts (
    task_id TEXT NOT NULL,
    run INTEGER NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    size INTEGER,
    sha256 TEXT,
    PRIMARY KEY (task_id, run, path)
) WITHOUT ROWID;

-- Who made a task wait for another, who may also take that back: by the history, else whoever created the task so.
ALTER TABLE edges ADD COLUMN created_by TEXT;
UPDATE edges SET created_by = coalesce(
    (SELECT actor FROM events WHERE task_id = blocked AND type = 'dependency.added'
        AND json_extract(payload, '$.on') = blocker ORDER BY seq DESC LIMIT 1),
    (SELECT created_by FROM tasks WHERE id = blocked)
);

-- Prompts of a run whose tokens nobody could measure. Programs that told none were counted as if they had used none.
ALTER TABLE runs ADD COLUMN unmetered INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET unmetered = turns WHERE turns > 0 AND input_tokens + output_tokens = 0;
