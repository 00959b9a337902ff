"""A completion report: recorded as the run's result, and applied to the task (TASK-059, and what repeats)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from tests.behaviours.speech import claimed, completion, head, hops, since, update


def result_file(team: Team, task: str) -> dict[str, object]:
    """What `run_result.json` says."""
    found = json.loads((Path(team.directory) / "runs" / task / "run_result.json").read_text())
    assert isinstance(found, dict)
    return found


@pytest.mark.req("AOF-59.01", "AOF-57.21")
def test_done_goes_to_review(team: Team) -> None:
    task, before = claimed(team), head(team)
    assert team.protocol(completion(task, "done", notes="all of it"), by="ada").state == "review"
    assert result_file(team, task)["outcome"] == "done"
    assert hops(team, before) == [("in-progress", "review")]
    assert [event.payload["outcome"] for event in since(team, before, "task.completed")] == ["done"]
    [question] = team.questions()
    assert (question.task_id, question.kind) == (task, "review")
    assert team.task(task).output == "all of it"


@pytest.mark.req("AOF-59.02")
@pytest.mark.parametrize("fields", [{"metadata": {"reviewRequired": False}}, {"review": "none"}])
def test_done_goes_through_review_where_none_is_required(team: Team, fields: dict[str, object]) -> None:
    task, before = claimed(team, **fields), head(team)
    assert team.protocol(completion(task, "done"), by="ada").state == "done"
    assert hops(team, before) == [("in-progress", "review"), ("review", "done")]
    assert result_file(team, task)["outcome"] == "done" and team.questions() == []


def test_done_goes_to_the_member_that_reviews(team: Team) -> None:
    task = claimed(team, review="bob")
    assert team.protocol(completion(task, "done"), by="ada").state == "review"
    assert team.questions() == [] and [message.type for message in team.read("bob")] == ["task_assignment"]
    assert team.approve(task, by="bob").state == "done"


def test_dependents_become_ready_when_a_report_ends_a_task(team: Team) -> None:
    task = claimed(team, review="none")
    waiting = team.create_task("Then this", blocked_by=[task])
    team.protocol(completion(task, "done"), by="ada")
    assert team.task(waiting.id).state == "ready"


@pytest.mark.req("AOF-59.03")
def test_blocked_stops_with_its_blockers_as_the_reason(team: Team) -> None:
    task, before = claimed(team), head(team)
    answer = team.protocol(completion(task, "blocked", blockers=["API key needed", "no docs"]), by="ada")
    assert answer.state == "blocked"
    [hop] = since(team, before, "task.transitioned")
    assert hop.payload["to"] == "blocked" and "API key needed; no docs" in hop.payload["reason"]
    assert [event.payload["outcome"] for event in since(team, before, "task.completed")] == ["blocked"]
    assert result_file(team, task)["blockers"] == ["API key needed", "no docs"]


@pytest.mark.req("AOF-59.04", "AOF-59.05")
@pytest.mark.parametrize("outcome", ["needs_review", "partial"])
@pytest.mark.parametrize("review", [None, "none", "human"])
def test_less_than_done_goes_to_review_whatever_the_task_says(team: Team, outcome: str, review: str | None) -> None:
    task, before = claimed(team, review=review), head(team)
    assert team.protocol(completion(task, outcome, notes="50% complete"), by="ada").state == "review"
    assert hops(team, before) == [("in-progress", "review")]
    assert [event.payload["outcome"] for event in since(team, before, "task.completed")] == [outcome]
    assert [question.task_id for question in team.questions()] == [task]
    assert "50% complete" in team.work_log(task)[-1][2] and result_file(team, task)["notes"] == "50% complete"


@pytest.mark.req("AOF-59.06", "AOF-X.01")
def test_a_repeated_report_changes_nothing_more(team: Team) -> None:
    task = claimed(team)
    assert team.protocol(completion(task, "partial"), by="ada").applied
    before, file = head(team), result_file(team, task)
    for _ in range(2):
        answer = team.protocol(completion(task, "partial"), by="ada")
        assert answer.accepted and not answer.applied and answer.state == "review"
    assert hops(team, before) == [] and result_file(team, task) == file
    types = [event.type for event in since(team, before)]
    assert types == ["protocol.message.received", "run.reported", "task.completed"] * 2
    assert len(team.questions()) == 1


@pytest.mark.req("AOF-X.04")
@pytest.mark.parametrize("outcome", ["partial", "blocked", "needs_review"])
def test_what_the_state_does_not_allow_is_passed_over(team: Team, outcome: str) -> None:
    task = claimed(team, review="none")
    team.protocol(completion(task, "done"), by="ada")
    before = head(team)
    answer = team.protocol(completion(task, outcome), by="ada")
    assert answer.accepted and not answer.applied
    assert team.task(task).state == "done" and hops(team, before) == []


def test_after_a_part_comes_the_whole(team: Team) -> None:
    task = claimed(team, review="none")
    team.protocol(completion(task, "partial"), by="ada")
    before = head(team)
    assert team.protocol(completion(task, "done"), by="ada").state == "done"
    assert hops(team, before) == [("review", "done")] and team.questions() == []


@pytest.mark.req("AOF-57.22", "AOF-57.24")
def test_the_result_reads_as_it_was_reported(team: Team) -> None:
    task = claimed(team)
    tests = {"total": 10, "passed": 8, "failed": 2}
    said = {"deliverables": ["src/foo.ts", "src/bar.ts"], "blockers": ["API key needed"], "tests": tests,
            "notes": "Partial completion due to blocker", "cost": {"usd": 1.5}}  # fmt: skip
    team.protocol(completion(task, "partial", **said), by="ada")
    whole = {"taskId": task, "runId": f"{task}.1", "agentId": "ada", "completedAt": "2026-02-10T10:00:00.000Z",
             "outcome": "partial", **said}  # fmt: skip
    assert team.run_result(task) == whole
    assert {name: value for name, value in result_file(team, task).items() if name != "digest"} == whole


@pytest.mark.req("AOF-57.23")
def test_without_a_report_there_is_no_result(team: Team) -> None:
    task = claimed(team)
    assert team.run_result(task) is None
    assert not (Path(team.directory) / "runs" / task / "run_result.json").exists()


@pytest.mark.req("AOF-X.05")
@pytest.mark.parametrize(
    ("reference", "reason"),
    [("outputs/summary.md", "summary_file_not_found"), ("../secret.md", "summary_outside_workdir"),
     ("/etc/passwd", "summary_outside_workdir"), ("link/passwd", "summary_file_not_found")],
)  # fmt: skip
def test_a_missing_summary_only_warns(home: Home, tmp_path: Path, reference: str, reason: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to("/etc")
    (tmp_path / "secret.md").write_text("x")
    team = home.create_team("alpha", workdir=str(tmp_path / "work"))
    team.spawn("ada")
    task, before = claimed(team), head(team)
    assert team.protocol(completion(task, "partial", summaryRef=reference), by="ada").state == "review"
    [event] = since(team, before, "protocol.message.warning")
    assert (event.payload["reason"], event.payload["path"]) == (reason, reference)


@pytest.mark.parametrize("beside", [False, True])
def test_a_summary_that_is_there_does_not_warn(home: Home, tmp_path: Path, beside: bool) -> None:
    (tmp_path / "work").mkdir()
    team = home.create_team("alpha", workdir=str(tmp_path / "work"))
    team.spawn("ada")
    task = claimed(team)
    base = Path(team.directory) / "tasks" / "in-progress" / task if beside else tmp_path / "work"
    (base / "outputs").mkdir(parents=True)
    (base / "outputs" / "summary.md").write_text("All of it.")
    before = head(team)
    team.protocol(completion(task, "partial", summaryRef="outputs/summary.md"), by="ada")
    assert since(team, before, "protocol.message.warning") == []


@pytest.mark.parametrize(("command", "state"), [("true", "done"), ("false", "in-progress")])
def test_done_is_verified_where_the_task_has_a_check(team: Team, command: str, state: str) -> None:
    task = claimed(team, review="none", verify=command)
    assert team.protocol(completion(task, "done"), by="ada").state == state
    found = team.task(task)
    assert found.state == state and found.check is not None and found.check["passed"] is (state == "done")


def test_a_verified_report_goes_on_to_its_review(team: Team) -> None:
    task = claimed(team, verify="true")
    assert team.protocol(completion(task, "done"), by="ada").state == "review"
    found = team.task(task)
    assert found.check is not None and found.check["passed"] and found.verifying is None
    assert [question.task_id for question in team.questions()] == [task]


def test_a_part_that_becomes_whole_is_verified_too(team: Team) -> None:
    task = claimed(team, review="none", verify="false")
    team.protocol(completion(task, "partial"), by="ada")
    assert team.protocol(completion(task, "done"), by="ada").state == "in-progress"
    run = team.runs(task)[-1]
    assert run.ended_at is None and team.heartbeat(task, by="ada").number == run.number


def test_a_report_by_mail_is_verified_by_its_sender(team: Team) -> None:
    task = claimed(team, review="none", verify="true")
    team.send("ada", to="lead", content=json.dumps(completion(task, "done")))
    assert team.task(task).state == "done"


def test_a_task_that_nobody_holds_takes_any_sender_but_no_review(team: Team) -> None:
    task = team.create_task("Write the parser").id
    answer = team.protocol(completion(task, "done", by="stranger"))
    assert answer.accepted and not answer.applied and answer.state == "ready"
    assert team.protocol(completion(task, "blocked", by="stranger", blockers=["no access"])).state == "blocked"
    assert team.unblock(task).state == "ready"


def test_the_result_of_an_attempt_stays_with_it(team: Team) -> None:
    task = claimed(team)
    team.protocol(completion(task, "partial", notes="first"), by="ada")
    team.reject(task, reason="go on")
    team.claim(task, by="ada")
    assert team.run_result(task) is None
    assert not (Path(team.directory) / "runs" / task / "run_result.json").exists()
    aside = Path(team.directory) / "runs" / task / "attempts" / "1" / "run_result.json"
    assert json.loads(aside.read_text())["notes"] == "first"
    team.protocol(completion(task, "partial", notes="second"), by="ada")
    assert result_file(team, task)["notes"] == "second" and json.loads(aside.read_text())["notes"] == "first"


def test_files_are_those_of_the_ledger_after_a_rebuild(team: Team) -> None:
    task = claimed(team)
    team.protocol(completion(task, "partial", notes="x"), by="ada")
    path = Path(team.directory) / "runs" / task / "run_result.json"
    before = path.read_bytes()
    path.unlink()
    team._workspace.rebuild_mirror()  # type: ignore[attr-defined]
    assert path.read_bytes() == before


@pytest.mark.req("AOF-X.01")
def test_the_very_same_report_moves_its_task_once_also_when_the_task_has_come_back(team: Team) -> None:
    task = claimed(team)
    report = completion(task, "blocked", notes="no key")
    assert team.protocol(report, by="ada").applied
    team.unblock(task, by="ada")
    before = head(team)
    late = team.protocol(report, by="ada")
    assert (late.accepted, late.applied, late.state) == (True, False, "in-progress")
    assert hops(team, before) == [] and len(since(team, before, "task.completed")) == 1
    again = {**report, "sentAt": "2026-02-10T11:00:00.000Z"}
    assert team.protocol(again, by="ada").applied, "said again, it is another report"


def test_a_task_that_goes_on_from_where_its_run_had_ended_has_an_open_run(team: Team) -> None:
    task = claimed(team, verify="false", review="none")
    team.protocol(completion(task, "needs_review"), by="ada")
    team.protocol(update(task, status="blocked"), by="ada")
    team.unblock(task, by="ada")
    assert team.runs(task)[0].ended_at is None
    team.protocol(completion(task, "partial"), by="ada")
    team.protocol(update(task, status="blocked"), by="ada")
    team.protocol(completion(task, "done"), by="ada")
    assert team.task(task).state == "in-progress", "its check failed"
    assert team.runs(task)[0].ended_at is None
