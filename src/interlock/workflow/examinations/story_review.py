"""What follows from a verdict for story and status file, and which story is next (BMAD-5.13.2).

It is what the package's own review does in its last steps: notes and a line of the change log in the story, its status,
the project's status file. Both files are the user's: each is changed in its place only, and what could not be written
is said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from interlock.errors import InterlockError
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.examination import APPROVE, BLOCKED, Examined
from interlock.workflow.examinations import action_items, checklist
from interlock.workflow.examinations import story as stories
from interlock.workflow.examinations.action_items import OUTCOMES
from interlock.workflow.examinations.checklist import Evaluated
from interlock.workflow.examinations.story import Story
from interlock.workflow.state import files, status_file
from interlock.workflow.state.document import CODE_REVIEW

DONE, OPEN = "done", "in-progress"


async def settle(
    run: RunContext, round: int, found: Examined, apart: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> Examined:
    """`found` with what was done about it: the checklist's last items, and the next story that is ready."""
    settled, written = await apart(lambda: _settled(run, round, found))
    if written:
        record = run.record
        record.files = list(dict.fromkeys([*record.files, *written]))
        await run.checkpoints.wrote(run.state, written)
    assert isinstance(settled, Examined)
    return settled


def _settled(run: RunContext, round: int, found: Examined) -> tuple[Examined, list[str]]:
    config = run.package.config(run.workflow.module)
    story = stories.of_run(run.state, run.root, config)
    done: dict[str, str] = {"decided": OUTCOMES[found.verdict], "notes": "", "change log": "", "status": ""}
    written: list[str] = []
    if story is not None:
        wanted = {APPROVE: DONE, BLOCKED: OPEN}.get(found.verdict)
        if not found.details.get("own"):
            _note(run, round, found, story, wanted, done, written)
        if wanted is not None:
            _sync(run, story, wanted, config, done, written)
    details, told, summary = dict(found.details), dict(found.told), found.summary
    if "checklist" in details:
        items = checklist.settled([Evaluated(**one) for one in details["checklist"]], done)
        details["checklist"] = [one.as_dict() for one in items]
        told["checklist"] = f"{len(items) - len(checklist.open_items(items))}/{len(items)}"
        summary = f"{summary}; {told['checklist']} of the checklist evaluated"
    if found.verdict == APPROVE:
        ready = stories.next_ready(run.root, config, story.key if story else "")
        told["next_story"] = details["next_story"] = ready
        if ready is not None:
            summary = f"{summary}; next story: {ready}"
    return replace(found, summary=summary, details=details, told=told), written


def _note(
    run: RunContext,
    round: int,
    found: Examined,
    story: Story,
    status: str | None,
    done: dict[str, str],
    written: list[str],
) -> None:
    """Notes, change log and status of the story file, and ticks at what earlier rounds had found."""
    outcome, day, run_id = OUTCOMES[found.verdict], run.desk.now()[:10], run.state.workflow_id
    notes = [f"**Outcome:** {outcome}", "", found.summary]
    notes += ["", *(action_items.item(one, found.verdict) for one in found.findings)] if found.findings else []
    change = f"{day}: code review, round {round}: {outcome}"
    title = action_items.title(round, day, found.verdict, run_id)
    rounds = run.state.examinations.get(CODE_REVIEW, {}).get("rounds", ())

    def noted(text: str) -> str:
        text = action_items.ticked(text, stories.NOTES, run_id, rounds[: round - 1], found)
        return stories.with_notes(text, title, notes, change, status)

    text = _put(run, story.path, noted, done)
    if text is None:
        return
    written.append(story.path)
    done["notes"] = f"appended to {story.path}"
    done["change log"] = f"an entry in {story.path}" if change in text else ""
    if status is not None and story.status:
        done["status"] = f"{story.path} says {status}"


def _put(run: RunContext, path: str, change: Callable[[str], str], done: dict[str, str]) -> str | None:
    """What the story holds after that change; null, with a warning, where it could not be made."""
    try:
        return stories.write(files.inside(run.root, path), change)
    except (InterlockError, OSError, UnicodeDecodeError) as error:
        done["notes"] = ""
        run.warn("review_not_noted", f"The notes of the review could not be written to {path}: {error}")
        return None


def _sync(
    run: RunContext, story: Story, status: str, config: Mapping[str, Any], done: dict[str, str], written: list[str]
) -> None:
    """The story's status in the project's status file, where it keeps one."""
    path = stories.sprint_path(run.root, config)
    now = (status_file.read(path) or {}).get(story.key) if path else None
    if path is None or now is None:
        return
    try:
        if now != status:
            status_file.write(path, story.key, status, expected=now)
            written.append(files.relative(run.root, path))
    except (InterlockError, OSError) as error:
        run.warn("status_not_synced", f"{story.key} stays {now} in {path}: {error}")
        return
    done["status"] = f"{done['status']}, {story.key} is {status}".lstrip(", ")
