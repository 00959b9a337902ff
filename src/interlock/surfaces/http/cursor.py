"""Where a reader of all teams stands: the number of the last event of each team, in one opaque text.

A team is known by five bytes of the digest of its id, so that a team made anew under an old name begins at its
beginning, and so that the text stays short: about ten bytes a team before it is made printable. `0` is the beginning of
everything.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping

from interlock.errors import InvalidRequest

BEGINNING = "0"
MARK = "c1"
"""How every cursor but `0` begins; the digit is the version of what follows."""
KEY_BYTES = 5
LONGEST = 20_000


def key_of(team_id: str) -> bytes:
    """How a team stands in a cursor."""
    return hashlib.sha256(team_id.encode()).digest()[:KEY_BYTES]


def written(positions: Mapping[bytes, int]) -> str:
    """The cursor that stands for these positions."""
    raw = b"".join(key + _number(seq) for key, seq in sorted(positions.items()))
    return MARK + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read(text: str) -> dict[bytes, int]:
    """The reverse of `written`.

    Raises:
        InvalidRequest: `text` is no cursor.
    """
    if text == BEGINNING:
        return {}
    try:
        if not text.startswith(MARK) or len(text) > LONGEST:
            raise ValueError(text)
        raw = base64.b64decode(text[len(MARK) :] + "=" * (-len(text[len(MARK) :]) % 4), altchars=b"-_", validate=True)
        found, place = {}, 0
        while place < len(raw):
            key = raw[place : place + KEY_BYTES]
            found[key], place = _read_number(raw, place + KEY_BYTES)
        return found
    except (ValueError, IndexError, binascii.Error):
        raise InvalidRequest(
            "That is no cursor. Use the `id` of the last event you have, `0` for everything, or none for what comes.",
            field="after",
        ) from None


def _number(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_number(raw: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[place]
        value |= (byte & 0x7F) << shift
        place += 1
        shift += 7
        if byte < 0x80:
            return value, place
        if shift > 63:
            raise ValueError("no such number")
