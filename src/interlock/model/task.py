"""A task, its states and the moves between them: one machine, three vocabularies (contract, Task states)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, TypedDict, get_args, get_origin, get_type_hints

from interlock.errors import InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.model.evidence import shown
from interlock.model.json import Json, fields_of
from interlock.model.names import ANY, FULL, LABEL, VARIABLE, check_metadata

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
COLUMNS = {
    "next": ("ready", "backlog"),
    "working": ("in-progress", "review"),
    "needs-you": ("awaiting-response", "blocked", "deadletter"),
    "in-review": ("review",),
    "to-merge": ("review",),
    "done": ("done", "cancelled"),
}
"""The columns of a board and the states in them. What is in review is at work while its check runs, and waits for its
merge once it was approved."""
BROKEN = {"deleted": "was deleted", "cancelled": "was cancelled", "deadletter": "failed"}
"""States of a blocker that will not unblock anything by itself (decision 8), with what happened to it."""

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
AGELESS = 1e9
"""Seconds that stand for "never" where waiting makes no task more urgent."""
TYPES = ("READ_INFO", "REPORT", "IMPLEMENTATION", "WORKFLOW")
MEASURES = ("turns", "tokens", "cost_usd", "time")
"""What the use of a task or a member is measured in; `time` in seconds."""
AOF: dict[str, tuple[str, type]] = {
    "reviewRequired": ("review_required", bool),
    "delegationDepth": ("delegation_depth", int),
}
"""The names of AOF that stand in a task's metadata, with the field that holds each and its type."""


