"""Windows of a program that joined: who they are, what their hooks bring, and when mail counts as seen."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.model.message import Message
from interlock.runner.recovery_scan import CLAIM_GRACE
from tests.surfaces.integrations.conftest import Window
from tests.waiting import until

pytestmark = pytest.mark.long

Open = Callable[[str], Window]


def stage(team: Team, content: str) -> str:
    return next(message.stage for message in team.history() if message.content == content)


def living(team: Team, member: str) -> int:
    with team._workspace.look() as rows:  # type: ignore[attr-defined]
        return len(rows.sessions.living(member))


@pytest.mark.req("TEAM-3.4", "TEAM-3.5")
def test_a_session_that_begins_hears_who_it_is_and_all_its_mail(team: Team, window: Open) -> None:
    team.send(to="ada", content="The parser is yours.")
    one = window("s-1")
    text = one.told("SessionStart", source="startup")
    assert "You are ada" in text and "The parser is yours." in text and "<teammate-message" in text
    assert stage(team, "The parser is yours.") == "delivered"
    assert one.told("UserPromptSubmit", prompt="go on") == ""
    assert stage(team, "The parser is yours.") == "acknowledged"


def test_mail_comes_with_the_next_prompt_and_counts_as_seen_with_the_one_after(team: Team, window: Open) -> None:
    one = window("s-1")
    one.hook("SessionStart")
    team.send(to="ada", content="hello")
    assert "hello" in one.told("UserPromptSubmit", prompt="go on")
    assert stage(team, "hello") == "delivered"
    assert one.hook("PostToolUse") is None
    assert stage(team, "hello") == "delivered", "a tool call is no boundary of a turn"
    assert one.hook("Stop") is None
    assert stage(team, "hello") == "acknowledged"


def test_between_two_steps_only_urgent_mail_comes(team: Team, window: Open) -> None:
    one = window("s-1")
    one.hook("SessionStart")
    team.send(to="ada", content="can wait")
    team.send(to="ada", content="stop that", urgent=True)
    text = one.told("PostToolUse", tool_name="Bash")
    assert "stop that" in text and "can wait" not in text
    assert one.told("PostToolUse", tool_name="Bash") == ""


def test_urgent_mail_in_the_middle_of_a_turn_does_not_show_that_older_mail_was_read(team: Team, window: Open) -> None:
    one = window("s-1")
    one.hook("SessionStart")
    team.send(to="ada", content="read at the prompt")
    assert "read at the prompt" in one.told("UserPromptSubmit", prompt="go on")
    team.send(to="ada", content="stop that", urgent=True)
    assert "stop that" in one.told("PostToolUse", tool_name="Bash")
    assert stage(team, "read at the prompt") == stage(team, "stop that") == "delivered"
    one.hook("SessionEnd")
    again = window("s-2").told("SessionStart", source="startup")
    assert "read at the prompt" in again and "stop that" in again and again.count('redelivered="true"') == 2


@pytest.mark.req("TEAM-1.6", "TEAM-3.6", "TEAM-3.7", "CORE-P2.1", "CORE-P2.2")
def test_a_shutdown_request_reaches_a_busy_window_which_agrees_over_mcp(team: Team, window: Open) -> None:
    one = window("s-1")
    one.hook("SessionStart")
    request = team.request_shutdown("ada", reason="enough for today")
    text = one.told("PostToolUse", tool_name="Bash")
    assert 'type="shutdown_request"' in text and request.id in text
    one.tool("send_message", recipient="lead", type="shutdown_approved", content="done", request_id=request.id)
    assert not team.shutdown_requests()
    answered = [event for event in team.events()[0] if event.type == "shutdown.answered"]
    assert [(event.payload["by"], event.payload["approve"]) for event in answered] == [("ada", True)]
    assert any(message.sender == "ada" and message.request_id == request.id for message in unread(team, "human"))


def test_a_stop_is_answered_once_a_turn_with_the_mail_that_is_unread(team: Team, window: Open) -> None:
    one = window("s-1")
    one.hook("SessionStart")
    team.send(to="ada", content="one more thing")
    refused = one.hook("Stop", stop_hook_active=False)
    assert refused["decision"] == "block" and "one more thing" in refused["reason"]
    assert stage(team, "one more thing") == "delivered"
    team.send(to="ada", content="and another")
    assert one.hook("Stop", stop_hook_active=True) is None, "it said itself that it was sent back"
    assert one.hook("Stop", stop_hook_active=False) is None, "a program that says nothing is not sent back twice either"
    assert (stage(team, "one more thing"), stage(team, "and another")) == ("acknowledged", "stored")
    assert "and another" in one.told("UserPromptSubmit", prompt="go on")
    team.send(to="ada", content="a new turn")
    assert "a new turn" in one.hook("Stop", stop_hook_active=False)["reason"]


def test_what_we_sent_a_program_back_with_is_no_new_turn_where_it_comes_as_a_prompt(team: Team, window: Open) -> None:
    one = window("s-1")
    one.hook("SessionStart")
    task = team.create_task("Write the parser")
    one.tool("task_claim", task_id=task.id)
    reason = one.hook("Stop")["reason"]
    for _ in range(3):
        one.hook("UserPromptSubmit", prompt=reason)
        assert one.hook("Stop") is None


def test_a_stop_with_a_task_that_has_no_report_is_answered_once_and_then_written_down(team: Team, window: Open) -> None:
    one = window("s-1")
    one.hook("SessionStart")
    task = team.create_task("Write the parser")
    one.tool("task_claim", task_id=task.id)
    reason = one.hook("Stop")["reason"]
    assert task.id in reason and "Write the parser" in reason
    assert one.hook("Stop", stop_hook_active=True) is None
    idle = [event for event in team.events()[0] if event.type == "agent.idle_without_report"]
    assert [(event.task_id, event.payload["member"]) for event in idle] == [(task.id, "ada")]
    one.tool("task_complete", task_id=task.id, summary="done")
    one.hook("UserPromptSubmit", prompt="next")
    assert one.hook("Stop") is None


WITHIN = {"agent_id": "a1b2", "agent_type": "Explore"}
"""What an event says that comes from within a subagent."""


def test_mail_waits_for_the_main_agent_while_its_subagent_works(team: Team, window: Open) -> None:
    """A subagent's context ends with it: what it is told, the window never sees."""
    one = window("s-1")
    assert one.hook("SessionStart", **WITHIN) is None
    one.hook("SessionStart")
    team.send(to="ada", content="shown at the prompt")
    one.hook("UserPromptSubmit", prompt="go on")
    team.send(to="ada", content="stop that", urgent=True)
    for event in ("PostToolUse", "UserPromptSubmit", "Stop"):
        assert one.hook(event, **WITHIN) is None
        assert (stage(team, "shown at the prompt"), stage(team, "stop that")) == ("delivered", "stored"), event
    assert "stop that" in one.told("PostToolUse", agent_type="the --agent that the whole session is")
    assert stage(team, "stop that") == "delivered"
    assert one.hook("Stop") is None
    assert stage(team, "stop that") == "acknowledged"


