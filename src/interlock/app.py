"""The composition root: the only module that names concrete implementations, each imported when first needed."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.client import Home
    from interlock.clock import Clock
    from interlock.executor import Executor
    from interlock.model.team import Member
    from interlock.notifier import Notifier


def home_path(path: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Where teams are kept: `path`, `INTERLOCK_HOME`, or `~/.interlock`, as an absolute path."""
    environment = os.environ if environment is None else environment
    return os.path.abspath(os.path.expanduser(path or environment.get("INTERLOCK_HOME") or "~/.interlock"))


def connect(
    path: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    notifier: Notifier | None = None,
) -> Home:
    """Open a home on this machine; nothing is written before the first verb that needs it.

    Args:
        path: the directory; `INTERLOCK_HOME` or `~/.interlock` by default.
        environment: where `INTERLOCK_*` overrides are read from; the process's own by default.
        clock: time and ids; the system's by default.
        notifier: how waiters are woken; sockets in the runtime directory by default.

    Raises:
        ConfigParseError: `settings.json` cannot be read.
    """
    from interlock.clients.local.home import SETTINGS_FILE, LocalHome
    from interlock.clock import SystemClock
    from interlock.ledgers.sqlite.store import SqliteLedgers
    from interlock.settings import Settings, read_file

    home = home_path(path, environment)
    settings = Settings(read_file(os.path.join(home, SETTINGS_FILE)), None, environment)
    clock = clock or SystemClock()
    if notifier is None:
        from interlock.notifiers.socket import SocketNotifier

        notifier = SocketNotifier(home)
    return LocalHome(home, settings, clock, SqliteLedgers(settings, clock), notifier, executor_for)


def executor_for(member: Member) -> Executor:
    """How a member's tasks are carried out.

    Raises:
        AgentError: its agent is not one this version can run.
    """
    from interlock.errors import AgentError

    if member.agent == "shell":
        from interlock.executors.shell import ShellExecutor

        return ShellExecutor()
    if member.command:
        from interlock.agents.command import CommandAgent
        from interlock.executors.agent import AgentExecutor

        return AgentExecutor(CommandAgent(member.name, member.command))
    raise AgentError(
        f"{member.name} is a {member.agent!r} agent, which this version cannot run yet. Use `agent: shell`, or any "
        "program: `agent: {command: [PROGRAM, ARGUMENT, …]}`.",
        member=member.name,
        agent=member.agent,
    )
