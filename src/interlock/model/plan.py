"""Plans: what one says, and the order of its tasks; what came of it in its team; what a first one was made of. Pure."""

from __future__ import annotations

import hashlib
import heapq
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, field
from typing import Any, Literal

from interlock.lazy_dataclass import dataclass
from interlock.model.task import AOF

PLAN_FILES = ("plan.yaml", "plan.yml")
"""The plan of a directory: the first of these that is there, where none is named."""


def in_order(edges: Mapping[str, Collection[str]]) -> list[str]:
    """Every key of `edges`, blockers first and otherwise in the order given, so that the answer is stable.

    Blockers that are no keys themselves do not count. Keys on a cycle, and those behind one, come last as given.
    """
    place = {key: index for index, key in enumerate(edges)}
    keys = list(edges)
    waits_for = {key: {blocker for blocker in blockers if blocker in edges} for key, blockers in edges.items()}
    waited_for_by: dict[str, list[str]] = {key: [] for key in keys}
    for key, blockers in waits_for.items():
        for blocker in blockers:
            waited_for_by[blocker].append(key)
    free = [place[key] for key in keys if not waits_for[key]]
    heapq.heapify(free)
    ordered: list[str] = []
    while free:
        key = keys[heapq.heappop(free)]
        ordered.append(key)
        for dependent in waited_for_by[key]:
            waits_for[dependent].discard(key)
            if not waits_for[dependent]:
                heapq.heappush(free, place[dependent])
    done = set(ordered)
    return ordered + [key for key in keys if key not in done]


def cycles(edges: Mapping[str, Collection[str]]) -> list[list[str]]:
    """List the cycles in `edges`, each as `[a, b, a]`: a waits for b, b waits for a.

    One cycle is shown for each backward edge that a walk in the given order meets, so breaking those breaks all.
    """
    found: list[list[str]] = []
    finished: set[str] = set()
    for start in edges:
        if start in finished:
            continue
        path = [start]
        on_path = {start: 0}
        waiting = [iter([key for key in edges[start] if key in edges])]
        while path:
            following = next(waiting[-1], None)
            if following is None:
                finished.add(path[-1])
                del on_path[path.pop()]
                waiting.pop()
            elif following in on_path:
                found.append([*path[on_path[following] :], following])
            elif following not in finished:
                on_path[following] = len(path)
                path.append(following)
                waiting.append(iter([key for key in edges[following] if key in edges]))
    return found


PLAN_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")


def key_of(name: str, kind: str) -> str:
    """The key in a plan of what is called `name` elsewhere, a `kind` of thing; a name that is too long, or no key, is
    cut, and told apart by a hash."""
    named = re.sub("^TASK-", "task-", name if re.search("[A-Za-z]", name) else f"{kind}-{name}")
    if PLAN_KEY.fullmatch(named):
        return named
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", named).strip("-._")[:40]
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


Priority = Literal["critical", "high", "normal", "low"]
Isolation = Literal["none", "worktree"]


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """What a whole run of the plan may use before no new work starts; None where it does not say. `time` in seconds."""

    turns: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    time: float | None = None


@dataclass(frozen=True, slots=True)
class PlanMember:
    """Somebody who takes part.

    `agent` is `shell`, `scripted`, `command` or `acp` (then `command` holds the program and its arguments) or the name
    of an agent profile. `env` names the variables that this member sees beside the plan's own.
    """

    name: str
    agent: str
    command: tuple[str, ...] | None = None
    model: str | None = None
    permissions: str | None = None
    type: str | None = None
    env: tuple[str, ...] = ()
    limits: PlanLimits = PlanLimits()
    line: int = 0


