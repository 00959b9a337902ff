"""Wishes about care and progress as people say them: in chat, on the command line, over HTTP, in a project's file."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import Forbidden, InvalidRequest
from interlock.model.progress import EVERY
from interlock.workflow.errors import SafetyOverrideBlocked
from interlock.workflow.runs.chat_commands import carry_out, chat_command
from tests.workflow.stage import SKILL
from tests.workflow.test_in_a_team import AUTHOR, Place

SETTINGS = "interlock.workflows.yaml"


class Chat:
    """A chat session at the real front door of a project with a workflow of six steps."""

    def __init__(self, directory: Path, steps: int = 6, **more: Any) -> None:
        self.place = Place(directory, steps, **more)
        self.home: Home = self.place.home
        self.team: Team = self.home.create_team("plan-app", workdir=str(self.place.root))
        program = ["env", "DOCUMENT=_bmad-output/plan.md", sys.executable, str(AUTHOR)]
        self.team.spawn("ada", agent="command", command=program)

    def __call__(self, text: str, session: str = "s1") -> Any:
        said = self.home.chat("plan-app", text, session_id=session)
        return self.team.task(said.task_id)

    def drive(self) -> dict[str, Any]:
        self.home.drive("plan-app")
        return self.team.workflow_run()

    def confirm(self, answer: str = "confirm") -> dict[str, Any]:
        (question,) = self.team.questions()
        self.team.reply(question.task_id, answer, question=question.id)
        return self.drive()


@pytest.mark.long
@pytest.mark.req("BMAD-7.1.1", "BMAD-7.1.2", "BMAD-7.2.3", "BMAD-UO.7", "BMAD-E7.1")
def test_a_chat_says_how_careful_its_workflow_is_and_it_counts_at_once(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat(f"{SKILL} a garden planner")
    told = chat("use tier 4")
    assert (told.state, told.type) == ("done", "WORKFLOW") and "use tier 4" in str(told.output)
    run = chat.drive()
    assert (run["state"], run["completed_steps"]) == ("WAITING_USER", [1])
    assert run["in_force"]["tier"] == {"value": 4, "method": "tier", "text": "use tier 4"}
    assert "tier 4, by 'use tier 4'" in str(chat("status").output)
    told = chat("clear overrides")
    assert "tier 2 (the project's)" in str(told.output)
    told = chat("I want minimal interruptions")
    assert "batch size all ('I want minimal interruptions')" in str(told.output)
    run = chat.confirm()
    assert run["outcome"] == "COMPLETED", "no further checkpoint"
    chat("use tier 4")
    chat(SKILL)
    assert chat.drive()["completed_steps"] == [1], "it is still the same session"
    assert chat(SKILL, "s2").state == "ready"


@pytest.mark.req("BMAD-7.2.4", "BMAD-7.2.5", "BMAD-FR50", "BMAD-E7.11")
def test_a_chat_is_told_what_it_cannot_switch_off(tmp_path: Path) -> None:
    chat = Chat(tmp_path, steps=3, front="oversight: required\n")
    refused = chat(f"{SKILL} skip final approval")
    assert "safety_override_blocked" in str(refused.output) and refused.state == "done"
    chat(SKILL)
    assert chat.drive()["state"] == "WAITING_USER"
    for text in ("skip final approval", "disable stall detection", "use tier 0 and approve everything automatically"):
        told = chat(text)
        assert told.state == "done" and "safety_override_blocked" in str(told.output), text
        assert "cannot be bypassed" in str(told.output)
    chat("use tier 0")
    confirmed = 0
    while (run := chat.confirm())["state"] == "WAITING_USER":
        confirmed += 1
    assert run["outcome"] == "COMPLETED" and confirmed == 2, "its author's wish was kept at each of three steps"


def test_an_ordinary_message_is_none_of_ours(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    for text in ("be careful", "skip final approval", "[thorough]", "don't interrupt me"):
        assert chat(text).state == "ready", "no workflow has begun here"
    for task in chat.home.group_tasks("s1"):
        chat.team.cancel(task.id)
    for text in ("use tier 3", "profile: cautious", "progress: silent"):
        assert chat(text).state == "done", "it can mean nothing else where workflows are installed"
    chat(SKILL)
    run = chat.drive()
    assert run["in_force"]["tier"]["value"] == 3 and run["progress_mode"] == "silent"
    for text in ("be careful with the names of the beds", "Fix the tier 3 pricing page"):
        assert chat(text).state == "ready"
    plain = chat.home.create_team("plain", workdir=str(tmp_path))
    said = chat.home.chat("plain", "use tier 3", session_id="s9")
    assert plain.task(said.task_id).state == "ready", "no workflows are installed there"


@pytest.mark.req("BMAD-7.1.4", "BMAD-E7.1")
def test_a_modifier_in_a_message_is_about_that_operation(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat("profile: balanced")
    chat(SKILL)
    run = chat.drive()
    assert run["completed_steps"] == [1, 2, 3, 4, 5]
    assert "In force" in str(chat("[thorough]").output)
    assert chat.confirm()["outcome"] == "COMPLETED", "the sixth is the last: there is nothing to go on to"
    chat("profile: quick")
    chat(f"{SKILL} [thorough] a garden planner")
    run = chat.drive()
    assert run["plan"]["arguments"] == "a garden planner"
    assert run["in_force"]["tier"] == {"value": 4, "method": "inline", "text": "[thorough]"}


@pytest.mark.req("BMAD-7.7.5", "BMAD-FR59", "BMAD-E7.10")
def test_a_chat_asks_how_far_it_is_and_is_told_the_steps(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat("batch_size: 1")
    chat(SKILL)
    chat.drive()
    for text in ("status", "progress", "how far are you?"):
        told = str(chat(text).output)
        assert re.search(r"done \(1\): 1 Part 1\n", told) and "now: 1 " in told
        assert "left (5): 2 Part 2, 3 Part 3, 4 Part 4, 5 Part 5, 6 Part 6" in told and re.search(r"about \d+ %", told)
    shown = chat.team.workflow_run()["progress"]
    assert [one["step"] for one in shown["completed_steps"]] == [1]
    assert [one["name"] for one in shown["remaining_steps"]] == [f"Step {n}: Part {n}" for n in range(2, 7)]


@pytest.mark.parametrize(
    ("message", "precise"),
    [("use tier 3", True), ("batch_size: 2", True), ("progress: silent", True), ("be careful", False),
     ("skip final approval", False), ("[quick]", False)],
)  # fmt: skip
def test_what_is_a_command_and_whether_it_can_mean_anything_else(message: str, precise: bool) -> None:
    found = chat_command(message)
    assert found is not None and (found.kind, found.text, found.precise) == ("adjust", message, precise)
    resumed = chat_command("resume [thorough]")
    assert resumed is not None and (resumed.kind, resumed.modifier) == ("resume", "thorough")
    assert chat_command("Write the tests [thorough]") is None


@pytest.mark.long
@pytest.mark.req("BMAD-7.1.2", "BMAD-7.1.3", "BMAD-7.1.5", "BMAD-FR48", "BMAD-7.2.5")
def test_the_command_line_says_the_same_in_the_same_words(tmp_path: Path) -> None:
    place = Place(tmp_path, 6)
    (place.root / SETTINGS).write_text("profiles:\n  night: {tier: 3, batch_size: 4}\n")
    run = place("run", SKILL, "--agent", place.agent(), "--profile", "night")
    assert run["completed_steps"] == [1, 2, 3, 4] and run["in_force"]["batch_size"]["method"] == "profile"
    said = place("adjust", "use", "tier", "4")
    assert said["in_force"]["batch_size"] == {"value": 1, "method": "tier", "text": "use tier 4"}
    assert place("adjust")["said"] == ["use tier 4", "--profile night"]
    kept = place("adjust", "batch_size: 2")
    assert "does not count while 'use tier 4' does" in kept["text"]
    refused = place("adjust", "skip final approval")
    assert (refused["exit"], refused["error"]) == (1, "safety_override_blocked")
    assert place("adjust", "tier: 9")["error"] == place("adjust", "hello")["error"] == "invalid_request"
    assert "night" in place("adjust", "profile: day")["message"]
    assert place("adjust", "--clear")["in_force"]["batch_size"]["text"] == "--profile night"
    place("adjust", "progress: silent")
    status = place("status")
    assert status["progress_mode"] == "silent" and status["rate_limited"] is False
    assert status["next_available_at"] is None and status["in_force"]["tier"]["value"] == 3


@pytest.mark.long
@pytest.mark.req("BMAD-E7.11", "BMAD-FR50", "BMAD-7.2.4")
@pytest.mark.parametrize(
    ("configured", "words"),
    [
        ("workflows:\n  bmm/make-plan:\n    stall_detection: off\n", []),
        ("workflows:\n  bmm/make-plan:\n    thresholds: {final_approval: false}\n", []),
        ("workflows:\n  bmm/make-plan:\n    steps:\n      1: {skip_final_approval: true}\n", []),
        ("profiles:\n  night: {tier: 1, final_approval: none}\n", ["--profile", "night"]),
        ("", ["--set", "stall_detection=off"]),
        ("", ["--set", "final-approval=false"]),
    ],
)
def test_no_run_begins_with_its_safety_switched_off(tmp_path: Path, configured: str, words: list[str]) -> None:
    place = Place(tmp_path)
    (place.root / SETTINGS).write_text(configured)
    refused = place("run", SKILL, "--agent", place.agent(), *words)
    assert (refused["exit"], refused["error"]) == (1, "safety_override_blocked")
    assert "cannot be bypassed" in refused["message"] and not place.team.workflow_runs()


def test_who_is_at_work_in_it_does_not_say_how_careful_it_is(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    begun = chat.team.start_workflow(SKILL)
    with pytest.raises(Forbidden):
        chat.team.adjust_workflow("use tier 0", begun["workflow_id"], by="ada")
    with pytest.raises(SafetyOverrideBlocked):
        chat.team.adjust_workflow("turn off stall detection", begun["workflow_id"])
    with pytest.raises(InvalidRequest, match="use tier 3"):
        chat.team.adjust_workflow("what?", begun["workflow_id"])
    for wrong in ({"profile": "nonsense"}, {"progress": "loud"}):
        with pytest.raises(InvalidRequest):
            chat.team.start_workflow(SKILL, **wrong)  # type: ignore[arg-type]
    said = [event.payload["said"] for event in chat.team.events()[0] if event.type == "workflow.said"]
    assert said == []
    assert "In force" in carry_out(chat.team, chat_command("be careful"))  # type: ignore[arg-type]


def test_runs_of_one_named_session_share_what_is_said(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    first = chat.team.start_workflow(SKILL, session="monday")
    chat.team.adjust_workflow("use tier 4", first["workflow_id"])
    second = chat.team.start_workflow(SKILL, session="monday")
    third = chat.team.start_workflow(SKILL)
    assert second["in_force"]["tier"]["value"] == 4 and third["in_force"]["tier"]["method"] == "project"


def lines_of(place: Place, *words: str) -> list[str]:
    """What `workflow run` tells while it lasts, without the times."""
    process = place.start("run", SKILL, "--agent", place.agent(), "--tier", "1", *words)
    out, err = process.communicate(timeout=100)
    assert json.loads(out)["outcome"] == "COMPLETED", err
    return [re.sub(r"^\d\d:\d\d:\d\dZ  ", "", line) for line in err.splitlines()]


@pytest.mark.long
@pytest.mark.req("BMAD-7.7.1", "BMAD-7.7.2", "BMAD-7.7.3", "BMAD-E7.6", "BMAD-E7.12", "BMAD-FR57")
def test_a_run_on_the_command_line_is_as_talkative_as_it_should_be(tmp_path: Path) -> None:
    place = Place(tmp_path, 6)
    verbose = lines_of(place, "--progress", "verbose")
    assert "step 3 begins: Part 3" in verbose and any(line.startswith("menu: C (") for line in verbose)
    assert sum(line.startswith("step ") and "completed" in line for line in verbose) == 6
    began = time.monotonic()
    bunches = [line for line in lines_of(place, "--new") if re.match(r"\d+ operations?", line)]
    slow = time.monotonic() - began >= EVERY  # Then a bunch may have come by its time.
    assert bunches and (bunches[0].startswith("5 operations") or slow) and "% " not in bunches[0]
    silent = lines_of(place, "--new", "--progress", "silent")
    assert silent[0].startswith("Completed") and "Done: Part 1, Part 2" in silent[1]
    streaming = lines_of(place, "--new", "--progress", "streaming")
    # How far it is by the time of the look, when another step may be done already.
    assert any(re.fullmatch(r"step 1 completed: Part 1, \d+ %", line) for line in streaming)
    assert not any("menu" in line for line in streaming)


@pytest.mark.long
@pytest.mark.req("BMAD-7.7.4", "BMAD-FR58")
def test_on_a_terminal_the_steps_and_how_far_it_is_are_shown_live(tmp_path: Path) -> None:
    import subprocess

    place = Place(tmp_path, 3)
    ours, theirs = os.openpty()
    argv = [sys.executable, "-m", "interlock.surfaces.cli", "workflow", "run", SKILL, "--agent", place.agent(0.4)]
    process = subprocess.Popen(
        [*argv, "--tier", "1"], cwd=place.root, stdin=theirs, stdout=theirs, stderr=theirs,
        env={**place.environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
    )  # fmt: skip
    os.close(theirs)
    printed = b""
    while True:
        try:
            data = os.read(ours, 65_536)
        except OSError:
            break
        if not data:
            break
        printed += data
    os.close(ours)
    assert process.wait() == 0
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode())
    assert "░" in shown and re.search(r"\d+ %  \d of 3 steps", shown) and "Part 3" in shown
    assert "Completed" in shown


@pytest.mark.req("BMAD-7.6.4", "BMAD-E7.5")
def test_the_status_of_a_run_says_that_menus_are_held_back(tmp_path: Path) -> None:
    """A session whose ten menus in a row are noted: the eleventh comes with a pause, which a human acknowledges."""
    from interlock.workflow.preferences import menu_rate

    chat = Chat(tmp_path)
    chat("confidence: 100")
    chat(SKILL)
    run = chat.drive()
    assert run["waiting"]["purpose"] == "menu" and run["rate_limited"] is False
    with chat.team._act() as act:
        document = act.rows.workflows.session("s1")
        for number in range(10):
            menu_rate.presented(document, f"menu {number}", run="r", step=1, at=act.at)
        act.rows.workflows.keep_session("s1", document, act.at)
    paused = chat.confirm("A")
    assert paused["waiting"]["purpose"] == "menu_pause"
    assert paused["rate_limited"] is True and paused["next_available_at"] and paused["rate_limit_reason"] == "pause"
    assert "menus are held back for your word" in str(chat("status").output)
    shown = chat.confirm("continue")
    assert shown["waiting"]["purpose"] == "menu" and shown["rate_limited"] is False
