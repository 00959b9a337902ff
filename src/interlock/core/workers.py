"""The workers of a team, on whatever machine: who they are, whether they live, and for what a ready task waits.

A worker on this machine lives as long as its process. Nobody here can see one on another machine: it lives until it
has been silent for `heartbeat_ttl` seconds by the ledger's clock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import cached_property

from interlock.clock import iso, seconds
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import Forbidden, InvalidRequest, WorkerNotFound
from interlock.model.names import NAME_LIMIT, check_labels, fits_name_rule
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.model.worker import FULL, STATUSES, WorkerRecord
from interlock.processes import ref, shown_host
from interlock.settings import Settings
from interlock.storage.ledger import Rows
from interlock.version import __version__

APART = "~"
"""In the reference of a remote worker's process, between the name of its machine and a secret: it is judged by its
beats alone."""
VERBS = dict(zip(STATUSES, ("resume", "pause", "drain"), strict=True))


def begin(
    act: UnitOfWork,
    process: str,
    *,
    name: str | None = None,
    labels: Collection[str] = (),
    members: Sequence[str] | None = None,
    parallel: int | None = None,
    load: float | None = None,
    version: str = "",
) -> WorkerRecord:
    """Enter a worker: by `name`, or by that of its machine; with a number where a living one has that.

    Raises:
        InvalidRequest: the name or a label is none.
    """
    host = shown_host(ref.ProcessRef.parse(process).host.partition(APART)[0])
    if name is not None and not fits_name_rule(name):
        raise InvalidRequest(f"{name!r} cannot name a worker: use a-z 0-9 - _, at most {NAME_LIMIT}.", field="name")
    base = name or re.sub(r"[^a-z0-9]+", "-", host.lower()).strip("-")[: NAME_LIMIT - 4] or "worker"
    known = act.rows.team.workers().values()
    others = {one.name for one in known if one.process != process and lives(one, act.settings, act.at)}
    free = next(one for n in range(1, len(others) + 2) if (one := base if n == 1 else f"{base}-{n}") not in others)
    worker = WorkerRecord(
        free, process, host, version or __version__, check_labels(labels) or [],
        None if members is None else list(members), parallel, load, "active", act.at, act.at, act.at,
    )  # fmt: skip
    act.rows.team.put_worker(worker)
    act.topics.add("members")
    return worker


def known(rows: Rows, name: str, process: str) -> WorkerRecord:
    """The worker of that name and process.

    Raises:
        WorkerNotFound: another worker has the name by now, or it has ended.
    """
    worker = rows.team.workers().get(name)
    if worker is None or worker.process != process or worker.ended_at is not None:
        raise WorkerNotFound(f"{name} is no worker of this team any more; it has to sign on again.", worker=name)
    return worker


def beat(act: UnitOfWork, name: str, process: str, load: float | None) -> WorkerRecord:
    """Show that a worker lives. Raises WorkerNotFound as `known`."""
    worker = known(act.rows, name, process)
    worker.beat_at, worker.load = act.at, load
    act.rows.team.put_worker(worker)
    return worker


def fill(act: UnitOfWork, name: str, process: str, status: str) -> WorkerRecord:
    """Show that a worker is `full`, or `active` again; what a person told it stays.

    Raises:
        WorkerNotFound: another worker has the name by now.
    """
    worker = act.rows.team.workers().get(name)
    if worker is None or worker.process != process:
        raise WorkerNotFound(f"{name} is no worker of this team any more.", worker=name)
    if worker.status in ("active", FULL) and worker.status != status:
        worker.status, worker.status_at = status, act.at
        act.rows.team.put_worker(worker)
        act.topics.add("members")
    return worker


def end(act: UnitOfWork, name: str, process: str) -> None:
    """Note that a worker has ended."""
    worker = act.rows.team.workers().get(name)
    if worker is not None and worker.process == process and worker.ended_at is None:
        worker.ended_at = act.at
        act.rows.team.put_worker(worker)
        act.topics.add("members")


def set_status(act: UnitOfWork, name: str, status: str) -> WorkerRecord:
    """Pause a worker, let it finish what it does and end (`draining`), or let it work again. One of another machine
    that is silent may only be cut off: it hears of it once it is back.

    Raises:
        WorkerNotFound: there is no such worker, or it has ended.
        Forbidden: the actor is a plain member.
    """
    if not act.leads:
        raise Forbidden(f"Only the lead or a human may {VERBS[status]} a worker.")
    worker = act.rows.team.workers().get(name)
    if worker is None or worker.ended_at is not None or ref.alive(worker.process) is False:
        raise WorkerNotFound(f"No worker {name!r} lives here. `interlock workers list` shows all.", worker=name)
    if worker.status != status:
        worker.status, worker.status_at = status, act.at
        act.rows.team.put_worker(worker)
        act.event("worker.status", worker=name, status=status)
        act.topics |= {"members", "tasks"}
    worker.alive = lives(worker, act.settings, act.at)
    return worker


def lives(worker: WorkerRecord, settings: Settings, now: str) -> bool:
    """Whether a worker is at work, as far as that can be known here."""
    if worker.ended_at is not None:
        return False
    known = ref.alive(worker.process)
    if known is not None:
        return known
    return seconds(worker.beat_at) + float(settings.get("heartbeat_ttl")) > seconds(now)


def listed(rows: Rows, settings: Settings, now: str) -> list[WorkerRecord]:
    """All workers, those that live first, with what each holds."""
    held: dict[str, list[str]] = {}
    for run in rows.runs.open():
        held.setdefault(run.runner or "", []).append(run.task_id)
    found = rows.team.workers().values()
    for worker in found:
        worker.alive, worker.holds = lives(worker, settings, now), held.get(worker.process, [])
    return sorted(found, key=lambda one: not one.alive)


def load() -> float | None:
    """The load of this machine."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


