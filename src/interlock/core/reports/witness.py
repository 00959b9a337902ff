"""What happened in a team, derived from rows of its ledger alone: the rows (`account`) and the figures (`derive`).

`derive` is pure, so that whoever holds the rows, such as a receipt, comes to the same figures. `model.witness` says at
each figure which rows it is counted from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from interlock.clock import iso, seconds
from interlock.model import evidence
from interlock.model.event import Event
from interlock.model.json import Json
from interlock.model.question import Question
from interlock.model.run import Run, spent_together
from interlock.model.task import FINAL
from interlock.model.witness import PASSIVE, REDONE, Account, Silence, Unwitnessed, Witness, WitnessedTask
from interlock.settings import Settings
from interlock.storage.ledger import Rows

PAYLOAD = ("to", "id", "retry_at", "passed", "outcome", "endless")
"""What is kept of an event's payload."""
EVIDENCE = (*"kind command exit_code tree at by red_before passed merged commit changed_check".split(),)
NO_WORK = PASSIVE | frozenset(
    "scheduler.poll worker.status question.reminded notice.failed mirror.conflict mirror.adopted".split()
)
"""Events that say nothing of the work: a silence goes on over them."""
GONE = ("deadletter", "cancelled", "deleted")


def account(rows: Rows, at: str, settings: Settings) -> Account:
    """The rows of a team that its witness is derived from."""
    tasks = [*rows.tasks.select(), *rows.tasks.select(states=["deleted"])]
    ids = [task.id for task in tasks]
    runs, made = rows.runs.by_task(ids), rows.runs.artifacts_by_task(ids)
    return Account(
        rows.team.get().name, at, float(settings.get("verify_timeout")),
        people=[member.name for member in rows.team.members() if member.role == "person"],
        events=[replace(one, payload=_of(one.payload, PAYLOAD)) for one in rows.events.since(0)],
        tasks=[
            WitnessedTask(
                task.id, task.state, [_of(one, EVIDENCE) for one in task.evidence],
                (task.worktree or {}).get("branch"), (task.worktree or {}).get("merged"),
                sum(one.file is not None for one in made.get(task.id, ())),
            )
            for task in tasks
        ],
        runs=[_bare(run) for task in tasks if task.run for run in runs.get(task.id, ())],
        questions=[_digested(one) for task in tasks for one in rows.questions.of_task(task.id)],
    )  # fmt: skip


def derive(found: Account) -> Witness:
    """The figures of an account."""
    began = next((one.at for one in found.events if one.type == "task.claimed"), None)
    ended = _ended(found) if began is not None else None
    people = {(one.actor, one.at) for one in found.events if one.actor in found.people and one.type not in PASSIVE}
    done = [task for task in found.tasks if task.state == "done"]
    lacking = [Unwitnessed(task.id, missing) for task in done if (missing := _lacks(task)) is not None]
    witnessed = [task for task in done if _lacks(task) is None]
    checks = [evidence.latest_check(task.evidence) or {} for task in witnessed]
    verified = sum(evidence.is_verified(task.evidence) for task in done)
    silent = max(silences(found, began, ended), default=None, key=lambda one: one.seconds) if began and ended else None
    newest = {run.task_id: run.number for run in sorted(found.runs, key=lambda run: run.number)}
    redone = [run for run in found.runs if run.outcome in REDONE and run.number < newest[run.task_id]]
    worked = {run.task_id for run in found.runs if run.turns}
    spent = spent_together(found.runs)
    tokens = spent["input_tokens"]
    minutes = len({at[:16] for _, at in people if ended is None or at <= ended})
    return Witness(
        found.team, began, ended,
        claimed=len(done),
        witnessed=len(witnessed),
        green_before=sum(one.get("red_before") is False for one in checks),
        changed_check=sum(bool(one.get("changed_check")) for one in checks),
        unwitnessed=lacking,
        verified=verified,
        refused=sum(_refused(one) for one in found.events),
        touches=sum(began <= at <= ended for _, at in people) if began and ended else 0,
        human_minutes=minutes,
        silence=silent,
        questions=len(found.questions),
        genuine=_genuine(found),
        open_questions=sum(one.state == "open" for one in found.questions),
        redone=len(redone),
        redone_seconds=round(sum(max(0.0, seconds(str(run.ended_at)) - seconds(run.started_at)) for run in redone), 3),
        lost=[
            task.id for task in found.tasks
            if task.state in GONE and task.id in worked and task.branch is None and not task.kept
        ],
        input_tokens=tokens,
        output_tokens=spent["output_tokens"],
        cost_usd=spent["cost_usd"],
        tokens_unknown=spent.get("unknown", []),
        cost_unknown=sum(bool(run.turns) and run.cost_usd is None for run in found.runs),
        verified_per_human_minute=round(verified / minutes, 3) if minutes else None,
        tokens_per_verified=round((tokens + spent["output_tokens"]) / verified, 1) if verified and tokens is not None
        else None,
        pruned_at=max((one.at for one in found.events if one.type == "ledger.pruned"), default=None),
    )  # fmt: skip


