"""Code review of a story that was implemented (FR42–FR44b, stories 5.12 and 5.13): an `Examination`.

After a dev-story workflow, reviewers who have not made the work look for what is wrong with it, by the installed
review's own instructions and checklist. Their verdict decides: on to the next story, back to the maker with the
findings, or to a human. A review that nobody did is never an approval. When a person runs the review themselves, its
first round is their own (`own_review`), and what follows is the same.

A code review that a person ran as a workflow of its own: what it came to, read from what it said and wrote.

The agent that reviewed knows its findings, which stand in its session and in the story; only the verdict is read here.

The findings of a review as items in the story, `- [ ] [High] …`, and their ticks once they are no longer found.

Ticked is only what was certainly written here: a line that is, letter for letter, the item of a finding that the run
knows, below the heading of the round that it belongs to, in the section of the review. Items that a developer or the
package's own review wrote are left to them, and so is what a round may only have worded differently. Pure.

What follows from a verdict for story and status file, and which story is next (BMAD-5.13.2).

It is what the package's own review does in its last steps: notes and a line of the change log in the story, its status,
the project's status file. Both files are the user's: each is changed in its place only, and what could not be written
is said.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from interlock.errors import InterlockError
from interlock.workflow import panel
from interlock.workflow.agents.assignment import HIGH, Assignment, Report
from interlock.workflow.engine.context import RunContext
from interlock.workflow.engine.examination import (
    APPROVE,
    BLOCKED,
    BLOCKING,
    CAPACITY,
    CHANGES,
    MAJOR,
    NOT_DONE,
    SKIPPED,
    STOPPED,
    Examined,
    Finding,
)
from interlock.workflow.entry import verdicts
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.packages import Package
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.reviews import review_brief, reviewers, story_gate
from interlock.workflow.reviews import review_brief as changes
from interlock.workflow.reviews import review_brief as checklist
from interlock.workflow.reviews import story as stories
from interlock.workflow.reviews.review_brief import LEAST, MOST, Evaluated
from interlock.workflow.reviews.reviewers import Answer, Emphasis, Followed
from interlock.workflow.reviews.story import Story
from interlock.workflow.state import files, status_file
from interlock.workflow.state.document import CODE_REVIEW

OPEN = {
    CHANGES: Finding(
        MAJOR,
        "High and Medium findings of the review are open",
        fix="fix each of them in code and tests, and say so in the story",
    ),
    BLOCKED: Finding(BLOCKING, "the review is blocked", fix="see what it says"),
}
LEFT = ("action item", "leave as", "later")


def of_run(run: RunContext) -> Examined | None:
    """The first round of such a run; None where neither what it said nor the story tells. Reads files."""
    state = run.state
    story = stories.of_run(state, run.root, run.package.config(run.workflow.module), guess=True)
    said = "\n\n".join(one["said"] for one in state.transcript)
    noted = stories.section(story.text, stories.NOTES) if story else ""
    found = verdicts.review(said) or (verdicts.review(noted) if noted else None)
    if found is None:
        return None
    manner = "as it says" if found.printed else "as follows from what it says"
    left = found.verdict == CHANGES and (found.left or _chosen_to_leave(run))
    why = f"{found.why}, {manner}" + ("; what is open was left for later, as was chosen" if left else "")
    open_ = (replace(OPEN[found.verdict], data={"id": "F1"}),) if found.verdict != APPROVE else ()
    return Examined(found.verdict, why, open_, {"own": True, "left_open": left}, {"printed": found.printed})


def _chosen_to_leave(run: RunContext) -> bool:
    """Whether a human chose to keep the findings as action items."""
    answers = [one for one in run.state.asked if one.get("by") == "human" and one.get("purpose") == "menu"]
    if not answers:
        return False
    last = answers[-1]
    chosen = str(last.get("answer", "")).strip().strip("[]. ").lower()
    labels = [line for line in str(last.get("text", "")).lower().splitlines() if line.strip(" *[>").startswith(chosen)]
    return any(word in f"{chosen} {' '.join(labels)}" for word in LEFT)


OUTCOMES = {APPROVE: "Approve", CHANGES: "Changes Requested", BLOCKED: "Blocked"}
OPEN_BOX, TICKED = "- [ ] ", "- [x] "
HEADING = re.compile(r"#{1,6}[ \t]")


def title(round: int, day: str, verdict: str, run: str) -> str:
    """The heading of a round, without its marks."""
    return f"Round {round}, {day}: {OUTCOMES[verdict]} ({run})"


def item(one: Finding) -> str:
    """The line of an open finding."""
    place = f" [{one.location}]" if one.location else ""
    mend = f" {one.fix}" if one.fix else ""
    return f"{OPEN_BOX}[{one.data.get('level', one.severity)}] {one.title}{place}.{mend}"


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


DONE, IN_PROGRESS = "done", "in-progress"


async def settle(
    run: RunContext, round: int, found: Examined, apart: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> Examined:
    """`found` with what was done about it: the checklist's last items, and the next story that is ready."""
    settled, written = await apart(lambda: _settled_with_story(run, round, found))
    if written:
        record = run.record
        record.files = list(dict.fromkeys([*record.files, *written]))
        await run.checkpoints.wrote(run.state, written)
    assert isinstance(settled, Examined)
    return settled


