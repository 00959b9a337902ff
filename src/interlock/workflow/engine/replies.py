"""WAITING_USER: a human's answer, and what it does to the run.

An answer to a question or a menu goes to the agent. A checkpoint and an oversight pause are confirmed, or take the step
back with what the human wants changed. An escalation is retried, skipped, stopped, or retried with advice.
"""

from __future__ import annotations

from interlock.workflow.engine import (
    initialization,
    loop_back_handler,
    machine,
    menu_answers,
    menus,
    prompts,
    questions,
    reviews,
    steps,
    transitions,
    turns,
)
from interlock.workflow.engine.context import Ending, RunContext
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.loop_back_handler import Visits
from interlock.workflow.engine.ports import Asking
from interlock.workflow.engine.questions import AGAIN, DETAILS, GO_ON, SKIP, STOP
from interlock.workflow.menus.nesting import Entry, History
from interlock.workflow.menus.options import Option
from interlock.workflow.party import in_a_step
from interlock.workflow.preferences import application
from interlock.workflow.state.document import FAILED, INITIALIZING, RUNNING, WAITING_USER, Waiting

STOPPED = "a human stopped it"
KEPT = ("hash", "party", "kind", "reason", "issues")
"""What is still known of a failure when a human has the step tried again."""


async def wait(run: RunContext) -> Ending | None:
    """Take the answer where there is one, or comes while the session is kept open for it; otherwise the run is parked
    (decision 30)."""
    waiting = run.state.waiting
    if waiting is None:
        run.move(RUNNING)
        return None
    if waiting.question_id is None:
        waiting.question_id = await run.save(
            Asking(waiting.key, questions.kind_of(waiting.purpose), waiting.text, tuple(waiting.options))
        )
    reply = await run.desk.reply(waiting.question_id) if waiting.question_id else None
    if reply is None and waiting.question_id and run.pool.live:
        reply = await run.desk.wait(waiting.question_id, run.limits.selection)
    if reply is None:
        return Ending("parked", waiting.text)
    await _take(run, waiting, *reply)
    return None


async def _take(run: RunContext, waiting: Waiting, text: str, by: str) -> None:
    state = run.state
    left = await turns.heard(run, waiting, text, by)
    if left is None:
        return
    text = left
    await menu_answers.menu_answered(run, waiting, text)
    for entry in state.asked:
        if entry["key"] == waiting.key:
            entry |= {"answer": text, "by": "human", "who": by}
    state.visits = dict(Visits().answered().counts)
    run.pool.progressed()
    run.event("workflow.answered", purpose=waiting.purpose, answer=text[:500], by=by)
    pattern = await application.human_chose(run, waiting, text)
    run.decide(Decision(waiting.purpose, text, f"{by} answered", by="human", pattern=pattern))
    handlers = {
        "menu": _menu, "menu_pause": _paused, "question": _question, "preflight": _preflight, "oversight": _confirmed,
        "checkpoint": _confirmed, "escalation": _escalation, "party_mode": _party, "resume": _change,
    }  # fmt: skip
    await handlers.get(waiting.purpose, _question)(run, waiting, text)


async def _menu(run: RunContext, waiting: Waiting, text: str) -> None:
    options = [Option(str(one["key"]), str(one["label"])) for one in waiting.data.get("options", [])]
    option = questions.choose(text, options)
    key = option.key if option else text
    state = run.state
    if option is not None:
        id, at = str(waiting.data.get("menu_id", "")), run.desk.now()
        entry = Entry(at, id, key, 100, "a human chose", automatic=False, decision_source="human")
        state.menu_history = History.of(state.menu_history).add(entry).as_list()
        menus.opened(state, run.record, option)
    why = "the user's choice" if option else "the user's words"
    turns.send(run, *menu_answers.chosen(run, option or text, why))
    state.waiting = None
    run.move(RUNNING)


async def _paused(run: RunContext, waiting: Waiting, text: str) -> None:
    """The pause after many menus is acknowledged, and the menu that waited is put to the human."""
    if questions.meaning(text, waiting.purpose) == STOP:
        _stop(run)
        return
    await menu_answers.acknowledged(run, waiting)


async def _question(run: RunContext, waiting: Waiting, text: str) -> None:
    turns.send(run, turns.ANSWER, prompts.answer(text, "the user's answer"))
    run.state.waiting = None
    run.move(RUNNING)


