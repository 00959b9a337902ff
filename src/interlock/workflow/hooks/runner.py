"""Runs one hook: a program of the project, in a process group of its own, within its time, with an environment that
holds nothing of the user's but what every program of an agent may see (decision 42).

Promises:

* What is started is a file inside the project, links followed, that was there with this content when the run began; a
  shell only where the hook asks for one. Anything else is a failed result that says what to do.
* It gets a JSON document on standard input and `INTERLOCK_HOOK_…` variables; its working directory is the project's.
* However much it prints, no more than the limits is held in memory (`output`), and however it ends, nothing that it
  started is running when `run` returns. What a crash of ours left behind is ended by `clear`.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread

from interlock.errors import AgentError
from interlock.model.text import plain
from interlock.processes import groups
from interlock.processes.ancestry import RUN_TOKEN
from interlock.processes.commands import SHELL
from interlock.processes.output import blanked
from interlock.processes.program import LINGER, Child, standard_input
from interlock.runner.environment import allowed_environment
from interlock.workflow.hooks.definitions import PRE_TOOL, Hook
from interlock.workflow.hooks.output import STDERR, STDOUT, Cut, HookResult, Status, Stream
from interlock.workflow.hooks.program import PROJECT, NoHook, program_of

REFUSAL = 2
"""The exit code with which a PreToolUse hook refuses the tool, as Claude Code has it."""
GRACE = 1.0  # seconds between TERM and KILL, at most
DOCUMENT = 262_144  # bytes on standard input; a tool's own arguments are left out beyond
_CHUNK = 65_536


class HookRunner:
    """Runs the hooks of one workflow run, one at a time.

    `environment` is that of the run's agent; it is reduced once more. `pins` are the contents that the hooks' programs
    had when the run began (see `pin`), by `Hook.terms`. `name` tells this run's hooks from all others on the machine.
    """

    def __init__(
        self,
        root: str,
        environment: Mapping[str, str],
        name: str,
        *,
        secrets: Sequence[str] = (),
        stop_grace: float = GRACE,
    ) -> None:
        self.root = os.path.realpath(root)
        self.pins: Mapping[str, str] | None = None
        self._token = hashlib.sha256(f"hooks\0{self.root}\0{name}".encode()).hexdigest()[:32]
        self._secrets = tuple(secrets)
        self._grace = min(stop_grace, GRACE)
        self._environment, _ = allowed_environment(environment, extra={RUN_TOKEN: self._token})
        self._scope: anyio.CancelScope | None = None
        self._stopped = False
        self._turn = anyio.Lock()

    async def clear(self) -> None:
        """End what an engine that was killed has left of this run's hooks."""
        await anyio.to_thread.run_sync(partial(groups.end_marked, self._token, self._grace))

    def cancel(self) -> None:
        """End the hook that runs now, and let no further one begin."""
        self._stopped = True
        if self._scope is not None:
            self._scope.cancel()

    async def run(self, hook: Hook, document: Mapping[str, Any]) -> HookResult:
        """Run `hook` to its end. Never raises for what it does, or for what is wrong with it."""
        async with self._turn:  # they share a token: the end of one is that of all
            with anyio.CancelScope() as self._scope:
                if self._stopped:
                    self._scope.cancel()
                try:
                    argv = await anyio.to_thread.run_sync(self._argv, hook)
                    return await self._carry_out(hook, argv, document)
                except (NoHook, AgentError, OSError) as error:
                    return HookResult(hook, "failed", str(error))
        return HookResult(hook, "cancelled", "the run was stopped")

    async def pin(self, hooks: Sequence[Hook]) -> dict[str, str]:
        """What the hooks are now: the content of their programs, by `Hook.terms`."""

        def look() -> dict[str, str]:
            return {hook.terms: self._seal(hook) for hook in hooks}

        return await anyio.to_thread.run_sync(look)

    def _seal(self, hook: Hook) -> str:
        try:
            path = program_of(hook, self.root)
        except NoHook:
            return "absent"
        if path is None:
            return "shell"
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:32]

    def _argv(self, hook: Hook) -> list[str]:
        path = program_of(hook, self.root)
        if self.pins is not None and self.pins.get(hook.terms) != self._seal(hook):
            raise NoHook(
                f"{hook.name} (or what {hook.file} says of it) is not what it was when the run began, so it is not "
                "run: an agent may have written it. Look at it; a run that is taken up again after it has failed "
                "takes it as it is then."
            )
        words = [one.replace(PROJECT, self.root) for one in hook.command]
        return [SHELL, "-c", words[0]] if hook.shell else [str(path), *words[1:]]

    async def _carry_out(self, hook: Hook, argv: list[str], document: Mapping[str, Any]) -> HookResult:
        out, errors = Cut(STDOUT), Cut(STDERR)
        began = time.monotonic()
        with _pipes() as (read_out, write_out, read_errors, write_errors):
            with standard_input(_text(document)) as stdin:
                child = Child(
                    argv, workdir=self.root, environment={**self._environment, **_variables(document)},
                    stop_grace=self._grace, stdin=stdin, stdout=write_out.take(), stderr=write_errors.take(),
                )  # fmt: skip
            write_out.close()
            write_errors.close()
            await child.begun()
            ended = False
            try:
                async with anyio.create_task_group() as listeners:
                    drained = [anyio.Event(), anyio.Event()]
                    listeners.start_soon(_listen, read_out.take(), out, drained[0])
                    listeners.start_soon(_listen, read_errors.take(), errors, drained[1])
                    with anyio.move_on_after(hook.timeout):
                        await child.exited()
                        ended = True
                    await child.end()
                    with anyio.move_on_after(LINGER):
                        for one in drained:
                            await one.wait()
                    listeners.cancel_scope.cancel()
            finally:
                await child.end()
        result = partial(
            HookResult, hook, exit_code=child.exit_code if ended else None, stdout=self._stream(out),
            stderr=self._stream(errors), seconds=time.monotonic() - began,
        )  # fmt: skip
        return result(*_judged(hook, ended, child, self._stream(errors).text))

    def _stream(self, cut: Cut) -> Stream:
        text = blanked(cut.raw.decode("utf-8", "ignore" if cut.total > cut.limit else "replace"), self._secrets)
        kept = plain(text).encode("utf-8", "replace")[: cut.limit]  # what is no text may have grown
        return Stream(kept.decode("utf-8", "ignore"), cut.total, cut.limit)


