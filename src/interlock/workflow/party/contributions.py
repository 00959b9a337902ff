"""What one voice of a discussion has said: its recommendation, its position and how sure it is (BMAD-5.1, FR20).

Each contribution is asked to end with a line of JSON:

    {"agent": "Winston", "recommendation": "…", "position": "…", "confidence": 80}

Voices forget it, wrap it, spread it over lines; then what they recommend is looked for in their words. What is in
neither leaves the contribution unclear, which the driver asks about. Pure.

Where in the words of one agent that plays several voices each of them begins to speak (BMAD-5.1, 5.2.1).

Hosts write it in every manner that Markdown has:

    Winston: …   **Winston**: …   **Winston:** …   🏗️ **Winston** (Architect): …   > Winston: …   - Winston says: …
    ### 🏗️ Winston — Architect        🏗️ **Winston**        **Winston, Architect:** …

Only those of the cast speak: `Note:` and `**Recommendation:**` are what somebody says, and `Winston is right: …` is
about him. A name alone on its line is a voice where it is marked (a heading, bold, an icon), else it is a list. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.workflow.markdown import ANSI, CODE, lines

LEAD = r"^(?P<lead>[^\w\n]{0,6}(?:\d{1,2}[^\w\n]{1,3})?(?:[^\w\n]|_){0,12}?)"
"""Quotation marks, bullets, a number, heading marks, emphasis, and an icon, which may be several characters."""
END = r"(?![^\W_])(?![-'’]\w)"
ROLE = r"[ \t]*(?:\([^()\n]{0,60}\)|\[[^\[\]\n]{0,60}\])"
AFTER = {
    # `Winston:`, `Winston (Architect):`, `**Winston**:`, `**Winston:**`, `Winston says:`
    "plain": re.compile(
        rf"[*_`\]]{{0,4}}(?:{ROLE})?[*_`]{{0,4}}"
        r"(?:[ \t]+(?:says|said|adds|replies|answers|responds|asks|continues|speaks))?[*_`]{0,4}[ \t]*[:：](?!//)",
        re.IGNORECASE,
    ),
    # `**Winston, Architect:** …`, `**Winston — Architect**`
    "bold": re.compile(
        rf"(?:{ROLE}|[ \t]*[,–—-][ \t]*[^\n*_:：]{{1,60}})(?:[:：][ \t]*(?:\*\*|__)|(?:\*\*|__)[ \t]*(?:[:：]|$))"
    ),
    # Alone on its line: `🏗️ **Winston** (Architect)`
    "marked": re.compile(rf"[*_`\]]{{0,4}}(?:{ROLE})?[*_`]{{0,4}}[ \t]*$"),
    # `### Winston — Architect`
    "heading": re.compile(rf"[*_`]{{0,4}}(?:{ROLE})?[*_`]{{0,4}}[ \t]*[–—-][ \t]*[^\n:：]{{1,60}}[:：]?[ \t]*$"),
}
HEADING, BOLD, ICON = re.compile(r"#{1,6}\s*"), re.compile(r"\*\*|__"), re.compile(r"[^\x00-\x7f“”„«»‘’•·–—…]")

ANYBODY = re.compile(
    r"^[^\w*]{0,6}\*\*(?P<name>[^*:\n]{2,40}?)(?::\*\*|\*\*\s*(?:\([^)\n]{0,40}\))?\s*:)", re.MULTILINE
)
LABELS = frozenset(
    "action actions agenda agreement alternative answer approach argument assumption background benefit benefits "
    "caution cause caveat concern concerns conclusion confidence cons consensus consequence context decision "
    "discussion disagreement effort evidence example fact facts finding findings fix fixes follow goal hint how "
    "idea ideas impact important issue issues key lesson mitigation next note notes objection open option options "
    "outcome point points position positions problem proposal pros question questions rationale reason reasons "
    "recommendation recommendations recommended result results risk risks round rule scope session severity "
    "solution status step steps summary synthesis task tip todo topic trade tradeoff verdict vote votes warning "
    "what when where why".split()
)
"""First words of what is written in bold before a colon and is nobody; needed only where nobody is known by name."""


def speakers(text: str, known: Sequence[str], *, strangers: bool = False) -> list[tuple[int, str]]:
    """(where, who) of each place at which one of the known begins to speak; with `strangers`, everybody whose name
    stands in bold before a colon is one too. Code that is shown counts only where nobody speaks outside of it."""
    found = _known(text, known) if any(one.strip() for one in known) else []
    if strangers:
        found = sorted({**dict(_anybody(text)), **dict(found)}.items())
    shown = _shown(text) if found else []
    return [one for one in found if not any(start <= one[0] < end for start, end in shown)] or found


def known_as(name: str, known: Sequence[str]) -> str:
    """The known name that is meant; "" for none."""
    wanted = name.casefold().strip(" *_")
    return next((one for one in known if one.casefold() == wanted), "") if wanted else ""


def _known(text: str, known: Sequence[str]) -> list[tuple[int, str]]:
    names = "|".join(re.escape(one) for one in sorted({one.strip() for one in known}, key=len, reverse=True) if one)
    pattern = re.compile(rf"{LEAD}(?P<name>{names}){END}(?P<rest>[^\n]*)$", re.IGNORECASE | re.MULTILINE)
    found = []
    for one in pattern.finditer(text):
        name = known_as(one["name"], known)
        if name and _speaks(one["lead"], one["rest"]):
            found.append((one.start(), name))
    return found


def _speaks(lead: str, rest: str) -> bool:
    if AFTER["plain"].match(rest):
        return True
    heading, bold = HEADING.search(lead), BOLD.search(lead)
    if bold and AFTER["bold"].match(rest):
        return True
    if heading and AFTER["heading"].match(rest):
        return True
    return bool((heading or bold or ICON.search(lead)) and AFTER["marked"].match(rest))


def _anybody(text: str) -> list[tuple[int, str]]:
    found = ((one.start(), one["name"].strip()) for one in ANYBODY.finditer(text))
    return [(start, name) for start, name in found if (words := re.findall(r"\w+", name)) and not _label(words)]


def _label(words: Sequence[str]) -> bool:
    return words[0].casefold() in LABELS or words[0].isdigit()


def _shown(text: str) -> list[tuple[int, int]]:
    """Where code is shown. Lines are counted as the text has them; what the parser would change is not looked into."""
    found, start = [], 0
    listed = lines(text)
    whole = text.split("\n")
    if len(listed) != len(whole):
        return []
    for line, kind in zip(whole, (one.kind for one in listed), strict=True):
        if kind == CODE:
            found.append((start, start + len(line) + 1))
        start += len(line) + 1
    return found


LOOKED = 60_000  # characters at the end of what was said that are read
OPENERS = 200  # braces that may begin a line of JSON
TEXT, SENTENCE, NAME = 1500, 600, 60  # characters of each that are kept
FIELDS = frozenset({"recommendation", "position", "confidence"})

OPENER = re.compile(r"\{(?=\s*\")")
SAYS = re.compile(r"^[^\w\n]*+(?:my |final )?recommend(?:ation|s)?[^\w:]*+:\W*(\S.*)$", re.IGNORECASE | re.MULTILINE)
ADVISES = re.compile(
    r"\b(?:I|we)(?:'d|’d| would| strongly)? (?:recommend|suggest|propose)(?: that| to)?\W+([^.\n]{4,})", re.I
)
STANDS = re.compile(r"^[^\w\n]*+(?:my |final )?position[^\w:]*+:\W*(\S.*)$", re.IGNORECASE | re.MULTILINE)
SURE = re.compile(r"^[^\w\n]*+confidence[^\w:]*+:\W*(\d{1,3}(?:\.\d+)?)\s*%?", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Contribution:
    """What one voice said in a round. `confidence` is 0 to 100, None where it was not given; `data` is whatever else
    its line of JSON held."""

    agent: str
    text: str = ""
    recommendation: str = ""
    position: str = ""
    confidence: float | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def clear(self) -> bool:
        """Whether it recommends anything."""
        return bool(self.recommendation or self.position)


def alone(agent: str, said: str) -> Contribution:
    """The contribution of one voice that spoke by itself."""
    text = _clean(said)
    found = [table for _, _, table in _tables(text)]
    return _contribution(agent, text, found[-1] if found else {})


def hosted(said: str, known: Sequence[str] = ()) -> tuple[Contribution, ...]:
    """The contributions to a round that one agent played for all, in the order in which they first spoke.

    `known` are the names that voices may have; who names itself in its line of JSON is known too. Where there are none,
    every name in bold before a colon is one.
    """
    text = _clean(said)
    found = [(start, table) for start, _, table in _tables(text)]
    strangers = not any(one.strip() for one in known)
    known = list(dict.fromkeys([*known, *(named for _, table in found if (named := _word(table, "agent", NAME)))]))
    marks = speakers(text, known, strangers=strangers)
    said_by: dict[str, list[str]] = {}
    for place, (start, name) in enumerate(marks):
        end = marks[place + 1][0] if place + 1 < len(marks) else len(text)
        said_by.setdefault(name, []).append(text[start:end])
    tables: dict[str, Mapping[str, Any]] = {}
    for start, table in found:
        speaker = next((name for at, name in reversed(marks) if at <= start), "")
        name = known_as(_word(table, "agent", NAME), known) or speaker
        if name:
            tables[name] = table
            said_by.setdefault(name, [])
    return tuple(
        _contribution(name, "\n".join(parts), tables.get(name, {})) for name, parts in said_by.items() if name
    )[:20]


def _contribution(agent: str, text: str, table: Mapping[str, Any]) -> Contribution:
    without = "\n".join(line for line in text.splitlines() if not _is_table(line)).strip().removesuffix("```").strip()
    recommendation = _word(table, "recommendation") or _first(SAYS, without) or _first(ADVISES, without)
    position = _word(table, "position") or _first(STANDS, without)
    confidence = _percent(table.get("confidence"))
    if confidence is None:
        confidence = _percent(_first(SURE, without) or None)
    rest = {name: value for name, value in table.items() if name not in FIELDS and name != "agent"}
    return Contribution(agent[:NAME], without[-TEXT:], recommendation, position, confidence, rest)


def _tables(text: str) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """(start, end, object) of each JSON object that says a recommendation, a position or a confidence."""
    decoder = json.JSONDecoder(strict=False)
    end = 0
    for opener in list(OPENER.finditer(text))[-OPENERS:]:
        if opener.start() < end:
            continue
        try:
            found, end_ = decoder.raw_decode(text, opener.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and FIELDS & found.keys():
            end = end_
            yield opener.start(), end, found


def _is_table(line: str) -> bool:
    line = line.strip().strip("`").strip()
    return line.startswith("{") and line.endswith("}") and any(f'"{name}"' in line for name in FIELDS)


def _clean(said: str) -> str:
    return ANSI.sub("", said)[-LOOKED:].strip()


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return " ".join(found[1].strip(" *_\"'").split())[:SENTENCE] if found else ""


def _word(table: Mapping[str, Any], name: str, limit: int = SENTENCE) -> str:
    value = table.get(name)
    return " ".join(str(value).split())[:limit] if isinstance(value, (str, int, float)) else ""


def _percent(value: object) -> float | None:
    """0 to 100; a fraction of one is meant as such. None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value.strip().rstrip("%"))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and 0 < value <= 1:
        value *= 100
    return round(float(value), 1) if 0 <= value <= 100 else None
