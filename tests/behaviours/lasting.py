"""Teams whose agents play scripts in this process, with sessions that last, and a runner in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interlock.agents.scripted import Script, ScriptedAgent
from interlock.agents.session import Opening, Update
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import SystemClock
from interlock.model.driving import Stop
from interlock.model.event import Event
from interlock.model.team import Member
from interlock.runner.executors import AgentExecutor
from interlock.settings import Settings
from interlock.storage.sqlite.catalog import SqliteCatalog
from interlock.wakeup.inprocess import InProcessNotifier
from tests.behaviours.driving import Place, follow
from tests.waiting import until

Plays = Mapping[str, Script | Sequence[Script]]


def play(place: Place, plays: Plays, *, resumable: bool = False) -> dict[str, Any]:
    """Let the members of these names play; the members of a plan."""
    agents = {name: ScriptedAgent(name, script, resumable=resumable) for name, script in plays.items()}

    def executor_for(member: Member) -> AgentExecutor:
        return AgentExecutor(agents[member.name])

    settings = Settings({})
    catalog = SqliteCatalog(str(place.path / "home" / "teams"), settings, SystemClock())
    place.home = Home(  # type: ignore[assignment]
        str(place.path / "home"), settings, SystemClock(), catalog, InProcessNotifier(), executor_for
    )
    return {name: {"agent": {"acp": ["true"]}} for name in plays}


def me(place: Place, opening: Opening) -> Team:
    """The team as that session sees it, by its own tools."""
    return place.team.acting(opening.member, session=opening.session_id, face="mcp")


class Driven:
    """A runner in a thread."""

    def __init__(self, place: Place, options: dict[str, Any]) -> None:
        self.stop = Stop()
        self.reason: str | None = None
        self.said: list[tuple[str, str, Update]] = []
        self._place = place
        self._options = options
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._drive)
        self._thread.start()

    def _drive(self) -> None:
        def hear(update: Update) -> None:
            self.said.append((update.member, update.task_id, update))

        try:
            self.reason = self._place.home.drive("crew", stop=self.stop, on_update=hear, **self._options)
        except BaseException as error:
            self._failure = error

    def ended(self) -> str:
        """Wait for its own end; why it ended."""
        self._thread.join(200)
        assert not self._thread.is_alive(), "it goes on"
        if self._failure is not None:
            raise self._failure
        return str(self.reason)


@contextmanager
def driven(place: Place, **options: Any) -> Iterator[Driven]:
    """A runner beside the test, ended with it."""
    made = Driven(place, options)
    try:
        yield made
    finally:
        made.stop.request("the test is over", now=True)
        made._thread.join(60)


def event(place: Place, type: str, **payload: Any) -> Event:
    """Wait for the first event of that type with these values."""
    return follow(place.team, lambda one: one.type == type and all(one.payload.get(k) == v for k, v in payload.items()))


def events(place: Place, *types: str) -> list[Event]:
    """Those of the history so far."""
    return [one for one in place.team.events()[0] if one.type in types]


def stage_of(place: Place, id: str) -> str:
    """How far that message has come."""
    return next(one.stage for one in place.team.history() if one.id == id)


def settled(place: Place, key: str, state: str) -> None:
    """Wait until the task is in that state."""
    until(lambda: place.task(key).state == state)


__all__ = ["Driven", "Path", "driven", "event", "events", "me", "play", "settled", "stage_of"]
