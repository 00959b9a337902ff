"""What a human says about care, taken up by the run: at each turn, and in answers to its questions (BMAD-7.1, 7.2).

An answer may be such a wish and nothing else ("use tier 3" to a checkpoint): it is kept for the session, and the same
question is asked again. An answer to a question of the agent goes to the agent as it is; only its inline modifier is
ours. What nobody can switch off is refused, wherever it stands.

Menus are put to a human no faster than a human can take them (FR55, FR56, BMAD-7.6; `menu_rate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from interlock.clock import iso, seconds
from interlock.errors import InvalidRequest
from interlock.model.json import Json
from interlock.workflow.engine import questions
from interlock.workflow.engine.adaptive_settings import AdaptiveSettings, Care, adapt
from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.effects import Adjusted, ChangeSession, MenuAdmitted, Pending, Replied
from interlock.workflow.engine.runtime import Runtime
from interlock.workflow.menus.options import Option
from interlock.workflow.preferences import menu_rate, overrides, safety, wishes
from interlock.workflow.preferences.menu_rate import Admission
from interlock.workflow.preferences.wishes import PROFILE, Blocked, Override
from interlock.workflow.state.document import StepId, Waiting

FREE = frozenset({"question", "preflight"})
"""Answers to these are for the agent, or values: a wish among them is not meant for us."""
LATER = frozenset({"checkpoint", "oversight"})
"""The operation that an answer to these is about is the step that follows."""


def care(run: Draft) -> Care:
    """How careful to be, as was said in the session and at the beginning of the run."""
    return run.found(("care", run.state.current_step, run.state.plan.tier), lambda: _care(run))


def _care(run: Draft) -> Care:
    shared = run.session.get(overrides.KEY) or {}
    named = PROFILE in shared or PROFILE in run.state.plan.said
    return overrides.in_force(run.state, shared, run.observe("profiles", run.profiles) if named else {})


def settings(run: Draft, thresholds: Mapping[str, Any]) -> AdaptiveSettings:
    """See `UserWishes`."""
    plan = run.state.plan
    return adapt(plan.tier, module=run.workflow.module, domain=plan.domain, thresholds=thresholds, care=care(run))


def overridden(run: Draft) -> bool:
    """See `UserWishes`."""
    return care(run).overridden


def look(run: Draft) -> None:
    """Log what is in force where it is not what it was, and refuse what the configuration wants to switch off."""
    state = run.state
    if state.current_step is None:
        return  # What kind of project it is, is not known yet.
    here = care(run)
    now = here.as_dict() if here.overridden else {}
    if now != state.care:
        state.care = now
        run.decide(Decision("override", here.text, "as was said" if now else "what was said is taken back", by="human"))
        run.event("workflow.adjusted", in_force=here.as_dict(), said=[one["text"] for one in now.values()])
    for what in safety.in_settings(dict(run.given_thresholds)):
        if run.tried.setdefault(f"blocked/{what}", 0) == 0:
            run.tried[f"blocked/{what}"] = 1
            error = safety.refusal(what, what, "the configuration of this workflow")
            run.decide(Decision("override", error.code, error.message))
            run.event("workflow.override_blocked", what=what, error=error.code, message=error.message)


def heard(run: Draft, text: str, by: str) -> bool:
    """See `UserWishes`."""
    waiting, id, at = run.state.waiting, run.state.workflow_id, run.now
    assert waiting is not None
    word, left = wishes.inline(text)
    if word is not None:  # It counts for the step that the answer is about.
        here: StepId | None = run.state.current_step
        step = waiting.data.get("next", here) if waiting.purpose in LATER else here
        then = Replied(left, by) if left else Adjusted(text, word)
        run.effect(ChangeSession(lambda shared: overrides.apply_inline(shared, id, word, step, at=at, by=by), then))
        return False
    # One of a menu's own options is meant as that, whatever else it might mean.
    options = [Option(str(one["key"]), str(one["label"])) for one in waiting.data.get("options", [])]
    chooses = questions.choose(text, options) is not None
    said = None if waiting.purpose in FREE or chooses else wishes.understood(text)
    if said is None:
        _count(run, waiting, text)
    elif isinstance(said, Blocked):
        run.event("workflow.override_blocked", what=said.text, error=said.code, message=said.error.message)
        run.decide(Decision("override", said.code, said.error.message, by="human"))
        _again(run, waiting, text, f"{said.error.message} ({said.code})")
    else:
        _keep(run, waiting, said, text, by)
    return said is None


def adjusted(run: Draft, text: str, said: object) -> None:
    """See `UserWishes`."""
    assert run.state.waiting is not None
    noted = f"{said}, for this"
    if isinstance(said, tuple):
        here = care(run)
        left = overrides.unheard(said, here)
        look(run)
        noted = f"{here.text}. {left}" if left else here.text
    _again(run, run.state.waiting, text, f"Noted: {noted}.")


def _keep(run: Draft, waiting: Waiting, said: tuple[Override, ...], text: str, by: str) -> None:
    try:
        overrides.check(said, run.observe("profiles", run.profiles))
    except InvalidRequest as error:
        _again(run, waiting, text, error.message)
        return
    at = run.now

    def keep(shared: Json) -> None:
        overrides.apply(shared, said, at=at, by=by)
        menu_rate.spoke(shared)

    run.effect(ChangeSession(keep, Adjusted(text, said)))


def _count(run: Draft, waiting: Waiting, text: str) -> None:
    """A human has answered something: a menu gets its answer, anything else begins the count of menus again."""
    id = run.state.workflow_id
    if waiting.purpose == "menu":
        run.effect(ChangeSession(lambda shared: menu_rate.answered(shared, text, run=id)))
    elif menu_rate.counting(run.session):
        run.effect(ChangeSession(menu_rate.spoke))


async def admit(menu: Pending, run: str, step: StepId, runtime: Runtime) -> tuple[Json, MenuAdmitted]:
    """See `UserWishes`. Its place among the others of the session is taken in one transaction."""
    found: list[Admission] = []
    limits, desk = runtime.limits, runtime.desk

    def enter(shared: Json) -> None:
        now = seconds(desk.now())
        found[:] = [menu_rate.admit(shared, now, interval=limits.menu_interval, most=limits.menu_pause)]
        if not found[0].pause:
            menu_rate.presented(shared, " / ".join(menu.options), run=run, step=step, at=iso(now + found[0].wait))

    session = await desk.change_session(enter)
    admission = found[0]
    if admission.pause:
        text = f"{menu_rate.summary(admission.recent)}\n\nTake your time. Go on with the next one? (continue / stop)"
        limited: Json = {"reason": menu_rate.PAUSE_REASON, "menus": len(admission.recent)}
        return session, MenuAdmitted(menu, text, limited)
    if admission.wait <= 0:
        return session, MenuAdmitted(menu)
    await anyio.sleep(admission.wait)
    limited = {"reason": menu_rate.INTERVAL_REASON, "seconds": round(admission.wait, 3)}
    return session, MenuAdmitted(menu, None, limited)


def _again(run: Draft, waiting: Waiting, text: str, noted: str) -> None:
    """The same question once more, below what was noted. What was said is no answer to it."""
    state = run.state
    before = next((one for one in state.asked if one["key"] == waiting.key), {})
    before["adjusted"] = text[:200]
    run.event("workflow.answered", purpose="override", answer=text[:500], by="human")
    options = " / ".join(one.partition(":")[0] for one in waiting.options)
    shown = f"{noted}\n\n{waiting.text}" + (f"\n\n({options})" if options and options not in waiting.text else "")
    entry = run.ask(
        waiting.purpose, questions.kind_of(waiting.purpose), shown, waiting.options,
        about=state.step(before["step"]) if before.get("step") is not None else None,
        known_by=str(before.get("text", waiting.text)), shown=waiting.text, data=waiting.data,
    )  # fmt: skip
    entry["fingerprint"] = before.get("fingerprint", entry["fingerprint"])
