"""What a lasting session is told between the turns of one run, before its task is settled.

    a turn ends ──> a person is asked ──────────> wait: the answer is the next prompt, or the session closes
                ──> over a limit ───────────────> a person is asked whether it may continue
                ──> no progress for some turns ─> told so once; then the attempt is over
                ──> only repeats its tool calls > the same, or a new session or a question, as a setting says
                ──> mail waits ─────────────────> the mail, urgent first; so many times in a row at most
                ──> something was refused ──────> why, and what is allowed; so many times at most
                ──> its report was found wrong ─> the findings, once; that is the same round
                ──> no report ──────────────────> one reminder
                ──> otherwise the task is settled

Urgent mail waits for the end of the turn, too: an agent is interrupted only to be ended.

A turn makes progress when a tool call changed something, when a file in the working directory is another one than
before, or when the agent says something that it did not say the turn before. So many turns in a row without any of
that, and the run is *stuck*. What was looked at is written down as evidence.

A turn may also repeat itself without ever ending. So the last tool calls are looked at: where less than a tenth of them
had an input or an output that the run had never had before, the turn is interrupted. Of calls that a program refuses
before it tells them, its own log has the same line again and again: that counts as well while no call is under way.
Time plays no part in that: an agent that waits for one long step, or thinks, calls nothing and is left alone.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any, Literal

from interlock.agents.session import Update
from interlock.core.tasks import answer, review
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import UnitOfWork
from interlock.core.waiting import StillWaiting, Wait, in_thread, unanswered
from interlock.lazy_dataclass import dataclass
from interlock.model.message import Message
from interlock.model.run import Run
from interlock.model.task import WAITING, Task
from interlock.model.text import plain, stuck
from interlock.protocol.dropped import adopt
from interlock.runner import usage
from interlock.runner.completion import read_outcome, read_verdict
from interlock.runner.context import ActiveRun
from interlock.runner.executor import Result
from interlock.runner.job import TOLD, is_person, offer_mail_in, worth_a_prompt
from interlock.runner.permissions import rules_of
from interlock.runner.prompt import (
    NO_VERDICT,
    STUCK,
    answer_prompt,
    findings_prompt,
    mail_prompt,
    refused_prompt,
    reminder,
    repeating_prompt,
)
from interlock.runner.stdout_messages import without_messages
from interlock.runner.verify import fingerprint

REFUSALS_TOLD = 5
"""How often one run is told why something was refused; after that it is reminded and settled like others."""
REPEATED = 0.1
"""The share of calls with something new below which the last calls do nothing but repeat earlier ones."""
SEEN_KEPT = 50_000
COMPLAINT = re.compile(r"error|fail|panic|refused|denied", re.IGNORECASE)
"""What a line of a program's own log has where it says that something did not work."""
CHANGING = frozenset({"edit", "delete", "move", "execute"})
"""Kinds of tool calls that may have changed something."""


@dataclass(frozen=True, slots=True)
class NextPrompt:
    """The next prompt of the same run; `mail` are the numbers of the messages in it."""

    text: str
    mail: list[int] = field(default_factory=list)


Step = NextPrompt | Literal["wait"] | None


