"""What may fail below the clients: nothing for a ledger in a file; otherwise the server, and the way there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import psycopg
from psycopg import conninfo

import tests.postgres
from tests.history.client import until

KINDS = ("sqlite", "postgres", "pgbouncer")
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
            wire = Wire(server.url if pooler is None else pooler.url)
            stack.callback(wire.close)
            yield ServerFaults(server, pooler, wire)


class ServerFaults(Faults):
    """The server crashes, only reads for a while, or its pooler ends; connections are cut, delayed and silenced."""

    own_clock = True

    def __init__(self, server: tests.postgres.Breakable, pooler: Pooler | None, wire: Wire) -> None:
        self._server = server
        self._pooler = pooler
        self._wire = wire

    def prepare(self, home: Path) -> None:
        home.mkdir(mode=0o700, parents=True)
        settings = {"ledger": self._wire.url, "busy_timeout": 5}
        if self._pooler is not None:
            settings["ledger_direct"] = self._server.url
        path = home / "settings.json"
        path.touch(0o600)
        path.write_text(json.dumps(settings))

    def strike(self, rng: Random) -> str:
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
        name = rng.choice([*faults, "cut", "lost answers", "delay"])
        faults[name]()
        return name

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


class Wire:
    """Between the clients and the server: it can be cut, be slow, be silent, and lose answers."""

    def __init__(self, url: str) -> None:
        found = conninfo.conninfo_to_dict(url)
        host, port = str(found.get("host", "localhost")), int(found.get("port") or 5432)
        self._there = f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.url = conninfo.make_conninfo(url, host="127.0.0.1", port=self._listening.getsockname()[1])
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
                there = socket.socket(socket.AF_UNIX if isinstance(self._there, str) else socket.AF_INET)
                try:
                    there.connect(self._there)
                except OSError:
                    here.close()
                    there.close()
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
