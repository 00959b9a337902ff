"""Agent programs, whether they work when they are tried, and the memory of projects."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from interlock import app
from interlock.app.base import HomeBase
from interlock.errors import NotAvailable, StorageError
from interlock.storage import files
from interlock.storage.files import locked_directory

CHECKED = "agents-checked.json"
NEEDED = ("session", "prompt", "mcp")
"""Without these a program cannot take part."""

MEMORY_SECONDS = 10.0


class AgentVerbs(HomeBase):
    """What a home knows of agent programs, and of memory."""

    def agents(self) -> list[dict[str, Any]]:
        """Every kind of agent: `{"name", "title", "installed", "how", "path", "version", "install", "own", "tested",
        "guarantees", "checked"}`; `tested` is `checked` (here, see `check_agent`), `proven` (by Interlock's own tests)
        or `untested`.

        Raises:
            ConfigParseError: `agents.toml` cannot be read.
        """
        checked = self._checked()
        return [_shown(offer, checked.get(offer.name)) for offer in self._roster().agents()]

    def check_agent(self, name: str, *, model: str | None = None) -> dict[str, Any]:
        """Try an agent with one small task, which costs a few requests of its model. As in `agents`, with `checked`:
        `{"abilities", "details", "seconds", …}`, and `works`, whether it can take part.

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
            os.makedirs(place, mode=0o700)
            assert self._open_home is not None  # whoever gave us agents did that, too
            with locked_directory(place), self._open_home(place) as home:
                team = home.create_team("agent-check")
                team.spawn(app.running.TRIAL_MEMBER, agent=name)
                task = team.create_task("Check the connection", assignee=app.running.TRIAL_MEMBER)
                tryout = partial(app.running.try_out, home.workspace(team.name), hire, task, home=place, model=model)
                found = app.running.run_async(tryout)
        finally:
            app.running.rmtree(place, ignore_errors=True)
        result = {
            "version": hire.info.version,
            "how": hire.info.how,
            "at": task.created_at,
            "abilities": found.abilities,
            "details": found.details,
            "seconds": found.seconds,
        }
        if found.abilities.get("session"):
            path = os.path.join(self.path, CHECKED)
            try:
                files.replace(path, json.dumps({**self._checked(), name: result}, indent=2).encode() + b"\n")
            except OSError as error:
                raise StorageError(f"{path} cannot be written: {error.strerror}.", path=path) from error
        return {**_shown(hire.info, result), "works": all(found.abilities.get(one) for one in NEEDED)}

    def memory_status(self, directory: str | None = None) -> dict[str, Any]:
        """The state of the memory of the project at that directory (the current one by default), when it is asked:
        `{"kind", "where", "status", "since", "problem", "queued", "queue", "project"}`; `status` is AVAILABLE,
        UNAVAILABLE or PERMANENTLY_UNAVAILABLE."""
        place = app.engine.MemoryPlace.of(directory)
        with closing(self._memory_at(place, [])) as memory:
            return {**memory.condition().as_dict(), "project": place.project}

    def memories(
        self, query: str = "", *, directory: str | None = None, project: str | None = None, limit: int = 20
    ) -> dict[str, Any]:
        """What memory knows about `query`, or without one the latest: `{"project", "source", "stale", "memories":
        [{"id", "title", "content", "importance", "keywords", "tags", "project_id", "created_at", "relevance",
        "linked"}], "problems"}`.

        Raises:
            MemoryUnavailable: the local memory cannot be read.
        """
        place = app.engine.MemoryPlace.of(directory)
        problems: list[str] = []
        with closing(self._memory_at(place, problems)) as memory:
            found = memory.recall(query, project_id=project or place.project, limit=limit, time_limit=MEMORY_SECONDS)
        return {
            "project": project or place.project, "source": found.source, "stale": found.stale,
            "memories": [one.as_dict() for one in found.memories], "problems": problems,
        }  # fmt: skip

    def flush_memory(self, directory: str | None = None) -> dict[str, Any]:
        """Ask memory again, also one that was given up, and hand over what waits for it. As `memory_status`, with
        `handed_over`."""
        place, done = app.engine.MemoryPlace.of(directory), 0
        with closing(self._memory_at(place, [])) as memory:
            try:
                # A batch at a time, as far as it goes.
                while more := memory.flush(MEMORY_SECONDS, again=True):
                    done += more
            except app.running.MemoryUnavailable:
                pass  # the condition says so
            return {**memory.condition().as_dict(), "project": place.project, "handed_over": done}

    def _roster(self) -> app.running.AgentRegistry:
        if self._registry is None:
            raise NotAvailable("This home was opened without agent programs. Open it with `interlock.connect`.")
        return self._registry()

    def _checked(self) -> dict[str, Any]:
        try:
            with open(os.path.join(self.path, CHECKED), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return {}  # It only remembers what the next check finds out again.
        return found if isinstance(found, dict) else {}

    def _memory_at(self, place: app.engine.MemoryPlace, problems: list[str]) -> app.running.MemoryStore:
        if self._open_memory is None:
            raise NotAvailable("This home was opened without memory. Open it with `interlock.connect`.")
        note: Callable[[str, str], None] = lambda reason, operation: problems.append(reason)  # noqa: E731
        return self._open_memory(self._settings, place.root, place.output, note)


def _shown(offer: app.running.AgentInfo, checked: dict[str, Any] | None) -> dict[str, Any]:
    """An agent as `agents` has it. A check of another version, or of another way of starting it, is of no use."""
    if checked is not None and (checked.get("version"), checked.get("how")) != (offer.version, offer.how):
        checked = None
    proven = offer.proven if offer.how == "acp" else ()
    seen: dict[str, bool | None] = checked["abilities"] if checked is not None else {}
    # What could not be seen here may still be known; what failed here does not hold here.
    names = dict.fromkeys([*seen, *proven])
    guarantees = [name for name in names if (name in proven if seen.get(name) is None else seen[name])]
    tested = "checked" if checked is not None else "proven" if proven else "untested"
    told = app.running.asdict(offer)
    del told["proven"]
    return {**told, "installed": offer.how is not None, "tested": tested, "guarantees": guarantees, "checked": checked}
