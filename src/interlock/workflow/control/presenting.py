"""A menu put to a human, no faster than a human can take it (FR55, FR56, BMAD-7.6; `personal.menu_rate`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import anyio

from interlock.clock import iso, seconds
from interlock.workflow.control import asking
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.ports import Asking
from interlock.workflow.personal import menu_rate
from interlock.workflow.personal.menu_rate import Admission
from interlock.workflow.state.document import RUNNING, WAITING_USER, Waiting

PURPOSE = "menu_pause"
OPTIONS = ("continue", "stop")


@dataclass(frozen=True)
class Pending:
    """A menu on its way to a human. `known_by` is what it is recognised by after a crash, `shown` the menu itself,
    `text` what is asked, `data` what its answer is read with."""

    known_by: str
    shown: str
    text: str
    options: tuple[str, ...]
    recommended: str | None = None
    context: str | None = None
    confidence: float = 0.0
    data: Mapping[str, Any] = field(default_factory=dict)


async def present(run: RunContext, menu: Pending) -> None:
    """Put a menu to a human: at once, after the rest of the interval, or after a pause that is acknowledged."""
    admission = await _admitted(run, menu)
    if admission.pause:
        await _pause(run, menu, admission)
        return
    if admission.wait > 0:
        run.event("workflow.rate_limited", reason=menu_rate.INTERVAL_REASON, seconds=round(admission.wait, 3))
        await anyio.sleep(admission.wait)
    await _ask(run, menu)


async def acknowledged(run: RunContext, waiting: Waiting) -> None:
    """The pause is over: the count begins anew, and the menu that waited is presented."""
    kept = dict(waiting.data["menu"])
    run.state.waiting = None
    run.move(RUNNING)
    await present(run, Pending(**{**kept, "options": tuple(kept["options"])}))


async def answered(run: RunContext, waiting: Waiting, text: str) -> None:
    """A human has answered something: a menu gets its answer, anything else begins the count anew."""
    if waiting.purpose == "menu":
        id = run.state.workflow_id
        run.session = await run.desk.change_session(lambda document: menu_rate.answered(document, text, run=id))
    elif menu_rate.counting(run.session):
        run.session = await run.desk.change_session(menu_rate.spoke)


async def _admitted(run: RunContext, menu: Pending) -> Admission:
    """Whether it may come, and its place among the others of the session, in one transaction."""
    found: list[Admission] = []
    limits, id, step = run.limits, run.state.workflow_id, run.record.id

    def admit(document: dict[str, Any]) -> None:
        now = seconds(run.desk.now())
        found[:] = [menu_rate.admit(document, now, interval=limits.menu_interval, most=limits.menu_pause)]
        if not found[0].pause:
            menu_rate.presented(document, " / ".join(menu.options), run=id, step=step, at=iso(now + found[0].wait))

    run.session = await run.desk.change_session(admit)
    return found[0]


async def _ask(run: RunContext, menu: Pending) -> None:
    state = run.state
    entry = asking.new_entry(state, run.record, "menu", menu.known_by, run.desk.now())
    state.waiting = Waiting(entry["key"], "menu", menu.shown, list(menu.options), data=dict(menu.data))
    run.move(WAITING_USER)
    question = Asking(
        entry["key"], "menu", menu.text, menu.options, menu.recommended, menu.context,
        data={"confidence": menu.confidence},
    )  # fmt: skip
    state.waiting.question_id = await run.save(question)
    state.waiting.asked_at = run.desk.now()


async def _pause(run: RunContext, menu: Pending, admission: Admission) -> None:
    """The forced pause: the menu waits in the question's data until a human says to go on."""
    state = run.state
    text = f"{menu_rate.summary(admission.recent)}\n\nTake your time. Go on with the next one? ({' / '.join(OPTIONS)})"
    entry = asking.new_entry(state, run.record, PURPOSE, text, run.desk.now())
    state.waiting = Waiting(entry["key"], PURPOSE, text, list(OPTIONS), data={"menu": asdict(menu)})
    run.event("workflow.rate_limited", reason=menu_rate.PAUSE_REASON, menus=len(admission.recent))
    run.move(WAITING_USER)
    state.waiting.question_id = await run.save(Asking(entry["key"], "clarification", text, OPTIONS))
    state.waiting.asked_at = run.desk.now()
