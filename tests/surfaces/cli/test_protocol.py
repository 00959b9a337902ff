"""`interlock protocol send`, `protocol schema` and `session-end`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.cli.conftest import Interlock


def report(task: str, outcome: str = "partial", **fields: Any) -> str:
    """A completion report as text."""
    whole = {
        "protocol": "aof", "version": 1, "type": "completion.report", "taskId": task, "fromAgent": "researcher",
        "toAgent": "lead", "sentAt": "2026-02-10T10:00:00Z", "payload": {"outcome": outcome}, **fields,
    }  # fmt: skip
    return json.dumps(whole)


@pytest.fixture
def held(interlock: Interlock, task: Callable[..., str]) -> str:
    """A task that the researcher holds."""
    made = task("Write the parser")
    assert interlock("task", "claim", made, "--as", "researcher").code == 0
    return made


@pytest.mark.parametrize("prefix", ["", "AOF/1 "])
def test_a_message_from_stdin_is_acted_on(interlock: Interlock, held: str, prefix: str) -> None:
    answer = interlock("--json", "protocol", "send", "--as", "researcher", input=prefix + report(held) + "\n")
    assert (answer.code, answer.err) == (0, "")
    assert answer.json == {
        "accepted": True, "type": "completion.report", "task_id": held, "applied": True, "state": "review"
    }  # fmt: skip
    assert interlock("--json", "task", "show", held).json["state"] == "review"


def test_people_read_what_came_of_it(interlock: Interlock, held: str) -> None:
    assert f"accepted: completion.report {held}, now review" in interlock("protocol", "send", report(held)).out
    refused = interlock("protocol", "send", report("TASK-1", "finished", sentAt="now"))
    assert refused.code == 1 and "refused" in refused.out
    for words in ("must match TASK-YYYY-MM-DD-NNN", "must be ISO 8601 datetime", "must be one of: done"):
        assert words in refused.out


@pytest.mark.parametrize(
    ("said", "reason", "words"),
    [
        (b"hello", "invalid_json", "not valid JSON"),
        (b"", "invalid_json", "not valid JSON"),
        (b"{}", "invalid_envelope", "protocol is required"),
        (b'{"protocol": "custom"}', "invalid_envelope", "invalid protocol"),
        (b'AOF/1 {"protocol": "aof", "version": 2}', "invalid_envelope", "unsupported version"),
        (b'{"protocol": "aof", "x": "\xff"}', "invalid_json", "Unicode"),
        (b"AOF/1 " + b'"' + b"x" * 10 * 1024 * 1024 + b'"', "payload_too_large", "at most"),
        (report("TASK-2026-01-01-999").encode(), "task_not_found", "no task"),
        (report("TASK-2026-01-01-999", type="custom").encode(), "unknown_type", "no handler"),
    ],
)
def test_what_is_refused_is_answered_on_stdout(
    interlock: Interlock, team: str, said: bytes, reason: str, words: str
) -> None:
    answer = interlock("--json", "protocol", "send", input=said)
    assert (answer.code, answer.err) == (1, "")
    assert not answer.json["accepted"] and answer.json["reason"] == reason
    assert words in json.dumps(answer.json["errors"])


def test_a_caller_that_is_nobody_is_an_error(interlock: Interlock, held: str) -> None:
    answer = interlock("--json", "protocol", "send", "--as", "stranger", report(held))
    assert (answer.code, answer.out, answer.error["error"]) == (1, "", "member_not_found")


def test_the_schema_is_one_document(interlock: Interlock) -> None:
    assert interlock("--json", "protocol", "schema").json == json.loads(interlock("protocol", "schema").out)
    assert "oneOf" in interlock("--json", "protocol", "schema").json


def test_the_end_of_a_session_applies_what_was_put_down(interlock: Interlock, held: str, here: Path) -> None:
    assert interlock("--json", "session-end", "--as", "researcher").json == {"results": []}
    runs = here.parent / "home" / "teams" / "alpha-squad" / "runs" / held
    (runs / "run_result.json").write_text('{"outcome": "blocked", "completedAt": "2026-02-10T10:00:00Z"}')
    answer = interlock("--json", "session-end", "--as", "researcher")
    assert answer.code == 0 and answer.json == {
        "results": [{"task_id": held, "outcome": "blocked", "applied": True, "state": "blocked", "run_id": f"{held}.1"}]
    }
    assert "No run" in interlock("session-end").out
