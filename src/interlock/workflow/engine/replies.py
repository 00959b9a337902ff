"""WAITING_USER: a human's answer, and what it does to the run.

An answer to a question or a menu goes to the agent. A checkpoint and an oversight pause are confirmed, or take the step
back with what the human wants changed. An escalation is retried, skipped, stopped, or retried with advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.workflow.engine import initialization, menus, prompts, questions, recovery, reviews, steps, transitions
from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.effects import ANSWER, Act
from interlock.workflow.engine.questions import AGAIN, DETAILS, GO_ON, SKIP, STOP
from interlock.workflow.markdown import quoted
from interlock.workflow.menus.options import Option
from interlock.workflow.state.document import FAILED, INITIALIZING, RUNNING, WAITING_USER, Waiting

STOPPED = "a human stopped it"
KEPT = ("hash", "party", "kind", "reason", "issues")
"""What is still known of a failure when a human has the step tried again."""


def take(run: Draft, text: str, by: str, pattern: Mapping[str, Any] | None) -> None:
    """What an answer does to the run."""
    state, waiting = run.state, run.state.waiting
    assert waiting is not None
    for entry in state.asked:
        if entry["key"] == waiting.key:
            entry |= {"answer": text, "by": "human", "who": by}
    state.visits = {}
    run.effect(Act.NOTE_PROGRESS)
    run.event("workflow.answered", purpose=waiting.purpose, answer=text[:500], by=by)
    run.decide(Decision(waiting.purpose, text, f"{by} answered", by="human", pattern=pattern))
    handlers = {
        "menu": _menu, "menu_pause": _paused, "question": _question, "preflight": _preflight, "oversight": _confirmed,
        "checkpoint": _confirmed, "escalation": _escalation, "party_mode": _party, "resume": _change,
    }  # fmt: skip
    handlers.get(waiting.purpose, _question)(run, waiting, text)


def _menu(run: Draft, waiting: Waiting, text: str) -> None:
    options = [Option(str(one["key"]), str(one["label"])) for one in waiting.data.get("options", [])]
    option = questions.choose(text, options)
    key = option.key if option else text
    state = run.state
    if option is not None:
        id, at = str(waiting.data.get("menu_id", "")), run.now
        entry = menus.KeptSelection(at, id, key, 100, "a human chose", automatic=False, decision_source="human")
        state.menu_history = menus.with_selection(state.menu_history, entry)
        menus.opened(state, run.record, option)
    menus.choose(run, option or text, "the user's choice" if option else "the user's words")
    state.waiting = None
    run.move(RUNNING)


def _paused(run: Draft, waiting: Waiting, text: str) -> None:
    """The pause after many menus is acknowledged, and the menu that waited is put to the human."""
    if questions.meaning(text, waiting.purpose) == STOP:
        _stop(run)
        return
    menus.acknowledged(run, waiting)


def _question(run: Draft, waiting: Waiting, text: str) -> None:
    """What a person says goes to the agent; of a halt, they may also have the step tried again, skipped or stopped."""
    meant = questions.meaning(text, "escalation") if waiting.data.get("blocked") else None
    then = str(waiting.data.get("then") or "")
    if meant in (AGAIN, SKIP, STOP):
        _escalation(run, waiting, text)
        if meant == AGAIN and then:
            run.state.recovery["guidance"] = then
        return
    answer = prompts.answer(text, "the user's answer")
    run.send(ANSWER, f"{answer}\n\n{then}" if then else answer)
    run.state.waiting = None
    run.move(RUNNING)


def _preflight(run: Draft, waiting: Waiting, text: str) -> None:
    """A value, or that it be looked for again; to go on without one is not possible."""
    meant = questions.meaning(text, "escalation")
    if meant in (STOP, SKIP):
        _stop(run)
        return
    if meant == AGAIN:
        run.state.plan.values |= waiting.data.get("before") or {}
        run.state.waiting = None
        initialization.initialize(run)
        return
    initialization.take_values(run, [str(one) for one in waiting.data.get("missing", [])], text)
    run.state.waiting = None
    initialization.initialize(run)


def ask_about_change(run: Draft, text: str) -> None:
    """The workflow is not what it was when the state was saved: a fresh start is advised, a human decides."""
    state = run.state
    if state.waiting is not None and state.waiting.purpose == "resume":
        return
    before = {"state": RUNNING if state.waiting is None else state.state}
    state.state = WAITING_USER  # from wherever it was
    options = ("start fresh", "resume")
    run.ask(
        "resume", "clarification", f"{text} ({' / '.join(options)}?)", options, known_by=f"{text} {run.workflow.hash}",
        shown=text, default=options[0], data=before,
    )  # fmt: skip


def _change(run: Draft, waiting: Waiting, text: str) -> None:
    state = run.state
    state.workflow_hash = run.workflow.hash
    state.hooks.pop("pinned", None)
    if text.strip().lower() == "resume":
        state.waiting, state.sent = None, None
        run.interrupted = False
        here = state.step(state.current_step) if state.current_step is not None else None
        if here is None or steps.find(run.workflow, here) is None:
            _stop(run)
            return
        run.move(RUNNING)
        return
    # What was written stays where it is; the run forgets it and begins with the first step.
    state.steps, state.completed_steps, state.plan_of_steps = {}, [], []
    state.current_step = state.waiting = state.sent = state.agent_session = None
    state.transcript, state.menu_stack, state.batch, state.recovery = [], [], [], {}
    run.interrupted = False
    run.move(INITIALIZING)
    initialization.initialize(run)


def _confirmed(run: Draft, waiting: Waiting, text: str) -> None:
    state = run.state
    meant = questions.meaning(text, waiting.purpose)
    if meant == GO_ON:
        transitions.go_on(run, waiting.data.get("next"))
    elif meant == STOP:
        _stop(run)
    elif meant == DETAILS:
        # The whole log, and the same question (BMAD-2b.7.4).
        options = [one for one in waiting.options if one != "details"]
        text = f"{waiting.data.get('details', '')}\n\nGo on? ({' / '.join(options)})"
        record = state.step(waiting.data["done"])
        run.ask(waiting.purpose, "checkpoint", text, options, about=record, data=waiting.data)
    else:
        # Not confirmed: the step that was done last starts again, with what the human says about it.
        done = state.step(waiting.data["done"])
        said = "" if meant == AGAIN else f" They say:\n\n{quoted(text)}"
        guidance = f"The user did not accept the result of this step; do it again.{said}"
        state.waiting, state.sent = None, None
        state.recovery = {"guidance": guidance}
        if done is not None:
            state.current_step, done.before = done.id, {}
        run.move(RUNNING)


def _escalation(run: Draft, waiting: Waiting, text: str) -> None:
    state = run.state
    meant = questions.meaning(text, waiting.purpose)
    party = waiting.purpose == "party_mode"
    if meant == STOP:
        _stop(run)
        return
    recovery.loop_advised(run)
    state.error, state.error_details = None, {}
    if meant in (SKIP, GO_ON) and (meant == SKIP or party):
        state.recovery = {}
        reason = "a human accepts its result as it is" if meant == GO_ON else "a human skipped it"
        transitions.skipped(run, reason)
    elif run.examination is not None and not state.recovery:
        reviews.advised(run, run.examination, None if meant == AGAIN else text)
    else:
        failed_party = state.recovery.get("failed_party", [])
        advice = "" if meant == AGAIN else f"The user's advice on what went wrong:\n\n{quoted(text)}"
        state.recovery = {
            **{name: value for name, value in state.recovery.items() if name in KEPT},
            "advice": None if meant == AGAIN else text[:1000],
            "attempts": 0, "tried": [], "failed_party": failed_party, "guidance": advice,
        }  # fmt: skip
        state.timeout_error = None
        state.waiting, state.sent = None, None
        run.move(RUNNING)


def _party(run: Draft, waiting: Waiting, text: str) -> None:
    """What the voices could not settle: the recommendation, the work as it is, other words, or as after any failure."""
    taken = run.party.take(run, text)
    if taken == STOP:
        _stop(run)
    elif not taken:
        _escalation(run, waiting, text)


def _stop(run: Draft) -> None:
    state = run.state
    error = state.error or str(state.recovery.get("reason") or STOPPED)
    state.error_details |= {"tried": list(state.recovery.get("tried", [])), "by": "human"}
    run.end(FAILED, error)
