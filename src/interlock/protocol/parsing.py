"""From what somebody said to an envelope, and whose text it is at all (decision 15).

What is not ours passes without a trace: plain chat, other protocols, text that happens to start with `{`. Ours is what
says `"protocol": "aof"`, and whatever starts with `AOF/1 `. What is ours and broken comes back with its reason. Nothing
here raises, however wild the input.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.protocol.envelope import PROTOCOL, Envelope, Fault, checked

PREFIX = "AOF/1 "
MESSAGE_BYTES = 10 * 1024 * 1024
DEPTH = 64
_HOLDERS = ("payload", "message", "content")


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a text turned out to be.

    `envelope` is set when it can be routed; else `reason` says why not: `not_protocol`, `invalid_json`,
    `invalid_envelope` or `payload_too_large`. `ours`: it claims to be AOF/1, so a refusal is written down.
    """

    ours: bool
    envelope: Envelope | None = None
    reason: str | None = None
    errors: list[Fault] = field(default_factory=list)
    type: str | None = None
    task_id: str | None = None


NOT_OURS = Parsed(False, reason="not_protocol")


def parse(said: object, *, explicit: bool = False) -> Parsed:
    """What `said` is: a text, or a mapping (an envelope, or an event that holds one as payload, message or content).

    Args:
        explicit: it came through a door that takes nothing but AOF/1, so that also what is not ours gets its faults.
    """
    if isinstance(said, str):
        return _parse_text(said, explicit)
    if isinstance(said, Mapping):
        if "protocol" not in said:
            held = next((said[name] for name in _HOLDERS if isinstance(said.get(name), (str, Mapping))), None)
            if isinstance(held, str) or (isinstance(held, Mapping) and "protocol" in held):
                return parse(held, explicit=explicit)
        return _parse_mapping(said, explicit)
    return _no_object() if explicit else NOT_OURS


def may_be_ours(text: str) -> bool:
    """A glance that costs nothing: whether `text` is worth parsing."""
    start = text.lstrip()
    return start.startswith(PREFIX) or (start.startswith("{") and f'"{PROTOCOL}"' in start)


def in_output(text: str) -> Iterator[str]:
    """The lines of an agent's output that speak to us."""
    for line in text.splitlines():
        if may_be_ours(line) and parse(line).ours:
            yield line


def _parse_mapping(said: Mapping[str, Any], explicit: bool) -> Parsed:
    ours = said.get("protocol") == PROTOCOL
    if not ours and not explicit:
        return NOT_OURS
    try:
        # Through its text: afterwards it is JSON and nothing else.
        text = json.dumps(said, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return _invalid_json(ours, str(error))
    return _parse_text(text, explicit)


def _parse_text(text: str, explicit: bool) -> Parsed:
    text = text.strip().removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    prefixed = text.startswith(PREFIX)
    if not prefixed and not explicit and not text.startswith("{"):
        return NOT_OURS
    try:
        if len(text) > MESSAGE_BYTES // 4 and len(text.encode()) > MESSAGE_BYTES:
            return _too_large(prefixed) if prefixed or explicit else NOT_OURS
        value = json.loads(text.removeprefix(PREFIX), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return _invalid_json(prefixed, str(error)) if prefixed or explicit else NOT_OURS
    if not isinstance(value, dict):
        return _no_object(prefixed) if prefixed or explicit else NOT_OURS
    ours = prefixed or value.get("protocol") == PROTOCOL
    if not ours and not explicit:
        return NOT_OURS
    fault = _unstorable(value, text)
    if fault is not None:
        return _invalid_json(ours, fault)
    kind, task = value.get("type"), value.get("taskId")
    envelope, errors = checked(value)
    return Parsed(
        ours,
        envelope,
        None if envelope is not None else "invalid_envelope",
        errors,
        kind[:100] if isinstance(kind, str) else None,
        task[:100] if isinstance(task, str) else None,
    )


def _unstorable(value: dict[str, Any], text: str) -> str | None:
    """Why a ledger and a file could not hold `value`, which `text` says; null where they can."""
    if text.count("{") + text.count("[") > DEPTH and _depth(value) > DEPTH:
        return f"nested deeper than {DEPTH}"
    if "\\u" in text or not text.isascii():
        for one in _texts(value):
            if "\x00" in one:
                return "a text holds a NUL character"
            try:
                one.encode()
            except UnicodeEncodeError as error:
                return f"no valid Unicode text: {error.reason}"
    return None


def _depth(value: object) -> int:
    """How deep `value` is nested, counted without recursion, so that nothing is too deep to be counted."""
    depth, level = 0, [value]
    while level:
        inner: list[object] = []
        for one in level:
            if isinstance(one, Mapping):
                inner += one.values()
            elif isinstance(one, (list, tuple)):
                inner += one
        level = [one for one in inner if isinstance(one, (Mapping, list, tuple))]
        depth += 1
        if depth > DEPTH:
            break
    return depth


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield str(name)
            yield from _texts(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _invalid_json(ours: bool, why: str) -> Parsed:
    return Parsed(ours, reason="invalid_json", errors=[Fault("", f"not valid JSON: {why}"[:500])])


def _too_large(ours: bool) -> Parsed:
    return Parsed(
        ours, reason="payload_too_large", errors=[Fault("", f"the message must have at most {MESSAGE_BYTES} bytes")]
    )


def _no_object(ours: bool = False) -> Parsed:
    return Parsed(ours, reason="invalid_envelope", errors=[Fault("", "the message must be one JSON object")])
