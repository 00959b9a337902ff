"""What one unattended build leaves behind: the story's record of 6.12 with its status, and what follows from it.

`bmad-build-auto` ends by writing a terminal status into one file: `done`, or `blocked` with its condition. A run of it
counts as complete only when that file says `done` and holds what a finished record holds: the section on its result, no
task that is open, and changes since its baseline. An answer that says so is no evidence.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.examination import APPROVE, BLOCKED, BLOCKING, BUILD_RESULT, CHANGES, Examined, Finding
from interlock.workflow.markdown import quoted
from interlock.workflow.package.files import Files
from interlock.workflow.reviews import review_brief
from interlock.workflow.reviews.code_review import FOLLOW_UP, PLAN_ONLY
from interlock.workflow.reviews.story import records
from interlock.workflow.state import status_file
from interlock.workflow.stories import inventory
from interlock.workflow.stories.inventory import folders

SKILL = "bmad-build-auto"
PLANNED = "ready-for-dev"
STATUSES = ("draft", "ready-for-dev", "in-progress", "in-review", "done", "blocked")
"""Its lifecycle; where a resume enters, the skill says itself."""
UNBLOCK = (
    "With the answer: where an attempt was saved as a patch and its reading was right, apply the patch and set the "
    "record's status to `in-review`; else put what was answered into its intent and set it to `draft`. Then follow the "
    "workflow from that status on."
)
"""A record that says `blocked` stays so until somebody changes it: the skill halts on it at once."""
INTENT_GAP = "intent gap"
RIGHT = "that reading was right"
"""The answer to an intent gap that needs no words: the attempt was reverted, and its patch kept."""
RESULT_SHOWN = 2000
CONDITION = re.compile(r"^[ \t>*-]*Blocking condition[*: \t]+(.+)$", re.IGNORECASE | re.MULTILINE)
OPEN_TASK = re.compile(r"^[ \t]*[-*][ \t]+\[ \][ \t]+(.+)$", re.MULTILINE)
RESULT = re.compile(r"^##[ \t]+Auto Run Result\b(.*?)(?=^##[ \t]|\Z)", re.MULTILINE | re.DOTALL)
TASKS = re.compile(r"^##[ \t]+Tasks\b(.*?)(?=^##[ \t]|\Z)", re.MULTILINE | re.DOTALL)
SEVERITIES = ("high", "medium", "low")
SHOWN = 10
TEXT = 10_000  # characters of a story's text, and of its spec, that reviewers are shown
WANTED = 200


@dataclass(frozen=True, slots=True)
class Deferred:
    """A finding that is not this story's."""

    summary: str
    evidence: str = ""
    location: str = ""
    severity: str = "medium"


@dataclass(frozen=True, slots=True)
class Record:
    """A story's record, as its skill left it. What it says of its baseline is not believed: what was changed is known
    without it."""

    path: str
    status: str
    condition: str
    result: str
    open_tasks: tuple[str, ...]
    followup: bool
    deferred: tuple[Deferred, ...]


def read(root: str, path: str) -> Record:
    """The record at `path`, from the project's root."""
    settings = Files(root).settings(path)
    values, body = settings.values, settings.body
    result, tasks = RESULT.search(body), TASKS.search(body)
    said = CONDITION.search(result[1] if result else body)
    listed = values.get("deferred")
    return Record(
        path, str(values.get("status") or "").strip().lower(), said[1].strip(" *`") if said else "",
        result[1].strip() if result else "",
        tuple(OPEN_TASK.findall(tasks[1])) if tasks else (), values.get(FOLLOW_UP) is True,
        tuple(_deferred(one) for one in listed[:WANTED] if _text(one)) if isinstance(listed, list) else (),
    )  # fmt: skip


def find(
    root: str, values: Mapping[str, str], config: Mapping[str, object], written: Sequence[str], changed: Sequence[str]
) -> list[str]:
    """The records that a run may have left, from the project's root: by folder and id, else of what it wrote, or at
    least `changed`; another story's is none of its own."""
    if values.get("spec_folder") and values.get("story_id"):
        return records(root, values)
    place = os.path.relpath(folders(root, config, "implementation_artifacts"), root)
    known = [one for one in written if one.endswith(".md") and os.path.dirname(one) == place]
    whole = [os.path.join(root, one) for one in known]
    if not known:
        every = glob.glob(os.path.join(glob.escape(os.path.join(root, place)), "*.md"))
        whole += [one for one in every if os.path.relpath(one, root) in changed]
    texts = Files(root)
    found = {os.path.relpath(one, root) for one in whole if texts.settings(one).values.get("status") in STATUSES}
    return sorted(found, key=lambda one: os.stat(os.path.join(root, one)).st_mtime, reverse=True)[:1]


