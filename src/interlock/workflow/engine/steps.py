"""Steps of a run: their records, the way they are expected to be taken, and which one follows.

A record belongs to one step of the definition (path and line). Ids are those of the definition; where two folders of
steps use the same number, the second gets its folder's name before it, so that no two records share an id.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from interlock.lazy_dataclass import dataclass
from interlock.model.workflow import GATE as GATE
from interlock.workflow.engine import turn_interpreter as readings
from interlock.workflow.package.next_steps import chain
from interlock.workflow.package.step import Step
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.state.document import DONE, StepId, StepRecord, WorkflowState, step_key

START = 0
GOTO = re.compile(r"^(?:step[-_ ]?)?(\d{1,2}(?:\.\d{1,2})?[a-z]?)$", re.IGNORECASE)

GATES = {
    "privacy_review": "Review everything this run has written for personal and health data: what is collected, why, "
    "where it is kept, who sees it, and for how long.",
    "safety_review": "Review everything this run has written for harm to people: wrong or missing information, unsafe "
    "defaults, what happens when it fails.",
    "security_review": "Review everything this run has written for security: access, secrets, money movement, abuse.",
    "compliance_review": "Review everything this run has written against the rules of its field: name each rule that "
    "applies and where it is met or missing.",
    "audit_trail": "Check that what this run has written says who decided what, and that each requirement can be "
    "traced to its source.",
}


@dataclass(frozen=True)
class Following:
    """The step that follows, and why that one. `certain` is False where several might, and nothing says which."""

    step: Step | None
    why: str
    certain: bool = True
    ways: tuple[str, ...] = ()


def identify(state: WorkflowState, chosen: Iterable[Step]) -> list[StepId]:
    """The ids of these steps in this run."""
    places = {str(one.id): (one.path, one.line) for one in state.steps.values()}
    met = {(one.path, one.line): one.id for one in state.steps.values() if one.path}
    found = list[StepId]()
    for step in chosen:
        place = step.path, step.line
        id = met.get(place, step.id)
        if places.get(str(id), place) != place:
            folder = posixpath.basename(posixpath.dirname(step.path)).removesuffix("-steps").removeprefix("steps-")
            id = f"{folder}-{step.id}"
        found.append(id)
    return found


def record_of(state: WorkflowState, step: Step) -> StepRecord:
    """The record of a step, made where it is met for the first time."""
    [id] = identify(state, [step])
    return state.steps.setdefault(step_key(id), StepRecord(id, step.title, step.path, step.line))


def called(record: StepRecord) -> str:
    """How a step is called where people read it: its number once, and no id that only the engine knows."""
    if str(record.id).startswith(GATE) and record.name:
        return record.name
    numbered = re.match(r"step\s+[\w.-]+:", record.name, re.IGNORECASE)
    return record.name if numbered else f"Step {record.id}: {record.name}".removesuffix(": ")


def find(workflow: Workflow, record: StepRecord) -> Step | None:
    """The step of a record; gates and the start are made here."""
    if isinstance(record.id, str) and record.id.startswith(GATE):
        return gate(record.id.removeprefix(GATE), record.name)
    if record.id == START and record.path == workflow.skill.path and workflow.follow:
        return start(workflow)
    for one in workflow.steps:
        if (one.path, one.line) == (record.path, record.line):
            return one
    return None


def start(workflow: Workflow) -> Step:
    """The workflow's own text as a step, where it is what decides which file is first."""
    return Step(START, "Choose where to begin", workflow.skill.path, workflow.text, workflow.settings)


def gate(name: str, title: str = "") -> Step:
    """A validation beside the workflow's own: one that a regulated domain demands (BMAD-2a.7), which the agent does
    itself, or an examination by others, which has no text."""
    if name not in GATES:
        return Step(f"{GATE}{name}", title, "", "")
    text = (
        f"{GATES[name]}\n\nChange nothing but what the review finds wrong. End with your findings and the verdict: "
        '{"step": "completed", "verdict": "PASSED"}, or "FAILED" with the "issues" that are left.'
    )
    return Step(f"{GATE}{name}", name.replace("_", " ").capitalize(), "", text)


def entry(workflow: Workflow) -> Step:
    """Where a run begins: the only first step, or the workflow's own text that chooses among several."""
    if len(workflow.entries) > 1:
        return start(workflow)
    first = workflow.first
    return first if first is not None else start(workflow)