def silences(found: Account, began: str, ended: str) -> Iterator[Silence]:
    """Each stretch of the period without an event about the work, as far as work was due.

    Due is a task in progress or in review, and where there is none, one that is ready; but not

    * while a question about it is open, or until the `retry_at` of its newest event that names one;
    * while its check or its merge runs, for as long as a check may run, or until another runner takes the team over;
    * while the team is paused or shut down, or after as many runners stopped as had started. A runner that was killed
      has not stopped.
    """
    due = _Due(found.check_limit)
    heard = [one for one in found.events if one.type not in NO_WORK and one.at <= ended]
    for one, later in zip(heard, [*(one.at for one in heard[1:]), ended], strict=True):
        due.hear(one)
        begins = due.since(max(seconds(one.at), seconds(began)))
        if begins is not None and seconds(later) > begins:
            yield Silence(round(seconds(later) - begins, 3), iso(begins))


class _Due:
    """Which tasks are due, as of the events that it has heard."""

    def __init__(self, check_limit: float) -> None:
        self._check_limit = check_limit
        self._states: dict[str, str] = {}
        self._asked: dict[str, set[str]] = {}
        self._waits: dict[str, float] = {}
        self._checks: dict[str, float] = {}
        self._runners: set[int] = set()
        self._stopped = False
        self._paused = False

    def hear(self, event: Event) -> None:
        """Take an event in."""
        task, said = event.task_id or "", event.payload
        match event.type:
            case "task.transitioned":
                self._states[task] = str(said.get("to"))
            case "question.asked":
                self._asked.setdefault(task, set()).add(str(said.get("id")))
            case "question.answered" | "question.withdrawn":
                self._asked.get(task, set()).discard(str(said.get("id")))
            case "verify.started" | "merge.started":
                self._checks[task] = seconds(event.at) + self._check_limit
            case "verify.finished" | "merge.finished":
                self._checks.pop(task, None)
            case "team.paused" | "team.shutdown" | "team.resumed":
                self._paused = event.type != "team.resumed"
            case "runner.started":
                self._runners.add(event.seq if said.get("endless") else 0)
                self._stopped = False
                if not said.get("endless"):  # A team has one such: it has taken the place of one that is gone.
                    self._checks.clear()
            case "runner.stopped":
                endless = sorted(self._runners - {0})
                self._runners.discard(endless[0] if said.get("endless") and endless else 0)
                self._stopped = not self._runners
        if said.get("retry_at"):
            self._waits[task] = seconds(str(said["retry_at"]))

    def since(self, at: float) -> float | None:
        """From when on, at that time or later, something is due if no further event comes."""
        if self._paused or self._stopped:
            return None
        active = [id for id, state in self._states.items() if state in ("in-progress", "review")]
        some = active or [id for id, state in self._states.items() if state == "ready"]
        due = [max(at, self._waits.get(id, at), self._checks.get(id, at)) for id in some if not self._asked.get(id)]
        return min(due, default=None)


def _ended(found: Account) -> str:
    """The end of the period."""
    if any(task.state not in FINAL | {"deadletter"} for task in found.tasks):
        return found.at
    ends = FINAL | {"deadletter"}
    last = (one.at for one in found.events if one.type == "task.transitioned" and one.payload.get("to") in ends)
    return max(last, default=found.at)


def _lacks(task: WitnessedTask) -> str | None:
    """What the evidence of a finished task lacks to be witnessed; None where it lacks nothing."""
    check = evidence.latest_check(task.evidence)
    if check is None:
        return "has no check"
    if not check.get("passed"):
        return "has a newest check that did not pass"
    if not check.get("merged"):
        return "has a check, but not of the merged tree"
    missing = [name for name in ("tree", "command", "exit_code", "red_before") if check.get(name) is None]
    if missing:
        return f"has a check that does not say its {', '.join(missing)}"
    landed = next((one for one in reversed(task.evidence) if one["kind"] == "diff"), None)
    if landed is not None and landed.get("tree") != check["tree"]:
        return "was merged as another tree than the one that was checked"
    return None


def _refused(event: Event) -> bool:
    if event.type == "verify.finished":
        return event.payload.get("passed") is False
    return event.type == "merge.finished" and event.payload.get("outcome") == "red"


def _genuine(found: Account) -> int:
    seen: set[tuple[str, str, str]] = set()
    genuine = 0
    for one in sorted(found.questions, key=lambda one: (one.asked_at, one.id)):
        if one.state == "answered" and one.answered_by in found.people:
            about = (one.task_id, one.kind, one.text)
            genuine += about not in seen and one.answer != one.default
            seen.add(about)
    return genuine


def _of(payload: Json, names: tuple[str, ...]) -> Json:
    return {name: payload[name] for name in names if name in payload}


def _bare(run: Run) -> Run:
    """A run without its process, its session and what it said."""
    return replace(
        run, session="", reason=None, runner=None, process=None, result=None, applied=None, seen={}, agent_session=None
    )


def _digested(one: Question) -> Question:
    text, default, answer = (
        None if part is None else hashlib.sha256(part.encode("utf-8", "surrogatepass")).hexdigest()
        for part in (one.text, one.default, one.answer)
    )
    return replace(
        one, text=text or "", default=default, answer=answer, options=[], context=None, key=None, session=None, data={},
        answered_session=None,
    )  # fmt: skip
