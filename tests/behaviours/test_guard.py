"""Whatever cannot proceed asks exactly one question that a person can answer, by whatever road it comes to a stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from interlock.app.team import Team
from interlock.errors import InvalidRequest, InvalidTransition
from interlock.model.guard import FALLBACKS
from interlock.model.task import Task
from tests.behaviours.driving import Place
from tests.behaviours.speech import ack, completion, handoff, update


def by_verb(team: Team, task: str, said: str) -> None:
    team.block(task, reason=said or "x", by="ada")


def by_report(team: Team, task: str, said: str) -> None:
    assert team.protocol(completion(task, "blocked", blockers=[said] if said else [])).accepted


def by_status(team: Team, task: str, said: str) -> None:
    assert team.protocol(update(task, status="blocked", notes=said)).accepted


WAITS = "awaiting-response"
ROADS: tuple[Callable[[Team, str, str], None], ...] = (by_verb, by_report, by_status)


def stopped(team: Team, road: Callable[[Team, str, str], None], said: str, type: str | None) -> Task:
    task = team.create_task("Deploy", type=type)
    team.claim(task.id, by="ada")
    road(team, task.id, said)
    return team.task(task.id)


def holds_one_question(team: Team, task: Task) -> None:
    (question,) = [one for one in team.questions() if one.task_id == task.id]
    assert task.output is not None and task.output.strip()
    assert task.output.endswith((question.text, *FALLBACKS.values())) and question.text.strip()
    assert not any(line in question.text for line in FALLBACKS.values()), "people read a sentence of ours instead"
    assert task.question is not None and (task.question["id"], task.question["text"]) == (question.id, question.text)


@pytest.mark.req("GUARD-INV-1", "GUARD-AC-1", "GUARD-closed")
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("type", [None, "READ_INFO", "REPORT", "WORKFLOW"])
def test_a_blocked_task_always_carries_a_question(
    team: Team, road: Callable[[Team, str, str], None], type: str | None
) -> None:
    task = stopped(team, road, "no key", type)
    assert task.state == "blocked"
    assert task.output == f"no key\n\n{FALLBACKS['default']}"
    assert task.question is not None
    assert (task.question["text"], task.question["options"]) == ("ada is blocked: no key. What should it do?", [])
    holds_one_question(team, task)
    asking = stopped(team, road, "There are two keys. Which one is ours?", type)
    assert asking.output is not None and asking.output.endswith("Which one is ours?")
    assert FALLBACKS["default"] not in asking.output
    holds_one_question(team, asking)


@pytest.mark.req("GUARD-INV-2", "GUARD-AC-2", "GUARD-IMPL-2")
@pytest.mark.parametrize("road", ROADS)
def test_an_implementation_is_never_blocked(team: Team, road: Callable[[Team, str, str], None]) -> None:
    task = stopped(team, road, "no key", "IMPLEMENTATION")
    assert task.state == "awaiting-response"
    assert task.output == f"no key\n\n{FALLBACKS['implementation']}", "its own words stay"
    holds_one_question(team, task)
    states = {event.payload["to"] for event in team.events()[0] if event.type == "task.transitioned"}
    assert "blocked" not in states


def test_a_task_that_becomes_an_implementation_is_no_longer_blocked(team: Team) -> None:
    task = stopped(team, by_verb, "no key", None)
    question = task.question
    changed = team.update(task.id, type="IMPLEMENTATION", by="human")
    assert (changed.state, changed.question, changed.output) == ("awaiting-response", question, task.output)


def test_a_handoff_that_is_refused_does_not_block_an_implementation(team: Team) -> None:
    parent = team.create_task("Ship it")
    child = team.create_task("Write the notes", type="IMPLEMENTATION", parent_id=parent.id)
    team.claim(parent.id, by="ada")
    assert team.protocol(handoff(parent.id, child.id, "bob")).accepted
    assert team.protocol(ack(child.id, False, by="bob", reason="no time")).accepted
    task = team.task(child.id)
    assert task.state == "awaiting-response"
    holds_one_question(team, task)


ENGLISH = {
    FALLBACKS["default"]: "bob is blocked and gave no reason. Do you permit code changes for this task? (YES/NO)",
    FALLBACKS["timeout"]: "bob ran out of time. Should it continue? (YES/NO)",
    FALLBACKS["interactive"]: "bob needs a confirmation. May it continue? (YES/NO)",
    FALLBACKS["implementation"]: "bob cannot continue: which files should it change, and what should they do then?",
}


@pytest.mark.req("GUARD-INV-1", "GUARD-INV-6")
def test_people_are_asked_in_their_language_and_told_the_reason_first(team: Team) -> None:
    reason = "credentials.txt is missing"
    task = stopped(team, by_verb, reason, None)
    assert task.question is not None
    assert task.question["text"] == "ada is blocked: credentials.txt is missing. What should it do?"
    (need,) = [one for one in team.status().needs_me if one.task_id == task.id]
    assert need.text == task.question["text"], "one line says all of it"
    team.configure({"language": "ja"})
    asked = stopped(team, by_verb, reason, "IMPLEMENTATION").question
    assert asked is not None
    assert asked["text"] == "adaは停止しています: credentials.txt is missing。 どうすればよいですか？"
    with pytest.raises(InvalidRequest, match="must be one of: en, ja"):
        team.configure({"language": "tlh"})


def test_a_long_reason_is_named_in_short_and_kept_whole(team: Team) -> None:
    reason = "The build fails.\n\n" + "\n".join(f"error {n}" for n in range(100))
    task = stopped(team, by_verb, reason, None)
    assert task.question is not None and task.output == f"{reason}\n\n{FALLBACKS['default']}"
    asked = task.question["text"]
    assert asked.startswith("ada is blocked: The build fails. error 0 ") and asked.endswith("… What should it do?")
    assert len(asked) < 400 and "\n" not in asked


@pytest.mark.parametrize("outcome", [completion, update])
def test_a_report_without_a_word_puts_none_into_anybodys_mouth(team: Team, outcome: Any) -> None:
    task = team.create_task("Deploy")
    team.claim(task.id, by="ada")
    said = {"outcome": "blocked", "notes": None} if outcome is completion else {"status": "blocked"}
    assert team.protocol(outcome(task.id, **said)).accepted
    found = team.task(task.id)
    assert found.output == FALLBACKS["default"] and found.question is not None
    assert found.question["text"].startswith("ada is blocked and gave no reason.")
    assert found.question["options"] == ["YES", "NO"]


def test_which_types_may_be_blocked_is_a_setting(team: Team) -> None:
    team.configure({"may_be_blocked": "WORKFLOW"})
    assert stopped(team, by_verb, "no key", "REPORT").state == "awaiting-response"
    assert stopped(team, by_verb, "no key", "WORKFLOW").state == "blocked"


def says(place: Place, name: str, **line: Any) -> dict[str, Any]:
    return place.program(name, f"print('I looked around.'); print({json.dumps(line)!r})")


@pytest.mark.req("GUARD-INV-1", "GUARD-AC-1", "GUARD-IMPL-1")
@pytest.mark.parametrize(
    ("line", "type", "state", "question"),
    [
        ({"status": "BLOCKED", "output": ""}, None, "blocked", FALLBACKS["default"]),
        ({"status": "BLOCKED", "output": "  ", "reason": "timeout"}, None, "blocked", FALLBACKS["timeout"]),
        ({"status": "BLOCKED", "reason": "interactive"}, "REPORT", "blocked", FALLBACKS["interactive"]),
        (
            {"status": "BLOCKED", "reason": "timeout"},
            "IMPLEMENTATION",
            "awaiting-response",
            FALLBACKS["implementation"],
        ),
        ({"status": "BLOCKED", "output": "Which port?"}, None, "blocked", "Which port?"),
        (
            {"status": "AWAITING_RESPONSE", "output": "Which port?"},
            "IMPLEMENTATION",
            "awaiting-response",
            "Which port?",
        ),
        ({"status": "AWAITING_RESPONSE", "output": ""}, None, WAITS, FALLBACKS["default"]),
    ],
)
def test_what_a_program_says_last_is_guarded_before_it_is_stored(
    place: Place, line: dict[str, str], type: str | None, state: str, question: str
) -> None:
    place.stage({"one": {"subject": "One", **({"type": type} if type else {})}}, {"bob": says(place, "bob", **line)})
    assert place.drive() == "finished"
    task = place.task("one")
    assert (task.state, task.output) == (state, question)
    assert task.question is not None and task.question["text"] == ENGLISH.get(question, question)
    holds_one_question(place.team, task)
    assert [run.ended_at is not None for run in place.team.runs("one")] == [True]


def test_a_shell_that_breaks_the_line_is_understood(place: Place) -> None:
    bob = place.program("bob", r"""print('looked'); print('{"status": "BLOCKED", "output": "Which?\n1. a\n2. b"}')""")
    place.stage({"one": {"subject": "One"}}, {"bob": bob})
    place.drive()
    task = place.task("one")
    assert (task.state, task.output) == ("blocked", "Which?\n1. a\n2. b")
    assert task.question is not None and task.question["options"] == ["a", "b"]


@pytest.mark.req("GUARD-IMPL-1")
@pytest.mark.parametrize(
    ("line", "state", "part"),
    [
        ({"status": "COMPLETE", "output": "all fine"}, "done", "all fine"),
        ({"status": "INCOMPLETE", "output": "half of it"}, "review", "half of it"),
        ({"status": "NO_EVIDENCE", "output": "trust me"}, "review", "NO_EVIDENCE"),
        ({"status": "ERROR", "output": "the disk is full"}, "deadletter", "the disk is full"),
    ],
)
def test_the_other_words_of_an_executor(place: Place, line: dict[str, str], state: str, part: str) -> None:
    place.stage({"one": {"subject": "One", "retries": 0}}, {"bob": says(place, "bob", **line)})
    place.drive()
    task = place.task("one")
    assert task.state == state and part in str(task.output)
    kinds = {"review": ["review"], "deadletter": ["escalation"]}
    assert [question.kind for question in place.team.questions()] == kinds.get(state, [])


@pytest.mark.req("GUARD-INV-6", "GUARD-closed")
def test_the_answer_begins_a_new_run_that_knows_the_conversation(place: Place) -> None:
    asks = (
        "if 'port 8080' not in prompt:\n"
        '    print(\'{"status": "AWAITING_RESPONSE", "output": "It clashes. Which port?"}\')\n'
        "else:\n"
        "    print('Which port?' in prompt)"
    )
    place.stage({"one": {"subject": "One", "type": "IMPLEMENTATION"}}, {"bob": place.program("bob", asks)})
    place.drive()
    task = place.task("one")
    assert task.state == "awaiting-response" and task.question is not None
    answered = place.team.reply(task.id, "take port 8080", question=task.question["id"])
    assert (answered.state, answered.question) == ("ready", None)
    place.drive()
    task = place.task("one")
    assert (task.state, task.output) == ("done", "True")
    (exchange,) = place.team.conversation("one")
    assert (exchange.answer, exchange.answered_by, exchange.state) == ("take port 8080", "human", "answered")


def test_nothing_can_be_asked_about_a_finished_task(team: Team) -> None:
    task = team.create_task("Deploy")
    team.claim(task.id, by="ada")
    team.complete(task.id, by="ada")
    with pytest.raises(InvalidTransition):
        team.ask(task.id, "Which port?")
