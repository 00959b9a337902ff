"""What runs cost, as their agents tell it, and whether that is more than was allowed.

An agent tells turns, tokens and money as it pleases; a prompt that tells nothing counts as one turn, and its tokens
as unknown. What a run spent is in its row; from its first prompt until its account is closed something of it counts
as unknown, so that a runner that is killed leaves no wrong sum, and so does the last request of a prompt that was cut
off. A prompt with mail between two tasks is a run without a task (decision 0770). A limit holds for a task over all
its runs; a person's `continue` grants the same amount once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.agents.session import Update
from interlock.clock import iso
from interlock.core.tasks import answer
from interlock.core.unit_of_work import UnitOfWork
from interlock.lazy_dataclass import dataclass
from interlock.model.question import Question
from interlock.model.run import Run
from interlock.model.task import MEASURES, Task
from interlock.settings import Settings
from interlock.storage.ledger import Rows

COUNTED = ("turns", "input_tokens", "output_tokens", "cost_usd")
UNITS = {"turns": "turns", "tokens": "tokens", "cost_usd": "USD", "time": "seconds"}
CONTINUE, CANCEL = "continue", "cancel"
UNMETERED = "unmetered"


class UsageMeter:
    """What one run has spent, all of it since it is metered: written down twice, or told twice, it counts once."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._written: dict[str, float] = {}
        self._before: dict[str, float] | None = None
        """What the row of the run held then; None while that was not looked at."""
        self._waits: list[Mapping[str, Any]] = []
        self._turns_told = self._tokens_told = False
        self.unmetered = 0
        """How many prompts have ended without a word of their tokens."""
        self._cut_off = 0
        """How many others were cut off: of their last request nothing was told."""

    @classmethod
    def of(cls, told: Mapping[str, float]) -> UsageMeter:
        """What a meter on another machine has `told`."""
        meter = cls()
        meter._before = {}
        meter.hear(Update("usage", "", dict(told)))
        unmetered = told.get(UNMETERED, 1)
        meter.unmetered = int(unmetered) if 0 <= unmetered < 1e9 else 1
        return meter

    def told(self) -> dict[str, float]:
        """All of it, for a meter elsewhere. `unmetered`: of how many prompts something is unknown."""
        return {**self._spent, UNMETERED: self.unmetered + self._cut_off}

    @property
    def unwritten(self) -> bool:
        """Whether there is anything to write down."""
        return bool(self._waits) or self._spent != self._written

    def hear(self, update: Update) -> None:
        """Something the agent told; only `usage` counts, and that its program waits for its provider."""
        if update.kind == "notice" and "retry_at" in update.data:
            self._waits.append(update.data)
        if update.kind != "usage":
            return
        for name in COUNTED:
            value = update.data.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e12:
                self._spent[name] = self._spent.get(name, 0) + value
                self._turns_told = self._turns_told or name == "turns"
            self._tokens_told = self._tokens_told or (value is not None and name.endswith("_tokens"))

    def turn_ended(self, *, whole: bool) -> None:
        """A prompt was answered, or, unless `whole`, cut off."""
        if not self._turns_told:
            self._spent["turns"] = self._spent.get("turns", 0) + 1
        self.unmetered += not self._tokens_told
        self._cut_off += self._tokens_told and not whole
        self._turns_told = self._tokens_told = False

    def write(self, act: UnitOfWork, task_id: str, run: Run, *, closes: bool = False) -> None:
        """Write down what the row of the run lacks of it, if anything; `closes`: no turn is under way."""
        waits = list(self._waits)
        for one in waits:
            until = iso(float(one["retry_at"])) if one["retry_at"] else None
            act.event("run.waiting", task_id, run=run.id, reason=one["reason"], retry_at=until)

        def told() -> None:
            del self._waits[: len(waits)]

        act.after_commit.append(told)
        spent = self.add(act, run, closes=closes)
        if spent:
            act.event("run.spent", task_id, run=run.id, **spent)

    def add(self, act: UnitOfWork, run: Run, *, closes: bool) -> dict[str, float]:
        """The same without a word in the history; what was added."""
        whole, unknown = dict(self._spent), self.unmetered + self._cut_off
        more = self.lacking(run)
        if closes and run.unmetered != unknown:
            act.rows.runs.update(run, unmetered=unknown)
        if more:
            act.rows.runs.update(run, **{name: round((getattr(run, name) or 0) + by, 6) for name, by in more.items()})

        def written() -> None:
            self._written = whole

        act.after_commit.append(written)
        return more

    def lacking(self, run: Run) -> dict[str, float]:
        """What the row of the run lacks of it."""
        kept: dict[str, float] = {name: getattr(run, name) or 0 for name in COUNTED}
        self._before = kept if self._before is None else self._before
        more: dict[str, float] = {}
        for name, spent in dict(self._spent).items():
            lacks = self._before.get(name, 0) + spent - kept[name]
            more[name] = round(lacks, 6) if name == "cost_usd" else int(lacks)
        return {name: by for name, by in more.items() if by > 0}


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that was reached, or, with `spent` None, may be. `of` says whose it is: `task` or `member`."""

    of: str
    measure: str
    limit: float
    spent: float | None

    def as_text(self) -> str:
        """In a few words."""
        if self.spent is None:
            return f"an unknown number of {UNITS[self.measure]}, which its agent does not tell, of {self.limit:,.0f}"
        return f"{amount(self.measure, self.spent)} of {amount(self.measure, self.limit)}"


def excess(rows: Rows, task: Task, run: Run, settings: Settings, now: str, *, unmetered: bool = False) -> Excess | None:
    """The first limit that the task, or the member at it, has reached. `unmetered`: tokens of this run are unknown."""
    limits = task_limits(task, settings)
    member = rows.team.member(run.member)
    own = (member.limits if member is not None else None) or {}
    for of, allowed, spent in (
        ("task", limits, rows.runs.spent(now, task=task.id) if limits else {}),
        ("member", own, rows.runs.spent(now, member=run.member) if own else {}),
    ):
        for measure in MEASURES:
            limit = allowed.get(measure)
            if limit is None:
                continue
            times = granted(rows.questions.of_task(task.id), of, measure)
            limit *= 1 + times
            if measure == "tokens" and unmetered and not times:
                return Excess(of, measure, limit, None)
            if spent[measure] >= limit:
                return Excess(of, measure, limit, spent[measure])
    return None


def out_of_mail(rows: Rows, member: str, now: str) -> Excess | None:
    """The limit of a member that is used up, so that it gets no prompt for its mail alone."""
    found = rows.team.member(member)
    limits = (found.limits if found is not None else None) or {}
    spent = rows.runs.spent(now, member=member) if limits else {}
    for measure, limit in limits.items():
        if limit is not None and spent[measure] >= limit:
            return Excess("member", measure, limit, spent[measure])
    return None


def ask_to_continue(act: UnitOfWork, task: Task, over: Excess, *, held: bool) -> None:
    """Ask a person whether the task may go on beyond a limit; `held`: its session lives and waits for the answer."""
    whose = f"{task.id} has" if over.of == "task" else f"{act.name} has"
    act.event("limit.reached", task.id, of=over.of, measure=over.measure, limit=over.limit, spent=over.spent)
    more = amount(over.measure, over.limit)
    answer.ask(
        act, task, kind="limit", text=f"{whose} used {over.as_text()}. Go on?", options=(CONTINUE, CANCEL), held=held,
        context=f"continue: as much once more; cancel: {task.id} is cancelled. So far the limit was {more}.",
        data={"of": over.of, "measure": over.measure, "limit": over.limit, "spent": over.spent},
    )  # fmt: skip


def task_limits(task: Task, settings: Settings) -> dict[str, float]:
    """What one task may use: its own limits, else those of the settings; what has none is left out."""
    found = {measure: float(settings.get(f"task_{measure}")) for measure in MEASURES[:3]} | (task.limits or {})
    return {name: value for name, value in found.items() if value > 0}


def granted(asked: list[Question], of: str, measure: str) -> int:
    """How often a person let it go on."""
    return sum(
        one.kind == "limit"
        and one.state == "answered"
        and one.data.get("of") == of
        and one.data.get("measure") == measure
        and (one.answer or "").strip().lower() == CONTINUE
        for one in asked
    )


def amount(measure: str, value: float) -> str:
    """A number with its unit."""
    return f"{value:,.2f} USD" if measure == "cost_usd" else f"{value:,.0f} {UNITS[measure]}"
