"""`interlock hook`: its shapes, and that whatever goes wrong it prints nothing and exits with 0."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.app.home import Home
from interlock.app.team import Team

Answer = tuple[int, str, str]
Call = Callable[..., Answer]


@pytest.fixture
def call(project: Path) -> Call:
    """Run the hook as a program does: with its event on stdin."""

    def run(event: object, *options: str, program: str = "claude") -> Answer:
        given = event if isinstance(event, bytes) else json.dumps(event).encode()
        done = subprocess.run(["interlock", "hook", program, *options], input=given, capture_output=True)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


def event(name: str, session: str = "s-1", **more: Any) -> dict[str, Any]:
    return {"hook_event_name": name, "session_id": session, "cwd": "/", **more}


SILENT = (0, "", "")


@pytest.mark.parametrize(
    ("program", "begin", "prompt", "tool", "stop", "end"),
    [
        ("claude", "SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"),
        ("codex", "SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", None),
        ("gemini", "SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd"),
    ],
)
def test_each_program_is_told_in_its_own_words(
    call: Call, team: Team, program: str, begin: str, prompt: str, tool: str, stop: str, end: str | None
) -> None:
    def told(name: str) -> str:
        code, out, err = call(event(name), "--name", "ada", program=program)
        assert (code, err) == (0, "")
        return out

    for name, urgent in ((begin, False), (prompt, False), (tool, True)):
        team.create_task("x")
        if name != begin:
            team.send(to="ada", content=f"for {name}", urgent=urgent)
        document = json.loads(told(name))
        assert list(document) == ["hookSpecificOutput"]
        assert document["hookSpecificOutput"]["hookEventName"] == name
        assert (f"for {name}" if name != begin else "You are ada") in document["hookSpecificOutput"][
            "additionalContext"
        ]
    team.send(to="ada", content="before you stop")
    document = json.loads(told(stop))
    assert document["decision"] == "block" and "before you stop" in document["reason"]
    assert set(document) == {"decision", "reason"}
    if end is not None:
        assert told(end) == ""


def test_the_first_prompt_of_a_session_that_began_before_join_takes_a_seat(call: Call, team: Team) -> None:
    _, out, _ = call(event("UserPromptSubmit"), "--name", "ada")
    assert "You are ada" in out
    assert call(event("UserPromptSubmit"), "--name", "ada") == SILENT


def test_who_has_no_seat_is_told_nothing_in_the_middle_of_a_turn(call: Call, team: Team) -> None:
    for name in ("PostToolUse", "Stop", "SessionEnd"):
        assert call(event(name)) == SILENT
    assert [member.name for member in team.members()] == ["lead"]


def test_the_lead_also_gets_the_state_of_the_team(call: Call, team: Team) -> None:
    team.create_task("T1")
    _, out, _ = call(event("SessionStart"), "--name", "lead")
    assert "TEAM STATE" in out and "pending 1" in out
    _, out, _ = call(event("SessionStart", "s-2"), "--name", "lead")
    assert "You are lead" in out, "the same process: the same window"


def test_what_does_not_fit_comes_with_the_next_event(call: Call, team: Team) -> None:
    call(event("SessionStart"), "--name", "ada")
    for number in range(5):
        team.send(to="ada", content=f"{number} " + "x" * 4000)
    _, first, _ = call(event("UserPromptSubmit"), "--name", "ada")
    assert len(first) < 10_000
    _, second, _ = call(event("UserPromptSubmit"), "--name", "ada")
    _, third, _ = call(event("UserPromptSubmit"), "--name", "ada")
    for number in range(5):
        assert f"{number} xxx" in first + second + third


def test_outside_of_a_team_it_is_silent(call: Call) -> None:
    assert call(event("SessionStart")) == SILENT


def test_a_window_elsewhere_does_not_join_the_only_team(
    call: Call, team: Team, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.parent)
    assert call(event("SessionStart"), "--name", "ada") == SILENT
    assert [member.name for member in team.members()] == ["lead"]


@pytest.mark.parametrize(
    "given", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"session_id": 3}', b'{"hook_event_name": "Stop"}', b"{}" * 9]
)
def test_on_input_it_cannot_make_out_it_is_silent(call: Call, team: Team, given: bytes) -> None:
    assert call(given) == SILENT


@pytest.mark.parametrize("options", [("--frob",), ("--team", "ghost"), ("--team", "../up"), ("--name", "Not A Name")])
def test_on_a_line_that_makes_no_sense_it_is_silent(call: Call, team: Team, options: tuple[str, ...]) -> None:
    assert call(event("SessionStart"), *options) == SILENT
    assert call(event("SessionStart"), program="emacs") == SILENT
    assert call(event("SessionStarted")) == SILENT
    assert call(event("SessionStart", "x" * 5000)) == SILENT


def test_on_a_full_team_it_is_silent(call: Call, team: Team) -> None:
    team.configure({"member_limit": 1})
    assert call(event("SessionStart"), "--name", "ada") == SILENT


def test_on_a_broken_ledger_it_is_silent_and_says_why_where_asked(
    call: Call, team: Team, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Path(home.path, "teams", "alpha", "ledger.db")
    home.close()
    ledger.write_bytes(b"not a database" * 1000)
    for leftover in ("ledger.db-wal", "ledger.db-shm"):
        ledger.with_name(leftover).unlink(missing_ok=True)
    assert call(event("SessionStart"), "--team", "alpha") == SILENT
    monkeypatch.setenv("INTERLOCK_DEBUG", "1")
    assert "interlock hook: " in call(event("SessionStart"), "--team", "alpha")[2]


def test_on_a_locked_ledger_it_is_silent_after_a_second(
    call: Call, team: Team, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(event("SessionStart"), "--name", "ada")
    team.send(to="ada", content="hello")
    monkeypatch.delenv("INTERLOCK_HOOK_TIMEOUT")
    holder = sqlite3.connect(Path(home.path, "teams", "alpha", "ledger.db"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    assert call(event("UserPromptSubmit"), "--name", "ada") == SILENT
    assert time.monotonic() - began < 8  # a second, and what a busy machine adds to it
    holder.rollback()
    holder.close()
    monkeypatch.setenv("INTERLOCK_HOOK_TIMEOUT", "60")
    assert "hello" in call(event("UserPromptSubmit"), "--name", "ada")[1]


def test_whatever_it_waits_for_it_ends_after_a_second(project: Path) -> None:
    code = "from interlock.hooks_main import Deadline; Deadline(0.1); input(); print('late')"
    ours, theirs = os.pipe()
    done = subprocess.run([sys.executable, "-c", code], stdin=ours, capture_output=True)
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_program_that_is_gone_before_it_has_read_gets_its_mail_again(team: Team, project: Path) -> None:
    team.spawn("ada")
    team.send(to="ada", content="y" * 90_000)
    process = subprocess.Popen(
        ["interlock", "hook", "claude", "--name", "ada"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(event("SessionStart")).encode())
    process.stdin.close()
    process.stdout.read(1)
    process.stdout.close()
    assert process.wait() == 0
    assert [message.stage for message in team.history()] == ["stored"]
