"""A story run is bound to its story, and its story is done only with the evidence for it (finding B6).

At the start the run says which story it implements: the one that was named, the one that is at work, else the first
that is ready; without any it asks. An approval of the reviewers then still needs what the project itself shows: work
beside the story's own files, a File List that is what was changed, ticked tasks, every item of the checklist looked at.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from dataclasses import replace

from interlock.workflow.engine import steps
from interlock.workflow.engine.context import RunContext
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.examination import APPROVE, BLOCKED, BLOCKING, CHANGES, MAJOR, Examined, Finding
from interlock.workflow.reviews import review_brief
from interlock.workflow.reviews import story as stories
from interlock.workflow.reviews.review_brief import Changes, Evaluated
from interlock.workflow.reviews.reviewers import OF_EVIDENCE
from interlock.workflow.reviews.story import Story
from interlock.workflow.state import status_file

MAKERS = ("dev-story", "bmad-dev-story")
PATH = "story_path"
LISTED = 12  # paths, tasks or items that one finding names
UNTICKED = "- [ ]"


def bind(run: RunContext) -> str | None:
    """Bind the run to its story, which its agent is told of; what to ask a human where there is none.

    A story that was named and is not there is never replaced by another one.
    """
    state = run.state
    config = run.package.config(run.workflow.module)
    given = [state.plan.values[name] for name in stories.VARIABLES if state.plan.values.get(name)]
    words = [word.strip("`'\"(),") for word in state.plan.arguments.split()]
    given += [word for word in words if word.endswith(".md") or stories.NUMBER.match(word)]
    named = given[0] if given else ""
    story = stories.find(run.root, given[:1], (), config)
    if named and (story is None or not _is_named(story, named)):
        return f"{state.skill} was given the story {named}, which is not there"
    why = "it was named" if named else "it is the one at work"
    if story is None:
        ready = stories.all_ready(run.root, config)
        story = next((one for key in ready if (one := stories.find(run.root, [key], (), config)) is not None), None)
        others = (
            f" of {len(ready)} that are ready ({', '.join(ready[:LISTED])})" if len(ready) > 1 else " that is ready"
        )
        why = f"it is the first{others}"
    if story is None:
        return f"{state.skill} needs a story to implement, and none is at work or ready"
    state.plan.values[PATH] = story.path
    run.decide(Decision("story", story.key, why, by="human" if named else "engine"))
    run.event("workflow.story", story=story.key, path=story.path, why=why)
    return None


def held(run: RunContext, found: Examined) -> Examined:
    """What the reviewers came to; an approval is none where the evidence for it is missing. Reads files, asks git."""
    if found.verdict != APPROVE:
        return found
    config = run.package.config(run.workflow.module)
    story = stories.of_run(run.state, run.root, config)
    if story is None:
        why = "the work belongs to no story, so that no story can be done by it"
        return replace(found, verdict=BLOCKED, summary=f"{found.summary}; {why}", findings=(Finding(BLOCKING, why),))
    items = [Evaluated(**one) for one in found.details.get("checklist", ())]
    own = [story.path, *(steps.relative(run.root, one) for one in status_file.paths(run.root, config))]
    missing = open_points(run.root, story, review_brief.of_run(run.state, run.root), own, items)
    if not missing:
        return found
    summary = f"{found.summary}; not done yet: {'; '.join(one.title for one in missing)}"
    # What only the reviewers can do is nothing for whoever made the work.
    verdict = BLOCKED if all(one.severity == BLOCKING for one in missing) else CHANGES
    return replace(found, verdict=verdict, summary=summary, findings=(*found.findings, *missing))


def open_points(
    root: str, story: Story, changed: Changes, own: Sequence[str], items: Sequence[Evaluated]
) -> tuple[Finding, ...]:
    """What is missing for the story to be done; `own` are its file and the status files, which are no work."""
    work = [path for path in changed.paths if path not in own]
    found = []
    known = [path for path in story.files if path not in own]
    # Without git, of an agent that tells of no writes, nothing is known: then the listed files must be there.
    unknown = changed.since is None and bool(known) and not _absent(root, known)
    if not work and not unknown:
        found.append(_finding("nothing was changed for the story", story, "implement it, with its tests"))
    unnamed = review_brief.missing(work, story.files)
    unchanged = review_brief.missing(known, work) if changed.since is not None else _absent(root, known)
    if work and unnamed:
        found.append(_finding(f"not in the File List, but changed: {_some(unnamed)}", story, "list every changed file"))
    if unchanged:
        found.append(_finding(f"in the File List, but not changed: {_some(unchanged)}", story, "list what was changed"))
    lines = stories.section(story.text, "tasks").splitlines()
    unticked = [line.strip().removeprefix(UNTICKED).strip() for line in lines if line.strip().startswith(UNTICKED)]
    if unticked:
        found.append(_finding(f"tasks are not ticked: {_some(unticked)}", story, "do them, and tick them"))
    open_ = [one for one in review_brief.open_items(items) if not review_brief.is_ours(one.text)]
    if open_:
        numbers = _some([str(one.number) for one in open_])
        unseen = f"nobody has looked at items {numbers} of the checklist"
        found.append(replace(_finding(unseen, story, "have each of them looked at"), severity=BLOCKING))
    return tuple(found)


def _finding(title: str, story: Story, fix: str) -> Finding:
    return Finding(MAJOR, title, story.path, fix, OF_EVIDENCE, {"level": "High"})


def _absent(root: str, paths: Sequence[str]) -> list[str]:
    return [path for path in paths if not os.path.exists(os.path.join(root, path))]


def _some(listed: Sequence[str]) -> str:
    more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    return f"{', '.join(listed[:LISTED])}{more}"


def _is_named(story: Story, named: str) -> bool:
    name = posixpath.basename(named).removesuffix(".md").removeprefix("story-").replace(".", "-")
    return story.key == name or story.key.startswith(f"{name}-")
