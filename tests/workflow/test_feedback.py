"""What people choose and say is remembered over runs, changes what is decided, and can be seen and undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.memory.local import LocalMemory
from interlock.memory.store import MemoryUnavailable
from interlock.workflow.engine import decision_log
from interlock.workflow.engine.ports import Knowledge
from interlock.workflow.memory.memory_bridge import MemoryBridge, Origin
from interlock.workflow.package import packages
from interlock.workflow.package import workflow as workflows
from interlock.workflow.preferences import implicit
from interlock.workflow.preferences.application import Choices
from interlock.workflow.preferences.patterns import (
    NEGATIVE,
    PREFERENCE,
    Choice,
    Feedback,
    Forgotten,
    Learned,
    Pattern,
    fix_situation,
    menu_situation,
    plain,
    question_situation,
)
from interlock.workflow.state.document import RunPlan
from tests.waiting import until
from tests.workflow.company import TEAM, Company
from tests.workflow.stage import DONE, SKILL, MemoryDesk, Part, Player, play, project, script
from tests.workflow.test_in_a_team import Place

WAYS = 'What next?\n\n[S] Start building now\n[B] Begin with tests\n\nPlease select an option:\n{"step": "waiting"}'
LABELS = ("Start building now", "Begin with tests")
STEP = "step-01-part.md#1"
SITUATION = menu_situation(SKILL, STEP, LABELS)


def asking(step: str = "1", heard: list[str] | None = None) -> Any:
    """An agent that shows the menu of two ways at that step, and does what it is told."""

    async def part(part: Part) -> str:
        if heard is not None and part.answer in ("S", "B"):
            heard.append(part.answer)
        return WAYS if part.step == step and part.answer not in ("S", "B") else DONE

    return part


def company(tmp_path: Path, part: Any, *, memory: Any = True, **more: Any) -> Company:
    return Company(tmp_path, project(tmp_path / "plan-app", 2, **more), {"ada": Player(part, resumes=True)}, memory)


def finished(place: Company, *answers: str) -> dict[str, Any]:
    """A run from its beginning to its end; these answers are given to what it asks."""
    begun = place.begin(tier=1)
    left = list(answers)
    place.drive()
    while place.run(begun["workflow_id"])["outcome"] is None:
        assert left, f"it asks: {place.team.questions()[0].text}"
        place.answer(left.pop(0))
        place.drive()
    assert not left, "it did not ask"
    return place.run(begun["workflow_id"])


def menus(run: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["choice"], one["by"], one["decision_source"]) for one in run["decisions"] if one["kind"] == "menu"]


@pytest.mark.req("BMAD-7.8.4", "BMAD-7.9.5", "BMAD-FR65", "BMAD-E7.8")
def test_what_one_run_was_told_the_next_does_not_ask(tmp_path: Path) -> None:
    heard: list[str] = []
    place = company(tmp_path, asking(heard=heard))
    assert menus(finished(place, "B")) == [("B", "human", "human")]
    second = finished(place)
    assert heard == ["B", "B"] and menus(second) == [("B", "engine", "learned_preference")]
    assert [one["decision_source"] for one in second["menu_history"]] == ["learned_preference"]
    logged = place.team.workflow_decisions(second["workflow_id"])
    (menu,) = [one for one in logged if one["kind"] == "menu"]
    assert "was chosen here before" in menu["why"] and menu["confidence"] == 85 and menu["replayed"] == "B"


@pytest.mark.req("BMAD-7.8.1", "BMAD-7.8.4", "BMAD-FR63", "BMAD-FR64", "BMAD-E7.7")
def test_what_was_not_wanted_is_not_done_by_the_next_run(tmp_path: Path) -> None:
    place = company(tmp_path, asking())
    finished(place, "S")
    assert menus(finished(place)) == [("S", "engine", "learned_preference")]
    said = place.team.workflow_feedback("Don't do that again")
    assert said["stored"] and said["understood"] == NEGATIVE
    assert said["text"] == "Noted: at Step 1: Part 1 I will not choose [S] Start building now again."
    (kept,) = [one for one in memories(place) if "type:negative_pattern" in one.tags]
    assert (
        kept.project_id == "plan-app" and f"workflow:{SKILL}" in kept.tags and "[S] Start building now" in kept.content
    )
    place.begin(tier=1)
    place.drive()
    question = place.question()
    assert question.default == "B" and "you do not want S here" in str(question.context)
    place.answer("B", question)
    place.drive()
    assert menus(finished(place)) == [("B", "engine", "learned_preference")]


def memories(place: Company) -> tuple[Any, ...]:
    return LocalMemory(place.home.path, place.home._clock).recall("", project_id="plan-app", limit=100).memories


@pytest.mark.req("BMAD-7.8.2", "BMAD-7.8.3", "BMAD-E7.7")
def test_what_was_good_and_what_is_preferred_is_kept_seen_and_undone(tmp_path: Path) -> None:
    place = company(tmp_path, asking())
    finished(place, "S")
    finished(place)
    good = place.team.workflow_feedback("Good choice")
    words = place.team.workflow_feedback("Remember this preference: always use thorough validation")
    assert "I will choose it again" in good["text"] and "thorough validation" in words["text"]
    tags = [tag for one in memories(place) for tag in one.tags]
    assert "type:positive_pattern" in tags and "type:explicit_preference" in tags
    listed = {one["kind"]: one for one in place.team.learned_preferences()}
    assert set(listed) == {"positive_pattern", PREFERENCE, "choice"}
    player: Player = place.agents["ada"]  # type: ignore[assignment]
    before = len(player.prompts)
    finished(place)
    assert "always use thorough validation" in player.prompts[before]
    gone = place.team.forget_preference(listed[PREFERENCE]["id"])
    assert gone["stored"] and "Forgotten" in gone["said"]
    for kind in ("positive_pattern", "choice"):
        place.team.forget_preference(listed[kind]["id"])
    assert place.team.learned_preferences() == []
    before = len(player.prompts)
    assert menus(finished(place, "S")) == [("S", "human", "human")], "it asks again"
    assert "thorough" not in "".join(player.prompts[before:])


@pytest.mark.req("BMAD-7.9.1", "BMAD-7.9.4", "BMAD-FR65", "BMAD-E7.8")
def test_a_choice_that_is_taken_back_at_once_is_learned_from(tmp_path: Path) -> None:
    place = company(tmp_path, asking(), front="oversight: required\n")
    finished(place, "S", "confirm", "confirm")
    begun = place.begin(tier=1)
    place.drive()
    assert place.question().kind == "checkpoint", "the menu was answered by what was learned"
    place.team.rollback_workflow(begun["workflow_id"], to=1)
    place.drive()
    question = place.question()
    assert question.kind == "menu" and "you took back what was chosen here" in str(question.context)
    place.answer("B", question)
    place.drive()
    learned = [one for one in memories(place) if "source:implicit" in one.tags]
    assert {one.tagged("type"): one.tagged("choice") for one in learned} == {
        "negative_pattern": plain(LABELS[0]), "positive_pattern": plain(LABELS[1]),
    }  # fmt: skip
    told = [one.payload["kind"] for one in place.team.events()[0] if one.type == "workflow.feedback"]
    assert told == ["negative_pattern", "positive_pattern"]
    assert menus(finished_with_oversight(place))[0] == ("B", "engine", "learned_preference")


def finished_with_oversight(place: Company) -> dict[str, Any]:
    place.team.cancel_workflow()
    return finished(place, "confirm", "confirm")


@pytest.mark.req("BMAD-7.8.4")
def test_what_is_said_while_a_run_goes_on_counts_at_its_next_decision(tmp_path: Path) -> None:
    place = company(tmp_path, asking("2"), front="oversight: required\n", memory=False)
    place.begin(tier=1)
    with place.at_work():
        question = place.question(held=True)
        said = place.team.workflow_feedback("Remember this preference: always choose Begin with tests")
        assert not said["stored"] and "for this session only" in said["text"]
        place.answer("confirm", question)
        place.event("workflow.step_completed", step=2)
        assert menus(place.run()) == [("B", "engine", "learned_preference")]
        until(lambda: bool(place.team.questions()))
    player: Player = place.agents["ada"]  # type: ignore[assignment]
    assert len(player.sessions) == 1 and "always choose Begin with tests" in player.prompts[1]


def test_without_memory_every_run_asks_as_before(tmp_path: Path) -> None:
    class Gone(LocalMemory):
        def recall(self, *_: Any, **__: Any) -> Any:
            raise MemoryUnavailable("it is gone")

        def remember(self, *_: Any, **__: Any) -> Any:
            raise MemoryUnavailable("it is gone")

    directory = str(tmp_path / "nowhere")
    place = company(tmp_path, asking(), memory=lambda settings, project, output, log: Gone(directory, None))  # type: ignore[arg-type]
    assert menus(finished(place, "S")) == menus(finished(place, "S")) == [("S", "human", "human")]
    assert "it is gone" in place.team.workflow_feedback("Remember: be brief")["text"]


def test_memory_is_looked_up_once_for_a_run_and_not_at_its_steps(tmp_path: Path) -> None:
    looked: list[int] = []

    class Counting(LocalMemory):
        def recall(self, *arguments: Any, **more: Any) -> Any:
            looked[-1] += 1
            return super().recall(*arguments, **more)

    def opened(settings: Any, project: str, output: str, log: Any) -> LocalMemory:
        return Counting(place.home.path, place.home._clock)

    for steps in (2, 8):
        looked.append(0)
        root = project(tmp_path / f"p{steps}", steps)
        place = Company(tmp_path / f"h{steps}", root, {"ada": Player(asking())}, opened)
        finished(place, "S")
    assert looked[0] == looked[1]


def stage(tmp_path: Path, learned: Learned, part: Any, **more: Any) -> Any:
    root = project(tmp_path / "p")
    plan = RunPlan(project=str(root), **{"tier": 1, **more})
    return play(root, Player(part), knowledge=Knowledge(choices=Choices(learned)), desk=MemoryDesk(), plan=plan)


def chose(label: str, at: int, situation: str = SITUATION) -> Choice:
    type = implicit.decision_type(LABELS[0])
    return Choice(SKILL, STEP, situation, plain(label), tuple(map(plain, LABELS)), plain(LABELS[0]), type, str(at))


@pytest.mark.req("BMAD-7.9.2", "BMAD-7.9.5")
def test_an_option_that_is_never_taken_is_shown_last_and_can_still_be_taken(tmp_path: Path) -> None:
    menu = 'What now?\n\n[R] Red\n[G] Green\n[Y] Yellow\n\nPlease select an option:\n{"step": "waiting"}'
    situation = menu_situation(SKILL, STEP, ("Red", "Green", "Yellow"))
    offered = ("red", "green", "yellow")
    taken = ("yellow", "green", "yellow")
    choices = tuple(Choice(SKILL, STEP, situation, one, offered, at=str(n)) for n, one in enumerate(taken))
    outcome = stage(tmp_path, Learned(choices=choices), script(menu))
    (asked,) = outcome.desk.asked.values()
    assert asked.options == ("G: Green", "Y: Yellow", "R: Red") and "Which one: G, Y, R?" in asked.text
    assert "[R] Red\n[G] Green" in asked.text, "what the agent showed stays as it is"
    (logged,) = [one for one in outcome.desk.of(decision_log.EVENT) if one["kind"] == "ask"]
    assert logged["decision_source"] == "learned_preference" and "shown last: R" in logged["why"]
    twice = stage(tmp_path / "twice", Learned(choices=choices[:2]), script(menu))
    (asked,) = twice.desk.asked.values()
    assert asked.options == ("R: Red", "G: Green", "Y: Yellow"), "two times are not three"
    (logged,) = [one for one in twice.desk.of(decision_log.EVENT) if one["kind"] == "ask"]
    assert logged["decision_source"] == "engine"


@pytest.mark.req("BMAD-7.9.3", "BMAD-7.9.5")
def test_recommendations_that_were_always_taken_are_taken(tmp_path: Path) -> None:
    four = tuple(chose(LABELS[0], n, f"menu:{n}") for n in range(4))
    asked = stage(tmp_path / "four", Learned(choices=four), asking())
    assert asked.ending.kind == "parked" and len(asked.desk.asked) == 1
    five = (*four, chose(LABELS[0], 5, "menu:5"))
    outcome = stage(tmp_path / "five", Learned(choices=five), asking())
    (menu,) = [one for one in outcome.desk.of(decision_log.EVENT) if one["kind"] == "menu"]
    assert (menu["choice"], menu["decision_source"], menu["confidence"]) == ("S", "learned_preference", 85)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    package = packages.load(str(tmp_path / "five" / "p"))
    assert decision_log.replay(menu, workflows.read(package, package.skills[0])) == "S"


def test_a_menu_that_a_human_answers_is_remembered_with_what_was_recommended(tmp_path: Path) -> None:
    kept: list[Any] = []

    async def keep(one: Any) -> None:
        kept.append(one)

    root = project(tmp_path / "p")
    choices = Choices(Learned(), keep)
    play(
        root, Player(asking()), desk=MemoryDesk(answers=lambda asked: "Begin with tests"),
        knowledge=Knowledge(choices=choices), plan=RunPlan(project=str(root), tier=1),
    )  # fmt: skip
    (choice,) = kept
    assert (choice.chosen, choice.recommended, choice.situation) == (plain(LABELS[1]), plain(LABELS[0]), SITUATION)


@pytest.mark.req("BMAD-7.8.4")
def test_a_question_that_a_person_wants_to_be_asked_is_asked(tmp_path: Path) -> None:
    text = "What is the project name?"
    pattern = Pattern("question", SKILL, STEP, question_situation(SKILL, STEP, text), "alone", text)
    learned = Learned((Feedback(NEGATIVE, "Don't do that again", pattern, at="1"),))
    values = {"project_name": "Garden"}
    asked = stage(tmp_path / "a", learned, script(f'{text}\n{{"step": "waiting"}}'), values=values)
    assert len(asked.desk.asked) == 1
    (decided,) = [one for one in asked.state.decisions if one["kind"] == "ask"]
    assert decided["decision_source"] == "learned_preference"
    alone = stage(tmp_path / "b", Learned(), script(f'{text}\n{{"step": "waiting"}}', DONE), values=values)
    assert not alone.desk.asked


@pytest.mark.req("BMAD-7.8.4")
def test_a_way_of_mending_that_is_not_wanted_is_not_tried(tmp_path: Path) -> None:
    pattern = Pattern("fix", SKILL, STEP, fix_situation(SKILL, STEP), "heuristic_fixes", "heuristic fixes")
    learned = Learned((Feedback(NEGATIVE, "Don't do that again", pattern, at="1"),))
    failing = '{"step": "completed", "verdict": "FAILED"}'
    before = stage(tmp_path / "a", Learned(), script(failing))
    after = stage(tmp_path / "b", learned, script(failing))
    tried = [[one["choice"] for one in found.state.decisions if one["kind"] == "recovery"] for found in (before, after)]
    assert "heuristic_fixes" in tried[0] and "heuristic_fixes" not in tried[1]


def test_what_is_kept_is_read_back_as_it_was(tmp_path: Path) -> None:
    place = company(tmp_path, asking())
    memory = MemoryBridge(LocalMemory(place.home.path, place.home._clock), Origin("plan-app"))
    pattern = Pattern("menu", SKILL, STEP, SITUATION, plain(LABELS[0]), "[S] Start building now", "Step 1: Part 1")
    given = (Feedback(NEGATIVE, "Don't do that again", pattern, at="1"), Feedback(PREFERENCE, "be brief", at="2"))
    for one in given:
        assert memory.keep(one)
    assert memory.keep(chose(LABELS[1], 3)) and memory.keep(Forgotten("F-x", "4"))
    found = memory.learned(SKILL)
    assert found.feedback == given and found.choices == (chose(LABELS[1], 3),)
    assert [one.id for one in found.forgotten] == ["F-x"]
    assert memory.learned("/another").choices == () and memory.learned("/another").feedback == given


@pytest.mark.req("BMAD-7.8.1", "BMAD-7.8.3", "BMAD-FR63")
def test_it_is_said_in_the_chat_of_the_run(tmp_path: Path) -> None:
    place = company(tmp_path, asking())
    home = place.home
    home.chat(TEAM, SKILL, session_id="garden")
    place.drive()
    place.answer("S")
    place.drive()
    home.chat(TEAM, SKILL, session_id="garden")
    place.drive()
    assert "I will not choose [S] Start building now again" in said_in(place, "Don't do that again")
    assert "short sentences" in said_in(place, "Remember this preference: short sentences")
    ordinary = home.chat(TEAM, "Good choices are rare, aren't they?", session_id="garden")
    assert place.team.task(ordinary.task_id).state == "ready", "conversation is no command"


def said_in(place: Company, text: str) -> str:
    done = place.home.chat(TEAM, text, session_id="garden")
    task = place.team.task(done.task_id)
    assert task.state == "done"
    return str(
        next(one.payload for one in place.team.events()[0] if one.type == "task.completed" and one.task_id == task.id)
    )


@pytest.mark.long
@pytest.mark.req("BMAD-7.8.1", "BMAD-7.8.2", "BMAD-7.8.3", "BMAD-E7.7")
def test_it_is_said_seen_and_undone_on_the_command_line(tmp_path: Path) -> None:
    place = Place(tmp_path)
    run = place("run", SKILL, "--agent", place.agent(), "--tier", "1")
    assert run["outcome"] == "COMPLETED"
    said = place("feedback", "Good choice")
    assert said["exit"] == 0 and "Continue" in said["text"] and said["stored"]
    place("feedback", run["workflow_id"], "Remember this preference: be brief")
    listed = place("feedback", "--list")["preferences"]
    assert {one["kind"] for one in listed} == {"positive_pattern", PREFERENCE}
    gone = place("feedback", "--forget", next(one["id"] for one in listed if one["kind"] == PREFERENCE))
    assert gone["exit"] == 0 and "be brief" in gone["said"]
    assert len(place("feedback", "--list")["preferences"]) == 1
    assert place("feedback", "--forget", "F-none")["error"] == "invalid_request"
    assert "Don't do that again" in place("feedback", "What a day")["message"]
    assert place("feedback", "--list", "x", "y")["exit"] == 2