SHOWN = (
    "id subject body state status owner assignee type priority review verify evidence blocked_by blocks warnings "
    "parent_id group_id project_id run=command env timeout retries limits run_id attempt metadata question output "
    "context worktree changed labels created_at updated_at claimed_at completed_at"
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


class TaskField(NamedTuple):
    """What every face needs to know of a field that a new task, or an edit of one, may have.

    Attributes:
        words: what it says.
        value: how the command line shows its value.
        default: what counts where it is left out.
        agents: it is in the tools of agents, too.
        control: it says what is executed, with which variables, and how far it may go: only for plans, people, and a
            lead outside every run.
        fixed: it cannot be edited later.
        column: what the task calls it, where that is something else.
        longest: characters of a text, or of each of several.
        pattern: what it, or each of several, must match.
        most: how many there may be.
        bounds: of a number.
        kind, optional: its type as JSON has it, and whether it may be null; from its annotation.
    """

    words: str
    value: str | None = None
    default: Any = None
    agents: bool = False
    control: bool = False
    fixed: bool = False
    column: str = ""
    choices: tuple[str, ...] = ()
    longest: int | None = None
    pattern: str = ANY
    most: int | None = None
    bounds: tuple[int, int | None] = (0, None)
    kind: Any = str
    optional: bool = False

    def schema(self) -> Json:
        """Its JSON Schema, without null."""
        text = _said({"type": "string", "pattern": self.pattern, "maxLength": self.longest})
        number: Json = {"type": "number", "minimum": self.bounds[0], "maximum": self.bounds[1]}
        values, names = {"type": "number", "minimum": 0}, {"enum": list(self.choices)}
        shapes: dict[Any, Json] = {
            str: {"type": "string", **names} if self.choices else text,
            list[str]: {"type": "array", "items": text, "maxItems": self.most},
            int: {**number, "type": "integer"},
            float: number,
            dict[str, float]: {"type": "object", "additionalProperties": values, "propertyNames": names},
            dict[str, Any]: {"type": "object", "additionalProperties": True},
        }
        return _said(shapes[self.kind])


def _said(schema: Json) -> Json:
    return {name: value for name, value in schema.items() if value is not None}


class TaskSpec(TypedDict, total=False):
    """What a new task may say beside its subject. This is the only list: the verb, the options of the command line, the
    bodies of requests and the arguments of tools are made from it (`task_fields`)."""

    body: Annotated[
        str, TaskField("What is to be done, and when it counts as done.", default="", longest=10_000, agents=True)
    ]
    type: Annotated[str | None, TaskField("What kind of work it is.", "T", choices=TYPES, agents=True)]
    priority: Annotated[str, TaskField("How urgent it is.", default="normal", choices=PRIORITIES, agents=True)]
    assignee: Annotated[str | None, TaskField("The only member that may claim it.", "M", fixed=True, agents=True)]
    blocked_by: Annotated[
        Sequence[str], TaskField("Tasks it waits for.", "ID …", default=(), fixed=True, pattern=FULL, agents=True)
    ]
    review: Annotated[
        str | None, TaskField("Who must approve before it is done: none, human or a member.", "WHO", agents=True)
    ]
    verify: Annotated[
        str | None,
        TaskField("The command that must succeed before it is done.", "CMD", control=True, pattern=FULL, agents=True),
    ]
    run: Annotated[
        str | None,
        TaskField(
            "The command that a shell member runs to do it.", "CMD", control=True, pattern=FULL, column="command"
        ),
    ]
    parent_id: Annotated[str | None, TaskField("The task it is a part of.", "ID", fixed=True, pattern=FULL)]
    metadata: Annotated[Json | None, TaskField("Your own data; Interlock does not act on it.", "JSON")]
    env: Annotated[
        Sequence[str] | None,
        TaskField(
            "Variables that its programs may see.",
            "NAME,…",
            control=True,
            pattern=f"^{VARIABLE}$",
            longest=100,
            most=100,
        ),
    ]
    timeout: Annotated[float | None, TaskField("How many seconds one run may take.", "SECONDS", control=True)]
    retries: Annotated[int | None, TaskField("How often it may fail.", "N", control=True, bounds=(0, 1000))]
    labels: Annotated[
        Sequence[str] | None,
        TaskField("Labels that a worker must offer to do it.", "NAME,…", pattern=f"^{LABEL}$", longest=50, most=20),
    ]
    limits: Annotated[
        Mapping[str, float] | None,
        TaskField("What its runs may use before a person is asked.", "JSON", control=True, choices=MEASURES),
    ]


@cache
def task_fields() -> dict[str, TaskField]:
    """The fields of `TaskSpec`, in its order."""
    found = {}
    for name, hint in get_type_hints(TaskSpec, include_extras=True).items():
        annotation, described = get_args(hint)
        types = [one for one in get_args(annotation) if one is not NoneType] if NoneType in get_args(annotation) else []
        kind = types[0] if types else annotation
        kinds = {Sequence: list[str], Mapping: dict[str, float], dict: dict[str, Any]}
        kind = kinds.get(get_origin(kind), kind)
        found[name] = described._replace(column=described.column or name, kind=kind, optional=bool(types))
    return found


@cache
def names_outside_metadata() -> frozenset[str]:
    """Names that metadata must not hold, lest somebody believes that they do something there."""
    return frozenset(("workflow", *(name for name, field in task_fields().items() if field.control)))


def metadata_faults(metadata: object) -> Iterator[InvalidRequest]:
    """Why `metadata` cannot be that of a task, whoever says it: `field` of each names the place."""
    try:
        data = check_metadata(metadata)
    except InvalidRequest as error:
        yield error
        return
    for name in sorted(names_outside_metadata() & data.keys()):
        message = f"metadata is data and must not hold {name}: set the task's own field instead."
        yield InvalidRequest(message, field=f"metadata.{name}")
    for name, (_, kind) in AOF.items():
        value = data.get(name)
        if value is not None and (type(value) is not kind or value < 0):  # type: ignore[operator]
            what = "true or false" if kind is bool else "a whole number of at least 0"
            yield InvalidRequest(f"{name} must be {what}.", field=f"metadata.{name}")


VARYING = (
    r"(?:\b\d{4}-\d\d-\d\d[T ])?(?<!\d)\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b\d+(?:\.\d+)? ?[mµ]?s\b|\b0x[0-9a-f]+\b"
)
"""What differs between two failures with one reason: dates, times, durations, addresses in memory."""


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
    labels: list[str] | None = None
    """What a worker must offer to be given it."""
    blocked_by: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    question: Json | None = None
    why: str | None = field(default=None, compare=False)
    """Why it goes no further now, where one task was asked for and that is known; lists do not tell."""
    linked: bool = field(default=True, compare=False)
    """False where it is known that it neither waits, or waited, for another task nor another for it."""

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
    def cause(self) -> str | None:
        """All that is known of why it failed, for comparison with others: without its id and what varies by itself."""
        return self.output and re.sub(VARYING, "", self.output.replace(self.id, ""), flags=re.IGNORECASE)

    @property
    def epic(self) -> str:
        """The epic that its plan says it is of, as `epic` of its metadata; empty where nobody says."""
        found = self.metadata.get("epic")
        return found if isinstance(found, str) else ""

    @property
    def run_id(self) -> str | None:
        """The current run's id, `<task id>.<number>`."""
        return f"{self.id}.{self.run}" if self.run else None

    @property
    def reserved_for(self) -> str | None:
        """The only member that may claim it now."""
        return self.reserved or self.assignee

    @property
    def changed(self) -> list[Json] | None:
        """The files that its work has changed, `{path, kind}` with the kinds `added`, `changed` and `deleted`; the
        first 50, where there are more. None: not known."""
        files = ((self.worktree or {}).get("changes") or {}).get("files")
        return None if files is None else [{"path": one["path"], "kind": one["status"]} for one in files]

    @property
    def attempt(self) -> int:
        """Which attempt this is; a run that used up none does not count."""
        return self.failures + 1 if self.run and self.state in HELD | {"done"} else self.failures

    def as_dict(self) -> Json:
        """The contract's shape, keys in its order; `run` is the task's command."""
        return {**fields_of(self, SHOWN), "evidence": shown(self.evidence or ())}
