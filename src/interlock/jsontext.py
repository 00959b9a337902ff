"""JSON for what every hook loads: `json` brings `re` and `enum` with it, and costs a third of a hook's start.

The work is done by the part of it that is written in C, as `json` itself has it done.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_scan: Callable[[str, int], tuple[Any, int]] | None = None


class _Reading:
    """How numbers and objects are read, as `json` does."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def from_json(text: str) -> Any:
    """What a JSON text means.

    Raises:
        ValueError: it is none.
    """
    global _scan
    whole = text.rstrip(" \t\n\r")
    try:
        if _scan is None:
            from _json import make_scanner

            _scan = make_scanner(_Reading())  # type: ignore[arg-type]
        value, end = _scan(whole, 0)
        if end == len(whole):
            return value
    except (ImportError, StopIteration, SystemError):
        pass  # SystemError: an error whose class it would take from `json.decoder`, which is not loaded yet.
    import json  # there is no such part, or this may be an error, for which it has the words

    return json.loads(text)


def json_string(text: str) -> str:
    """`text` as a JSON string."""
    try:
        from _json import encode_basestring_ascii
    except ImportError:
        import json

        return json.dumps(text)
    return encode_basestring_ascii(text)
