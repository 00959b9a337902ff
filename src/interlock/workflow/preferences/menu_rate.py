"""How fast menus are put to a human (FR55, FR56, BMAD-7.6): two seconds apart, and a pause after ten in a row.

*A menu* is one that reaches a human; what the engine answers by itself counts for nothing. *In a row* means without
another word of that human in between: an answer to anything else than a menu (a question, a checkpoint, the pause
itself), or a wish said in chat or on the command line, begins the count again. The answers to the menus do not: it is
from these that one tires. The count belongs to the session, so several runs of one chat share it.

Pure: functions from the document of a session, which they change, and a moment. Moments are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.clock import iso, seconds
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.model.workflow import place_of

KEY = "menus"
"""Where the document of a session keeps it."""
INTERVAL = 2.0
"""Seconds between two menus."""
CONSECUTIVE = 10
"""So many in a row; before the next one there is a pause."""
SHOWN = 120
INTERVAL_REASON, PAUSE_REASON = "interval", "pause"


@dataclass(frozen=True)
class Admission:
    """Whether a menu may be put to a human: after `wait` seconds, or, with `pause`, once the human has acknowledged
    that these came before it."""

    wait: float = 0.0
    pause: bool = False
    recent: Sequence[Mapping[str, Any]] = ()


def admit(document: Json, now: float, *, interval: float = INTERVAL, most: int = CONSECUTIVE) -> Admission:
    """Ask for the next place of a menu. What was admitted has its place: the next one is `interval` after it."""
    kept = _kept(document)
    if most and int(kept.get("count", 0)) >= most:
        kept["paused_at"] = iso(now)
        return Admission(pause=True, recent=tuple(kept.get("recent", ())))
    last = _moment(kept.get("last"))
    # A clock that was set back must not keep anybody waiting: no longer than one place for each that may be under way.
    wait = 0.0 if last is None else min(max(0.0, last + interval - now), interval * max(1, most or 1))
    kept["last"] = iso(now + wait)
    kept["next"] = iso(now + wait)
    return Admission(wait)


def presented(document: Json, title: str, *, run: str, step: object, at: str) -> None:
    """A menu was put to a human."""
    kept = _kept(document)
    kept["count"] = int(kept.get("count", 0)) + 1
    entry = {"at": at, "run": run, "step": step, "menu": title[:SHOWN], "answer": None}
    kept["recent"] = [*kept.get("recent", ()), entry][-CONSECUTIVE:]


def answered(document: Json, answer: str, *, run: str) -> None:
    """A human has answered the menu that came last from that run."""
    for entry in reversed(_kept(document).get("recent", [])):
        if entry["run"] == run and entry["answer"] is None:
            entry["answer"] = answer[:SHOWN]
            return


def spoke(document: Json) -> None:
    """That human has said something else, or acknowledged the pause: the count starts again."""
    kept = _kept(document)
    kept["count"] = 0
    kept["recent"] = []
    kept.pop("paused_at", None)


def counting(document: Mapping[str, Any]) -> bool:
    """Whether there is anything that `spoke` would start again."""
    kept = document.get(KEY) or {}
    return bool(kept.get("count") or kept.get("paused_at"))


def status(document: Mapping[str, Any], now: float) -> Json:
    """`{rate_limited, next_available_at, rate_limit_reason}`: whether a menu waits now, until when, and why. During a
    pause the next one is there as soon as it is acknowledged: the moment is that from which on it could be."""
    kept = document.get(KEY) or {}
    if kept.get("paused_at"):
        return _status(True, str(kept["paused_at"]), PAUSE_REASON)
    upcoming = _moment(kept.get("next"))
    if upcoming is not None and upcoming > now:
        return _status(True, str(kept["next"]), INTERVAL_REASON)
    return _status(False, None, None)


def summary(recent: Sequence[Mapping[str, Any]]) -> str:
    """What a human is told at the pause: the menus that came, and what was answered."""
    lines = [
        f"- {place_of(one.get('step'))}: {one.get('menu')} -> {one.get('answer') or 'no answer yet'}" for one in recent
    ]
    return f"{len(recent)} menus in a row were put to you:\n\n" + "\n".join(lines)


def _status(limited: bool, until: str | None, reason: str | None) -> Json:
    return {"rate_limited": limited, "next_available_at": until, "rate_limit_reason": reason}


def _kept(document: Json) -> Json:
    kept: Json = document.setdefault(KEY, {})
    return kept


def _moment(text: object) -> float | None:
    try:
        return seconds(text) if isinstance(text, str) else None
    except ValueError:
        return None
