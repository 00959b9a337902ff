"""Brainstorming workflows: ideas of several perspectives come before the step that ideates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.workflow.party import brainstorming
from interlock.workflow.state.document import RunPlan
from tests.workflow.stage import DONE, MemoryDesk, Outcome, Part, Player, play, project
from tests.workflow.test_party_runs import Missing, line, party_mode, round_of, voices

SKILL = "/bmad:core:workflows:brainstorming"
BRIEF = "An app in which patients of a hospital find their way."


def workshop(root: Path) -> Path:
    """A project with a brainstorming workflow of three steps, of which the second ideates."""
    project(root)
    folder = root / "_bmad/core/workflows/brainstorming"
    (folder / "steps").mkdir(parents=True)
    path = "_bmad/core/workflows/brainstorming/workflow.md"
    with (root / "_bmad/_config/workflow-manifest.csv").open("a") as file:
        file.write(f'"brainstorming","Facilitate brainstorming","core","{path}"\n')
    (folder / "workflow.md").write_text(
        "---\nname: brainstorming\n---\n# B\n\nLoad `steps/step-01-session-setup.md`.\n"
    )
    names = ["01-session-setup", "02-technique-execution", "03-idea-organization"]
    for name, following in zip(names, [*names[1:], ""], strict=True):
        onward = f"nextStepFile: './step-{following}.md'\n" if following else ""
        text = f"---\nname: 'step-{name}'\n{onward}---\n# Step {int(name[:2])}: {name[3:]}\n\nDo {name[3:]}.\n"
        (folder / "steps" / f"step-{name}.md").write_text(text)
    return root


def author() -> Player:
    async def part(part: Part) -> str:
        return DONE

    return Player(part)


def ideas() -> Player:
    return voices(lambda name, number: f"Ideas of {name}: arrows on the floor.\n{line(f'{name} paints the floor')}")


def run(root: Path, subagents: Player, player: Player, *, tier: int, brief: str = BRIEF, **more: Any) -> Outcome:
    plan = RunPlan(project=str(root), tier=tier, brief=brief)
    desk = more.pop("desk", None) or MemoryDesk(answers=lambda asking: "yes")
    return play(root, player, skill=SKILL, plan=plan, desk=desk, subagents=subagents, **more)


def prompt_of(player: Player, step: int) -> str:
    return next(one for one in player.prompts if f"# Step {step}: " in one)


@pytest.mark.req("BMAD-5.11.2", "BMAD-5.11.3", "BMAD-E5.10", "BMAD-FR25a", "BMAD-FR25b", "BMAD-E5.11")
@pytest.mark.parametrize("tier", [0, 1, 2])
def test_small_projects_get_simulated_ideation_of_three_to_five_personas(tmp_path: Path, tier: int) -> None:
    root = workshop(tmp_path / "p")
    party_mode(root)
    everybody, player = ideas(), author()
    outcome = run(root, everybody, player, tier=tier)
    assert outcome.state.outcome == "COMPLETED" and not any("Party Mode" in one for one in everybody.prompts)
    first = [one for one in everybody.prompts if round_of(Part(one, None, print, 1)) == 1]  # type: ignore[arg-type]
    assert 3 <= len(first) <= 5 and len({one.split("\n\n")[0] for one in first}) == len(first), "diverse personas"
    assert all("hospital" in one for one in first)
    assert outcome.state.party["seed"]["how"] == "simulated"


@pytest.mark.req("BMAD-5.11.1", "BMAD-E5.10", "BMAD-FR25a")
@pytest.mark.parametrize("tier", [3, 4])
def test_large_projects_get_the_questions_of_their_domain_and_a_full_party(tmp_path: Path, tier: int) -> None:
    root = workshop(tmp_path / "p")
    party_mode(root)

    async def part(part: Part) -> str:
        return f"**Architect**: a.\n{line('Arrows')}\n\n**Dev**: b.\n{line('Arrows')}\n\n[E] Exit Party Mode"

    host, player = Player(part), author()
    outcome = run(root, host, player, tier=tier)
    assert outcome.state.outcome == "COMPLETED" and len(host.sessions) == 1
    assert "Party Mode, the workflow `_bmad/core/workflows/party-mode" in host.prompts[0]
    harmed = "Who is harmed if the idea is wrong"
    assert harmed in host.prompts[0] and harmed in prompt_of(player, 2), "the domain is health"
    assert outcome.state.party["seed"]["how"] == "full" and "Arrows" in prompt_of(player, 2)


@pytest.mark.req("BMAD-5.11.4")
def test_what_it_comes_to_has_the_same_format_however_it_was_held(tmp_path: Path) -> None:
    shapes = []
    for tier in (1, 3):
        root = workshop(tmp_path / str(tier))
        party_mode(root)

        async def part(part: Part) -> str:
            hosted = "Party Mode, the workflow" in part.prompt
            one = f"**Architect**: a.\n{line('Arrows')}\n\n**Dev**: b.\n"
            return f"{one if hosted else ''}{line('Arrows')}"

        outcome = run(root, Player(part), author(), tier=tier)
        summary = outcome.state.party["seed"]["summary"]
        shapes.append({name: type(value).__name__ for name, value in summary.items()})
        assert summary["recommendation"] == "Arrows" and summary["exit_reason"] == "consensus_reached"
    assert shapes[0] == shapes[1]


def test_the_ideas_come_with_the_step_that_ideates_and_no_other(tmp_path: Path) -> None:
    root = workshop(tmp_path / "p")
    player = author()
    run(root, ideas(), player, tier=1)
    assert "paints the floor" in prompt_of(player, 2) and "Ideas of Mika: arrows" in prompt_of(player, 2)
    assert "paints the floor" not in prompt_of(player, 1) and "paints the floor" not in prompt_of(player, 3)


def test_where_nobody_has_said_what_it_is_about_nobody_is_asked_for_ideas(tmp_path: Path) -> None:
    root = workshop(tmp_path / "p")
    everybody = ideas()
    outcome = run(root, everybody, author(), tier=1, brief="")
    assert outcome.state.outcome == "COMPLETED" and not everybody.prompts


def test_other_workflows_are_left_alone(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    everybody = ideas()
    plan = RunPlan(project=str(root), tier=1, brief=BRIEF)
    assert play(root, author(), plan=plan, subagents=everybody).state.outcome == "COMPLETED"
    assert not everybody.prompts


def test_where_no_persona_can_be_asked_the_step_goes_on_without(tmp_path: Path) -> None:
    root = workshop(tmp_path / "p")
    outcome = run(root, Missing(ideas().play), author(), tier=1)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert outcome.state.party["exit_reason"] == "error"


def test_killed_at_any_save_ideas_are_gathered_once(tmp_path: Path) -> None:
    whole = run(workshop(tmp_path / "whole"), ideas(), author(), tier=1)
    for at in range(2, whole.desk.saves + 1):
        root = workshop(tmp_path / str(at))
        first, second, player = ideas(), ideas(), author()
        desk = MemoryDesk(die_at=at)
        run(root, first, author(), tier=1, desk=desk)
        assert desk.saved is not None
        kept = len(desk.saved.party.get("rounds", ()))
        again = run(root, second, player, tier=1, state=desk.saved)
        assert again.state.outcome == "COMPLETED"
        rounds = len(again.state.party["rounds"])
        assert len(second.prompts) == 4 * (rounds - kept), at
        if "# Step 2: " in "".join(player.prompts):
            assert "paints the floor" in prompt_of(player, 2), at


@pytest.mark.parametrize(
    ("domain", "topic", "expected"),
    [
        ("healthcare", "a shop", "Who is harmed"),
        (None, "A card game for two players", "again and again"),
        (None, "Something about clouds of swallows", "take for given"),
        ("fintech", "payments", "money or trust"),
    ],
)
def test_the_questions_fit_the_domain(domain: str | None, topic: str, expected: str) -> None:
    assert expected in " ".join(brainstorming.domain_prompts(domain, topic))
