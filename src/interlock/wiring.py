"""The composition root: the only module that names implementations, the heavy ones when first needed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from interlock import agents, app
from interlock.app.home import SETTINGS_FILE, Home
from interlock.app.team import Team
from interlock.clock import Clock, SystemClock
from interlock.core.unit_of_work import Workspace
from interlock.errors import AgentError, ConfigParseError, InvalidRequest
from interlock.model.names import LOGIN_FILE, WORK
from interlock.model.program import program
from interlock.model.team import Member
from interlock.processes import ancestry
from interlock.settings import Settings, SettingsFile
from interlock.storage.catalog import Catalog
from interlock.storage.sqlite.catalog import SqliteCatalog
from interlock.wakeup.notifier import Notifier
from interlock.wakeup.socket import SocketNotifier

if TYPE_CHECKING:
    from interlock.runner.executors import AgentExecutor


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}:(?=//)|https?:(?=/)", re.IGNORECASE)
"""The scheme of what is meant as an address, well written or not."""


def home_path(path: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Where teams are kept: `path`, `INTERLOCK_HOME`, or `~/.interlock`, as an absolute path.

    Raises:
        InvalidRequest: that is an address, or holds NUL.
    """
    environment = os.environ if environment is None else environment
    place = path or environment.get("INTERLOCK_HOME") or "~/.interlock"
    if "\0" in place:
        raise InvalidRequest("The path of a home must not contain NUL.", field="home")
    if _ADDRESS.match(place):
        raise InvalidRequest(f"{_hidden(place)} is no directory. INTERLOCK_URL names a server.", field="home")
    return os.path.abspath(os.path.expanduser(place))


def _is_server(address: str) -> bool:
    """Whether a home is at the server of that address, and not in a directory.

    Raises:
        InvalidRequest: it has the form of an address, and is none of a server.
    """
    scheme = _ADDRESS.match(address)
    if scheme is None:
        return False
    if re.match("https?://[^/]", address, re.IGNORECASE):
        return True
    remedy = "A server's begins with http:// or https://."
    if scheme[0].lower() in ("postgres:", "postgresql:"):
        remedy = "A database is named by INTERLOCK_LEDGER, or the setting ledger."
    raise InvalidRequest(f"{_hidden(address)} is no address of a home. {remedy}", field="path")


def _hidden(address: str) -> str:
    """An address for a message, without what may be a password in it."""
    return re.sub("//[^/]*@", "//…@", address)[:200]


def connect(
    path: str | os.PathLike[str] | None = None,
    token: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    notifier: Notifier | None = None,
) -> Home:
    """Open a home; nothing is written before the first verb that needs it.

    Args:
        path: the directory, or the address of the server of a home elsewhere; by default `INTERLOCK_URL`, or
            `INTERLOCK_HOME` or `~/.interlock`, or the server that `interlock login` remembers there.
        token: for a server; by default `INTERLOCK_TOKEN`, or the one that `interlock login` keeps for that address.
        environment: where `INTERLOCK_*` overrides are read from; the process's own by default.
        clock: time and ids; the system's by default.
        notifier: how waiters are woken; sockets in the runtime directory by default.

    Raises:
        ConfigParseError: `settings.json` cannot be read.
        InvalidRequest: that is no address, or no path.
    """
    variables = os.environ if environment is None else environment
    path = None if path is None else os.fspath(path)
    url = path or variables.get("INTERLOCK_URL") or ""
    token = token or variables.get("INTERLOCK_TOKEN") or None
    elsewhere = _is_server(url)
    if url and path is None and not elsewhere:
        raise InvalidRequest(
            f"INTERLOCK_URL is {_hidden(url)!r}, no address of a server: that begins with http:// or https://.",
            field="path",
        )
    home = home_path(None if elsewhere else path, environment)
    # A run on this machine belongs to a home of this machine, and a person's token is none of its business.
    asks = not url or (elsewhere and token is None)
    if asks and ancestry.RUN_TOKEN not in variables and os.path.exists(os.path.join(home, LOGIN_FILE)):
        login = app.tokens.login_of(home)
        if login is not None and url.rstrip("/") in ("", login.url):
            url, token, elsewhere = login.url, login.token, True
    if elsewhere:
        from interlock.remote.home import RemoteHome

        return RemoteHome(url, token, home)
    settings = Settings(SettingsFile(os.path.join(home, SETTINGS_FILE)), None, environment)
    clock = clock or SystemClock()

    catalog, wakes = ledgers_of(home, settings, clock)
    opened = Home(
        home, settings, clock, catalog, notifier or wakes,
        lambda member: executor_for(member, home, opened.workspace),
        registry=lambda: agents.registry.AgentRegistry(home), open_memory=memory_of(home), open_home=connect,
        why_idle=lambda member, *, wholly=False: why_idle(member, home, wholly=wholly),
    )  # fmt: skip
    return opened


