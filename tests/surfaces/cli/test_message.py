"""`interlock message`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.surfaces.cli.conftest import Interlock


@pytest.mark.req("TEAM-3.1", "CORE-FR-004", "CORE-KE.3", "CORE-KE.4")
def test_a_message_lands_in_its_recipients_inbox(interlock: Interlock, team: str, tmp_path: Path) -> None:
    sent = interlock(*"--json message send --to researcher --as tester --summary news hello".split()).json
    assert set(sent) == {
        *("id", "sender", "to", "type", "content", "summary", "timestamp", "read", "stage", "request_id", "approve"),
        *("reason", "metadata", "redelivered"),
    }
    inbox = tmp_path / "home" / "teams" / team / "inbox" / "researcher" / "messages.jsonl"
    assert [json.loads(line) for line in inbox.read_text().splitlines()] == [sent]
    assert (sent["sender"], sent["type"], sent["content"]) == ("tester", "message", "hello")


@pytest.mark.req("TEAM-3.2")
def test_a_broadcast_reaches_everybody_but_its_sender(interlock: Interlock, team: str) -> None:
    answer = interlock("--json", "message", "broadcast", "all of you", "--as", "lead")
    assert answer.json == {"delivered": ["researcher", "tester"], "not_delivered": []}
    for name in ("researcher", "tester"):
        assert [m["type"] for m in interlock("--json", "message", "read", "--as", name).json["messages"]] == [
            "broadcast"
        ]
    assert interlock("--json", "message", "read", "--as", "lead").json["messages"] == []


@pytest.mark.req("TEAM-3.3")
def test_an_unknown_recipient_is_an_error_that_names_the_nearest(
    interlock: Interlock, team: str, tmp_path: Path
) -> None:
    answer = interlock("--json", "message", "send", "--to", "reseacher", "hi")
    assert answer.error["error"] == "recipient_not_found"
    assert answer.error["suggestion"] == "researcher"
    assert not (tmp_path / "home" / "teams" / team / "inbox" / "reseacher").exists()


@pytest.mark.req("TEAM-5.3")
def test_the_largest_message_is_accepted_and_one_byte_more_is_not(interlock: Interlock, team: str) -> None:
    send = ("--json", "message", "send", "--to", "tester", "-")
    assert interlock(*send, input="x" * 102_400).code == 0
    answer = interlock(*send, input="x" * 102_401)
    assert (answer.code, answer.error["error"]) == (1, "message_too_large")
    assert "size limit" in answer.error["message"]


def test_stdin_is_bounded_and_must_be_utf8(interlock: Interlock, team: str) -> None:
    send = ("--json", "message", "send", "--to", "tester", "-")
    assert "size limit" in interlock(*send, input=b"x" * 4_194_305).error["message"]
    assert "UTF-8" in interlock(*send, input=b"\xff\xfe").error["message"]


def test_only_one_argument_can_be_read_from_stdin(interlock: Interlock, team: str) -> None:
    answer = interlock("message", "send", "--to", "tester", "--reason", "-", "-", input="once")
    assert answer.code == 2


@pytest.mark.req("CORE-FR-006", "CORE-SC.6")
def test_reading_marks_as_read_and_history_does_not(interlock: Interlock, team: str) -> None:
    interlock("message", "send", "--to", "tester", "one")
    unread = interlock("--json", "message", "history").json
    assert (unread["timed_out"], [m["read"] for m in unread["messages"]]) == (False, [False])
    assert "unread" in interlock("message", "history").out
    answer = interlock("--json", "message", "read", "--as", "tester").json
    assert ([m["content"] for m in answer["messages"]], answer["timed_out"]) == (["one"], False)
    assert interlock("--json", "message", "read", "--as", "tester").json == {"messages": [], "timed_out": False}
    assert [m["read"] for m in interlock("--json", "message", "history").json["messages"]] == [True]


def test_history_is_mine_unless_more_is_asked_for(interlock: Interlock, team: str) -> None:
    interlock("message", "send", "--to", "tester", "for tester")
    interlock("message", "send", "--to", "researcher", "for researcher")

    def contents(*options: str) -> list[str]:
        return [m["content"] for m in interlock("--json", "message", "history", *options).json["messages"]]

    assert contents() == contents("--as", "tester", "--all") == ["for tester", "for researcher"]
    assert contents("--as", "tester") == contents("--member", "tester") == ["for tester"]
    assert contents("--limit", "1") == ["for researcher"]


@pytest.mark.req("CORE-FR-008")
def test_a_wait_that_ends_without_a_message_says_so_and_is_no_error(interlock: Interlock, team: str) -> None:
    answer = interlock("--json", "message", "wait", "--timeout", "0", "--as", "tester")
    assert (answer.code, answer.json) == (0, {"messages": [], "timed_out": True})
    assert "No message came" in interlock("message", "wait", "--timeout", "0.01", "--as", "tester").out


def test_a_wait_ends_with_the_message_that_came(interlock: Interlock, team: str) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "interlock.surfaces.cli", *"--json message wait --timeout 60 --as tester".split()],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    interlock("message", "send", "--to", "tester", "wake up")
    out, _ = waiting.communicate(timeout=100)
    assert [m["content"] for m in json.loads(out)["messages"]] == ["wake up"]


@pytest.mark.req("CORE-EC.5")
def test_a_reader_that_is_gone_gives_the_mail_back(interlock: Interlock, team: str) -> None:
    interlock("message", "send", "--to", "tester", "do not lose me")
    reading = subprocess.Popen(
        [sys.executable, "-m", "interlock.surfaces.cli", "message", "read", "--as", "tester"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert reading.stdout is not None
    reading.stdout.close()
    _, err = reading.communicate(timeout=100)
    assert (reading.returncode, err) == (141, b""), "as of a program that SIGPIPE ends"
    again = interlock("--json", "message", "read", "--as", "tester").json["messages"]
    assert [(m["content"], m["redelivered"]) for m in again] == [("do not lose me", True)]


def test_a_repeated_send_with_a_client_id_arrives_once(interlock: Interlock, team: str) -> None:
    for _ in range(2):
        interlock("message", "send", "--to", "tester", "--client-id", "c-1", "once")
    assert len(interlock("--json", "message", "read", "--as", "tester").json["messages"]) == 1


def test_messages_for_people_cannot_steer_the_terminal(interlock: Interlock, team: str) -> None:
    interlock("message", "send", "--to", "tester", "--summary", "\x1b[2Jsum", "one\x1b]0;title\x07\ntwo")
    out = interlock("message", "read", "--as", "tester").out
    assert "\x1b" not in out and "\x07" not in out
    assert "from human" in out and "  two" in out


@pytest.mark.req("TEAM-3.6", "TEAM-3.7", "TEAM-1.6", "CORE-P2.1", "CORE-P2.2")
def test_a_shutdown_is_asked_for_and_answered(interlock: Interlock, team: str) -> None:
    made = interlock("--json", "shutdown", "request", "researcher", "--reason", "done", "--as", "lead").json
    assert (made["state"], made["asked"]) == ("open", ["researcher"])
    mail = interlock("--json", "message", "read", "--as", "researcher").json["messages"]
    assert [(m["type"], m["request_id"]) for m in mail] == [("shutdown_request", made["id"])]
    assert interlock("--json", "shutdown", "approve", "--as", "researcher").json["state"] == "granted"
    mail = interlock("--json", "message", "read", "--as", "lead").json["messages"]
    assert [(m["type"], m["approve"]) for m in mail] == [("shutdown_response", True)]
    assert interlock("--json", "shutdown", "approve", "--as", "tester").error["error"] == "request_not_found"


def test_a_shutdown_may_be_refused_with_a_reason(interlock: Interlock, team: str) -> None:
    interlock("shutdown", "request", "researcher")
    assert interlock("shutdown", "reject", "--as", "researcher").code == 2
    answer = interlock("shutdown", "reject", "--reason", "tests run", "--as", "researcher")
    assert "rejected" in answer.out


def test_a_wait_of_no_number_is_refused(interlock: Interlock, team: str) -> None:
    error = interlock("--json", "message", "wait", "--timeout", "nan").error
    assert (error["error"], error["field"]) == ("invalid_request", "wait")