def about(run: Draft) -> str:
    """What the lists of the project say of the story that a run implements, and its whole spec; "" where it is about
    none that they know. Reads files."""
    key = run.state.plan.values.get("story")
    one = next((one for one in inventory.read(run.package).stories if one.key == key), None) if key else None
    if one is None:
        return ""
    parts = [f"`{one.source}` says of {one.key}, {one.title}:" if one.source else f"{one.key}: {one.title}"]
    parts += [quoted(one.text[:TEXT])] if one.text.strip() else []
    path = f"{one.folder}/SPEC.md"
    text = run.package.files.text(path) if one.folder else None
    parts += [f"It is a part of `{path}`:\n\n{quoted(text[:TEXT])}"] if text and text.strip() else []
    return "\n\n".join(parts)


class BuildResult:
    """The examination of what an unattended build has left; see the module and `engine.examination.Examination`."""

    name = BUILD_RESULT
    title = "Result of the build"

    def called_for(self, run: Draft) -> str | None:
        """After every unattended build."""
        return "a build is done when its record says so" if run.workflow.skill.id == SKILL else None

    def halted(self, run: Draft) -> Examined | None:
        """What the record says, where it says that the build is blocked."""
        found = self.begin(run, 1)
        return found if found.verdict == BLOCKED else None

    def begin(self, run: Draft, round: int) -> Examined:
        """Read the record, and look whether what it says is so."""
        state = run.state
        written = [*state.documents, *state.written, *(path for one in state.steps.values() for path in one.files)]
        config = dict(run.package.config(run.workflow.module))
        changed = review_brief.of_run(state, run.root).paths
        only = PLAN_ONLY in state.plan.arguments
        return examined(run.root, state.plan.values, config, list(dict.fromkeys(written)), changed, plan_only=only)


def examined(
    root: str,
    values: Mapping[str, str],
    config: Mapping[str, object],
    written: Sequence[str],
    changed: Sequence[str],
    *,
    plan_only: bool = False,
) -> Examined:
    """The verdict on the record of a run in the project at `root`, which has `changed` those files. `plan_only`: it was
    to plan the story, and to leave the rest to another run."""
    paths = find(root, values, config, written, changed)
    if len(paths) != 1:
        why = "several files match the story's id" if paths else "there is no record of the build"
        fix = "Write the story's record with its status, as the workflow's HALT section says."
        return Examined(CHANGES, why, (Finding(BLOCKING, why, ", ".join(paths), fix),))
    record = read(root, paths[0])
    if record.status == "blocked":
        condition = record.condition or "it does not say why"
        finding = Finding(BLOCKING, condition, record.path, UNBLOCK)
        answers = [RIGHT] if INTENT_GAP in condition.lower() else []
        details = {"answers": answers, "says": record.result[:RESULT_SHOWN]}
        return Examined(BLOCKED, condition, (finding,), details, {"record": record.path, "condition": condition})
    own = {os.path.relpath(one, root) for one in status_file.paths(root, config)}
    work = [one for one in changed if one not in own and os.path.basename(one) != os.path.basename(record.path)]
    faults = _beyond_plan(record, work) if plan_only else _lacking(record, work)
    lacking = [Finding(BLOCKING, why, record.path, fix) for why, fix in faults]
    told = {"record": record.path, "status": record.status, "deferred": len(record.deferred)}
    told |= {FOLLOW_UP: True} if record.followup else {}
    if lacking:
        return Examined(CHANGES, "; ".join(one.title for one in lacking), tuple(lacking), told)
    if plan_only:
        return Examined(APPROVE, f"{record.path} says {record.status}, and nothing else was changed", (), told)
    return Examined(APPROVE, f"{record.path} says done, with its result, and {len(work)} files changed", (), told)


def _beyond_plan(record: Record, work: Sequence[str]) -> list[tuple[str, str]]:
    """What is wrong with a record that was only to be planned, and what to do about it."""
    found = []
    if record.status != PLANNED:
        found.append((f"its record says {record.status or 'no status'}, not {PLANNED}", "Plan it, and halt then."))
    if work:
        listed = ", ".join(work[:SHOWN])
        found.append((f"it was only to be planned, and this was changed: {listed}", "Take that back."))
    return found


def _lacking(record: Record, work: Sequence[str]) -> list[tuple[str, str]]:
    """What a record that is done lacks, and what to do about it. `work` is what was changed beside it and the status
    files."""
    found = []
    if record.status != "done":
        shown = record.status or "no status"
        fix = "Go on where that status enters, until it is done or blocked."
        found.append((f"its record says {shown}, not done", fix))
    if not record.result:
        found.append(("its record has no result", "Write the section `## Auto Run Result`, as the review step says."))
    if record.open_tasks:
        listed = "; ".join(record.open_tasks[:SHOWN])
        found.append((f"{len(record.open_tasks)} tasks are open: {listed}", "Do them, or say why they are not needed."))
    if not work:
        found.append(("nothing but its record was changed", "Implement the story."))
    return found


def _deferred(one: Any) -> Deferred:
    table = one if isinstance(one, Mapping) else {"summary": one}
    severity = _text(table.get("severity")).split(" ")[0].lower()
    return Deferred(
        _text(table)[:200], _text(table.get("evidence"))[:4000], _text(table.get("location"))[:300],
        severity if severity in SEVERITIES else "medium",
    )  # fmt: skip


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("summary")
    return " ".join(str(value).split()) if isinstance(value, (str, int, float)) else ""
