"""Everything in a text that has the shape of a menu, whatever it stands in: the candidates that `detection.py` judges.

The shapes are those of real packages (several thousand lines of them): options in one line, options line by line,
numbered choices with a prompt, `(y/n/edit)`, one lone Continue. What only looks like one is left out here: checkboxes,
a bracketed letter inside a sentence, placeholders of a template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from interlock.lazy_dataclass import dataclass
from interlock.workflow import markdown
from interlock.workflow.markdown import Line
from interlock.workflow.menus.meanings import EXIT, OTHER, WAYS_ON, head, meaning
from interlock.workflow.menus.options import (
    LEADING,
    LISTED,
    MARKER,
    RANGE,
    Option,
    PlainLine,
    asked,
    inline,
    label,
    undecorated,
)

MOST = 40  # options; a longer list is a list
LABEL = 160  # characters of a label within one line

ASKS = re.compile(
    r"^(?:please\b|now\b|so\b|\W)*(?:select|choose|pick|enter|reply|respond|press|type|specify|review\b.*\boption)\b"
    r"|\b(?:select|choose|pick|enter)\s+(?:an?|one|any|from|your|option|by|number|the)\b"
    r"|\b(?:which|what|how)\b.*\?|\b(?:would you like|do you want|ready to|shall (?:i|we))\b"
    r"|\b(?:your )?(?:options?|choices?|selection|preference)\b[^.]{0,30}[:?]\s*$|\breply with\b|\boption\b.*:\s*$",
    re.IGNORECASE,
)
ENDS = re.compile(r"[:?!]\W*$")
BY_NUMBER = re.compile(r"^\W*(?:please\s+)?(?:reply|respond|answer) with\b[^.]*\bnumbers?\b", re.IGNORECASE)
LEADS_TO = re.compile(r"\b(?:to|and|please|or|press|select|choose|type|enter)$", re.IGNORECASE)
PLACEHOLDER = re.compile(r"^(?:\[[^\]]*\]|\{++[^}]*+\}++|<[^>]*>)$")
HANDLER = re.compile(r"^(?::|→|=>|=|-+>)")
NO_LETTER = re.compile(r"^[^\w]*$")


@dataclass(frozen=True)
class Menu:
    """A candidate: its options, the lines it stands on (from 0), what asks for the choice, and what speaks against.

    `objection` is the name of a guard ("sentence", "placeholder" …) or None; `shape` is inline, vertical, numbered or
    asked.
    """

    options: tuple[Option, ...]
    first: int
    last: int
    shape: str
    prompt: str = ""
    objection: str | None = None

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys, as they are written."""
        return tuple([option.key for option in self.options])

    def by_meaning(self, *meanings: str) -> tuple[Option, ...]:
        """The options whose label means one of these."""
        return tuple(option for option in self.options if meaning(option.label) in meanings)


def candidates(lines: Sequence[Line]) -> list[Menu]:
    """Every candidate, in the order of the text. A line belongs to one at most."""
    quoted = re.compile(r"^\s*(?:>\s?)+")
    written = [undecorated(quoted.sub("", one.text) if one.kind == markdown.QUOTE else one.text) for one in lines]
    found: list[Menu] = []
    number = 0
    while number < len(lines):
        menu = _group(lines, written, number) or _one_line(written, number)
        if menu is None:
            number += 1
            continue
        found.append(_checked(_prompted(menu, lines, written)))
        number = menu.last + 1
    return found


def _one_line(written: Sequence[PlainLine], number: int) -> Menu | None:
    text = written[number].text
    if written[number].checkbox:
        return None
    prefix, options = inline(text)
    if options:
        menu = Menu(options, number, number, "inline", prefix)
        return menu if _may_stand(prefix, options, text) else replace(menu, objection="sentence")
    if MARKER.search(text):
        return None
    prefix, options = asked(text)
    return Menu(options, number, number, "asked", prefix) if options else None


def _may_stand(prefix: str, options: Sequence[Option], text: str) -> bool:
    """Whether options that follow `prefix` in one line are offered, not mentioned."""
    labels = [option.label for option in options]
    if max(map(len, labels)) > LABEL or any(map(HANDLER.match, labels)):
        return False
    capital = all(option.label[0].isupper() or option.label[0].isdigit() for option in options)
    offered = ENDS.search(prefix) or ASKS.search(prefix)
    if len(options) == 1:
        if meaning(options[0].label) not in {*WAYS_ON, EXIT}:
            return False
        if LEADS_TO.search(prefix) and re.search(r"[:?]\W*$", text):
            return True  # "Are you ready to [C] Continue?"
        return capital and bool(ENDS.search(prefix)) and not re.search(r"\boptions?\b", options[0].label)
    if re.search(r"\w\s*\[\w{1,2}\]\W*$", text):
        return bool(ENDS.search(text) or offered)  # the label stands before the key
    glued = re.search(r"\[[A-Za-z]\][a-z]", text) is not None  # "[A]ccuracy [P]attern" is how checklists are written
    if capital and NO_LETTER.match(prefix) is not None and not glued:
        return True
    if not offered:
        return False
    return capital or bool(ASKS.search(prefix)) or len(options) > 2


