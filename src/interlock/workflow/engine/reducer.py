"""The reducer: what an event does to a run, and what is to be carried out for it (FR1–FR3, FR16–FR18, 2b.8, 2b.12).

`reduce` changes the state and gives the effects; it waits for nothing, writes nothing and reads nothing but what
`Draft.observe` lets it see, so the same events with the same observations lead to the same state (`replay`). What
it decides stands in the modules beside it: `menus`, `questions`, `recovery`, `replies`, `reviews`, `transitions`.
Whatever comes in, a run ends in TERMINAL or waits for a human.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.agents.watch import NESTED_TIMEOUT, PARTY_TIMEOUT, SILENT, WORKFLOW_TIMEOUT
from interlock.workflow.engine import (
    closing_line,
    effects,
    evidence,
    initialization,
    menus,
    prompts,
    questions,
    recovery,
    replies,
    reviews,
    stalls,
    step_judge,
    steps,
    transitions,
    turn_interpreter,
)
from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.documents import existing, is_done, relative, steps_done
from interlock.workflow.engine.stalls import Visits
from interlock.workflow.engine.turn_interpreter import Reading
from interlock.workflow.markdown import history
from interlock.workflow.menus.forms import IN_PARTY
from interlock.workflow.menus.step_menus import menus_of
from interlock.workflow.state import resume, step_tracking
from interlock.workflow.state.document import (
    CANCELLED,
    COMPLETED,
    COMPLETING,
    FAILED,
    IDLE,
    INITIALIZING,
    RECOVERING,
    RUNNING,
    TERMINAL,
    VALIDATING,
    WAITING_USER,
    Sent,
)

NUDGES = 2
RAN = 10  # commands that a step's record keeps
VISITS = 500  # states that are counted
LOOP = "infinite_loop_detected"
TURNS = "turns"
"""Where the session's document keeps what the agents of its runs said by a tool, with the time of the prompt."""


def reduce(run: Draft, event: effects.Event) -> tuple[effects.Effect, ...]:
    """The effects of an event, in the order in which they are to be carried out; `run.state` is the state after it."""
    run.seen = {}
    try:
        match event:
            case effects.Signal.DUE:
                _due(run)
            case effects.TurnEnded():
                _turn_ended(run, event)
            case effects.StepOver(reading, outcome):
                transitions.over(run, reading, outcome)
            case effects.StepLeft(found, hops):
                _left_behind(run, found, hops)
            case effects.StepReady(text):
                run.state.sent = Sent(1, effects.STEP, text)
            case effects.PromptReady(purpose, text, tried):
                _prepared(run, purpose, text, tried)
            case effects.SessionReady(knows, agent_session):
                _speak(run, knows, agent_session)
            case effects.Replied(text, by):
                if run.wishes.heard(run, text, by):
                    replies.take(run, text, by, run.wishes.chosen(run, text))
            case effects.Adjusted(text, said):
                run.wishes.adjusted(run, text, said)
            case effects.Signal.UNANSWERED:
                waiting = run.state.waiting
                run.effect(effects.LetGo(effects.Ending("parked", waiting.text if waiting else "")))
            case effects.MenuAdmitted(menu, pause, limited):
                menus.admitted(run, menu, pause, limited)
            case effects.FixKnown(fix):
                recovery.recover(run, fix)
            case effects.ExaminationEnded():
                reviews.examined(run, event)
            case effects.DiscussionEnded(came):
                run.party.held(run, came)
            case effects.Reattached(lives, unrestored):
                _reattached(run, lives, unrestored)
            case effects.Bound(missing):
                initialization.bound(run, missing)
            case effects.Signal.TAKEN_UP:
                _taken_up(run)
            case effects.AgentRefused(reason):
                # Trying again would not help, and no human can answer it here.
                run.state.error_details = {"reason": reason, "step": run.state.current_step}
                run.end(FAILED, reason)
            case effects.StateChanged(fields):
                for name, value in fields.items():
                    setattr(run.state, name, value)
    finally:
        run.seen = None
    called_for, run.effects = tuple(run.effects), []
    return called_for


@dataclass
class Log:
    """What a run has met: each event with its time, the session's document, and what the reducer observed."""

    entries: list[tuple[effects.Event, str, Json, list[tuple[str, Any]]]] = field(default_factory=list)


