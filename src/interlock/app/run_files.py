"""What the runs of a task printed and made: lines and bytes of their output, and the files that are in no commit.

Whoever is on another machine gets parts of bounded size; where a file lies is told on the machine of the home alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from interlock import model, runner
from interlock.app.base import TeamBase, whole_number
from interlock.core.tasks.find import find
from interlock.errors import ArtifactNotFound, NotFound, RunNotFound
from interlock.model.run import KEPT, Artifact


class RunFileVerbs(TeamBase):
    """What runs leave behind in files. Every verb raises TaskNotFound or AmbiguousId."""

    def output(self, task: str, run: int | None = None) -> tuple[str, int]:
        """(path, run number) of the log of a run's output, the newest by default. Raises RunNotFound without one."""
        path, found = self._output(task, run)
        return path, found.number

    def output_part(
        self, task: str, run: int | None = None, *, start: int = 0, most: int | None = None
    ) -> model.views.FilePart:
        """Read at most `most` bytes, and 700 KB, of what a run printed, from the byte `start` on; of the newest run by
        default.

        Raises:
            RunNotFound: there is no such run, or none with output.
            InvalidRequest: `start` or `most` is no such number.
        """
        path, found = self._output(task, run)
        with _readable(f"The output of {task}", RunNotFound):
            # Whether it has ended was read before, so what is read after that is all.
            return _part(path, found.number, start, most, ended=found.ended_at is not None)

    def output_lines(
        self, task: str, run: int | None = None, *, first: int | None = None, find: str | None = None, most: int = 500
    ) -> model.views.OutputLines:
        """Read lines of what a run printed, of the newest run by default; see `read_lines`.

        Raises:
            RunNotFound: there is no such run, or none with output.
        """
        path, number = self.output(task, run)
        with _readable(f"The output of {task}", RunNotFound):
            first, lines, total, found = runner.log_reading.read_lines(path, first=first, find=find, most=most)
            return model.views.OutputLines(number, first, lines, total, os.path.getsize(path), found)

    def artifacts(self, task: str) -> list[Artifact]:
        """What the runs of a task made that is in no commit, and where it is kept."""
        with self._workspace.look() as rows:
            found = rows.runs.artifacts(find(rows, task).id)
        path = self._workspace.artifact_path
        return [replace(one, file=path(one.task_id, one.run, one.path)) if one.kind in KEPT else one for one in found]

    def artifact_part(
        self, task: str, path: str, run: int | None = None, *, start: int = 0, most: int | None = None
    ) -> model.views.FilePart:
        """Read at most `most` bytes, and 700 KB, of a file that is kept with a run, from the byte `start` on; of the
        newest run that has it by default. Of a link it is where the link leads.

        Args:
            path: as `artifacts` names it.

        Raises:
            ArtifactNotFound: no such file is kept.
            InvalidRequest: `start` or `most` is no such number.
        """
        kept = [one for one in self.artifacts(task) if one.path == path and one.file and run in (None, one.run)]
        if not kept:
            raise ArtifactNotFound(
                f"{task} has no file {path[:200]!r} that is kept. `interlock task show {task}` lists them.", path=path
            )
        newest = max(kept, key=lambda one: one.run)
        with _readable(f"{path[:200]!r}, which a run of {task} left,", ArtifactNotFound):
            return _part(str(newest.file), newest.run, start, most, ended=True)

    def _output(self, task: str, number: int | None) -> tuple[str, model.run.Run]:
        with self._workspace.look() as rows:
            id = find(rows, task).id
            runs = [run for run in rows.runs.of_task(id) if number in (None, run.number)]
        for run in reversed(runs):
            path = self._workspace.log_path(id, run.number)
            if os.path.exists(path):
                return path, run
        what = "run" if number is None else f"run {number}"
        why = " with output here: it printed nothing, or its log was pruned, or is on another machine" if runs else ""
        raise RunNotFound(f"{id} has no {what}{why}. `interlock task show {id}` lists its runs.")


def _part(path: str, run: int, start: int, most: int | None, *, ended: bool) -> model.views.FilePart:
    whole_number(start, "start")
    whole_number(most, "most")
    bound = model.worker.PIECE_BYTES
    data, size = runner.log_reading.read_part(path, start, bound if most is None else min(most, bound))
    return model.views.FilePart(run, start, data, size, ended)


@contextmanager
def _readable(what: str, refusal: type[NotFound]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise refusal(f"{what} cannot be read: {error.strerror}.") from error
