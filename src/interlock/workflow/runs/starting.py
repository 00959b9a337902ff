"""The beginning of a run: what is asked for, found among what is installed, and made a task of type WORKFLOW.

A workflow before it is run, and a run's decisions after it: what `--dry-run` and `show` tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field
from typing import Any

from interlock.core.tasks import create
from interlock.core.tasks.transition import WORKFLOW
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import InterlockError, InvalidRequest, WorkflowNotFound
from interlock.lazy_dataclass import dataclass
from interlock.model.event import Event
from interlock.model.json import Json
from interlock.model.task import Task
from interlock.workflow.engine import decision_log, documents, steps
from interlock.workflow.entry import preflight_validation, validation_type_detector
from interlock.workflow.entry.workflow_entry_wrapper import Located, detect, locate
from interlock.workflow.hooks import definitions, program
from interlock.workflow.menus import step_menus
from interlock.workflow.package import overlay, rendering
from interlock.workflow.package.packages import Invocation, Skill
from interlock.workflow.preferences import safety
from interlock.workflow.runs import override_commands
from interlock.workflow.state import queue
from interlock.workflow.state.document import RunPlan, WorkflowState
from interlock.workflow.state.workflow_state_manager import WorkflowStateManager

BRIEF_LIMIT = 200_000
STORY_TIER = 1  # no checkpoints within a story: it is verified and reviewed as a whole
VALUES = 100


SET = re.compile(r"\s--set\s+(\w+)=(\S+)")
YOLO = re.compile(r"\s--yolo(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Link:
    """One skill of a lane: `text` is its invocation with its arguments, `values` its variables."""

    text: str
    values: Mapping[str, str]
    yolo: bool

    @property
    def skill(self) -> str:
        """The invocation alone."""
        return self.text.split()[0]


@dataclass(frozen=True, slots=True)
class Lane:
    """What the task of a story, or of an epic's retrospective, runs. `story` is its key."""

    story: str
    links: tuple[Link, ...]
    brief: str = ""

    def after(self, skill: str) -> Link | None:
        """The link that follows the one of that skill."""
        place = next((number for number, one in enumerate(self.links) if one.skill == skill), len(self.links))
        return self.links[place + 1] if place + 1 < len(self.links) else None

    @property
    def body(self) -> str:
        """The text of its task."""
        lines = []
        for one in self.links:
            said = "".join(f" --set {name}={value}" for name, value in one.values.items())
            lines.append(f"{one.text}{said}{' --yolo' if one.yolo else ''}")
        return "\n".join([*lines, *(["", self.brief] if self.brief else [])])


def lane_of(body: str) -> Lane | None:
    """The lane that a task's body is; None for every other body."""
    head, _, brief = body.strip().partition("\n\n")
    links = []
    for line in head.splitlines():
        values = dict(SET.findall(line))
        if not line.startswith("/") or "story" not in values:
            return None
        links.append(Link(YOLO.sub("", SET.sub("", line)).strip(), values, YOLO.search(line) is not None))
    return Lane(links[0].values["story"], tuple(links), brief.strip()) if links else None


@dataclass(frozen=True)
class Wanted:
    """What a run is asked to do. `skill` is an invocation, with whatever was said after it as its arguments. Runs of
    one `session` share what is said to one of them."""

    skill: str
    directory: str
    brief: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    tier: int | None = None
    yolo: bool = False
    domain: str | None = None
    agent: str = ""
    arguments: str = ""
    session: str = ""
    profile: str = ""
    progress: str = ""


def new_id(act: UnitOfWork, skill: Skill) -> str:
    """`<module>-<name>-<UTC time>-<4 hex>`."""
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in skill.name.lower())
    stamp = act.at[:19].replace("-", "").replace(":", "")
    return f"{skill.module or 'core'}-{name}-{stamp}-{act.clock.new_id()[-4:]}"


