"""What follows from the verdict of a code review for the story and its status, and which story is next (BMAD-5.13.2).

It is what the package's own review does in its last steps: notes, items and a line of the change log in the story, its
status, the project's status file. Both files are the user's: each is changed in its place only, and what could not be
written is said. Items (`- [ ] [High] …`) are ticked once their findings are fixed: only lines that are, letter for
letter, the item of a finding that the run knows, below the heading of the round that it belongs to.

A story run is bound to its story (finding B6). At the start the run says which story it implements: the one that was
named, the one that is at work, else the first that is ready; without any it asks. An approval of the reviewers then
still needs what the project itself shows: work beside the story's own files, a File List that is what was changed,
ticked tasks, every item of the checklist looked at.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.errors import InterlockError
from interlock.workflow.engine import documents
from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.examination import APPROVE, BLOCKED, BLOCKING, CHANGES, MAJOR, Examined, Finding
from interlock.workflow.reviews import checklist, review_brief, reviewers
from interlock.workflow.reviews import story as stories
from interlock.workflow.reviews.checklist import Evaluated
from interlock.workflow.reviews.review_brief import Changes
from interlock.workflow.reviews.reviewers import OF_EVIDENCE
from interlock.workflow.reviews.story import Story
from interlock.workflow.state import files, status_file
from interlock.workflow.state.document import CODE_REVIEW

MAKERS = ("dev-story", "bmad-dev-story")
STORY_PATH = "story_path"
LISTED = 12  # paths, tasks or items that one finding names
UNTICKED = "- [ ]"

OUTCOMES = {APPROVE: "Approve", CHANGES: "Changes Requested", BLOCKED: "Blocked"}
STATUSES = {APPROVE: "done", BLOCKED: "in-progress"}
OPEN_BOX, TICKED = "- [ ] ", "- [x] "
HEADING = re.compile(r"#{1,6}[ \t]")


def story_of(run: Draft) -> Story | None:
    """The story that a run is about. Only one that is about a story where it names none takes the one at work."""
    name = run.workflow.skill.name
    guess = name.endswith("dev-story") or review_brief.is_review(run.workflow.skill)
    return stories.of_run(run.state, run.root, run.package.config(run.workflow.module), guess=guess)


def bind(run: Draft) -> str | None:
    """Bind the run to its story, which its agent is told of; what to ask a human where there is none.

    A story that was named and is not there is never replaced by another one.
    """
    state, config = run.state, run.package.config(run.workflow.module)
    if run.workflow.skill.name not in MAKERS:
        return None
    given = [state.plan.values[name] for name in stories.VARIABLES if state.plan.values.get(name)]
    words = [word.strip("`'\"(),") for word in state.plan.arguments.split()]
    given += [word for word in words if word.endswith(".md") or stories.NUMBER.match(word)]
    named = given[0] if given else ""
    story = stories.find(run.root, given[:1], (), config)
    name = posixpath.basename(named).removesuffix(".md").removeprefix("story-").replace(".", "-")
    if named and (story is None or not (story.key == name or story.key.startswith(f"{name}-"))):
        return f"{state.skill} was given the story {named}, which is not there"
    why = "it was named" if named else "it is the one at work"
    if story is None:
        ready = stories.all_ready(run.root, config)
        story = next((one for key in ready if (one := stories.find(run.root, [key], (), config)) is not None), None)
        several = f"of {len(ready)} that are ready ({', '.join(ready[:LISTED])})"
        why = f"it is the first {several if len(ready) > 1 else 'that is ready'}"
    if story is None:
        return f"{state.skill} needs a story to implement, and none is at work or ready"
    state.plan.values[STORY_PATH] = story.path
    run.decide(Decision("story", story.key, why, by="human" if named else "engine"))
    run.event("workflow.story", story=story.key, path=story.path, why=why)
    return None


def held(run: Draft, found: Examined) -> Examined:
    """What the reviewers came to; an approval is none where the evidence for it is missing. Reads files, asks git."""
    if found.verdict != APPROVE or run.workflow.skill.name not in MAKERS:
        return found
    config = run.package.config(run.workflow.module)
    story = stories.of_run(run.state, run.root, config)
    if story is None:
        why = "the work belongs to no story, so that no story can be done by it"
        return replace(found, verdict=BLOCKED, summary=f"{found.summary}; {why}", findings=(Finding(BLOCKING, why),))
    own = [story.path, *(documents.relative(run.root, one) for one in status_file.paths(run.root, config))]
    unseen = checklist.unseen([Evaluated(**one) for one in found.details.get("checklist", ())])
    missing = open_points(run.root, story, review_brief.of_run(run.state, run.root), own, unseen)
    if not missing:
        return found
    summary = f"{found.summary}; not done yet: {'; '.join(one.title for one in missing)}"
    # What only the reviewers can do is nothing for the agent that made the work.
    verdict = BLOCKED if all(one.severity == BLOCKING for one in missing) else CHANGES
    return replace(found, verdict=verdict, summary=summary, findings=(*found.findings, *missing))


def open_points(
    root: str, story: Story, changed: Changes, own: Sequence[str], unseen: Sequence[int]
) -> tuple[Finding, ...]:
    """What is missing for the story to be done. `own` are its file and the status files, which are no work; `unseen`
    the numbers of the checklist's items that nobody looked at."""
    work = [path for path in changed.paths if path not in own]
    known = [path for path in story.files if path not in own]
    lines = (line.strip() for line in stories.section(story.text, "tasks").splitlines())
    unticked = [line.removeprefix(UNTICKED).strip() for line in lines if line.startswith(UNTICKED)]
    unchanged = review_brief.missing(known, work)
    unnamed = review_brief.missing(work, story.files)
    points = (
        ([] if work else [""], MAJOR, "nothing was changed for the story", "implement it, with its tests"),
        (unnamed, MAJOR, "not in the File List, but changed: {}", "list every changed file"),
        (unchanged, MAJOR, "in the File List, but not changed: {}", "list what was changed"),
        (unticked, MAJOR, "tasks are not ticked: {}", "do them, and tick them"),
        (unseen, BLOCKING, "nobody has looked at items {} of the checklist", "have each of them looked at"),
    )
    found = []
    for listed, severity, text, fix in points:
        more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
        title = text.format(f"{', '.join(map(str, listed[:LISTED]))}{more}")
        found += [Finding(severity, title, story.path, fix, OF_EVIDENCE, {"level": "High"})] if listed else []
    return tuple(found)


