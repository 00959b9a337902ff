"""What agents answer in JSON, read from whatever stands around it.

Agents wrap it in fences, say it twice, leave a comma too many, call fields by other names. The schemas are pydantic
models whose fields take anything: what is not of a field's kind is its default, so that no answer is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from interlock.model.json import Json

OPENER = re.compile(r"\{(?=\s*\")")
TRAILING = re.compile(r",(?=\s*[}\]])")
ATTEMPTS = 2000  # braces that begin no object; an answer with more of them is not JSON
LONGEST = 2000  # characters of a field

_DECODER = json.JSONDecoder(strict=False)


def objects(text: str, names: Iterable[str]) -> Iterator[tuple[int, Json]]:
    """(place, object) of each JSON object in the text that has one of these fields, or holds one that has."""
    wanted, end = frozenset(names), 0
    forgiven = TRAILING.sub(" ", text)  # of the same length: places stay what they are
    for opener in list(OPENER.finditer(text))[-ATTEMPTS:]:
        if opener.start() < end:
            continue
        for attempt in (text, forgiven):
            try:
                value, end = _DECODER.raw_decode(attempt, opener.start())
            except (ValueError, RecursionError):
                continue
            found = (one for one in (value, *value.values()) if isinstance(one, dict) and wanted & one.keys())
            yield from ((opener.start(), one) for one in found)
            break


def text_of(value: object) -> str:
    """A field's text on one line; "" for what is none."""
    return " ".join(str(value).split())[:LONGEST] if isinstance(value, (str, int, float)) else ""


def tables_of(value: object) -> list[Any]:
    """The objects of a list; a plain text in it is an object's title."""
    listed = value if isinstance(value, list) else []
    return [one if isinstance(one, dict) else {"title": one} for one in listed if isinstance(one, (dict, str))]


def percent_of(value: object) -> float | None:
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


def plain(word: str) -> str:
    """A word as it is compared: its letters in lower case."""
    return re.sub(r"[^a-z]+", " ", word.casefold()).strip()


Text = Annotated[str, BeforeValidator(text_of)]
Percent = Annotated[float | None, BeforeValidator(percent_of)]


def called(*names: str, default: Any = "") -> Any:
    """A field of an answer, by any of the names that agents give it."""
    return Field(default, validation_alias=AliasChoices(*names))


class AnswerModel(BaseModel):
    """An answer, or a part of one; fields of other names are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)
