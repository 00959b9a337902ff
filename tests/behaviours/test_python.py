"""What a program meets that embeds Interlock: help, wrong values, and a home that is closed under a waiter."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import InvalidRequest
from interlock.wakeup.inprocess import InProcessNotifier


@pytest.mark.parametrize(
    "call",
    [
        lambda team, value: team.tasks(limit=value),
        lambda team, value: team.tasks(ready=True, limit=value),
        lambda team, value: team.events(value),
        lambda team, value: team.events(limit=value),
        lambda team, value: team.history(limit=value),
        lambda team, value: team.history(before=value),
        lambda team, value: team.inbox(limit=value),
        lambda team, value: team.inbox(after=value),
    ],
)
@pytest.mark.parametrize("value", ["x", -1, 1.5, True])
def test_a_number_that_is_none_is_refused_with_its_name(team: Team, call: Callable[..., Any], value: Any) -> None:
    team.create_task("Write it")
    with pytest.raises(InvalidRequest, match=r"^(limit|since|before|after) must be a whole number from 0 on, not "):
        call(team, value)


def test_a_field_that_there_is_not_is_refused_with_its_name(team: Team) -> None:
    with pytest.raises(InvalidRequest, match="colour"):
        team.create_task("Write it", colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        team.send(to="human", content="Done.", colour="red")  # type: ignore[call-arg]
    assert team.tasks() == [] and team.history() == []


def test_a_time_to_wait_that_is_no_number_is_refused(team: Team) -> None:
    with pytest.raises(InvalidRequest, match="wait must be a number of seconds"), team.mail(wait="x"):  # type: ignore[arg-type]
        pass


def test_help_says_of_every_verb_what_it_does(home: Home, team: Team) -> None:
    verbs = [getattr(one, name) for one in (home, team) for name in dir(one) if not name.startswith("_")]
    silent = [verb for verb in verbs if callable(verb) and not inspect.getdoc(verb)]
    assert not silent
    assert "TaskAlreadyClaimed" in str(inspect.getdoc(team.claim))


def test_names_can_be_completed_and_objects_say_what_they_are(home: Home, team: Team) -> None:
    assert {"connect", "InterlockError"} <= set(dir(interlock))
    assert repr(home) == f"<Home {home.path}>" and repr(team) == "<Team alpha-squad as human>"
    assert repr(team.acting("ada")) == "<Team alpha-squad as ada>"


def test_who_waits_for_mail_is_woken_when_the_home_is_closed(connect: Callable[..., Home]) -> None:
    registered = threading.Event()

    class Told(InProcessNotifier):
        def waiter(self, *arguments: Any) -> Any:
            registered.set()
            return super().waiter(*arguments)

    home = connect(notifier=Told())
    home.create_team("beta").spawn("ada")
    ada, found = home.team("beta").acting("ada"), []

    def wait() -> None:
        with ada.mail(wait=600.0) as mail:
            found.append((mail.messages, mail.timed_out))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert registered.wait(60)
    home.close()
    thread.join(60)
    assert found == [([], True)]


def test_a_verb_that_waits_works_where_an_event_loop_runs(team: Team) -> None:
    """As in every cell of a notebook."""
    task = team.create_task("Write it", verify="true")
    ada = team.acting("ada")
    ada.claim(task.id)

    async def cell() -> str:
        return ada.complete(task.id).state

    assert asyncio.run(cell()) == "done"
