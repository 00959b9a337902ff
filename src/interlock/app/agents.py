"""Agent programs, whether they work when they are tried, and the memory of projects."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from functools import partial

from interlock import agents as programs
from interlock import app
from interlock.app.base import HomeBase
from interlock.errors import NotAvailable, StorageError
from interlock.storage import files
from interlock.storage.files import locked_directory

CHECKED = "agents-checked.json"

MEMORY_SECONDS = 10.0


class AgentVerbs(HomeBase):
    """What a home knows of agent programs, and of memory."""

    def agents(self) -> list[programs.registry.AgentSummary]:
        """Every kind of agent.

        Raises:
            ConfigParseError: `agents.toml` cannot be read.
        """
        checked = self._checked()
        return [_summary(info, checked.get(info.name)) for info in self._roster().agents()]

    def installed_agents(self) -> list[str]:
        """What can drive a member on this machine: the installed agent programs, then `shell`.

        Raises:
            ConfigParseError: `agents.toml` cannot be read.
        """
        return [*self._roster().installed(), "shell"]

    def agent_registry(self, source: str | None = None) -> list[programs.registry.AgentSummary]:
        """The agents of the ACP registry that there are for this machine, from the home's copy of it. With `source`,
        its file or its address, that is the copy from now on; nothing else ever fetches it.

        Raises:
            ConfigParseError: that is no registry; the copy that there was stays.
            NotFound, InvalidRequest: it cannot be read from there.
            StorageError: it cannot be kept.
        """
        if source is not None:
            self.need_person("take a registry of agents")
            self._roster().take(source)
        return [one for one in self.agents() if one.info.listed]

    def check_agent(self, name: str, *, model: str | None = None) -> programs.registry.AgentSummary:
        """Try an agent with one small task, which costs a few requests of its model.

        Raises:
            AgentError: it is unknown, or not installed.
            ConfigParseError: `agents.toml` cannot be read.
        """
        self.need_person("check an agent")
        hire = self._roster().agent(name)
        for left in app.running.abandoned(self.path, (app.running.CHECKING,)):
            app.running.rmtree(left, ignore_errors=True)
        # In a home of its own: nobody else works on its team, and what a kill leaves of it is no team of this one.
        place = os.path.join(self.path, f"{app.running.CHECKING}{os.urandom(3).hex()}")
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)  # `makedirs` would give it to all.
            os.mkdir(place, 0o700)
            assert self._open_home is not None  # whoever gave us agents did that, too
            with locked_directory(place), self._open_home(place) as home:
                team = home.create_team("agent-check")
                team.spawn(app.running.TRIAL_MEMBER, agent=name)
                task = team.create_task("Check the connection", assignee=app.running.TRIAL_MEMBER)
                tryout = partial(app.running.try_out, home.workspace(team.name), hire, task, home=place, model=model)
                found = app.running.run_async(tryout)
        finally:
            app.running.rmtree(place, ignore_errors=True)
        info = hire.info
        result = programs.registry.CheckedAgent(
            info.version, info.how, task.created_at, found.abilities, found.details, found.seconds, info.adapter
        )
        if found.abilities.get("session"):
            path = os.path.join(self.path, CHECKED)
            known = {one: asdict(kept) for one, kept in {**self._checked(), name: result}.items()}
            try:
                files.replace(path, json.dumps(known, indent=2).encode() + b"\n")
            except OSError as error:
                raise StorageError(f"{path} cannot be written: {error.strerror}.", path=path) from error
        return _summary(info, result)

    def memory_status(self, directory: str | None = None) -> app.engine.MemoryStatus:
        """Ask the memory of the project at that directory (the current one by default) how it is."""
        place = app.engine.MemoryPlace.of(directory)
        with closing(self._memory_at(place, [])) as memory:
            return app.engine.MemoryStatus(memory.condition(), place.project)

    def memories(
        self, query: str = "", *, directory: str | None = None, project: str | None = None, limit: int = 20
    ) -> app.engine.ProjectMemories:
        """What memory knows about `query`, or without one the latest.

        Raises:
            MemoryUnavailable: the local memory cannot be read.
        """
        place = app.engine.MemoryPlace.of(directory)
        problems: list[str] = []
        with closing(self._memory_at(place, problems)) as memory:
            found = memory.recall(query, project_id=project or place.project, limit=limit, time_limit=MEMORY_SECONDS)
        return app.engine.ProjectMemories(project or place.project, found, problems)

    def flush_memory(self, directory: str | None = None) -> app.engine.MemoryStatus:
        """Ask memory again, also one that was given up, and hand over what waits for it."""
        place, done = app.engine.MemoryPlace.of(directory), 0
        with closing(self._memory_at(place, [])) as memory:
            try:
                # A batch at a time, as far as it goes.
                while more := memory.flush(MEMORY_SECONDS, again=True):
                    done += more
            except app.running.MemoryUnavailable:
                pass  # the condition says so
            return app.engine.MemoryStatus(memory.condition(), place.project, done)

    def _roster(self) -> app.running.AgentRegistry:
        if self._registry is None:
            raise NotAvailable("This home was opened without agent programs. Open it with `interlock.connect`.")
        return self._registry()

    def _checked(self) -> dict[str, programs.registry.CheckedAgent]:
        try:
            with open(os.path.join(self.path, CHECKED), encoding="utf-8") as file:
                return {name: programs.registry.CheckedAgent(**one) for name, one in json.load(file).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}  # It only remembers what the next check finds out again.

    def _memory_at(self, place: app.engine.MemoryPlace, problems: list[str]) -> app.running.MemoryStore:
        if self._open_memory is None:
            raise NotAvailable("This home was opened without memory. Open it with `interlock.connect`.")
        note: Callable[[str, str], None] = lambda reason, operation: problems.append(reason)  # noqa: E731
        return self._open_memory(self._settings, place.root, place.output, note)


def _summary(
    info: app.running.AgentInfo, checked: programs.registry.CheckedAgent | None
) -> programs.registry.AgentSummary:
    """An agent with what is known of it. A check of another version, or of another way of starting it, is of no use."""
    if checked is not None and (checked.version, checked.how, checked.adapter) != (
        info.version,
        info.how,
        info.adapter,
    ):
        checked = None
    proven = info.proven if info.how == "acp" else ()
    seen = checked.abilities if checked is not None else {}
    # What could not be seen here may still be known; what failed here does not hold here.
    names = dict.fromkeys([*seen, *proven])
    guarantees = [name for name in names if (name in proven if seen.get(name) is None else seen[name])]
    tested = "checked" if checked is not None else "proven" if proven else "untested"
    return programs.registry.AgentSummary(info, checked, tested, guarantees)