def state_for(act: UnitOfWork, wanted: Wanted, found: Located) -> WorkflowState:
    """The state of a run that has not begun.

    Raises:
        InvalidRequest: the brief is too long, the tier, profile or mode is none, or there are too many values.
        WorkflowNotFound: its package lists it, and its file is not there.
        WorkflowNotRendered: its package renders it with a program that is not here.
        SafetyOverrideBlocked: a value, the arguments or the configuration want to switch off what nobody can.
    """
    if not found.package.files.exists(found.skill.path):
        raise WorkflowNotFound(
            f"{found.skill.invocation} cannot be followed: its package lists {found.skill.path}, which is not there. "
            "Install the package again.",
            skill=found.skill.invocation,
            nearest=[],
        )
    if len(wanted.brief) > BRIEF_LIMIT or len(wanted.values) > VALUES:
        raise InvalidRequest(f"A brief has at most {BRIEF_LIMIT} characters, --set at most {VALUES} values.")
    if wanted.tier is not None and not 0 <= wanted.tier <= 4:
        raise InvalidRequest("The tier is a number from 0 to 4.", field="tier")
    for name, value in wanted.values.items():
        refused = safety.attempt_setting(name, value)
        if refused is not None:
            raise safety.refusal(refused, f"{name}={value}")
    for path, fault in found.workflow.faults:
        if path == overlay.FILE:
            # What is meant to make the run careful must not be left out unseen.
            raise InvalidRequest(
                f"{path} cannot be read, so its settings and hooks would not count: line {fault.line}, "
                f"{fault.message}. Fix it or take it away, then begin again.",
                field=path,
            )
    rendering.require(found.workflow)
    override_commands.refuse_configured(found.workflow, found.package.root)
    id, given = new_id(act, found.skill), (wanted.arguments or found.arguments)[:BRIEF_LIMIT]
    said, arguments = override_commands.at_the_beginning(
        id, found.package.root, tier=wanted.tier, profile=wanted.profile, progress=wanted.progress, arguments=given,
        brief=wanted.brief, at=act.at, by=act.name,
    )  # fmt: skip
    folder = found.workflow.variables.value("output_folder") or str(
        found.package.config(found.workflow.module).get("output_folder") or ""
    )
    folder = found.workflow.variables.resolve(folder).text if folder else ""
    plan = RunPlan(
        project=found.package.root,
        output_folder=folder,
        agent=wanted.agent,
        brief=wanted.brief,
        values={str(name): str(value) for name, value in wanted.values.items()},
        tier=wanted.tier,
        domain=wanted.domain,
        yolo=wanted.yolo,
        arguments=arguments,
        session=wanted.session or id,
        said=said,
    )
    return WorkflowState(
        id, found.skill.invocation, found.workflow.hash, module=found.workflow.module, plan=plan,
        created_at=act.at, warnings=list(found.workflow.warnings),
    )  # fmt: skip


def start(
    act: UnitOfWork,
    store: WorkflowStateManager,
    wanted: Wanted,
    found: Located,
    *,
    assignee: str | None = None,
    **task: Any,
) -> Task:
    """A task whose work is the run, with its state; queued where as many workflows run as may.

    Raises:
        InvalidRequest, TaskLimit, MemberNotFound: as `tasks.create.create`.
    """
    state = state_for(act, wanted, found)
    plan = state.plan
    said = [plan.arguments[:2000], f"Brief:\n\n{plan.brief[:4000]}" if plan.brief else ""]
    body = "\n\n".join([f"Run {state.skill} in {plan.project}.", *(one for one in said if one)])
    fields = {"subject": found.skill.invocation, "body": body, "review": "none", **task, "type": WORKFLOW}
    made = create.create(act, fields.pop("subject"), assignee=assignee, **fields)
    attach(act, store, made, state)
    queue.add(act, made, skill=state.skill, data={"workflow_id": state.workflow_id})
    return made


def attach(act: UnitOfWork, store: WorkflowStateManager, task: Task, state: WorkflowState) -> None:
    """Make `task` the one that carries out the run: its state is kept with it. The engine itself retries."""
    state.task_id = task.id
    store.save(act, state)
    act.rows.tasks.update(task, workflow=state.workflow_id, retries=0, updated_at=act.at)
    act.event("workflow.started", task.id, workflow_id=state.workflow_id, skill=state.skill, by=act.name)