def test_a_subagent_ends_its_turn_whatever_its_main_agent_has_yet_to_report(team: Team, window: Open) -> None:
    one = window("s-1")
    one.hook("SessionStart")
    task = team.create_task("Write the parser")
    one.tool("task_claim", task_id=task.id)
    assert one.hook("Stop", **WITHIN) is None and one.hook("Stop", stop_hook_active=True, **WITHIN) is None
    assert not [event for event in team.events()[0] if event.type == "agent.idle_without_report"]
    assert one.hook("SessionEnd", **WITHIN) is None
    assert task.id in one.hook("Stop")["reason"], "the window is still sent back, and is still there"


def test_two_windows_are_two_members_without_a_variable(team: Team, window: Open) -> None:
    one, two = window("s-1"), window("s-2")
    assert "You are ada," in one.told("SessionStart")
    assert "You are ada-2," in two.told("SessionStart")
    team.send(to="ada", content="for the first")
    team.send(to="ada-2", content="for the second")
    assert "for the second" in two.told("UserPromptSubmit", prompt="go on")
    assert "for the first" in one.told("UserPromptSubmit", prompt="go on")


def test_two_windows_are_two_members_over_mcp_and_in_their_shells(team: Team, window: Open) -> None:
    one, two = window("s-1"), window("s-2")
    one.hook("SessionStart")
    two.hook("SessionStart")
    assert one.tool("team_status")["you"] == {"name": "ada", "leads": False, "session": "s-1"}
    assert two.tool("team_status")["you"] == {"name": "ada-2", "leads": False, "session": "s-2"}
    first, second = team.create_task("first"), team.create_task("second")
    one.tool("task_claim", task_id=first.id)
    code, out, err = two.shell(f"interlock --json task claim {second.id}")
    assert code == 0 and '"owner": "ada-2"' in out, err
    two.tool("task_complete", task_id=second.id)
    code, _, err = two.shell(f"interlock --json task complete {first.id} --as ada")
    assert code == 1 and "cannot act as ada" in err
    code, _, err = two.shell("interlock --as human question list")
    assert code == 1 and "cannot act as human" in err