def _judged(hook: Hook, ended: bool, child: Child, errors: str) -> tuple[Status, str]:
    code = child.exit_code
    last = next((one.strip() for one in reversed(errors.splitlines()) if one.strip()), "")[:500]
    said = f": {last}" if last else ""
    if child.left:
        return "failed", f"still running in spite of KILL: process {', '.join(map(str, child.left))}"
    if not ended:
        return "failed", f"it took longer than its {hook.timeout:g} s and was ended (`timeout` gives it more){said}"
    if code == 0:
        return "ok", ""
    if code == REFUSAL and hook.event == PRE_TOOL:
        return "refused", errors.strip()[:2000] or "it gave no reason"
    return "failed", f"signal {-code}{said}" if code is not None and code < 0 else f"exit {code}{said}"


def _variables(document: Mapping[str, Any]) -> dict[str, str]:
    """The document's main fields as variables, for scripts that do not read JSON."""
    step, tool = document.get("step") or {}, document.get("tool") or {}
    found = {
        "EVENT": document.get("event"), "WORKFLOW": document.get("workflow_id"), "STEP": step.get("id"),
        "TOOL": tool.get("kind"), "PROJECT": document.get("project"),
    }  # fmt: skip
    return {
        f"INTERLOCK_HOOK_{name}": str(value).replace("\0", "") for name, value in found.items() if value is not None
    }


def _text(document: Mapping[str, Any]) -> str:
    whole = json.dumps(document, ensure_ascii=False)
    if len(whole.encode("utf-8", "replace")) <= DOCUMENT:
        return whole
    tool = {name: value for name, value in (document.get("tool") or {}).items() if name != "input"}
    return json.dumps({**document, "tool": {**tool, "input_left_out": True}}, ensure_ascii=False)


class _End:
    """One end of a pipe, closed at most once."""

    def __init__(self, number: int) -> None:
        self._number = number

    def take(self) -> int:
        return self._number

    def close(self) -> None:
        if self._number >= 0:
            os.close(self._number)
            self._number = -1


@contextmanager
def _pipes() -> Iterator[tuple[_End, _End, _End, _End]]:
    """Two pipes, for reading without waiting; whatever of them is open at the end is closed."""
    ends = [_End(one) for one in (*os.pipe(), *os.pipe())]
    try:
        for one in (ends[0], ends[2]):
            os.set_blocking(one.take(), False)
        yield ends[0], ends[1], ends[2], ends[3]
    finally:
        for one in ends:
            one.close()


async def _listen(pipe: int, cut: Cut, drained: anyio.Event) -> None:
    while True:
        try:
            chunk = os.read(pipe, _CHUNK)
        except BlockingIOError:
            await anyio.wait_readable(pipe)
            continue
        if not chunk:
            break
        cut.feed(chunk)
        await anyio.lowlevel.checkpoint()  # one that prints for ever must not keep its time limit from being noticed
    drained.set()
