"""Runs a task's `verify` command and writes down what it proved.

The command gets a run token of its own, never its caller's: ending what a check left behind must not end the agent
session whose work it checks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import anyio.to_thread

from interlock import clock, commands
from interlock.agent import ignore
from interlock.errors import AgentError, InvalidRequest, StorageError
from interlock.output import plain
from interlock.plan.surroundings import elsewhere
from interlock.processes import RUN_TOKEN, Identity
from interlock.programs import Program

TAIL_CHARS = 4000


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verify command showed: the row of kind `verify` in a task's `evidence`.

    `tree` is the git tree that it was run on, null where that is not known. `exit_code` is null when the command could
    not be started, negative for a signal. `seconds` is how long it took, `tail` the end of its output (about 4,000
    characters, secrets blanked), `at` when it began, ISO 8601 UTC. `fingerprint` is that of what lay there after a
    failure; `unchanged`: nothing has changed since that failure, so it was not run again.
    """

    command: str
    exit_code: int | None
    passed: bool
    seconds: float
    tail: str
    at: str
    timed_out: bool
    tree: str | None = None
    fingerprint: str | None = None
    unchanged: bool = False

    def as_dict(self) -> dict[str, object]:
        """The same as JSON holds it."""
        return asdict(self)


async def verify(
    command: str,
    *,
    workdir: str,
    environment: Mapping[str, str],
    timeout: float,
    output_bytes: int,
    stop_grace: float,
    secrets: Sequence[str] = (),
    token: str | None = None,
    log: str | None = None,
    on_line: Callable[[str], None] = lambda line: None,
    on_start: Callable[[Identity], None] = ignore,
    tree: str | None = None,
    top: str | None = None,
) -> Evidence:
    """Run `command` in `workdir` with exactly `environment`, for at most `timeout` seconds.

    Exit 0 within the time is a pass; anything else, also a program that is missing or a command that cannot be read,
    is not. Nothing of it is left running. `token` is the run token by which another process could end it; `on_line`
    hears the output as it comes, `on_start` the process that was started. `top` is the user's own checkout, where
    `workdir` is in another one: a command that would look there is not run.
    """
    own = {name: value for name, value in environment.items() if name != RUN_TOKEN}
    if token is not None:
        own[RUN_TOKEN] = token
    at = clock.iso(time.time())
    astray = None
    if top is not None:
        search = own.get("PATH")
        astray = await anyio.to_thread.run_sync(lambda: elsewhere(command, workdir, top=top, search=search))
    if astray is not None:
        return Evidence(command, None, False, 0.0, f"It would not look at the work: {astray}", at, False, tree)
    try:
        program = Program(
            commands.argv(command),
            workdir=workdir,
            environment=own,
            log=log,
            secrets=secrets,
            output_bytes=output_bytes,
            stop_grace=stop_grace,
        )
        identity = await program.start()
    except (AgentError, InvalidRequest, StorageError) as error:
        return Evidence(command, None, False, 0.0, error.message, at, False, tree)
    try:
        on_start(identity)
        ending = await program.wait(timeout, on_line)
    finally:
        await program.close()
    return Evidence(
        command,
        ending.exit_code,
        ending.stop == "end",
        round(ending.seconds, 3),
        plain(ending.output)[-TAIL_CHARS:],
        at,
        ending.stop == "timeout",
        tree,
    )
