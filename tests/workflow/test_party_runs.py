"""Runs that call Party Mode: what calls for it, how it is held, what becomes of what it recommends."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.session import Opening, Turn
from interlock.errors import AgentError
from interlock.workflow.engine.automation_controller import AutomationController
from interlock.workflow.engine.ports import Knowledge
from interlock.workflow.party import exits
from interlock.workflow.state.document import RunPlan, WorkflowState
from tests.workflow import virtual
from tests.workflow.stage import APC, DONE, MemoryDesk, Outcome, Part, Player, play, project, script

FAILED = '{"step": "completed", "verdict": "FAILED", "issues": ["no users"]}'
PASSED = '{"step": "completed", "verdict": "PASSED"}'
DOUBTFUL = '{"step": "completed", "verdict": "CONCERNS"}'
BMB = "/bmad:bmb:workflows:make-plan"
MANIFEST = "name,displayName,title,icon,role,identity,communicationStyle,principles,module,path\n"
STALLED = (FAILED, FAILED)


def line(recommendation: str, position: str = "", confidence: int = 80, agent: str = "") -> str:
    who = f'"agent": "{agent}", ' if agent else ""
    return (
        f'{{{who}"recommendation": "{recommendation}", "position": "{position or recommendation}", '
        f'"confidence": {confidence}}}'
    )


def agents(root: Path, *names: str, module: str = "bmm") -> None:
    """Installed agents, each with the title of its name."""
    rows = [f'"{name}","{name.title()}","{name}","x","does {name}","","plain","","{module}","x.md"\n' for name in names]
    (root / "_bmad/_config/agent-manifest.csv").write_text(MANIFEST + "".join(rows))


def party_mode(root: Path) -> None:
    """The party mode of the package."""
    folder = root / "_bmad/core/workflows/party-mode"
    folder.mkdir(parents=True)
    (folder / "workflow.md").write_text("---\nname: party-mode\n---\n# Party Mode\n")
    with (root / "_bmad/_config/workflow-manifest.csv").open("a") as file:
        file.write('"party-mode","x","core","_bmad/core/workflows/party-mode/workflow.md"\n')
    agents(root, "architect", "dev", "tea")


def who(part: Part) -> str:
    found = re.match(r"You are ([\w-]+)", part.prompt)
    return found[1] if found else ""


def round_of(part: Part) -> int:
    found = re.search(r"^# Round (\d+) of", part.prompt, re.MULTILINE)
    return int(found[1]) if found else 0


def voices(says: Callable[[str, int], str]) -> Player:
    async def part(part: Part) -> str:
        return says(who(part), round_of(part))

    return Player(part)


def stalling(*after: str) -> Player:
    """An author whose first step stalls, and what it says once it was advised."""
    return Player(script(*STALLED, *(after or (PASSED,)), DONE))


def run(tmp_path: Path, subagents: Player, author: Player | None = None, *, tier: int = 1, **more: Any) -> Outcome:
    root = more.pop("root", None) or project(tmp_path / "p", module=more.pop("module", "bmm"))
    plan = RunPlan(project=str(root), tier=tier, yolo=more.pop("yolo", False))
    desk = more.pop("desk", None) or MemoryDesk()
    return play(root, author or stalling(), plan=plan, desk=desk, subagents=subagents, **more)


@pytest.mark.req("BMAD-5.3.2", "BMAD-5.1.1", "BMAD-E5.2", "BMAD-FR21a", "BMAD-FR20")
def test_a_stall_calls_a_party_whose_recommendation_mends_it(tmp_path: Path) -> None:
    everybody = voices(lambda name, number: f"It lacks users.\n{line('Add a users section')}")
    author = stalling()
    outcome = run(tmp_path, everybody, author)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert len(everybody.prompts) == 3, "three voices, one round"
    for prompt in everybody.prompts:
        assert "Step 1" in prompt and "no users" in prompt and "Write part 1." in prompt, "problem and context"
        assert "# Round 1 of at most 5" in prompt
    assert "Add a users section" in author.prompts[2] and "All agree" in author.prompts[2]
    (recovered,) = outcome.desk.of("workflow.recovered")
    assert recovered["recovery_method"] == "party_mode"
    (ended,) = outcome.desk.of("workflow.party_ended")
    assert (ended["exit_reason"], ended["purpose"], ended["confidence"]) == ("consensus_reached", "stall", 80)


@pytest.mark.req("BMAD-2b.12.6", "BMAD-5.3.2")
def test_what_a_party_found_is_kept_for_the_next_time(tmp_path: Path) -> None:
    learned: list[tuple[str, str]] = []

    async def learn(failure: str, fix: str) -> None:
        learned.append((failure, fix))

    knowledge = Knowledge(learn=learn)
    run(tmp_path, voices(lambda name, number: line("Add a users section")), knowledge=knowledge)
    assert learned and "party mode" in learned[0][1] and "Add a users section" in learned[0][1]


@pytest.mark.req("BMAD-2b.12.3", "BMAD-FR19c")
def test_a_party_that_did_not_help_is_not_called_again_for_the_same_result(tmp_path: Path) -> None:
    author = stalling(FAILED, FAILED, FAILED)
    outcome = run(tmp_path, voices(lambda name, number: line("Add a users section")), author)
    assert [one["what"] for one in outcome.state.triggers] == ["party_mode"]
    assert outcome.state.recovery["failed_party"] and len(outcome.desk.of("workflow.party_ended")) == 1


@pytest.mark.req("BMAD-5.1.2", "BMAD-5.2.1", "BMAD-5.2.2", "BMAD-FR21", "BMAD-E5.11", "BMAD-FR25b")
def test_rounds_go_on_with_what_was_said_until_all_agree(tmp_path: Path) -> None:
    def says(name: str, number: int) -> str:
        if number == 1:
            return f"By {name}.\n{line(f'{name} goes alone')}"
        return f"I follow.\n{line('as the others', 'B', 90)}"

    everybody = voices(says)
    outcome = run(tmp_path, everybody)
    rounds = [(one["round_number"], one["agents_responded"], one["consensus_level"]) for one in _rounds(outcome)]
    assert rounds == [(1, 3, 33), (2, 3, 100)]
    second = [one for one in everybody.prompts if "# Round 2 of" in one]
    assert len(second) == 3 and all("A: " in one and "B: " in one and "33 % agree" in one for one in second)
    assert outcome.state.party["exit_reason"] == "consensus_reached" and outcome.state.outcome == "COMPLETED"
    assert len({who_ for one in everybody.prompts if (who_ := one.split(",")[0])}) == 3, "diverse personas"
    assert len(everybody.sessions) == 6 and all(one.closed for one in everybody.sessions)


def _rounds(outcome: Outcome) -> list[dict[str, Any]]:
    return outcome.desk.of("workflow.party_round")


@pytest.mark.req("BMAD-5.2.3", "BMAD-5.4.3")
def test_after_five_rounds_the_best_recommendation_is_taken(tmp_path: Path) -> None:
    everybody = voices(lambda name, number: line(f"{name} tries road {number}", confidence=60 + number))
    author = stalling()
    outcome = run(tmp_path, everybody, author)
    assert len(_rounds(outcome)) == 5 and outcome.state.party["exit_reason"] == "max_rounds"
    summary = outcome.state.party["summary"]
    assert "road 5" in summary["recommendation"] and 0 < summary["confidence"] <= 65
    assert len(summary["recommendations"]) == 3 and "road 5" in author.prompts[2]
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked


@pytest.mark.req("BMAD-5.2.4", "BMAD-FR21")
def test_a_party_that_stagnates_puts_the_positions_to_a_human(tmp_path: Path) -> None:
    author = stalling()
    desk = MemoryDesk(answers=lambda asking: "Do what Rowan says, in a table")
    outcome = run(tmp_path, voices(lambda name, number: line(f"{name} stays alone")), author, desk=desk)
    (asked,) = outcome.desk.asked.values()
    assert asked.kind == "escalation" and all(f"{name} stays alone" in asked.text for name in ("Rowan", "Ines", "Noor"))
    assert outcome.state.party["exit_reason"] == "stagnation" and len(_rounds(outcome)) == 3
    assert "in a table" in author.prompts[2] and outcome.state.outcome == "COMPLETED"


@pytest.mark.req("BMAD-5.4.1", "BMAD-FR21d")
@pytest.mark.parametrize("word", ["*exit", "quit", "end party", "goodbye"])
def test_a_humans_exit_keyword_ends_the_party_and_not_the_run(tmp_path: Path, word: str) -> None:
    author = stalling()
    desk = MemoryDesk(answers=lambda asking: word)
    outcome = run(tmp_path, voices(lambda name, number: line(f"{name} stays alone")), author, desk=desk)
    assert outcome.state.outcome == "COMPLETED" and "stays alone" in author.prompts[2]


def test_nobody_is_asked_by_a_run_in_which_nobody_is_there(tmp_path: Path) -> None:
    outcome = run(tmp_path, voices(lambda name, number: line(f"{name} stays alone")), yolo=True)
    assert outcome.state.party["exit_reason"] == "stagnation"
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked


@pytest.mark.req("BMAD-5.4.2", "BMAD-FR21e", "BMAD-E5.15", "BMAD-5.4.1", "BMAD-NFR5")
def test_a_voice_that_leaves_ends_the_round_and_the_others_get_half_a_second(tmp_path: Path) -> None:
    heard = []

    async def part(part: Part) -> str:
        seconds = {"Rowan": 3.0, "Ines": 3.4, "Noor": 30.0}[who(part)]
        await virtual.passes(seconds)
        heard.append(who(part))
        return line("Add users") + ("\n*exit" if who(part) == "Rowan" else "")

    everybody = Player(part)
    outcome = run(tmp_path, everybody)
    party = outcome.state.party
    assert party["exit_reason"] == "exit_keyword" and [one["agent"] for one in party["rounds"][0]["contributions"]] == [
        "Rowan",
        "Ines",
    ]
    assert heard == ["Rowan", "Ines"] and all(one.closed for one in everybody.sessions)
    assert 3.5 <= outcome.seconds < 4, "what Noor would say later is not waited for"
    assert outcome.state.outcome == "COMPLETED"


@pytest.mark.req("BMAD-5.4.4", "BMAD-FR21", "BMAD-NFR5")
def test_a_round_that_nobody_answers_in_time_ends_the_party_with_what_was_heard(tmp_path: Path) -> None:
    async def part(part: Part) -> str:
        if round_of(part) > 1:
            await virtual.passes(10_000)
        return line(f"{who(part)} adds users", confidence=90 if who(part) == "Ines" else 50)

    author = stalling()
    outcome = run(tmp_path, Player(part), author)
    party = outcome.state.party
    assert party["exit_reason"] == "timeout" and "120 s" in party["error"] and len(party["rounds"]) == 1
    (ended,) = outcome.desk.of("workflow.party_ended")
    assert ended["exit_reason"] == "timeout" and ended["error"] and ended["recommendation"]
    assert outcome.seconds < 125 and "Ines adds users" in author.prompts[2] and outcome.state.outcome == "COMPLETED"


@pytest.mark.req("BMAD-5.4.4")
def test_who_does_not_answer_in_time_does_not_hold_the_others_up(tmp_path: Path) -> None:
    async def part(part: Part) -> str | Turn:
        if who(part) == "Noor":
            await virtual.passes(10_000)
        return line("Add users")

    outcome = run(tmp_path, Player(part))
    (one,) = _rounds(outcome)
    assert (one["agents_responded"], one["consensus_level"]) == (2, 100) and outcome.seconds < 125


class Missing(Player):
    """A program that is not installed."""

    async def open(self, opening: Opening):  # type: ignore[no-untyped-def]
        raise AgentError("The program `claude` is missing; install it.")


@pytest.mark.req("BMAD-5.4.4", "BMAD-5.3.2")
def test_where_no_agent_can_be_opened_a_human_is_asked_and_told_why(tmp_path: Path) -> None:
    outcome = run(tmp_path, Missing(script("")))
    (asked,) = outcome.desk.asked.values()
    assert outcome.ending.kind == "parked" and "`claude` is missing" in asked.text and "no users" in asked.text
    assert [one["what"] for one in outcome.state.triggers] == ["party_mode"]
    assert outcome.state.party["exit_reason"] == "error"


def test_without_capacity_the_run_waits_and_the_party_goes_on_later(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    empty = Player(script(Turn("capacity", retry_at=99.0, detail="the limit is reached")))
    outcome = run(tmp_path, empty, root=root)
    assert outcome.ending.kind == "capacity" and outcome.ending.retry_at == 99.0
    assert outcome.desk.saved is not None and outcome.desk.saved.party["status"] == "running"
    everybody = voices(lambda name, number: line("Add users"))
    again = play(root, Player(script(PASSED, DONE)), state=outcome.desk.saved, subagents=everybody)
    assert again.state.outcome == "COMPLETED" and len(everybody.prompts) == 3


@pytest.mark.req("BMAD-5.3.3", "BMAD-FR21b", "BMAD-E5.3")
@pytest.mark.parametrize(("tier", "called"), [(1, False), (2, True), (4, True)])
def test_a_doubtful_result_calls_further_perspectives_from_tier_2_on(tmp_path: Path, tier: int, called: bool) -> None:
    everybody = voices(lambda name, number: line("Say who decides", confidence=95))
    author = Player(script(DOUBTFUL, PASSED, DONE))
    desk = MemoryDesk(answers=lambda asking: "yes")
    outcome = run(tmp_path, everybody, author, tier=tier, desk=desk)
    assert outcome.state.outcome == "COMPLETED" and bool(everybody.prompts) is called
    assert ("Say who decides" in author.prompts[1]) is called
    if called:
        assert "confidence in the result is 50 of 100" in outcome.state.triggers[0]["why"]
        assert outcome.desk.of("workflow.party_ended")[0]["purpose"] == "low_confidence"


def test_a_result_of_a_large_project_is_not_doubtful_for_its_single_signal(tmp_path: Path) -> None:
    """The score of a passed step at tier 3 is 50, by the cap for a single signal and the tier; nobody doubts it."""
    everybody = voices(lambda name, number: line("x"))
    desk = MemoryDesk(answers=lambda asking: "yes")
    outcome = run(tmp_path, everybody, Player(script(PASSED)), tier=3, desk=desk)
    assert outcome.state.outcome == "COMPLETED" and not everybody.prompts
    assert outcome.state.steps["step_1"].confidence == 50.0


def test_doubt_calls_once_in_a_visit_and_what_the_voices_are_sure_of_is_a_signal(tmp_path: Path) -> None:
    everybody = voices(lambda name, number: line("Say who decides", confidence=95))
    author = Player(script(DOUBTFUL, DOUBTFUL, DONE))
    outcome = run(tmp_path, everybody, author, tier=2)
    assert outcome.state.outcome == "COMPLETED" and len(everybody.prompts) == 3
    # 50 for the verdict and 95 for Party Mode: weighted by priority, less 5 for the tier.
    assert outcome.state.steps["step_1"].confidence == pytest.approx(52.9, abs=0.1)


def test_doubt_that_nobody_can_settle_lets_the_author_look_once_more(tmp_path: Path) -> None:
    author = Player(script(DOUBTFUL, PASSED, DONE))
    outcome = run(tmp_path, voices(lambda name, number: "It depends."), author, tier=2)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert "came to no recommendation" in author.prompts[1]


@pytest.mark.req("BMAD-5.3.1", "BMAD-E5.1", "BMAD-FR21a")
@pytest.mark.parametrize("report", ["Critical Issues: 4\nMajor Issues: 0", "Critical: 0\nMajor Issues: 6"])
def test_the_builders_thresholds_call_a_party_of_builders_where_no_menu_offers_one(tmp_path: Path, report: str) -> None:
    root = project(tmp_path / "p", module="bmb")
    agents(root, "agent-builder", "workflow-builder", "module-builder", "architect", module="bmb")
    everybody = voices(lambda name, number: line("Begin with the menu", confidence=70))
    author = Player(script(f"{report}\n{PASSED}", PASSED, DONE))
    outcome = run(tmp_path, everybody, author, root=root, skill=BMB)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert {prompt.split(",")[0] for prompt in everybody.prompts} == {
        "You are Agent-Builder",
        "You are Workflow-Builder",
        "You are Module-Builder",
    }
    assert "Begin with the menu" in author.prompts[1]


@pytest.mark.req("BMAD-5.3.1", "BMAD-FR21a")
def test_a_menu_that_does_not_offer_party_mode_waits_until_it_was_held(tmp_path: Path) -> None:
    root = project(tmp_path / "p", module="bmb")
    menu = "Please select: [C] Continue to the next step"
    author = Player(script(f"Critical: 9\n\n{menu}", f"Critical: 0\n\n{menu}", DONE))
    everybody = voices(lambda name, number: line("Begin with the menu"))
    outcome = run(tmp_path, everybody, author, root=root, skill=BMB)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert "Begin with the menu" in author.prompts[1] and author.prompts[2].startswith("C\n")


def test_errors_that_are_left_after_a_party_are_not_accepted_without_a_human(tmp_path: Path) -> None:
    root = project(tmp_path / "p", module="bmb")
    author = Player(script(f"Critical: 9\n\n{APC}", f"Critical: 9\n\n{APC}", f"Critical: 9\n\n{APC}"))
    everybody = voices(lambda name, number: line("Begin with the menu"))
    outcome = run(tmp_path, everybody, author, root=root, skill=BMB)
    assert outcome.ending.kind == "parked" and len(outcome.desk.asked) == 1


HOSTED = "🏗️ **Architect**: Add users.\n{one}\n\n💻 **Dev**: Yes.\n{two}\n\n[E] Exit Party Mode - End the session"


@pytest.mark.req("BMAD-5.1.1", "BMAD-5.4.3", "BMAD-FR20")
def test_a_large_project_holds_the_installed_party_mode_in_one_session(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    party_mode(root)

    async def part(part: Part) -> str:
        if part.prompt.startswith("*exit"):
            return "🏗️ **Architect**: Farewell."
        if part.turn == 1:
            return "Welcome!\n\n**Ready to start the discussion?**\n[C] Continue - Begin multi-agent conversation"
        one, two = (line("Add users", agent=name) for name in ("Architect", "Dev"))
        return HOSTED.format(one=one, two=two if round_of(part) > 1 else line("Drop it", agent="Dev"))

    host = Player(part)
    author = stalling()
    outcome = run(tmp_path, host, author, root=root, tier=3, desk=MemoryDesk(answers=lambda asking: "yes"))
    assert outcome.state.outcome == "COMPLETED" and len(host.sessions) == 1 and host.sessions[0].closed
    assert "_bmad/core/workflows/party-mode/workflow.md" in host.prompts[0] and "# Round 1 of" in host.prompts[0]
    assert host.prompts[1].startswith("C\n") and "# Round 2 of" in host.prompts[2]
    assert host.prompts[-1].startswith("*exit\n"), "it is left by the exit keyword"
    assert [one["agents_responded"] for one in _rounds(outcome)] == [2, 2]
    party = outcome.state.party
    assert (party["how"], party["exit_reason"]) == ("full", "consensus_reached") and "Add users" in author.prompts[2]


def test_the_farewell_of_a_host_is_waited_for_half_a_second(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    party_mode(root)

    async def part(part: Part) -> str:
        if part.prompt.startswith("*exit"):
            await virtual.passes(60)
        return HOSTED.format(one=line("Add users", agent="Architect"), two=line("Add users", agent="Dev"))

    outcome = run(tmp_path, Player(part), root=root, tier=3, desk=MemoryDesk(answers=lambda asking: "yes"))
    assert outcome.state.outcome == "COMPLETED" and 0.5 <= outcome.seconds < 1


@pytest.mark.req("BMAD-E5.11", "BMAD-FR25b", "BMAD-5.4.3")
@pytest.mark.parametrize(("tier", "how"), [(0, "simulated"), (2, "simulated"), (3, "full")])
def test_small_projects_simulate_what_large_ones_hold_in_full_in_the_same_format(
    tmp_path: Path, tier: int, how: str
) -> None:
    root = project(tmp_path / "p")
    party_mode(root)

    async def part(part: Part) -> str:
        if "Party Mode, the workflow" in part.prompt:
            return HOSTED.format(one=line("Add users", agent="Architect"), two=line("Add users", agent="Dev"))
        return line("Add users")

    outcome = run(tmp_path, Player(part), root=root, tier=tier, desk=MemoryDesk(answers=lambda asking: "yes"))
    party = outcome.state.party
    assert party["how"] == how and party["exit_reason"] == "consensus_reached"
    assert set(party["summary"]) == {
        *("exit_reason", "rounds", "recommendation", "confidence", "consensus_level", "recommendations"),
        *("positions", "error"),
    }


@pytest.mark.parametrize("how", ["simulated", "full"])
def test_killed_at_any_save_it_goes_on_with_the_round_it_was_in(tmp_path: Path, how: str) -> None:
    def says(name: str, number: int) -> str:
        return line(f"{name} goes alone") if number < 3 and name != "Ines" else line("Add users", "B", 70 + number)

    def everybody() -> Player:
        async def part(part: Part) -> str:
            if "Party Mode, the workflow" not in part.prompt:
                return says(who(part), round_of(part))
            return "\n".join(f"**{one}**: So.\n{says(one, round_of(part))}" for one in ("Architect", "Dev", "Tea"))

        return Player(part)

    tier = 3 if how == "full" else 1
    whole = _killed(tmp_path / "whole", everybody(), tier, None)
    assert whole.state.outcome == "COMPLETED"
    saves = whole.desk.saves
    for at in range(1, saves + 1):
        root = tmp_path / f"at-{at}"
        outcome = _killed(root, everybody(), tier, at)
        saved = outcome.desk.saved
        if saved is None or saved.party.get("status") != "running":
            continue
        before = saved.party["rounds"]
        others = everybody()
        desk = MemoryDesk(answers=lambda asking: "yes")
        again = play(root / "p", Player(script(PASSED, DONE)), state=saved, desk=desk, subagents=others)
        assert again.state.outcome == "COMPLETED", (at, again.ending)
        rounds = [one["round_number"] for one in again.desk.of("workflow.party_round")]
        assert rounds == list(range(len(before) + 1, len(before) + 1 + len(rounds))), "no round is repeated"
        assert again.state.party["exit_reason"] == whole.state.party["exit_reason"]
        assert again.state.party["rounds"][: len(before)] == before


def _killed(root: Path, subagents: Player, tier: int, at: int | None) -> Outcome:
    made = project(root / "p")
    if tier >= 3:
        party_mode(made)
    desk = MemoryDesk(answers=lambda asking: "yes", die_at=at)
    plan = RunPlan(project=str(made), tier=tier)
    return play(made, stalling(), plan=plan, desk=desk, subagents=subagents)


@pytest.mark.req("BMAD-5.4.1", "BMAD-5.4.2", "BMAD-FR21d", "BMAD-FR21e", "BMAD-E5.15")
@pytest.mark.parametrize("word", ["*exit", "goodbye", "end party", "Quit."])
def test_a_humans_exit_keyword_ends_a_party_that_is_under_way(tmp_path: Path, word: str) -> None:
    desk, everybody = MemoryDesk(), Player(_slowly)

    async def leave(controller: AutomationController) -> None:
        await virtual.passes(20.0)
        state = controller.run_.state
        found = exits.exit_understood(word, state)
        assert found is not None and exits.exit_understood(f"please {word} now", state) is None
        exits.say_exit(desk.shared, state, found)

    outcome = run(tmp_path, everybody, desk=desk, meanwhile=leave)
    party = outcome.state.party
    assert party["exit_reason"] == "exit_keyword"
    said = [[one["agent"] for one in round["contributions"]] for round in party["rounds"]]
    assert said == [["Rowan", "Ines", "Noor"], ["Rowan", "Ines"]], "what Noor would have said later is discarded"
    assert outcome.seconds == pytest.approx(20.9) and all(one.closed for one in everybody.sessions)
    assert outcome.state.outcome == "COMPLETED"


@pytest.mark.req("BMAD-5.4.1", "BMAD-NFR7")
def test_an_exit_keyword_is_heard_again_by_a_run_that_was_killed_before_it_had_acted_on_it(tmp_path: Path) -> None:
    ended_by: list[int] = []
    for at in range(1, 40):
        root = project(tmp_path / str(at))
        desk = MemoryDesk(die_at=at)
        said_at: list[float] = []

        async def leave(controller: AutomationController, desk: MemoryDesk = desk, said: list[float] = said_at) -> None:
            while not exits.under_way(controller.run_.state.party):
                await virtual.passes(1.0)
            await virtual.passes(5.0)
            assert desk.saved is not None
            exits.say_exit(desk.shared, desk.saved, "*exit")
            said.append(1.0)

        killed = run(tmp_path, Player(_slowly), root=root, desk=desk, meanwhile=leave)
        if killed.state.outcome is not None:
            break
        if not said_at:
            continue
        assert desk.saved is not None
        again = MemoryDesk(shared=desk.shared)
        everybody = Player(_slowly)
        outcome = run(tmp_path, everybody, stalling(PASSED), root=root, desk=again, state=desk.saved)
        party = outcome.state.party
        assert (party["status"], party["exit_reason"], party["number"]) == ("ended", "exit_keyword", 1), at
        ended_by.append(len(everybody.prompts))
    assert ended_by and not any(ended_by), "nobody is asked again"


@pytest.mark.req("BMAD-5.4.1")
def test_an_exit_keyword_is_for_one_discussion_and_not_for_the_next(tmp_path: Path) -> None:
    desk, everybody = MemoryDesk(), Player(_slowly)

    async def leave(controller: AutomationController) -> None:
        await virtual.passes(5.0)
        exits.say_exit(desk.shared, controller.run_.state, "quit")

    outcome = run(tmp_path, everybody, desk=desk, meanwhile=leave)
    state = outcome.state
    assert state.party["exit_reason"] == "exit_keyword" and exits.exit_said(desk.shared, state) == "quit"
    state.party = {**state.party, "status": "running", "number": state.party["number"] + 1}
    assert exits.exit_said(desk.shared, state) is None


def test_the_document_of_a_session_keeps_few_words(tmp_path: Path) -> None:
    document: dict[str, Any] = {}
    for number in range(50):
        exits.say_exit(document, WorkflowState(f"w{number}", "x", party={"number": 1}), "quit")
    assert list(document["party"]) == [f"w{number}" for number in range(30, 50)]


async def _slowly(part: Part) -> str:
    """In the second round one of them needs very long."""
    slow = who(part) == "Noor" and round_of(part) == 2
    await virtual.passes({"Rowan": 10.0, "Ines": 10.4, "Noor": 10.0}[who(part)] if not slow else 50.0)
    return line(f"{who(part)} in round {round_of(part)}")


@pytest.mark.req("BMAD-5.4.1")
def test_an_exit_keyword_is_one_only_where_a_party_is_under_way(tmp_path: Path) -> None:
    outcome = run(tmp_path, voices(lambda name, number: line("Add users")))
    assert outcome.state.party["status"] == "ended" and exits.exit_understood("*exit", outcome.state) is None
    assert exits.exit_understood("*exit", None) is None
