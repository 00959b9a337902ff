"""Writing one file of the mirror from its rows, whatever lies there.

A file that the mirror did not write, or that somebody has edited since, is moved aside before anything takes its
place: `<name>.edited-<time>.<ending>` beside it, and an event `mirror.conflict`. The event comes first, so that a crash
between the two cannot hide what happened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable

from interlock.clock import Clock, iso
from interlock.errors import InterlockError
from interlock.mirror.position import Position
from interlock.mirror.render import (
    config_file,
    handoff_json,
    handoff_page,
    heartbeat_file,
    is_ours,
    result_file,
    run_file,
    task_file,
)
from interlock.mirror.task_view import show
from interlock.model.message import Message
from interlock.model.run import Handoff, Run
from interlock.model.task import Task
from interlock.storage.files import Tree, edited_name
from interlock.storage.ledger import Ledger, Rows

RUN_FILES = ("run_heartbeat.json", "run_result.json", "run.json")
"""What a run leaves; `run.json`, which tells whose files these are, is moved last."""


DROPPED = ("run_result.", "run_heartbeat.")
"""How the names of files begin that an agent left there by itself, and of those kept beside them."""


class Writer:
    """Writes files below `tree`, the team's `directory`, and keeps `position` informed.

    `thorough`: look at files too that no event has touched.
    """

    thorough = False

    def __init__(self, tree: Tree, directory: str, ledger: Ledger, clock: Clock, position: Position) -> None:
        self._tree = tree
        self._directory = directory
        self._ledger = ledger
        self._clock = clock
        self._position = position

    def attempt(self, kind: str, name: str, write: Callable[[], None]) -> None:
        """Run `write`; where the machine refuses, note (kind, name) as owed."""
        try:
            write()
        except (OSError, InterlockError):
            self._position.owed.append((kind, name))

    def config(self, rows: Rows) -> None:
        """`config.json`."""
        self._put("config.json", config_file(rows.team.get(), rows.team.members()))

    def inbox(self, rows: Rows, name: str, anew: bool) -> None:
        """The undelivered messages of a member: appended to unless `anew`, gone when there are none."""
        found = rows.team.address(name)
        if found is None:
            self.drop_inbox(name)
            return
        path = f"inbox/{found[1]}/messages.jsonl"
        size, last = self._position.inboxes.get(name, (0, 0))
        if size and not anew:
            fresh = rows.messages.undelivered(name, last)
            added = inbox_lines(fresh)
            # The whole inbox is read only when the file turns out not to be what we left.
            if self._tree.append(path, added, size):
                self._position.inboxes[name] = (size + len(added), fresh[-1].n if fresh else last)
                return
        waiting = rows.messages.undelivered(name)
        whole = inbox_lines(waiting)
        trusted = not self.thorough and (self._tree.size(path) or 0) == size
        if not trusted and not self._spare_inbox(path, whole):
            pass  # It says what it should, though we had no note of it.
        elif waiting:
            self._tree.replace(path, whole)
        else:
            self._tree.make(os.path.dirname(path))
            self._tree.remove(path)
        if waiting:
            self._position.inboxes[name] = (len(whole), waiting[-1].n)
        else:
            self._position.inboxes.pop(name, None)

    def drop_inbox(self, directory: str) -> None:
        """Remove the inbox of somebody who is gone; what others laid into it stays."""
        path = f"inbox/{directory}/messages.jsonl"
        self._spare_inbox(path, b"")
        self._tree.remove(path)
        self._tree.remove_directory(f"inbox/{directory}")
        self._position.inboxes.pop(directory, None)

    def task(self, rows: Rows, task_id: str, origins: Iterable[str], with_runs: bool) -> None:
        """A task's file, whose older ones lie in the directories of `origins`, and those of its runs."""
        task = rows.tasks.get(task_id)
        if task is not None:
            self.shown_task(rows, show(rows, task), origins, with_runs)

    def shown_task(self, rows: Rows, task: Task, origins: Iterable[str], with_runs: bool) -> None:
        """As `task`, for one that is complete already."""
        path = f"tasks/{task.state}/{task.id}.md"
        self._put(path, rendered(rows, task), task.id)
        # Only now, so that a crash leaves two files rather than none.
        for state in origins:
            if state == task.state:
                continue
            old = f"tasks/{state}/{task.id}.md"
            found = self._tree.read(old)
            if found is not None:
                self._keep_edited(old, os.path.dirname(path), task.id, found)
                self._tree.remove(old)
            self._merge(f"tasks/{state}/{task.id}", f"tasks/{task.state}/{task.id}")
        handoff = rows.handoffs.get(task.id)
        if handoff is not None:
            self._handoff(task, handoff)
        if with_runs and task.run:
            self._runs(task, rows.runs.of_task(task.id))

    def _handoff(self, task: Task, handoff: Handoff) -> None:
        inputs = f"tasks/{task.state}/{task.id}/inputs"
        self._put(f"{inputs}/handoff.json", handoff_json(handoff), task.id)
        self._put(f"{inputs}/handoff.md", handoff_page(handoff), task.id)

    def _put(self, path: str, data: bytes, task_id: str | None = None) -> None:
        found = self._tree.read(path)
        if found != data:
            if found is not None:
                self._keep_edited(path, os.path.dirname(path), task_id, found)
            self._tree.replace(path, data)

    def _keep_edited(self, path: str, beside: str, task_id: str | None, found: bytes) -> None:
        if not is_ours(found):
            self._move_aside(path, beside, task_id)

    def _spare_inbox(self, path: str, whole: bytes) -> bool:
        """Move what others wrote aside; whether the file differs from `whole`."""
        found = self._tree.read(path)
        if found is not None and found != whole and not is_inbox(found):
            self._move_aside(path, os.path.dirname(path), None)
        return found is None or found != whole

    def _move_aside(self, path: str, beside: str, task_id: str | None) -> None:
        now = self._clock.now()
        kept = f"{beside}/{edited_name(os.path.basename(path), now)}".lstrip("/")
        said = {"path": os.path.join(self._directory, path), "kept": os.path.join(self._directory, kept)}
        with self._ledger.transaction() as rows:
            rows.events.append("mirror.conflict", "interlock", task_id, iso(now), said)
        if not self._tree.move(path, kept):
            raise FileExistsError(kept)  # The next pass chooses another name.

    def _merge(self, source: str, target: str) -> None:
        """Move a task's companion directory along with its file, never over something that is there."""
        if not self._tree.is_directory(source) or self._tree.move(source, target):
            return
        for name in self._tree.names(source):
            self._tree.move(f"{source}/{name}", f"{target}/{name}")
        # Where both had a file of that name neither is lost, and doctor shows it.
        self._tree.remove_directory(source)

    def _runs(self, task: Task, runs: list[Run]) -> None:
        base = f"runs/{task.id}"
        *earlier, current = runs
        if earlier:
            known = 0 if self.thorough else self._mirrored(base, current.number)
            self._set_aside(base, current.number)
            for run in earlier:
                # From the one that was set aside on: it may have ended since, and those between left no file.
                if run.number >= known:
                    aside = f"{base}/attempts/{run.number}"
                    self._put(f"{aside}/run.json", run_file(run, task), task.id)
                    self._reported(aside, run)
        self._reported(base, current)
        self._put(f"{base}/run.json", run_file(current, task), task.id)

    def _reported(self, base: str, run: Run) -> None:
        """What a run said about itself. Where it has said nothing, a file of the agent's own waits to be adopted."""
        if run.heartbeat_at is not None:
            self._put(f"{base}/run_heartbeat.json", heartbeat_file(run), run.task_id)
        if run.result is not None:
            self._put(f"{base}/run_result.json", result_file(run), run.task_id)

    def _mirrored(self, base: str, current: int) -> int:
        """The number of the run whose files lie in `base`; 0 where there are none."""
        try:
            return int(json.loads(self._tree.read(f"{base}/run.json") or b"{}").get("run", 0))
        except (ValueError, TypeError, AttributeError):
            return current - 1

    def _set_aside(self, base: str, current: int) -> None:
        """Move the files of an earlier run to `attempts/<n>/`, so that the new run inherits nothing."""
        number = self._mirrored(base, current)
        if not 0 < number < current:
            return
        dropped = [name for name in self._tree.names(base) if name.startswith(DROPPED) and name not in RUN_FILES]
        for name in (*dropped, *RUN_FILES):
            source, target = f"{base}/{name}", f"{base}/attempts/{number}/{name}"
            if self._tree.move(source, target) or self._tree.read(source) is None:
                continue
            # A pass that was killed has been here before.
            if self._ours(target):
                self._tree.remove(target)
            else:
                self._move_aside(target, os.path.dirname(target), None)
            self._tree.move(source, target)

    def _ours(self, path: str) -> bool:
        found = self._tree.read(path)
        return found is not None and is_ours(found)


def rendered(rows: Rows, task: Task) -> bytes:
    """The file of a task that is complete."""
    newest = rows.events.of_task(task.id, 1)
    return task_file(task, rows.tasks.log(task.id), newest[0].seq if newest else 0)


def inbox_lines(messages: Iterable[Message]) -> bytes:
    """One line for each message. They wait there until they are handed over, so `stage` says no more than that."""
    found = []
    for message in messages:
        fields = message.as_dict()
        fields["stage"] = "stored"
        found.append(json.dumps(fields, ensure_ascii=False) + "\n")
    return "".join(found).encode("utf-8", "surrogatepass")


def is_inbox(data: bytes) -> bool:
    """Whether every line could be the mirror's; the last one may have been cut off."""
    *whole, _ = data.split(b"\n")
    try:
        values = [json.loads(line) for line in whole]
    except (ValueError, RecursionError):
        return False
    return all(isinstance(value, dict) and {"id", "sender", "to", "stage"} <= value.keys() for value in values)
