"""The words that people read, on pages and in messages, are those of the glossary."""

from __future__ import annotations

import re

from tests.architecture.source import files
from tests.architecture.test_style import texts
from tests.docs.pages import DOCS, ROOT

GLOSSARY = DOCS / "glossary.md"
TEST_NAME = re.compile(r"\[`[^`]*`\]\(\.\./tests/")
"""What a page made of the tests calls one of them: its name, not a sentence of the page."""


def unwanted() -> re.Pattern[str]:
    """Return what finds a word of the glossary's last column."""
    rows = [line.split("|") for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    words = [word.strip() for row in rows[1:] for word in row[3].split(",") if word.strip(" -")]
    return re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)


def for_people(text: str) -> bool:
    """Whether a text is (part of) a sentence: no key of a document, no markup, no pattern."""
    return " " in text and "<" not in text and "(?" not in text


def test_pages_use_the_words_of_the_glossary() -> None:
    pattern = unwanted()
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    found = [
        f"{page.relative_to(ROOT)}:{number}: {match.group()}"
        for page in pages
        if page != GLOSSARY and page.parent.name != "decisions"
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for match in pattern.finditer(TEST_NAME.sub("", line))
    ]
    assert not found, "\n".join(found)


def test_messages_use_the_words_of_the_glossary() -> None:
    pattern = unwanted()
    found = [
        f"{source.at(node)}: {match.group()}"
        for source in files()
        for node in texts(source)
        if for_people(str(node.value))
        for match in pattern.finditer(str(node.value))
    ]
    assert not found, "\n".join(found)
