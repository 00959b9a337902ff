"""A window of Claude Code with our channel: hints of mail, and permission prompts as questions.

The window is the tests' own program, which speaks as the reference of channels says; Claude Code itself listens only
where its maker has switched channels on for the user.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from interlock.app.team import Team
from interlock.errors import NotAwaitingResponse
from interlock.model.question import Question
from interlock.model.task import Task
from tests.surfaces.integrations.conftest import Window

pytestmark = pytest.mark.long

Open = Callable[..., Window]

OPTION = ["--dangerously-load-development-channels", "server:interlock"]
REQUEST = "notifications/claude/channel/permission_request"
PROMPT = {
    "request_id": "abcde",
    "tool_name": "Bash",
    "description": "Push it",
    "input_preview": '{"command":"git push"}',
}
PATIENCE = 60.0


@pytest.fixture
def ada(window: Open) -> Window:
    opened = window("s-1", *OPTION)
    opened.hook("SessionStart")
    opened.connect()
    return opened


@pytest.fixture
def task(team: Team, ada: Window) -> Task:
    made = team.create_task("Release it")
    ada.tool("task_claim", task_id=made.id)
    return made


def once(look: Callable[[], Any]) -> Any:
    """What `look` finds, as soon as it finds something."""
    pause = threading.Event()
    for _ in range(int(PATIENCE * 20)):
        if found := look():
            return found
        pause.wait(0.05)
    raise AssertionError("nothing came")


def asked(team: Team) -> Question:
    return once(team.questions)[0]  # type: ignore[no-any-return]


def test_a_program_started_with_the_channel_is_offered_it_over_the_protocol_that_carries_it(window: Open) -> None:
    said = window("s-1", *OPTION).connect()
    assert said["capabilities"]["experimental"] == {"claude/channel": {}, "claude/channel/permission": {}}
    assert not said["modern"], "Claude Code takes no channel over the protocol of 2026"


@pytest.mark.parametrize("options", [[], ["--channels", "server:other"], ["server:interlock"]])
def test_a_program_started_without_it_sees_nothing_of_it(window: Open, options: list[str]) -> None:
    said = window("s-1", *options).connect()
    assert "experimental" not in said["capabilities"] and said["modern"]


def test_a_plugin_is_named_by_its_marketplace(window: Open) -> None:
    said = window("s-1", "--channels=plugin:interlock@interlock").connect()
    assert "claude/channel" in said["capabilities"]["experimental"]


def test_a_hint_says_that_mail_waits_and_leaves_it_where_it_is(team: Team, ada: Window) -> None:
    for content in ("Use the grammar.", "And the lexer."):
        team.send(to="ada", content=content)
        hint = ada.notice()
        assert hint["method"] == "notifications/claude/channel"
        assert hint["params"] == {
            "content": "1 new message for ada: call read_inbox.", "meta": {"team": "alpha", "member": "ada"}
        }  # fmt: skip
        assert team.history()[-1].stage == "stored", "a hint hands nothing over"
    read = ada.tool("read_inbox")["messages"]
    assert [one["content"] for one in read] == ["Use the grammar.", "And the lexer."]


def test_hooks_bring_the_mail_whether_the_hint_was_seen_or_not(team: Team, ada: Window) -> None:
    team.send(to="ada", content="Use the grammar.")
    assert "Use the grammar." in ada.told("UserPromptSubmit", prompt="go on")
    ada.hook("Stop")
    assert team.history()[-1].stage == "acknowledged"


@pytest.mark.parametrize(("answer", "behavior"), [("allow", "allow"), ("refuse", "deny")])
def test_a_relayed_prompt_is_a_question_asked_once_and_its_answer_the_verdict(
    team: Team, ada: Window, task: Task, answer: str, behavior: str
) -> None:
    for _ in range(2):
        ada.tell(REQUEST, **PROMPT)
    question = asked(team)
    assert (question.kind, question.text) == ("permission", "May ada use Bash: Push it?")
    assert (question.options, question.context) == (["allow", "refuse"], PROMPT["input_preview"])
    assert team.task(task.id).state == "in-progress", "its prompt is open at its own terminal as well"
    team.reply(task.id, answer, question=question.id, by="human")
    verdict = ada.notice()
    assert verdict["method"] == "notifications/claude/channel/permission"
    assert verdict["params"] == {"request_id": "abcde", "behavior": behavior}
    ada.tool("task_complete", task_id=task.id, summary="done")
    told = [event.payload for event in team.events()[0] if event.type == "permission.answered"]
    assert [(one["answer"], one["by"], one["tool"]) for one in told] == [(answer, "human", "Bash")]
    assert len(team.conversation(task.id)) == 1


def test_another_question_of_the_task_is_not_held_up_by_an_open_prompt(team: Team, ada: Window, task: Task) -> None:
    ada.tell(REQUEST, **PROMPT)
    asked(team)
    other = ada.tool("ask_human", task_id=task.id, question="Which branch?")
    team.reply(task.id, "main", question=other["questionId"], by="human")
    assert team.task(task.id).state == "ready"
    assert [one.state for one in team.conversation(task.id)] == ["withdrawn", "answered"], "its run has ended"


def test_a_prompt_of_a_window_that_works_on_no_task_stays_at_its_terminal(team: Team, ada: Window) -> None:
    ada.tell(REQUEST, **PROMPT)
    ada.tell(REQUEST, request_id="fghij")  # makes no sense
    made = team.create_task("Release it")
    ada.tool("task_claim", task_id=made.id)
    ada.tell(REQUEST, **{**PROMPT, "request_id": "kmnop"})
    assert asked(team).context == PROMPT["input_preview"]
    assert len(team.conversation(made.id)) == 1


def test_a_prompt_that_nobody_answers_in_time_is_asked_no_longer(team: Team, ada: Window, task: Task) -> None:
    team.configure({"hold_time": 0})
    ada.tell(REQUEST, **PROMPT)
    (question,) = once(lambda: [one for one in team.conversation(task.id) if one.state == "withdrawn"])
    with pytest.raises(NotAwaitingResponse):
        team.reply(task.id, "allow", question=question.id, by="human")


def test_a_window_that_closes_takes_its_prompts_along(team: Team, ada: Window, task: Task) -> None:
    ada.tell(REQUEST, **PROMPT)
    asked(team)
    ada.close()
    assert [one.state for one in team.conversation(task.id)] == ["withdrawn"]
