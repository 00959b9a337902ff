"""A change that is asked for with a key is made once, however often it is sent and to whichever server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import pytest

from interlock.app.base import KEYED, KeyedRequest
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import ManualClock
from interlock.errors import AnswerLost, Forbidden, InvalidRequest
from interlock.model.event import KeyedChange


@contextmanager
def sent(key: str = "k-1", digest: str = "d-1") -> Iterator[KeyedRequest]:
    """What is done here is done for a request with that key."""
    request = KeyedRequest(key, digest)
    before = KEYED.set(request)
    try:
        yield request
    finally:
        KEYED.reset(before)


def known(team: Team, key: str = "k-1") -> KeyedChange | None:
    with team._workspace.look() as rows:
        return rows.upkeep.change(key)


def test_a_change_that_is_sent_again_is_made_once_and_says_what_it_wrote(team: Team) -> None:
    head = team.head()
    with sent():
        task = team.create_task("Write the parser")
    wrote = [head + 1, team.head()]
    with sent() as again, pytest.raises(AnswerLost, match=f"wrote the events {wrote[0]} to {wrote[1]} ") as lost:
        team.create_task("Write the parser")
    assert (lost.value.details["events"], lost.value.details["task"]) == (wrote, task.id)
    assert again.made is not None and again.made.answer is None
    assert [one.id for one in team.tasks()] == [task.id] and team.head() == wrote[1]


def test_a_change_that_is_about_no_task_names_none(team: Team) -> None:
    with sent():
        team.spawn("cleo")
    team.create_task("Write the parser")
    with sent(), pytest.raises(AnswerLost) as lost:
        team.spawn("cleo")
    assert lost.value.details["task"] is None, "that of another change is not meant"


def test_the_key_of_another_request_is_refused(team: Team) -> None:
    with sent():
        team.create_task("Write the parser")
    with sent(digest="d-2"), pytest.raises(InvalidRequest, match="belongs to another request"):
        team.create_task("Write the lexer")
    with sent("k-2", "d-2"):
        team.create_task("Write the lexer")
    assert len(team.tasks()) == 2


def test_a_request_with_several_changes_makes_them_all(team: Team) -> None:
    with sent():
        first, second = team.create_task("One"), team.create_task("Two")
    change = known(team)
    assert change is not None
    events = team.events(change.first - 1)[0]
    assert [event.task_id for event in events if event.type == "task.created"] == [first.id, second.id]
    assert second.id not in {event.task_id for event in events if event.seq <= change.last}
    with sent(), pytest.raises(AnswerLost):
        team.create_task("One")


def test_what_was_answered_is_kept_for_whoever_asks_again(team: Team) -> None:
    with sent() as request:
        team.create_task("Write the parser")
    request.answered(201, "a" * 65_536)
    change = known(team)
    assert change is not None and (change.status, change.answer) == (201, "a" * 65_536)
    request.answered(200, "b" * 65_537)
    assert known(team) == change, "an answer that is too long is not kept"
    with sent() as again, pytest.raises(AnswerLost):
        team.create_task("Write the parser")
    assert again.made == change


def test_a_request_that_changed_nothing_has_no_key_and_no_answer(team: Team) -> None:
    task = team.claim(team.create_task("Write the parser").id, by="ada")
    with sent() as request:
        team.claim(task.id, by="ada")
    request.answered(200, "{}")
    assert known(team) is None
    with sent() as refused, pytest.raises(Forbidden):
        team.release(task.id, by="bob")
    refused.answered(403, "{}")
    assert known(team) is None


def test_a_request_that_changed_nothing_at_first_makes_its_change_once(team: Team) -> None:
    held = team.claim(team.create_task("Write the parser").id, by="ada").id
    for times in (1, 2):
        with sent(), pytest.raises(AnswerLost) if times == 2 else nullcontext():
            team.claim(held, by="ada")
            team.create_task("Write the lexer")
    assert len(team.tasks()) == 2


def test_a_request_that_changed_nothing_is_settled_for_every_copy_of_it(team: Team) -> None:
    task = team.claim(team.create_task("T").id, by="ada").id
    head = team.head()
    with sent() as request, pytest.raises(Forbidden):
        team.release(task, by="bob")
    request.settle(403, "refused")
    settled = known(team)
    assert settled is not None and (settled.status, settled.answer) == (403, "refused")
    assert (settled.first, settled.last) == (head + 1, head), "it wrote nothing"
    with sent() as copy, pytest.raises(AnswerLost):
        team.release(task, by="ada")
    assert copy.made == settled and team.task(task).owner == "ada"
    copy.settle(200, "another")
    assert known(team) == settled


def test_a_request_that_changed_something_is_not_settled(team: Team) -> None:
    with sent() as request:
        team.create_task("T")
    request.settle(200, "{}")
    change = known(team)
    assert change is not None and (change.answer, change.status) == (None, None)


def test_an_answer_that_is_too_long_is_settled_without_its_text(team: Team) -> None:
    task = team.claim(team.create_task("T").id, by="ada").id
    for key, size, kept in (("k-1", 65_536, True), ("k-2", 65_537, False)):
        with sent(key) as request, pytest.raises(Forbidden):
            team.release(task, by="bob")
        request.settle(403, "r" * size)
        change = known(team, key)
        assert change is not None and (change.answer is not None) is kept
    assert known(team) is not None, "what was settled before is known still"


def test_what_another_copy_has_changed_meanwhile_is_not_settled(team: Team) -> None:
    task = team.claim(team.create_task("T").id, by="ada").id
    with sent() as request, pytest.raises(Forbidden):
        team.release(task, by="bob")
    with sent():
        team.release(task, by="ada")
    with pytest.raises(AnswerLost):
        request.settle(403, "refused")


def test_a_request_that_asked_no_team_has_nothing_to_settle(team: Team) -> None:
    with sent() as request:
        pass
    request.settle(200, "{}")
    request.answered(200, "{}")
    assert known(team) is None


def test_a_key_is_known_for_an_hour(timed: Team, clock: ManualClock) -> None:
    with sent():
        timed.create_task("One")
    clock.advance(3600)
    with sent("k-2"):
        timed.create_task("Two")
    with sent(), pytest.raises(AnswerLost):
        timed.create_task("One")
    clock.advance(0.01)
    with sent("k-3"):
        timed.create_task("Three")
    assert known(timed) is None and known(timed, "k-2") is not None


def test_a_key_of_one_team_says_nothing_in_another(team: Team, connect: Callable[..., Home]) -> None:
    other = connect().create_team("other")
    for one in (team, other):
        with sent():
            one.create_task("T")
    assert len(team.tasks()) == len(other.tasks()) == 1
