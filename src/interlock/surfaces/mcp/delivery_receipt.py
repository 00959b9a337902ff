"""Mail counts as delivered only once the answer that carries it was written (decision 5).

A call that hands over mail opens a `DeliveryReceipt` under the id of its request and keeps the `with` block of
`Team.mail` open in it. Whoever writes the answer ends the receipt: written, and the block is left normally
(*delivered*); not written, because the client is gone, cancelled the call or the write failed, and it is left with an
exception (the mail is given back).

A client that cancels a call looks at no answer to it, not even at one that was already on its way: what that answer
carried is given back too.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from contextlib import AbstractContextManager

from interlock.app.mail import Mail
from interlock.errors import InterlockError

REMEMBERED = 64
"""Answers whose mail can still be given back: a cancellation crosses only the answer of a call that was under way."""


class NotDelivered(Exception):
    """The answer that carried the mail was not written."""


class DeliveryReceipt:
    """The mail of one answer. Safe to use from any thread; what ends it first counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = False
        self._context: AbstractContextManager[Mail] | None = None
        self.mail: Mail | None = None

    def ended(self) -> bool:
        """Whether the answer was written, or never will be: nobody waits for it."""
        return self._ended

    def begin(self, context: AbstractContextManager[Mail]) -> Mail:
        """Enter `context`, which may sleep, and keep it open.

        Raises:
            NotDelivered: the call was given up meanwhile; its mail went back.
        """
        mail = context.__enter__()
        with self._lock:
            given_up = self._ended
            if not given_up:
                self._context, self.mail = context, mail
        if given_up:
            _leave(context, written=False)
            raise NotDelivered
        return mail

    def end(self, written: bool) -> None:
        """Note that the answer was written, or never will be. A second call changes nothing."""
        with self._lock:
            context = None if self._ended else self._context
            self._ended = True
        if context is not None:
            _leave(context, written=written)


class DeliveryReceipts:
    """The receipts of one connection, by request id."""

    def __init__(self) -> None:
        self._open: dict[str | int, DeliveryReceipt] = {}
        self._written: OrderedDict[str | int, Mail] = OrderedDict()
        self._lock = threading.Lock()
        self.writing = threading.Lock()
        """Held while an answer is written and its mail noted as delivered."""

    def open(self, request: str | int) -> DeliveryReceipt:
        made = DeliveryReceipt()
        with self._lock:
            replaced = self._open.get(request)
            self._open[request] = made
        if replaced is not None:
            replaced.end(False)
        return made

    def end(self, request: str | int, written: bool) -> None:
        """Note that the answer to `request` was written, or never will be."""
        with self._lock:
            ended = self._open.pop(request, None)
            if ended is not None and written and ended.mail is not None:
                self._written[request] = ended.mail
                if len(self._written) > REMEMBERED:
                    self._written.popitem(last=False)
        if ended is not None:
            ended.end(written)

    def cancel(self, request: str | int) -> None:
        """Give back the mail of `request`, which the client cancelled: it looks at no answer to it."""
        with self._lock:
            written = self._written.pop(request, None)
        if written is not None:
            written.give_back()
        else:
            self.end(request, False)

    def end_all(self, written: bool = False) -> None:
        """End every open receipt: the connection is closed, or everything was written."""
        with self._lock:
            requests = list(self._open)
        for request in requests:
            self.end(request, written)

    def settle(self) -> None:
        """Wait until what the client may have read already is also noted as delivered.

        A client asks again within microseconds of reading an answer; without this its next call would find the mail of
        that answer still unread.
        """
        with self.writing:
            pass


def _leave(context: AbstractContextManager[Mail], *, written: bool) -> None:
    error = None if written else NotDelivered("the answer was not written")
    try:
        context.__exit__(None if error is None else type(error), error, None)
    except NotDelivered:
        pass
    except InterlockError as refusal:
        # Nobody is left to tell. The mail stays offered and is offered again later, so nothing is lost.
        stage = "delivered" if written else "unread"
        print(f"interlock mcp: mail could not be noted as {stage}: {refusal}", file=sys.stderr)
