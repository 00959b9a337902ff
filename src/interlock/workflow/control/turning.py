"""One turn of the agent within a step: what is sent, written down before it is sent, and what came back.

A step is begun once per visit; after a crash it begins again within the same visit, from the files it began with, or
its session is resumed where the agent can do that (decision 36).
"""

from __future__ import annotations

from functools import partial

from interlock.workflow.control import adjusting, asking, documents, looping, menus, prompts, reading, stepping
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.decision_log import Decision
from interlock.workflow.control.initializing import fresh, outputs
from interlock.workflow.definition.step import Step
from interlock.workflow.menu.nesting import PARTY
from interlock.workflow.party import leaving, rounds, wording
from interlock.workflow.party.party_mode_driver import MENU, REOPEN, Party
from interlock.workflow.state import step_tracking
from interlock.workflow.state.document import Sent

STEP, ANSWER, FIX, NUDGE, NESTED = "step", "answer", "fix", "nudge", "nested"


async def begin(run: RunContext, step: Step, again: str = "") -> None:
    """A visit of the step begins: its checkpoint is made, its first prompt is ready to be sent."""
    state = run.state
    fresh(run)
    text = prompts.step_prompt(run.workflow, state, step, again=again)
    record = stepping.record_of(state, step)
    looping.begun(run)
    step_tracking.begin(state, record.id, step.title, run.desk.now(), input=step_tracking.input_hash(text))
    # What it may write is known before it writes: killed in between, that is what is put back.
    record.files = list(dict.fromkeys([*record.files, *documents.outputs(run.workflow, step, state.plan.values)]))
    state.plan_of_steps = stepping.expected(run.workflow, state, step, run.gates)
    state.step_names = stepping.names(run.workflow, state, state.plan_of_steps, run.examinations)
    state.documents = list(dict.fromkeys([*state.documents, *documents.existing(run.root, outputs(run))]))
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
    run.replay = asking.answered(state, record)
    record.attempts += 1
    left = f"; not restored: {', '.join(kept[:5])}" if kept else ""
    run.decide(Decision("resume", str(record.id), f"the step was interrupted and begins again{left}"))
    again = prompts.interrupted(restored=kept is not None and not kept)
    if run.examination is not None and state.sent is not None:
        state.sent = Sent(1, FIX, f"{again}\n\n{state.sent.text}")
        return
    party = Party.of(state.party)
    if party is not None and not party.running and (party.step, party.visit) == (record.id, record.visit):
        again += wording.known_before(party)
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
    run.before = documents.digest(run.root, outputs(run))
    within = menus.stack_of(state).within
    prompt = partial(run.pool.prompt, text, nested=within is not None, answered=sent.purpose == ANSWER)
    if within == PARTY:
        ended, run.left = await leaving.during(run, lambda stop: prompt(party=True, stop=stop))
    else:
        ended, run.left = await prompt(), False
    # What was said meanwhile counts for whatever is decided about this turn.
    run.session = await run.desk.session()
    adjusting.look(run)
    if run.hooks is not None:
        await run.hooks.settle()
        if ended.heard.stop == "end":
            run.hooks.records.told(state)
    state.agent_session = run.pool.agent_session
    state.seconds = round(state.seconds + ended.heard.seconds, 3)
    run.heard = ended.heard
    run.said("" if sent.purpose == STEP else sent.text, ended.heard.output)
    record = run.record
    written = [path for path in (documents.relative(run.root, one) for one in ended.written) if path]
    record.files = list(dict.fromkeys([*record.files, *written]))[:200]
    await run.checkpoints.wrote(state, list(dict.fromkeys([*documents.existing(run.root, outputs(run)), *written])))
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
    return documents.digest(run.root, outputs(run)) != run.before


def exists(run: RunContext) -> bool | None:
    """Whether the step's output is there; None where the step has none that is known."""
    wanted = outputs(run)
    return bool(documents.existing(run.root, wanted)) if wanted else None


def done_in_document(run: RunContext, step: Step) -> bool:
    """Whether the document itself says that the step is done."""
    return documents.is_done(step, documents.steps_done(run.root, outputs(run)))


def read(run: RunContext) -> reading.Reading:
    """What the turn means."""
    assert run.heard is not None
    where = menus.situation(run.state, run.record, run.settings, output=run.heard.output, exists=exists(run))
    return reading.read(run.heard, run.step, where, stepping.onward(run.workflow, run.step))