def replay(run: Draft, log: Log) -> Iterable[tuple[effects.Event, tuple[effects.Effect, ...]]]:
    """Take a run, as it was at its beginning, through what a log holds; each event with its effects, none of which is
    carried out."""
    for event, at, session, observed in log.entries:
        seen = iter(observed)

        def see(what: str, look: object, seen: Any = seen) -> Any:
            name, value = next(seen)
            if name != what:
                raise AssertionError(f"{what} is looked at, where it was {name}")
            return value

        run.at, run.session, run.observing = at, session, see
        yield event, reduce(run, event)


def _taken_up(run: Draft) -> None:
    """What was going on when the state was last written."""
    state = run.state
    if state.state == TERMINAL:
        return
    if state.state in (RUNNING, VALIDATING, RECOVERING, FAILED) and state.sent is not None:
        run.interrupted = True
        # A kill of the engine is no loop of the agent: what the step says once more is not counted twice.
        here = str(state.current_step)
        state.visits = {key: count for key, count in state.visits.items() if key.split("|")[1] != here}
        run.record.interruptions += 1
    if state.current_step is not None:
        offered = resume.offer(state, run.workflow.hash)
        state.resumed = offered.indicator
        run.event("workflow.resumed", from_step=offered.from_step, text=offered.indicator)
        if offered.problem is not None:
            replies.ask_about_change(run, offered.text)
            return
    if state.state in (VALIDATING, FAILED, RECOVERING):
        # Nothing is written within these; after a kill, or when a human takes it up again, the step goes on.
        state.state = RUNNING
    if state.state == INITIALIZING:
        state.state = IDLE


def _due(run: Draft) -> None:
    """What the state calls for."""
    state = run.state
    if state.state == TERMINAL:
        kind = {COMPLETED: "completed", CANCELLED: "cancelled"}.get(str(state.outcome), "failed")
        if run.unsaved:
            run.effect(effects.Save())
        run.effect(
            effects.LetGo(effects.Ending(kind, prompts.summary(state) if kind != "failed" else str(state.error)))
        )
        return
    run.wishes.look(run)
    if state.state == IDLE:
        initialization.initialize(run)
    elif state.state == RUNNING:
        _work(run)
    elif state.state == WAITING_USER and state.waiting is not None:
        run.effect(effects.Act.AWAIT_REPLY)
    elif state.state == FAILED:
        run.effect(effects.FindFix(recovery.signature(state.recovery)))
    elif state.state == COMPLETING:
        _complete(run)
    else:
        run.move(RUNNING)


def _work(run: Draft) -> None:
    """RUNNING: what comes next within the step at hand."""
    state = run.state
    if run.party.under_way(run):
        run.interrupted = False  # The turn before it was over, also where the process that heard it is gone.
        run.effect(effects.Act.DISCUSS)
    elif run.examination is not None and state.sent is None:
        reviews.work(run, run.examination)
    elif run.interrupted and state.sent is not None:
        run.interrupted = False
        run.effect(effects.Act.REATTACH)
    elif state.sent is None and run.party.prepare(run):
        run.effect(effects.Act.DISCUSS)
    elif state.sent is None:
        _begin(run)
    elif not run.party.ended(run):
        run.effect(effects.Act.OPEN_SESSION)


def _begin(run: Draft) -> None:
    """A visit of the step begins: its checkpoint is made before its first prompt is sent."""
    state, step = run.state, run.step
    again = str(state.recovery.pop("guidance", ""))  # A human's words about its first result.
    initialization.fresh(run)
    text = prompts.step_prompt(run.workflow, state, step, again=again, wanted=run.wanted)
    record = steps.record_of(state, step)
    recovery.begun(run)
    step_tracking.begin(state, record.id, step.title, run.now, input=step_tracking.input_hash(text))
    # What it may write is known before it writes: killed in between, that is what is put back.
    record.files = list(dict.fromkeys([*record.files, *run.outputs]))
    record.before = record.before or run.observe("snapshot", lambda: evidence.snapshot(run.root, run.wanted))
    state.plan_of_steps = steps.expected(run.workflow, state, step, run.gates)
    state.step_names = steps.names(run.workflow, state, state.plan_of_steps, run.titles)
    run.event("workflow.step_started", step=record.id, name=record.name, visit=record.visit)
    run.keep(f"before step {record.id}", effects.StepReady(text))


