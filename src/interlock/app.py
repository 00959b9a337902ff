"""The composition root: the only module that names concrete implementations, each imported when first needed."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlock.agents.profiles import AgentProfile
    from interlock.agents.registry import AgentRegistry
    from interlock.client import Home
    from interlock.clock import Clock
    from interlock.core.unit_of_work import Workspace
    from interlock.memory.mcp_server import McpConnection
    from interlock.memory.store import Log, MemoryStore, OpenMemory
    from interlock.model.team import Member
    from interlock.runner.executor import Executor
    from interlock.runner.executors import AgentExecutor
    from interlock.settings import Settings
    from interlock.wakeup.notifier import Notifier


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
    from interlock.settings import Settings, SettingsFile
    from interlock.storage.sqlite.catalog import SqliteCatalog

    home = home_path(path, environment)
    settings = Settings(SettingsFile(os.path.join(home, SETTINGS_FILE)), None, environment)
    clock = clock or SystemClock()
    if notifier is None:
        from interlock.wakeup.socket import SocketNotifier

        notifier = SocketNotifier(home)
    catalog = SqliteCatalog(os.path.join(home, "teams"), settings, clock)
    opened = LocalHome(
        home, settings, clock, catalog, notifier, lambda member: executor_for(member, home, opened.workspace)
    )
    opened.roster = lambda: _roster(home)
    opened.open_home = connect
    opened.open_memory = memory_of(home)
    opened.why_idle = lambda member, *, wholly=False: why_idle(member, home, wholly=wholly)
    return opened


def _roster(home: str) -> AgentRegistry:
    from interlock.agents.registry import AgentRegistry

    return AgentRegistry(home)


def executor_for(
    member: Member, home: str | None = None, workspace_of: Callable[[str], Workspace] | None = None
) -> Executor:
    """How a member's tasks are carried out; `home` is where the user's own agent profiles are. Workflows are carried
    out where `workspace_of` says how a team is opened.

    Raises:
        AgentError: its agent is unknown, or not installed here.
        ConfigParseError: the user's profiles cannot be read.
    """
    if member.agent == "shell":
        from interlock.runner.executors import ShellExecutor

        return ShellExecutor()
    found = _agent_executor(member, home)
    if workspace_of is None:
        return found
    from interlock.workflow.executor import WorkflowExecutor

    return WorkflowExecutor(found, workspace_of, memory_of(home) if home is not None else None, _models(member, home))


def why_idle(member: Member, home: str, *, wholly: bool = False) -> str | None:
    """See `roster.WhyIdle`; null where only trying tells.

    Cheap enough for every look at a team: `executor_for` would load what speaks to agents."""
    from interlock.agents.registry import lacks, why_not
    from interlock.errors import AgentError, ConfigParseError

    if member.agent in (None, "shell") or member.command:
        return None
    try:
        profile = _profile(member, home)
        why = why_not(profile, member.permissions, os.environ)
        return why or (lacks(profile, os.environ) if wholly else None)
    except (AgentError, ConfigParseError) as error:
        return error.message


def memory_of(home: str) -> OpenMemory:
    """How memory is opened for work on a project: the local file, or Forgetful with the patience that a server needs,
    and what Serena knows beside it, as the settings say."""

    def opened(settings: Settings, project: str, output_folder: str, log: Log) -> MemoryStore:
        from interlock.clock import SystemClock

        store: MemoryStore
        if settings.get("memory") == "forgetful":
            from interlock.memory.forgetful import Forgetful
            from interlock.memory.retrying import RetryingMemory

            store = RetryingMemory(
                Forgetful(_server("forgetful", settings, project)), output_folder, SystemClock(), log
            )
        else:
            from interlock.memory.local import LocalMemory

            store = LocalMemory(home, SystemClock())
        if settings.get("serena_command") or settings.get("serena_url"):
            from interlock.memory.composite import CompositeMemory
            from interlock.memory.serena import Serena

            store = CompositeMemory(store, [Serena(_server("serena", settings, project))], log)
        return store

    return opened


def _server(name: str, settings: Settings, project: str) -> McpConnection:
    from interlock.memory.mcp_server import McpConnection
    from interlock.processes.commands import words_of

    url, command = str(settings.get(f"{name}_url")), str(settings.get(f"{name}_command"))
    words = [] if url else words_of(command, f"{name}_command")
    return McpConnection(name.capitalize(), command=words, url=url, directory=project)


def _agent_executor(member: Member, home: str | None) -> AgentExecutor:
    from interlock.runner.executors import AgentExecutor

    if member.command and member.agent == "acp":
        from interlock.agents.acp.agent import AcpAgent, LaunchSpec

        return AgentExecutor(AcpAgent(member.name, LaunchSpec(tuple(member.command))))
    if member.command:
        from interlock.agents.command import CommandAgent

        return AgentExecutor(CommandAgent(member.name, member.command))
    profile = _profile(member, home)
    from interlock.agents.registry import agent_of

    return AgentExecutor(agent_of(profile, member.permissions, os.environ), profile.environment)


def _models(member: Member, home: str | None) -> Mapping[str, str]:
    """What the member's program calls the classes of models; of a program without a profile nothing is known."""
    return {} if member.command else _profile(member, home).models


def _profile(member: Member, home: str | None) -> AgentProfile:
    from interlock.agents.profiles import FILE, load
    from interlock.errors import AgentError

    profiles = load(home)
    if member.agent in profiles:
        return profiles[member.agent]
    from difflib import get_close_matches

    near = get_close_matches(str(member.agent), profiles, n=1)
    raise AgentError(
        f"{member.name} is a {member.agent!r} agent, which nobody knows here."
        f"{f' Did you mean {near[0]!r}?' if near else ''} There are shell, {', '.join(profiles)}, any program "
        f"(`agent: {{command: [PROGRAM, ARGUMENT, …]}}`, `agent: {{acp: [PROGRAM, …]}}`), and what {FILE} in the home "
        "directory of Interlock adds.",
        member=member.name,
        agent=member.agent,
    )


def document() -> None:
    """Give every verb the docstring of its port, for `help` and editors. Commands do without, which saves them time."""
    from interlock import client
    from interlock.clients.local.home import LocalHome
    from interlock.clients.local.team import LocalTeam

    for port, made in ((client.Home, LocalHome), (client.Team, LocalTeam)):
        for name in dir(port):
            verb = getattr(made, name, None)
            if callable(verb) and not name.startswith("_") and verb.__doc__ is None:
                verb.__doc__ = getattr(port, name).__doc__