def settle(run: Draft, round: int, found: Examined) -> Examined:
    """`found` with what was done about it, the checklist's last items, the next story that is ready, and the files that
    were written, from the project's root."""
    config, story = run.package.config(run.workflow.module), story_of(run)
    done: dict[str, str] = {"decided": OUTCOMES[found.verdict], "notes": "", "change log": "", "status": ""}
    written: list[str] = []
    status = STATUSES.get(found.verdict)
    if story is not None and not found.details.get("own"):
        noted = _note(run, round, found, story, status)
        done |= noted
        written += [story.path] if noted else []
    if story is not None and status is not None:
        path = stories.sprint_path(run.root, config)
        now = (status_file.read(path) or {}).get(story.key) if path else None
        try:
            if path is not None and now is not None and now != status:
                status_file.write(path, story.key, status, expected=now)
                written.append(files.relative(run.root, path))
            if now is not None:
                done["status"] = f"{done['status']}, {story.key} is {status}".lstrip(", ")
        except (InterlockError, OSError) as error:
            run.warn("status_not_synced", f"{story.key} stays {now} in {path}: {error}")
    details, told, summary = dict(found.details), dict(found.told), found.summary
    if "checklist" in details:
        items = checklist.settled([Evaluated(**one) for one in details["checklist"]], done)
        details["checklist"] = [one.as_dict() for one in items]
        seen = sum(one.result != checklist.OPEN for one in items)
        told["checklist"] = f"{seen}/{len(items)}"
        summary = f"{summary}; {told['checklist']} of the checklist evaluated"
    if found.verdict == APPROVE:
        ready = next((key for key in stories.all_ready(run.root, config) if story is None or key != story.key), None)
        told["next_story"] = details["next_story"] = ready
        summary += f"; next story: {ready}" if ready is not None else ""
    return replace(found, summary=summary, details=details, told=told, written=tuple(written))


