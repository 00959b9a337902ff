-- Questions that are held by a session or asked again after a crash, what runs cost, chat sessions, merges, workflows.

-- `key` makes asking the same thing again answer the same question; `reversible` lets a time-out take the default.
ALTER TABLE questions ADD COLUMN key TEXT;
ALTER TABLE questions ADD COLUMN reversible INTEGER NOT NULL DEFAULT 0;
ALTER TABLE questions ADD COLUMN session TEXT;
ALTER TABLE questions ADD COLUMN run INTEGER;
ALTER TABLE questions ADD COLUMN data TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(data));
ALTER TABLE questions ADD COLUMN answered_face TEXT;
ALTER TABLE questions ADD COLUMN reminded_at TEXT;
ALTER TABLE questions ADD COLUMN answered_session TEXT;
CREATE INDEX questions_task ON questions (task_id, asked_at);
CREATE UNIQUE INDEX questions_key ON questions (task_id, key) WHERE key IS NOT NULL;

-- What a run spent, as its agent told, and the agent's own id of the session, to resume it by.
ALTER TABLE runs ADD COLUMN agent_session TEXT;
ALTER TABLE runs ADD COLUMN turns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN cost_usd REAL;
CREATE INDEX runs_member ON runs (member, started_at);
-- The sessions that live, without looking at all that ever did.
CREATE INDEX sessions_open ON sessions (member, id) WHERE ended_at IS NULL;
-- What a member may use: turns, tokens, cost_usd, time (seconds).
ALTER TABLE members ADD COLUMN limits TEXT CHECK (limits IS NULL OR json_valid(limits));

-- A task whose branch is being merged, like one whose verify is under way; and where its work lies.
ALTER TABLE tasks ADD COLUMN merging TEXT CHECK (merging IS NULL OR json_valid(merging));
ALTER TABLE tasks ADD COLUMN worktree TEXT CHECK (worktree IS NULL OR json_valid(worktree));
CREATE INDEX tasks_merging ON tasks (n) WHERE merging IS NOT NULL;
CREATE INDEX tasks_worktree ON tasks (n) WHERE worktree IS NOT NULL;

-- Programs that people start and that joined: `program` is their kind, null for every other session. A stop hook sends
-- the agent back at most once a turn.
ALTER TABLE sessions ADD COLUMN program TEXT;
ALTER TABLE sessions ADD COLUMN sent_back INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sessions_joined ON sessions (id) WHERE program IS NOT NULL;
CREATE INDEX sessions_windows ON sessions (process) WHERE program IS NOT NULL;
CREATE INDEX sessions_seats ON sessions (began_at) WHERE program IS NOT NULL AND ended_at IS NULL;

-- One row per chat session, kept with its tasks in the same transaction, so that a list of them never counts.
CREATE TABLE chat_groups (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    first_prompt TEXT NOT NULL,
    latest_task TEXT,
    task_count INTEGER NOT NULL DEFAULT 0,
    state_counts TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(state_counts))
);
CREATE INDEX chat_groups_updated ON chat_groups (updated_at DESC, n DESC);
CREATE INDEX tasks_group ON tasks (group_id, n) WHERE group_id IS NOT NULL;

-- A workflow's state: one versioned row, written in the transaction that asks or completes.
CREATE TABLE workflows (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    task_id TEXT,
    skill TEXT NOT NULL,
    state TEXT NOT NULL,
    outcome TEXT,
    version INTEGER NOT NULL,
    document TEXT NOT NULL CHECK (json_valid(document)),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE INDEX workflows_task ON workflows (task_id);
CREATE INDEX tasks_workflow ON tasks (state) WHERE type = 'WORKFLOW';
CREATE TABLE workflow_queue (
    n INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL UNIQUE,
    skill TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 2,
    queued_by TEXT NOT NULL,
    queued_at TEXT NOT NULL,
    data TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(data))
);
CREATE INDEX workflow_queue_order ON workflow_queue (priority, n);