def _settled_with_story(run: RunContext, round: int, found: Examined) -> tuple[Examined, list[str]]:
    config = run.package.config(run.workflow.module)
    story = stories.of_run(run.state, run.root, config, guess=_is_about_a_story(run))
    done: dict[str, str] = {"decided": OUTCOMES[found.verdict], "notes": "", "change log": "", "status": ""}
    written: list[str] = []
    if story is not None:
        wanted = {APPROVE: DONE, BLOCKED: IN_PROGRESS}.get(found.verdict)
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
    known = {one.data["id"] for one in reviewers.open_after(_rounds(run)[: round - 1])}
    new = [item(one) for one in found.findings if one.data.get("id") not in known]
    still = ", ".join(str(one.data["id"]) for one in found.findings if one.data.get("id") in known)
    closed = [f"{one['id']} {one['verdict']}: {one['title']}" for one in found.details.get("closed", ())]
    for part in (new, [f"Still open from earlier rounds: {still}."] if still else [], closed):
        notes += ["", *part] if part else []
    change = f"{day}: code review, round {round}: {outcome}"
    heading = title(round, day, found.verdict, run_id)

    def noted(text: str) -> str:
        text = ticked(text, stories.NOTES, run_id, _rounds(run)[: round - 1], found)
        return stories.with_notes(text, heading, notes, change, status)

    text = _put(run, story.path, noted, done)
    if text is None:
        return
    written.append(story.path)
    done["notes"] = f"appended to {story.path}"
    done["change log"] = f"an entry in {story.path}" if change in text else ""
    if status is not None and story.status:
        done["status"] = f"{story.path} says {status}"


def _rounds(run: RunContext) -> Sequence[Mapping[str, Any]]:
    rounds: Sequence[Mapping[str, Any]] = run.state.examinations.get(CODE_REVIEW, {}).get("rounds", ())
    return rounds


def _is_about_a_story(run: RunContext) -> bool:
    """Whether a run is about one of the project's stories even where it names none: whatever else implements leaves the
    story alone that happens to be at work."""
    return run.workflow.skill.name.endswith("dev-story") or review_brief.is_review(run.workflow.skill)


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


IMPLEMENTS = re.compile(r"\b(?:execute\s+implementation|implement)\b", re.IGNORECASE)
"""In the title of a step: its workflow writes code."""
FORWARDS = re.compile(r"\bforwards to `?([\w-]+)", re.IGNORECASE)
"""In the description of a skill that only names another one."""
SKIP = "skip_review"
ALONE = Emphasis(
    "senior",
    "Everything: acceptance criteria and claims, correctness, security, tests, performance, and whether the next "
    "reader will understand it.",
)
SEVERAL_FROM = 2  # tier
TRIES = 3
KEPT = 60_000  # characters of a report that is kept, its end
REPORT = 3000  # characters of a report, its end, that the last round keeps
LEVELS = {BLOCKING: "High", MAJOR: "Medium"}
UNREADABLE = "the JSON block with your findings, in the form above, as the last thing you say"
TOO_FEW = (
    f"You report fewer than {LEAST} issues. Look harder: edge cases and empty values, errors that are swallowed, the "
    "architecture, tests that prove nothing, documentation, what the change is used by. Add what you find, and repeat "
    "what you have. If there is nothing more, repeat your answer: nothing is to be invented"
)

AGAIN = "-again"
"""The end of the label of a reviewer that is asked once more."""

