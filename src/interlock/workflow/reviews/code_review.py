"""Code review of work that was implemented (FR42–FR44b, stories 5.12 and 5.13): an `Examination`.

After a workflow that writes code, reviewers who have not made the work look for what is wrong with it, by the installed
review's own instructions and checklist. Their verdict decides: on to the next story, back to the maker with the
findings, or to a human. A review that nobody did is never an approval. When a person runs the review as a workflow of
its own, its first round is their own: only its verdict is read, from what it said and wrote, since the agent that
reviewed knows its findings, and they are in the story.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow import panel
from interlock.workflow.agents.assignment import HIGH, Assignment, Report
from interlock.workflow.engine import documents
from interlock.workflow.engine.context import Draft, Inquiry, Note
from interlock.workflow.engine.examination import (
    APPROVE,
    BLOCKED,
    BLOCKING,
    BUILD_RESULT,
    CHANGES,
    MAJOR,
    SKIPPED,
    Examined,
    Finding,
)
from interlock.workflow.engine.runtime import Runtime
from interlock.workflow.entry import verdicts
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.packages import Package
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.reviews import checklist, outcome, review_brief, reviewers
from interlock.workflow.reviews import story as stories
from interlock.workflow.reviews.review_brief import LEAST, MOST
from interlock.workflow.reviews.reviewers import Answer, Emphasis, Followed
from interlock.workflow.state.document import CODE_REVIEW

IMPLEMENTS = re.compile(r"\b(?:execute\s+implementation|implement)\b", re.IGNORECASE)
"""In the title of a step: its workflow writes code."""
FORWARDS = re.compile(r"\bforwards to `?([\w-]+)", re.IGNORECASE)
"""In the description of a skill that only names another one."""
PLAN_ONLY = "Halt after planning."
"""Among the arguments of a workflow that implements: it only plans, and there is no code to review."""
FOLLOW_UP = "followup_review_recommended"
"""In the record of a build: its own review found so much that others should look at what came of it."""
SKIP = "skip_review"
ALONE = Emphasis(
    "senior",
    "Everything: acceptance criteria and claims, correctness, security, tests, performance, and whether the next "
    "reader will understand it.",
)
SEVERAL_FROM = 2  # tier
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

OWN = {
    APPROVE: (),
    CHANGES: (
        Finding(
            MAJOR,
            "High and Medium findings of the review are open",
            fix="fix each of them in code and tests, and say so in the story",
            data={"id": "F1"},
        ),
    ),
    BLOCKED: (Finding(BLOCKING, "the review is blocked", fix="see what it says", data={"id": "F1"}),),
}
"""What a review that a person ran leaves open, by its verdict."""
LEFT = ("action item", "leave as", "later")


@dataclass(frozen=True, slots=True)
class ReviewInput:
    """What a round begins with. `several`: each emphasis has a reviewer of its own; `kept` are the reports, by label,
    that were there when the run was killed."""

    brief: str
    items: tuple[str, ...]
    paths: tuple[str, ...]
    rounds: Sequence[Mapping[str, Any]]
    several: bool = False
    kept: Mapping[str, Report] = field(default_factory=dict)


@dataclass(slots=True)
class ReviewRound:
    """A round under way: what it began with, what its reviewers have said by label, and who of them was lost, why."""

    input: ReviewInput
    said: dict[str, list[str]] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    few: bool = False
    missed: str | None = None

    @property
    def unjudged(self) -> list[Finding]:
        """The grave findings of earlier rounds that nobody has given a verdict on."""
        followed = reviewers.followed(self.input.rounds, self.answers)
        return [one for one in followed.open if one.data["id"] in followed.unjudged and one.severity in LEVELS]

    @property
    def answers(self) -> dict[str, Answer]:
        """All that those said whose answers can be read."""
        read = {label: [reviewers.answer(text, label) for text in texts] for label, texts in self.said.items()}
        readable = {label: [one for one in answers if one.readable] for label, answers in read.items()}
        return {label: reviewers.combined(answers) for label, answers in readable.items() if answers}

    @property
    def texts(self) -> dict[str, str]:
        """What each has said, whole."""
        return {label: "\n\n".join(texts) for label, texts in self.said.items()}

    def wanted(self, followed: Followed) -> dict[str, list[str]]:
        """What is missing in whose answer: its form, more issues, a verdict on grave findings that nobody judged, items
        of the checklist that nobody looked at."""
        wanted: dict[str, list[str]] = {label: [] for label in self.said}
        readable = self.answers
        for label, missing in wanted.items():
            missing += [] if label in readable else [UNREADABLE]
            missing += [TOO_FEW] if self.few else []
        if not self.said:
            return {}
        first = next(iter(self.said))
        for one in followed.open:
            if one.data["id"] in followed.unjudged and one.severity in LEVELS:
                finder = next((label for label in one.found_by if label in self.said), first)
                wanted[finder].append(f'a verdict on {one.data["id"]} in "earlier": {one.title} ({one.location})')
        if unseen := checklist.unseen(checklist.evaluated(self.input.items, self.texts)):
            wanted[first].append(f"items {', '.join(map(str, unseen))} of the checklist, each on a line of its own")
        return {label: reasons for label, reasons in wanted.items() if reasons}


def _nothing(run: Draft) -> str:
    return ""


class CodeReview:
    """See the module. `about` says what is known of the work beside the story's own file."""

    name = CODE_REVIEW
    title = "Code review"

    def __init__(self, about: Callable[[Draft], str] = _nothing) -> None:
        self._about = about

    def called_for(self, run: Draft) -> str | None:
        """See the port."""
        if review_brief.is_review(run.workflow.skill):
            return "the verdict of a review decides what follows"
        if PLAN_ONLY not in run.state.plan.arguments and implements(run.package, run.workflow):
            return "code was written, and whoever wrote it does not judge it"
        return None

    def bind(self, run: Draft) -> str | None:
        """See the port."""
        return outcome.bind(run)

    def begin(self, run: Draft, round: int) -> Examined | Inquiry:
        """See the port."""
        if review_brief.is_review(run.workflow.skill):
            if round == 1 and (found := own_review(run)) is not None:
                return settled(run, round, found)
            if round == 1:
                # A review that says nothing is no review: then others do it.
                unsaid = "the review does not say what it came to, and it cannot be told from its findings"
                run.warn("code_review_unsaid", f"{unsaid}; others review the work now")
        elif (why := skipped(run)) is not None:
            return Examined(SKIPPED, f"{why}; nobody has reviewed this work")
        return Reviewing(gather(run, round, self._about(run)), round)


