"""Items that a review has written into the story are ticked once they are settled, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.workflow.engine.examination import APPROVE, BLOCKING, CHANGES, MAJOR, Examined, Finding
from interlock.workflow.errors import StateConflict
from interlock.workflow.reviews import outcome
from interlock.workflow.reviews import story as stories
from interlock.workflow.state import files
from tests.workflow.reviewed import SMALL, STORY, STORY_TEXT, develop, issue, said, story_project
from tests.workflow.stage import Player, script

LOCK = issue("The account is never locked", "high", "src/login.py:3")
LOG = issue("The password is logged", "medium", "src/log.py:7")
TEST = issue("No test refuses a password", "medium", "tests/test_login.py:1")
OWN = "- [ ] [High] The account is never locked [src/login.py:3]. fix it"
HEADING = "### Round 1, 2026-11-21: Changes Requested (w1)"


def items(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("- [ ] [", "- [x] ["))]


@pytest.mark.req("BMAD-5.13.3", "BMAD-FR44")
def test_findings_are_ticked_as_rounds_no_longer_find_them(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    (root / STORY).write_text(STORY_TEXT.replace("## Dev Agent", f"## Notes\n\n{OWN}\n\n## Dev Agent"))
    seen: list[list[str]] = []

    async def reviewer(part: object) -> str:
        seen.append(items((root / STORY).read_text()))
        return (said(LOCK, LOG, TEST), said(LOG), said(*SMALL))[min(len(seen), 3) - 1]

    outcome = develop(root, Player(reviewer))
    assert outcome.ending.kind == "completed", outcome.ending
    text = (root / STORY).read_text()
    assert seen[0] == [OWN]
    assert [one[3] for one in seen[1]] == [" "] * 4, "nothing is settled in the round that finds it"
    assert [one[3] for one in seen[2]] == [" ", "x", " ", "x"], "the developer's own line, and what is found again"
    first, *rest = items(text)
    assert first == OWN, "it is not in the review's section"
    assert [one[:11] for one in rest] == ["- [x] [High", *["- [x] [Medi"] * 2, *["- [ ] [Low]"] * 3]
    assert "Still open from earlier rounds: F2." in text and "F2 fixed: The password is logged" in text


def story(*lines: str, section: str = "## Senior Developer Review (AI)", heading: str = HEADING) -> str:
    return "\n".join(
        ["# Story", "", OWN, "", section, "", heading, "", "**Outcome:** Changes", "", *lines, "", "## End", ""]
    )


FOUND = Finding(BLOCKING, "The account is never locked", "src/login.py:3", "fix it", data={"level": "High", "id": "F1"})
ROUND = Examined(CHANGES, "", (FOUND,)).as_dict()
LINE = outcome.item(FOUND)
FIXED = Examined(APPROVE, "", details={"closed": [{"id": "F1", "verdict": "fixed"}]})


def ticked(text: str, found: Examined, *rounds: dict[str, object]) -> str:
    return outcome.ticked(text, stories.NOTES, "w1", rounds or (ROUND,), found)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_one_letter_of_the_story_changes_and_no_other(end: str) -> None:
    text = story("- [ ] [Medium] Another", LINE, "- [ ] [AI-Review] mine").replace("\n", end)
    after = ticked(text, FIXED)
    changed = [place for place, (one, other) in enumerate(zip(text, after, strict=True)) if one != other]
    assert len(changed) == 1 and after[changed[0] - 3 : changed[0] + 9] == "- [x] [High]"
    assert text.rindex(LINE) == changed[0] - 3
    assert ticked(after, FIXED) == after


@pytest.mark.parametrize(
    "text",
    [
        story(LINE, section="## Tasks"),
        story(LINE, heading="### Round 1, 2026-11-21: Changes Requested (w2)"),
        story(LINE, heading="### Round 2, 2026-11-21: Changes Requested (w1)"),
        story(LINE, LINE),
        story(f"{LINE} (later)"),
        story("", HEADING, "", LINE),
        story("### Follow-ups", "", LINE),
        story(f"    {LINE}"),
    ],
)
def test_what_is_not_certainly_an_item_of_that_round_is_left(text: str) -> None:
    assert ticked(text, FIXED) == text


@pytest.mark.parametrize(
    "found",
    [
        Examined(APPROVE, ""),
        Examined(CHANGES, "", (Finding(MAJOR, "Something else"),)),
        Examined(APPROVE, "", details={"closed": [{"id": "F2", "verdict": "fixed"}]}),
        Examined(APPROVE, "", details={"closed": [{"id": "F1", "verdict": "withdrawn"}]}),
    ],
)
def test_only_what_a_reviewer_found_fixed_is_ticked(found: Examined) -> None:
    text = story(LINE)
    assert ticked(text, found) == text and ticked(text, FIXED) != text


def test_the_review_that_a_person_ran_keeps_its_own_items() -> None:
    assert ticked(story(LINE), FIXED, {**ROUND, "own": True}) == story(LINE)


def test_a_story_that_is_edited_meanwhile_keeps_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "1-2-x.md"
    path.write_text("one\n")
    edits = iter(["two\n"])

    def between() -> None:
        if (text := next(edits, None)) is not None:
            path.write_text(text)

    assert files.change(str(path), lambda text: f"{text}more\n", between=between) == "two\nmore\n"
    assert path.read_text() == "two\nmore\n"
    with pytest.raises(StateConflict):
        files.change(str(path), lambda text: f"{text}!", between=lambda: path.write_text(path.read_text() + "."))
    assert "!" not in path.read_text()


def test_a_story_that_is_no_text_is_left_as_it_is(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    data = STORY_TEXT.encode() + b"\xff\xfe\n"
    (root / STORY).write_bytes(data)
    outcome = develop(root, Player(script(said(*SMALL))))
    assert (root / STORY).read_bytes() == data and outcome.ending.kind == "completed"
    assert [one["what"] for one in outcome.desk.of("workflow.warning")] == ["review_not_noted"]
