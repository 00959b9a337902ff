"""Mail of a team: sending, handing over, history, and the shutdown handshake."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import isnan
from typing import TypeVar, Unpack

from interlock import app, core, model, runner
from interlock.app.base import TeamBase, plain, whole_number
from interlock.clock import iso
from interlock.core.unit_of_work import UnitOfWork, unknown_member
from interlock.errors import InterlockError, InvalidRequest
from interlock.model import handover
from interlock.model.names import HUMAN
from interlock.processes.ref import alive, current
from interlock.storage.ledger import Rows

T = TypeVar("T")

PROTOCOL_STARTS = ("AOF/1 ", "{")
"""How a text begins that may be AOF/1: a glance, so that ordinary mail does not load the protocol."""

LOOK_AGAIN = 5.0
"""Seconds between two looks for what frees a message without a commit."""


class Mail:
    """Messages being handed over. Leaving the `with` block marks them delivered; an exception gives them back."""

    def __init__(
        self, messages: list[model.message.Message], timed_out: bool, state: str, back: Callable[[], None]
    ) -> None:
        self.messages = messages
        """What is handed over, in the order of sending, urgent messages first."""
        self.timed_out = timed_out
        """Whether waiting ended without a message (CORE-FR-008)."""
        self.state = state
        """The state of the team, for a lead who asked for it before a prompt."""
        self._return = back

    def as_xml(self) -> str:
        """The messages as `<teammate-message>` blocks, for the lead after one with the team's state; may be empty."""
        return self.state + "".join(model.message.as_xml(message) for message in self.messages)

    def give_back(self) -> None:
        """Offer the messages again: they were handed over, but not read."""
        if self.messages:
            self._return()