@dataclass(frozen=True, slots=True)
class Reviewing:
    """A round that reviewers hold. See `engine.context.Inquiry`."""

    input: ReviewInput
    round: int

    async def ask(self, runtime: Runtime, note: Note) -> Examined:
        """The reviewers' answers: asked once more where one cannot be read, or where too little was looked at."""
        given, limit = ReviewRound(self.input), runtime.limits.workflow
        emphases = reviewers.EMPHASES if self.input.several else (ALONE,)
        asked = reviewers.fork(self.input.brief, emphases, priority=HIGH, time_limit=limit)
        first = await self._asked(runtime, note, asked)
        if (early := panel.ended_early(first)) is not None:
            return early
        for one in first:
            if one.status == "completed":
                given.said[one.label] = [one.text]
            else:
                given.lost[one.label] = one.detail or one.status
        followed = reviewers.followed(self.input.rounds, given.answers)
        given.few = bool(given.said) and self.round == 1 and len(followed.open) < LEAST
        wanted = given.wanted(followed)
        again = [
            replace(
                one,
                label=f"{one.label}{AGAIN}",
                prompt=review_brief.harder(one.prompt, given.said[one.label][0], wanted[one.label]),
            )
            for one in asked
            if one.label in wanted
        ]
        second = await self._asked(runtime, note, again)
        if (early := panel.ended_early(second)) is not None:
            return early
        for one in second:
            label = one.label.removesuffix(AGAIN)
            if one.status == "completed" and reviewers.answer(one.text, label).readable:
                given.said[label].append(one.text)
        given.missed = panel.REVIEW.missed(len(given.answers), len(asked))
        if given.missed is None and (silent := given.unjudged):
            # Those who found them were asked twice: somebody else is.
            (other,) = reviewers.fork(self.input.brief, (reviewers.instead(silent),), time_limit=limit)
            third = await self._asked(runtime, note, [other])
            if (early := panel.ended_early(third)) is not None:
                return early
            if third[0].status == "completed":
                given.said[other.label] = [third[0].text]
        answers = given.answers
        given.lost |= {label: "its answer could not be read" for label in given.said if label not in answers}
        given.said = {label: texts for label, texts in given.said.items() if label in answers}
        if given.missed is not None:
            reasons = "; ".join(f"{label}: {why}" for label, why in given.lost.items())
            return Examined(given.missed, f"no reviewer came to a verdict ({reasons})", details={"lost": given.lost})
        return judged(given, {label: _named(label, one) for label, one in answers.items()})

    async def _asked(self, runtime: Runtime, note: Note, assignments: Sequence[Assignment]) -> list[Report]:
        """A report on each, in their order. Each that completes is kept in the run's state until its round is over, so
        that a run which is killed asks only the others again.

        Raises:
            Superseded: the run is somebody else's now.
        """
        if runtime.dispatcher is None:
            return [Report(one.label, "failed", detail="this run has no agents to give work to") for one in assignments]
        found = dict(self.input.kept)

        async def heard(place: int, report: Report) -> None:
            if report.status == "completed":
                await note(_reported, report)

        left = [one for one in assignments if one.label not in found]
        asked = await panel.ask(
            runtime.dispatcher, left, panel.REVIEW, heard=heard, failed=lambda report: note(_failed, report)
        )
        found |= {report.label: report for report in asked.reports.values()}
        return [found[one.label] for one in assignments]

    def judge(self, run: Draft, said: Examined) -> Examined:
        """See the port."""
        return settled(run, self.round, said)


