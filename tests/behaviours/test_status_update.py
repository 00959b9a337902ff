"""A status update: a line in the Work Log, and a step forward where it names one (AOF-59.16 to 22)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.team import Team
from tests.behaviours.speech import claimed, completion, head, hops, since, update


def task_file(team: Team, task: str) -> str:
    """The text of a task's file."""
    [path] = Path(team.directory).glob(f"tasks/*/{task}.md")
    return path.read_text()


@pytest.mark.req("AOF-59.16")
def test_a_status_takes_the_task_there_with_its_blockers_as_the_reason(team: Team) -> None:
    task, before = claimed(team), head(team)
    answer = team.protocol(update(task, status="blocked", blockers=["Waiting on dependency"]), by="ada")
    assert answer.applied and answer.state == "blocked"
    [hop] = since(team, before, "task.transitioned")
    assert hop.payload["to"] == "blocked" and "Waiting on dependency" in hop.payload["reason"]
    assert [text for _, _, text in team.work_log(task)] == ["Blockers: Waiting on dependency"]


@pytest.mark.req("AOF-59.17", "AOF-59.18", "AOF-59.19")
@pytest.mark.parametrize(
    ("said", "line"),
    [
        ({"progress": "75% complete, on track"}, "Progress: 75% complete, on track"),
        ({"notes": "Encountered minor issue, resolved"}, "Notes: Encountered minor issue, resolved"),
        ({"blockers": ["API rate limit", "Test flake"]}, "Blockers: API rate limit, Test flake"),
        ({"progress": "a", "notes": "b", "blockers": ["c", "d"]}, "Progress: a | Notes: b | Blockers: c, d"),
    ],
)
def test_without_a_status_it_is_only_logged(team: Team, said: dict[str, object], line: str) -> None:
    task, before = claimed(team), head(team)
    assert team.protocol(update(task, **said), by="ada").state == "in-progress"
    assert hops(team, before) == []
    [(at, author, text)] = team.work_log(task)
    assert (author, text) == ("ada", line)
    assert f"- {at} ada: {line}" in task_file(team, task)


@pytest.mark.req("AOF-59.20")
def test_the_first_entry_makes_the_work_log(team: Team) -> None:
    task = claimed(team, body="Read the grammar first.")
    assert "## Work Log" not in task_file(team, task)
    team.protocol(update(task, progress="Initial work started"), by="ada")
    text = task_file(team, task)
    assert text.index("Read the grammar first.") < text.index("## Work Log") < text.index("Initial work started")


@pytest.mark.req("AOF-59.21")
def test_further_entries_join_the_one_work_log(team: Team) -> None:
    task = claimed(team, body="Text.\n\n## Work Log\n\n- begun by hand\n\n## Links\n\nnone")
    for text in ("first", "second"):
        team.protocol(update(task, notes=text), by="ada")
    text = task_file(team, task)
    assert text.count("## Work Log") == 1
    places = [text.index(part) for part in ("begun by hand", "Notes: first", "Notes: second", "## Links")]
    assert places == sorted(places)


@pytest.mark.req("AOF-59.22")
def test_in_the_target_state_it_is_only_logged(team: Team) -> None:
    task = claimed(team)
    team.protocol(update(task, status="blocked", blockers=["a"]), by="ada")
    before = head(team)
    answer = team.protocol(update(task, status="blocked", progress="asked again"), by="ada")
    assert answer.accepted and hops(team, before) == []
    assert team.work_log(task)[-1][2] == "Progress: asked again"
    assert not team.protocol(update(task, status="blocked"), by="ada").applied


def test_an_empty_list_of_blockers_says_nothing(team: Team) -> None:
    task = claimed(team)
    answer = team.protocol(update(task, blockers=[]), by="ada")
    assert answer.accepted and not answer.applied and team.work_log(task) == []


def test_an_agent_finds_its_own_way_out(team: Team) -> None:
    task = claimed(team)
    team.protocol(update(task, status="blocked", blockers=["a"]), by="ada")
    assert team.protocol(update(task, status="in-progress", notes="found it"), by="ada").state == "in-progress"
    assert team.complete(task, by="ada").state == "done"


def test_review_has_somebody_who_reviews(team: Team) -> None:
    task = claimed(team, review="none")
    assert team.protocol(update(task, status="review", notes="look"), by="ada").state == "review"
    assert [question.task_id for question in team.questions()] == [task]


def test_a_ready_task_is_claimed_by_who_begins_it(team: Team) -> None:
    task = team.create_task("Write the parser").id
    assert team.protocol(update(task, status="in-progress"), by="ada").state == "in-progress"
    found = team.task(task)
    assert found.owner == "ada" and len(team.runs(task)) == 1


def test_a_task_that_cannot_be_claimed_is_not_begun(team: Team) -> None:
    first = team.create_task("First").id
    task = team.create_task("Then", blocked_by=[first]).id
    answer = team.protocol(update(task, status="in-progress", notes="begun"), by="ada")
    assert answer.reason == "unmet_dependencies" and team.task(task).state == "backlog"
    assert team.work_log(task) == []


@pytest.mark.parametrize("status", ["done", "ready", "backlog", "cancelled", "deadletter", "pending", "nonsense", ""])
def test_no_other_status_may_be_named(team: Team, status: str) -> None:
    task, before = claimed(team), head(team)
    answer = team.protocol(update(task, status=status, notes="x"), by="ada")
    assert answer.reason == "invalid_transition" and answer.errors[0].path == "payload.status"
    assert hops(team, before) == [] and team.work_log(task) == []


def test_a_step_back_is_none(team: Team) -> None:
    task = claimed(team)
    team.protocol(completion(task, "partial"), by="ada")
    assert team.protocol(update(task, status="in-progress"), by="ada").reason == "invalid_transition"
    assert team.task(task).state == "review"


def test_the_payload_is_about_the_task_of_the_envelope(team: Team) -> None:
    task, other = claimed(team), claimed(team)
    answer = team.protocol({**update(task, notes="x"), "payload": {"taskId": other, "notes": "x"}}, by="ada")
    assert answer.reason == "taskId_mismatch" and team.work_log(task) == team.work_log(other) == []
