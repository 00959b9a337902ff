"""What may fail below the clients: nothing for a ledger in a file; otherwise the server, and the way there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random, sample

import psycopg
from psycopg import conninfo

import interlock
import tests.postgres
from tests.history.client import FACES, until

Address = str | tuple[str, int]

KINDS = ("sqlite", "postgres", "pgbouncer", "http")
POOLER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SETTINGS = """
[databases]
postgres = {server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
server_login_retry = 1
server_connect_timeout = 2
logfile = {log}
"""


class Faults:
    """Those of a ledger in a file: there are none but the clients'."""

    own_clock = False
    """Whether clients may have a clock of their own: on one machine they have one."""
    faces: tuple[str, ...] = FACES
    """What clients may use."""
    url: str | None = None
    """Where clients find the home; null where that is their own machine."""
    token = ""

    def prepare(self, home: Path) -> None:
        """Have a home that is not made yet keep its ledgers there."""

    def strike(self, rng: Random) -> str:
        """Let one thing fail; which it was."""
        return "nothing"

    def calm(self) -> None:
        """Let everything work again."""

    @staticmethod
    @contextmanager
    def of(where: str, directory: Path) -> Iterator[Faults]:
        """The faults of a kind of ledger."""
        if where == "sqlite":
            yield Faults()
            return
        with ExitStack() as stack:
            server = tests.postgres.Breakable()
            stack.callback(server.close)
            pooler = Pooler(directory, server) if where == "pgbouncer" else None
            if pooler is not None:
                stack.callback(pooler.end)
            url = server.url if pooler is None else pooler.url
            wire = Wire(address(url))
            stack.callback(wire.close)
            url = conninfo.make_conninfo(url, host="127.0.0.1", port=wire.port)
            if where == "http":
                servers = HttpFaults(directory, server, wire, url)
                stack.callback(servers.close)
                yield servers
            else:
                yield ServerFaults(server, pooler, wire, url)


class ServerFaults(Faults):
    """The server crashes, only reads for a while, or its pooler ends; connections are cut, delayed and silenced."""

    own_clock = True
    often: tuple[str, ...] = ("cut", "lost answers", "delay")

    def __init__(self, server: tests.postgres.Breakable, pooler: Pooler | None, wire: Wire, url: str) -> None:
        self._server = server
        self._pooler = pooler
        self._wire = wire
        self._ledger = url

    def prepare(self, home: Path) -> None:
        home.mkdir(mode=0o700, parents=True)
        settings = {"ledger": self._ledger, "busy_timeout": 5}
        if self._pooler is not None:
            settings["ledger_direct"] = self._server.url
        path = home / "settings.json"
        path.touch(0o600)
        path.write_text(json.dumps(settings))

    def strike(self, rng: Random) -> str:
        faults = self._faults(rng)
        name = rng.choice([*faults, *self.often])
        faults[name]()
        return name

    def _faults(self, rng: Random) -> dict[str, Callable[[], None]]:
        faults: dict[str, Callable[[], None]] = {
            "immediate stop": self._server.crash,
            "stop within recovery": lambda: self._server.crash(again=True),
            "read-only": lambda: self._read_only(rng.uniform(0.1, 1.0)),
            "cut": self._wire.cut,
            "lost answers": self._wire.lose,
            "delay": lambda: self._wire.delay(rng.uniform(0.02, 0.3), rng.uniform(0.3, 1.0)),
            "partition": lambda: self._wire.silence(rng.uniform(0.3, 2.0)),
        }
        if self._pooler is not None:
            faults["pooler restart"] = self._pooler.restart
        return faults

    def calm(self) -> None:
        self._wire.calm()

    def _read_only(self, seconds: float) -> None:
        """What a client sees of a failover: the server only reads, and a moment later one writes again."""
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            connection.execute("SELECT pg_reload_conf()")
            until(lambda: False, seconds)
            connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
            connection.execute("SELECT pg_reload_conf()")


class HttpFaults(ServerFaults):
    """Clients reach two servers of one database, now one and now the other, each of which is killed or suspended."""

    own_clock = False
    faces = ("library",)
    often = ("server kill -9", "server suspend, HTTP cut", "server suspend, all cut", "HTTP cut", "HTTP lost answers")

    def __init__(self, directory: Path, server: tests.postgres.Breakable, wire: Wire, url: str) -> None:
        super().__init__(server, None, wire, url)
        self._homes = [directory / "home", directory / "other"]
        self._running: list[subprocess.Popen[str]] = []
        with ExitStack() as stack:
            free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in self._homes]
            self._ports = [one.getsockname()[1] for one in free]
        self._front = Wire(*(("127.0.0.1", port) for port in self._ports))
        self.url = f"http://127.0.0.1:{self._front.port}"

    def prepare(self, home: Path) -> None:
        for one in self._homes:
            super().prepare(one)
        self._running = [self._start(0), self._start(1)]
        with interlock.connect(str(home)) as found:
            self.token = found.tokens().admin()

    def calm(self) -> None:
        """Let everything work again but the servers: what they were handing over is free."""
        super().calm()
        self._front.calm()
        for one in self._running:
            _kill(one)

    def close(self) -> None:
        self.calm()
        self._front.close()

    def _faults(self, rng: Random) -> dict[str, Callable[[], None]]:
        front = self._front
        return {
            **super()._faults(rng),
            "server kill -9": lambda: self._restart(rng.choice(([0], [1], [0, 1])), rng.uniform(0.0, 2.0)),
            "server suspend": lambda: self._suspend(rng),
            "server suspend, HTTP cut": lambda: self._suspend(rng, front.cut),
            "server suspend, all cut": lambda: self._suspend(rng, front.cut, self._wire.lose),
            "HTTP cut": front.cut,
            "HTTP lost answers": front.lose,
            "HTTP delay": lambda: front.delay(rng.uniform(0.02, 0.3), rng.uniform(0.3, 1.0)),
            "HTTP partition": lambda: front.silence(rng.uniform(0.3, 2.0)),
        }

    def _restart(self, numbers: list[int], seconds: float) -> None:
        for number in numbers:
            _kill(self._running[number])
        until(lambda: False, seconds)
        for number in numbers:
            self._running[number] = self._start(number)

    def _suspend(self, rng: Random, *within: Callable[[], None]) -> None:
        """Suspend a server; what it has received by then, it may do long after it was sent to the other one again."""
        server = rng.choice(self._running)
        server.send_signal(signal.SIGSTOP)
        until(lambda: False, rng.uniform(0.1, 1.0))
        for fault in within:
            fault()
        until(lambda: False, rng.uniform(0.1, 2.0))
        server.send_signal(signal.SIGCONT)

    def _start(self, number: int) -> subprocess.Popen[str]:
        """A server, once it listens: it ends where its ledger is away."""
        home = self._homes[number]
        words = ["--home", str(home), "--json", "up", "--port", str(self._ports[number])]
        for _ in range(20):
            with open(f"{home}.err", "ab") as errors:
                server = subprocess.Popen(
                    [sys.executable, "-m", "interlock", *words], stdout=subprocess.PIPE, stderr=errors, text=True
                )
            assert server.stdout is not None
            if server.stdout.readline():
                return server
            server.communicate()
        raise RuntimeError(Path(f"{home}.err").read_text()[-2000:])


