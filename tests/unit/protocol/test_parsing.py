"""Whose text a text is, and that no text at all makes the parser raise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.message import MESSAGE_BYTES, in_output, parse

WHOLE: dict[str, Any] = {
    "protocol": "aof", "version": 1, "type": "completion.report", "taskId": "TASK-2026-02-09-001", "fromAgent": "ada",
    "toAgent": "lead", "sentAt": "2026-02-09T10:00:00.000Z", "payload": {"outcome": "done"},
}  # fmt: skip
TEXT = json.dumps(WHOLE)


@pytest.mark.parametrize(
    "said",
    [
        WHOLE,
        TEXT,
        f"AOF/1 {TEXT}",
        f"  \n{TEXT}\n",
        f"\N{ZERO WIDTH NO-BREAK SPACE}{TEXT}",
        {"payload": WHOLE},
        {"message": f"AOF/1 {TEXT}"},
        {"content": TEXT},
        {"type": "message.sent", "payload": WHOLE},
    ],
)
def test_an_envelope_is_found_however_it_is_wrapped(said: object) -> None:
    parsed = parse(said)
    assert parsed.ours and parsed.envelope is not None and parsed.envelope.task_id == WHOLE["taskId"]


@pytest.mark.parametrize(
    "said",
    [
        "Hello, this is a chat message",
        "",
        "{ not json",
        '{"protocol": "custom", "version": 1}',
        '{"hello": "world"}',
        "[1, 2]",
        "AOF/2 {}",
        "I said AOF/1 {} yesterday",
        {"hello": "world"},
        {"protocol": "custom"},
        {"message": "hello"},
        {"payload": {"x": 1}},
        None,
        5,
        b"AOF/1 {}",
        ["AOF/1 {}"],
    ],
)
def test_what_is_not_ours_passes_without_a_word(said: object) -> None:
    parsed = parse(said)
    assert not parsed.ours and parsed.envelope is None and parsed.errors == []


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("AOF/1 {invalid json", "invalid_json"),
        ("AOF/1 ", "not_protocol"),
        ("AOF/1 hello", "invalid_json"),
        ("AOF/1 []", "invalid_envelope"),
        ('AOF/1 {"protocol": "custom"}', "invalid_envelope"),
        ('{"protocol": "aof"}', "invalid_envelope"),
        ({"protocol": "aof"}, "invalid_envelope"),
        ("AOF/1 " + "[" * 100_000, "invalid_json"),
        ('AOF/1 {"a": ' * 1 + '{"a":' * 100 + "1" + "}" * 101, "invalid_json"),
        ('AOF/1 {"a": "\\ud800"}', "invalid_json"),
        ('AOF/1 {"a": "\\u0000"}', "invalid_json"),
        ('AOF/1 {"a": NaN}', "invalid_json"),
        ("AOF/1 " + "9" * 5000, "invalid_json"),
        ({"protocol": "aof", "x": object()}, "invalid_json"),
        ("AOF/1 " + '"' + "x" * MESSAGE_BYTES + '"', "payload_too_large"),
    ],
)
def test_what_is_ours_and_broken_says_why(said: object, reason: str) -> None:
    parsed = parse(said)
    assert parsed.envelope is None and parsed.reason == reason
    assert parsed.ours == (reason != "not_protocol")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('{"protocol": "custom"}', "invalid protocol"),
        ({"protocol": "custom"}, "invalid protocol"),
        ("{}", "protocol is required"),
        ("hello", "not valid JSON"),
        ("[]", "one JSON object"),
        (None, "one JSON object"),
    ],
)
def test_an_explicit_door_tells_also_what_is_not_ours(said: object, words: str) -> None:
    parsed = parse(said, explicit=True)
    assert not parsed.ours and any(words in error.message for error in parsed.errors)


def test_a_mapping_that_holds_itself_is_refused() -> None:
    said: dict[str, Any] = {"protocol": "aof"}
    said["payload"] = said
    assert parse(said).reason == "invalid_json"


def test_agent_output_is_searched_line_by_line() -> None:
    output = f'thinking …\nAOF/1 {TEXT}\n{{"a": 1}}\n  {TEXT}\nAOF/1 broken\ndone'
    assert list(in_output(output)) == [f"AOF/1 {TEXT}", f"  {TEXT}", "AOF/1 broken"]


@given(st.text() | st.text().map(lambda text: "AOF/1 " + text) | st.text().map(lambda text: "{" + text))
def test_no_text_makes_it_raise(text: str) -> None:
    for explicit in (False, True):
        parsed = parse(text, explicit=explicit)
        assert parsed.envelope is None and parsed.reason


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_no_value_makes_it_raise(value: object) -> None:
    assert parse(value).envelope is None
    assert parse({"protocol": "aof", "payload": value}).reason in ("invalid_envelope", "invalid_json")
