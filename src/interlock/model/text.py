"""How things read to people: times as "3m ago", lengths as "42s", foreign text that cannot steer a terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.clock import seconds

JOINERS = "\u200c\u200d"
"""They hold emoji together, and keep letters of some scripts apart; they steer nothing."""
# What steers a terminal: colours and cursor movements, titles and links, single-letter escapes.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)")
# What turns text round: an option could look like another one.
_BIDI = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_CONTROLS = {code: None for code in [*range(32), 127, *range(128, 160), *_BIDI] if chr(code) not in "\n\t"}
GIST_CHARS = 80
UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def moment(at: str) -> str:
    """An ISO 8601 time in UTC to the second, as it stands in sentences."""
    return f"{at[:19].replace('T', ' ')} UTC"


def ago(at: str | None, now: float | None = None) -> str:
    """An ISO 8601 time as the time that has passed since: "3m ago"."""
    if at is None:
        return ""
    try:
        passed = (time.time() if now is None else now) - seconds(at)
    except ValueError:
        return at
    if passed < -60:
        return f"in {span(int(-passed))}"
    return "just now" if passed < 5 else f"{span(int(passed))} ago"


def clock(at: float) -> str:
    """Seconds since the epoch as the time of day that logs, reports and files all show, with its zone."""
    return time.strftime("%H:%M:%SZ", time.gmtime(at))


def programs(found: Sequence[Mapping[str, Any]]) -> str:
    """Programs that run: "gradle (4711), java (4712)"."""
    return ", ".join(f"{one['name']} ({one['pid']})" for one in found)


def span(length: float) -> str:
    """Seconds as the largest unit that fits: "8ms", "4.2s", "42s", "3m", "2h", "5d"."""
    for size, unit in UNITS:
        if length >= size:
            return f"{int(length // size)}{unit}"
    if 0 < length < 1:
        return f"{max(1, round(length * 1000))}ms"
    return f"{int(length)}s" if length >= 10 or length == int(length) else f"{length:.1f}s"


def clean(text: object) -> str:
    """Text on one line, without the characters that steer a terminal."""
    return "".join(c if c.isprintable() or c in JOINERS else " " for c in str(text)).strip()


def plain(text: str) -> str:
    """`text` as it may be stored and shown: no terminal escapes, no control characters but tab and line break.

    Of a line that was printed over itself (a progress bar) only the last version stays.
    """
    if text.isprintable():
        return text
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPES.sub("", text).split("\n"))
    return "\n".join(lines).translate(_CONTROLS).encode("utf-8", "replace").decode("utf-8")


def block(text: str, indent: str = "  ") -> list[str]:
    """Text of several lines, indented, without the characters that steer a terminal."""
    lines = (
        "".join(c if c.isprintable() or c in JOINERS or c == "\t" else " " for c in line) for line in text.splitlines()
    )
    return [(indent + line).rstrip() for line in lines]


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 task", "2 tasks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def after_failed_checks(rounds: int) -> str:
    """What to add to "verified" where the check failed before: " after 1 failed check"."""
    return f" after {count(rounds, 'failed check')}" if rounds else ""


def named(files: Sequence[str], most: int = 20) -> str:
    """Files for a sentence."""
    more = f" and {len(files) - most} more" if len(files) > most else ""
    return ", ".join(files[:most]) + more


def changed_files(changes: Mapping[str, Any] | None, most: int = 5) -> list[str]:
    """What a merge has changed, in lines; links that lead out of the repository and submodules have their own."""
    if not changes:
        return []
    files, marks = changes["files"][:most], {"added": " (new)", "deleted": " (deleted)"}
    names = ", ".join(f"{one['path']}{marks.get(one['status'], '')}" for one in files)
    over = f" and {changes['count'] - len(files)} more" if changes["count"] > len(files) else ""
    lines = [f"changed {names}{over}"] if files else []
    lines += [f"links out of the repository: {named(changes['links'], most)}"] if changes["links"] else []
    lines += [f"submodules: {named(changes['submodules'], most)}"] if changes["submodules"] else []
    return lines


def size(number: int) -> str:
    """A size in bytes, as people read it."""
    for unit, power in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= power:
            return f"{number / power:.1f} {unit}"
    return count(number, "byte")


def ids(found: list[str]) -> str:
    """Task ids as people type them: the last part of each, where that tells them apart."""
    short = [one.rpartition("-")[2] for one in found]
    return ", ".join(short if len(set(short)) == len(short) else found)


def tokens(what: Mapping[str, Any]) -> str:
    """How many tokens, "at least" so many where something is missing, or that they are unknown; empty for none."""
    missing = f"{', '.join(what['unknown'])} unknown" if what.get("unknown") else ""
    known = (what["input_tokens"] or 0) + (what["output_tokens"] or 0)
    if missing:
        return f"at least {known:,} tokens ({missing})" if known else f"tokens unknown ({', '.join(what['unknown'])})"
    return f"{known:,} tokens" if known else ""


def spent(what: Mapping[str, Any]) -> str:
    """What was spent, in a few words; empty where no agent was at work."""
    parts = [told] if (told := tokens(what)) else []
    least = "at least " if what.get("cost_partial") else ""
    parts += [f"{least}{what['cost_usd']:,.2f} USD"] if what.get("cost_usd") else []
    return ", ".join([count(what["turns"], "turn"), *parts]) if parts else ""


def stuck(found: Mapping[str, Any]) -> str:
    """What a run did that got nowhere, by the evidence of `run.stuck`, and what that cost."""
    if "calls" not in found:
        return f"no progress in {found.get('turns')} turns"
    return (
        f"its last {found['calls']} tool calls, over {span(found['seconds'])}, brought nothing new "
        f"({named(found['repeated'])}); this turn: {spent(found['spent']) or 'tokens unknown'}"
    )


def gist(text: str) -> str:
    """A question or an answer as it is told in passing: its first words, on one line."""
    line = " ".join(clean(text).split())
    return line if len(line) <= GIST_CHARS else line[: GIST_CHARS - 1] + "…"
