"""JSON whose form is not ours to know: task metadata, event payloads, unknown fields of AOF messages."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
