"""One durable commit per verb, two where mail is handed over, and no file but those the contract names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from interlock.app.team import Team
from tests.behaviours.costs import Costs


@pytest.fixture
def costs(team: Team) -> Iterator[Costs]:
    found = Costs(team.directory)
    yield found
    found.close()


@pytest.fixture
def held(team: Team) -> str:
    """A task that ada holds, with one that waits for it."""
    task = team.create_task("Write it").id
    team.create_task("Test it", blocked_by=[task])
    team.claim(task, by="ada")
    return task


def task_id(team: Team, number: str) -> str:
    return team.task(number).id


def test_creating_a_task_writes_its_file(team: Team, costs: Costs) -> None:
    commits, files = costs.of(lambda: team.create_task("Write it"))
    assert commits == 1
    assert files == {f"tasks/ready/{task_id(team, '001')}.md"}


def test_claiming_moves_the_file_and_begins_a_run(team: Team, costs: Costs) -> None:
    task = team.create_task("Write it").id
    commits, files = costs.of(lambda: team.claim(task, by="ada"))
    assert commits == 1
    assert files == {f"tasks/ready/{task}.md", f"tasks/in-progress/{task}.md", f"runs/{task}/run.json"}


def test_completing_also_moves_whom_it_unblocks(team: Team, costs: Costs, held: str) -> None:
    freed = task_id(team, "002")
    commits, files = costs.of(lambda: team.complete(held, by="ada", summary="It parses"))
    assert commits == 1
    assert files == {
        f"tasks/in-progress/{held}.md",
        f"tasks/done/{held}.md",
        f"runs/{held}/run.json",
        f"tasks/backlog/{freed}.md",
        f"tasks/ready/{freed}.md",
    }


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        (lambda team, task: team.update(task, log="Half of it", by="ada"), None),
        (lambda team, task: team.update(task, body="More of it", by="ada"), None),
        (lambda team, task: team.update(task, status="completed", by="ada"), "done"),
        (lambda team, task: team.release(task, by="ada"), "ready"),
        (lambda team, task: team.block(task, reason="No key", by="ada"), "blocked"),
        (lambda team, task: team.cancel(task), "cancelled"),
        (lambda team, task: team.delete(task), "deleted"),
        (lambda team, task: team.assign(task, to=None), "ready"),
        (lambda team, task: team.heartbeat(task, by="ada"), None),
        (lambda team, task: team.depend(task, on=team.tasks(status="backlog")[0].id, remove=True), None),
    ],
)
def test_a_task_verb_is_one_commit(
    team: Team, costs: Costs, held: str, verb: Callable[[Team, str], Any], state: str | None
) -> None:
    commits, files = costs.of(lambda: verb(team, held))
    assert commits == 1
    waiting = task_id(team, "002")
    mine = {f"tasks/{one}/{held}.md" for one in ("in-progress", state or "in-progress")}
    runs = {f"runs/{held}/run.json", f"runs/{held}/run_heartbeat.json"}
    others = {f"tasks/{one}/{waiting}.md" for one in ("backlog", "ready")} | {"inbox/ada/messages.jsonl"}
    assert files <= mine | runs | others
    if state is not None:
        assert mine <= files


def test_a_send_appends_to_one_inbox(team: Team, costs: Costs) -> None:
    team.send("lead", to="bob", content="First")
    commits, files = costs.of(lambda: team.send("lead", to="bob", content="Second"))
    assert (commits, files) == (1, {"inbox/bob/messages.jsonl"})


def test_a_broadcast_is_one_commit_too(team: Team, costs: Costs) -> None:
    commits, files = costs.of(lambda: team.broadcast("lead", content="Stop"))
    assert (commits, files) == (1, {"inbox/ada/messages.jsonl", "inbox/bob/messages.jsonl"})


@pytest.mark.parametrize("how", [{}, {"inject": True}, {"wait": 5.0}], ids=["read", "inject", "wait"])
def test_handing_mail_over_is_two_commits(team: Team, costs: Costs, how: dict[str, Any]) -> None:
    team.send("lead", to="bob", content="Look")

    def hand_over() -> None:
        with team.mail(by="bob", **how) as mail:
            assert len(mail.messages) == 1

    assert costs.of(hand_over) == (2, {"inbox/bob/messages.jsonl"})


def test_an_empty_inbox_costs_one_commit_at_most(team: Team, costs: Costs) -> None:
    team.read(by="bob")
    commits, files = costs.of(lambda: team.read(by="bob"))
    assert commits <= 1
    assert not files


def test_members_and_settings_are_in_one_file(team: Team, costs: Costs) -> None:
    assert costs.of(lambda: team.spawn("carol")) == (1, {"config.json"})
    assert costs.of(lambda: team.configure({"parallel": 5})) == (1, {"config.json"})
    assert costs.of(lambda: team.remove("carol")) == (1, {"config.json"})


def test_reading_costs_nothing(team: Team, costs: Costs, held: str) -> None:
    def read() -> None:
        team.task(held)
        team.tasks()
        team.members()
        team.history()
        team.events()
        team.questions()
        team.status()
        team.report()
        team.describe()
        team.graph()

    assert costs.of(read) == (0, set())


def test_what_a_session_does_first_needs_no_commit_of_its_own(team: Team, costs: Costs) -> None:
    task = team.create_task("Write it").id
    fresh = team.acting("bob", session="s-1")
    assert costs.of(lambda: fresh.claim(task))[0] == 1
    assert costs.of(fresh.end_session) == (1, set())


def test_without_the_mirror_no_file_is_written(team: Team, costs: Costs) -> None:
    team.configure({"mirror": False})
    assert costs.of(lambda: team.create_task("Write it", assignee="bob")) == (1, set())


def test_a_read_of_files_that_are_up_to_date_is_one_snapshot(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace: Any = team._workspace  # type: ignore[attr-defined]
    team.tasks()
    taken: list[int] = []
    snapshot = workspace.ledger.snapshot
    monkeypatch.setattr(type(workspace.ledger), "snapshot", lambda self: taken.append(1) or snapshot())
    assert team.tasks() == []
    assert len(taken) == 1