def expected(workflow: Workflow, state: WorkflowState, current: Step | None, gates: Sequence[str] = ()) -> list[StepId]:
    """The ids of the steps done and of those that will be gone through, branches along their likeliest way."""
    done = list(state.completed_steps)
    ahead: list[StepId] = []
    if current is not None:
        if workflow.follow and current.path in workflow.follow:
            paths = chain(current.path, workflow.follow)
            by_path = workflow.by_path
            ahead = identify(state, [by_path[path] for path in paths if path in by_path])
        elif current.id == START and workflow.follow:
            ahead = [START]
        elif current in workflow.steps:
            place = workflow.steps.index(current)
            ahead = identify(state, workflow.steps[place:])
        else:
            ahead = [current.id]
    return list(dict.fromkeys([*done, *ahead, *(f"{GATE}{name}" for name in gates)]))


def names(
    workflow: Workflow, state: WorkflowState, expected: Sequence[StepId], titles: Mapping[str, str]
) -> dict[str, str]:
    """The titles of the expected steps, by their ids; `titles` are those of the run's examinations."""
    ids = identify(state, workflow.steps)
    known = {str(id): one.title for id, one in zip(ids, workflow.steps, strict=True)}
    known |= {f"{GATE}{name}": gate(name).title for name in GATES if f"{GATE}{name}" in expected}
    known |= {f"{GATE}{name}": title for name, title in titles.items()}
    return {str(id): known[str(id)] for id in expected if known.get(str(id))}


def onward(workflow: Workflow, step: Step) -> list[str]:
    """The paths of the steps that may come after this one, the nearest first."""
    if step.id == START and workflow.follow:
        return list(workflow.entries)
    if not workflow.follow:
        return []
    near = [one.path for one in workflow.follow.get(step.path, ()) if one.exists]
    far = [path for one in near for path in chain(one, workflow.follow)]
    return [path for path in dict.fromkeys([*near, *far]) if path != step.path]


def following(workflow: Workflow, state: WorkflowState, step: Step, said: str | None, entered: str | None) -> Following:
    """The step after `step`: the one that the agent began or names, else the one that its author put there."""
    if step.id == START and workflow.follow:
        return _first(workflow, said, entered)
    if not workflow.follow:
        return _within(workflow, step, said)
    by_path = workflow.by_path
    if entered and entered in by_path:
        return Following(by_path[entered], "the agent went on to it")
    if said:
        path = readings.named(said, list(by_path))
        if path and path != step.path:
            return Following(by_path[path], "the agent says that the step leads to it")
    ways = workflow.follow.get(step.path, ())
    main = [one for one in ways if one.exists and one.path in by_path and one.via != "resume"]
    if not main:
        return Following(None, "it is the last step")
    fresh = [
        one for one in main if (record := _recorded(state, by_path[one.path])) is None or record.status not in DONE
    ]
    if not fresh:
        return Following(None, "every step that may follow is done")
    if fresh[0].via == "branch" and len([one for one in fresh if one.via == "branch"]) > 1:
        return Following(by_path[fresh[0].path], "it is the first of its branches", False, tuple(o.path for o in fresh))
    words = {
        "frontmatter": "the step's frontmatter names it",
        "order": "it is the next file",
        "branch": "it is the way on",
    }
    return Following(by_path[fresh[0].path], words.get(fresh[0].via, "the step's text names it"))


def _first(workflow: Workflow, said: str | None, entered: str | None) -> Following:
    by_path = workflow.by_path
    chosen = entered if entered in workflow.entries else readings.named(said, workflow.entries) if said else None
    if chosen:
        return Following(by_path[chosen], "the workflow's own text leads to it")
    return Following(by_path[workflow.entries[0]], "it is named first", False, workflow.entries)


def _within(workflow: Workflow, step: Step, said: str | None) -> Following:
    """Within one file: a `goto`, or the next one. A number may be written as `5` or as `step 5`."""
    if step not in workflow.steps:
        return Following(None, "it is the last step")
    wanted = GOTO.match(said.strip()) if said else None
    if wanted:
        target = next((one for one in workflow.steps if str(one.id).lower() == wanted[1].lower()), None)
        if target is not None:
            return Following(target, "the agent says that the step leads to it")
    place = workflow.steps.index(step) + 1
    if place >= len(workflow.steps):
        return Following(None, "it is the last step")
    return Following(workflow.steps[place], "it is the next step of the file")


def _recorded(state: WorkflowState, step: Step) -> StepRecord | None:
    return next((one for one in state.steps.values() if (one.path, one.line) == (step.path, step.line)), None)