def _kill(server: subprocess.Popen[str]) -> None:
    server.kill()
    if server.stdout is not None and not server.stdout.closed:
        server.communicate()


class Pooler:
    """A PgBouncer of our own before a server."""

    def __init__(self, directory: Path, server: tests.postgres.Breakable) -> None:
        assert POOLER is not None
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._file = directory / "bouncer.ini"
        found = conninfo.conninfo_to_dict(server.url)
        where = conninfo.make_conninfo(host=found["host"], dbname="postgres", port=found.get("port", "5432"))
        self._file.write_text(SETTINGS.format(server=where, port=port, log=directory / "bouncer.log"))
        (directory / "bouncer.log").touch()
        (directory / "bouncer.log").chmod(0o666)
        directory.chmod(0o755)
        self.url = conninfo.make_conninfo(host="127.0.0.1", port=port, user="postgres", dbname="postgres")
        self._user = server.user
        self._start()

    def _start(self) -> None:
        as_somebody = ["runuser", "-u", self._user, "--"] if self._user is not None else []
        self._process = subprocess.Popen(
            [*as_somebody, str(POOLER), "-q", str(self._file)], start_new_session=True, stderr=subprocess.DEVNULL
        )

    def restart(self) -> None:
        """End it at once, and start it again."""
        self.end()
        self._start()

    def end(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def address(url: str) -> Address:
    """Where the server of a URL listens."""
    found = conninfo.conninfo_to_dict(url)
    host, port = str(found.get("host", "localhost")), int(found.get("port") or 5432)
    return f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)


class Wire:
    """Between the clients and a server, or any of several: it can be cut, be slow, be silent, and lose answers."""

    def __init__(self, *there: Address) -> None:
        self._there = there
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self._listening.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._late = 0.0
        self._losing: set[socket.socket] = set()
        self._sounds = threading.Event()
        self._sounds.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()
        self.cut()

    def calm(self) -> None:
        self._late = 0.0
        self._losing.clear()
        self._sounds.set()

    def cut(self) -> None:
        """Every connection is lost at once, in the middle of whatever it carries."""
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def lose(self) -> None:
        """What the server says next on any connection is lost, and the connection with it."""
        self._losing = set(self._open)

    def delay(self, by: float, seconds: float) -> None:
        """Everything takes longer for a while."""
        self._late = by
        until(lambda: False, seconds)
        self._late = 0.0

    def silence(self, seconds: float) -> None:
        """Nothing comes through for a while, and then the connections are lost."""
        self._sounds.clear()
        until(lambda: False, seconds)
        self.cut()
        self._sounds.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                for where in sample(self._there, len(self._there)):
                    there = socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET)
                    try:
                        there.connect(where)
                        break
                    except OSError:
                        there.close()
                else:
                    here.close()
                    continue
                for one in (here, there):
                    if one.family != socket.AF_UNIX:
                        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for ends in ((here, there, False), (there, here, True)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        self._open.add(source)
        with suppress(OSError):
            while data := source.recv(65536):
                if answers and source in self._losing:
                    break
                self._sounds.wait()
                if self._late:
                    until(lambda: False, self._late)
                target.sendall(data)
        self._open.discard(source)
        self._losing.discard(source)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
