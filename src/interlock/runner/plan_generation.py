"""Asking an agent for a plan. It may look and say; nothing is created, and nothing starts by itself."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence

import anyio
import anyio.to_thread

from interlock.agents.session import Update
from interlock.errors import AgentError, PlanError
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.plan import proposal
from interlock.plan.detecting import inspect
from interlock.processes.ancestry import RUN_TOKEN
from interlock.runner.environment import allowed_environment
from interlock.runner.executor import Execution, Executor, Job

ROUNDS = 3
"""How often an agent is asked: once, and again for each plan that cannot be used."""


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """What holds for the agent: seconds for one answer, and as in `agent.Opening`."""

    time_limit: float
    stop_grace: float
    output_bytes: int


@dataclass(frozen=True, slots=True)
class Planner:
    """Who is asked: `agent` and `command` as in a plan's member."""

    agent: str
    command: tuple[str, ...]
    executor: Executor

    @property
    def written(self) -> str:
        """How a plan names it."""
        return json.dumps({self.agent: list(self.command)}) if self.command else self.agent


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What an agent is asked for. `judge` takes what it proposes out of an answer, with what is wrong with that, as
    `{line, message}`; `correction` is what it is told then. `kind` is the language of its fenced block, `what` its
    name for people."""

    text: str
    judge: Callable[[str], tuple[str, list[Json]]]
    correction: Callable[[Sequence[Json]], str]
    kind: str = "json"
    what: str = "answer"


async def obtain(
    wish: AgentRequest, asked: Planner, terms: AnswerLimits, *, directory: str, base: Mapping[str, str],
    on_update: Callable[[Update], None],
) -> tuple[str, list[Json]]:  # fmt: skip
    """Ask until a proposal can be used: (what was proposed last, what is wrong with it).

    Raises:
        AgentError: the agent could not be started, or did not answer.
    """
    prompt, text = wish.text, ""
    faults: list[Json] = []
    execution: Execution | None = None
    try:
        for number in range(ROUNDS):
            if number:
                on_update(Update("notice", f"that {wish.what} cannot be used ({faults[0]['message']}); asking again"))
            result = None if execution is None else await execution.again(prompt, on_update)
            if result is None:
                # A program that takes one prompt gets everything again.
                await _close(execution)
                again = f"{wish.text}\nYou proposed:\n\n```{wish.kind}\n{text}```\n\n{prompt}"
                token = os.urandom(16).hex()
                environment, secrets = allowed_environment(
                    base, names=asked.executor.variables, extra={RUN_TOKEN: token}
                )
                execution = asked.executor.start(Job(
                    team="", task_id="", run_id="", member="planner", session_id=f"plan:{token}",
                    prompt=again if number else wish.text, command=None, workdir=directory, environment=environment,
                    log="", time_limit=terms.time_limit, stop_grace=terms.stop_grace, output_bytes=terms.output_bytes,
                    secrets=secrets,
                ))  # fmt: skip
                result = await execution.run(on_update)
            if result.status != "ended":
                detail = result.detail or result.output[-500:].strip() or result.status
                raise AgentError(f"The agent did not answer ({result.status}): {detail}", status=result.status)
            text, faults = wish.judge(result.output)
            if not faults:
                break
            prompt = wish.correction(faults)
    finally:
        await _close(execution)
    return text, faults


async def propose(
    goal: str, asked: Planner, terms: AnswerLimits, *, directory: str, path: str, base: Mapping[str, str],
    on_update: Callable[[Update], None],
) -> str:  # fmt: skip
    """Ask for a plan for `goal`, to be written to `path`, until one is valid; its text.

    Raises:
        AgentError: the agent could not be started, or did not answer.
        PlanError: what it proposed cannot be used, also after it was told why; `errors` lists the faults.
    """
    findings = await anyio.to_thread.run_sync(inspect, directory)
    request = proposal.request(goal, findings, asked.agent if not asked.command else "agent", asked.written)

    def judge(answer: str) -> tuple[str, list[Json]]:
        text = proposal.extract(answer) or ""
        return text, proposal.faults_of(text, path, (asked.agent, asked.command)) if text else [_NOTHING]

    wish = AgentRequest(request, judge, proposal.correction, "yaml", "plan")
    text, faults = await obtain(wish, asked, terms, directory=directory, base=base, on_update=on_update)
    if not faults:
        return proposal.placed(text, path, directory)
    raise PlanError(
        f"{asked.agent} proposed no plan that can be used, in {ROUNDS} rounds. Say the goal in other words, or write "
        "the plan by hand: `interlock init` makes a first one.",
        errors=faults,
    )


_NOTHING: Json = {"line": None, "message": "there is no fenced block with a plan in the answer"}


async def _close(execution: Execution | None) -> None:
    if execution is not None:
        with anyio.CancelScope(shield=True):
            await execution.close()
