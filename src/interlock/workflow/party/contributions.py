"""What the voices of a discussion have said: recommendation, position and how sure each is (BMAD-5.1, FR20).

Each contribution is asked to end with a line of JSON:

    {"agent": "Winston", "recommendation": "…", "position": "…", "confidence": 80}

Where it is missing, what a voice recommends is looked for in its words. What is in neither leaves the contribution
unclear, which the driver asks about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow.answers import AnswerModel, Percent, Text, objects, percent_of
from interlock.workflow.markdown import ANSI
from interlock.workflow.party.speakers import known_as, speakers

LOOKED = 60_000  # characters at the end of what was said that are read
TEXT, SENTENCE, NAME = 1500, 600, 60  # characters of each that are kept
FIELDS = frozenset({"recommendation", "position", "confidence"})

SAYS = re.compile(r"^[^\w\n]*+(?:my |final )?recommend(?:ation|s)?[^\w:]*+:\W*(\S.*)$", re.IGNORECASE | re.MULTILINE)
ADVISES = re.compile(
    r"\b(?:I|we)(?:'d|’d| would| strongly)? (?:recommend|suggest|propose)(?: that| to)?\W+([^.\n]{4,})", re.I
)
STANDS = re.compile(r"^[^\w\n]*+(?:my |final )?position[^\w:]*+:\W*(\S.*)$", re.IGNORECASE | re.MULTILINE)
SURE = re.compile(r"^[^\w\n]*+confidence[^\w:]*+:\W*(\d{1,3}(?:\.\d+)?)\s*%?", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
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


class ContributionSaid(AnswerModel):
    """The line of JSON of a contribution."""

    agent: Text = ""
    recommendation: Text = ""
    position: Text = ""
    confidence: Percent = None


def alone(agent: str, said: str) -> Contribution:
    """The contribution of one voice that spoke by itself."""
    text = _clean(said)
    found = [table for _, table in objects(text, FIELDS)]
    return _contribution(agent, text, found[-1] if found else {})


def hosted(said: str, known: Sequence[str] = ()) -> tuple[Contribution, ...]:
    """The contributions to a round that one agent played for all, in the order in which they first spoke.

    `known` are the names that voices may have; who names itself in its line of JSON is known too. Where there are none,
    every name in bold before a colon is one.
    """
    text = _clean(said)
    found = [
        (start, table, ContributionSaid.model_validate(table).agent[:NAME]) for start, table in objects(text, FIELDS)
    ]
    strangers = not any(one.strip() for one in known)
    known = list(dict.fromkeys([*known, *(named for _, _, named in found if named)]))
    marks = speakers(text, known, strangers=strangers)
    said_by: dict[str, list[str]] = {}
    for place, (start, name) in enumerate(marks):
        end = marks[place + 1][0] if place + 1 < len(marks) else len(text)
        said_by.setdefault(name, []).append(text[start:end])
    tables: dict[str, Mapping[str, Any]] = {}
    for start, table, named in found:
        name = known_as(named, known) or next((name for at, name in reversed(marks) if at <= start), "")
        if name:
            tables[name] = table
            said_by.setdefault(name, [])
    return tuple(
        _contribution(name, "\n".join(parts), tables.get(name, {})) for name, parts in said_by.items() if name
    )[:20]


def _contribution(agent: str, text: str, table: Mapping[str, Any]) -> Contribution:
    said = ContributionSaid.model_validate(table)
    bare = ((line, line.strip().strip("`").strip()) for line in text.splitlines())
    kept = [
        line for line, one in bare if not (one[:1] + one[-1:] == "{}" and any(f'"{name}"' in one for name in FIELDS))
    ]
    without = "\n".join(kept).strip().removesuffix("```").strip()
    recommendation = said.recommendation[:SENTENCE] or _first(SAYS, without) or _first(ADVISES, without)
    position = said.position[:SENTENCE] or _first(STANDS, without)
    confidence = said.confidence if said.confidence is not None else percent_of(_first(SURE, without))
    rest = {name: value for name, value in table.items() if name not in FIELDS and name != "agent"}
    return Contribution(agent[:NAME], without[-TEXT:], recommendation, position, confidence, rest)


def _clean(said: str) -> str:
    return ANSI.sub("", said)[-LOOKED:].strip()


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return " ".join(found[1].strip(" *_\"'").split())[:SENTENCE] if found else ""