Apart = Callable[[Callable[[], Any]], Awaitable[Any]]


async def here(work: Callable[[], Any]) -> Any:
    """Do it at once, in this thread."""
    return work()


@dataclass(frozen=True)
class Gathered:
    """What a round begins with."""

    story: Story | None
    brief: str
    items: tuple[str, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Reviewed:
    """What reviewers came to: their answers by label, who of them came to none, with the reason, and what is open."""

    answers: Mapping[str, Answer]
    texts: Mapping[str, str]
    lost: Mapping[str, str]
    followed: Followed
    harder: bool = False


class CodeReview:
    """See the module. `apart` does what reads files and asks git, in a thread where there may be one."""

    name = CODE_REVIEW
    title = "Code review"

    def __init__(self, apart: Apart = here) -> None:
        self._apart = apart

    def called_for(self, run: RunContext) -> str | None:
        """See the port."""
        if review_brief.is_review(run.workflow.skill):
            return "the verdict of a review decides what follows"
        if implements(run.package, run.workflow):
            return "code was written, and whoever wrote it does not judge it"
        return None

    def bind(self, run: RunContext) -> str | None:
        """See the port."""
        return story_gate.bind(run) if run.workflow.skill.name in story_gate.MAKERS else None

    async def examine(self, run: RunContext, round: int) -> Examined:
        """See the port."""
        if round == 1 and review_brief.is_review(run.workflow.skill):
            own = await self._apart(lambda: of_run(run))
            if own is not None:
                return await self._decided(run, round, own)
            # A review that says nothing is no review: then others do it.
            unsaid = "the review does not say what it came to, and it cannot be told from its findings"
            run.warn("code_review_unsaid", f"{unsaid}; others review the work now")
        why = skipped(run)
        if why is not None and not review_brief.is_review(run.workflow.skill):
            return Examined(SKIPPED, f"{why}; nobody has reviewed this work")
        gathered = await self._apart(lambda: gather(run))
        found = await self._reviewed(run, gathered, round)
        if isinstance(found, Examined):
            return found
        return await self._decided(run, round, judged(found, gathered, round))

    async def _decided(self, run: RunContext, round: int, found: Examined) -> Examined:
        """With what Interlock does about a verdict itself: notes and statuses of the story, the next one's name."""
        if found.verdict in (SKIPPED, NOT_DONE, CAPACITY, STOPPED):
            return found
        if run.workflow.skill.name in story_gate.MAKERS:
            found = await self._apart(lambda: story_gate.held(run, found))
        return await settle(run, round, found, self._apart)

    async def _reviewed(self, run: RunContext, gathered: Gathered, round: int) -> Reviewed | Examined:
        """The reviewers' answers: asked once more where one cannot be read, or where too little was looked at."""
        tier = run.settings.tier
        emphases = reviewers.EMPHASES if tier is not None and tier >= SEVERAL_FROM else (ALONE,)
        asked = reviewers.fork(gathered.brief, emphases, priority=HIGH, time_limit=run.limits.workflow)
        first = await self._asked(run, asked)
        if (stopped := _stopped(first)) is not None:
            return stopped
        rounds = _rounds(run)[: round - 1]
        said = {one.label: [one.text] for one in first if one.status == "completed"}
        lost = {one.label: one.detail or one.status for one in first if one.status != "completed"}
        answers = _answers(said)
        followed = reviewers.followed(rounds, answers)
        few = bool(said) and round == 1 and len(followed.open) < LEAST
        wanted = _wanted(said, gathered.items, few, followed)
        second = await self._asked(run, [_again(one, said, wanted) for one in asked if one.label in wanted])
        if (stopped := _stopped(second)) is not None:
            return stopped
        for report in second:
            label = report.label.removesuffix(AGAIN)
            if report.status == "completed" and reviewers.answer(report.text, label).readable:
                said[label].append(report.text)
        answers = _answers(said)
        lost |= {label: "its answer could not be read" for label in said if label not in answers}
        if not answers:
            reasons = "; ".join(f"{label}: {why}" for label, why in lost.items())
            return Examined(NOT_DONE, f"no reviewer came to a verdict ({reasons})", details={"lost": lost})
        answers = {label: _named(label, one) for label, one in answers.items()}
        texts = {label: "\n\n".join(said[label]) for label in answers}
        return Reviewed(answers, texts, lost, reviewers.followed(rounds, answers), few)

    async def _asked(self, run: RunContext, assignments: Sequence[Assignment]) -> list[Report]:
        """A report on each, in their order. Each that completes is kept in the run's state until its round is over, so
        that a run which is killed asks only the others again.

        Raises:
            Superseded: the run is somebody else's now.
        """
        if run.dispatcher is None:
            return [Report(one.label, "failed", detail="this run has no agents to give work to") for one in assignments]
        kept: dict[str, Any] = run.state.examinations.setdefault(self.name, {"rounds": []}).setdefault("reports", {})
        found = {label: Report(**one) for label, one in kept.items()}

        async def heard(place: int, report: Report) -> None:
            if report.status == "completed":
                kept[report.label] = asdict(replace(report, text=report.text[-KEPT:]))
                await run.save_soon()

        def failed(report: Report) -> None:
            why = f"{report.label}: {report.detail or report.status}"
            run.event("workflow.turn_failed", step=run.state.current_step, reason=why)

        left = [one for one in assignments if one.label not in kept]
        asked = await panel.ask(run.dispatcher, left, tries=TRIES, heard=heard, failed=failed)
        found |= {report.label: report for report in asked.reports.values()}
        return [found[one.label] for one in assignments]


def implements(package: Package, workflow: Workflow) -> bool:
    """Whether a workflow writes code: one of its steps says so by its title. A skill that only forwards to another one
    does what that one does."""
    forwarded = FORWARDS.search(workflow.skill.description or "")
    if forwarded is not None:
        name = forwarded[1].removeprefix("bmad-")
        target = next((one for one in package.of_type("workflows") if one.name == name), None)
        return target is not None and target != workflow.skill and implements(package, workflows.read(package, target))
    return any(IMPLEMENTS.search(one.title) for one in workflow.steps)


def skipped(run: RunContext) -> str | None:
    """Why no review is wanted: `skip_review: true` of this run, this workflow, or the project's configuration."""
    where = (
        ("this run", run.state.plan.values.get(SKIP)),
        (f"the settings of {run.workflow.skill.name}", run.workflow.settings.get(SKIP)),
        ("the project's configuration", run.package.config(run.workflow.module).get(SKIP)),
    )
    for name, value in where:
        if value is not None and str(value).strip() != "":
            return f"{SKIP}: true, by {name}" if str(value).strip().lower() in ("true", "yes", "1") else None
    return None


def gather(run: RunContext) -> Gathered:
    """Read what reviewers are given. Reads files and asks git."""
    state, package = run.state, run.package
    module = run.workflow.module
    story = stories.of_run(state, package.root, package.config(module), guess=_is_about_a_story(run))
    changed = changes.of_run(state, package.root)
    own = review_brief.installed(package, module)
    asked = f"{state.plan.arguments}\n\n{state.plan.brief}".strip()
    kept = state.examinations.get(CODE_REVIEW, {})
    earlier = review_brief.before(_rounds(run), str(kept.get("answer") or ""), str(kept.get("advice") or ""))
    text = review_brief.brief(state.skill, story, asked, changed, own, package, module, earlier)
    return Gathered(story, text, own.items, changed.paths)


def judged(found: Reviewed, gathered: Gathered, round: int) -> Examined:
    """What the reviewers' answers come to together: findings, each once, the checklist, and the verdict."""
    levelled = [
        replace(one, data={**one.data, "level": LEVELS.get(one.severity, "Low")}) for one in found.followed.open
    ]
    findings, further = tuple(levelled[:MOST]), levelled[MOST:]
    verdict = verdict_of(found.answers, findings)
    grave = sum(one.severity in LEVELS for one in findings)
    counts = _counts(findings)
    said = next((one.summary for one in found.answers.values() if one.summary), "")
    notes = [f"{counts}{f': {said}' if said else ''}"]
    if found.harder and len(findings) < LEAST:
        notes.append(f"asked to look harder, {'they' if len(found.answers) > 1 else 'the reviewer'} found no more")
    if found.lost:
        notes.append(f"without {', '.join(found.lost)}")
    opinions = [_opinion(one) for one in found.answers.values()]
    details = {
        "reports": {label: text[-REPORT:] for label, text in found.texts.items()},
        "lost": dict(found.lost),
        "further": [one.as_dict() for one in further],
        "closed": [dict(one) for one in found.followed.closed],
        "reviewed": list(gathered.paths[:100]),
    }
    details["checklist"] = [one.as_dict() for one in checklist.evaluated(gathered.items, found.texts)]
    agreement = 100.0 * max(opinions.count(one) for one in set(opinions)) / len(opinions)
    told = {"high_and_medium": grave, "fewer_than_three": found.harder and len(findings) < LEAST}
    return Examined(verdict, "; ".join(notes), findings, details, told, {"reviewer_agreement": agreement})


def verdict_of(answers: Mapping[str, Answer], findings: tuple[Finding, ...]) -> str:
    """The verdict of all reviewers together: the strictest counts.

    What was printed, and what follows from the findings: an approval beside open High or Medium findings is none, and
    changes that nobody can name are no reason to change anything.
    """
    said = [verdicts.of_word(one.verdict) for one in answers.values()]
    if BLOCKED in said:
        return BLOCKED
    if CHANGES in said and findings:
        return CHANGES
    return verdicts.of_findings(sum(one.severity in LEVELS for one in findings))


def _opinion(one: Answer) -> str:
    return verdict_of({"": one}, one.findings)


def _answers(said: Mapping[str, Sequence[str]]) -> dict[str, Answer]:
    """All that those said whose answers can be read."""
    read = {label: [reviewers.answer(text, label) for text in texts] for label, texts in said.items()}
    readable = {label: [one for one in answers if one.readable] for label, answers in read.items()}
    return {label: reviewers.combined(answers) for label, answers in readable.items() if answers}


def _named(label: str, one: Answer) -> Answer:
    """The same, with a finding where it rejects the work and names none: its verdict counts all the same."""
    if one.findings or any(given.verdict == reviewers.STILL_OPEN for given in one.earlier):
        return one
    severity = {BLOCKED: BLOCKING, CHANGES: MAJOR}.get(verdicts.of_word(one.verdict) or "")
    if severity is None:
        return one
    title = one.summary or f"{label} says {one.verdict} and names no finding"
    return replace(one, findings=(Finding(severity, title, found_by=(label,)),))


def _wanted(
    said: Mapping[str, Sequence[str]], items: Sequence[str], few: bool, followed: Followed
) -> dict[str, list[str]]:
    """What is missing in whose answer: its form, more issues, a verdict on grave findings that nobody judged, items of
    the checklist that nobody looked at."""
    wanted: dict[str, list[str]] = {label: [] for label in said}
    readable = _answers(said)
    for label in said:
        if label not in readable:
            wanted[label].append(UNREADABLE)
        if few:
            wanted[label].append(TOO_FEW)
    for one in followed.open:
        if one.data["id"] in followed.unjudged and one.severity in LEVELS and said:
            finder = next((label for label in one.found_by if label in said), next(iter(said)))
            wanted[finder].append(f'a verdict on {one.data["id"]} in "earlier": {one.title} ({one.location})')
    texts = {label: "\n\n".join(one) for label, one in said.items()}
    open_ = [one for one in checklist.open_items(checklist.evaluated(items, texts)) if not checklist.is_ours(one.text)]
    if open_ and said:
        numbers = ", ".join(str(one.number) for one in open_)
        wanted[next(iter(said))].append(f"items {numbers} of the checklist, each on a line of its own")
    return {label: reasons for label, reasons in wanted.items() if reasons}


def _again(one: Assignment, said: Mapping[str, Sequence[str]], wanted: Mapping[str, Sequence[str]]) -> Assignment:
    """The same reviewer once more."""
    prompt = review_brief.harder(one.prompt, said[one.label][0], wanted[one.label])
    return replace(one, label=f"{one.label}{AGAIN}", prompt=prompt)


def _stopped(given: list[Report]) -> Examined | None:
    """What ends the round before its time: no capacity, or the end of the run's work here."""
    if any(report.status == "cancelled" for report in given):
        return Examined(STOPPED, "the review was stopped")
    for report in given:
        if report.status == "capacity":
            why = report.detail or "the reviewers' provider has no capacity left"
            return Examined(CAPACITY, why, details={"retry_at": report.retry_at})
    return None


def _counts(findings: tuple[Finding, ...]) -> str:
    high, medium = (sum(one.severity == name for one in findings) for name in (BLOCKING, MAJOR))
    noun = "issue" if len(findings) == 1 else "issues"
    return f"{len(findings)} {noun} ({high} High, {medium} Medium, {len(findings) - high - medium} Low)"
