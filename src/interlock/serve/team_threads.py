"""Every team of a home is served. A team with agents has a thread of its own, as in `interlock work`, started when it
gets its first agent; for all others one loop recovers abandoned work. A team where nothing is open costs that loop one
look at its head."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import field

from interlock.app.home import Home
from interlock.app.runs import TeamRecovery
from interlock.errors import InterlockError
from interlock.lazy_dataclass import dataclass
from interlock.model.driving import Stop

LOOK_AGAIN = 1.0
"""Seconds between two looks for what has changed."""
REST = 5.0
"""Seconds between two looks at one team, at least: at what is open in it, or whether its agents can work now."""
REFUSED = 30.0
"""Seconds after which one is tried again in whose team nothing happened: an agent may have been installed."""

log = logging.getLogger("interlock.serve")


@dataclass(slots=True)
class TeamThread:
    """One team's thread."""

    thread: threading.Thread
    stop: Stop = field(default_factory=Stop)


@dataclass(slots=True)
class TeamWatch:
    """What is known of a team that has no thread."""

    head: int = -1
    due: float = 0.0
    """When to look again, by the monotonic clock."""
    recovery: TeamRecovery | None = None
    rests: bool = False
    """Whether nothing can be taken up before the head moves."""


class TeamThreads:
    """All of them. `start` begins, `stop` asks them to end at once, `join` waits for that."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._share = home.machine_share()
        self._threads: dict[str, TeamThread] = {}
        self._watches: dict[str, TeamWatch] = {}
        self._refused: dict[str, tuple[str, float]] = {}  # why a team was last not worked on, and when
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="teams", daemon=True)

    def start(self) -> None:
        """Look for teams, from now on."""
        self._supervisor.start()

    def stop(self) -> None:
        """End everything that runs, now. Returns at once."""
        self._ending.set()
        with self._lock:
            for one in self._threads.values():
                one.stop.request("the server ends", now=True)

    def join(self, seconds: float) -> bool:
        """Wait so long for all to end; whether they did."""
        deadline = time.monotonic() + seconds
        for thread in [self._supervisor, *(one.thread for one in list(self._threads.values()))]:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        return not any(one.thread.is_alive() for one in list(self._threads.values()))

    def teams(self) -> list[str]:
        """The teams that are driven here."""
        return sorted(name for name, one in list(self._threads.items()) if one.thread.is_alive())

    def _supervise(self) -> None:
        while not self._ending.is_set():
            try:
                names = self._home.teams()
                for name in names:
                    if not self._ending.is_set():
                        self._look_at(name)
                for gone in (self._watches.keys() | self._threads.keys()) - set(names):
                    self._watches.pop(gone, None)
                    self._refused.pop(gone, None)
                    if gone in self._threads and not self._threads[gone].thread.is_alive():
                        del self._threads[gone]
            except InterlockError as error:
                log.warning("cannot list teams: %s", error.message)
            self._ending.wait(LOOK_AGAIN)

    def _look_at(self, name: str) -> None:
        running = self._threads.get(name)
        if running is not None and running.thread.is_alive():
            self._watches.pop(name, None)  # It takes up everything itself.
            return
        watch = self._watches.setdefault(name, TeamWatch())
        if time.monotonic() < watch.due:
            return
        try:
            team = self._home.team(name)
            head = team.head()
            changed, refused = head != watch.head, self._refused.get(name)
            if not changed and watch.rests and refused is None:
                return
            watch.head, watch.due = head, time.monotonic() + REST
            # Only a team in which something happened may have got an agent.
            again = changed or (refused is not None and time.monotonic() > refused[1] + REFUSED)
            manned = again and any(member.agent and member.role == "member" for member in team.members())
            left = (refused is not None or not manned) and self._take_up(name, watch)
            if manned or (left and (again or refused is None)):
                self._begin(name, idle=not manned)
        except InterlockError as error:
            watch.recovery = None  # Deleted this instant, perhaps made again; or busy.
            log.debug("%s: trying again later: %s", name, error.message)
        except Exception:  # boundary: one team's fault must not end what is done for the others
            watch.due = time.monotonic() + REFUSED
            log.exception("abandoned work of %s is not recovered", name)

    def _take_up(self, name: str, watch: TeamWatch) -> bool:
        """Take up what nobody works on in a team without agents; whether there are checks or merges to do, which take
        as long as they take, and may have to be stopped: its agents do those."""
        recovery = watch.recovery = watch.recovery or self._home.recovery(name, interval=REST)
        recovery.poll()
        watch.rests = recovery.rests
        return not watch.rests and recovery.left

    def _begin(self, name: str, *, idle: bool) -> None:
        with self._lock:
            if not self._ending.is_set():
                thread = threading.Thread(target=self._drive, args=(name, idle), name=f"team:{name}", daemon=True)
                self._threads[name] = TeamThread(thread)
                thread.start()

    def _drive(self, name: str, idle: bool) -> None:
        try:
            stop = self._threads[name].stop
            self._home.drive(name, stop=stop, endless=True, shared=True, idle=idle, share=self._share)
            self._refused.pop(name, None)
        except InterlockError as error:
            if self._refused.get(name, ("", 0.0))[0] != error.message:  # Once: `interlock status` goes on saying so.
                log.warning("team %s is skipped: %s", name, error.message)
            self._refused[name] = error.message, time.monotonic()
        except Exception:  # boundary: one team's fault must not end the others' work
            log.exception("team %s is skipped", name)
