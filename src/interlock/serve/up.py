"""Serve a home, announce it, and end within two seconds when asked.

On ending, streams and waiting callers are told, agents are ended, answers under way are finished, and programs that are
left are killed. The next runner resumes what a killed agent was doing, at once and without using up an attempt.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from importlib import import_module

from fastapi import APIRouter, FastAPI

from interlock.app.home import Home
from interlock.app.server_lock import ServerLock, link_to, page_at
from interlock.errors import InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.processes import groups, ref, table
from interlock.serve.listener import HttpListener, bind, is_loopback, url_of
from interlock.serve.team_threads import TeamThreads
from interlock.surfaces.http import application

END_SECONDS = 1.2
"""Seconds from being asked to end until programs that are left are killed."""
RECORD_SECONDS = 0.4
"""Seconds in which the threads of teams then write down what became of their runs."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Served:
    """A server that listens. `link` lets one browser in, once."""

    url: str
    link: str
    loopback: bool


def up(
    home: Home,
    *,
    host: str | None = None,
    port: int | None = None,
    plain: bool = False,
    on_ready: Callable[[Served], None] = lambda served: None,
    pages: Collection[APIRouter] = (),
) -> None:
    """Serve a home until a signal says to end. Call it in the main thread.

    Args:
        host, port: where to listen; by default the settings `http_host` and `http_port`.
        plain: also listen where other machines reach it without a proxy with TLS.
        on_ready: called once it listens.

    Raises:
        ServerAlive: this home is served already.
        InvalidRequest: the port cannot be had, or the address is public and nothing encrypts what is sent.
        StorageError: the home cannot be written.
    """
    settings = {one.name: one.value for one in home.settings()}
    host = host or str(settings["http_host"])
    if not (is_loopback(host) or settings["http_proxies"] or plain):
        raise InvalidRequest(
            f"At {host} other machines could read every token and answer on the way. Put a proxy with TLS before it "
            "and its address into the setting http_proxies, or say `--plain` where the network itself is private.",
            field="host",
        )
    with ServerLock(home.path) as lock:
        tokens = home.tokens()
        tokens.share()
        listening = bind(host, int(settings["http_port"]) if port is None else port, exactly=port is not None)
        url = url_of(listening)
        app = _application(home, host, settings, pages)
        teams = TeamThreads(home)
        notices, telemetry = home.notices(link=page_at(url, tokens)), home.telemetry()
        ended_at: list[float] = []

        def begin_to_end() -> None:
            ended_at.append(time.monotonic())
            application.close(app)
            for end in (teams.stop, notices.stop, telemetry.stop):
                end()

        def ready() -> None:
            lock.announce(url)
            for begin in (teams.start, notices.start, telemetry.start):
                begin()
            on_ready(Served(url, link_to(url, tokens), is_loopback(host)))

        try:
            asyncio.run(_serve(HttpListener(app, begin_to_end), listening, ready))
        finally:
            begin_to_end()
            _end_teams(teams, ended_at[0])
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        _end_at_once()
    with suppress(Exception):  # boundary: we end; what a thread still holds is given back by the system
        home.close()


def _application(home: Home, host: str, settings: Json, pages: Collection[APIRouter]) -> FastAPI:
    app = application.create(
        home,
        hosts=[name for name in (host, *str(settings["http_hosts"]).replace(",", " ").split()) if name],
        any_address=not is_loopback(host),
        proxies=str(settings["http_proxies"]),
        body_bytes=int(settings["http_body_bytes"]),
        body_seconds=float(settings["http_body_seconds"]),
        pages=pages,
    )
    if settings["a2a"]:
        try:
            app.router.routes += import_module("interlock.surfaces.a2a.endpoint").routes()
        except ImportError as error:
            raise InvalidRequest(
                f"The setting a2a is on, and {error.name} is not installed: `pip install 'interlock-agents[a2a]'`.",
                field="a2a",
            ) from None
    return app


async def _serve(listener: HttpListener, listening: socket.socket, ready: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()

    def asked() -> None:
        listener.should_exit = True

    for number in SIGNALS:
        loop.add_signal_handler(number, asked)
    serving = asyncio.create_task(listener.serve(sockets=[listening]))
    while not listener.started and not serving.done():
        await asyncio.sleep(0.005)
    if listener.started:
        try:
            await asyncio.to_thread(ready)
        except BaseException:
            listener.should_exit = True
            await serving
            raise
    await serving


def _end_teams(teams: TeamThreads, began: float) -> None:
    """Wait for the threads of teams, then kill what they could not end; they write down what became of it."""
    if not teams.join(max(0.0, began + END_SECONDS - time.monotonic())):
        for child in _children():
            identity = ref.identify(child)
            if identity is not None:
                groups.end_group(identity, grace=0.0)
        teams.join(max(0.0, began + END_SECONDS + RECORD_SECONDS - time.monotonic()))


def _end_at_once() -> None:
    """End while somebody's verb, such as a long verify, is under way. Its program and this process end in the same
    moment, so that the verb cannot take that end for a result; the next runner starts it again."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    for child in _children():
        with suppress(OSError):
            # What we start leads a group of its own.
            os.killpg(child, signal.SIGKILL)
    os._exit(0)


def _children() -> list[int]:
    own = os.getpid()
    return [row.pid for row in table.rows() if row.parent == own and row.running]