def _prepared(run: Draft, purpose: str, text: str, tried: str | None) -> None:
    if tried is not None:
        recovery.trying(run.state, tried)
    run.record.status, run.record.error = "in_progress", None
    run.state.waiting = None
    run.send(purpose, text)
    run.move(RUNNING)
    run.effect(effects.Save())


def _reattached(run: Draft, lives: bool, unrestored: tuple[str, ...] | None) -> None:
    """The turn that was under way when we were killed: the session goes on, or the step begins again."""
    state, record = run.state, run.record
    sent = state.sent
    assert sent is not None
    if lives:
        run.decide(Decision("resume", str(record.id), "the agent's session could be resumed"))
        state.sent = Sent(sent.ordinal + 1, sent.purpose, f"You were interrupted. Go on.\n\n{sent.text}")
        return
    run.party.interrupted(run)
    state.transcript, state.menu_stack = [], []
    run.replay = questions.answered(state, record)
    record.attempts += 1
    left = f"; not restored: {', '.join(unrestored[:5])}" if unrestored else ""
    run.decide(Decision("resume", str(record.id), f"the step was interrupted and begins again{left}"))
    again = prompts.interrupted(restored=unrestored == ())
    if run.examination is not None:
        state.sent = Sent(1, effects.FIX, f"{again}\n\n{sent.text}")
        return
    again += run.party.known_before(run)
    state.sent = Sent(
        1, effects.STEP, prompts.step_prompt(run.workflow, state, run.step, again=again, wanted=run.wanted)
    )


def _speak(run: Draft, knows: bool, agent_session: str | None) -> None:
    """The prompt that is ready is sent: to a session that knows nothing the frame, the step and what was said in it
    come first."""
    state = run.state
    sent = state.sent
    assert sent is not None
    words = [one for one in run.wishes.words(run) if not (knows and one in run.told)]
    run.told.update(words)
    if knows:
        parts = [sent.text, prompts.preferences(words)]
    else:
        parts = [prompts.framing(run.workflow, state, run.knowledge.context), prompts.preferences(words)]
        if sent.purpose != effects.STEP:
            said = history(state.transcript)
            parts += [prompts.step_prompt(run.workflow, state, run.step, wanted=run.wanted), said, "## Now"]
        parts.append(sent.text)
    text = "\n\n".join(filter(None, parts))
    sent.at, state.agent_session = run.now, agent_session
    within = menus.within(state)
    run.effect(
        effects.Save(), effects.SendPrompt(text, within is not None, within == IN_PARTY, sent.purpose == effects.ANSWER)
    )


def _turn_ended(run: Draft, event: effects.TurnEnded) -> None:
    """One turn of the step at hand, and what is done about what came back."""
    state = run.state
    sent, record = state.sent, run.record
    # What was said meanwhile counts for whatever is decided about this turn.
    run.wishes.look(run)
    said = (run.session.get(TURNS) or {}).get(state.workflow_id)
    word = said["word"] if said and sent is not None and said["sent"] == sent.at else None
    run.heard, run.left = replace(event.heard, word=word), event.left
    state.agent_session = event.agent_session
    state.seconds = round(state.seconds + event.heard.seconds, 3)
    run.said("" if sent is None or sent.purpose == effects.STEP else sent.text, event.heard.output)
    written = [path for path in (relative(run.root, one) for one in event.written) if path]
    record.files = list(dict.fromkeys([*record.files, *written]))[:200]
    record.ran = list(dict.fromkeys([*record.ran, *event.ran]))[-RAN:]
    if state.state == TERMINAL or (event.timeout is not None and _timed_out(run, event.timeout)):
        return
    if run.left and run.party.ended(run):
        return
    found = _read(run)
    recovery.collect(state, found.closing, run.now)
    if found.kind in (turn_interpreter.CAPACITY, turn_interpreter.CANCELLED):
        kind = "capacity" if found.kind == turn_interpreter.CAPACITY else "stopped"
        run.effect(effects.LetGo(effects.Ending(kind, found.text, event.heard.retry_at)))
        return
    _went_on(run, found)


