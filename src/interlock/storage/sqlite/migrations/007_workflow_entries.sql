-- What a workflow run collects has an entry each, so that a prompt writes what it changes and not the history.
-- `kind` is where it belongs in the run's document, `key` its name or number there, `n` its place among its kind.
CREATE TABLE workflow_entries (
    workflow_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    n INTEGER NOT NULL,
    document TEXT NOT NULL CHECK (json_valid(document)),
    PRIMARY KEY (workflow_id, kind, key)
) WITHOUT ROWID;

CREATE TEMP TABLE parts (path TEXT PRIMARY KEY, kind TEXT, type TEXT);
INSERT INTO parts VALUES
    ('$.decisions', 'decisions', 'array'), ('$.checkpoints', 'checkpoints', 'array'), ('$.asked', 'asked', 'array'),
    ('$.learned', 'learned', 'array'), ('$.menu_history', 'menu_history', 'array'),
    ('$.rollbacks', 'rollbacks', 'array'), ('$.subagents', 'subagents', 'array'),
    ('$.steps', 'steps', 'object'), ('$.loops', 'loops', 'object'), ('$.written', 'written', 'object'),
    ('$.step_names', 'step_names', 'object'), ('$.hooks.steps', 'hooks/steps', 'object');

-- A damaged document is left as it is, for `interlock workflow resume` to refuse.
CREATE TEMP TABLE sound AS SELECT id FROM workflows w
WHERE json_type(document) = 'object' AND NOT EXISTS (
    SELECT 1 FROM parts p WHERE json_type(w.document, p.path) <> p.type
);

INSERT INTO workflow_entries
SELECT w.id, p.kind, CASE p.type WHEN 'array' THEN e.key + 1 ELSE e.key END,
    row_number() OVER (PARTITION BY w.id, p.kind ORDER BY e.id),
    CASE WHEN e.type IN ('object', 'array') THEN e.value ELSE json_quote(e.value) END
FROM workflows w JOIN parts p ON json_type(w.document, p.path) IS NOT NULL, json_each(w.document, p.path) e
WHERE w.id IN (SELECT id FROM sound);

CREATE TEMP TABLE examinations AS
SELECT w.id AS run, x.key AS name, x.value AS document FROM workflows w, json_each(w.document, '$.examinations') x
WHERE w.id IN (SELECT id FROM sound) AND x.type = 'object';
INSERT INTO workflow_entries
SELECT x.run, 'examinations/' || x.name || '/rounds', e.key + 1, e.key + 1,
    CASE WHEN e.type IN ('object', 'array') THEN e.value ELSE json_quote(e.value) END
FROM examinations x, json_each(x.document, '$.rounds') e
WHERE json_type(x.document, '$.rounds') = 'array';

UPDATE workflows SET document = json_replace(document,
    '$.decisions', json('[]'), '$.checkpoints', json('[]'), '$.asked', json('[]'), '$.learned', json('[]'),
    '$.menu_history', json('[]'), '$.rollbacks', json('[]'), '$.subagents', json('[]'), '$.steps', json('{}'),
    '$.loops', json('{}'), '$.written', json('{}'), '$.step_names', json('{}'), '$.hooks.steps', json('{}')
) WHERE id IN (SELECT id FROM sound);
UPDATE workflows SET document = json_set(document, '$.examinations', (
    SELECT json_group_object(x.name, CASE json_type(x.document, '$.rounds')
        WHEN 'array' THEN json_set(x.document, '$.rounds', json('[]')) ELSE json(x.document) END)
    FROM examinations x WHERE x.run = workflows.id
)) WHERE id IN (SELECT run FROM examinations);

DROP TABLE parts;
DROP TABLE sound;
DROP TABLE examinations;
