"""How an agent's words are recognised as "not now": a usage limit, an overload, an expired login.

What counts is data of its profile (`Limit`); when there will be some again is read from the words themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import pydantic.dataclasses
from pydantic import AfterValidator, Field, StrictBool

from interlock.lazy_dataclass import dataclass


def _expression(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"has a pattern that is no regular expression: {error}") from None
    return pattern


@pydantic.dataclasses.dataclass(frozen=True, config=pydantic.ConfigDict(extra="forbid"))
class Limit:
    """One sign that there is no capacity.

    `pattern` is looked for in what the agent gives as the reason of a failure, without regard to case. `whole`: also in
    the last line it said, which it must then match entirely; for programs that end such a turn as if all were well.
    `after`: when to try again in seconds where the words do not say; None: nobody knows. `login`: it is a person who
    has to do something.
    """

    pattern: Annotated[str, AfterValidator(_expression)]
    whole: StrictBool = False
    after: Annotated[float, Field(ge=0, strict=True)] | None = None
    login: StrictBool = False


@dataclass(frozen=True, slots=True)
class Shortage:
    """There is no capacity; `retry_at` is in seconds since the epoch."""

    reason: str
    retry_at: float | None
    login: bool


def recognise(limits: Sequence[Limit], reason: str, last_line: str, now: float) -> Shortage | None:
    """The shortage that `reason` (of a failure, empty for none) or the last line of a turn tells of."""
    for limit in limits:
        for text in filter(None, (reason, last_line.strip() if limit.whole else "")):
            found = (re.search if text is reason else re.fullmatch)(limit.pattern, text, re.IGNORECASE)
            if found is not None:
                when = None if limit.login else retry_at(text, now)
                if when is None and limit.after is not None:
                    when = now + limit.after
                said = " ".join(text.partition("\n")[0].split())
                return Shortage(said if len(said) <= 300 else said[:299] + "…", when, limit.login)
    return None


def waiting(limits: Sequence[Limit], line: str, now: float) -> Shortage | None:
    """The shortage that a program sits out by itself, as a line that it prints beside the protocol tells."""
    found = recognise(limits, line, "", now) if _WAITS.search(line) else None
    return None if found is None or found.login else Shortage(found.reason, retry_at(line, now), False)


_EPOCH = re.compile(r"(?<!\d)(1[6-9]\d{8}|[2-9]\d{9})(\d{3})?(?!\d)")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_SPAN = re.compile(
    r"(?:\b(?:in|after|wait)\s|retry[-_]after\"?:?|\"retryDelay\":)\s*\"?((?:(?:about|~)\s*)?\d(?:[^.;)\"\n]|\.\d)*)",
    re.IGNORECASE,
)
_PART = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|d|days?|h|hrs?|hours?|min|mins|minutes?|m|s|sec|secs|seconds?)?(?![a-z])", re.IGNORECASE
)
_DATE = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
_WAITS = re.compile(r"\b(retry|retrying|trying again|waiting)\b", re.IGNORECASE)
_CLOCK = re.compile(
    r"(?:resets?|again|until)\s*(?:at\s+)?(?:(?P<month>[A-Z][a-z]{2})[a-z]{0,6}\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+"
    r"(?:(?P<year>\d{4}),?\s+)?(?:at\s+)?)?(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap]\.?m\b\.?)?"
    r"(?:\s*\((?P<zone>[A-Za-z_+\-/0-9]+)\))?",
    re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_FARTHEST = 40 * 86_400.0  # a later time than that was misread


def retry_at(text: str, now: float) -> float | None:
    """When `text` says that there will be capacity again, in seconds since the epoch; None where it does not.

    Understood: an epoch time, ISO 8601, "in 2 hours 13 minutes", "resets 3pm (Europe/Berlin)", "try again at Nov 5th,
    2026 3:14 PM". A time of day without a zone is of this machine's.
    """
    for read in (_epoch, _iso, _span, _clock):
        when = read(text, now)
        if when is not None and now - 60 <= when <= now + _FARTHEST:
            return when
    return None


def _epoch(text: str, now: float) -> float | None:
    found = _EPOCH.search(text)
    return float(found[1]) if found else None


def _iso(text: str, now: float) -> float | None:
    found = _ISO.search(text)
    if found is None:
        date = _DATE.search(text)
        return parsedate_to_datetime(date[0]).timestamp() if date else None
    try:
        moment = datetime.fromisoformat(found[0].replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _span(text: str, now: float) -> float | None:
    found = _SPAN.search(text)
    if found is None:
        return None
    parts = _PART.findall(found[1])
    units = [unit.lower() if unit.lower() == "ms" else (unit or "s")[0].lower() for _, unit in parts]
    total = sum(float(number) * _UNITS[unit] for (number, _), unit in zip(parts, units, strict=True))
    return now + total if parts else None


def _clock(text: str, now: float) -> float | None:
    found = next((one for one in _CLOCK.finditer(text) if one["minute"] or one["half"]), None)
    if found is None:
        return None
    zone = _zone(found["zone"])
    here = datetime.fromtimestamp(now, zone)
    hour = int(found["hour"])
    if found["half"]:
        hour = hour % 12 + (12 if found["half"][0] in "pP" else 0)
    try:
        moment = here.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
        if found["month"]:
            month = _MONTHS.index(found["month"][:3].lower()) + 1
            moment = moment.replace(year=int(found["year"] or here.year), month=month, day=int(found["day"]))
        elif here - moment >= timedelta(
            minutes=1
        ):  # The minute that runs is not tomorrow's: its seconds were left out.
            moment += timedelta(days=1)
    except ValueError:
        return None
    return moment.timestamp()


def _zone(name: str | None) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else datetime.now().astimezone().tzinfo
    except (KeyError, ValueError, OSError):
        return datetime.now().astimezone().tzinfo
