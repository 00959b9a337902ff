"""One turn of the agent within a step: what is sent, written down before it is sent, and what came back.

A step is begun once per visit; after a crash it begins again within the same visit, from the files it began with, or
its session is resumed where the agent can do that (decision 36).

What a human says about care, taken up by the run: at each turn, and in answers to its questions (BMAD-7.1, 7.2).

An answer may be such a wish and nothing else ("use tier 3" to a checkpoint): it is kept for the session, and the same
question is asked again. An answer to a question of the agent goes to the agent as it is; only its inline modifier is
ours. What nobody can switch off is refused, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from interlock.errors import InvalidRequest
from interlock.workflow.engine import evidence, loop_back_handler, menus, prompts, questions, steps, turn_interpreter
from interlock.workflow.engine.context import RunContext
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.initialization import fresh, outputs
from interlock.workflow.engine.ports import Asking
from interlock.workflow.menus.nesting import PARTY
from interlock.workflow.menus.options import Option
from interlock.workflow.package.step import Step
from interlock.workflow.party import cast, leaving, rounds
from interlock.workflow.party.party_mode_driver import MENU, REOPEN, Party
from interlock.workflow.preferences import menu_rate, overrides, safety
from interlock.workflow.preferences.overrides import Blocked, Override
from interlock.workflow.state import step_tracking
from interlock.workflow.state.document import Sent, StepId, Waiting

FREE = frozenset({"question", "preflight"})
"""Answers to these are for the agent, or values: a wish among them is not meant for us."""
LATER = frozenset({"checkpoint", "oversight"})
"""The operation that an answer to these is about is the step that follows."""


def look(run: RunContext) -> None:
    """Log what is in force where it is not what it was, and refuse what the configuration wants to switch off."""
    state = run.state
    if state.current_step is None:
        return  # What kind of project it is, is not known yet.
    care = run.care
    now = care.as_dict() if care.overridden else {}
    if now != state.care:
        state.care = now
        run.decide(Decision("override", care.text, "as was said" if now else "what was said is taken back", by="human"))
        run.event("workflow.adjusted", in_force=care.as_dict(), said=[one["text"] for one in now.values()])
    for what in configured(run):
        if run.tried.setdefault(f"blocked/{what}", 0) == 0:
            run.tried[f"blocked/{what}"] = 1
            error = safety.refusal(what, what, "the configuration of this workflow")
            run.decide(Decision("override", error.code, error.message))
            run.event("workflow.override_blocked", what=what, error=error.code, message=error.message)


def configured(run: RunContext) -> Sequence[str]:
    """What the configuration wants to switch off, as it is now."""
    own = run.workflow.settings.get("thresholds")
    given = {**(own if isinstance(own, Mapping) else {}), **run.state.plan.thresholds, **run.thresholds()}
    return safety.in_settings(given)


async def heard(run: RunContext, waiting: Waiting, text: str, by: str) -> str | None:
    """What is left of an answer without what it says about care; None where it was nothing else, and the question was
    asked again."""
    word, left = overrides.inline(text)
    if word is not None:
        await _about_one(run, word, waiting, by)
        if not left:
            await _again(run, waiting, text, f"Noted: {word}, for this.")
            return None
        text = left
    if waiting.purpose in FREE or _chooses(waiting, text):
        return text
    said = overrides.understood(text)
    if said is None:
        return text
    await _again(run, waiting, text, await _taken(run, said, by))
    return None


async def _taken(run: RunContext, said: tuple[Override, ...] | Blocked, by: str) -> str:
    """Keep what was said, and answer what it came to."""
    if isinstance(said, Blocked):
        run.event("workflow.override_blocked", what=said.text, error=said.code, message=said.error.message)
        run.decide(Decision("override", said.code, said.error.message, by="human"))
        return f"{said.error.message} ({said.code})"
    at = run.desk.now()
    try:
        overrides.check(said, run.profiles())
    except InvalidRequest as error:
        return error.message

    def keep(document: dict[str, Any]) -> None:
        overrides.apply(document, said, at=at, by=by)
        menu_rate.spoke(document)

    run.session = await run.desk.change_session(keep)
    left = overrides.unheard(said, run.care)
    look(run)
    return f"Noted: {run.care.text}." + (f" {left}." if left else "")


def _chooses(waiting: Waiting, text: str) -> bool:
    """Whether it is one of a menu's own options, whatever else it might mean."""
    options = [Option(str(one["key"]), str(one["label"])) for one in waiting.data.get("options", [])]
    return questions.choose(text, options) is not None


