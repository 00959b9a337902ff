"""Party Mode within a step's menu: the run's own agent plays it, and the driver answers each of its rounds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from interlock.workflow.engine.automation_controller import AutomationController
from interlock.workflow.party import exits
from interlock.workflow.state.document import RunPlan
from tests.workflow import virtual
from tests.workflow.stage import APC, DONE, MemoryDesk, Outcome, Part, Play, Player, play, project, script
from tests.workflow.test_party_runs import BMB, agents, line, round_of

BAD = f"Critical: 9\n\n{APC}"
EXIT = "[E] Exit Party Mode - End the collaborative session"
READY = "**Ready to start the discussion?**\n[C] Continue - Begin multi-agent conversation"


def said(**positions: str) -> str:
    spoken = [f"🎲 **{name}**: I say so.\n{line(position, agent=name)}" for name, position in positions.items()]
    return "\n\n".join([*spoken, EXIT])


def run(tmp_path: Path, part: Play, desk: MemoryDesk | None = None, *, yolo: bool = False) -> tuple[Outcome, Player]:
    root = project(tmp_path / "p", module="bmb")
    player = Player(part)
    plan = RunPlan(project=str(root), tier=1, yolo=yolo)
    silent = Player(script("It depends."))
    return play(root, player, skill=BMB, plan=plan, desk=desk or MemoryDesk(), subagents=silent), player


@pytest.mark.req("BMAD-5.3.1", "BMAD-5.1.2", "BMAD-5.1.3", "BMAD-FR20", "BMAD-2b.4.1", "BMAD-FR11", "BMAD-E5.1")
def test_each_round_within_a_menu_is_answered_with_the_drivers_input(tmp_path: Path) -> None:
    turns = [
        BAD,
        READY,
        said(Bond="Begin again", Wendy="Fix the menu"),
        said(Bond="B", Wendy="B"),
        f"Mended.\n\n{APC}",
        DONE,
    ]
    outcome, player = run(tmp_path, script(*turns))
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    firsts = [prompt.splitlines()[0] for prompt in player.prompts]
    assert firsts[1] == "P" and "# Round 1 of at most 5" in player.prompts[1]
    assert firsts[2] == "C" and "# Round 1 of" in player.prompts[2]
    assert "# Round 2 of" in player.prompts[3] and "A: Begin again (Bond)" in player.prompts[3]
    assert firsts[4] == "E" and "Fix the menu" in player.prompts[4] and firsts[5] == "C"
    party = outcome.state.party
    assert (party["how"], party["exit_reason"], len(party["rounds"])) == ("menu", "consensus_reached", 2)
    assert [one["selection"] for one in outcome.state.menu_history if one["menu_id"] == "1:e"][-1] == "E"
    assert [one["kind"] for one in outcome.desk.of("workflow.decided")].count("party") == 1


def test_who_asks_what_to_talk_about_is_told_again(tmp_path: Path) -> None:
    turns = [BAD, "What would you like to discuss with the team today?", said(Bond="Anew", Wendy="Anew"), APC, DONE]
    outcome, player = run(tmp_path, script(*turns))
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert "# Round 1 of" in player.prompts[2] and player.prompts[3].startswith("E\n")
    assert len(outcome.state.party["rounds"]) == 1


@pytest.mark.req("BMAD-5.2.4")
def test_a_party_within_a_menu_that_stagnates_is_decided_by_a_human(tmp_path: Path) -> None:
    stuck = said(Bond="Begin again", Wendy="Fix the menu")

    async def part(part: Part) -> str:
        if part.answer == "E":
            return APC
        return BAD if part.turn == 1 else stuck if part.answer == "P" or round_of(part) else DONE

    desk = MemoryDesk(answers=lambda asking: "Fix it by hand")
    outcome, player = run(tmp_path, part, desk)
    (asked,) = desk.asked.values()
    assert "Begin again" in asked.text and "Fix the menu" in asked.text and outcome.state.outcome == "COMPLETED"
    left = next(prompt for prompt in player.prompts if prompt.startswith("E\n"))
    assert "Fix it by hand" in left


def test_an_agent_that_does_not_hold_it_is_helped_by_others(tmp_path: Path) -> None:
    outcome, player = run(tmp_path, script(BAD, BAD, DONE))
    assert player.prompts[1].startswith("P\n")
    assert [one["purpose"] for one in outcome.desk.of("workflow.party_ended")] == ["thresholds", "thresholds"]
    assert outcome.ending.kind == "parked", "nobody came to anything: a human is asked"


@pytest.mark.req("BMAD-NFR1", "BMAD-E5.7", "BMAD-5.4.4")
def test_a_round_within_a_menu_takes_two_minutes_at_most_however_audible(tmp_path: Path) -> None:
    async def part(part: Part) -> str:
        if part.turn == 1:
            return BAD
        if part.turn == 2:
            part.tool("in_progress")
            for _ in range(1000):
                part.say("…")
                await virtual.passes(10)
        return APC if "time is up" in part.prompt else DONE

    outcome, player = run(tmp_path, part)
    assert [one["timeout_error"] for one in outcome.desk.of("workflow.timeout")] == ["party_timeout"]
    assert 120 <= outcome.seconds < 130 and outcome.state.party["exit_reason"] == "timeout"
    assert "Party was ended: its time is up" in player.prompts[2] and outcome.state.outcome == "COMPLETED"


def test_party_mode_that_a_human_chose_is_driven_too(tmp_path: Path) -> None:
    menu = "Choose an option:\n\n[P] Party Mode\n[D] Delete the plan"
    turns = [menu, said(Bond="Keep it", Wendy="Keep it"), f"Kept.\n{DONE}", DONE]
    desk = MemoryDesk(answers=lambda asking: "P")
    outcome, player = run(tmp_path, script(*turns), desk)
    assert outcome.state.outcome == "COMPLETED" and len(desk.asked) == 1
    assert player.prompts[1].startswith("P\n") and "# Round 1 of" in player.prompts[1]
    assert player.prompts[2].startswith("E\n") and "Keep it" in player.prompts[2]


def test_killed_within_a_round_the_step_opens_party_mode_again_and_goes_on_with_its_round(tmp_path: Path) -> None:
    def author() -> Play:
        async def part(part: Part) -> str:
            if part.answer == "E":
                return APC
            if round_of(part) == 1:
                return said(Bond="Begin again", Wendy="Fix the menu")
            if round_of(part) == 2:
                return said(Bond="B", Wendy="B")
            if "have discussed it before" in part.prompt:
                return APC
            return DONE if part.answer == "C" or part.step in ("2", "3") else BAD

        return part

    whole, _ = run(tmp_path / "whole", author())
    assert whole.state.outcome == "COMPLETED" and len(whole.state.party["rounds"]) == 2
    resumed = 0
    for at in range(2, whole.desk.saves + 1):
        root = project(tmp_path / str(at), module="bmb")
        plan = RunPlan(project=str(root), tier=1)
        desk = MemoryDesk(die_at=at)
        play(root, Player(author()), skill=BMB, plan=plan, desk=desk)
        assert desk.saved is not None
        before = list(desk.saved.party.get("rounds", ()))
        player = Player(author())
        again = play(root, player, skill=BMB, state=desk.saved)
        assert again.state.outcome == "COMPLETED" and not again.desk.asked, at
        party = again.state.party
        assert len(party["rounds"]) == 2 and party["rounds"][: len(before)] == before, at
        assert [one["what"] for one in again.state.triggers] == ["party_mode"], at
        resumed += len(before) == 1
    assert resumed


def talker() -> Play:
    """Its first round takes a second, its next one for ever, but for what a human says; it holds both itself."""

    async def part(part: Part) -> str:
        now = part.prompt.rpartition("## Now\n\n")[2].removeprefix("You were interrupted. Go on.\n\n")
        if "The discussion is over." in now:
            return f"Taken over.\n\n{APC}"
        if "# Round 1 of" in now:
            await virtual.passes(1.0)
            return said(Bond="Begin again", Wendy="Fix the menu")
        if "# Round 2 of" in now:
            for _ in range(1000):
                part.say("…")
                await virtual.passes(10)
        if now.startswith("C\n") or now == "C" or part.step in ("2", "3"):
            return DONE
        return APC if "have discussed it before" in now else BAD

    return part


def says(word: str, desk: MemoryDesk, after: float = 20.0) -> Callable[[AutomationController], Awaitable[None]]:
    async def leave(controller: AutomationController) -> None:
        while not exits.under_way(controller.run_.state.party):
            await virtual.passes(0.5)
        await virtual.passes(after)
        assert desk.saved is not None and exits.exit_understood(word, desk.saved) is not None
        exits.say_exit(desk.shared, desk.saved, word)

    return leave


@pytest.mark.req("BMAD-5.4.1", "BMAD-5.4.2", "BMAD-FR21d", "BMAD-FR21e")
@pytest.mark.parametrize("lasting", [True, False])
def test_an_exit_word_ends_a_party_within_a_menu_at_once_and_not_the_run(tmp_path: Path, lasting: bool) -> None:
    root, desk = project(tmp_path / "p", module="bmb"), MemoryDesk()
    player = Player(talker(), lasting=lasting)
    outcome = play(root, player, skill=BMB, desk=desk, meanwhile=says("end party", desk))
    party = outcome.state.party
    assert (party["how"], party["exit_reason"], len(party["rounds"])) == ("menu", "exit_keyword", 1)
    assert outcome.state.outcome == "COMPLETED" and not desk.asked and outcome.seconds < 25
    left = next(one for one in player.prompts if "The discussion is over." in one)
    assert "Begin again" in left and "show the step's own menu again" in left
    if lasting:
        assert len(player.sessions) == 1 and left.startswith("E\n"), "its session lives on"
    assert not desk.of("workflow.timeout")


def test_an_exit_word_that_comes_while_a_round_ends_by_itself_ends_the_party_too(tmp_path: Path) -> None:
    root, desk = project(tmp_path / "p", module="bmb"), MemoryDesk()
    player = Player(talker())
    outcome = play(root, player, skill=BMB, desk=desk, meanwhile=says("quit", desk, after=0.2))
    party = outcome.state.party
    assert (party["exit_reason"], len(party["rounds"])) == ("exit_keyword", 1), "the round counts whole"
    assert outcome.state.outcome == "COMPLETED" and outcome.seconds < 5
    assert not any("# Round 2 of" in one for one in player.prompts)


@pytest.mark.parametrize("resumes", [True, False])
def test_an_exit_word_to_a_party_within_a_menu_survives_a_kill(tmp_path: Path, resumes: bool) -> None:
    heard = 0
    for at in range(1, 40):
        root, desk = project(tmp_path / str(at), module="bmb"), MemoryDesk(die_at=at)
        before, after = Player(talker(), resumes=resumes), Player(talker(), resumes=resumes)
        killed = play(root, before, skill=BMB, desk=desk, meanwhile=says("quit", desk, after=20))
        if killed.state.outcome is not None:
            break
        if "party" not in desk.shared:
            continue
        assert desk.saved is not None
        again = MemoryDesk(shared=desk.shared)
        after.step, after.before = before.step, before.before  # what its session knows
        outcome = play(root, after, skill=BMB, desk=again, state=desk.saved)
        party = outcome.state.party
        assert (party["exit_reason"], len(party["rounds"])) == ("exit_keyword", 1), at
        assert outcome.state.outcome == "COMPLETED" and not again.asked and outcome.seconds < 5, at
        heard += 1
    assert heard


@pytest.mark.req("BMAD-5.3.1")
def test_the_voices_of_a_menu_are_those_that_are_installed(tmp_path: Path) -> None:
    root = project(tmp_path / "p", module="bmb")
    agents(root, "bond", "wendy", module="bmb")
    note = "**Note**: this is nobody.\n\n"
    player = Player(script(BAD, note + said(Bond="Anew", Wendy="Anew"), APC, DONE))
    outcome = play(root, player, skill=BMB)
    assert outcome.state.outcome == "COMPLETED"
    assert [one["agent"] for one in outcome.state.party["rounds"][0]["contributions"]] == ["Bond", "Wendy"]
