"""Verify commands and the environment that programs get to see."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest

from interlock.errors import InvalidRequest
from interlock.processes.ancestry import RUN_TOKEN
from interlock.processes.ref import ProcessRef, alive
from interlock.runner.environment import allowed_environment
from interlock.runner.verify import TAIL_CHARS, Evidence, run_check


def check(command: str, workdir: Path, **changes: object) -> Evidence:
    arguments: dict[str, object] = {
        "workdir": str(workdir),
        "environment": {"PATH": os.environ["PATH"]},
        "timeout": 30.0,
        "output_bytes": 65_536,
        "stop_grace": 5.0,
        **changes,
    }
    return anyio.run(partial(run_check, command, **arguments))  # type: ignore[arg-type]


def test_exit_zero_passes_and_is_written_down(tmp_path: Path) -> None:
    (tmp_path / "NOTES.md").write_text("x")
    evidence = check("test -s NOTES.md && echo fine", tmp_path)
    assert (evidence.passed, evidence.exit_code, evidence.tail, evidence.timed_out) == (True, 0, "fine\n", False)
    assert evidence.seconds >= 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", evidence.at)
    assert set(json.loads(json.dumps(evidence.as_dict()))) == {
        *("command", "exit_code", "passed", "seconds", "tail", "at", "timed_out", "tree", "fingerprint", "unchanged"),
        "changed_check",
    }


@pytest.mark.parametrize(("command", "code"), [("test -s NOTES.md", 1), ("kill -9 $$", -9), ("no-such-program", None)])
def test_anything_else_does_not_pass(tmp_path: Path, command: str, code: int | None) -> None:
    evidence = check(command, tmp_path)
    assert (evidence.passed, evidence.exit_code, evidence.timed_out) == (False, code, False)
    assert code is not None or "not found" in evidence.tail


@pytest.mark.parametrize("ended", ["under way", "as it starts"])
def test_a_check_that_somebody_else_ends_is_run_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    monkeypatch.setattr("interlock.runner.verify.ENDED_WITH_US", 0.1)
    once, supervisor = f"test -e {tmp_path}/once || {{ touch {tmp_path}/once; kill -TERM", tmp_path / "python"
    if ended == "as it starts":
        supervisor.write_text(f'#!/bin/sh\n{once} $$; }}\nexec {sys.executable} "$@"\n')
        supervisor.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(supervisor))
    command = f"{once} $PPID $$; }}; echo fine" if ended == "under way" else "echo fine; true"
    evidence = check(command, tmp_path, stop_grace=0.1)
    assert (evidence.passed, evidence.exit_code, evidence.tail) == (True, 0, "fine\n")


def test_a_check_that_is_always_ended_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.runner.verify.ENDED_WITH_US", 0.1)
    evidence = check("echo + >> runs; kill -TERM $PPID $$; true", tmp_path, stop_grace=0.1)
    assert (evidence.passed, (tmp_path / "runs").read_text()) == (False, "+\n+\n")
    # Its supervisor may die of it before it has said that the command runs.
    assert evidence.exit_code == -15 or "ended by somebody else while it was being started" in evidence.tail


def test_a_verify_that_takes_too_long_is_ended_and_says_so(tmp_path: Path) -> None:
    started: list[ProcessRef] = []
    evidence = check("sleep 60", tmp_path, timeout=0.2, on_start=started.append)
    assert (evidence.passed, evidence.timed_out, evidence.exit_code) == (False, True, -15)
    assert [alive(identity) for identity in started] == [False]


def test_only_the_end_of_long_output_is_evidence(tmp_path: Path) -> None:
    evidence = check("seq 1 20000", tmp_path)
    assert len(evidence.tail) == TAIL_CHARS
    assert evidence.tail.endswith("20000\n")


def test_secrets_are_blanked_in_evidence_and_log(tmp_path: Path) -> None:
    evidence = check("echo my hunter22", tmp_path, secrets=("hunter22",), log=str(tmp_path / "log"))
    assert evidence.tail == (tmp_path / "log").read_text() == "my ***\n"


def test_a_verify_never_runs_under_the_token_of_the_session_it_checks(tmp_path: Path) -> None:
    token = os.urandom(16).hex()
    evidence = check(f"echo ${RUN_TOKEN}", tmp_path, environment={"PATH": os.environ["PATH"], RUN_TOKEN: token})
    assert len(evidence.tail.strip()) == 32
    assert token not in evidence.tail


def test_a_command_that_cannot_be_read_does_not_pass_and_says_why(tmp_path: Path) -> None:
    evidence = check("echo 'never closed", tmp_path)
    assert (evidence.passed, evidence.exit_code) == (False, None)
    assert "quote" in evidence.tail


USER = {
    "PATH": "/bin",
    "HOME": "/home/u",
    "LANG": "C.UTF-8",
    "LC_TIME": "de_DE.UTF-8",
    "AWS_SECRET_ACCESS_KEY": "aws-secret",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "GITHUB_TOKEN": "gh-token",
    "NODE_ENV": "production",
    "SHORT_KEY": "abc",
    "DATABASE_URL": "postgres://user:db-password@host/db",
    "HTTPS_PROXY": "http://me:proxy-pass@proxy:3128",
    "INTERLOCK_TOKEN": "il-token",
    "INTERLOCK_HOME": "/elsewhere",
}


def test_a_program_sees_the_allow_list_and_what_we_set() -> None:
    environment, secrets = allowed_environment(USER, extra={"INTERLOCK_TEAM": "t", RUN_TOKEN: "ab" * 16})
    assert set(environment) == {"PATH", "HOME", "LANG", "LC_TIME", "HTTPS_PROXY", "INTERLOCK_TEAM", RUN_TOKEN}
    assert secrets == ("proxy-pass",)


def test_named_variables_pass_and_those_that_look_secret_are_secrets() -> None:
    names = ["GITHUB_TOKEN", "NODE_ENV", "SHORT_KEY", "DATABASE_URL", "NOT_SET"]
    environment, secrets = allowed_environment(USER, names=names, extra={})
    assert {name: environment[name] for name in names[:4]} == {name: USER[name] for name in names[:4]}
    assert "NOT_SET" not in environment
    assert secrets == ("db-password", "gh-token", "proxy-pass")


def test_a_token_that_we_set_ourselves_is_a_secret() -> None:
    _, secrets = allowed_environment({}, extra={"INTERLOCK_TOKEN": "member-token"})
    assert secrets == ("member-token",)


@pytest.mark.parametrize(
    "name", ["INTERLOCK_TOKEN", "INTERLOCK_HOME", "interlock_token", "A=B", "", "A B", "1A", "A\n"]
)
def test_a_name_that_must_not_pass_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        allowed_environment(USER, names=[name])
    assert refusal.value.details["field"] == "env"