def work(
    team: Team,
    *,
    home: str | os.PathLike[str] | None = None,
    name: str | None = None,
    labels: Sequence[str] = (),
    members: Sequence[str] | None = None,
    parallel: int = 1,
    beat: float = 1.0,
    stop: app.running.Stop | None = None,
    on_update: Callable[[app.running.Update], None] = lambda update: None,
) -> str:
    """Do the tasks of a team whose home is elsewhere, with the agents that are here, until stopped or drained.

    Args:
        home: the directory of this machine's own home, which holds the clones; as in `connect`.
        name: under which it is listed; the machine's by default.
        labels: what it offers to tasks that ask for it.
        members: the only members it works for.
        parallel: how many runs at once; `machine_parallel` of that home bounds those of all that work in it so.
        beat: seconds between two beats, at least.

    Returns:
        Why it ended.

    Raises:
        InvalidRequest: the team does not work in worktrees, or the name or a label is none.
        Forbidden: this process belongs to a run, or may not work for that team.
    """
    from interlock.remote.worker import RemoteWorker, WorkerOptions

    place = home_path(None if home is None else os.fspath(home))
    with connect(place) as own:
        own.need_person("work for a team")
        shared = next(one.value for one in own.settings() if one.name == "machine_parallel")
    options = WorkerOptions(
        directory=os.path.join(place, WORK), name=name, labels=labels, members=members, parallel=parallel,
        shared_parallel=shared, beat=beat,
    )  # fmt: skip
    hire = partial(executor_for, home=place)
    worker = RemoteWorker(team, hire, options, stop=stop or app.running.Stop(), on_update=on_update)
    return app.running.run_async(worker.work)


def ledgers_of(home: str, settings: Settings, clock: Clock) -> tuple[Catalog, Notifier]:
    """The ledgers of the home, where the setting `ledger` says, and what wakes those who wait for them.

    Raises:
        InvalidRequest: what a PostgreSQL ledger needs is not installed.
        StorageError: the setting is no address.
    """
    url, root = str(settings.get("ledger")), os.path.join(home, "teams")
    if not url:
        return SqliteCatalog(root, settings, clock), SocketNotifier(home)
    try:
        from interlock.storage.postgres.catalog import PostgresCatalog
    except ImportError as error:
        raise InvalidRequest(
            "The setting ledger names a PostgreSQL server, and what speaks to one is not installed: "
            f"pip install 'interlock-agents[postgres]' ({error}).",
            field="ledger",
        ) from error
    catalog = PostgresCatalog(url, root, settings, clock)
    if not settings.get("ledger_notices"):
        return catalog, SocketNotifier(home)
    from interlock.wakeup.relay import RelayNotifier

    return catalog, RelayNotifier(home, catalog.notices)


def executor_for(
    member: Member, home: str | None = None, workspace_of: Callable[[str], Workspace] | None = None
) -> app.running.Executor:
    """How a member's tasks are carried out; `home` is where the user's own agent profiles are. Workflows are carried
    out where `workspace_of` says how a team is opened.

    Raises:
        AgentError: its agent is unknown, or not installed here.
        ConfigParseError: the user's profiles cannot be read.
    """
    if member.agent == "shell":
        from interlock.runner.executors import ShellExecutor

        return ShellExecutor()
    found, models = _hired(member, home)
    if workspace_of is None:
        return found
    from interlock.workflow.executor import WorkflowExecutor

    def hire(named: str) -> tuple[AgentExecutor, Mapping[str, str]]:
        agent, command = program(named, "It")
        return _hired(replace(member, agent=agent, command=command), home)

    return WorkflowExecutor(found, workspace_of, memory_of(home) if home is not None else None, models, hire)


def _hired(member: Member, home: str | None) -> tuple[AgentExecutor, Mapping[str, str]]:
    """What carries out tasks by the member's agent, and what its program calls the classes of models."""
    from interlock.runner.executors import AgentExecutor

    if member.command:
        return AgentExecutor(agents.registry.own_agent(member)), {}
    profile = _profile(member, home)
    agent = agents.registry.agent_of(profile, member.permissions, os.environ)
    return AgentExecutor(agent, profile.environment), profile.models


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
    """How memory is opened for work on a project."""

    def opened(settings: Settings, project: str, output_folder: str, log: app.running.Log) -> app.running.MemoryStore:
        from interlock.memory.composite import open_memory

        return open_memory(home, settings, project, output_folder, log)

    return opened


def _profile(member: Member, home: str | None) -> app.running.Profile:
    profiles = agents.profiles.load(home)
    if member.agent in profiles:
        return profiles[member.agent]
    from difflib import get_close_matches  # slow to load

    near = get_close_matches(str(member.agent), ["shell", *profiles], n=1)
    known = [one.name for one in profiles.values() if not one.listed]
    raise AgentError(
        f"Unknown agent {member.agent!r} for {member.name}."
        f"{f' Did you mean {near[0]!r}?' if near else ''} Available: shell, {', '.join(known)}, any program "
        f"(`agent: {{command: [PROGRAM, ARGUMENT, …]}}`, `agent: {{acp: [PROGRAM, …]}}`), and what "
        f"{agents.profiles.FILE} in the home directory of Interlock adds.",
        member=member.name,
        agent=member.agent,
    )
