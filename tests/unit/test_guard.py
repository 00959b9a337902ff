"""The guard as text: exactly one question, at the end, that somebody can answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.model.guard import (
    FALLBACKS,
    REASON_CHARS,
    explicit,
    fallback,
    leading_to,
    one_question,
    options_of,
    stand_in,
)
from interlock.model.task import TYPES

TEXTS = st.lists(
    st.sampled_from(
        ["Which port?", "No key.", "What now? I wait.", "1. Which DB?", "- a list", "```\nwhat?\n```", "", "a?b c",
         "続行しますか？", "(Really?)", "YES/NO: go on", *FALLBACKS.values()]
    )
    | st.text(max_size=30),
    max_size=6,
).map("\n".join)  # fmt: skip


@given(TEXTS, st.sampled_from([None, *TYPES]), st.sampled_from([None, "timeout", "interactive", "lunch"]))
def test_every_text_ends_with_its_one_question_and_stays_so(text: str, type: str | None, cause: str | None) -> None:
    asked = one_question(text, type=type, cause=cause)
    assert asked.question.strip() and asked.output.endswith(asked.question)
    again = one_question(asked.output, type=type, cause=cause)
    assert (again.output, again.question, again.context) == (asked.output, asked.question, None)


@given(TEXTS)
def test_nothing_that_was_said_is_lost(text: str) -> None:
    asked = one_question(text)
    kept = f"{asked.context or ''}\n{asked.output}"
    assert all(word in kept for word in text.split())


@pytest.mark.parametrize(
    ("text", "output", "question", "context"),
    [
        ("Which port?", "Which port?", "Which port?", False),
        ("I tried both. Which port?", "I tried both. Which port?", "Which port?", False),
        ("Why so? It is old. Shall I go on?", "It is old.\n\nShall I go on?", "Shall I go on?", True),
        ("Which?\n1. this\n2. that", "Which?\n1. this\n2. that", "Which?\n1. this\n2. that", False),
        ("1. Which DB?\n2. Which port?", "Which port?", "Which port?", True),
        ("Use e.g. this one? I wait.", "Use e.g. this one?", "Use e.g. this one?", True),
        ("Go on? (YES/NO)", "Go on? (YES/NO)", "Go on? (YES/NO)", False),
        ("Why?\nWhich?\n(どれ？)\n(Quel?)", "Which?\n(どれ？)\n(Quel?)", "Which?\n(どれ？)\n(Quel?)", True),
        ("Old. Why?\nNew. Which?", "Old.\nNew.\n\nWhich?", "Which?", True),
        ("Why?\nIt is old.\nWhich?", "It is old.\n\nWhich?", "Which?", True),
    ],
)
def test_the_last_question_is_asked_and_the_rest_is_context(
    text: str, output: str, question: str, context: bool
) -> None:
    asked = one_question(text)
    assert (asked.output, asked.question, asked.context) == (output, question, text if context else None)


@pytest.mark.parametrize("text", ["No key.", "see http://x/?a=b c", "```\nis it?\n```\nas above", "Tell me the port"])
def test_a_text_that_asks_nothing_keeps_standing_before_the_fallback(text: str) -> None:
    assert one_question(text).output == f"{text}\n\n{FALLBACKS['default']}"


@pytest.mark.req("GUARD-templates")
def test_the_four_fallbacks_are_those_of_the_specification() -> None:
    assert FALLBACKS == {
        "default": "YES/NO: このタスクはコード変更を許可しますか？\n(Do you permit code changes for this task?)",
        "implementation": "このタスクを実行するために、以下の情報を教えてください:\n"
        "1. 変更対象のファイル\n2. 期待する動作",
        "timeout": "タスクがタイムアウトしました。続行しますか？ (YES/NO)",
        "interactive": "対話的な確認が必要です。続行を許可しますか？ (YES/NO)",
    }
    assert fallback("IMPLEMENTATION", "timeout") == FALLBACKS["implementation"]
    assert fallback("REPORT", "timeout") == FALLBACKS["timeout"]
    assert fallback(None, "interactive") == FALLBACKS["interactive"]
    assert fallback("READ_INFO", None) == fallback(None, "lunch") == FALLBACKS["default"]


def test_choices_are_found_where_the_question_lists_them() -> None:
    assert options_of("Which?\n1. this\n2. that") == ["this", "that"]
    assert options_of(FALLBACKS["timeout"]) == ["YES", "NO"]
    assert options_of(FALLBACKS["implementation"]) == options_of("Which port?") == []
    assert options_of("Which?\n1. this") == [], "one is no choice"
    assert options_of("1. Which?\n2. this\n3. that") == ["this", "that"], "the question is none of them"


def test_what_is_asked_on_purpose_needs_no_question_mark() -> None:
    assert explicit("Tell me the port.").output == "Tell me the port."
    assert explicit("Why? And which port?").question == "And which port?"
    assert explicit("Which port? I wait.") == ("Which port? I wait.", "Which port? I wait.", None)


def test_people_read_the_reason_whole_or_as_much_as_fits() -> None:
    def told(reason: str) -> str:
        found = stand_in(one_question(reason), "ada", "en")
        assert found is not None
        return found[0]

    for length, shown in [(REASON_CHARS, "x" * 300 + "."), (REASON_CHARS + 1, "x" * 299 + "…")]:
        assert told("x" * length) == f"ada is blocked: {shown} What should it do?"
    assert stand_in(one_question("Which port?"), "ada", "en") is None, "it asked itself"


def test_what_leads_to_a_question_is_told_once() -> None:
    assert leading_to("No key.\n\nWhich port?", "Which port?") == "No key."
    assert leading_to(f"No key.\n\n{FALLBACKS['timeout']}", "ada ran out of time: No way.") == "No key."
    assert leading_to(f"No key.\n\n{FALLBACKS['timeout']}", "ada ran out of time: No key. Go on?") == ""
    assert leading_to("Something else.", "Which port?") == leading_to(None, "Which port?") == ""