async def _about_one(run: RunContext, word: str, waiting: Waiting, by: str) -> None:
    """An inline modifier: it counts for the step that the answer is about."""
    step: StepId | None = run.state.current_step
    if waiting.purpose in LATER:
        step = waiting.data.get("next", step)
    at, id = run.desk.now(), run.state.workflow_id
    run.session = await run.desk.change_session(
        lambda document: overrides.apply_inline(document, id, word, step, at=at, by=by)
    )


async def _again(run: RunContext, waiting: Waiting, text: str, noted: str) -> None:
    """The same question once more, below what was noted. What was said is no answer to it."""
    state = run.state
    before = next((one for one in state.asked if one["key"] == waiting.key), {})
    record = state.step(before["step"]) if before.get("step") is not None else None
    entry = questions.new_entry(state, record, waiting.purpose, str(before.get("text", waiting.text)), run.desk.now())
    entry["fingerprint"] = before.get("fingerprint", entry["fingerprint"])
    before["adjusted"] = text[:200]
    run.event("workflow.answered", purpose="override", answer=text[:500], by="human")
    state.waiting = Waiting(entry["key"], waiting.purpose, waiting.text, list(waiting.options), data=dict(waiting.data))
    options = " / ".join(one.partition(":")[0] for one in waiting.options)
    shown = f"{noted}\n\n{waiting.text}" + (f"\n\n({options})" if options and options not in waiting.text else "")
    question = Asking(entry["key"], questions.kind_of(waiting.purpose), shown, tuple(waiting.options))
    state.waiting.question_id = await run.save(question)
    state.waiting.asked_at = run.desk.now()


RAN = 10  # commands that a step's record keeps
STEP, ANSWER, FIX, NUDGE, NESTED = "step", "answer", "fix", "nudge", "nested"


async def begin(run: RunContext, step: Step, again: str = "") -> None:
    """A visit of the step begins: its checkpoint is made, its first prompt is ready to be sent."""
    state = run.state
    fresh(run)
    wanted = evidence.wanted(run.workflow, step, state.plan.values)
    text = prompts.step_prompt(run.workflow, state, step, again=again)
    record = steps.record_of(state, step)
    loop_back_handler.begun(run)
    step_tracking.begin(state, record.id, step.title, run.desk.now(), input=step_tracking.input_hash(text))
    # What it may write is known before it writes: killed in between, that is what is put back.
    record.files = list(dict.fromkeys([*record.files, *steps.outputs(run.workflow, step, state.plan.values)]))
    record.before = record.before or evidence.snapshot(run.root, wanted)
    state.plan_of_steps = steps.expected(run.workflow, state, step, run.gates)
    state.step_names = steps.names(run.workflow, state, state.plan_of_steps, run.titles)
    await run.checkpoints.create(state, step=record.id, reason=f"before step {record.id}")
    run.event("workflow.step_started", step=record.id, name=record.name, visit=record.visit)
    state.sent = Sent(1, STEP, text)


async def take_up(run: RunContext) -> None:
    """The turn that was under way when we were killed: the session goes on, or the step begins again."""
    state, record = run.state, run.record
    run.interrupted = False
    if state.agent_session and await run.pool.ready():
        run.decide(Decision("resume", str(record.id), "the agent's session could be resumed"))
        assert state.sent is not None
        state.sent = Sent(
            state.sent.ordinal + 1, state.sent.purpose, f"You were interrupted. Go on.\n\n{state.sent.text}"
        )
        return
    kept = await run.checkpoints.restore(state)
    if (party := Party.of(state.party)) is not None and party.how == MENU and party.running:
        word = leaving.said(run.session, state)
        if word is None:
            state.party = {**state.party, REOPEN: True}
        else:
            rounds.after(run, party, rounds.Answered((), left=word))
    state.transcript, state.menu_stack = [], []
    run.replay = questions.answered(state, record)
    record.attempts += 1
    left = f"; not restored: {', '.join(kept[:5])}" if kept else ""
    run.decide(Decision("resume", str(record.id), f"the step was interrupted and begins again{left}"))
    again = prompts.interrupted(restored=kept is not None and not kept)
    if run.examination is not None and state.sent is not None:
        state.sent = Sent(1, FIX, f"{again}\n\n{state.sent.text}")
        return
    party = Party.of(state.party)
    if party is not None and not party.running and (party.step, party.visit) == (record.id, record.visit):
        again += cast.known_before(party)
    state.sent = Sent(1, STEP, prompts.step_prompt(run.workflow, state, run.step, again=again))


