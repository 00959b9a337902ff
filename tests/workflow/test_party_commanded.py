"""Party Mode as people meet it: on the command line, with programs that know nothing of each other."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from interlock.model.task import Task
from tests.waiting import until
from tests.workflow.company import TEAM, Company
from tests.workflow.stage import APC, DONE, SKILL, Part, Player, project
from tests.workflow.test_in_a_team import Place
from tests.workflow.test_party_runs import BMB, FAILED, PASSED, line, who

PROGRAM = Path(__file__).parent / "programs" / "discussing.py"


@pytest.mark.long
@pytest.mark.req("BMAD-5.3.2", "BMAD-5.2.1", "BMAD-5.2.2", "BMAD-E5.2", "BMAD-FR25b")
def test_programs_discuss_a_stall_and_the_status_shows_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    found = place("run", SKILL, "--agent", f"{sys.executable} {PROGRAM}", "--tier", "1")
    assert found["outcome"] == "COMPLETED", found
    party = place("status")["party"]
    assert (party["how"], party["status"], party["exit_reason"]) == ("simulated", "ended", "consensus_reached")
    (round,) = party["rounds"]
    assert (round["round_number"], round["agents_responded"], round["consensus_level"]) == (1, 3, 100)
    assert party["summary"]["recommendation"] == "Add a section for the users"
    events, _ = place.team.events()
    types = [one.type for one in events if one.type.startswith("workflow.party")]
    assert types == ["workflow.party_round", "workflow.party_ended"]


@pytest.mark.req("BMAD-5.4.1", "BMAD-FR21d")
def test_a_person_in_a_chat_ends_a_discussion_that_a_steps_own_menu_has_opened(tmp_path: Path) -> None:
    prompts: list[str] = []

    async def part(part: Part) -> str:
        prompts.append(part.prompt)
        if part.answer == "P":
            await anyio.sleep_forever()
        return f"Critical: 9\n\n{APC}" if len(prompts) == 1 else APC if part.answer == "E" else DONE

    place = Company(tmp_path, project(tmp_path / "plan-app", module="bmb"), {"ada": Player(part)})

    def say(text: str) -> Task:
        return place.team.task(place.home.chat(TEAM, text, session_id="s1").task_id)

    say(f"{BMB} use tier 1")
    with place.at_work():
        until(lambda: len(prompts) == 2 and (place.run()["party"] or {}).get("status") == "running")
        assert "Party Mode ends" in str(say("goodbye").output)
        until(lambda: place.run()["outcome"] is not None)
    assert place.run()["outcome"] == "COMPLETED" and place.run()["party"]["exit_reason"] == "exit_keyword"
    assert prompts[2].startswith("E\n\nThe discussion is over.")
    assert say("goodbye").state == "ready", "an ordinary message, where nobody discusses"


@pytest.mark.req("BMAD-5.4.1", "BMAD-5.4.2", "BMAD-FR21d")
@pytest.mark.parametrize("in_chat", [True, False])
def test_a_person_ends_a_discussion_that_is_under_way(tmp_path: Path, in_chat: bool) -> None:
    said: list[str] = []
    author: list[str] = []

    async def part(part: Part) -> str:
        if not who(part):
            author.append(part.prompt)
            return FAILED if len(author) < 3 else PASSED if len(author) == 3 else DONE
        if who(part) == "Noor":
            await anyio.sleep_forever()
        said.append(who(part))
        return line(f"{who(part)} adds users")

    place = Company(tmp_path, project(tmp_path / "plan-app"), {"ada": Player(part)})

    def say(text: str) -> str:
        if not in_chat:
            return str(place.team.adjust_workflow(text)["text"])
        told = place.home.chat(TEAM, text, session_id="s1")
        return str(place.team.task(told.task_id).output)

    if in_chat:
        say(f"{SKILL} use tier 1")
    else:
        place.begin(tier=1)
    with place.at_work():
        until(lambda: len(said) == 2 and place.run()["party"].get("status") == "running")
        assert "Party Mode ends" in say("*exit")
        until(lambda: place.run()["outcome"] is not None)
    run = place.run()
    assert (run["outcome"], run["party"]["exit_reason"]) == ("COMPLETED", "exit_keyword")
    (round,) = run["party"]["rounds"]
    assert {one["agent"] for one in round["contributions"]} == {"Rowan", "Ines"}
    assert "adds users" in author[2]
    if in_chat:
        later = place.home.chat(TEAM, "goodbye", session_id="s1")
        assert place.team.task(later.task_id).state == "ready", "an ordinary message, where nobody discusses"
