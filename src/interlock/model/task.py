"""A task, its states and the moves between them: one machine, three vocabularies (contract, Task states)."""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.errors import InvalidRequest
from interlock.model.json import Json

MOVES: dict[str, frozenset[str]] = {
    "backlog": frozenset("ready in-progress awaiting-response blocked cancelled deleted".split()),
    "ready": frozenset("backlog in-progress awaiting-response blocked deadletter cancelled deleted".split()),
    "in-progress": frozenset("review awaiting-response blocked ready backlog deadletter cancelled deleted".split()),
    "awaiting-response": frozenset("in-progress review ready backlog deadletter cancelled deleted".split()),
    "blocked": frozenset("in-progress awaiting-response review ready backlog deadletter cancelled deleted".split()),
    "review": frozenset("done in-progress awaiting-response blocked deadletter cancelled deleted".split()),
    "deadletter": frozenset("ready backlog cancelled deleted".split()),
    "done": frozenset(),
    "cancelled": frozenset(),
    "deleted": frozenset(),
}
"""Where a task may go from each state. Everything that changes a state asks this table."""

STATES = tuple(MOVES)
FINAL = frozenset(state for state, onward in MOVES.items() if not onward)
HELD = frozenset({"in-progress", "awaiting-response", "blocked", "review"})
"""States in which a task has an owner."""
WAITING = frozenset({"awaiting-response", "blocked"})
"""States in which a task waits for a person's answer."""
BROKEN = frozenset({"deleted", "cancelled", "deadletter"})
"""States of a blocker that will not unblock anybody by itself (decision 8)."""

_WORDS = {
    "backlog": ("pending", "QUEUED"),
    "ready": ("pending", "QUEUED"),
    "in-progress": ("in_progress", "RUNNING"),
    "awaiting-response": ("in_progress", "AWAITING_RESPONSE"),
    "blocked": ("in_progress", "BLOCKED"),
    "review": ("in_progress", "REVIEW"),
    "done": ("completed", "COMPLETE"),
    "deadletter": ("failed", "ERROR"),
    "cancelled": ("cancelled", "CANCELLED"),
    "deleted": ("deleted", "DELETED"),
}
STATUS = {state: status for state, (status, _) in _WORDS.items()}
"""The word team members use for each state."""
FRONT_DOOR = {state: word for state, (_, word) in _WORDS.items()}
"""The front door's word for each state (contract, Task states)."""

PRIORITIES = ("critical", "high", "normal", "low")
TYPES = ("READ_INFO", "REPORT", "IMPLEMENTATION", "WORKFLOW")
MEASURES = ("turns", "tokens", "cost_usd", "time")
"""What the use of a task or a member is measured in; `time` in seconds."""
AOF: dict[str, tuple[str, type]] = {
    "reviewRequired": ("review_required", bool),
    "delegationDepth": ("delegation_depth", int),
}
"""The names of AOF that stand in a task's metadata, with the field that holds each and its type."""


_SHOWN = (
    "id subject body state status owner assignee type priority review verify evidence blocked_by blocks warnings "
    "parent_id group_id project_id run env timeout retries limits run_id attempt metadata question output context "
    "worktree created_at updated_at claimed_at completed_at"
).split()


def states_filtered(word: str) -> frozenset[str]:
    """The states a filter word stands for, in any vocabulary: `ready`, `pending`, `QUEUED`.

    Raises:
        InvalidRequest: it is none of them.
    """
    return frozenset(state for state, status in FRONT_DOOR.items() if status == word) or states_named(word)


def states_named(word: str) -> frozenset[str]:
    """The states that a member's word stands for, a status or a state.

    Raises:
        InvalidRequest: it is neither.
    """
    if word in MOVES:
        return frozenset({word})
    found = frozenset(state for state, status in STATUS.items() if status == word)
    if not found:
        raise InvalidRequest(
            f"{word!r} is not a task status. Use one of: {', '.join(dict.fromkeys(STATUS.values()))}, "
            f"or a state: {', '.join(STATES)}.",
            field="status",
        )
    return found


@dataclass(slots=True)
class Task:
    """One task: the row as stored, and, in what verbs answer, its place in the graph.

    Times are ISO 8601 UTC. `run` is the number of the current run (0: never claimed), `session` the session that run
    belongs to, `failures` the failed attempts since the task was created or retried.
    """

    n: int
    id: str
    subject: str
    body: str
    state: str
    owner: str | None
    assignee: str | None
    reserved: str | None
    type: str | None
    priority: str
    review: str | None
    verify: str | None
    command: str | None
    parent_id: str | None
    group_id: str | None
    project_id: str | None
    plan_key: str | None
    plan_digest: str | None
    run: int
    session: str | None
    failures: int
    rounds: int
    open_blockers: int
    soft: bool
    rank: int
    not_before: str | None
    output: str | None
    context: str | None
    findings: str | None
    evidence: list[Json]
    verifying: Json | None
    metadata: Json
    created_by: str
    created_at: str
    updated_at: str
    claimed_at: str | None
    completed_at: str | None
    merging: Json | None = None
    """Its branch waits for its merge, or is being merged: stage, since, held, process (see `tasks.merge`)."""
    worktree: Json | None = None
    """Where its work lies: path, directory, branch, base and head (commits), returned, merged (the merge commit)."""
    env: list[str] | None = None
    """Names of variables that its programs may see; never values."""
    timeout: float | None = None
    """Seconds that one run may take."""
    retries: int | None = None
    """How often it may fail, where that is not the setting."""
    limits: dict[str, float] | None = None
    """What it may use of turns, tokens and cost_usd."""
    workflow: str | None = None
    """The workflow run that it carries out."""
    review_required: bool | None = None
    """AOF's word for `review`, which counts where that says nothing."""
    delegation_depth: int | None = None
    """How often it was handed on."""
    blocked_by: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    question: Json | None = None

    @property
    def status(self) -> str:
        """The word team members use for the state."""
        return STATUS[self.state]

    @property
    def under_way(self) -> bool:
        """Whether Interlock itself has it in hand: its verify runs, or its merge does or is about to."""
        return self.verifying is not None or self.merging is not None

    @property
    def check(self) -> Json | None:
        """How its newest check ended; None where none was run."""
        return next((one for one in reversed(self.evidence) if one["kind"] == "verify"), None)

    @property
    def run_id(self) -> str | None:
        """The current run's id, `<task id>.<number>`."""
        return f"{self.id}.{self.run}" if self.run else None

    @property
    def reserved_for(self) -> str | None:
        """The only member that may claim it now."""
        return self.reserved or self.assignee

    @property
    def attempt(self) -> int:
        """Which attempt this is; a run that used up none does not count."""
        return self.failures + 1 if self.run and self.state in HELD | {"done"} else self.failures

    def as_dict(self) -> Json:
        """The contract's shape, keys in its order; `run` is the task's command."""
        return {name: self.command if name == "run" else getattr(self, name) for name in _SHOWN}
