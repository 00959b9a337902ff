"""The documentation as tests see it: pages, their fenced blocks, and what a comment before a block says of it.

<!-- not run: why -->       the block below is not carried out
<!-- run -->                the block of Python below is carried out (blocks of `console` are anyway)
<!-- file: PATH -->         the block below is what the reader puts into that file
<!-- part -->               the YAML below is a part of a plan, not a whole one
<!-- terminal: NAME -->     the block below happens in another terminal; `…, goes on`: its last command waits
<!-- setup COMMANDS -->     what the page takes for granted, carried out without a look at its output; where they name
                           $SERVER, that is the address of a PostgreSQL server
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"

PIECE = re.compile(
    r"^<!--\s*(?P<note>.*?)\s*-->\s*$|^(?P<indent>[ ]*)```(?P<kind>[\w-]*)[ ]*\n(?P<text>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
NOTES = ("not run", "run", "file", "part", "terminal", "setup")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `notes` is what the comments right before it say, by their first word."""

    page: Path
    line: int
    kind: str
    text: str
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where it stands, for people."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Everything people read, but what `make reference` writes."""
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    return [*found, *(path for path in sorted(DOCS.rglob("*.md")) if path.parent.name != "reference")]


def every_page() -> list[Path]:
    """All pages, those of the reference too."""
    return [*pages(), *sorted((DOCS / "reference").glob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The page's blocks in order; a `setup` is one of kind `setup`."""
    text = page.read_text(encoding="utf-8")
    notes: dict[str, str] = {}
    for piece in PIECE.finditer(text):
        line = text.count("\n", 0, piece.start()) + 1
        if piece["note"] is not None:
            word, value = _note(piece["note"])
            if word == "setup":
                yield Block(page, line, "setup", value)
            elif word:
                notes[word] = value
        else:
            indent = len(piece["indent"])
            body = "\n".join(row[indent:] for row in piece["text"].split("\n"))
            yield Block(page, line + 1, piece["kind"], body, notes)
            notes = {}


def _note(text: str) -> tuple[str, str]:
    for word in NOTES:
        if text == word or text.startswith((f"{word}:", f"{word}\n", f"{word} ")):
            return word, text[len(word) :].lstrip(":").strip()
    return "", ""


def name_of(page: Path) -> str:
    """A page's name in the list of tests."""
    return str(page.relative_to(ROOT))
