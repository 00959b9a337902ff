-- A task has a list of rows of evidence, each with its kind: so far it had what its last check showed.
UPDATE tasks SET evidence = json_array(json_set(
    evidence, '$.kind', 'verify', '$.tree', NULL, '$.by', 'interlock', '$.red_before', NULL
)) WHERE json_type(evidence) = 'object';

-- How a check ended on a tree before anybody worked on it. `exit_code` is null where it came to no end of its own.
CREATE TABLE baselines (
    tree TEXT NOT NULL,
    setup TEXT NOT NULL,
    command TEXT NOT NULL,
    exit_code INTEGER,
    red INTEGER CHECK (red IN (0, 1)),
    at TEXT NOT NULL,
    PRIMARY KEY (tree, setup, command)
) WITHOUT ROWID;
