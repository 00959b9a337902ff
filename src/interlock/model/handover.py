"""What handing over mail is: how much at once, and as which text. Hooks pay for this module at every turn."""

from __future__ import annotations

from collections.abc import Iterable

READ_COUNT = 1000
READ_BYTES = 4_194_304
INJECT_COUNT = 100
INJECT_BYTES = 409_600
HOOK_COUNT = 50
HOOK_BYTES = 9_000
"""What one hook hands over at most; one message, whatever its length, always. Programs cut what is longer: the rest
comes with the next event."""
FRAME_BYTES = 300
"""What counts for a message beside its text."""


def fitting(lengths: Iterable[int], size: int) -> int:
    """How many of the first messages, with texts of these lengths, go together; the first one always does."""
    count = 0
    for length in lengths:
        size -= length + FRAME_BYTES
        if count and size < 0:
            break
        count += 1
    return count


def teammate_message(
    sender: str,
    type: str,
    content: str,
    *,
    summary: str | None,
    request_id: str | None,
    approve: bool | None,
    reason: str | None,
    redelivered: bool,
) -> str:
    """The block a hook puts before an agent's prompt (TEAM-3.xml). Everything from the message is escaped, so it can
    neither close its own tag nor forge another (decision 9)."""
    attributes = (
        ("teammate_id", sender),
        ("type", type),
        ("summary", summary),
        ("request_id", request_id),
        ("approve", None if approve is None else "true" if approve else "false"),
        ("reason", reason),
        ("redelivered", "true" if redelivered else None),
    )
    inside = "".join(f'\n  {name}="{escaped_attribute(value)}"' for name, value in attributes if value is not None)
    return f"<teammate-message{inside}>\n{escaped(content)}\n</teammate-message>\n"


def escaped(text: str) -> str:
    """`text` for XML content; a parser gives back the same, but characters XML forbids become U+FFFD."""
    text = (
        text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace('"', "&quot;")
        .replace("'", "&apos;")
        .replace("\r", "&#13;")  # a bare one would be read as a line feed
    )
    if text.isprintable():
        return text
    return "".join(
        c if c in "\n\t" or (c >= " " and c not in _FORBIDDEN) else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def escaped_attribute(text: str) -> str:
    """`text` for a double-quoted XML attribute, where bare line feeds and tabs would be read as blanks."""
    return escaped(text).replace("\n", "&#10;").replace("\t", "&#9;")


_FORBIDDEN = "\ufffe\uffff"
