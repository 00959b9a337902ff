"""What the subagents of a run are given by it, and where they are written down (FR23c).

Each is one entry of `state.subagents`, written when its session is known and when it has reported. After a crash the
piece of work that was under way is given to the session that had it, where the program can resume one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property

from interlock.model.json import Json
from interlock.workflow.agents.records import INTERRUPTED, WORKING, RoutingTerms, SubagentRecord, SubagentRegistry
from interlock.workflow.engine.context import Apply, Draft
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.package.personas import Persona, personas

KEPT = 100  # entries; the oldest that are over go first
OPEN = frozenset({WORKING, INTERRUPTED, "capacity"})
"""With one of these an earlier process left what can be taken up again."""


class RunRegistry(SubagentRegistry):
    """The registry in the state of a run, which `apply` changes; `save` writes it down."""

    def __init__(self, apply: Apply, save: Callable[[], Awaitable[None]]) -> None:
        self._apply = apply
        self._save = save
        self._left = apply(_left_open)

    @cached_property
    def _installed(self) -> tuple[Persona, ...]:
        return self._apply(_personas)

    def terms(self) -> RoutingTerms:
        return self._apply(_terms, self._installed)

    def left_open(self, input: str, label: str) -> SubagentRecord | None:
        for entry in self._left:
            if entry.get("input") == input and entry.get("label") == label:
                self._left.remove(entry)
                known = {name: value for name, value in entry.items() if name in SubagentRecord.__dataclass_fields__}
                return SubagentRecord(**known)
        return None

    def assigned(self, record: SubagentRecord, why: str, warning: str | None) -> None:
        self._apply(_assigned, record, why, warning)

    def note(self, record: SubagentRecord) -> None:
        self._apply(_note, record)

    async def keep(self, record: SubagentRecord) -> None:
        self.note(record)
        await self._save()


def _left_open(run: Draft) -> list[Json]:
    """What an earlier process left that can be taken up again. What it left at work is interrupted."""
    known = run.state.subagents
    run.state.subagents = [{**one, "status": INTERRUPTED} if one.get("status") == WORKING else one for one in known]
    return [one for one in known if one.get("status") in OPEN and one.get("agent_id")]


def _personas(run: Draft) -> tuple[Persona, ...]:
    return personas(run.package)


def _terms(run: Draft, installed: tuple[Persona, ...]) -> RoutingTerms:
    return RoutingTerms(run.state.plan.tier, run.settings.max_model, run.workflow.module, installed)


def _assigned(run: Draft, record: SubagentRecord, why: str, warning: str | None) -> None:
    choice = f"{record.role} on {record.model or 'its own model'}"
    why = f"{why}; its session is taken up again" if record.n else why
    basis = {"label": record.label, "kind": record.kind, "tier": run.state.plan.tier}
    run.decide(Decision("subagent", choice, f"{why}; {warning}" if warning else why, basis=basis))
    if warning is not None:
        run.event("workflow.subagent_unrouted", label=record.label, kind=record.kind, warning=warning)
    record.started, record.ended, record.status = run.now, None, WORKING
    _note(run, record)


def _note(run: Draft, record: SubagentRecord) -> None:
    state, entries = run.state, run.state.subagents
    if record.n == 0:
        record.n = max((int(one.get("n", 0)) for one in entries), default=0) + 1
    over = record.status != WORKING
    if over and record.ended is None:
        record.ended = run.now
        told = ("label", "role", "model", "agent_id", "status", "attempts")
        run.event("workflow.subagent_ended", **{name: getattr(record, name) for name in told})
    elif not over:
        record.ended = None
    # A new list each time: a thread may be writing the old one.
    others = [one for one in entries if one.get("n") != record.n]
    entries = sorted([*others, record.as_dict()], key=lambda one: int(one.get("n", 0)))
    ended = [one.get("n") for one in entries if one.get("status") not in OPEN]
    dropped = set(ended[: max(0, len(entries) - KEPT)])
    state.subagents = [one for one in entries if one.get("n") not in dropped]