class Waits:
    """For what the ready tasks of a team wait, at one moment."""

    def __init__(self, rows: Rows, settings: Settings, now: str) -> None:
        self._rows = rows
        self._settings = settings
        self._workers = listed(rows, settings, now)
        self.people = {one.name: one for one in rows.team.members()}
        """Everybody in the team, by name."""

    @cached_property
    def _at(self) -> dict[str, str]:
        return self._rows.tasks.current()

    @cached_property
    def _open_runs(self) -> int:
        return self._rows.runs.open_count()

    def unlabelled(self, task: Task) -> str | None:
        """That no living worker offers the labels which a task asks for, and since when; None where one does."""
        if not task.labels or any(one.alive and _offers(one, task) for one in self._workers):
            return None
        had = [one.ended_at or one.beat_at for one in self._workers if _offers(one, task)]
        since = f"since {clock_time(max(had))}" if had else "has been here yet"
        return f"no worker with {_named(task.labels)} {since}"

    def why(self, task: Task, takers: Sequence[Member]) -> str | None:
        """Why a ready task, which `takers` may take, has not begun; None where nothing is known to hold it up."""
        living = [one for one in self._workers if one.alive]
        if not living:
            last = max((one.ended_at or one.beat_at for one in self._workers), default=None)
            return "no worker is running" if last is None else f"no worker has been running since {clock_time(last)}"
        offering = [one for one in living if _offers(one, task)]
        kind = f" with {_named(task.labels)}" if task.labels else ""
        if all(one.status != "active" for one in offering):
            said = ", ".join(f"{one.name} has been {one.status} since {clock_time(one.status_at)}" for one in offering)
            return f"no worker{kind} takes new tasks: {said}"
        return self._why_nobody(task, takers, [one for one in offering if one.status == "active"], kind)

    def _why_nobody(
        self, task: Task, takers: Sequence[Member], workers: Sequence[WorkerRecord], kind: str
    ) -> str | None:
        active = [one for one in takers if one.status == "active"]
        if not active:
            return ", ".join(f"{one.name} is {one.status}" for one in takers)
        served = [one for one in active if any(w.members is None or one.name in w.members for w in workers)]
        if not served:
            return f"no worker{kind} works for {' or '.join(one.name for one in active)}"
        if all(one.name in self._at for one in served):
            return ", ".join(f"{one.name} is working on {self._at[one.name]}" for one in served)
        limit = max(one.parallel or int(self._settings.get("parallel")) for one in workers)
        runs = self._open_runs
        return f"{runs} runs are open, and the limit is {limit}" if runs >= limit else None


def clock_time(moment: str) -> str:
    """A time in UTC as people read it: of today without its day."""
    day, time = iso(seconds(moment))[:16].split("T")
    return f"{time}Z" if day == datetime.now(UTC).date().isoformat() else f"{day} {time}Z"


def _offers(worker: WorkerRecord, task: Task) -> bool:
    return set(task.labels or ()) <= set(worker.labels)


def _named(labels: Sequence[str]) -> str:
    return f"label{'s' if len(labels) > 1 else ''} {', '.join(labels)}"