class TurnProgress:
    """Whether a run in `workdir` makes progress, judged from outside. So many `calls` of tools that have nothing new
    are a repetition; 0: none are."""

    def __init__(self, workdir: str, calls: int = 0) -> None:
        self._workdir = workdir
        self._changes = 0
        self._said = ""
        self._files: str | None = ""
        self.idle_turns = 0
        self.evidence: dict[str, Any] = {}
        self._calls: deque[tuple[bool, str, float]] = deque(maxlen=calls)
        self._seen: set[str] = set()
        self._ended: set[str] = set()
        self._open: set[str] = set()
        self._complaints: Counter[str] = Counter()
        self._complained = 0.0
        self._spent: dict[str, float] = {}

    def begin(self) -> None:
        """Take in what lies there before the first turn. Reads the directory."""
        self._files = fingerprint(self._workdir)

    @property
    def repeating(self) -> bool:
        """Whether the last calls of tools do nothing but repeat earlier ones."""
        size = self._calls.maxlen or 0
        again = len(self._calls) == size and sum(new for new, _, _ in self._calls) < REPEATED * size
        return size > 0 and (again or self._complains())

    def _complains(self) -> bool:
        return max(self._complaints.values(), default=0) >= (self._calls.maxlen or 0)

    def repeated(self) -> dict[str, Any]:
        """What was repeated, since when, and what the turn cost as far as it was told; it is forgiven with that."""
        what = self._complaints if self._complains() else Counter(title for _, title, _ in self._calls)
        since = self._complained if self._complains() else self._calls[0][2]
        found = {
            "calls": max(what.values()) if self._complains() else len(self._calls),
            "new": 0 if self._complains() else sum(new for new, _, _ in self._calls),
            "seconds": round(time.monotonic() - since, 1),
            "repeated": [title for title, _ in what.most_common(3)],
            "spent": {"turns": 1, "input_tokens": None, "output_tokens": None, "cost_usd": None, **self._spent},
        }  # fmt: skip
        self._calls.clear()
        self._complaints.clear()
        self._spent = {}
        return found

    def hear(self, update: Update) -> None:
        data, id = update.data, str(update.data.get("id"))
        match update.kind:
            case "usage":
                for name, value in data.items():
                    if isinstance(value, (int, float)):
                        self._spent[name] = self._spent.get(name, 0) + value
            case "error" if not self._open and COMPLAINT.search(update.text):
                self._complained = time.monotonic() if not self._complaints else self._complained
                if len(self._complaints) < SEEN_KEPT:
                    self._complaints[re.sub(r"\d+", "", update.text)] += 1
            case "text" | "thought":
                self._is_new({f"say {update.text.strip()}"})
            case "tool" if data.get("status") not in ("completed", "failed"):
                self._open.add(id)
            case "tool" if id not in self._ended:
                self._open.discard(id)
                self._ended.add(id)
                if data.get("status") == "completed" and data.get("kind") in CHANGING:
                    self._changes += 1
                asked = data.get("input") or (data.get("kind"), update.text, data.get("paths"))
                told = {f"in {asked}", f"out {data['output']}" if data.get("output") else f"in {asked}"}
                self._calls.append((self._is_new(told), update.text, time.monotonic()))

    def _is_new(self, told: set[str]) -> bool:
        """Whether some of that was never told before. After it, complaints count from the first again."""
        if told <= self._seen:
            return False
        self._complaints.clear()
        if len(self._seen) < SEEN_KEPT:
            self._seen |= told
        return True

    def turn_ended(self, output: str) -> None:
        """Judge the turn; `output` is what it said. Reads the directory."""
        said = hashlib.sha256(" ".join(output.split()).encode("utf-8", "replace")).hexdigest()[:16]
        files = fingerprint(self._workdir)
        same = said == self._said and files == self._files and not self._changes
        self.idle_turns = self.idle_turns + 1 if same else 0
        self.evidence = {"turns": self.idle_turns + 1, "output": said, "files": files, "changes": self._changes}
        self._said, self._files, self._changes = said, files, 0
        self._ended.clear()
        self._open.clear()
        if not self.repeating:
            self._spent = {}


def then(how: str, *, warned: bool) -> Literal["asked", "ended", "reminded"]:
    """What the setting `when_repeating` says to do with an agent that only repeats itself."""
    return "asked" if how == "question" else "ended" if warned or how == "session" else "reminded"


