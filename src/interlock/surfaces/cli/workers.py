"""`interlock workers …`: the processes that do a team's tasks, on whatever machine."""

from __future__ import annotations

from collections.abc import Callable

import click

from interlock.model.worker import WorkerRecord
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb


@verb("list", reads=True, example="interlock workers list")
def list_(call: Call) -> None:
    """Every worker: where it runs, what it offers, when it was last heard of, and which tasks it holds."""
    found = call.team().workers()
    rows = [
        (
            one.name, one.host, one.version, _status(one), words.ago(one.ended_at or one.beat_at),
            "" if one.load is None else f"{one.load:.2f}", ", ".join(one.labels), ", ".join(one.holds),
        )
        for one in found
    ]  # fmt: skip
    head = ["WORKER", "HOST", "VERSION", "STATUS", "LAST BEAT", "LOAD", "LABELS", "HOLDS"]
    shown = words.table(head, rows) if rows else ["No workers. `interlock work` is one, `interlock run` and `up` too."]
    call.answer({"workers": [one.as_dict() for one in found]}, shown)


def _status(worker: WorkerRecord) -> str:
    return worker.status if worker.alive else "ended" if worker.ended_at else "gone"


def _sets(status: str, name: str, said: str, help: str) -> Callable[..., int | None]:
    @verb(name, example=f"interlock workers {name} ci-1")
    @click.argument("name")
    def command(call: Call, name: str) -> None:
        worker = call.team().set_worker(name, status)
        lines = [f"{words.strong(words.clean(worker.name))} {said}."]
        if not worker.alive:
            lines.append(f"It was last heard of {words.ago(worker.beat_at)}, and hears of this once it is back.")
        call.answer(worker.as_dict(), lines)

    command.help = help
    return command


drain = _sets("draining", "drain", "finishes what it does, and ends", "Let a worker finish what it does, and end.")
pause = _sets("paused", "pause", "starts nothing new", "Let a worker start nothing new; what it does is finished.")
resume = _sets("active", "resume", "works again", "Let a worker work again that was paused, or that is draining.")
