"""When hooks run within a run, and what their results do to it (stories 7.3 to 7.5).

    SessionStart  before the first step; once for each run in a session, `once`: in the session (`Desk.change_life`)
    PreToolUse    when a tool is announced or asks for permission; in the latter case it may refuse the tool
    PostToolUse   when a tool has completed or failed
    Stop          when a step is done, before the run goes on from it

One hook runs at a time. Whether a `once` hook, or a session's start, has had its turn is written down before it runs:
an engine that is killed meanwhile does not run it again. What hooks print is kept by `runner.HookRecords`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from interlock.model.json import Json
from interlock.workflow.engine import machine
from interlock.workflow.engine.context import Apply, Draft
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.ports import Superseded
from interlock.workflow.engine.runtime import Runtime
from interlock.workflow.hooks import definitions
from interlock.workflow.hooks.definitions import PRE_TOOL, SESSION_START, STOP, Found, Hook
from interlock.workflow.hooks.output import HookResult
from interlock.workflow.hooks.records import HookRecords
from interlock.workflow.hooks.runner import HookRunner
from interlock.workflow.hooks.tool_calls import Tool, ToolCalls
from interlock.workflow.package.packages import Package
from interlock.workflow.package.step import Step
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.state.document import FAILED, TERMINAL

CRITICAL = "critical_hook_failed"
STARTED = 500  # starts of runs that a session remembers


class Hooking:
    """The hooks of one run; there are some, or some that are malformed. `directory` is where `HookRecords` keeps what
    they print. What they do to the run is done by the functions of this module that take it, one at a time."""

    def __init__(self, package: Package, workflow: Workflow, runner: HookRunner, directory: str = "") -> None:
        self.all = definitions.everywhere(package.files, workflow)
        self.tools = ToolCalls(self)
        self.records = HookRecords(directory)
        self._files = package.files
        self._workflow = workflow
        self._runner = runner
        self._of: Step | None = None
        self._here = Found()
        self._begun = False
        self._fatal: Json | None = None
        self._superseded: Superseded | None = None
        self._taken: set[str] = set()

    @asynccontextmanager
    async def at_work(self, runtime: Runtime, apply: Apply, save: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """While this lasts, the hooks of tools are run beside the turns."""
        self._runtime, self._apply, self._save = runtime, apply, save
        try:
            async with anyio.create_task_group() as group:
                await group.start(self.tools.serve)
                try:
                    yield
                finally:
                    group.cancel_scope.cancel()
        except BaseExceptionGroup as raised:
            if len(raised.exceptions) == 1:
                raise raised.exceptions[0] from None
            raise

    def cancel(self) -> None:
        """End the hook that runs now; none begins any more."""
        self._runner.cancel()

    async def begin(self) -> bool:
        """SessionStart, where it is due; whether the run may go on."""
        if self._begun:
            return not self.halted()
        await self._runner.clear()
        pinned, source = self._apply(_beginning)
        if pinned is None:
            for wrong in self.all.malformed:
                self._failed({"reason": wrong.text, "critical": wrong.critical, "event": "", "command": ""})
            pinned = await self._runner.pin(self.all.hooks)
            self._apply(_pin, pinned)
        self._runner.pins = pinned
        started = {hook.key: hook for hook in self.all.of(SESSION_START) if hook.matches(source)}
        self._begun = True
        return await self._run_all(tuple(started.values()), {"source": source})

    async def stop(self, status: str) -> bool:
        """Stop, now that the step at hand is done; whether the run may go on."""
        await self.settle()
        if self.halted():
            return False
        return await self._run_all(self._at_hand().of(STOP), {"status": status})

    async def settle(self) -> None:
        """Wait for the hooks of the tools that were used so far.

        Raises:
            Superseded: the run is somebody else's.
        """
        await self.tools.settle()
        if self._superseded is not None:
            raise self._superseded
        self._apply(_warn, await self.records.write())

    def halted(self) -> bool:
        """Whether a critical hook has failed: then the run has ended."""
        if self._fatal is not None:
            self._apply(_halt, self._fatal)
        return self._fatal is not None

    def due(self, event: str, tool: Tool) -> tuple[Hook, ...]:
        """The hooks that are to run at that event of a tool."""
        names = definitions.tool_names(tool.kind, tool.title)
        return tuple(one for one in self._at_hand().of(event) if one.matches(*names)) if self._begun else ()

    async def perform(self, event: str, tool: Tool, due: tuple[Hook, ...]) -> str | None:
        """Run them; why the tool is refused, None where it is not."""
        for hook in due:
            if self._fatal is not None or self._superseded is not None:
                return "the run is being halted"
            try:
                result = await self._carry_out(hook, {"tool": tool.as_dict()})
            except Superseded as error:
                self._superseded, result = error, None
                await self._runtime.pool.cancel()
            if result is None or event != PRE_TOOL:
                continue
            if result.status == "refused" or (result.status == "failed" and hook.critical):
                why = f"{hook.name} refuses it: {result.reason}"
                self._apply(Draft.decide, Decision("hook", "refuse", f"{tool.title}: {why}"[:1000], by="hook"))
                return f"{'!' if hook.critical else ''}{why}"
        return None

    def lost(self, event: str, tool: Tool, due: tuple[Hook, ...]) -> None:
        """They could not be run."""
        for hook in due:
            why = f"the tool {tool.title!r} was faster than the hooks before it; it was not run"
            self._note(HookResult(hook, "failed", why), {"tool": tool.as_dict()})

    def overruled(self, tool: Tool, why: str) -> None:
        """A tool was refused and ran all the same: nobody had asked."""
        if self._fatal is not None or self._superseded is not None:
            return
        reason = f"the tool {tool.title!r} ran without asking for permission, though {why.removeprefix('!')}"
        self._failed({"reason": reason, "critical": why[:1] == "!", "event": PRE_TOOL, "command": ""})

    async def _run_all(self, due: tuple[Hook, ...], about: Mapping[str, Any]) -> bool:
        for hook in due:
            result = await self._carry_out(hook, about)
            if result is not None and result.status == "cancelled":
                return False
            if self._fatal is not None:
                break
        self._apply(_warn, await self.records.write())
        return not self.halted()

    async def _carry_out(self, hook: Hook, about: Mapping[str, Any]) -> HookResult | None:
        """Run a hook whose turn it is, and note its result; None where it has had its turn."""
        key, turn = self._apply(_turn, hook)
        if key is not None and not await self._claim(key, hook, turn):
            return None
        result = await self._runner.run(hook, self._apply(_document, hook, about))
        if key is not None and (result.status == "cancelled" or (result.status == "failed" and hook.critical)):
            # It is known not to have done its work: when the run is taken up again, it is its turn again.
            self._taken.discard(key)
            if hook.once:
                self._apply(_release, hook)
            await self._runtime.desk.change_life(lambda life: life["hooks"].pop(key, None) and None)
        if result.status != "cancelled":
            self._note(result, about)
            if self._fatal is not None and hook.event not in (SESSION_START, STOP):
                await self._runtime.pool.cancel()
        return result

    async def _claim(self, key: str, hook: Hook, turn: Json) -> bool:
        """Take a hook's turn, before it is run; false where somebody has."""
        if key in self._taken or (hook.once and not self._apply(_take, hook)):
            return False
        taken = [False]
        if hook.once and hook.event == SESSION_START:
            await self._save()

        def take(life: Json) -> None:
            known = life.setdefault("hooks", {})
            taken[0] = key not in known
            known.setdefault(key, turn)
            starts = [one for one in known if one.startswith("start ")]
            for old in starts[:-STARTED]:
                del known[old]

        await self._runtime.desk.change_life(take)
        self._taken.add(key)
        return taken[0]

    def _at_hand(self) -> Found:
        """The hooks of the step at hand."""
        step = self._apply(_step)
        if step is None:
            return Found()
        if self._of != step:
            self._here, self._of = definitions.of_step(self._files, self._workflow, step), step
        return self._here

    def _note(self, result: HookResult, about: Mapping[str, Any]) -> None:
        entry = self._apply(_noted, self.records, result, str(about.get("tool", {}).get("title", "")))
        if result.status == "failed":
            self._failed({**entry, "reason": result.reason, "stderr": result.stderr.text[-2000:]})

    def _failed(self, what: Mapping[str, Any]) -> None:
        """A failure is logged; one that is critical halts the run."""
        found = {name: what[name] for name in ("event", "command", "reason", "exit_code", "stderr") if what.get(name)}
        self._apply(_log_failure, found, bool(what["critical"]))
        if what["critical"] and self._fatal is None:
            self._fatal = found