def for_task(act: UnitOfWork, store: WorkflowStateManager, task: Task, directory: str) -> WorkflowState:
    """The state of a task that somebody made by hand or by chat: by what its subject or body invokes.

    Raises:
        InvalidRequest, WorkflowNotFound: it invokes no workflow that is installed.
    """
    lane = lane_of(task.body)
    if lane is not None:
        return for_link(act, store, task, lane, lane.links[0], directory)
    text = f"{task.subject}\n{task.body}" if not task.body.lstrip().startswith("/") else task.body
    invoked = detect(text)
    found = locate(invoked.text if isinstance(invoked, Invocation) else text, directory)
    given = invoked.arguments if isinstance(invoked, Invocation) else ""
    wanted = Wanted(found.skill.invocation, directory, arguments=given, session=task.group_id or "")
    state = state_for(act, wanted, found)
    attach(act, store, task, state)
    return state


def for_link(
    act: UnitOfWork,
    store: WorkflowStateManager,
    task: Task,
    lane: Lane,
    link: Link,
    directory: str,
    before: WorkflowState | None = None,
) -> WorkflowState:
    """The state of one skill of a story's lane, which is now the task's. It knows what people answered in the one
    `before` it, so that nobody is asked twice for a story.

    Raises:
        InvalidRequest, WorkflowNotFound, WorkflowNotRendered: it cannot be run.
    """
    found = locate(link.text, directory)
    wanted = Wanted(
        found.skill.invocation, directory, lane.brief, link.values, tier=STORY_TIER, yolo=link.yolo,
        arguments=found.arguments, session=task.group_id or "",
    )  # fmt: skip
    state = state_for(act, wanted, found)
    for one in before.asked if before is not None else ():
        if one["purpose"] == "question" and one.get("answer") and one.get("by") == "human":
            state.asked.append({**one, "step": None, "visit": 0})
    attach(act, store, task, state)
    return state


def preview(found: Located) -> Json:
    """What a run would need and do; nothing is begun and no file is written."""
    workflow = found.workflow
    state = WorkflowState("preview", found.skill.invocation)
    first = steps.entry(workflow)
    likely = {str(one) for one in steps.expected(workflow, state, first)}
    programs = definitions.everywhere(found.package.files, workflow)
    validation = validation_type_detector.detect(workflow.settings, workflow.text)
    return {
        "skill": found.skill.invocation,
        "module": workflow.module,
        "description": found.skill.description,
        "kind": workflow.kind,
        "one_prompt": workflow.one_prompt,
        "renders": workflow.renders,
        "workflow_hash": workflow.hash,
        "package": {"generation": found.package.generation, "version": found.package.version},
        "preflight": preflight_validation.validate(
            found.package, workflow, preflight_validation.project_servers(found.package)
        ).as_dict(),
        "validation": validation.as_dict(),
        "steps": [
            {
                "step": one.id,
                "name": one.title,
                "path": one.path,
                "expected": str(id) in likely,
                "optional": one.optional,
                "menus": [list(menu.keys) for menu in step_menus.menus_of(one.text)],
                "outputs": documents.outputs(workflow, one),
                "next": [way.path for way in workflow.after(one)],
            }
            for id, one in zip(steps.identify(state, workflow.steps), workflow.steps, strict=True)
        ],
        "hooks": [
            {**asdict(one), "command": one.name, "fault": program.fault(one, found.package.root)}
            for one in programs.hooks
        ],
        "hook_faults": [{"path": one.file, "line": one.line, "message": one.message} for one in programs.malformed],
        "faults": [{"path": path, **fault.as_error()} for path, fault in workflow.faults],
    }


def decisions(state: WorkflowState, events: Iterable[Event]) -> list[Json]:
    """Every decision of a run, with what it comes to when it is made again."""
    try:
        workflow = locate(state.skill, state.plan.project).workflow
    except InterlockError:
        workflow = None
    found = []
    for event in events:
        if event.type == decision_log.EVENT and event.payload.get("workflow_id") == state.workflow_id:
            again = decision_log.replay(event.payload, workflow) if workflow is not None else None
            found.append({**event.payload, "replayed": again})
    return found
