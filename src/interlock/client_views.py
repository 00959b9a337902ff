"""PORT, the part of `client` that is for looking: what a page or a dashboard shows, each read at one moment.

Nothing here changes anything, and nothing costs more than what it answers: lists are cut by `limit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from interlock.model.event import Event
from interlock.model.task import Task


class Views(Protocol):
    """Whole pictures of a team."""

    def board(self, *, limit: int = 50) -> dict[str, Any]:
        """The tasks by state: `{"counts": {state: number}, "tasks": {state: [Task]}}`.

        At most `limit` tasks of each state but `deleted`: the ready ones in the order of the queue, finished ones the
        newest first, others the oldest first.
        """

    def in_state(self, state: str, *, after: int = 0, limit: int = 100) -> list[Task]:
        """The tasks in one state, `limit` at a time, in order of creation, finished ones the newest first.

        Args:
            after: the `n` of the last task that was shown; 0 begins.

        Raises:
            InvalidRequest: there is no such state.
        """

    def story(self, task: str, *, events: int = 200) -> dict[str, Any]:
        """Everything about one task: `{task, runs, log, events, questions, handoff, parent, blockers, dependents}`.

        `questions` are all that were asked, oldest first; `blockers` and `dependents` are tasks, also finished ones.

        Raises:
            TaskNotFound, AmbiguousId: as for every verb.
        """

    def artifacts(self, task: str) -> list[dict[str, Any]]:
        """What the runs of a task made that is in no commit: `[{run, path, kind, size, sha256, file}]`.

        `path` is where it lay in the worktree; `kind` is file, link or patch, which are kept with the run in `file`, or
        cache or special, which are only listed (`file`, `size` and `sha256` are null).

        Raises:
            TaskNotFound, AmbiguousId: as for every verb.
        """

    def latest(self, *, before: int | None = None, limit: int = 100, types: Sequence[str] = ()) -> list[Event]:
        """What happened last, newest first; `before` is a `seq` to go back from."""

    def crew(self) -> list[dict[str, Any]]:
        """Members, the lead first, with what each is doing: `Member.as_dict()` and `{unread, tasks, last_words}`.

        `tasks` are those it holds, or reviews now: `[{task_id, subject, state, since, run}]`.
        """
