"""From text to a message, and what its handler is given and gives back.

What is not ours passes without a trace (decision 15): plain chat, other protocols, text that happens to start with `{`.
Ours is what says `"protocol": "aof"`, and whatever starts with `AOF/1 `. What is ours and broken comes back with its
reason. `parse` never raises, however wild the input.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from interlock.core.unit_of_work import UnitOfWork
from interlock.lazy_dataclass import dataclass
from interlock.model.task import MOVES, Task
from interlock.protocol.envelope import PROTOCOL, Envelope, FieldError, checked

PREFIX = "AOF/1 "
MESSAGE_BYTES = 10 * 1024 * 1024
DEPTH = 64
_HOLDERS = ("payload", "message", "content")


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """What a text turned out to be.

    `envelope` is set when it can be routed; else `reason` says why not: `not_protocol`, `invalid_json`,
    `invalid_envelope` or `payload_too_large`. `ours`: it claims to be AOF/1, so a refusal is written down.
    """

    ours: bool
    envelope: Envelope | None = None
    reason: str | None = None
    errors: list[FieldError] = field(default_factory=list)
    type: str | None = None
    task_id: str | None = None


NOT_OURS = ParsedMessage(False, reason="not_protocol")


def parse(said: object, *, explicit: bool = False) -> ParsedMessage:
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
        ours = said.get("protocol") == PROTOCOL
        if not ours and not explicit:
            return NOT_OURS
        try:
            # Through its text: afterwards it is JSON and nothing else.
            text = json.dumps(said, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            return _invalid_json(ours, str(error))
        return _parse_text(text, explicit)
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


def _parse_text(text: str, explicit: bool) -> ParsedMessage:
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
    return ParsedMessage(
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


def _invalid_json(ours: bool, why: str) -> ParsedMessage:
    return ParsedMessage(ours, reason="invalid_json", errors=[FieldError("", f"not valid JSON: {why}"[:500])])


def _too_large(ours: bool) -> ParsedMessage:
    return ParsedMessage(
        ours,
        reason="payload_too_large",
        errors=[FieldError("", f"the message must have at most {MESSAGE_BYTES} bytes")],
    )


def _no_object(ours: bool = False) -> ParsedMessage:
    return ParsedMessage(
        ours, reason="invalid_envelope", errors=[FieldError("", "the message must be one JSON object")]
    )


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """One message on its way through a handler.

    `verifier` names the process that runs the task's verify, should the message lead to one; `missing` is why the
    summary that the message points to cannot be read, null where it can.
    """

    envelope: Envelope
    verifier: str | None = None
    missing: str | None = None


@dataclass(slots=True)
class HandlerResult:
    """What came of it: the task as it is now, and whether anything but the record of the message changed."""

    task: Task
    applied: bool


@dataclass(slots=True)
class ProtocolAnswer:
    """What a message came to: why it was refused, or whether it changed anything (`applied`) and the task's `state`.

    `verifying` is the task whose check the caller has to run now."""

    accepted: bool
    type: str | None = None
    task_id: str | None = None
    reason: str | None = None
    errors: list[FieldError] = field(default_factory=list)
    applied: bool | None = None
    state: str | None = None
    warnings: list[str] = field(default_factory=list)
    verifying: Task | None = None

    def as_dict(self) -> dict[str, Any]:
        """The contract's shape; what does not apply is left out."""
        found: dict[str, Any] = {"accepted": self.accepted, "type": self.type, "task_id": self.task_id}
        for name in ("reason", "applied", "state"):
            if getattr(self, name) is not None:
                found[name] = getattr(self, name)
        if self.errors:
            found["errors"] = [error.as_dict() for error in self.errors]
        if self.warnings:
            found["warnings"] = list(self.warnings)
        return found


def write_log(act: UnitOfWork, task: Task, author: str, **parts: str | list[str] | None) -> bool:
    """Append `Progress: … | Notes: … | Blockers: a, b` to the task's Work Log; false where nothing is said."""
    said = []
    for name, value in parts.items():
        text = ", ".join(value) if isinstance(value, list) else value
        if text:
            said.append(f"{name.capitalize()}: {text}")
    if not said:
        return False
    text = " | ".join(said)
    act.rows.tasks.add_log(task.id, act.at, author, text)
    act.rows.tasks.update(task, updated_at=act.at)
    act.event("task.logged", task.id, text=text)
    act.topics.add("tasks")
    return True


def words(blockers: list[str] | None, *others: str | None) -> str | None:
    """The reason in a message: its blockers, else the first of the other texts there is."""
    if blockers:
        return "; ".join(blockers)
    return next((text for text in others if text), None)


def may_go(state: str, path: list[str]) -> bool:
    """Whether the state machine allows that path."""
    for target in path:
        if target not in MOVES[state]:
            return False
        state = target
    return True
