"""Every menu that a real step tells the agent to show is detected when it is shown, and nothing else is.

What is shown is taken from the files by simple rules of this test's own, so that detection is not judged by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from interlock.workflow.menus.detection import detect
from interlock.workflow.menus.step_menus import menus_of, way_on
from scripts.pinned import FIRST
from tests.corpus.conftest import Corpus

DISPLAY = re.compile(r"^\W*Display\W*?:\s*(.*\[[A-Za-z0-9]{1,2}\]\s*\S.*)$")
OPTION = re.compile(r"^[\"“]?\**\[[A-Za-z0-9]{1,2}[\])]\**\s*\w")
TRAPS = (
    re.compile(r"\[[A-Z]\] (?:continue|complete|exit|back) options?\b"),
    re.compile(r"^\s*[-*] \[[ xX]\] "),
    re.compile(r"identified \[X\] issues|\[X\] Critical, \[Y\] Major|Combining \[A\] with"),
    re.compile(r"^\s*(?:[-*] )?[✅❌⚠🎯📖💾🚫].*\[[A-Z]\]"),
    re.compile(r"^\s*- \*\*[A-Z] \([A-Z]"),
)
# Options written below each other with explanations between; a line of them alone is not a menu.
CHECKLIST = re.compile(r"\[(?:A\]ccuracy|P\]attern|C\]ompleteness)")


def steps(corpus: Corpus) -> Iterator[tuple[Path, str]]:
    for path in corpus.step_files(FIRST):
        if "/docs/" not in path.as_posix():
            yield path, path.read_text(encoding="utf-8")


def fenced(text: str) -> set[int]:
    tokens = MarkdownIt("commonmark").parse(text)
    return {line for token in tokens if token.type == "fence" and token.map for line in range(*token.map)}


def blocks(text: str) -> Iterator[tuple[bool, str]]:
    """Options on lines of their own, with what stands around them up to a blank line: (fenced, as shown)."""
    lines, code = text.splitlines(), fenced(text)
    number = 0
    while number < len(lines):
        if not OPTION.match(lines[number].strip()) or CHECKLIST.search(lines[number]):
            number += 1
            continue
        first, last = number, number
        while last + 1 < len(lines) and lines[last + 1].strip() and not lines[last + 1].startswith(("#", "```")):
            last += 1
        while first and lines[first - 1].strip() and not lines[first - 1].startswith(("#", "```")):
            first -= 1
        yield number in code, "\n".join(lines[first : last + 1]).strip().strip('"')
        number = last + 1


@pytest.mark.req("BMAD-E2b.1", "BMAD-FR7")
def test_every_menu_that_a_step_displays_is_detected(corpus: Corpus) -> None:
    shown = [
        (path, found[1].strip().strip("`").strip('"'))
        for path, text in steps(corpus)
        for line in text.splitlines()
        if (found := DISPLAY.match(line))
    ]
    missed = [(path.name, text) for path, text in shown if not detect(text).detected]
    print(f"\n{len(shown)} menus of one line, {len(missed)} missed")
    assert len(shown) > 60 and not missed


def test_every_menu_of_several_lines_is_detected(corpus: Corpus) -> None:
    shown = [(path, text) for path, whole in steps(corpus) for code, text in blocks(whole) if not code]
    single = re.compile(r"^\*\*\[\d\] [^*]+\*\* \(\d+ techniques\)$", re.MULTILINE)
    missed = [(path.name, text) for path, text in shown if not detect(text).detected and not single.search(text)]
    print(f"\n{len(shown)} menus of several lines, {len(missed)} missed")
    assert len(shown) > 90 and not missed


def test_a_list_of_categories_with_explanations_is_one_menu(corpus: Corpus) -> None:
    text = next(text for path, text in steps(corpus) if path.name == "step-02a-user-selected.md")
    start = text.index("**[1] Structured Thinking**")
    detection = detect(text[start : text.index("\n", text.index("Enter 1-7", start))])
    assert [option.key for option in detection.options] == ["1", "2", "3", "4", "5", "6", "7"]


@pytest.mark.long
def test_a_fenced_menu_counts_only_as_the_menu_of_its_own_step(corpus: Corpus) -> None:
    shown = [(text, whole) for _, whole in steps(corpus) for code, text in blocks(whole) if code]
    assert len(shown) >= 10
    for text, whole in shown:
        fence = f"```\n{text}\n```"
        assert not detect(fence).detected and detect(fence).step_menu is None
        known = detect(fence, menus_of(whole))
        assert not known.detected and known.step_menu is not None, text


def test_no_line_that_only_mentions_an_option_is_a_menu(corpus: Corpus) -> None:
    root = corpus.project(FIRST) / "_bmad"
    lines = [
        line
        for path in sorted((*root.rglob("*.md"), *root.rglob("*.xml")))
        for line in path.read_text(encoding="utf-8").splitlines()
        if any(trap.search(line) for trap in TRAPS)
    ]
    wrong = [line for line in lines if detect(line).detected]
    print(f"\n{len(lines)} lines that are no menus, {len(wrong)} taken for one")
    assert len(lines) > 3900 and not wrong


def test_no_checklist_is_a_menu(corpus: Corpus) -> None:
    paths = list((corpus.project(FIRST) / "_bmad").rglob("checklist.md"))
    assert len(paths) == 37
    assert not [path for path in paths if detect(path.read_text(encoding="utf-8")).detected]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("bmb/docs/workflows/architecture.md", 114),
        ("bmb/docs/workflows/step-file-rules.md", 146),
        ("bmb/docs/workflows/step-file-rules.md", 439),
        ("bmb/docs/workflows/templates/step-template.md", 163),
        ("bmb/docs/workflows/templates/step-template.md", 202),
    ],
)
def test_an_example_in_the_documentation_is_not_a_menu(corpus: Corpus, path: str, line: int) -> None:
    lines = (corpus.project(FIRST) / "_bmad" / path).read_text(encoding="utf-8").splitlines()
    around = lines[line - 1]
    assert "[" in around and not detect(f"```\n{around}\n```").detected


def test_the_way_on_of_the_document_workflow_is_continue(corpus: Corpus) -> None:
    folder = corpus.project(FIRST) / "_bmad/bmm/workflows/2-plan-workflows/prd/steps"
    ways = {path.name: way_on(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("step-*.md"))}
    assert [name for name, way in ways.items() if way != "c"] == ["step-11-complete.md"], ways
