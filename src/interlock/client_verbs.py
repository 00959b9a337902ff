"""PORT, the parts of a team: its task ledger, its mail, what waits for people, and AOF/1. See `client`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from interlock.model.message import Message
from interlock.model.question import Question
from interlock.model.run import Run
from interlock.model.task import Task


class Mail(Protocol):
    """Messages being handed over. Leaving the `with` block marks them delivered; an exception gives them back."""

    @property
    def messages(self) -> list[Message]:
        """What is handed over, in the order of sending; urgent ones first."""

    @property
    def timed_out(self) -> bool:
        """Whether waiting ended without any (CORE-FR-008)."""

    def as_xml(self) -> str:
        """The messages as `<teammate-message>` blocks, for the lead after one with the team's state; empty if none."""

    def give_back(self) -> None:
        """They were handed over, but nobody looked at them: those the caller has not gone on from are offered again."""


class Tasks(Protocol):
    """The task ledger."""

    def create_task(
        self,
        subject: str,
        *,
        body: str = "",
        type: str | None = None,
        priority: str = "normal",
        assignee: str | None = None,
        blocked_by: Sequence[str] = (),
        review: str | None = None,
        verify: str | None = None,
        run: str | None = None,
        parent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        env: Sequence[str] | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        limits: Mapping[str, float] | None = None,
        by: str | None = None,
    ) -> Task:
        """Create a task. `run` is the command a shell member executes; `review`: null, `none`, `human` or a member.

        `verify`, `run`, `env` (names of variables), `timeout` (seconds), `retries` and `limits` are for people and a
        lead outside every run. `metadata` is data.
        """

    def task(self, task: str) -> Task:
        """One task, whole."""

    def tasks(
        self, *, status: str | None = None, owner: str | None = None, ready: bool = False, limit: int | None = None
    ) -> list[Task]:
        """Tasks in order of creation; `ready` gives the ready queue in its order. `status` takes either vocabulary.

        Raises:
            InvalidRequest: there is no such status, or `limit` is not a whole number from 0 on.
        """

    def graph(self) -> tuple[list[Task], list[tuple[str, str]]]:
        """All tasks but deleted ones, and the edges (blocker, blocked) between them."""

    def claim(self, task: str, *, force: bool = False, take_over: bool = False, by: str | None = None) -> Task:
        """Take a task, named by its id or its last digits, and begin a run of it.

        Args:
            force: past open dependencies, as far as the setting `force` lets the caller.
            take_over: also where an earlier session of the same member holds it.

        Raises:
            TaskAlreadyClaimed: somebody else holds it.
            UnmetDependencies: it waits for others.
            Forbidden: it is reserved for somebody else, or the caller has stopped.
            TaskNotFound, InvalidTransition: there is none, or it is in a state that cannot be claimed.
        """

    def next_task(self, *, by: str | None = None) -> Task | None:
        """Claim the most urgent, oldest ready task the caller may have; null where there is none."""

    def update(self, task: str, *, by: str | None = None, **fields: Any) -> Task:
        """Edit subject, body, type, priority, review, verify, command, env, timeout, retries, limits, metadata; add a
        `log` line; go forward to a `status`."""

    def depend(self, task: str, *, on: str, remove: bool = False, by: str | None = None) -> Task:
        """Make `task` wait for `on`, or no longer."""

    def release(self, task: str, *, reason: str | None = None, by: str | None = None) -> Task:
        """Give a task back."""

    def complete(self, task: str, *, summary: str | None = None, by: str | None = None) -> Task:
        """Report a task as finished. Its `verify` is run here, now, before this returns; look at the `state` of the
        answer: `done`, `review`, or `ready` again where the check failed.

        Raises:
            Forbidden: somebody else holds it.
            StaleRun: the run was taken from the caller.
            InvalidTransition: nobody holds it.
        """

    def delete(self, task: str, *, by: str | None = None) -> Task:
        """Delete a task that is not final."""

    def approve(self, task: str, *, summary: str | None = None, by: str | None = None) -> Task:
        """A reviewer's yes."""

    def reject(self, task: str, *, reason: str, by: str | None = None) -> Task:
        """A reviewer's no: back to the author with `reason` as findings."""

    def retry(self, task: str, *, by: str | None = None) -> Task:
        """Another chance for a task in deadletter."""

    def cancel(
        self, task: str, *, reason: str | None = None, cascade: bool = False, by: str | None = None
    ) -> list[Task]:
        """Call a task off, with `cascade` also what waits for it; answers what was cancelled."""

    def block(self, task: str, *, reason: str, by: str | None = None) -> Task:
        """Stop for a reason that is not a dependency."""

    def unblock(self, task: str, *, by: str | None = None) -> Task:
        """The reason is gone."""

    def assign(self, task: str, *, to: str | None, by: str | None = None) -> Task:
        """Reserve a task for a member; null frees it."""

    def heartbeat(self, task: str, *, by: str | None = None) -> Run:
        """Show that the run lives: its lease then ends `heartbeat_ttl` seconds from now.

        Raises:
            Forbidden: somebody else holds the task.
            StaleRun: the run was taken from the caller.
            InvalidTransition: nobody holds it.
        """

    def runs(self, task: str) -> list[Run]:
        """All attempts at a task, oldest first."""

    def work_log(self, task: str) -> list[tuple[str, str, str]]:
        """The task's Work Log as (at, author, text)."""


