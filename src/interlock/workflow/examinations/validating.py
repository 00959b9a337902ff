"""One validation by several validators: at once behind a barrier, and again where some were not heard (BMAD-6.1–6.3).

Every way ends within bounded time: the barrier's wait, once or twice, and one time limit for each validator that is
tried again by itself. Nothing that was heard is lost, whatever happens to the others; the results come in the order of
the validators, in one shape, whichever way they were come by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from interlock.errors import InterlockError
from interlock.workflow.agents.assignment import VALIDATION, Assignment, Report
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.agents.synchronization_barrier import (
    BARRIER_TIMEOUT,
    Gathered,
    SynchronizationBarrier,
    SyncTimeout,
)
from interlock.workflow.control.ports import Superseded
from interlock.workflow.examinations import partial_failure, validator_answer
from interlock.workflow.examinations.bmb_validators import Validator
from interlock.workflow.examinations.validator_answer import ValidatorResult
from interlock.workflow.examinations.validator_board import Board

Barriers = Callable[[Sequence[str]], SynchronizationBarrier[ValidatorResult]]
Prompts = Callable[[Validator, ValidatorResult | None], str]


@dataclass(frozen=True)
class Validated:
    """The results in the order of the validators, how those that failed at first were treated, and the barrier's errors
    (`sync_timeout`, `barrier_timeout`). `capacity` is the report of a validator whose provider has none left: nobody is
    tried again then."""

    results: tuple[ValidatorResult, ...]
    handling: str
    errors: tuple[str, ...] = ()
    capacity: Report | None = None

    @property
    def unheard(self) -> tuple[ValidatorResult, ...]:
        """Those that could not be heard to the end."""
        return tuple(one for one in self.results if not one.heard)


@dataclass
class Validation:
    """See the module. `prompt` is what a validator is told, with another's result as its context where there is one;
    `wait` the limit of the barrier and of each single validator, in seconds."""

    validators: Sequence[Validator]
    prompt: Prompts
    dispatcher: SubagentDispatcher
    board: Board
    wait: float
    barriers: Barriers = SynchronizationBarrier
    reports: dict[str, Report] = field(default_factory=dict)
    _errors: list[str] = field(default_factory=list)

    async def run(self) -> Validated:
        """All of it. `board` knows what was heard before an interruption: that is not asked for again."""
        heard = {one.label: one for one in self.board.kept() if one.heard}
        left = [one for one in self.validators if one.label not in heard]
        results = {**heard, **(await self._at_once(left) if left else {})}
        way = partial_failure.handling(sum(one.heard for one in results.values()), len(self.validators))
        if self._capacity() or self.dispatcher.stopped:
            way = partial_failure.PROCEED
        if way == partial_failure.RETRY_ALL:
            again = await self._at_once(self.validators)
            results = {label: new if new.heard else results[label] for label, new in again.items()}
        elif way != partial_failure.PROCEED:
            context = None
            if way == partial_failure.WITH_CONTEXT:
                context = next(one for one in results.values() if one.heard)
            self.board.awaits([one.label for one in results.values() if not one.heard])
            for one in self.validators:
                if not results[one.label].heard and not self._capacity() and not self.dispatcher.stopped:
                    results[one.label] = await self._alone(one, context)
        ordered = tuple(results[one.label] for one in self.validators)
        return Validated(ordered, way, tuple(self._errors), self._capacity())

    def _capacity(self) -> Report | None:
        """The latest report that says so, of each the last one."""
        said = [one for one in self.reports.values() if one.status == "capacity"]
        return max(said, key=lambda one: one.retry_at or 0.0, default=None)

    async def _at_once(self, validators: Sequence[Validator]) -> Mapping[str, ValidatorResult]:
        """One attempt of all of these at the same time; one that is not there in time has failed."""
        self.board.awaits([one.label for one in validators])
        await self.board.save()
        barrier = self.barriers([one.label for one in validators])
        gathered: Gathered[ValidatorResult] | None = None
        async with anyio.create_task_group() as group:
            for one in validators:
                group.start_soon(self._behind, barrier, one, group.cancel_scope)
            group.start_soon(self.board.keep, group.cancel_scope)
            gathered = await barrier.wait(self.wait)
            group.cancel_scope.cancel()
        self.board.check()
        assert gathered is not None
        if gathered.error is not None:
            self._errors.append(gathered.error)
        results = {}
        for one in validators:
            found = gathered.results.get(one.label)
            if found is None:
                found = validator_answer.failed(one.label, one.name, gathered.error or BARRIER_TIMEOUT)
            self.board.ended(found)
            results[one.label] = found
        await self.board.save()
        return results

    async def _behind(
        self, barrier: SynchronizationBarrier[ValidatorResult], validator: Validator, scope: anyio.CancelScope
    ) -> None:
        self.board.began(validator.label)
        try:
            result = await self._ask(validator, None)
            await barrier.hand_in(validator.label, result)
        except SyncTimeout:
            return  # The barrier is broken and says so to whoever waits.
        except (Superseded, InterlockError) as error:  # Not the agent's: what it was to be written down to.
            self.board.lost(error, scope)
            return
        self.board.ended(result)

    async def _alone(self, validator: Validator, context: ValidatorResult | None) -> ValidatorResult:
        self.board.began(validator.label)
        await self.board.save()
        result = None
        with anyio.move_on_after(self.wait):
            result = await self._ask(validator, context)
        if result is None:
            result = validator_answer.failed(validator.label, validator.name, f"no answer within {self.wait:g} s")
        self.board.ended(result)
        await self.board.save()
        return result

    async def _ask(self, validator: Validator, context: ValidatorResult | None) -> ValidatorResult:
        assignment = Assignment(
            validator.label,
            self.prompt(validator, context),
            VALIDATION,
            time_limit=self.wait,
            data={"of": validator.name},
        )
        report = self.reports[validator.label] = await self.dispatcher.run(assignment)
        if report.status != "completed":
            detail = f"{report.status}: {report.detail}" if report.detail else report.status
            return validator_answer.failed(validator.label, validator.name, detail, report.seconds)
        return validator_answer.read(validator.label, validator.name, report.text, report.seconds)