async def _preflight(run: RunContext, waiting: Waiting, text: str) -> None:
    if questions.meaning(text, "preflight") == STOP:
        _stop(run)
        return
    initialization.take_values(run, [str(one) for one in waiting.data.get("missing", [])], text)
    run.state.waiting = None
    await initialization.initialize(run)


async def ask_about_change(run: RunContext, text: str) -> None:
    """The workflow is not what it was when the state was saved: a fresh start is advised, a human decides."""
    state = run.state
    if state.waiting is not None and state.waiting.purpose == "resume":
        return
    entry = questions.new_entry(state, None, "resume", f"{text} {run.workflow.hash}", run.desk.now())
    options = ("start fresh", "resume")
    before = {"state": RUNNING if state.waiting is None else state.state}
    state.waiting = Waiting(entry["key"], "resume", text, list(options), data=before)
    state.state = WAITING_USER
    question = Asking(entry["key"], "clarification", f"{text} ({' / '.join(options)}?)", options, options[0])
    state.waiting.question_id = await run.save(question)


async def _change(run: RunContext, waiting: Waiting, text: str) -> None:
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
    await initialization.initialize(run)


async def _confirmed(run: RunContext, waiting: Waiting, text: str) -> None:
    state = run.state
    meant = questions.meaning(text, waiting.purpose)
    if meant == GO_ON:
        await transitions.go_on(run, waiting.data.get("next"))
    elif meant == STOP:
        _stop(run)
    elif meant == DETAILS:
        await _ask_again(run, waiting)
    else:
        # Not confirmed: the step that was done last starts again, with what the human says about it.
        done = state.step(waiting.data["done"])
        said = "" if meant == AGAIN else f" They say:\n\n{prompts.quoted(text)}"
        guidance = f"The user did not accept the result of this step; do it again.{said}"
        state.waiting, state.sent = None, None
        state.recovery = {"guidance": guidance}
        if done is not None:
            state.current_step, done.before = done.id, {}
        run.move(RUNNING)


async def _ask_again(run: RunContext, waiting: Waiting) -> None:
    """The whole log, and the same question (BMAD-2b.7.4)."""
    state = run.state
    record = state.step(waiting.data["done"])
    options = tuple(one for one in waiting.options if one != "details")
    text = f"{waiting.data.get('details', '')}\n\nGo on? ({' / '.join(options)})"
    entry = questions.new_entry(state, record, waiting.purpose, text, run.desk.now())
    state.waiting = Waiting(entry["key"], waiting.purpose, text, list(options), data=dict(waiting.data))
    state.waiting.question_id = await run.save(Asking(entry["key"], "checkpoint", text, options))


async def _escalation(run: RunContext, waiting: Waiting, text: str) -> None:
    state = run.state
    meant = questions.meaning(text, waiting.purpose)
    party = waiting.purpose == "party_mode"
    if meant == STOP:
        _stop(run)
        return
    loop_back_handler.loop_advised(run)
    state.error, state.error_details = None, {}
    if meant in (SKIP, GO_ON) and (meant == SKIP or party):
        state.recovery = {}
        reason = "a human accepts its result as it is" if meant == GO_ON else "a human skipped it"
        await transitions.skipped(run, reason)
    elif run.examination is not None and not state.recovery:
        await reviews.advised(run, run.examination, None if meant == AGAIN else text)
    else:
        failed_party = state.recovery.get("failed_party", [])
        advice = "" if meant == AGAIN else f"The user's advice on what went wrong:\n\n{prompts.quoted(text)}"
        state.recovery = {
            **{name: value for name, value in state.recovery.items() if name in KEPT},
            "advice": None if meant == AGAIN else text[:1000],
            "attempts": 0, "tried": [], "failed_party": failed_party, "guidance": advice,
        }  # fmt: skip
        state.timeout_error = None
        state.waiting, state.sent = None, None
        run.move(RUNNING)


async def _party(run: RunContext, waiting: Waiting, text: str) -> None:
    """What the voices could not settle: the recommendation, the work as it is, other words, or as after any failure."""
    taken = await in_a_step.take(run, text)
    if taken == STOP:
        _stop(run)
    elif not taken:
        await _escalation(run, waiting, text)


def _stop(run: RunContext) -> None:
    state = run.state
    error = state.error or str(state.recovery.get("reason") or STOPPED)
    state.error_details |= {"tried": list(state.recovery.get("tried", [])), "by": "human"}
    machine.end(state, FAILED, error)
    run.event("workflow.ended", outcome=FAILED, error=error, step=state.current_step)
