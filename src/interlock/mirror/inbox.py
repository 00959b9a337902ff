"""What `inbox/<member>/messages.jsonl` says. Loaded by the hook command, so free of heavy imports."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.model.message import Message


def lines(messages: Iterable[Message]) -> bytes:
    """One line for each message. They wait there until they are handed over, so `stage` says no more than that."""
    found = []
    for message in messages:
        fields = message.as_dict()
        fields["stage"] = "stored"
        found.append(json.dumps(fields, ensure_ascii=False) + "\n")
    return "".join(found).encode("utf-8", "surrogatepass")


def is_ours(data: bytes) -> bool:
    """Whether every line could be the mirror's; the last one may have been cut off."""
    *whole, _ = data.split(b"\n")
    try:
        values = [json.loads(line) for line in whole]
    except (ValueError, RecursionError):
        return False
    return all(isinstance(value, dict) and {"id", "sender", "to", "stage"} <= value.keys() for value in values)
