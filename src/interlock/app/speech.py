"""AOF/1 as the verbs use it; loaded with the first message that may be AOF/1."""

from __future__ import annotations

from interlock.protocol.dropped import end_session as end_session
from interlock.protocol.message import parse as parse
from interlock.protocol.routing import HandlerFailed as HandlerFailed
from interlock.protocol.routing import broken as broken
from interlock.protocol.routing import prepare as prepare
from interlock.protocol.routing import route as route
from interlock.protocol.routing import within as within

__all__ = ["HandlerFailed", "broken", "end_session", "parse", "prepare", "route", "within"]