class Mailing(TeamBase):
    """The mail of one member."""

    def send(
        self, sender: str | None = None, *, to: str, content: str, **fields: Unpack[model.message.MessageFields]
    ) -> model.message.Message:
        """Send one message. A `client_id` of your own makes a repeated send harmless.

        Args:
            fields: what `MessageFields` lists.

        Raises:
            MemberNotFound: there is no such recipient.
            InvalidRequest: the content is empty or too long, or a field makes no sense.
        """
        if "metadata" in fields:
            fields["metadata"] = plain(fields["metadata"])
        asks = isinstance(type := fields.get("type"), str) and type.startswith("shutdown_")
        store: Callable[..., model.message.Message] = core.shutdown.send_message if asks else core.mailbox.send
        return self._store(sender, content, fields.get("client_id"), lambda act: store(act, to, content, **fields))

    def broadcast(
        self, sender: str | None = None, *, content: str, summary: str | None = None, client_id: str | None = None
    ) -> model.message.Broadcast:
        """Send to all members but the sender."""
        store = partial(core.mailbox.broadcast, content=content, summary=summary, client_id=client_id)
        return self._store(sender, content, client_id, store)

    @contextmanager
    def mail(
        self, *, wait: float | None = None, urgent_only: bool = False, inject: bool = False, again: bool = False,
        only_offer: bool = False, by: str | None = None, given_up: Callable[[], bool] = lambda: False,
    ) -> Iterator[Mail]:  # fmt: skip
        """Hand over the caller's mail; with `wait`, sleep up to that many seconds until there is some.

        Args:
            given_up: whether nobody waits any longer; the wait then ends without a message, within half a second.
            only_offer: leaving the block marks nothing: `finish_handover` has to follow, from where the mail is read.
            inject: bound the amount to what fits before a prompt, and add the team's state for the lead.
            again: only `acknowledge` acknowledges; what was handed over before and never acknowledged comes again.

        Raises:
            InvalidRequest: `wait` is not a number.
        """
        if wait is not None and (not isinstance(wait, (int, float)) or isinstance(wait, bool) or isnan(wait)):
            raise InvalidRequest(f"wait must be a number of seconds, not {wait!r}.", field="wait")
        hurried = inject and wait is None  # A hook does without what takes time.
        offer = partial(self._offer, by, urgent_only, inject, hurried)
        later = wait is not None and not again and self._has_acted(by)
        messages, state = ([], "") if later else offer("again" if again else "seen")
        timed_out, began, closes = False, time.monotonic(), self._workspace.closes

        def over() -> bool:
            return self._workspace.closes != closes or given_up()

        # Another waiter of that member may be quicker; then we wait on.
        while wait is not None and not messages and not timed_out:
            timed_out = not self._wait(by, wait - (time.monotonic() - began), urgent_only, over)
            if over():
                break
            messages, state = offer("unknown" if again else "seen")
        with self._handing_over(messages, by, delivers=not only_offer):
            yield Mail(messages, timed_out and not messages, state, lambda: self._give_back(by, messages))

    def inbox(self, member: str | None = None, *, limit: int = 100, after: int = 0) -> list[model.message.Message]:
        """What the caller, or that member, has not acknowledged, in order: the first `limit` after number `after`.

        Nothing is marked.

        Raises:
            MemberNotFound: there is no such member.
        """
        whole_number(limit, "limit")
        whole_number(after, "after")
        with self._workspace.look() as rows:
            name = member or self._caller.name
            found = rows.team.address(name)
            if found is None and name != self._caller.name:
                raise unknown_member(rows, name)
            # A person who was here only to look has no address.
            return [] if found is None else rows.messages.unacknowledged(found[0], limit, after)

    def read(self, by: str | None = None) -> list[model.message.Message]:
        """Hand over the caller's mail as this call's return value."""
        with self.mail(by=by) as mail:
            return mail.messages

    def acknowledge(self, ids: Sequence[str], *, by: str | None = None) -> list[str]:
        """Mark these messages as seen; returns those that now are, or were before."""
        with self._act(by) as act:
            return core.mailbox.acknowledge(act, ids)

    def history(
        self, *, member: str | None = None, limit: int = 100, before: int | None = None
    ) -> list[model.message.Message]:
        """The newest `limit` messages to or from a member, or of the whole team, in order. Nothing is marked.

        Raises:
            MemberNotFound: there is no such member.
        """
        whole_number(limit, "limit")
        whole_number(before, "before")
        with self._workspace.look() as rows:
            name = member
            if member not in (None, HUMAN):
                found = rows.team.address(str(member))
                if found is None:
                    raise unknown_member(rows, str(member))
                name = found[0]
            return rows.messages.history(member=name, limit=limit, before=before)

    def request_shutdown(
        self, member: str | None = None, *, reason: str | None = None, by: str | None = None
    ) -> model.question.StopRequest:
        """Ask a member to stop, or announce the caller's own shutdown.

        Raises:
            MemberNotFound: nobody of that name.
            Forbidden: a plain member asks another to stop.
        """
        with self._act(by) as act:
            return core.shutdown.request(act, member, reason=reason)

    def answer_shutdown(
        self, request: str | None = None, *, approve: bool, reason: str | None = None, by: str | None = None
    ) -> model.question.StopRequest:
        """Approve or reject a shutdown request."""
        with self._act(by) as act:
            return core.shutdown.answer(act, request, approve=approve, reason=reason)

    def shutdown_requests(self) -> list[model.question.StopRequest]:
        """Requests that are still open."""
        with self._workspace.look() as rows:
            now = self._now()
            return [found for found in rows.requests.open() if found.expires_at > now]

    def _store(self, by: str | None, content: str, client_id: str | None, store: Callable[[UnitOfWork], T]) -> T:
        """Run `store` as a verb. What agents say in AOF/1 they may say by mail too: it is acted on at once.

        One transaction for both: mail and what it reports stand or fall together, so that no crash leaves a report that
        was delivered as text and never took effect, and a repeated send is not acted on twice. Only a handler that
        breaks is undone, and the mail then stored without it.
        """
        speaks = isinstance(content, str) and content.lstrip().startswith(PROTOCOL_STARTS)
        if not speaks or not (parsed := app.speech.parse(content)).ours:
            with self._act(by) as act:
                return store(act)
        mark = runner.run_processes.verifier()
        incoming = app.speech.prepare(self._workspace, parsed, mark)
        try:
            with self._act(by) as act:
                sent = isinstance(client_id, str) and bool(act.rows.messages.by_client_id(act.name, client_id))
                stored = store(act)
                answer = None if sent else app.speech.within(act, parsed, incoming)
        except app.speech.HandlerFailed as failure:
            with self._act(by) as act:
                stored = store(act)
                answer = app.speech.broken(act, parsed, failure)
        if answer is not None and answer.verifying is not None:
            self._settled(answer.verifying, mark, by)
        return stored

    def finish_handover(self, numbers: Sequence[int], *, delivered: bool) -> list[str]:
        """Mark offered messages as delivered, or put them back into the inbox; the ids of those delivered.

        For hooks, which offer what waits by themselves.
        """
        with self._act() as act:
            if delivered:
                return core.mailbox.deliver(act, numbers)
            core.mailbox.give_back(act, numbers, "not_handed_over")
            return []

    @contextmanager
    def _handing_over(
        self, messages: list[model.message.Message], by: str | None = None, *, delivers: bool = True
    ) -> Iterator[None]:
        """Second half of handing over what was offered: delivered when the block ends, given back when it raises."""
        try:
            yield
        except BaseException:
            if messages:
                self._give_back(by, messages)
            raise
        if messages and delivers:
            with self._act(by) as act:
                delivered = set(core.mailbox.deliver(act, [message.n for message in messages]))
            for message in messages:
                if message.id in delivered:
                    message.stage = "delivered"

    def _offer(
        self, by: str | None, urgent_only: bool, inject: bool, hurried: bool, earlier: str
    ) -> tuple[list[model.message.Message], str]:
        with self._act(by) as act:
            if not hurried:
                # Whoever asked for a shutdown reads here that nobody answered.
                core.shutdown.expire(act)
            messages = core.mailbox.offer(
                act, current().as_text(), alive, urgent_only=urgent_only, earlier=earlier,
                count=handover.INJECT_COUNT if inject else handover.READ_COUNT,
                size=handover.INJECT_BYTES if inject else handover.READ_BYTES,
            )  # fmt: skip
            return messages, core.teams.state_block(act) if inject and act.role == "lead" else ""

    def _give_back(self, by: str | None, messages: list[model.message.Message]) -> None:
        # Where that fails they stay offered, and are offered again when this process has ended; the error that brought
        # us here matters more.
        with suppress(InterlockError), self._act(by) as act:
            core.mailbox.give_back(act, [message.n for message in messages], "not_handed_over")

    def _has_acted(self, by: str | None) -> bool:
        """Whether the caller's session has acted before, so that looking without a transaction misses nothing."""
        caller = self._as(by)
        with self._workspace.look() as rows:
            found = rows.team.address(caller.name)
            return found is not None and rows.sessions.known(found[0], caller.session or f"cli:{found[0]}")

    def _wait(self, by: str | None, seconds: float, urgent_only: bool, over: Callable[[], bool]) -> bool:
        """Sleep until the caller has mail; False when the time is up, or the wait is `over`."""
        workspace = self._workspace
        with workspace.ledger.snapshot() as rows:
            found = rows.team.address(self._as(by).name)
        name = found[0] if found is not None else self._as(by).name
        ends = time.monotonic() + seconds

        def look() -> bool | core.waiting.StillWaiting:
            if over():
                return False
            with workspace.ledger.snapshot() as rows:
                now = workspace.clock.now()
                if core.mailbox.waits(rows, name, now, alive, urgent_only) or _unanswered(rows, name, iso(now)):
                    return True
            return core.waiting.StillWaiting(ends - time.monotonic())

        # Not all that frees a message is a commit: the process that was handing it over may have died.
        wait = core.waiting.Wait(workspace, [f"inbox:{name}"], look, changed=over, again=LOOK_AGAIN)
        return wait.blocking() is True


def _unanswered(rows: Rows, name: str, now: str) -> bool:
    """Whether a shutdown request of that member ran out, which it is told by mail."""
    return any(found.asked_by == name and found.expires_at <= now for found in rows.requests.open())
