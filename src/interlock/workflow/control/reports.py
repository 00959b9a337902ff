"""Reports of those who examine something, each kept as soon as it is there: a crash does not pay for them twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import anyio

from interlock.workflow.agents.assignment import Assignment, Report
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.ports import Superseded

TRIES = 3
FIRST_PAUSE = 1.0  # seconds; doubled each time
KEPT = 60_000  # characters of a report, its end
AGAIN = frozenset(("failed", "timeout", "preempted"))


async def gather(run: RunContext, name: str, assignments: Sequence[Assignment]) -> list[Report]:
    """A report on each of the assignments, in their order; they are carried out at once.

    Those that a run before this one finished in the same round of the examination `name` are not asked for again; one
    that failed is, with growing pauses. Never raises for what agents do.

    Raises:
        Superseded: the run is somebody else's now.
    """
    if run.dispatcher is None:
        return [Report(one.label, "failed", detail="this run has no agents to give work to") for one in assignments]
    kept: dict[str, Any] = run.state.examinations.setdefault(name, {"rounds": []}).setdefault("reports", {})
    found: dict[str, Report] = {label: Report(**one) for label, one in kept.items()}
    lost: list[Superseded] = []

    async def one(assignment: Assignment) -> None:
        report = found[assignment.label] = await _insistently(run, assignment)
        if report.status != "completed":
            return
        kept[assignment.label] = asdict(replace(report, text=report.text[-KEPT:]))
        try:
            await run.save_soon()
        except Superseded as error:
            lost.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for assignment in assignments:
            if assignment.label not in kept:
                group.start_soon(one, assignment)
    if lost:
        raise lost[0]
    return [found[one.label] for one in assignments]


async def _insistently(run: RunContext, assignment: Assignment) -> Report:
    assert run.dispatcher is not None
    report = await run.dispatcher.run(assignment)
    for number in range(1, TRIES):
        if report.status not in AGAIN:
            break
        why = f"{report.label}: {report.detail or report.status}"
        run.event("workflow.turn_failed", step=run.state.current_step, reason=why)
        await anyio.sleep(FIRST_PAUSE * 2 ** (number - 1))
        report = await run.dispatcher.run(assignment)
    return report
