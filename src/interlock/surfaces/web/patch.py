"""A patch as somebody reads it who decides about it: by file, each line with its numbers and in the colours of its
language, and without characters that make a line read otherwise than it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from functools import lru_cache

from markupsafe import Markup, escape
from pygments.lexers import find_lexer_class_for_filename
from pygments.token import Comment, Keyword, Name, Number, String, Token

from interlock.lazy_dataclass import dataclass
from interlock.model.text import plain
from interlock.surfaces.web.prose import seen

LINES, WIDTH, FILES = 3000, 500, 200
"""So many lines of a patch are shown, so much of each, and so many files; `interlock diff` has all of it."""
LONG = 400
"""A file with more changed lines begins folded."""
_PLACE = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_COLOURS = {Comment: "c", Keyword: "k", String: "s", Number: "m", Name.Function: "f", Name.Class: "f", Name.Tag: "k"}
_WHAT = {"new file": "new", "deleted file": "deleted", "rename from": "renamed", "copy from": "copied",
         "old mode": "mode changed"}  # fmt: skip


@dataclass(slots=True, frozen=True)
class PatchLine:
    """One line. `kind` is place, same, added, removed or note; `old` and `new` are its numbers before and after."""

    kind: str
    old: int | None
    new: int | None
    text: Markup


@dataclass(slots=True)
class PatchFile:
    """What a patch does to one file. `what` is new, deleted, renamed, copied, mode changed, or empty for a change."""

    path: str
    what: str = ""
    before: str = ""
    binary: bool = False
    added: int = 0
    removed: int = 0
    lines: list[PatchLine] = field(default_factory=list)
    hidden: int = 0
    """Lines that are left out, being beyond `LINES`."""

    @property
    def folded(self) -> bool:
        return self.added + self.removed > LONG


def files_of(patch: str) -> list[PatchFile]:
    """Return the files of a patch that `git diff` wrote, in its order."""
    found: list[PatchFile] = []
    left = LINES
    for part in re.split(r"^diff --git ", patch, flags=re.MULTILINE)[1:]:
        head, *places = re.split(r"^(?=@@ )", part, flags=re.MULTILINE)
        file = _headed(head)
        found.append(file)
        for place in places:
            lines = place.removesuffix("\n").split("\n")
            file.added += sum(line.startswith("+") for line in lines[1:])
            file.removed += sum(line.startswith("-") for line in lines[1:])
            shown = lines[: max(0, left)]
            left -= len(shown)
            file.hidden += len(lines) - len(shown)
            file.lines += _lines(file.path, shown)
    return found


def shown(line: str) -> str:
    """Return a line as it may be shown: bounded, and with its hidden characters named."""
    found = plain(seen(line))
    return found if len(found) <= WIDTH else found[: WIDTH - 1] + "…"


def _headed(head: str) -> PatchFile:
    """Return the file that the lines before its first place are about."""
    first, *rest = head.split("\n")
    # Names with blanks make the first line ambiguous; where there is a better one it is taken.
    file = PatchFile(shown(first.rpartition(" b/")[2].strip('"')))
    for line in rest:
        what = next((word for start, word in _WHAT.items() if line.startswith(start)), "")
        file.what = file.what or what
        file.binary = file.binary or line.startswith(("Binary files", "GIT binary"))
        if line.startswith(("rename from ", "copy from ")):
            file.before = shown(line.split(" ", 2)[2])
        elif line.startswith(("+++ ", "--- ")) and not line.endswith("/dev/null"):
            file.path = shown(line[4:].rstrip("\t").strip('"').partition("/")[2])
        elif line.startswith("rename to "):
            file.path = shown(line[10:])
    return file


def _lines(path: str, lines: list[str]) -> Iterator[PatchLine]:
    """Yield the lines of one place of a file, the first of which says where it is."""
    if not lines:
        return
    found = _PLACE.match(lines[0])
    old, new = (int(found[1]), int(found[2])) if found else (0, 0)
    yield PatchLine("place", None, None, escape(shown(lines[0])))
    texts = [(line[:1], shown(line[1:])) for line in lines[1:]]
    # Each side is a text of its own: a removed quotation mark is none of the new text's.
    sides = {left: iter(_coloured(path, "\n".join(text for mark, text in texts if mark != left))) for left in "-+"}
    for mark, text in texts:
        if mark == "+":
            yield PatchLine("added", None, new, next(sides["-"]))
            new += 1
        elif mark == "-":
            yield PatchLine("removed", old, None, next(sides["+"]))
            old += 1
        else:
            colour = next(sides["-"])
            next(sides["+"])
            yield PatchLine("note", None, None, escape(text)) if mark == "\\" else PatchLine("same", old, new, colour)
            old, new = old + (mark != "\\"), new + (mark != "\\")


@lru_cache(maxsize=512)
def _coloured(path: str, text: str) -> list[Markup]:
    """Return each line of `text` as HTML, its words in the classes of their kind."""
    lexer = find_lexer_class_for_filename(path)
    lines = [Markup("")]
    tokens = lexer(stripnl=False, ensurenl=False).get_tokens(text) if lexer else [(Token, text)]
    for kind, value in tokens:
        colour = next((name for known, name in _COLOURS.items() if kind in known), None)
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append(Markup(""))
            if part:
                lines[-1] += Markup('<i class="tok-{}">{}</i>').format(colour, part) if colour else escape(part)
    return lines
