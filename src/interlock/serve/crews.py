"""Every team with agents at work: one thread each, as `interlock work` does, begun when a team gets its first agent."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field

from interlock.client import Home
from interlock.errors import InterlockError
from interlock.runner.stop import Stop

LOOK_AGAIN = 1.0
"""Seconds between two looks for teams with agents."""
REST = 5.0
"""Seconds before a crew that could not work is begun again, at the earliest."""
REFUSED = 30.0
"""Seconds after which one is tried again in whose team nothing happened: an agent may have been installed."""

log = logging.getLogger("interlock.serve")


@dataclass(slots=True)
class Crew:
    """One team's thread."""

    thread: threading.Thread
    stop: Stop = field(default_factory=Stop)


class Crews:
    """All of them. `start` begins, `stop` asks them to end at once, `join` waits for that."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._crews: dict[str, Crew] = {}
        self._looked: dict[str, tuple[int, float]] = {}
        self._refused: dict[str, str] = {}  # why a team was last not worked on
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="crews", daemon=True)

    def start(self) -> None:
        """Look for teams, from now on."""
        self._supervisor.start()

    def stop(self) -> None:
        """End everything that runs, now. Returns at once."""
        self._ending.set()
        with self._lock:
            for crew in self._crews.values():
                crew.stop.request("the server ends", now=True)

    def join(self, seconds: float) -> bool:
        """Wait so long for all to end; whether they did."""
        deadline = time.monotonic() + seconds
        for thread in [self._supervisor, *(crew.thread for crew in list(self._crews.values()))]:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        return not any(crew.thread.is_alive() for crew in list(self._crews.values()))

    def teams(self) -> list[str]:
        """The teams that are driven here."""
        return sorted(name for name, crew in list(self._crews.items()) if crew.thread.is_alive())

    def _supervise(self) -> None:
        while not self._ending.is_set():
            try:
                names = self._home.teams()
                for name in names:
                    if not self._ending.is_set():
                        self._look_at(name)
                for gone in self._looked.keys() - set(names):
                    del self._looked[gone]
                    self._refused.pop(gone, None)
            except InterlockError as error:
                log.warning("teams cannot be listed: %s", error.message)
            self._ending.wait(LOOK_AGAIN)

    def _look_at(self, name: str) -> None:
        crew = self._crews.get(name)
        if crew is not None and crew.thread.is_alive():
            return
        try:
            team = self._home.team(name)
            seen, at = self._looked.get(name, (-1, 0.0))
            # Only a team in which something happened may have got an agent.
            head = team.head()
            again = name in self._refused and time.monotonic() > at + REFUSED
            if (head == seen and not again) or time.monotonic() < at:
                return
            wanted = any(member.agent and member.role == "member" for member in team.members())
        except InterlockError:
            return  # Deleted this instant, or busy.
        self._looked[name] = (head, time.monotonic() + REST)
        if wanted:
            with self._lock:
                if not self._ending.is_set():
                    made = Crew(threading.Thread(target=self._drive, args=(name,), name=f"crew:{name}", daemon=True))
                    self._crews[name] = made
                    made.thread.start()

    def _drive(self, name: str) -> None:
        try:
            self._home.drive(name, stop=self._crews[name].stop, endless=True, shared=True)
            self._refused.pop(name, None)
        except InterlockError as error:
            if self._refused.get(name) != error.message:  # Once is enough: `interlock status` goes on saying so.
                log.warning("%s is not worked on: %s", name, error.message)
            self._refused[name] = error.message
        except Exception:  # boundary: one team's fault must not end the others' work
            log.exception("%s is not worked on", name)
