"""Mail of a local team. Loaded by the hook command: only what handing over needs is imported here."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial

from interlock.clients.local.base import LocalBase, plain, whole_number
from interlock.clock import iso
from interlock.core import mailbox
from interlock.core import shutdown as shutdown_expiry
from interlock.core.unit_of_work import unknown_member
from interlock.core.waiting import StillWaiting, Wait
from interlock.errors import InterlockError, InvalidRequest
from interlock.model.message import as_xml
from interlock.model.names import HUMAN
from interlock.processes import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from interlock.core.unit_of_work import UnitOfWork
    from interlock.model.message import Message
    from interlock.storage.ledger import Rows

    T = TypeVar("T")

SPEECH = ("AOF/1 ", "{")
"""How a text begins that may be AOF/1: a glance, so that ordinary mail does not load the protocol."""

LOOK_AGAIN = 5.0
"""Seconds between two looks for what frees a message without a commit."""


class LocalMail:
    """See `client.Mail`."""

    __slots__ = ("_return", "_state", "messages", "timed_out")

    def __init__(self, messages: list[Message], timed_out: bool, state: str, back: Callable[[], None]) -> None:
        self.messages = messages
        self.timed_out = timed_out
        self._state = state
        self._return = back

    def as_xml(self) -> str:
        """See `client.Mail.as_xml`."""
        return self._state + "".join(as_xml(message) for message in self.messages)

    def give_back(self) -> None:
        """See `client.Mail.give_back`."""
        if self.messages:
            self._return()


class LocalMailing(LocalBase):
    """See `client.Mailing`."""

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
        fields: dict[str, Any] = {
            "type": type, "summary": summary, "urgent": urgent, "request_id": request_id, "approve": approve,
            "reason": reason, "metadata": plain(metadata), "client_id": client_id,
        }  # fmt: skip

        def store(act: UnitOfWork) -> Message:
            if isinstance(type, str) and type.startswith("shutdown_"):
                from interlock.core import shutdown

                return shutdown.send_message(act, to, content, **fields)
            return mailbox.send(act, to, content, **fields)

        return self._store(sender, content, client_id, store)

    def broadcast(
        self, sender: str | None = None, *, content: str, summary: str | None = None, client_id: str | None = None
    ) -> dict[str, Any]:
        def store(act: UnitOfWork) -> dict[str, Any]:
            return mailbox.broadcast(act, content, summary=summary, client_id=client_id)

        return self._store(sender, content, client_id, store)

    @contextmanager
    def mail(
        self, *, wait: float | None = None, urgent_only: bool = False, inject: bool = False, again: bool = False,
        by: str | None = None,
    ) -> Iterator[LocalMail]:  # fmt: skip
        if wait is not None and (not isinstance(wait, (int, float)) or isinstance(wait, bool)):
            raise InvalidRequest(f"wait must be a number of seconds, not {wait!r}.", field="wait")
        hurried = inject and wait is None  # A hook does without what takes time.
        offer = partial(self._offer, by, urgent_only, inject, hurried)
        later = wait is not None and not again and self._has_begun(by)
        messages, state = ([], "") if later else offer("again" if again else "seen")
        timed_out, began, closes = False, time.monotonic(), self._workspace.closes
        # Another waiter of that member may be quicker; then we wait on.
        while wait is not None and not messages and not timed_out:
            timed_out = not self._wait(by, wait - (time.monotonic() - began), urgent_only, closes)
            if self._workspace.closes != closes:
                break
            messages, state = offer("unknown" if again else "seen")
        with self._handing_over(messages, by):
            yield LocalMail(messages, timed_out and not messages, state, lambda: self._give_back(by, messages))

    @contextmanager
    def _handing_over(self, messages: list[Message], by: str | None = None) -> Iterator[None]:
        """Second half of handing over what was offered: delivered when the block ends, given back when it raises."""
        try:
            yield
        except BaseException:
            if messages:
                self._give_back(by, messages)
            raise
        if messages:
            with self._act(by) as act:
                delivered = set(mailbox.deliver(act, [message.n for message in messages]))
            for message in messages:
                if message.id in delivered:
                    message.stage = "delivered"

    def inbox(self, member: str | None = None, *, limit: int = 100, after: int = 0) -> list[Message]:
        whole_number(limit, "limit")
        whole_number(after, "after")
        with self._workspace.look() as rows:
            name = member or self._as(None).name
            found = rows.team.address(name)
            if found is None and name != self._as(None).name:
                raise unknown_member(rows, name)
            if found is None:
                return []  # A person who was here to look only.
            return rows.messages.unacknowledged(found[0], limit, after)

    def read(self, by: str | None = None) -> list[Message]:
        with self.mail(by=by) as mail:
            return mail.messages

    def acknowledge(self, ids: Sequence[str], *, by: str | None = None) -> list[str]:
        with self._act(by) as act:
            return mailbox.acknowledge(act, ids)

    def history(self, *, member: str | None = None, limit: int = 100, before: int | None = None) -> list[Message]:
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
    ) -> dict[str, Any]:
        from interlock.core import shutdown

        with self._act(by) as act:
            return shutdown.request(act, member, reason=reason)

    def answer_shutdown(
        self, request: str | None = None, *, approve: bool, reason: str | None = None, by: str | None = None
    ) -> dict[str, Any]:
        from interlock.core import shutdown

        with self._act(by) as act:
            return shutdown.answer(act, request, approve=approve, reason=reason)

    def shutdown_requests(self) -> list[dict[str, Any]]:
        with self._workspace.look() as rows:
            now = iso(self._workspace.clock.now())
            return [found for found in rows.requests.open() if found["expires_at"] > now]

    def _store(self, by: str | None, content: str, client_id: str | None, store: Callable[[UnitOfWork], T]) -> T:
        """Run `store` as a verb. What agents say in AOF/1 they may say by mail too: it is acted on at once."""
        if not isinstance(content, str) or not content.lstrip().startswith(SPEECH):
            with self._act(by) as act:
                return store(act)
        from interlock.clients.local.speech import heard

        def repeated(act: UnitOfWork) -> bool:
            return isinstance(client_id, str) and bool(act.rows.messages.by_client_id(act.name, client_id))

        return heard(self, by, content, store, repeated)

    def _offer(
        self, by: str | None, urgent_only: bool, inject: bool, hurried: bool, earlier: str
    ) -> tuple[list[Message], str]:
        state = ""
        with self._act(by) as act:
            if not hurried:
                # Who asked for a shutdown reads here that nobody answered.
                shutdown_expiry.expire(act)
            messages = mailbox.offer(
                act, ref.current().as_text(), ref.alive, urgent_only=urgent_only, earlier=earlier,
                count=mailbox.INJECT_COUNT if inject else mailbox.READ_COUNT,
                size=mailbox.INJECT_BYTES if inject else mailbox.READ_BYTES,
            )  # fmt: skip
            if inject and act.role == "lead":
                from interlock.core.teams import state_block

                state = state_block(act)
        return messages, state

    def _give_back(self, by: str | None, messages: list[Message]) -> None:
        try:
            with self._act(by) as act:
                mailbox.give_back(act, [message.n for message in messages], "not_handed_over")
        except InterlockError:
            pass  # They stay offered, and are offered anew when this process has ended; the first error matters more.

    def _has_begun(self, by: str | None) -> bool:
        """Whether the caller's session has acted before, so that looking without a transaction misses nothing."""
        caller = self._as(by)
        with self._workspace.look() as rows:
            found = rows.team.address(caller.name)
            return found is not None and rows.sessions.known(found[0], caller.session or f"cli:{found[0]}")

    def _wait(self, by: str | None, seconds: float, urgent_only: bool, closes: int) -> bool:
        """Sleep until the caller has mail; False when the time is up, or the home is closed once more than `closes`."""
        workspace = self._workspace
        with workspace.ledger.snapshot() as rows:
            found = rows.team.address(self._as(by).name)
        name = found[0] if found is not None else self._as(by).name
        ends = time.monotonic() + seconds

        def look() -> bool | StillWaiting:
            if workspace.closes != closes:
                return False
            with workspace.ledger.snapshot() as rows:
                now = workspace.clock.now()
                if mailbox.waits(rows, name, now, ref.alive, urgent_only) or _silence(rows, name, iso(now)):
                    return True
            return StillWaiting(ends - time.monotonic())

        # Not all that frees a message is a commit: who was handing it over may have died.
        wait = Wait(workspace, [f"inbox:{name}"], look, changed=lambda: workspace.closes != closes, again=LOOK_AGAIN)
        return wait.blocking() is True


def _silence(rows: Rows, name: str, now: str) -> bool:
    """Whether a shutdown request of that member ran out, which it is told by mail."""
    return any(found["asked_by"] == name and found["expires_at"] <= now for found in rows.requests.open())