def _reported(run: Draft, report: Report) -> None:
    kept: Json = run.state.examinations.setdefault(CODE_REVIEW, {"rounds": []}).setdefault("reports", {})
    kept[report.label] = asdict(replace(report, text=report.text[-KEPT:]))


def _failed(run: Draft, report: Report) -> None:
    why = f"{report.label}: {report.detail or report.status}"
    run.event("workflow.turn_failed", step=run.state.current_step, reason=why)


def settled(run: Draft, round: int, found: Examined) -> Examined:
    """Return the verdict of a round that came to one, with what was done about it in the project. Reads and writes
    files."""
    return outcome.settle(run, round, outcome.held(run, found)) if found.verdict in outcome.OUTCOMES else found


def implements(package: Package, workflow: Workflow) -> bool:
    """Whether a workflow writes code: one of its steps says so by its title. A skill that only forwards to another one
    does what that one does."""
    forwarded = FORWARDS.search(workflow.skill.description or "")
    if forwarded is not None:
        name = forwarded[1].removeprefix("bmad-")
        target = next((one for one in package.of_type("workflows") if one.name == name), None)
        return target is not None and target != workflow.skill and implements(package, workflows.read(package, target))
    return any(map(IMPLEMENTS.search, [one.title for one in workflow.steps]))


def several(run: Draft) -> bool:
    """Whether each emphasis has a reviewer of its own. Work that its skill has reviewed already, from as many sides, is
    not paid for twice: one looks at it, unless that review recommends that it is followed up."""
    built = run.state.rounds_of(BUILD_RESULT)
    return built[-1].get(FOLLOW_UP) is True if built else (run.settings.tier or 0) >= SEVERAL_FROM


def skipped(run: Draft) -> str | None:
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


def gather(run: Draft, round: int, about: str = "") -> ReviewInput:
    """Read what reviewers are given; `about` is what is known of the work beside the story's own file. Reads files and
    asks git."""
    state, package, module = run.state, run.package, run.workflow.module
    story, changed = outcome.story_of(run), review_brief.of_run(state, package.root)
    built = state.rounds_of(BUILD_RESULT)
    recorded = [str(one["record"]) for one in built[-1:] if one.get("record")]
    recorded = recorded or stories.records(run.root, state.plan.values)
    if story is None and len(recorded) == 1:  # Its skill keeps it, status and all: it is read here, and never written.
        story = stories.Story(recorded[0], documents.read(run.root, recorded[0]))
    own = review_brief.installed(package, module)
    asked = f"{state.plan.arguments}\n\n{state.plan.brief}".strip()
    kept = state.examinations.get(CODE_REVIEW, {})
    rounds = state.rounds_of(CODE_REVIEW)
    earlier = review_brief.before(rounds, str(kept.get("answer") or ""), str(kept.get("advice") or ""))
    text = review_brief.brief(state.skill, story, about, asked, changed, own, package, module, before=earlier)
    reports = {label: Report(**one) for label, one in kept.get("reports", {}).items()}
    return ReviewInput(text, own.items, changed.paths, tuple(rounds[: round - 1]), several(run), reports)