@pytest.mark.parametrize("variable", ["CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID", "CODEX_THREAD_ID"])
@pytest.mark.parametrize("ended", [False, True])
def test_what_leaves_a_window_and_keeps_its_environment_acts_as_its_member(
    team: Team, project: Path, window: Open, variable: str, ended: bool
) -> None:
    one = window("s-1")
    one.hook("SessionStart")
    words = "interlock task create X --as human; interlock task create X --as lead; INTERLOCK_SESSION=q interlock"
    words += " task create X --as human; interlock task create Own; touch done"
    if ended:
        words = f"until test -e over; do sleep 0.02; done; {words}"
    one.shell(f"export {variable}=s-1; (setsid sh -c '{words}' > said 2>&1 &)")
    if ended:
        one.hook("SessionEnd")
        one.close()
        (project / "over").touch()
    until((project / "done").exists)
    said = (project / "said").read_text()
    assert said.count("cannot act as human") == 2 and said.count("cannot act as lead") == 1, said
    assert [(task.subject, task.created_by) for task in team.tasks()] == [("Own", "ada")]


def test_the_shell_of_a_window_is_in_its_team_in_every_directory(team: Team, home: Home, window: Open) -> None:
    home.create_team("beta")
    one = window("s-1")
    one.hook("SessionStart")
    task = team.create_task("first")
    code, out, err = one.shell(f"cd / && interlock --json task claim {task.id}")
    assert code == 0 and '"owner": "ada"' in out, err
    # What is in no window names its team.
    away = subprocess.run(["interlock", "--json", "task", "create", "Else"], cwd="/", capture_output=True, text=True)
    assert away.returncode == 1 and "team_not_found" in away.stderr


def test_a_program_without_hooks_gets_a_seat_of_its_own_over_mcp(team: Team, window: Open) -> None:
    one, two = window("s-1"), window("s-2")
    assert one.tool("team_status")["you"]["name"] == "ada"
    assert two.tool("team_status")["you"]["name"] == "ada-2"
    one.close()
    assert living(team, "ada") == 0
    three = window("s-3")
    assert three.tool("team_status")["you"]["name"] == "ada"


def test_hooks_and_mcp_agree_whichever_comes_first(team: Team, window: Open) -> None:
    one = window("s-1")
    task = team.create_task("Write the parser")
    one.tool("task_claim", task_id=task.id)
    assert "You are ada" in one.told("SessionStart")
    assert one.tool("team_status")["you"] == {"name": "ada", "leads": False, "session": "s-1"}
    one.tool("task_complete", task_id=task.id)