def send(run: RunContext, purpose: str, text: str) -> None:
    """The next prompt of the step."""
    before = run.state.sent.ordinal if run.state.sent else 0
    run.state.sent = Sent(before + 1, purpose, text)


async def turn(run: RunContext) -> str | None:
    """Send what is ready to be sent and keep what comes back in `run.heard`; the limit that ended the turn, if any.

    Raises:
        AgentError: the agent could not be started.
    """
    state = run.state
    sent = state.sent
    assert sent is not None
    knows = await run.pool.ready()
    text = _with_preferences(run, sent.text) if knows else _for_a_stranger(run, sent)
    if run.hooks is not None:
        text = run.hooks.records.with_context(state, text)
    sent.at = run.desk.now()
    state.agent_session = run.pool.agent_session
    await run.save()
    run.before = steps.digest(run.root, outputs(run))
    within = menus.stack_of(state).within
    prompt = partial(run.pool.prompt, text, nested=within is not None, answered=sent.purpose == ANSWER)
    if within == PARTY:
        ended, run.left = await leaving.during(run, lambda stop: prompt(party=True, stop=stop))
    else:
        ended, run.left = await prompt(), False
    # What was said meanwhile counts for whatever is decided about this turn.
    run.session = await run.desk.session()
    look(run)
    if run.hooks is not None:
        await run.hooks.settle()
        if ended.heard.stop == "end":
            run.hooks.records.told(state)
    state.agent_session = run.pool.agent_session
    state.seconds = round(state.seconds + ended.heard.seconds, 3)
    run.heard = ended.heard
    run.said("" if sent.purpose == STEP else sent.text, ended.heard.output)
    record = run.record
    written = [path for path in (steps.relative(run.root, one) for one in ended.written) if path]
    record.files = list(dict.fromkeys([*record.files, *written]))[:200]
    record.ran = list(dict.fromkeys([*record.ran, *ended.ran]))[-RAN:]
    await run.checkpoints.wrote(state, list(dict.fromkeys([*steps.existing(run.root, outputs(run)), *written])))
    return ended.timeout


def _with_preferences(run: RunContext, text: str) -> str:
    """A prompt for a session that knows the run, with what the user wants remembered since."""
    new = [one for one in run.preferences.words if one not in run.told]
    run.told.update(new)
    return f"{text}\n\n{prompts.preferences(new)}" if new else text


def _for_a_stranger(run: RunContext, sent: Sent) -> str:
    """A prompt for a session that knows nothing: the frame, the step and what was said in it come first."""
    words = run.preferences.words
    run.told.update(words)
    parts = [prompts.framing(run.workflow, run.state, run.knowledge.context), prompts.preferences(words)]
    if sent.purpose != STEP:
        parts.append(prompts.step_prompt(run.workflow, run.state, run.step))
        parts.append(prompts.history(run.state.transcript))
        parts.append("## Now")
    parts.append(sent.text)
    return "\n\n".join(part for part in parts if part)


def changed(run: RunContext) -> bool:
    """Whether the step's documents are not what they were before the turn."""
    return steps.digest(run.root, outputs(run)) != run.before


def exists(run: RunContext) -> bool | None:
    """Whether the step's output is there; None where the step has none that is known."""
    wanted = outputs(run)
    return bool(steps.existing(run.root, wanted)) if wanted else None


def done_in_document(run: RunContext, step: Step) -> bool:
    """Whether the document itself says that the step is done."""
    return steps.is_done(step, steps.steps_done(run.root, outputs(run)))


def read(run: RunContext) -> turn_interpreter.Reading:
    """What the turn means."""
    assert run.heard is not None
    where = menus.situation(run.state, run.record, run.settings, output=run.heard.output, exists=exists(run))
    return turn_interpreter.read(run.heard, run.step, where, steps.onward(run.workflow, run.step))
