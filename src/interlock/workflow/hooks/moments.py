"""When hooks run within a run, and what their results do to it (stories 7.3 to 7.5).

    SessionStart  before the first step; once for each run in a session, `once`: in the session (`Desk.change_life`)
    PreToolUse    when a tool is announced or asks for permission; in the latter case it may refuse the tool
    PostToolUse   when a tool has completed or failed
    Stop          when a step is done, before the run goes on from it

One hook runs at a time. Whether a `once` hook, or a session's start, has had its turn is written down before it runs:
an engine that is killed meanwhile does not run it again. What hooks print is kept by `runner.HookRecords`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from interlock.model.json import Json
from interlock.workflow.engine import machine
from interlock.workflow.engine.context import RunContext
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.ports import Superseded
from interlock.workflow.hooks import definitions
from interlock.workflow.hooks.definitions import PRE_TOOL, SESSION_START, STOP, Found, Hook
from interlock.workflow.hooks.output import HookResult
from interlock.workflow.hooks.records import HookRecords
from interlock.workflow.hooks.runner import HookRunner
from interlock.workflow.hooks.tool_calls import Tool, ToolCalls
from interlock.workflow.package.packages import Package
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.state.document import FAILED, TERMINAL

CRITICAL = "critical_hook_failed"
STARTED = 500  # starts of runs that a session remembers


class Hooking:
    """The hooks of one run; there are some, or some that are malformed. `directory` is where `HookRecords` keeps what
    they print."""

    def __init__(self, package: Package, workflow: Workflow, runner: HookRunner, directory: str = "") -> None:
        self.all = definitions.everywhere(package.files, workflow)
        self.tools = ToolCalls(self)
        self.records = HookRecords(directory)
        self._files = package.files
        self._workflow = workflow
        self._runner = runner
        self._of: Any = None
        self._here = Found()
        self._begun = False
        self._fatal: Json | None = None
        self._superseded: Superseded | None = None
        self._taken: set[str] = set()

    @asynccontextmanager
    async def at_work(self, run: RunContext) -> AsyncIterator[None]:
        """While this lasts, the hooks of tools are run beside the turns of `run`."""
        self._run = run
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
        run = self._run
        kept = run.state.hooks
        await self._runner.clear()
        if "pinned" not in kept:
            for wrong in self.all.malformed:
                self._failed({"reason": wrong.text, "critical": wrong.critical, "event": "", "command": ""})
            kept["pinned"] = await self._runner.pin(self.all.hooks)
        self._runner.pins = kept["pinned"]
        source = "resume" if any(one.visit for one in run.state.steps.values()) else "startup"
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
        await self.records.write(self._run.state)

    def halted(self) -> bool:
        """Whether a critical hook has failed: then the run has ended."""
        state = self._run.state
        if self._fatal is None:
            return False
        if state.state != TERMINAL:
            state.error_details = {**self._fatal, "step": state.current_step}
            machine.end(state, FAILED, CRITICAL)
            self._run.event("workflow.ended", outcome=FAILED, error=CRITICAL, step=state.current_step)
        return True

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
                await self._run.pool.cancel()
            if result is None or event != PRE_TOOL:
                continue
            if result.status == "refused" or (result.status == "failed" and hook.critical):
                why = f"{hook.name} refuses it: {result.reason}"
                self._run.decide(Decision("hook", "refuse", f"{tool.title}: {why}"[:1000], by="hook"))
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
        await self.records.write(self._run.state)
        return not self.halted()

    async def _carry_out(self, hook: Hook, about: Mapping[str, Any]) -> HookResult | None:
        """Run a hook whose turn it is, and note its result; None where it has had its turn."""
        key = self._claim_of(hook)
        if key is not None and not await self._claim(key, hook):
            return None
        result = await self._runner.run(hook, self._document(hook, about))
        if key is not None and (result.status == "cancelled" or (result.status == "failed" and hook.critical)):
            # It is known not to have done its work: when the run is taken up again, it is its turn again.
            self._taken.discard(key)
            if hook.once:
                self._run.state.hooks["once"].remove(hook.key)
            await self._run.desk.change_life(lambda life: life["hooks"].pop(key, None) and None)
        if result.status != "cancelled":
            self._note(result, about)
            if self._fatal is not None and hook.event not in (SESSION_START, STOP):
                await self._run.pool.cancel()
        return result

    def _claim_of(self, hook: Hook) -> str | None:
        """Under which name it is known that it was run; None for one that runs each time."""
        if hook.once:
            return f"once {hook.key} {self._run.root}"
        return f"start {hook.key} {self._run.state.workflow_id}" if hook.event == SESSION_START else None

    async def _claim(self, key: str, hook: Hook) -> bool:
        """Take a hook's turn, before it is run; false where somebody has."""
        run = self._run
        # A run that goes on in another session is still the same run: its `once` hooks have had their turn.
        of_run = run.state.hooks.setdefault("once", []) if hook.once else []
        if key in self._taken or hook.key in of_run:
            return False
        taken = [False]
        if hook.once:
            of_run.append(hook.key)
            if hook.event == SESSION_START:
                await run.save()

        def take(life: Json) -> None:
            known = life.setdefault("hooks", {})
            taken[0] = key not in known
            known.setdefault(key, {"hook": hook.name, "at": run.desk.now(), "workflow_id": run.state.workflow_id})
            starts = [one for one in known if one.startswith("start ")]
            for old in starts[:-STARTED]:
                del known[old]

        await run.desk.change_life(take)
        self._taken.add(key)
        return taken[0]

    def _document(self, hook: Hook, about: Mapping[str, Any]) -> Json:
        """What a hook reads on its standard input."""
        run = self._run
        state, record = run.state, run.record
        step = {"id": record.id, "name": record.name, "path": record.path, "visit": record.visit}
        return {
            "event": hook.event, "workflow_id": state.workflow_id, "skill": state.skill, "task_id": state.task_id,
            "project": run.root, "step": step, "at": run.desk.now(), **about,
        }  # fmt: skip

    def _at_hand(self) -> Found:
        """The hooks of the step at hand."""
        run = self._run
        if run.state.current_step is None:
            return Found()
        if self._of != run.state.current_step:
            self._here, self._of = definitions.of_step(self._files, self._workflow, run.step), run.state.current_step
        return self._here

    def _note(self, result: HookResult, about: Mapping[str, Any]) -> None:
        run, hook = self._run, result.hook
        entry = self.records.add(run.state, result, run.desk.now(), about.get("tool", {}).get("title", ""))
        if result.truncated:
            step = run.state.current_step
            run.event("workflow.hook_truncated", step=step, event=hook.event, command=hook.name, message=result.message)
        if result.status == "failed":
            self._failed({**entry, "reason": result.reason, "stderr": result.stderr.text[-2000:]})

    def _failed(self, what: Mapping[str, Any]) -> None:
        """A failure is logged; one that is critical halts the run."""
        run = self._run
        found = {name: what[name] for name in ("event", "command", "reason", "exit_code", "stderr") if what.get(name)}
        critical = bool(what["critical"])
        run.event("workflow.hook_failed", step=run.state.current_step, critical=critical, **found)
        if critical and self._fatal is None:
            self._fatal = found
