-- The tables as the migrations up to 010 leave them: a new ledger begins with these.
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
, landed TEXT);
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
, limits TEXT CHECK (limits IS NULL OR json_valid(limits)));
CREATE TABLE sessions (
    member TEXT NOT NULL,
    id TEXT NOT NULL,
    began_at TEXT NOT NULL,
    ended_at TEXT,
    process TEXT, gone_at TEXT, program TEXT, sent_back INTEGER NOT NULL DEFAULT 0,
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
    completed_at TEXT, merging TEXT CHECK (merging IS NULL OR json_valid(merging)), worktree TEXT CHECK (worktree IS NULL OR json_valid(worktree)), env TEXT CHECK (env IS NULL OR json_valid(env)), timeout REAL, retries INTEGER, limits TEXT CHECK (limits IS NULL OR json_valid(limits)), workflow TEXT, review_required INTEGER, delegation_depth INTEGER, labels TEXT CHECK (labels IS NULL OR json_valid(labels)),
    -- A task that is held has an owner; one that waits in the queue has none.
    CHECK ((owner IS NULL) OR state NOT IN ('backlog', 'ready')),
    CHECK (state != 'in-progress' OR owner IS NOT NULL)
);
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
    blocker TEXT NOT NULL, created_by TEXT,
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
    beats INTEGER NOT NULL DEFAULT 0, result TEXT CHECK (result IS NULL OR json_valid(result)), applied TEXT, seen TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(seen)), agent_session TEXT, turns INTEGER NOT NULL DEFAULT 0, input_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0, cost_usd REAL, unmetered INTEGER NOT NULL DEFAULT 0,
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
, key TEXT, reversible INTEGER NOT NULL DEFAULT 0, session TEXT, run INTEGER, data TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(data)), answered_face TEXT, reminded_at TEXT, answered_session TEXT);
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
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    at TEXT NOT NULL,
    actor TEXT NOT NULL,
    task_id TEXT,
    payload TEXT NOT NULL
);
CREATE INDEX events_task ON events (task_id, seq) WHERE task_id IS NOT NULL;
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
CREATE INDEX runs_lease ON runs (expires_at) WHERE ended_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX runs_runner ON runs (runner) WHERE ended_at IS NULL AND runner IS NOT NULL;
CREATE INDEX runs_by_hand ON runs (member, session, heartbeat_at) WHERE ended_at IS NULL AND runner IS NULL;
CREATE INDEX tasks_verifying ON tasks (n) WHERE verifying IS NOT NULL;
CREATE INDEX questions_task ON questions (task_id, asked_at);
CREATE UNIQUE INDEX questions_key ON questions (task_id, key) WHERE key IS NOT NULL;
CREATE INDEX runs_member ON runs (member, started_at);
CREATE INDEX sessions_open ON sessions (member, id) WHERE ended_at IS NULL;
CREATE INDEX tasks_merging ON tasks (n) WHERE merging IS NOT NULL;
CREATE INDEX tasks_worktree ON tasks (n) WHERE worktree IS NOT NULL;
CREATE INDEX sessions_joined ON sessions (id) WHERE program IS NOT NULL;
CREATE INDEX sessions_windows ON sessions (process) WHERE program IS NOT NULL;
CREATE INDEX sessions_seats ON sessions (began_at) WHERE program IS NOT NULL AND ended_at IS NULL;
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
CREATE TABLE workflow_sessions (
    id TEXT PRIMARY KEY,
    document TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(document)),
    updated_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE baselines (
    tree TEXT NOT NULL,
    setup TEXT NOT NULL,
    command TEXT NOT NULL,
    red INTEGER CHECK (red IN (0, 1)),
    at TEXT NOT NULL,
    PRIMARY KEY (tree, setup, command)
) WITHOUT ROWID;
CREATE TABLE artifacts (
    task_id TEXT NOT NULL,
    run INTEGER NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    size INTEGER,
    sha256 TEXT,
    PRIMARY KEY (task_id, run, path)
) WITHOUT ROWID;
CREATE TABLE workflow_entries (
    workflow_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    n INTEGER NOT NULL,
    document TEXT NOT NULL CHECK (json_valid(document)),
    PRIMARY KEY (workflow_id, kind, key)
) WITHOUT ROWID;
CREATE INDEX tasks_ready ON tasks (coalesce(reserved, assignee), command IS NULL, labels, priority, n) WHERE state = 'ready';
CREATE INDEX tasks_labels ON tasks (labels) WHERE state = 'ready' AND labels IS NOT NULL;
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
