"""One server serves a home at a time. It holds a lock for as long as its process lives, however that ends.

<home>/.server.lock   locked by the server
<home>/server.json    {"process", "url", "started_at"} of the server, while it listens
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import webbrowser
from contextlib import suppress
from html import escape
from urllib.parse import urlsplit

from interlock.app.tokens import Tokens
from interlock.clock import SystemClock, iso
from interlock.errors import InvalidRequest, ServerAlive, ServerNotFound, StorageError
from interlock.lazy_dataclass import dataclass
from interlock.processes import ref
from interlock.storage import files

FILE = "server.json"
LOCK = ".server.lock"
NAME_SERVICES = "/etc/nsswitch.conf"
"""How a machine finds hosts."""
OPENER = "open.html"
"""A file of this user alone that leads a browser to its link: arguments of programs can be read by everybody."""
BROWSER_SECONDS = 20.0
END_SECONDS = 5.0
"""Seconds a server gets to end everything; it needs less than two."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server listens, and which process it is."""

    url: str
    process: ref.ProcessRef


class ServerLock:
    """The right to serve a home, held in a `with` block."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._lock = -1

    def __enter__(self) -> ServerLock:
        """Take it.

        Raises:
            ServerAlive: another process has it; `url` is its address.
            StorageError: the home cannot be written.
        """
        try:
            os.makedirs(self._home, mode=0o700, exist_ok=True)
            self._lock = os.open(os.path.join(self._home, LOCK), os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError as error:
            raise StorageError(f"{self._home} cannot be served: {error}.", path=self._home) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise self._alive(find(self._home)) from None
        self._forget()
        return self

    def announce(self, url: str) -> None:
        """Say where we listen.

        Raises:
            StorageError: the file cannot be written.
        """
        found = {"process": ref.current().as_text(), "url": url, "started_at": iso(SystemClock().now())}
        path = os.path.join(self._home, FILE)
        try:
            files.replace(path, (json.dumps(found) + "\n").encode())
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error}.", path=path) from error

    def __exit__(self, *_: object) -> None:
        self._forget()
        os.close(self._lock)

    def _alive(self, server: ServerAddress | None) -> ServerAlive:
        if server is None:
            return ServerAlive(f"Another `interlock up` is starting or ending for {self._home}. Try again.", url=None)
        return ServerAlive(
            f"This home is already served at {server.url} (process {server.process.pid}). `interlock open` makes a "
            "link to it; `interlock down` ends it.",
            url=server.url,
        )

    def _forget(self) -> None:
        with suppress(OSError):  # None was announced, or the home is gone; what stays names a dead process.
            os.unlink(os.path.join(self._home, FILE))


def page_at(url: str, tokens: Tokens) -> str:
    """The address of the page: under its own host name where this machine knows that such names are its own.

    A browser then sends the page's cookie to no other port of 127.0.0.1. Asking would send the name to a name server.
    """
    parts = urlsplit(url)
    if parts.hostname not in ("127.0.0.1", "::1"):
        return url
    try:
        with open(NAME_SERVICES, encoding="utf-8") as file:
            own = any(line.startswith("hosts:") and {"myhostname", "resolve"} & {*line.split()} for line in file)
    except OSError:
        own = False
    return f"http://{tokens.page_host}:{parts.port}" if own else url


def page(home: str, tokens: Tokens) -> str | None:
    """The address of the page of a home, None while no server runs."""
    server = find(home)
    return None if server is None else page_at(server.url, tokens)


def link_to(url: str, tokens: Tokens) -> str:
    """A fresh link to the page, good for one browser."""
    return f"{page_at(url, tokens)}/open/{tokens.new_code()}"


def open_in_browser(home: str, link: str) -> bool:
    """Lead this user's browser to a link, without showing it to others on this machine; False where that failed.

    Raises:
        OSError: the home cannot be written.
    """
    path = os.path.join(home, OPENER)
    page = f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(link)}"><title>Interlock</title>'
    files.replace(path, page.encode())
    try:
        webbrowser.get()
        # By a program that ends at once, so that the browser is no child of ours, which would end with us.
        argv = [sys.executable, "-m", "webbrowser", f"file://{path}"]
        nothing = subprocess.DEVNULL
        subprocess.run(argv, stdin=nothing, stdout=nothing, stderr=nothing, timeout=BROWSER_SECONDS, check=False)
    except (webbrowser.Error, OSError, subprocess.TimeoutExpired):
        return False
    return True


def find(home: str) -> ServerAddress | None:
    """The living server of a home on this machine."""
    try:
        with open(os.path.join(home, FILE), encoding="utf-8") as file:
            found = json.load(file)
        address = ServerAddress(str(found["url"]), ref.ProcessRef.parse(str(found["process"])))
    except (OSError, ValueError, TypeError, KeyError, InvalidRequest):
        return None
    return address if ref.alive(address.process) else None


def need(home: str) -> ServerAddress:
    """The living server of a home.

    Raises:
        ServerNotFound: there is none.
    """
    found = find(home)
    if found is None:
        raise ServerNotFound(f"No server runs for {home}. `interlock up` starts one.", home=home)
    return found


def end(home: str) -> str | None:
    """End the server of a home, and wait until it is gone; its address, or None if there was none."""
    address = find(home)
    if address is None:
        return None
    clock = SystemClock()
    number, deadline = signal.SIGTERM, 0.0
    while ref.alive(address.process):
        if clock.monotonic() > deadline:
            with suppress(ProcessLookupError):  # It has just ended.
                os.kill(address.process.pid, number)
            number, deadline = signal.SIGKILL, clock.monotonic() + END_SECONDS
        clock.sleep(0.02)
    return address.url
