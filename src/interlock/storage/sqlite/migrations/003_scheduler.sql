-- What the scheduler asks at each poll, answered without looking at every task in progress.

-- Since when the process of a session is known to be gone.
ALTER TABLE sessions ADD COLUMN gone_at TEXT;

CREATE INDEX runs_lease ON runs (expires_at) WHERE ended_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX runs_runner ON runs (runner) WHERE ended_at IS NULL AND runner IS NOT NULL;
CREATE INDEX runs_by_hand ON runs (member, session, heartbeat_at) WHERE ended_at IS NULL AND runner IS NULL;
CREATE INDEX tasks_verifying ON tasks (n) WHERE verifying IS NOT NULL;
