"""The composition root: the only module that names implementations, the heavy ones when first needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from interlock import agents, app
from interlock.app.home import SETTINGS_FILE, Home
from interlock.clock import Clock, SystemClock
from interlock.core.unit_of_work import Workspace
from interlock.errors import AgentError, ConfigParseError
from interlock.model.team import Member
from interlock.processes.commands import words_of
from interlock.settings import Settings, SettingsFile
from interlock.storage.sqlite.catalog import SqliteCatalog
from interlock.wakeup.notifier import Notifier
from interlock.wakeup.socket import SocketNotifier


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
    home = home_path(path, environment)
    settings = Settings(SettingsFile(os.path.join(home, SETTINGS_FILE)), None, environment)
    clock = clock or SystemClock()

    opened = Home(
        home, settings, clock, SqliteCatalog(os.path.join(home, "teams"), settings, clock),
        notifier or SocketNotifier(home),
        lambda member: executor_for(member, home, opened.workspace),
        registry=lambda: agents.registry.AgentRegistry(home), open_memory=memory_of(home), open_home=connect,
        why_idle=lambda member, *, wholly=False: why_idle(member, home, wholly=wholly),
    )  # fmt: skip
    return opened


def executor_for(
    member: Member, home: str | None = None, workspace_of: Callable[[str], Workspace] | None = None
) -> app.running.Executor:
    """How a member's tasks are carried out; `home` is where the user's own agent profiles are. Workflows are carried
    out where `workspace_of` says how a team is opened.

    Raises:
        AgentError: its agent is unknown, or not installed here.
        ConfigParseError: the user's profiles cannot be read.
    """
    from interlock.runner.executors import AgentExecutor, ShellExecutor

    if member.agent == "shell":
        return ShellExecutor()
    models: Mapping[str, str] = {}
    if member.command and member.agent == "acp":
        found = AgentExecutor(
            agents.acp.agent.AcpAgent(member.name, agents.acp.agent.LaunchSpec(tuple(member.command)))
        )
    elif member.command:
        found = AgentExecutor(agents.command.CommandAgent(member.name, member.command))
    else:
        profile = _profile(member, home)
        models = profile.models
        found = AgentExecutor(agents.registry.agent_of(profile, member.permissions, os.environ), profile.environment)
    if workspace_of is None:
        return found
    from interlock.workflow.executor import WorkflowExecutor

    return WorkflowExecutor(found, workspace_of, memory_of(home) if home is not None else None, models)


def why_idle(member: Member, home: str, *, wholly: bool = False) -> str | None:
    """See `roster.WhyIdle`; None where only trying tells.

    Cheap enough for every look at a team: `executor_for` would load what speaks to agents."""
    if member.agent in (None, "shell") or member.command:
        return None
    try:
        profile = _profile(member, home)
        why = agents.registry.why_not(profile, member.permissions, os.environ)
        return why or (agents.registry.lacks(profile, os.environ) if wholly else None)
    except (AgentError, ConfigParseError) as error:
        return error.message


def memory_of(home: str) -> app.running.OpenMemory:
    """How memory is opened for work on a project: the local file, or Forgetful with the patience that a server needs,
    and what Serena knows beside it, as the settings say."""

    def opened(settings: Settings, project: str, output_folder: str, log: app.running.Log) -> app.running.MemoryStore:
        from interlock.memory.local import LocalMemory

        store: app.running.MemoryStore = LocalMemory(home, SystemClock())
        asks_serena = bool(settings.get("serena_command") or settings.get("serena_url"))
        if settings.get("memory") != "forgetful" and not asks_serena:
            return store
        from interlock.memory.composite import CompositeMemory
        from interlock.memory.forgetful import Forgetful
        from interlock.memory.mcp_server import McpConnection
        from interlock.memory.retrying import RetryingMemory
        from interlock.memory.serena import Serena

        def server(name: str) -> McpConnection:
            url, command = str(settings.get(f"{name}_url")), str(settings.get(f"{name}_command"))
            words = [] if url else words_of(command, f"{name}_command")
            return McpConnection(name.capitalize(), command=words, url=url, directory=project)

        if settings.get("memory") == "forgetful":
            store = RetryingMemory(Forgetful(server("forgetful")), output_folder, SystemClock(), log)
        return CompositeMemory(store, [Serena(server("serena"))], log) if asks_serena else store

    return opened


def _profile(member: Member, home: str | None) -> app.running.Profile:
    profiles = agents.profiles.load(home)
    if member.agent in profiles:
        return profiles[member.agent]
    from difflib import get_close_matches  # slow to load

    near = get_close_matches(str(member.agent), profiles, n=1)
    raise AgentError(
        f"Unknown agent {member.agent!r} for {member.name}."
        f"{f' Did you mean {near[0]!r}?' if near else ''} Available: shell, {', '.join(profiles)}, any program "
        f"(`agent: {{command: [PROGRAM, ARGUMENT, …]}}`, `agent: {{acp: [PROGRAM, …]}}`), and what "
        f"{agents.profiles.FILE} in the home directory of Interlock adds.",
        member=member.name,
        agent=member.agent,
    )
