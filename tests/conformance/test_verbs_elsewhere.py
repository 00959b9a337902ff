"""The public verbs behave on a home elsewhere as on one of this machine: the bodies of the behaviours again,
through a real server. Bodies that need the machine of the home (a clock of its own, the ledger itself) are not run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.remote.home import RemoteTeam
from tests.behaviours import (
    test_answers,
    test_claims,
    test_delivery,
    test_dependencies,
    test_guard,
    test_handoff,
    test_limits,
    test_mailbox,
    test_questions,
    test_review,
    test_sessions,
    test_shutdown,
    test_status_update,
    test_task_ledger,
    test_team_lifecycle,
)
from tests.surfaces.http.harness import Server

MODULES = (
    test_answers, test_claims, test_delivery, test_dependencies, test_guard, test_handoff, test_limits, test_mailbox,
    test_questions, test_review, test_sessions, test_shutdown, test_status_update, test_task_ledger,
    test_team_lifecycle,
)  # fmt: skip
LONG = (
    test_dependencies, test_guard, test_handoff, test_limits, test_shutdown, test_status_update, test_team_lifecycle,
)  # fmt: skip
"""What `make full` runs: its verbs are those of the others, in more cases."""
FIXTURES = {"home", "team"}
ELSEWHERE_NOT = {
    "test_what_stands_before_new_mail_in_other_hands_does_not_hide_it": "writes into the ledger itself",
    "test_a_new_team_has_its_directory_config_ledger_and_lead": "compares paths of the home",
    "test_a_deleted_team_leaves_no_directory": "looks into the directory of the home",
    "test_without_a_session_id_the_next_read_or_task_verb_acknowledges": "over HTTP nothing but `acknowledge` does",
    "test_changes_go_back_to_a_living_author_in_a_new_run": "no process of another machine is seen to live",
}
"""Bodies that are not run, and why."""


def bodies(module: ModuleType) -> Iterator[tuple[str, Callable[..., None]]]:
    """The tests of a module that need nothing but a home or a team, under names of their own."""
    for name, body in vars(module).items():
        if not name.startswith("test_") or not inspect.isfunction(body) or name in ELSEWHERE_NOT:
            continue
        marks = [mark.args[0] for mark in getattr(body, "pytestmark", ()) if mark.name == "parametrize"]
        cases = {one.strip() for names in marks for one in (names.split(",") if isinstance(names, str) else names)}
        if set(inspect.signature(body).parameters) - cases <= FIXTURES:
            made = FunctionType(body.__code__, body.__globals__, name, body.__defaults__, body.__closure__)
            made.__dict__.update(body.__dict__)
            made.__annotations__ = body.__annotations__
            yield (
                f"{name}__{module.__name__.rpartition('.test_')[2]}",
                pytest.mark.long(made) if module in LONG else made,
            )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("home"))
    yield made
    said = made.close()
    assert "Traceback" not in said, said


@pytest.fixture
def home(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home elsewhere, without teams. The bodies find the files of its machine, which no verb does."""
    place = property(lambda team: str(server.home / "teams" / team.name))
    monkeypatch.setattr(RemoteTeam, "directory", place)
    with interlock.connect(server.url, server.tokens.admin(), environment={}) as home:
        yield home
        for name in home.teams():
            home.delete_team(name, force=True)


@pytest.fixture
def team(home: Home) -> Team:
    """A team with a lead and the members ada and bob, seen by a human."""
    made = home.create_team("alpha-squad")
    made.spawn("ada")
    made.spawn("bob")
    return made


globals().update({name: body for module in MODULES for name, body in bodies(module)})


def test_what_is_not_run_is_there() -> None:
    known = {name for module in MODULES for name in vars(module)}
    assert set(ELSEWHERE_NOT) <= known
