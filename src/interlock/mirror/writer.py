"""Writing one file of the mirror from its rows, whatever is there.

A file that the mirror did not write, or that somebody has edited since, is moved aside before anything takes its
place, to `<name>.edited-<time>.<ending>` beside it, and reported to the caller.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from operator import eq
from typing import NamedTuple

from interlock import model
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
    says_the_same,
    task_file,
)
from interlock.mirror.task_view import show
from interlock.model.task import Task
from interlock.storage.files import EDITED, Tree
from interlock.storage.ledger import Rows

RUN_FILES = ("run_heartbeat.json", "run_result.json", "run.json")
"""What a run leaves; `run.json`, which tells whose files these are, is moved last."""
DROPPED = ("run_result.", "run_heartbeat.")
"""How the names of files begin that an agent left there by itself, and of those kept beside them."""


class EditedFile(NamedTuple):
    """A file that was not as the mirror left it, and where it is now."""

    path: str
    kept: str
    task_id: str | None


class Writer:
    """Writes files below `tree`, the team's `directory`, and keeps `position` and `edited` up to date.

    `thorough`: look at files too that no event has touched.
    """

    def __init__(
        self,
        tree: Tree,
        directory: str,
        clock: Clock,
        position: Position,
        edited: list[EditedFile],
        *,
        thorough: bool = False,
    ) -> None:
        self.tree = tree
        self.position = position
        self._directory = directory
        self._clock = clock
        self._edited = edited
        self._thorough = thorough

    def below(self, tree: Tree, directory: str) -> Writer:
        """A writer of files elsewhere, which notes what was edited with this one."""
        return Writer(tree, directory, self._clock, self.position, self._edited)

    def attempt(self, kind: str, name: str, write: Callable[[], None]) -> None:
        """Run `write`; where the machine refuses, note (kind, name) as owed."""
        try:
            write()
        except (OSError, InterlockError):
            self.position.owed.append((kind, name))

    def config(self, rows: Rows) -> None:
        """Write `config.json`."""
        self.put("config.json", config_file(rows.team.get(), rows.team.members()))

    def inbox(self, rows: Rows, name: str, whole: bool) -> None:
        """Write the undelivered messages of a member: appended unless `whole`; the file goes when there are none."""
        found = rows.team.address(name)
        if found is None:
            self.drop_inbox(name)
            return
        path = f"inbox/{found[1]}/messages.jsonl"
        size, last = self.position.inboxes.get(name, (0, 0))
        if size and not whole:
            fresh = rows.messages.undelivered(name, last)
            added = inbox_lines(fresh)
            # The whole inbox is read only when the file turns out not to be what we left.
            if self.tree.append(path, added, size):
                self.position.inboxes[name] = (size + len(added), fresh[-1].n if fresh else last)
                return
        waiting = rows.messages.undelivered(name)
        content = inbox_lines(waiting)
        trusted = not self._thorough and (self.tree.size(path) or 0) == size
        # A file that says what it should, though we had no note of it, stays.
        if trusted or self._spare_inbox(path, content):
            if waiting:
                self.tree.replace(path, content)
            else:
                self.tree.make(os.path.dirname(path))
                self.tree.remove(path)
        if waiting:
            self.position.inboxes[name] = (len(content), waiting[-1].n)
        else:
            self.position.inboxes.pop(name, None)

    def drop_inbox(self, directory: str) -> None:
        """Remove the inbox of a member who is gone; what others put into it stays."""
        path = f"inbox/{directory}/messages.jsonl"
        self._spare_inbox(path, b"")
        self.tree.remove(path)
        self.tree.remove_directory(f"inbox/{directory}")
        self.position.inboxes.pop(directory, None)

    def task(self, rows: Rows, task_id: str, origins: Iterable[str], with_runs: bool) -> None:
        """Write a task's file, whose older ones are in the directories of the states `origins`, and those of its
        runs."""
        page = rows.tasks.page(task_id)
        if page is None:
            return
        task = show(rows, page.task)
        path = f"tasks/{task.state}/{task.id}.md"
        self.put(path, task_file(task, page.log, page.newest), task.id, same=says_the_same)
        # Only now, so that a crash leaves two files rather than none.
        for state in origins:
            if state == task.state:
                continue
            old = f"tasks/{state}/{task.id}.md"
            found = self.tree.read(old)
            if found is not None:
                if not is_ours(found):
                    self._move_aside(old, os.path.dirname(path), task.id)
                self.tree.remove(old)
            self._merge(f"tasks/{state}/{task.id}", f"tasks/{task.state}/{task.id}")
        if page.handoff is not None:
            inputs = f"tasks/{task.state}/{task.id}/inputs"
            self.put(f"{inputs}/handoff.json", handoff_json(page.handoff), task.id)
            self.put(f"{inputs}/handoff.md", handoff_page(page.handoff), task.id)
        if with_runs and task.run:
            self._runs(task, rows.runs.of_task(task.id))

    def put(
        self, path: str, data: bytes, task_id: str | None = None, *, beside: str | None = None,
        ours: Callable[[bytes], bool] = is_ours, same: Callable[[bytes, bytes], bool] = eq,
    ) -> None:  # fmt: skip
        """Write a file whole, unless what is there is the `same`. One that is not `ours` is moved aside, to the
        directory `beside` or in its own."""
        found = self.tree.read(path)
        if found is None or not same(found, data):
            if found is not None and not ours(found):
                self._move_aside(path, os.path.dirname(path) if beside is None else beside, task_id)
            self.tree.replace(path, data)

    def drop(self, path: str, ours: Callable[[bytes], bool], *, beside: str) -> None:
        """Remove a file; one that is not `ours` is moved aside."""
        found = self.tree.read(path)
        if found is not None and not ours(found):
            self._move_aside(path, beside, None)
        self.tree.remove(path)

    def _spare_inbox(self, path: str, whole: bytes) -> bool:
        """Move what others wrote aside; whether the file differs from `whole`."""
        found = self.tree.read(path)
        if found is not None and found != whole and not is_inbox(found):
            self._move_aside(path, os.path.dirname(path), None)
        return found is None or found != whole

    def _move_aside(self, path: str, beside: str, task_id: str | None) -> None:
        kept = f"{beside}/{_edited_name(os.path.basename(path), self._clock.now())}".lstrip("/")
        if not self.tree.move(path, kept):
            raise FileExistsError(kept)  # The next pass chooses another name.
        root = self._directory
        self._edited.append(EditedFile(os.path.join(root, path), os.path.join(root, kept), task_id))

    def _merge(self, source: str, target: str) -> None:
        """Move a task's companion directory along with its file, never over something that is there."""
        if not self.tree.is_directory(source) or self.tree.move(source, target):
            return
        for name in self.tree.names(source):
            self.tree.move(f"{source}/{name}", f"{target}/{name}")
        # Where both had a file of that name neither is lost, and doctor shows it.
        self.tree.remove_directory(source)

    def _runs(self, task: Task, runs: list[model.run.Run]) -> None:
        base = f"runs/{task.id}"
        *earlier, current = runs
        if earlier:
            known = 0 if self._thorough else self._mirrored(base, current.number)
            self._set_aside(base, current.number)
            for run in earlier:
                # From the one that was set aside on: it may have ended since, and those between left no file.
                if run.number >= known:
                    aside = f"{base}/attempts/{run.number}"
                    self.put(f"{aside}/run.json", run_file(run, task), task.id)
                    self._reported(aside, run)
        self._reported(base, current)
        self.put(f"{base}/run.json", run_file(current, task), task.id)

    def _reported(self, base: str, run: model.run.Run) -> None:
        """What a run said about itself. Where it has said nothing, a file of the agent's own waits to be adopted."""
        if run.heartbeat_at is not None:
            self.put(f"{base}/run_heartbeat.json", heartbeat_file(run), run.task_id)
        if run.result is not None:
            self.put(f"{base}/run_result.json", result_file(run), run.task_id)

    def _mirrored(self, base: str, current: int) -> int:
        """The number of the run whose files are in `base`; 0 where there are none."""
        try:
            return int(json.loads(self.tree.read(f"{base}/run.json") or b"{}").get("run", 0))
        except (ValueError, TypeError, AttributeError):
            return current - 1

    def _set_aside(self, base: str, current: int) -> None:
        """Move the files of an earlier run to `attempts/<n>/`, so that the new run inherits nothing."""
        number = self._mirrored(base, current)
        if not 0 < number < current:
            return
        dropped = [name for name in self.tree.names(base) if name.startswith(DROPPED) and name not in RUN_FILES]
        for name in (*dropped, *RUN_FILES):
            source, target = f"{base}/{name}", f"{base}/attempts/{number}/{name}"
            if self.tree.move(source, target) or self.tree.read(source) is None:
                continue
            # A pass that was killed has been here before.
            there = self.tree.read(target)
            if there is not None and is_ours(there):
                self.tree.remove(target)
            else:
                self._move_aside(target, os.path.dirname(target), None)
            self.tree.move(source, target)


def inbox_lines(messages: Iterable[model.message.Message]) -> bytes:
    """What `inbox/<member>/messages.jsonl` says: a line for each message. They wait there until they are handed over,
    so `stage` says no more than that."""
    lines = [json.dumps({**message.as_dict(), "stage": "stored"}, ensure_ascii=False) + "\n" for message in messages]
    return "".join(lines).encode("utf-8", "surrogatepass")


def is_inbox(data: bytes) -> bool:
    """Whether every line could be the mirror's; the last one may have been cut off."""
    *whole, _ = data.split(b"\n")
    try:
        values = [json.loads(line) for line in whole]
    except (ValueError, RecursionError):
        return False
    return all(isinstance(value, dict) and {"id", "sender", "to", "stage"} <= value.keys() for value in values)


def _edited_name(name: str, now: float) -> str:
    """The name under which a file that somebody edited is kept: `<stem>.edited-<time>.<ending>`."""
    stem, _, ending = name.rpartition(".")
    return f"{stem}{EDITED}{iso(now).replace(':', '').replace('.', '')}.{ending}"
