"""What a human says about care, taken up by the run: at each turn, and in answers to its questions (BMAD-7.1, 7.2).

An answer may be such a wish and nothing else ("use tier 3" to a checkpoint): it is kept for the session, and the same
question is asked again. An answer to a question of the agent goes to the agent as it is; only its inline modifier is
ours. What nobody can switch off is refused, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.errors import InvalidRequest
from interlock.workflow.control import asking
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.decision_log import Decision
from interlock.workflow.control.ports import Asking
from interlock.workflow.menu.options import Option
from interlock.workflow.personal import menu_rate, overrides, safety, wording
from interlock.workflow.personal.wording import Blocked, Override
from interlock.workflow.state.document import StepId, Waiting

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
    word, left = wording.inline(text)
    if word is not None:
        await _about_one(run, word, waiting, by)
        if not left:
            await _again(run, waiting, text, f"Noted: {word}, for this.")
            return None
        text = left
    if waiting.purpose in FREE or _chooses(waiting, text):
        return text
    said = wording.understood(text)
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
    return asking.choose(text, options) is not None


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
    entry = asking.new_entry(state, record, waiting.purpose, str(before.get("text", waiting.text)), run.desk.now())
    entry["fingerprint"] = before.get("fingerprint", entry["fingerprint"])
    before["adjusted"] = text[:200]
    run.event("workflow.answered", purpose="override", answer=text[:500], by="human")
    state.waiting = Waiting(entry["key"], waiting.purpose, waiting.text, list(waiting.options), data=dict(waiting.data))
    options = " / ".join(one.partition(":")[0] for one in waiting.options)
    shown = f"{noted}\n\n{waiting.text}" + (f"\n\n({options})" if options and options not in waiting.text else "")
    question = Asking(entry["key"], asking.kind_of(waiting.purpose), shown, tuple(waiting.options))
    state.waiting.question_id = await run.save(question)
    state.waiting.asked_at = run.desk.now()
