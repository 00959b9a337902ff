"""Pages hang together: links lead somewhere, verbs and commands that are named exist, none is forgotten."""

from __future__ import annotations

import re
from pathlib import Path

from interlock.model.task import MOVES
from interlock.surfaces.cli.tree import TREE
from tests.docs.pages import DOCS, ROOT, blocks, every_page, name_of, pages

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
VERB = re.compile(r"`interlock (?:--?[a-z]+ )*([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")
TARGET = re.compile(r"\bmake ([a-z]+(?:-[a-z]+)*)\b")
ARROW = re.compile(r"^ *([a-z_]+) --> ([a-z_]+)", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the usual renderers make them."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).strip().replace(" ", "-")
        for heading in HEADING.findall(text)
    }


def test_links_lead_somewhere() -> None:
    dead = []
    for page in every_page():
        for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
            if target.startswith(("https://", "http://", "mailto:")):
                continue
            path, _, anchor = target.partition("#")
            goal = (page.parent / path).resolve() if path else page
            if not goal.exists() or (anchor and goal.suffix == ".md" and anchor not in anchors(goal)):
                dead.append((name_of(page), target))
    assert not dead, dead


def test_every_page_can_be_reached_from_the_index() -> None:
    seen, waiting = set(), [DOCS / "README.md"]
    while waiting:
        here = waiting.pop()
        if here in seen or here.suffix != ".md" or not here.exists():
            continue
        seen.add(here)
        for target in LINK.findall(here.read_text(encoding="utf-8")):
            if "://" not in target:
                waiting.append((here.parent / target.partition("#")[0]).resolve())
    lost = [name_of(page) for page in every_page() if page not in seen and DOCS in page.parents]
    assert not lost, lost


VERBS = [(path, where) for rows in TREE.values() for path, where, _ in rows]


def test_every_verb_is_shown_somewhere_beside_the_reference() -> None:
    # `task approve` may be told of as `interlock task approve`, or in a table as `task approve`.
    told = "\n".join(page.read_text(encoding="utf-8") for page in pages())
    untold = [path for path, _ in VERBS if not re.search(rf"\b{re.escape(path)}\b", told)]
    assert not untold, untold


def test_every_verb_that_is_named_exists() -> None:
    known = {path for path, _ in VERBS}
    first = {path.split()[0] for path in known}
    wrong = []
    for page in pages():
        for one, two in VERB.findall(page.read_text(encoding="utf-8")):
            branch = any(path.startswith(f"{one} ") for path in known)
            if one not in first or (branch and two and f"{one} {two}" not in known):
                wrong.append((name_of(page), f"{one} {two}".strip()))
    assert not wrong, wrong


def test_every_target_of_make_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    unknown = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        code = "\n".join([*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^ {4}(.+)$", text, re.MULTILINE),
                         *(block.text for block in blocks(page) if block.kind in ("console", "sh", ""))])  # fmt: skip
        unknown += [(name_of(page), one) for one in sorted(set(TARGET.findall(code)) - targets)]
    assert not unknown, unknown


def test_every_promise_is_held_by_a_test_that_exists() -> None:
    promised = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(promised) > 5
    written = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert not set(promised) - written


def test_the_index_of_decisions_names_them_all() -> None:
    index = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8")
    pages_ = sorted((DOCS / "decisions").glob("0*.md"))
    assert pages_ and all(
        f"- [{page.read_text(encoding='utf-8').splitlines()[0][2:]}]({page.name})" in index for page in pages_
    )


def test_every_move_that_is_drawn_is_in_the_table() -> None:
    wrong = []
    for page in every_page():
        for block in blocks(page):
            if block.kind == "mermaid" and block.text.startswith("stateDiagram") and "ready" in block.text:
                for origin, target in ARROW.findall(block.text):
                    if target.replace("_", "-") not in MOVES[origin.replace("_", "-")]:
                        wrong.append((name_of(page), origin, target))
    assert not wrong, wrong
