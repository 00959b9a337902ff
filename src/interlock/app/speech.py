"""AOF/1 as the verbs use it; loaded with the first message that may be AOF/1."""

from __future__ import annotations

from interlock.protocol.dropped import AppliedResult, end_session
from interlock.protocol.envelope import schema
from interlock.protocol.message import MESSAGE_BYTES, ProtocolAnswer, parse
from interlock.protocol.routing import HandlerFailed, broken, prepare, route, within

__all__ = [
    "MESSAGE_BYTES", "AppliedResult", "HandlerFailed", "ProtocolAnswer", "broken", "end_session", "parse", "prepare",
    "route", "schema", "within",
]  # fmt: skip
