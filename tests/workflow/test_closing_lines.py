"""The line in which an agent says how its turn ended is read however much it says and stands before it."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time

import pytest

from interlock.workflow.engine import closing_line
from tests.workflow.stage import Player, play, project, script

LESSON = "What was learned here is long, and every word of it is needed. "


def long_line(indent: int | None = None) -> str:
    said = {"step": "completed", "decided": [LESSON * 60] * 2, "learned": [LESSON * 60] * 3, "verdict": "PASSED"}
    return json.dumps(said, indent=indent)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("shown", ["{}", "```json\n{}\n```", "`{}`", "{}\n\nThat is all."])
@pytest.mark.parametrize("before", ["", "Words before it.\n" * 20_000])
def test_a_closing_line_of_many_thousand_characters_is_read(before: str, shown: str, indent: int | None) -> None:
    line = long_line(indent)
    assert len(line) > 4 * 4000
    found = closing_line.read_closing(f"{before}Done.\n{shown.replace('{}', line)}")
    assert (found.step, found.verdict, len(found.learned)) == ("completed", "PASSED", 5)
    assert found.text.startswith(before) and "Done." in found.text and "learned" not in found.text


def test_a_line_break_within_what_was_learned_does_no_harm() -> None:
    found = closing_line.read_closing('Done.\n{"step": "completed", "learned": ["one\ntwo"]}')
    assert (found.step, found.learned, found.text) == ("completed", ({"kind": "learned", "text": "one\ntwo"},), "Done.")


@pytest.mark.parametrize(
    "said",
    ['{"step": "completed", "learned": ["' + "x" * 300_000 + '"]}', '{"a": 1}\n' * 5000, "{\n" * 5000 + "}\n" * 5000],
)
def test_what_is_beyond_all_bounds_is_no_closing_line_and_costs_nothing(said: str) -> None:
    began = process_time()
    assert closing_line.read_closing(said).step is None
    assert process_time() - began < 5


def test_an_object_in_another_one_is_not_the_line() -> None:
    inner = '{\n"result":\n{"step": "completed"}\n}'
    assert closing_line.read_closing(f"See:\n{inner}").step == "completed", "its own line says so"
    assert closing_line.read_closing('{"result": {"step": "completed"}}').step is None


def test_a_step_that_ends_with_a_long_line_is_done_at_once(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=2)
    player = Player(script(f"Here it is.\n{long_line()}"))
    outcome = play(root, player)
    assert outcome.state.outcome == "COMPLETED" and len(player.prompts) == 2, "nobody had to ask again"
    assert len(outcome.state.learned) > 0
