"""Code review of a story that was implemented (FR42–FR44b, stories 5.12 and 5.13): an `Examination`.

After a dev-story workflow, reviewers who have not made the work look for what is wrong with it, by the installed
review's own instructions and checklist. Their verdict decides: on to the next story, back to the maker with the
findings, or to a human. A review that nobody did is never an approval. When a person runs the review themselves, its
first round is their own (`own_review`), and what follows is the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interlock.workflow.agents import reviewers
from interlock.workflow.agents.assignment import HIGH, Assignment, Report
from interlock.workflow.agents.reviewers import Answer, Emphasis
from interlock.workflow.control import reports
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.examination import (
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
from interlock.workflow.examinations import changes, checklist, own_review, review_brief, story_review
from interlock.workflow.examinations import story as stories
from interlock.workflow.examinations.review_brief import LEAST, MOST
from interlock.workflow.examinations.story import Story
from interlock.workflow.state.document import CODE_REVIEW

MAKERS = ("dev-story", "bmad-dev-story")
SKIP = "skip_review"
ALONE = Emphasis(
    "senior",
    "Everything: acceptance criteria and claims, correctness, security, tests, performance, and whether the next "
    "reader will understand it.",
)
SEVERAL_FROM = 2  # tier
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
    """What reviewers came to: their last answers by label, and who of them came to none, with the reason."""

    answers: Mapping[str, Answer]
    texts: Mapping[str, str]
    lost: Mapping[str, str]
    harder: bool = False


class CodeReview:
    """See the module. `apart` does what reads files and asks git, in a thread where there may be one."""

    name = CODE_REVIEW
    title = "Code review"

    def __init__(self, apart: Apart = here) -> None:
        self._apart = apart

    def called_for(self, run: RunContext) -> str | None:
        """See the port."""
        name = run.workflow.skill.name
        if name in MAKERS:
            return "a story was implemented, and whoever made it does not judge it"
        if name in review_brief.NAMES:
            return "the verdict of a review decides what follows"
        return None

    async def examine(self, run: RunContext, round: int) -> Examined:
        """See the port."""
        if round == 1 and run.workflow.skill.name in review_brief.NAMES:
            return await self._decided(run, round, await self._apart(lambda: own_review.of_run(run)))
        why = skipped(run)
        if why is not None and run.workflow.skill.name in MAKERS:
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
        return await story_review.settle(run, round, found, self._apart)

    async def _reviewed(self, run: RunContext, gathered: Gathered, round: int) -> Reviewed | Examined:
        """The reviewers' answers: asked once more where one cannot be read, or where too little was looked at."""
        tier = run.settings.tier
        emphases = reviewers.EMPHASES if tier is not None and tier >= SEVERAL_FROM else (ALONE,)
        asked = reviewers.fork(gathered.brief, emphases, priority=HIGH, time_limit=run.limits.workflow)
        first = await reports.gather(run, self.name, asked)
        if (stopped := _stopped(first)) is not None:
            return stopped
        texts = {one.label: one.text for one in first if one.status == "completed"}
        lost = {one.label: one.detail or one.status for one in first if one.status != "completed"}
        few = bool(texts) and round == 1 and len(_merged(_answers(texts))) < LEAST
        wanted = _wanted(texts, gathered.items, few)
        second = await reports.gather(
            run, self.name, [_again(one, texts, wanted) for one in asked if one.label in wanted]
        )
        if (stopped := _stopped(second)) is not None:
            return stopped
        for report in second:
            label = report.label.removesuffix(AGAIN)
            if report.status == "completed" and reviewers.answer(report.text, label).readable:
                texts[label] = f"{texts[label]}\n\n{report.text}"
        answers = _answers(texts)
        lost |= {label: "its answer could not be read" for label in texts if label not in answers}
        if not answers:
            reasons = "; ".join(f"{label}: {why}" for label, why in lost.items())
            return Examined(NOT_DONE, f"no reviewer came to a verdict ({reasons})", details={"lost": lost})
        return Reviewed(answers, {label: texts[label] for label in answers}, lost, few)


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
    story = stories.of_run(state, package.root, package.config(module))
    changed = changes.of_run(state, package.root)
    own = review_brief.installed(package, module)
    asked = f"{state.plan.arguments}\n\n{state.plan.brief}".strip()
    kept = state.examinations.get(CODE_REVIEW, {})
    earlier = review_brief.before(kept.get("rounds", ()), str(kept.get("answer") or ""), str(kept.get("advice") or ""))
    text = review_brief.brief(state.skill, story, asked, changed, own, package, module, earlier)
    return Gathered(story, text, own.items, changed.paths)


def judged(found: Reviewed, gathered: Gathered, round: int) -> Examined:
    """What the reviewers' answers come to together: findings, each once, the checklist, and the verdict."""
    merged = _merged(found.answers)
    findings, further = merged[:MOST], merged[MOST:]
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


def _answers(texts: Mapping[str, str]) -> dict[str, Answer]:
    """Those that can be read. What one says in its second answer stands for what it said in the first."""
    found = {label: reviewers.answer(text, label) for label, text in texts.items()}
    return {label: one for label, one in found.items() if one.readable}


def _merged(answers: Mapping[str, Answer]) -> tuple[Finding, ...]:
    merged = reviewers.merge({label: one.findings for label, one in answers.items()})
    return tuple(replace(one, data={**one.data, "level": LEVELS.get(one.severity, "Low")}) for one in merged)


def _wanted(texts: Mapping[str, str], items: Sequence[str], few: bool) -> dict[str, list[str]]:
    """What is missing in whose answer: its form, more issues, items of the checklist that nobody looked at."""
    wanted: dict[str, list[str]] = {}
    for label, text in texts.items():
        if not reviewers.answer(text).readable:
            wanted.setdefault(label, []).append(UNREADABLE)
        if few:
            wanted.setdefault(label, []).append(TOO_FEW)
    open_ = [one for one in checklist.open_items(checklist.evaluated(items, texts)) if not checklist.is_ours(one.text)]
    if open_ and texts:
        numbers = ", ".join(str(one.number) for one in open_)
        wanted.setdefault(next(iter(texts)), []).append(f"items {numbers} of the checklist, each on a line of its own")
    return wanted


def _again(one: Assignment, texts: Mapping[str, str], wanted: Mapping[str, Sequence[str]]) -> Assignment:
    """The same reviewer once more."""
    prompt = review_brief.harder(one.prompt, texts[one.label], wanted[one.label])
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