@dataclass(frozen=True, slots=True)
class PlanTask:
    """One task, with the plan's defaults already filled in.

    `blocked_by` holds keys of the same plan. `review` is `none`, `human` or a member's name. `retries` is None where
    the setting of that name decides, `timeout` (seconds) likewise for `task_timeout`.
    """

    key: str
    subject: str
    body: str = ""
    run: str | None = None
    verify: str | None = None
    blocked_by: tuple[str, ...] = ()
    assignee: str | None = None
    review: str = "none"
    priority: Priority = "normal"
    type: str | None = None
    retries: int | None = None
    env: tuple[str, ...] = ()
    timeout: float | None = None
    labels: tuple[str, ...] = ()
    limits: PlanLimits = PlanLimits()
    metadata: Mapping[str, str | bool | int | float] = field(default_factory=dict)
    line: int = 0
    lines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole plan. `workdir` and `path` are absolute; `parallel`, `isolation` and `retries` are None where settings
    decide; `lines` says where its keys stand.
    """

    team: str
    workdir: str
    path: str
    members: Mapping[str, PlanMember]
    tasks: Mapping[str, PlanTask]
    parallel: int | None = None
    isolation: Isolation | None = None
    setup: str | None = None
    copy: tuple[str, ...] = ()
    limits: PlanLimits = field(default_factory=PlanLimits)
    retries: int | None = None
    verify: str | None = None
    check_before: bool = True
    protect: tuple[str, ...] = ()
    strict: bool = False
    env: tuple[str, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def variables(self) -> list[str]:
        """Names of all variables that somebody in it may see."""
        named = [self.env, *(one.env for one in self.members.values()), *(one.env for one in self.tasks.values())]
        return list(dict.fromkeys(name for names in named for name in names))

    @property
    def at_once(self) -> bool:
        """Whether two members may work at once."""
        return len(self.members) > 1 and self.parallel != 1


def whole_digest(plan: Plan) -> str:
    """A hash of everything that the plan asks for, in hex; where it stands and data about tasks do not count."""
    said = asdict(plan)
    for part in (said, *said["members"].values(), *said["tasks"].values()):
        for name in ("path", "workdir", "line", "lines", "metadata"):
            part.pop(name, None)
    for name in ("protect", "strict"):  # Plans from before these keys keep their digest.
        if not said[name]:
            del said[name]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode("ascii")).hexdigest()


def digest(task: PlanTask, *, data: bool = False) -> str:
    """A hash of what the task asks for, in hex: equal content, equal digest; where it stands does not count, nor does
    its metadata, because of which nothing is done but for AOF's names (with `data` all of it does: so it did in tasks
    of before).

    Values at their default are left out, so a field that a later version adds changes no digest by itself.
    """
    content: dict[str, object] = {"subject": task.subject}
    if task.blocked_by:
        content["blocked_by"] = sorted(set(task.blocked_by))
    if task.env:
        content["env"] = sorted(set(task.env))
    if task.labels:
        content["labels"] = sorted(set(task.labels))
    if data and task.metadata:
        content["metadata"] = dict(task.metadata)
    if task.review != "none":
        content["review"] = task.review
    if task.priority != "normal":
        content["priority"] = task.priority
    if task.body:
        content["body"] = task.body
    for name in ("run", "verify", "assignee", "type", "retries", "timeout"):
        value = getattr(task, name)
        if value is not None:
            content[name] = value
    if steering := {name: task.metadata[name] for name in AOF if name in task.metadata}:
        content["steering"] = steering
    limits = {name: value for name, value in asdict(task.limits).items() if value is not None}
    if limits:
        content["limits"] = limits
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task of a plan, and the task of the team that it meets: `task_id` and `state` are None for a new one."""

    key: str
    subject: str
    task_id: str | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """A plan in its team: what it says of the run, and what was done about each task.

    `time_limit` is in seconds; `limits` are those of turns, tokens and money; `notes` say what to know before running
    it. `redo`: over, and asked for again. `changed_started` and `removed_started` were begun or over and differ from
    the plan: they are left alone. `removed_open` were not begun, and are cancelled. `only`: the keys of those that are
    to be begun now, where that is not all of them.
    """

    team: str
    parallel: int | None
    time_limit: float | None
    limits: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    new: tuple[PlannedTask, ...] = ()
    updated: tuple[PlannedTask, ...] = ()
    redo: tuple[PlannedTask, ...] = ()
    unchanged: tuple[PlannedTask, ...] = ()
    changed_started: tuple[PlannedTask, ...] = ()
    removed_started: tuple[PlannedTask, ...] = ()
    removed_open: tuple[PlannedTask, ...] = ()
    only: tuple[str, ...] | None = None

    @property
    def to_ask(self) -> bool:
        """Somebody should decide before the plan continues."""
        return bool(self.changed_started or self.removed_started)

    def as_dict(self) -> dict[str, Any]:
        """The keys of the tasks by what was done about them."""
        kinds = ("new", "updated", "redo", "unchanged", "changed_started", "removed_started", "removed_open")
        changes = {kind: [task.key for task in getattr(self, kind)] for kind in kinds}
        return {"team": self.team, **changes, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class ImportedPlan:
    """Tasks of another program as the plan of a team: `path` is its file, `left_out` says why some were not taken over,
    by their ids there."""

    staged: StagedPlan
    path: str
    left_out: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """As `StagedPlan.as_dict`, with the rest."""
        return {**self.staged.as_dict(), "path": self.path, "left_out": dict(self.left_out)}


@dataclass(frozen=True, slots=True)
class FirstPlan:
    """What was found in a directory, and the files that were written for it: the team's, and a plan. Commands are None
    where none was found that would run here."""

    team: str
    files: tuple[str, str]
    agents: tuple[str, ...]
    git: bool
    committed: bool
    language: str | None
    lint: str | None
    test: str | None
    build: str | None
    setup: str | None
    missing: tuple[str, ...] = ()
    """Programs that the project uses and this machine does not have."""