class Mailing(Protocol):
    """Messages and the shutdown handshake."""

    def send(
        self,
        sender: str | None = None,
        *,
        to: str,
        content: str,
        type: str = "message",
        summary: str | None = None,
        urgent: bool = False,
        request_id: str | None = None,
        approve: bool | None = None,
        reason: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        client_id: str | None = None,
    ) -> Message:
        """Send one message. `client_id` makes a repeated send harmless."""

    def broadcast(
        self, sender: str | None = None, *, content: str, summary: str | None = None, client_id: str | None = None
    ) -> dict[str, Any]:
        """Send to all members but the sender: `{"delivered": […], "not_delivered": [{member, error, message}]}`."""

    def mail(
        self, *, wait: float | None = None, urgent_only: bool = False, inject: bool = False, again: bool = False,
        by: str | None = None,
    ) -> AbstractContextManager[Mail]:  # fmt: skip
        """Hand over the caller's mail; with `wait`, sleep up to so many seconds for some to come.

        `inject` bounds the amount to what fits before a prompt, and adds the team's state for the lead. `again`: only
        `acknowledge` acknowledges; what was handed over before and never acknowledged is handed over once more.
        """

    def inbox(self, member: str | None = None, *, limit: int = 100, after: int = 0) -> list[Message]:
        """What the caller, or that member, has not acknowledged, in order, the first `limit` behind the number
        `after`; marks nothing."""

    def read(self, by: str | None = None) -> list[Message]:
        """Hand over the caller's mail as this call's return value."""

    def acknowledge(self, ids: Sequence[str], *, by: str | None = None) -> list[str]:
        """Say that these messages were seen; answers those that now are, or were before."""

    def history(self, *, member: str | None = None, limit: int = 100, before: int | None = None) -> list[Message]:
        """The newest `limit` messages to or from a member, or of the whole team, in order; marks nothing."""

    def request_shutdown(
        self, member: str | None = None, *, reason: str | None = None, by: str | None = None
    ) -> dict[str, Any]:
        """Ask a member to stop, or announce the caller's own shutdown."""

    def answer_shutdown(
        self, request: str | None = None, *, approve: bool, reason: str | None = None, by: str | None = None
    ) -> dict[str, Any]:
        """Approve or reject a shutdown request."""

    def shutdown_requests(self) -> list[dict[str, Any]]:
        """Requests that are still open."""


class People(Protocol):
    """What waits for a human."""

    def questions(self) -> list[Question]:
        """Open questions, oldest first."""

    def reply(self, task: str, text: str, *, question: str | None = None, by: str | None = None) -> Task:
        """Answer a question about a task."""

    def ask(
        self,
        task: str,
        text: str,
        *,
        kind: str = "clarification",
        options: Sequence[str] = (),
        default: str | None = None,
        context: str | None = None,
        held: bool = False,
        reversible: bool = False,
        by: str | None = None,
    ) -> Question:
        """Ask a person about a task, which waits for the answer. `held`: the caller's session waits for it;
        `reversible`: a time-out may take the default."""

    def conversation(self, task: str) -> list[dict[str, Any]]:
        """Every question there was about the task, oldest first: a question's own fields, with `asked_by`, `state`,
        `answer`, `answered_by` and `answered_at`."""


class Speech(Protocol):
    """AOF/1: what agents say about their work."""

    def protocol(self, message: str | Mapping[str, Any], *, by: str | None = None) -> dict[str, Any]:
        """Act on one AOF/1 message: an envelope, its JSON text, or that after `AOF/1 `.

        Returns:
            `{"accepted", "type", "task_id"}`, with `reason` and `errors` (`[{"path", "message"}]`) where it was
            refused, and `applied` (whether anything changed) and `state` (of the task) where not.

        Raises:
            MemberNotFound: the caller is nobody. What is wrong with the message itself is in the answer.
        """

    def session_end(self, *, by: str | None = None) -> list[dict[str, Any]]:
        """Apply the results that the caller's runs have put down, of all runs for the lead and people.

        Returns:
            `[{"task_id", "run_id", "outcome", "applied", "state"}]`; without a result nothing happens.
        """

    def run_result(self, task: str) -> dict[str, Any] | None:
        """What the task's current run reported, as in `run_result.json`; null where it has not."""