def _beginning(run: Draft) -> tuple[Any, str]:
    """(the programs of the hooks as they were when the run began, what it is that begins)."""
    begun = any(one.visit for one in run.state.steps.values())
    return run.state.hooks.get("pinned"), "resume" if begun else "startup"


def _pin(run: Draft, pinned: Any) -> None:
    run.state.hooks["pinned"] = pinned


def _step(run: Draft) -> Step | None:
    return run.step if run.state.current_step is not None else None


def _turn(run: Draft, hook: Hook) -> tuple[str | None, Json]:
    """(under which name it is known that it was run, None for one that runs each time; what is known of that)."""
    id = run.state.workflow_id
    name = f"start {hook.key} {id}" if hook.event == SESSION_START else None
    return f"once {hook.key} {run.root}" if hook.once else name, {"hook": hook.name, "at": run.now, "workflow_id": id}


def _take(run: Draft, hook: Hook) -> bool:
    """Whether a `once` hook has not had its turn in this run: it is its turn then. A run that goes on in another
    session is still the same run."""
    known = run.state.hooks.setdefault("once", [])
    if hook.key in known:
        return False
    known.append(hook.key)
    return True


def _release(run: Draft, hook: Hook) -> None:
    run.state.hooks["once"].remove(hook.key)


def _document(run: Draft, hook: Hook, about: Mapping[str, Any]) -> Json:
    """What a hook reads on its standard input."""
    state, record = run.state, run.record
    step = {"id": record.id, "name": record.name, "path": record.path, "visit": record.visit}
    return {
        "event": hook.event, "workflow_id": state.workflow_id, "skill": state.skill, "task_id": state.task_id,
        "project": run.root, "step": step, "at": run.now, **about,
    }  # fmt: skip


def _noted(run: Draft, records: HookRecords, result: HookResult, tool: str) -> Json:
    """Keep a result; what the state shows of it."""
    hook, step = result.hook, run.state.current_step
    entry = records.add(run.state, result, run.now, tool)
    if result.truncated:
        run.event("workflow.hook_truncated", step=step, event=hook.event, command=hook.name, message=result.message)
    return entry


def _log_failure(run: Draft, found: Json, critical: bool) -> None:
    run.event("workflow.hook_failed", step=run.state.current_step, critical=critical, **found)


def _warn(run: Draft, unwritten: Sequence[str]) -> None:
    if unwritten:
        run.state.warnings = [*run.state.warnings, *unwritten][-5:]


def _halt(run: Draft, fatal: Json) -> None:
    state = run.state
    if state.state != TERMINAL:
        state.error_details = {**fatal, "step": state.current_step}
        machine.end(state, FAILED, CRITICAL)
        run.event("workflow.ended", outcome=FAILED, error=CRITICAL, step=state.current_step)
