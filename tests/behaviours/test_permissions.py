"""What agents ask permission for: answered by the member's policy or by a person, written down either way."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from interlock.agents.scripted import Say
from interlock.agents.session import Opening, Permission, PermissionChoice
from interlock.errors import Forbidden, InvalidRequest
from interlock.model.report import as_text
from interlock.runner.permissions import is_allowed_command, is_inside, judge
from tests.behaviours.driving import Place
from tests.behaviours.lasting import driven, event, events, play
from tests.behaviours.test_lasting import finish
from tests.waiting import until

CHOICES = (
    PermissionChoice("yes", "Yes", "allow_once"),
    PermissionChoice("ever", "Yes, always", "allow_always"),
    PermissionChoice("no", "No", "reject_once"),
)


def wish(kind: str, *paths: str, title: str = "Do it", command: str | None = None) -> Permission:
    data = {"rawInput": {"command": command}} if command is not None else {}
    return Permission("1", title, kind, CHOICES, paths, data)


@pytest.mark.parametrize(
    ("policy", "kind", "inside", "verdict"),
    [
        ("ask", "read", True, "ask"),
        ("ask", "edit", True, "ask"),
        ("workspace", "read", True, "allow"),
        ("workspace", "read", False, "ask"),
        ("workspace", "edit", True, "allow"),
        ("workspace", "delete", True, "allow"),
        ("workspace", "edit", False, "ask"),
        ("workspace", "execute", True, "ask"),
        ("workspace", "fetch", True, "ask"),
        ("read-only", "read", True, "allow"),
        ("read-only", "read", False, "ask"),
        ("read-only", "edit", True, "refuse"),
        ("read-only", "execute", True, "refuse"),
        ("unattended", "edit", True, "allow"),
        ("unattended", "edit", False, "refuse"),
        ("unattended", "execute", True, "refuse"),
        ("no such policy", "read", True, "ask"),
    ],
)
def test_what_each_policy_says(tmp_path: Path, policy: str, kind: str, inside: bool, verdict: str) -> None:
    path = str(tmp_path / "a" / "b.txt") if inside else "/etc/hosts"
    assert judge(policy, wish(kind, path), str(tmp_path), ()).verdict == verdict


def test_what_names_no_path_is_not_inside(tmp_path: Path) -> None:
    assert judge("workspace", wish("edit"), str(tmp_path), ()).verdict == "ask"
    assert judge("unattended", wish("edit", str(tmp_path / "a"), "/etc/hosts"), str(tmp_path), ()).verdict == "refuse"


def test_where_a_path_really_leads_counts(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "real").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", work / "out")
    os.symlink(work / "real", tmp_path / "in")
    assert is_inside(str(work / "new" / "file"), str(work)) and is_inside(str(tmp_path / "in" / "x"), str(work))
    assert not is_inside(str(work / "out" / "x"), str(work)) and not is_inside(f"{work}/../elsewhere/x", str(work))
    assert not is_inside(f"{work}-other/x", str(work))
    assert not is_inside(str(work / ".git" / "hooks" / "pre-commit"), str(work))
    assert not is_inside(str(work / "sub" / ".GIT" / "config"), str(work))


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("pytest -q tests", True),
        ("pytest", True),
        ("pytest; rm -rf /", False),
        ("pytest && curl evil", False),
        ("pytest $(id)", False),
        ("pytest > /etc/passwd", False),
        ("pytest\nid", False),
        ("pytestx", False),
        ("git log", False),
        ("git status --short", True),
        ("", False),
        ("pytest 'unclosed", False),
    ],
)
def test_a_command_is_allowed_by_its_first_words_and_only_alone(command: str, allowed: bool) -> None:
    assert is_allowed_command(command, ["pytest", "", "git status"]) == allowed


def asks(place: Place, permission: Permission, got: list[str | None], times: int = 1) -> object:
    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        for _ in range(times):
            got.append(await opening.permit(permission))
        return await finish(place, opening)

    return bob


def test_a_person_answers_while_the_agent_waits_and_who_did_is_on_record(place: Place) -> None:
    got: list[str | None] = []
    permission = wish("execute", title="rm -rf build", command="rm -rf build")
    place.stage({"one": {"subject": "One"}}, play(place, {"bob": asks(place, permission, got)}))  # type: ignore[dict-item]
    with driven(place) as runner:
        until(lambda: bool(place.team.questions()))
        (question,) = place.team.questions()
        assert (question.kind, question.held, question.options) == ("permission", True, ["allow", "always", "refuse"])
        assert "rm -rf build" in question.text and place.task("one").state == "awaiting-response"
        with pytest.raises(InvalidRequest, match="allow, always, refuse"):
            place.team.reply("one", "perhaps", question=question.id)
        with pytest.raises(Forbidden):
            place.team.acting("bob").reply("one", "allow", question=question.id)
        with pytest.raises(Forbidden):
            place.team.acting("lead").reply("one", "allow", question=question.id)
        place.team.reply("one", "allow", question=question.id)
        assert runner.ended() == "finished"
    assert got == ["yes"] and place.states() == {"one": "done"} and len(place.team.runs("one")) == 1
    asked, answered = events(place, "permission.asked", "permission.answered")
    assert asked.payload["tool"] == "execute" and asked.payload["id"] == question.id
    assert (answered.payload["by"], answered.payload["answer"], answered.payload["face"]) == (
        "human",
        "allow",
        "python",
    )


def test_always_holds_for_the_session_and_is_never_told_to_the_agent(place: Place) -> None:
    got: list[str | None] = []
    place.stage(
        {"one": {"subject": "One"}},
        play(place, {"bob": asks(place, wish("execute", title="make"), got, 3)}),  # type: ignore[dict-item]
    )
    with driven(place) as runner:
        until(lambda: bool(place.team.questions()))
        place.team.reply("one", "Always", question=place.team.questions()[0].id)
        assert runner.ended() == "finished"
    assert got == ["yes"] * 3 and len(events(place, "permission.asked")) == 1
    assert [one.payload["by"] for one in events(place, "permission.answered")] == ["human", "policy", "policy"]


def test_refused_is_refused_and_the_agent_goes_on(place: Place) -> None:
    got: list[str | None] = []
    bob = asks(place, wish("edit", "/etc/hosts"), got)
    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))  # type: ignore[dict-item]
    with driven(place) as runner:
        until(lambda: bool(place.team.questions()))
        place.team.reply("one", "refuse", question=place.team.questions()[0].id)
        assert runner.ended() == "finished"
    assert got == ["no"] and place.states() == {"one": "done"}


@pytest.mark.parametrize("how", ["policy", "run"])
def test_with_nobody_awake_what_would_be_asked_is_refused_and_written_down(place: Place, how: str) -> None:
    got: list[str | None] = []
    bob = asks(place, wish("edit", "/etc/hosts"), got)
    members = play(place, {"bob": bob})  # type: ignore[dict-item]
    if how == "policy":
        members["bob"]["permissions"] = "unattended"
    place.stage({"one": {"subject": "One"}}, members)
    place.team.configure({"unattended": how == "run"})
    assert place.drive() == "finished" and got == ["no"] and place.states() == {"one": "done"}
    (answered,) = events(place, "permission.answered")
    assert answered.payload["answer"] == "refuse" and answered.payload["by"] == "policy" and answered.payload["why"]
    assert any(kind == "notice" and "was refused" in text for _, kind, text in place.said)
    report = place.team.report()
    (incident,) = report.incidents
    assert (incident.key, incident.run, incident.member, incident.outcome) == (
        "one",
        1,
        "bob",
        "was refused",
    )
    assert incident.reason == f"Do it ({answered.payload['why']})"
    told = "\n".join(as_text(report))
    assert "[one] run 1 (bob) was refused: Do it" in told and "allowed_commands" in told


def test_a_permission_that_was_asked_by_a_run_that_is_gone_is_answered_for_the_next_one_once(place: Place) -> None:
    got: list[str | None] = []
    place.stage(
        {"one": {"subject": "One"}},
        play(place, {"bob": asks(place, wish("execute", title="make"), got)}),  # type: ignore[dict-item]
    )
    assert place.drive(hold=0.0) == "finished"
    (question,) = place.team.questions()
    assert not question.held and place.task("one").state == "awaiting-response"
    place.team.reply("one", "allow", question=question.id)
    assert place.drive(hold=0.0) == "finished" and place.states() == {"one": "done"}
    assert got == ["yes"] and len(place.team.runs("one")) == 2


def test_a_reviewer_that_asks_holds_up_no_runner_and_reviews_again_when_it_is_answered(place: Place) -> None:
    got: list[str | None] = []

    async def ada(prompt: str, say: Say, opening: Opening) -> str:
        return await finish(place, opening)

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        got.append(await opening.permit(wish("execute", title="make", command="make")))
        return "approve"

    members = play(place, {"ada": ada, "bob": bob})
    place.stage({"one": {"subject": "One", "assignee": "ada", "review": "bob"}}, members)
    with driven(place, hold=0.0) as runner:
        assert runner.ended() == "finished"
    (question,) = place.team.questions()
    assert question.kind == "permission" and not question.held and place.task("one").state == "review"
    with driven(place, hold=0.0) as runner:
        assert runner.ended() == "finished"
    assert len(events(place, "review.started")) == 1 and not got
    place.team.reply("one", "allow", question=question.id)
    with driven(place, hold=0.0) as runner:
        assert runner.ended() == "finished"
    assert got == ["yes"] and place.states() == {"one": "done"} and len(events(place, "review.started")) == 2


def test_an_agent_that_is_ended_while_it_asks_leaves_no_question_behind(place: Place) -> None:
    got: list[str | None] = []
    place.stage(
        {"one": {"subject": "One"}},
        play(place, {"bob": asks(place, wish("execute", title="make"), got)}),  # type: ignore[dict-item]
    )
    with driven(place) as runner:
        until(lambda: bool(place.team.questions()))
        runner.stop.request("enough", now=True)
        assert runner.ended() == "enough"
    assert not place.team.questions() and place.task("one").state == "ready" and not got
    assert len(events(place, "question.withdrawn")) == 1


def test_two_requests_of_one_turn_are_two_questions(place: Place) -> None:
    got: dict[str, str | None] = {}

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        async def ask(title: str) -> None:
            got[title] = await opening.permit(wish("execute", title=title))

        async with anyio.create_task_group() as group:
            group.start_soon(ask, "make")
            group.start_soon(ask, "rm")
        return await finish(place, opening)

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))
    with driven(place) as runner:
        until(lambda: len(place.team.questions()) == 2)
        for question in place.team.questions():
            place.team.reply("one", "allow" if "make" in question.text else "refuse", question=question.id)
        assert runner.ended() == "finished"
    assert got == {"make": "yes", "rm": "no"} and place.states() == {"one": "done"}


def test_outside_of_a_task_what_no_policy_allows_is_refused(place: Place) -> None:
    got: list[str | None] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        if "You have no task" in prompt:
            got.append(await opening.permit(wish("read", str(place.work / "x"))))
            got.append(await opening.permit(wish("edit", "/etc/hosts")))
            return "read"
        return await finish(place, opening)

    members = play(place, {"bob": bob})
    members["bob"]["permissions"] = "workspace"
    place.stage({"one": {"subject": "One"}}, members)
    with driven(place, endless=True):
        until(lambda: place.states()["one"] == "done")
        place.team.send(to="bob", content="look at this")
        event(place, "session.prompted", stop="ended")
    assert got == ["yes", "no"] and not place.team.questions()
