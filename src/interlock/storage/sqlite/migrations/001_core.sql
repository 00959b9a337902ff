-- Teams, tasks, mail, questions and their history. Times are ISO 8601 UTC text, so they sort as they read.

CREATE TABLE team (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    lead_session_key TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'shutdown', 'deleted')),
    workdir TEXT,
    settings TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(settings)),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    day TEXT NOT NULL DEFAULT '',
    day_count INTEGER NOT NULL DEFAULT 0,
    open_tasks INTEGER NOT NULL DEFAULT 0 CHECK (open_tasks >= 0),
    runner TEXT
);

CREATE TABLE members (
    name TEXT PRIMARY KEY,
    session_key TEXT NOT NULL UNIQUE,
    inbox TEXT NOT NULL UNIQUE COLLATE NOCASE,
    role TEXT NOT NULL CHECK (role IN ('lead', 'member', 'person')),
    agent TEXT,
    command TEXT CHECK (command IS NULL OR json_valid(command)),
    type TEXT,
    model TEXT,
    permissions TEXT,
    status TEXT NOT NULL DEFAULT 'active',
    unread INTEGER NOT NULL DEFAULT 0 CHECK (unread >= 0),
    session TEXT,
    joined_at TEXT NOT NULL,
    last_active_at TEXT,
    -- Names of variables that its programs may see; never values.
    env TEXT CHECK (env IS NULL OR json_valid(env))
);

CREATE TABLE sessions (
    member TEXT NOT NULL,
    id TEXT NOT NULL,
    began_at TEXT NOT NULL,
    ended_at TEXT,
    process TEXT,
    PRIMARY KEY (member, id)
) WITHOUT ROWID;

CREATE TABLE tasks (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    subject TEXT NOT NULL,
    body TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL CHECK (state IN (
        'backlog', 'ready', 'in-progress', 'awaiting-response', 'blocked',
        'review', 'done', 'deadletter', 'cancelled', 'deleted')),
    owner TEXT,
    assignee TEXT,
    reserved TEXT,
    type TEXT,
    priority INTEGER NOT NULL DEFAULT 2 CHECK (priority BETWEEN 0 AND 3),
    review TEXT,
    verify TEXT,
    command TEXT,
    parent_id TEXT,
    group_id TEXT,
    project_id TEXT,
    plan_key TEXT,
    plan_digest TEXT,
    run INTEGER NOT NULL DEFAULT 0,
    session TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    rounds INTEGER NOT NULL DEFAULT 0,
    open_blockers INTEGER NOT NULL DEFAULT 0 CHECK (open_blockers >= 0),
    soft INTEGER NOT NULL DEFAULT 0,
    rank INTEGER NOT NULL DEFAULT 0,
    not_before TEXT,
    output TEXT,
    context TEXT,
    findings TEXT,
    evidence TEXT CHECK (evidence IS NULL OR json_valid(evidence)),
    verifying TEXT CHECK (verifying IS NULL OR json_valid(verifying)),
    metadata TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
    created_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    claimed_at TEXT,
    completed_at TEXT,
    -- A task that is held has an owner; one that waits in the queue has none.
    CHECK ((owner IS NULL) OR state NOT IN ('backlog', 'ready')),
    CHECK (state != 'in-progress' OR owner IS NOT NULL)
);

-- The ready queue of each assignee, tasks for shell members apart from the others, most urgent and oldest first.
CREATE INDEX tasks_ready ON tasks (coalesce(reserved, assignee), command IS NULL, priority, n) WHERE state = 'ready';
CREATE INDEX tasks_state ON tasks (state, n);
CREATE INDEX tasks_owner ON tasks (owner) WHERE owner IS NOT NULL AND state NOT IN ('done', 'cancelled', 'deleted', 'deadletter');
CREATE INDEX tasks_waiting ON tasks (not_before) WHERE state = 'ready' AND not_before IS NOT NULL;
CREATE INDEX tasks_plan ON tasks (plan_key, n) WHERE plan_key IS NOT NULL;

CREATE TABLE work_log (
    n INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL,
    at TEXT NOT NULL,
    author TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX work_log_task ON work_log (task_id, n);

CREATE TABLE edges (
    blocked TEXT NOT NULL,
    blocker TEXT NOT NULL,
    PRIMARY KEY (blocked, blocker)
) WITHOUT ROWID;
CREATE INDEX edges_blocker ON edges (blocker, blocked);

CREATE TABLE runs (
    task_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    member TEXT NOT NULL,
    session TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    outcome TEXT,
    reason TEXT,
    runner TEXT,
    process TEXT,
    heartbeat_at TEXT,
    expires_at TEXT,
    beats INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (task_id, number)
) WITHOUT ROWID;
CREATE INDEX runs_open ON runs (task_id, number) WHERE ended_at IS NULL;

CREATE TABLE messages (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    sender TEXT NOT NULL,
    recipient TEXT NOT NULL,
    type TEXT NOT NULL,
    content TEXT NOT NULL,
    summary TEXT,
    timestamp TEXT NOT NULL,
    stage TEXT NOT NULL CHECK (stage IN ('stored', 'offered', 'delivered', 'acknowledged')),
    attempt INTEGER NOT NULL DEFAULT 0,
    session TEXT,
    request_id TEXT,
    approve INTEGER,
    reason TEXT,
    metadata TEXT CHECK (metadata IS NULL OR json_valid(metadata)),
    urgent INTEGER NOT NULL DEFAULT 0,
    client_id TEXT,
    process TEXT,
    offered_at TEXT,
    delivered_at TEXT,
    acknowledged_at TEXT
);
CREATE INDEX messages_waiting ON messages (recipient, n) WHERE stage IN ('stored', 'offered');
CREATE INDEX messages_unseen ON messages (recipient, session) WHERE stage = 'delivered';
CREATE INDEX messages_request ON messages (request_id, n) WHERE request_id IS NOT NULL;
CREATE UNIQUE INDEX messages_client ON messages (sender, client_id, recipient) WHERE client_id IS NOT NULL;

CREATE TABLE questions (
    id TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    options TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(options)),
    "default" TEXT,
    context TEXT,
    asked_at TEXT NOT NULL,
    asked_by TEXT NOT NULL,
    held INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'withdrawn')),
    answer TEXT,
    answered_by TEXT,
    answered_at TEXT
);
CREATE INDEX questions_open ON questions (task_id, asked_at) WHERE state = 'open';

CREATE TABLE requests (
    id TEXT PRIMARY KEY,
    subject TEXT NOT NULL,
    asked_by TEXT NOT NULL,
    asked TEXT NOT NULL CHECK (json_valid(asked)),
    answers TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(answers)),
    reason TEXT,
    state TEXT NOT NULL CHECK (state IN ('open', 'granted', 'rejected', 'expired')),
    at TEXT NOT NULL,
    expires_at TEXT NOT NULL
);
CREATE INDEX requests_open ON requests (at) WHERE state = 'open';

-- One writer at a time and no deletions: the next rowid is the next number, without gaps, in commit order.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    at TEXT NOT NULL,
    actor TEXT NOT NULL,
    task_id TEXT,
    payload TEXT NOT NULL
);
CREATE INDEX events_task ON events (task_id, seq) WHERE task_id IS NOT NULL;