def _group(lines: Sequence[Line], written: Sequence[PlainLine], start: int) -> Menu | None:
    """Options line by line from `start`: bracketed, or numbered and lettered as in a list."""
    bracketed = _entry(written[start], LEADING)
    pattern = LEADING if bracketed else LISTED
    first = bracketed or _entry(written[start], LISTED)
    if first is None:
        return None
    options, last = [first], start
    for number in _continued(lines, start):
        entry = _entry(written[number], pattern)
        if entry is None:
            if pattern is LISTED and last + 1 == number and lines[number].text[:1].isspace():
                last = number  # the explanation of an option, below it
                continue
            if pattern is LEADING and _goes_on(written, options[-1], number, last):
                continue
            break
        options.append(entry)
        last = number
        if len(options) > MOST:
            return Menu(tuple(options), start, last, "vertical", objection="too_many_options")
    if written[start].checkbox and {option.key.lower() for option in options} == {"x"}:
        return None
    if pattern is LISTED:
        return _listed(options, start, last, lines, written)
    if len(options) == 1:
        return _lone(options[0], start, written[start])
    return Menu(tuple(options), start, last, "vertical")


def _goes_on(written: Sequence[PlainLine], option: Option, number: int, last: int) -> bool:
    """Whether the next number of a `[1]`, `[2]` … list follows, with list items that explain the one before between."""
    if not option.key.isdigit() or not written[number].bulleted or number - last > 8:
        return False
    after = (_entry(one, LEADING) for one in written[number + 1 : last + 10])
    return any(entry is not None and entry.key == str(int(option.key) + 1) for entry in after)


def _entry(written: PlainLine, pattern: re.Pattern[str]) -> Option | None:
    found = pattern.match(written.text)
    if not found or not found[2] or HANDLER.match(found[2]) or len(MARKER.findall(written.text)) > 1:
        return None
    text = label(found[1], found[2] if pattern is LISTED else written.text[found.end(1) + 1 :])
    return Option(found[1], text.strip()) if text.strip() else None


def _continued(lines: Sequence[Line], start: int) -> Iterator[int]:
    """The numbers of the lines that may belong to the same menu: of the same kind, over single blank lines."""
    blank = False
    for number in range(start + 1, len(lines)):
        if not lines[number].text.strip():
            if blank:
                return
            blank = True
            continue
        if lines[number].kind != lines[start].kind:
            return
        blank = False
        yield number


def _lone(option: Option, number: int, written: PlainLine) -> Menu | None:
    """One option in a line of its own is a menu where it leads on or out."""
    if meaning(option.label) not in {*WAYS_ON, EXIT} or not option.label[0].isupper():
        return None
    if re.search(r"\boptions?\b", head(option.label)):
        return replace(Menu((option,), number, number, "inline"), objection="sentence")
    return None if written.checkbox else Menu((option,), number, number, "vertical")


def _listed(
    options: list[Option], start: int, last: int, lines: Sequence[Line], written: Sequence[PlainLine]
) -> Menu | None:
    """A numbered or lettered list is a choice only where something asks for one."""
    if len(options) < 2 or sum(option.label.rstrip("*_ ").endswith("?") for option in options) * 2 > len(options):
        return None
    numbers = [int(option.key) for option in options if option.key.isdigit()]
    if numbers != list(range(1, len(numbers) + 1)):
        return None
    if len(numbers) < len(options) and (len(numbers) < 2 and any(option.key.isdigit() for option in options)):
        return None
    before, after = _near(written, range(start - 1, -1, -1)), _near(written, range(last + 1, len(written)))
    if _prompts(after, strict=False):
        place = next(number for number in range(last + 1, len(written)) if written[number].text)
        return Menu(tuple(options), start, place, "numbered", after)
    if _prompts(before, strict=True):
        return Menu(tuple(options), start, last, "numbered", before)
    return None


def _near(written: Sequence[PlainLine], numbers: range) -> str:
    return next((written[number].text for number in numbers[:3] if written[number].text), "")


def _prompts(text: str, *, strict: bool) -> bool:
    if not text or len(text) > 300:
        return False
    if RANGE.search(text) or (not strict and BY_NUMBER.search(text)):
        return True
    return bool(ASKS.search(text)) and bool(ENDS.search(text) or (not strict and text.endswith((")", "]"))))


def _prompted(menu: Menu, lines: Sequence[Line], written: Sequence[PlainLine]) -> Menu:
    """With the line that asks for the choice: the one above, where nothing asks within the menu."""
    if menu.prompt or menu.objection:
        return menu
    above = _near(written, range(menu.first - 1, -1, -1))
    below = [written[number].text for number in range(menu.last + 1, min(menu.last + 7, len(written)))]
    prompt = next((text for text in (above, *below) if _prompts(text, strict=True)), "")
    # Bracketed options are offered anyhow; for them any sentence that asks is the prompt.
    loose = next((text for text in below if len(text) <= 300 and ASKS.search(text)), "")
    return replace(menu, prompt=prompt or loose)


def _checked(menu: Menu) -> Menu:
    if menu.objection:
        return menu
    keys = [key.lower() for key in menu.keys]
    if len(set(keys)) < len(keys):
        return replace(menu, objection="duplicate_keys")
    if menu.shape != "numbered" and any(_is_placeholder(option.label) for option in menu.options):
        return replace(menu, objection="placeholder")
    return menu


def _is_placeholder(text: str) -> bool:
    """`[menu item A]`, `{label}`; not `[Advanced Elicitation]`, which says what it is."""
    return PLACEHOLDER.match(text) is not None and meaning(text.strip("[]{}<>")) == OTHER
