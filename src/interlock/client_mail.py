"""PORT: the part of `client` that is about mail. Kept apart since a hook needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from interlock.model.message import Message


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
        self, *, wait: float | None = None, urgent_only: bool = False, inject: bool = False, by: str | None = None
    ) -> AbstractContextManager[Mail]:
        """Hand over the caller's mail; with `wait`, sleep up to so many seconds for some to come.

        `inject` bounds the amount to what fits before a prompt, and adds the team's state for the lead.
        """

    def read(self, by: str | None = None) -> list[Message]:
        """Hand over the caller's mail as this call's return value."""

    def acknowledge(self, ids: Sequence[str], *, by: str | None = None) -> list[str]:
        """Say that these messages were seen."""

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