def judged(given: ReviewRound, answers: Mapping[str, Answer]) -> Examined:
    """What the reviewers' answers come to together: findings, each once, the checklist, and the verdict."""
    followed = reviewers.followed(given.input.rounds, answers)
    levelled = (replace(one, data={**one.data, "level": LEVELS.get(one.severity, "Low")}) for one in followed.open)
    followed = replace(followed, open=tuple(levelled))
    findings = followed.open[:MOST]
    high, medium = (sum(one.severity == name for one in findings) for name in (BLOCKING, MAJOR))
    noun = "issue" if len(findings) == 1 else "issues"
    counts = f"{len(findings)} {noun} ({high} High, {medium} Medium, {len(findings) - high - medium} Low)"
    said = next((one.summary for one in answers.values() if one.summary), "")
    notes = [f"{counts}: {said}" if said else counts]
    few = given.few and len(findings) < LEAST
    if few:
        notes.append(f"asked to look harder, {'they' if len(answers) > 1 else 'the reviewer'} found no more")
    if given.lost:
        notes.append(f"without {', '.join(given.lost)}")
    opinions = [verdict_of({"": one}, one.findings) for one in answers.values()]
    details = {
        "reports": {label: text[-REPORT:] for label, text in given.texts.items()},
        "lost": given.lost,
        **followed.beyond(MOST),
        "reviewed": list(given.input.paths[:100]),
        "checklist": [one.as_dict() for one in checklist.evaluated(given.input.items, given.texts)],
    }
    agreement = 100.0 * max(opinions.count(one) for one in set(opinions)) / len(opinions)
    told = {"high_and_medium": high + medium, "fewer_than_three": few}
    signals = {"reviewer_agreement": agreement}
    verdict = verdict_of(answers, findings)
    silent = [one for one in given.unjudged if one.data["id"] in {other.data["id"] for other in findings}]
    if verdict == CHANGES and silent and len(silent) == high + medium:
        # Its maker has said what it did about them, and can do no more.
        verdict = BLOCKED
        notes.append(f"no reviewer says whether {', '.join(str(one.data['id']) for one in silent)} still stands")
    return Examined(verdict, "; ".join(notes), findings, details, told, signals)


def verdict_of(answers: Mapping[str, Answer], findings: tuple[Finding, ...]) -> str:
    """The verdict of all reviewers together.

    What was printed, and what follows from the findings: an approval beside open High or Medium findings is none, and
    changes that nobody can name are no reason to change anything.
    """
    said = [verdicts.of_word(one.verdict) or "" for one in answers.values()]
    follows = verdicts.of_findings(sum(one.severity in LEVELS for one in findings))
    return panel.REVIEW.verdict([follows, *(one for one in said if findings or one != CHANGES)])


def _named(label: str, one: Answer) -> Answer:
    """The same, with a finding where it rejects the work and names none: its verdict counts all the same."""
    if one.findings or any(given.verdict == reviewers.STILL_OPEN for given in one.earlier):
        return one
    severity = {BLOCKED: BLOCKING, CHANGES: MAJOR}.get(verdicts.of_word(one.verdict) or "")
    if severity is None:
        return one
    title = one.summary or f"{label} says {one.verdict} and names no finding"
    return replace(one, findings=(Finding(severity, title, found_by=(label,)),))


def own_review(run: Draft) -> Examined | None:
    """The first round of a review that a person ran; None where neither what it said nor the story tells its verdict.
    Reads files."""
    story = outcome.story_of(run)
    said = "\n\n".join(one["said"] for one in run.state.transcript)
    noted = stories.section(story.text, stories.NOTES) if story else ""
    found = verdicts.review(said) or (verdicts.review(noted) if noted else None)
    if found is None:
        return None
    manner = "as it says" if found.printed else "as follows from what it says"
    left = found.verdict == CHANGES and (found.left or _chosen_to_leave(run))
    why = f"{found.why}, {manner}" + ("; what is open was left for later, as was chosen" if left else "")
    return Examined(
        found.verdict, why, OWN[found.verdict], {"own": True, "left_open": left}, {"printed": found.printed}
    )


def _chosen_to_leave(run: Draft) -> bool:
    """Whether a human chose to keep the findings as action items."""
    answers = [one for one in run.state.asked if one.get("by") == "human" and one.get("purpose") == "menu"]
    if not answers:
        return False
    last = answers[-1]
    chosen = str(last.get("answer", "")).strip().strip("[]. ").lower()
    labels = [line for line in str(last.get("text", "")).lower().splitlines() if line.strip(" *[>").startswith(chosen)]
    return any(word in f"{chosen} {' '.join(labels)}" for word in LEFT)
