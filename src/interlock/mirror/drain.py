"""One pass of the mirror: reads the rows of what changed in one snapshot, then writes the files.

Called only by the holder of `.mirror.lock`. A file that the mirror did not write, or that somebody has edited since,
is kept aside under another name before anything takes its place.
"""

from __future__ import annotations

import json
import os
import shutil

from interlock.mirror import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.clock import Clock
    from interlock.ledger import Ledger, Rows
    from interlock.mirror import Work
    from interlock.model.task import Run, Task

APPEND_AT_ONCE = 500


class Drain:
    """`inboxes` is the size each inbox file had when the mirror last wrote it; it is kept up to date."""

    def __init__(self, directory: str, ledger: Ledger, clock: Clock, inboxes: dict[str, int]) -> None:
        self._directory = directory
        self._ledger = ledger
        self._clock = clock
        self._sizes = inboxes
        self._conflicts: list[tuple[str, str, str]] = []

    def run(self, work: Work) -> list[list[str]]:
        """Write everything in `work`; answers what could not be written, as (kind, name)."""
        owed: list[list[str]] = []

        def attempt(kind: str, name: str, write: Write) -> None:
            try:
                write()
            except OSError:
                owed.append([kind, name])

        with self._ledger.snapshot() as rows:
            if work.config:
                attempt("config", "", lambda: self._config(rows))
            for name, rewrite in work.inboxes.items():
                fresh = work.fresh.get(name, [])
                attempt("inbox", name, lambda: self._inbox(rows, name, rewrite, fresh))  # noqa: B023
            for task_id, origins in work.tasks.items():
                runs = task_id in work.runs
                attempt("task", task_id, lambda: self._task(rows, task_id, origins, runs))  # noqa: B023
        return owed

    def log_conflicts(self) -> None:
        """Write down which edited files were kept aside, outside the pass that found them."""
        if self._conflicts:
            from interlock.clock import iso

            with self._ledger.transaction() as rows:
                at = iso(self._clock.now())
                for task_id, path, kept in self._conflicts:
                    rows.events.append("mirror.conflict", "interlock", task_id, at, {"path": path, "kept": kept})

    def _config(self, rows: Rows) -> None:
        from interlock.mirror.render import config_file

        data = config_file(rows.team.get(), rows.team.members())
        files.replace(os.path.join(self._directory, "config.json"), data)

    def _inbox(self, rows: Rows, name: str, rewrite: bool, fresh: list[int]) -> None:
        found = rows.team.address(name)
        if found is None:
            self._remove_inbox(name)
            return
        directory = os.path.join(self._directory, "inbox", found[1])
        path = os.path.join(directory, "messages.jsonl")
        if not rewrite and len(fresh) <= APPEND_AT_ONCE and name in self._sizes:
            added = b"".join(_line(m.as_dict()) for m in rows.messages.numbered(fresh) if not m.read)
            # The whole inbox is read only when the file turns out not to be what we left.
            if files.append(path, added, self._sizes[name]):
                self._sizes[name] += len(added)
                return
        whole = b"".join(_line(message.as_dict()) for message in rows.messages.undelivered(name))
        os.makedirs(directory, mode=files.DIRECTORY_MODE, exist_ok=True)
        if whole:
            files.replace(path, whole)
            self._sizes[name] = len(whole)
        else:
            files.remove(path)
            self._sizes.pop(name, None)

    def _remove_inbox(self, name: str) -> None:
        directory = os.path.join(self._directory, "inbox", name)
        files.remove(os.path.join(directory, "messages.jsonl"))
        try:
            os.rmdir(directory)
        except OSError:
            return  # Something of somebody else's lies in it, or it is gone.
        finally:
            self._sizes.pop(name, None)

    def _task(self, rows: Rows, task_id: str, origins: set[str], with_run: bool) -> None:
        from interlock.mirror.render import task_file
        from interlock.views import show

        task = rows.tasks.get(task_id)
        if task is None:
            return
        show(rows, task)
        newest = rows.events.of_task(task_id, 1)
        data = task_file(task, rows.tasks.log(task_id), newest[0].seq if newest else 0)
        runs = rows.runs.of_task(task_id) if with_run and task.run else []
        base = os.path.join(self._directory, "tasks")
        path = os.path.join(base, task.state, f"{task.id}.md")
        self._keep_edited(task, path, path)
        files.replace(path, data)
        for state in origins - {task.state}:
            old = os.path.join(base, state, f"{task.id}.md")
            self._keep_edited(task, old, path)
            files.remove(old)
            companion = os.path.join(base, state, task.id)
            if os.path.isdir(companion):
                _merge(companion, os.path.join(base, task.state, task.id))
        if runs:
            self._runs(task, runs)

    def _keep_edited(self, task: Task, path: str, beside: str) -> None:
        from interlock.mirror.render import edited_name, is_ours

        found = files.read(path)
        if found is not None and not is_ours(found):
            kept = os.path.join(os.path.dirname(beside), edited_name(task.id, self._clock.now()))
            files.replace(kept, found)
            self._conflicts.append((task.id, path, kept))

    def _runs(self, task: Task, runs: list[Run]) -> None:
        from interlock.mirror.render import heartbeat_file, run_file

        base = os.path.join(self._directory, "runs", task.id)
        current = runs[-1]
        if len(runs) > 1:
            self._set_aside(base, current.number)
        files.replace(os.path.join(base, "run.json"), run_file(current, task))
        if current.heartbeat_at is not None:
            files.replace(os.path.join(base, "run_heartbeat.json"), heartbeat_file(current))

    def _set_aside(self, base: str, current: int) -> None:
        """Move the files of an earlier run to `attempts/<n>/`, so that the new run inherits nothing."""
        data = files.read(os.path.join(base, "run.json"))
        try:
            number = int(json.loads(data or b"{}").get("run", 0))
        except (ValueError, AttributeError):
            number = current - 1
        if 0 < number < current:
            aside = os.path.join(base, "attempts", str(number))
            os.makedirs(aside, mode=files.DIRECTORY_MODE, exist_ok=True)
            for name in ("run.json", "run_heartbeat.json", "run_result.json"):
                try:
                    os.replace(os.path.join(base, name), os.path.join(aside, name))
                except FileNotFoundError:
                    continue


def _line(message: dict[str, object]) -> bytes:
    return (json.dumps(message, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def _merge(source: str, target: str) -> None:
    """Move a task's companion directory along with its file, never over something that is there."""
    if not os.path.exists(target):
        os.makedirs(os.path.dirname(target), mode=files.DIRECTORY_MODE, exist_ok=True)
        os.rename(source, target)
        return
    for name in os.listdir(source):
        if not os.path.exists(os.path.join(target, name)):
            shutil.move(os.path.join(source, name), os.path.join(target, name))
    try:
        os.rmdir(source)
    except OSError:
        return  # Both had a file of that name: neither is lost, and doctor shows it.


if TYPE_CHECKING:
    from collections.abc import Callable

    Write = Callable[[], None]