def _note(run: Draft, round: int, found: Examined, story: Story, status: str | None) -> dict[str, str]:
    """Write notes, change log and status of the story file, and ticks at what earlier rounds had found: how each went,
    empty, with a warning, where the file could not be written."""
    outcome, day, run_id = OUTCOMES[found.verdict], run.now[:10], run.state.workflow_id
    earlier = run.state.rounds_of(CODE_REVIEW)[: round - 1]
    known = {one.data["id"] for one in reviewers.open_after(earlier)}
    new = [item(one) for one in found.findings if one.data.get("id") not in known]
    still = ", ".join(str(one.data["id"]) for one in found.findings if one.data.get("id") in known)
    closed = [f"{one['id']} {one['verdict']}: {one['title']}" for one in found.details.get("closed", ())]
    notes = [f"**Outcome:** {outcome}", "", found.summary]
    for part in (new, [f"Still open from earlier rounds: {still}."] if still else [], closed):
        notes += ["", *part] if part else []
    change = f"{day}: code review, round {round}: {outcome}"
    heading = title(round, day, found.verdict, run_id)

    def noted(text: str) -> str:
        text = ticked(text, stories.NOTES, run_id, earlier, found)
        return stories.with_notes(text, heading, notes, change, status)

    try:
        text = files.change(files.inside(run.root, story.path), noted)
    except (InterlockError, OSError, UnicodeDecodeError) as error:
        run.warn("review_not_noted", f"The notes of the review could not be written to {story.path}: {error}")
        return {}
    return {
        "notes": f"appended to {story.path}",
        "change log": f"an entry in {story.path}" if change in text else "",
        "status": f"{story.path} says {status}" if status is not None and story.status else "",
    }


def title(round: int, day: str, verdict: str, run: str) -> str:
    """The heading of a round, without its marks."""
    return f"Round {round}, {day}: {OUTCOMES[verdict]} ({run})"


def item(one: Finding) -> str:
    """The line of an open finding."""
    place = f" [{one.location}]" if one.location else ""
    fix = f" {one.fix}" if one.fix else ""
    return f"{OPEN_BOX}[{one.data.get('level', one.severity)}] {one.title}{place}.{fix}"


def ticked(text: str, section: str, run: str, rounds: Sequence[Mapping[str, Any]], found: Examined) -> str:
    """`text` of a story with the items of a run's earlier rounds ticked that a reviewer has found fixed. `section` is
    the heading that the rounds stand below."""
    lines = text.split("\n")
    fixed = {one["id"] for one in found.details.get("closed", ()) if one["verdict"] == reviewers.FIXED}
    for number, kept in enumerate(rounds, 1):
        earlier = Examined.of(kept)
        if kept.get("own") or earlier.verdict not in OUTCOMES:
            continue
        block = _block(lines, section, title(number, "DAY", earlier.verdict, run))
        for one in earlier.findings:
            wanted = item(one)
            places = [place for place in block if lines[place].rstrip("\r") == wanted]
            if len(places) == 1 and one.data.get("id") in fixed:
                lines[places[0]] = TICKED + lines[places[0]].removeprefix(OPEN_BOX)
    return "\n".join(lines)


def _block(lines: Sequence[str], section: str, title: str) -> range:
    """The lines below the heading of a round; none where it is not there exactly once, or not in its section."""
    pattern = re.compile("### " + re.escape(title).replace("DAY", r"\d{4}-\d{2}-\d{2}", 1) + r"\r?")
    starts = [place for place, line in enumerate(lines) if pattern.fullmatch(line)]
    if len(starts) != 1:
        return range(0)
    start = starts[0]
    above = (line for line in reversed(lines[:start]) if re.match(r"#{1,2}[ \t]", line))
    if section.lower() not in next(above, "").lower():
        return range(0)
    end = next((place for place in range(start + 1, len(lines)) if HEADING.match(lines[place])), len(lines))
    return range(start + 1, end)
