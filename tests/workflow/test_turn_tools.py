"""An agent says how its turn ends by the tools of its run: nothing that it writes has to be read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.errors import InterlockError
from interlock.workflow.engine.closing_line import worded
from interlock.workflow.engine.ports import Asking
from interlock.workflow.menus.detection import detect
from interlock.workflow.state.document import RunPlan
from tests.surfaces.mcp.harness import connected
from tests.workflow import virtual
from tests.workflow.stage import SKILL, MemoryDesk, Outcome, Part, Player, play, project
from tests.workflow.test_in_a_team import Place

PROGRAM = Path(__file__).parents[1] / "agents" / "acp_program.py"
SCRIPT = Path(__file__).parent / "programs" / "acp_with_tools.py"
CHOICES = ["A: Advanced Elicitation", "P: Party Mode", "C: Continue"]


@pytest.mark.long
@pytest.mark.req("BMAD-FR2", "BMAD-UO.2b")
def test_an_agent_over_acp_works_through_a_workflow_by_its_tools(tmp_path: Path) -> None:
    place = Place(tmp_path)
    done = place("run", SKILL, "--agent", f"acp {sys.executable} {PROGRAM} {SCRIPT}", "--tier", "1")
    assert (done["exit"], done["outcome"], done["completed_steps"]) == (0, "COMPLETED", [1, 2, 3]), done["error"]
    assert place.document == "## Step 1\n## Step 2\n## Step 3\n" and not done["asked"]
    called = [json.loads(line) for line in (place.root / ".tools").read_text().splitlines()]
    assert len(called) == 5 and all(one["noted"] for one in called)
    assert not [one for one in done["decisions"] if one["kind"] == "unclear"]


def told(root: Path, desk: MemoryDesk, *words: dict[str, Any] | None, plan: RunPlan | None = None) -> Outcome:
    """An agent that writes the document and something unreadable, and says each of these by a tool in its turn."""
    left = list(words)

    async def part(part: Part) -> str:
        assert desk.saved is not None and desk.saved.sent is not None
        await virtual.passes(1)
        word = left.pop(0) if len(left) > 1 else left[0]
        if word is not None:
            said = {"sent": desk.saved.sent.at, "word": {"step": "waiting", **word}}
            desk.shared["turns"] = {"bmm-make-plan-x": said}
        (root / "_bmad-output").mkdir(exist_ok=True)
        (root / "_bmad-output" / "plan.md").write_text("A plan.\n")
        return "Et maintenant ?"

    return play(root, Player(part), desk=desk, plan=plan or RunPlan(project=str(root), tier=1))


@pytest.mark.req("BMAD-FR8", "BMAD-2b.2.1")
def test_a_menu_that_is_given_as_a_menu_is_answered(tmp_path: Path) -> None:
    root, desk = project(tmp_path / "p", 1), MemoryDesk()
    outcome = told(root, desk, {"options": CHOICES}, {"step": "skipped", "reason": "optional"})
    [menu] = [one for one in outcome.state.decisions if one["kind"] == "menu"]
    assert menu["choice"] == "C" and not desk.asked


def test_a_question_is_put_to_a_human_as_it_is_though_it_has_no_question_mark(tmp_path: Path) -> None:
    root, desk = project(tmp_path / "p", 1), MemoryDesk(answers=lambda asking: "blue")
    outcome = told(root, desk, {"question": "Say the colour of the roof"}, {"step": "finished"})
    [asked] = desk.asked.values()
    assert (asked.kind, asked.text) == ("clarification", "Say the colour of the roof")
    assert outcome.state.asked[0]["answer"] == "blue"


def test_what_the_agent_would_choose_by_the_brief_is_taken_without_another_turn(tmp_path: Path) -> None:
    root, asked = project(tmp_path / "p", 1), list[Asking]()
    desk = MemoryDesk(answers=lambda asking: asked.append(asking))
    plan = RunPlan(project=str(root), tier=1, brief="A blue roof.")
    menu = {"question": "Which roof?", "options": ["1: Red", "2: Blue"], "option": "2"}
    outcome = told(root, desk, menu, {"step": "finished"}, plan=plan)
    choices = [(one["choice"], one["by"]) for one in outcome.state.decisions if one["kind"] == "menu"]
    assert choices == [("2", "agent")] and not asked


def test_what_was_said_of_an_earlier_turn_is_not_taken_for_this_one(tmp_path: Path) -> None:
    root, desk = project(tmp_path / "p", 1), MemoryDesk()
    outcome = told(root, desk, {"options": CHOICES}, None)
    assert [one["kind"] for one in outcome.state.decisions].count("menu") == 1
    assert outcome.ending.kind == "parked" and [one.text for one in desk.asked.values()] == ["Et maintenant ?"]


@pytest.mark.parametrize(
    ("given", "keys"),
    [(CHOICES, ("A", "P", "C")), (["[x] Exit", "y) Stay"], ("x", "y")), (["Red", "Blue"], ("1", "2"))],
)
def test_options_are_always_read_as_the_menu_that_they_are(given: list[str], keys: tuple[str, ...]) -> None:
    found = detect(worded("Some text.", {"step": "waiting", "options": given}).text)
    assert found.menu is not None and found.menu.keys == keys and found.confidence >= 80


@pytest.mark.anyio
async def test_who_works_on_no_workflow_neither_sees_the_tools_nor_may_call_them(tmp_path: Path) -> None:
    home = interlock.connect(str(tmp_path / "home"))
    team = home.create_team("alpha")
    team.spawn("ada")
    with pytest.raises(InterlockError) as refused:
        team.acting("ada", session="s1").end_turn(step="completed")
    assert refused.value.code == "not_in_a_workflow"
    async with connected(home.path, "ada", team="alpha") as ada:
        assert not {"step_done", "ask", "choose"} & {tool.name for tool in (await ada.session.list_tools()).tools}
        assert (await ada.refused("step_done"))["error"] == "not_in_a_workflow"