def _read(run: Draft) -> Reading:
    """What the turn means."""
    assert run.heard is not None
    step, where = run.step, menus.situation(run, run.heard.output)
    return turn_interpreter.read(run.heard, step, where, steps.onward(run.workflow, step))


def _timed_out(run: Draft, limit: str) -> bool:
    """A limit ended the turn: the workflow's is final, a nested one goes back to its parent; false where the turn is
    to be judged like any other that failed."""
    state = run.state
    state.timeout_error = limit
    run.event("workflow.timeout", step=state.current_step, timeout_error=limit)
    if limit == WORKFLOW_TIMEOUT:
        run.end(FAILED, "the workflow made no progress for too long", timeout_error=limit)
        run.effect(effects.Save())
        return True
    if limit in (NESTED_TIMEOUT, PARTY_TIMEOUT) and len(state.menu_stack) > 1:
        came_to = run.party.timed_out(run, run.heard.output if run.heard else "")
        what = str(state.menu_stack[-1].get("within") or "The nested operation").replace("_", " ").capitalize()
        state.menu_stack = [one for one in state.menu_stack if one.get("within") is None]
        run.decide(Decision("timeout", "parent", f"{what} took longer than its limit and was ended"))
        run.send(effects.NESTED, prompts.nested_over(what, came_to))
        run.effect(effects.Save())
        return True
    return False


def _went_on(run: Draft, found: Reading, hops: int = 0) -> None:
    """An agent that went on by itself, as the sources tell it to: the step that it has left behind is done, and so on
    with the next one. Any other turn is acted on.

    The evidence is the document's own list of completed steps, or a tool that read the next step's file.
    """
    step = run.step
    following = steps.following(run.workflow, run.state, step, None, found.entered).step
    failed = found.kind in (turn_interpreter.ERROR, SILENT, turn_interpreter.EMPTY)
    no_step = following is None or following.path == step.path or step.id == steps.START
    if following is None or no_step or failed or not run.workflow.follow or hops >= len(run.workflow.steps):
        _act(run, found)
        return
    over = found.kind in (closing_line.COMPLETED, closing_line.FINISHED)
    listed = _listed(run, step)
    if over:
        left = listed and _listed(run, following)
    else:
        left = bool(found.entered) or (listed and _belongs(run, found, following.text))
    if not left:
        _act(run, found)
    elif transitions.instead(run, following) is not None:
        # What it began is done by others; of the step before it nothing is known but that it is done.
        _act(run, Reading(closing_line.COMPLETED))
    else:
        done = Reading(closing_line.COMPLETED, closing=found.closing)
        proofs = step_judge.proofs(run, done)
        if evidence.missing(proofs):
            _act(run, done)  # Of the step that it has left behind: what is missing is said to it.
        else:
            run.record.proofs = proofs
            run.effect(effects.EndStep(closing_line.COMPLETED, effects.StepLeft(found, hops + 1)))


def _left_behind(run: Draft, found: Reading, hops: int) -> None:
    """The step that the agent has left behind is done; the turn is read once more, as one of the step that follows."""
    state, step, record = run.state, run.step, run.record
    following = steps.following(run.workflow, state, step, None, found.entered).step
    assert following is not None
    listed = _listed(run, step)
    done = Reading(closing_line.COMPLETED, closing=found.closing)
    transitions.complete(run, step, record, done, "unknown")
    run.decide(Decision("next_step", str(following.id), "the agent went on to it by itself", by="agent"))
    next_record = steps.record_of(state, following)
    state.current_step = next_record.id
    step_tracking.begin(state, next_record.id, following.title, run.now)
    wanted = evidence.wanted(run.workflow, following, state.plan.values)
    now = run.observe("snapshot", lambda: evidence.snapshot(run.root, wanted))
    # What it wrote in the same turn counts where the document itself says that it belongs to that step.
    inherits = _listed(run, following)
    next_record.before = {path: record.before.get(path, old) if inherits else old for path, old in now.items()}
    state.sent = Sent(1, effects.STEP)
    again = _read(run)
    if again.entered is None and not listed:
        _act(run, again)
    else:
        _went_on(run, again, hops)