class TurnLoop:
    """A run in a session that lasts. `told`: ids of questions whose answers it has read; `take_refused` answers what
    was refused since it was last called."""

    def __init__(self, run: ActiveRun, told: set[str], take_refused: Callable[[], list[str]]) -> None:
        self.progress = TurnProgress(run.workdir, int(run.context.settings.get("repeated_calls")))
        self.failure: str | None = None
        """Why the attempt is over, where the turns say so."""
        self._run = run
        self._task = run.task
        self._told = told
        self._take_refused = take_refused
        self._refusals = 0
        self._mails = 0
        self._reminded = False
        self._rounds = run.task.rounds
        self._warned = False

    def new_round(self, rounds: int) -> None:
        """Its check failed, and it continues with the findings."""
        self._rounds = rounds
        self._reminded = False

    async def following(self, result: Result) -> NextPrompt | None:
        """The next prompt after a turn that ended well; None where the run is to be settled."""
        step: Step = await in_thread(partial(self._after_turn, result))
        return await self._wait() if step == "wait" else step

    def _after_turn(self, result: Result) -> Step:
        adopt(self._run.workspace, self._task.id)
        self.progress.turn_ended(result.output)
        with self._run.act() as act:
            task, run = find(act.rows, self._task.id), act.rows.runs.get(self._task.id, self._task.run)
            if run is None or run.ended_at is not None or task.run != run.number:
                return None
            self._run.meter.write(act, task.id, run)
            if self._task.state == "review":
                under = review.under_review(act.rows, task)
                decided = under is None or under.number != self._task.run or read_verdict(result.output)
                return None if decided else self._remind(act, task, run, NO_VERDICT.format(id=task.id))
            if task.state in WAITING and task.owner == act.name:
                answer.hold(act, task)
                return "wait"
            if task.owner is None and task.state in ("ready", "backlog"):
                return self._resumed(act, task)
            if task.state != "in-progress" or task.session != act.session:
                return None
            return self._at_work(act, task, run, result)

    def _at_work(self, act: UnitOfWork, task: Task, run: Run, result: Result) -> Step:
        # It reported, if only by its last line or a file: then that is applied.
        said = read_outcome(without_messages(plain(result.output)))
        reported = said is not None or (run.result is not None and run.applied is None)
        if not reported:
            unmetered = self._run.meter.unmetered > 0
            over = usage.excess(act.rows, task, run, act.settings, act.at, unmetered=unmetered)
            if over is not None:
                usage.ask_to_continue(act, task, over, held=True)
                return "wait"
            if task.rounds > self._rounds:
                self.new_round(task.rounds)
                return NextPrompt(findings_prompt(task))
            if self.progress.repeating:
                return self._repeating(act, task)
            if self._is_stuck(act, task):
                told = STUCK.format(id=task.id, turns=self.progress.evidence["turns"])
                return None if self.failure else NextPrompt(told)
        mail = self._mail(act)
        if mail:
            return NextPrompt(mail_prompt(mail, task), [message.n for message in mail])
        # Who has reported in vain is not told to report: what lies there now is looked at.
        return None if reported else self._remind(act, task, run, None if task.rounds else reminder(task))

    def _remind(self, act: UnitOfWork, task: Task, run: Run, text: str | None) -> Step:
        """Why something was refused in this turn, or else `text`, once. The agent need not have heard the reason, and
        its program may have ended the turn for it, so that uses up no reminder."""
        refused = self._take_refused()
        if refused and self._refusals < REFUSALS_TOLD:
            self._refusals += 1
            rules = rules_of(act.rows.team.member(act.name), act.settings)
            lines = ["Refused:", *(f"- {one}" for one in dict.fromkeys(refused)), "", rules]
            return NextPrompt(refused_prompt(task, "\n".join(lines)))
        if self._reminded or text is None:
            return None
        self._reminded = True
        act.event("run.reminded", task.id, run=run.id, member=run.member)
        return NextPrompt(text)

    def _is_stuck(self, act: UnitOfWork, task: Task) -> bool:
        turns = int(act.settings.get("stuck_turns"))
        if self.progress.idle_turns < turns - 1 or self.progress.evidence["turns"] < 2:
            return False
        action = "ended" if self._warned else "reminded"
        act.event("run.stuck", task.id, run=task.run_id, action=action, evidence=self.progress.evidence)
        if self._warned:
            self.failure = f"stuck: no progress in {self.progress.evidence['turns']} turns, and none after a reminder"
        self._warned = True
        return True

    def _repeating(self, act: UnitOfWork, task: Task) -> Step:
        found, action = self.progress.repeated(), then(str(act.settings.get("when_repeating")), warned=self._warned)
        act.event("run.stuck", task.id, run=task.run_id, action=action, evidence=found)
        if action == "reminded":
            self._warned = True
            return NextPrompt(repeating_prompt(task.id, found))
        said = f"repeats itself: {stuck(found)}"
        if action == "ended":
            self.failure = said
            return None
        answer.ask(
            act, task, kind="clarification", text=f"{act.name} {said}. What should it do?", options=(), held=True,
            context=f"Your answer is its next prompt. `interlock logs {task.id}` shows what it did.",
        )  # fmt: skip
        return "wait"

    def _resumed(self, act: UnitOfWork, task: Task) -> NextPrompt | None:
        """The task was given back to the queue since its questions are answered; this session continues with it."""
        run = act.rows.runs.get(task.id, task.run)
        if run is None or run.ended_at is not None or run.session != act.session:
            return None
        answer.resume(act, task)
        asked = act.rows.questions.of_task(task.id)
        new = [one for one in asked if one.state == "answered" and one.kind in TOLD and one.id not in self._told]
        self._told.update(one.id for one in new)
        self._reminded = False
        return NextPrompt(answer_prompt(task, new))

    def _mail(self, act: UnitOfWork) -> list[Message]:
        """The mail for the next prompt, offered to this session."""
        if not worth_a_prompt(act.rows, act.name, self._mails < int(act.settings.get("mail_turns"))):
            return []
        self._mails += 1
        mail = offer_mail_in(act, self._run.context)
        if any(is_person(act.rows, message.sender) for message in mail):
            self._mails = 0
        return mail

    async def _wait(self) -> NextPrompt | None:
        """Hold the session until an answer or mail is there; None when it is to be closed."""
        workspace = self._run.workspace

        def hold_time() -> float:
            with workspace.ledger.snapshot() as rows:
                settings = workspace.settings(rows)
                return 0.0 if settings.get("unattended") else float(settings.get("hold_time"))

        hold = await in_thread(hold_time)
        ends = time.monotonic() + hold
        closed: list[str] = []

        def look() -> NextPrompt | StillWaiting | None:
            step = self._look()
            return StillWaiting(ends - time.monotonic()) if step == "wait" else step

        def give_up(reason: str | None) -> NextPrompt | None:
            why = reason or unanswered(hold)
            step = self._park(why)
            if step != "wait":
                return step
            closed.append(why)
            return None

        topics = ["tasks", "questions", f"inbox:{self._run.caller.name}"]
        following = await Wait(workspace, topics, look).held(self._run.wait, give_up)
        for why in closed:
            self._run.say(f"its session is closed: {why}")
        return following

    def _look(self) -> Step:
        with self._run.workspace.ledger.snapshot() as rows:
            known = rows.tasks.get(self._task.id)
            urgent = worth_a_prompt(rows, self._run.caller.name, True)
        if known is None or known.run != self._task.run:
            return None
        if known.state in WAITING and not urgent:
            return "wait"
        with self._run.act() as act:
            task = find(act.rows, self._task.id)
            if task.state in ("ready", "backlog") and task.owner is None:
                return self._resumed(act, task)
            if task.run != self._task.run or task.owner != act.name:
                return None
            if task.state == "in-progress":
                return NextPrompt(answer_prompt(task, []))
            if task.state not in WAITING:
                return None
            mail = self._mail(act)
            return NextPrompt(mail_prompt(mail, task), [message.n for message in mail]) if mail else "wait"

    def _park(self, why: str) -> Step:
        """Close the wait, unless the answer came at this very moment."""
        with self._run.act() as act:
            task = find(act.rows, self._task.id)
            if task.run == self._task.run and task.owner is None and task.state in ("ready", "backlog"):
                return self._resumed(act, task)
            if task.run == self._task.run and task.state in WAITING:
                answer.park(act, task, why)
            return "wait"