def test_a_window_that_begins_a_new_session_stays_who_it_is_and_keeps_its_work(team: Team, window: Open) -> None:
    one = window("s-1")
    one.hook("SessionStart")
    task = team.create_task("Write the parser")
    one.tool("task_claim", task_id=task.id)
    team.send(to="ada", content="shown before the context was cleared")
    one.hook("UserPromptSubmit", prompt="go on")
    one.hook("SessionEnd", reason="clear")
    one.session = "s-2"
    text = one.told("SessionStart", source="clear")
    assert "You are ada," in text
    assert 'redelivered="true"' in text, "the new context has not seen it"
    one.tool("task_complete", task_id=task.id)


def test_a_session_that_is_resumed_gets_its_member_back(team: Team, window: Open) -> None:
    one, two = window("s-1"), window("s-2")
    one.hook("SessionStart")
    two.hook("SessionStart")
    task = team.create_task("Write the parser")
    two.tool("task_claim", task_id=task.id)
    one.kill()
    two.kill()
    again = window("s-2")
    assert "You are ada-2," in again.told("SessionStart", source="resume")
    again.tool("task_complete", task_id=task.id)


def test_a_seat_that_is_free_again_is_taken_before_a_new_one_is_made(team: Team, window: Open) -> None:
    one, two = window("s-1"), window("s-2")
    one.hook("SessionStart")
    two.hook("SessionStart")
    one.hook("SessionEnd", reason="exit")
    two.kill()
    assert "You are ada," in window("s-3").told("SessionStart")
    assert "You are ada-2," in window("s-4").told("SessionStart")
    assert sorted(member.name for member in team.members()) == ["ada", "ada-2", "lead"]


def test_a_member_of_that_name_that_somebody_made_for_another_purpose_is_passed_by(team: Team, window: Open) -> None:
    team.spawn("ada-2")
    one, two = window("s-1"), window("s-2")
    one.hook("SessionStart")
    assert "You are ada-3," in two.told("SessionStart")


def test_the_claims_of_a_window_that_is_gone_go_back_to_the_queue(team: Team, window: Open) -> None:
    one = window("s-1")
    one.hook("SessionStart")
    task = team.create_task("Write the parser")
    one.tool("task_claim", task_id=task.id)
    assert team.poll().actions == []
    one.kill()
    assert [action.type for action in team.poll().actions] == ["session_lost"]
    clock = team._workspace.clock  # type: ignore[attr-defined]
    now = clock.now()
    clock.now = lambda: now + CLAIM_GRACE + 1  # the grace has passed
    assert [action.type for action in team.poll().actions] == ["requeue"]
    assert team.task(task.id).state == "ready"
    assert any("taken from ada" in message.content for message in unread(team, "lead"))


def unread(team: Team, member: str) -> list[Message]:
    return [message for message in team.history(member=member) if message.recipient == member]


def test_a_program_that_a_runner_drives_is_left_to_it(
    team: Team, window: Open, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    team.send(to="ada", content="hello")
    monkeypatch.setenv("INTERLOCK_SESSION", "run:0123456789abcdef")
    monkeypatch.setenv("INTERLOCK_MEMBER", "bob")
    one = window("s-1")
    assert one.hook("SessionStart") is None
    assert stage(team, "hello") == "stored"


def test_the_mcp_server_of_a_program_that_a_runner_drives_serves_its_member_whatever_the_environment_says(
    team: Team, window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.spawn("bob")
    task = team.create_task("Write the parser")
    session = "run:0123456789abcdef"
    with monkeypatch.context() as patched:
        # As a runner starts it; the program does not pass these on.
        run = {"TEAM": "alpha", "MEMBER": "bob", "SESSION": session, "RUN_TOKEN": "0123456789abcdef"}
        for name, value in run.items():
            patched.setenv(f"INTERLOCK_{name}", value)
        one = window("s-1")
    team.acting("bob", session=session).claim(task.id)
    you = one.tool("team_status")["you"]
    assert (you["name"], you["session"]) == ("bob", "run:0123456789abcdef")
    assert one.hook("SessionStart") is None


def test_where_the_package_is_gone_the_hooks_say_nothing(
    team: Team, window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert subprocess.run(["sh", "-c", "command -v interlock"], capture_output=True).returncode != 0
    assert window("s-1").hook("SessionStart") is None