def _listed(run: Draft, step: Any) -> bool:
    """Whether the document itself says that the step is done."""
    outputs = run.outputs
    return run.observe(f"{step.id} is listed", lambda: is_done(step, steps_done(run.root, outputs)))


def _belongs(run: Draft, found: Reading, text: str) -> bool:
    """Whether what is shown may be the next step's: its menu, or a question after the way on was chosen."""
    answered = bool(run.heard and run.heard.answered)
    return answered and (found.kind != turn_interpreter.MENU or bool(menus_of(text)))


def _act(run: Draft, found: Reading) -> None:
    """What is done about a turn."""
    if _loops(run, found):
        return
    if found.kind in (closing_line.COMPLETED, closing_line.SKIPPED, closing_line.FINISHED):
        run.party.left(run)
        _over(run, found)
    elif found.kind == turn_interpreter.MENU:
        menus.menu(run, found)
    elif found.kind in (turn_interpreter.ERROR, SILENT):
        recovery.lost(run, found.text)
    elif found.kind != turn_interpreter.EMPTY and run.party.said(run, found):
        return
    elif found.kind in (turn_interpreter.QUESTION, closing_line.BLOCKED):
        menus.question(run, found)
    else:
        _unclear(run, found)


def _over(run: Draft, found: Reading) -> None:
    """The step says that it is done. A step with a menu that was never shown is not: its way on was never chosen."""
    run.reading = found
    if run.examination is not None:
        reviews.mended(run, run.examination, found)
    else:
        run.move(VALIDATING)
        step_judge.validate(run)


def _loops(run: Draft, found: Reading) -> bool:
    """Whether the same state came for the fifth time without a human in between: the run ends (decision 31)."""
    state = run.state
    output = run.heard.output if run.heard else ""
    visits = Visits(state.visits).visit(state.state, str(state.current_step), len(state.menu_stack), output)
    state.visits = dict(list(visits.counts.items())[-VISITS:])
    # A failing turn is counted by its own remedies, which are exhausted sooner.
    if not visits.looping or found.kind in (turn_interpreter.ERROR, SILENT):
        return False
    state.error_details = {"step": state.current_step, "kind": found.kind, "said": found.text[-500:]}
    run.decide(Decision("terminate", LOOP, f"the same state came {stalls.LOOP_VISITS} times"))
    run.end(FAILED, LOOP)
    return True


def _unclear(run: Draft, found: Reading) -> None:
    """The turn ended without a word about the step: ask it, then look at what it did."""
    if run.once("nudge", NUDGES):
        run.decide(Decision("unclear", "ask the agent", "its turn ended without saying how the step stands"))
        run.send(effects.NUDGE, prompts.unclear(run.step))
        return
    record = run.record
    done = Reading(closing_line.COMPLETED, found.text, found.closing)
    proofs = step_judge.proofs(run, done)
    written = run.observe(
        "written", lambda: any(evidence.changed(run.root, record.before, path) for path in record.files)
    )
    left = evidence.seen(proofs) or (proofs == [evidence.NOTHING] and written)
    if found.kind == turn_interpreter.UNCLEAR and found.closing.other is None and left:
        run.decide(Decision("unclear", "done", "it has left what it must and asks for nothing", confidence=50))
        _over(run, done)
        return
    why = "the agent ends its turns without saying how the step stands"
    if found.closing.other is not None:
        why = f"the agent ends its turn with a word that says neither done nor not: {found.closing.other!r}"
    recovery.failed(run.state, recovery.UNCLEAR, why, output=run.heard.output if run.heard else "")
    run.move(FAILED)


def _complete(run: Draft) -> None:
    """The final validation: every step is done, and a document that was promised is there."""
    state = run.state
    open_ = [one.id for one in state.steps.values() if one.status in ("failed", "in_progress")]
    promised = list(state.documents)
    there = run.observe("documents", lambda: existing(run.root, promised))
    missing = [path for path in promised if path not in there]
    documents: Mapping[str, Any] = {"documents": promised}
    if open_ or missing:
        what = f"steps {open_} are not done" if open_ else f"{', '.join(missing)} is gone"
        run.end(FAILED, f"the final validation failed: {what}", **documents)
    else:
        run.end(COMPLETED, **documents)
        state.curated = None  # also where it was completed before, and taken back
        run.effect(effects.Act.LIST_CHECKPOINTS)
