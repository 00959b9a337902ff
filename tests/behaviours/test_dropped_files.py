"""Files that an agent lays into its run's directory by hand: recorded when found, applied when its session ends."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from interlock.app.team import Team
from interlock.clock import ManualClock, iso
from interlock.protocol.dropped import FILE_BYTES, adopt
from tests.behaviours.speech import claimed, completion, head, hops, since

AT = "2026-02-10T10:00:00.000Z"


def directory(team: Team, task: str) -> Path:
    """The directory of a task's run."""
    found = Path(team.directory) / "runs" / task
    found.mkdir(parents=True, exist_ok=True)
    return found


def drop(team: Team, task: str, content: Any, *, name: str = "run_result.json", at: float | None = None) -> Path:
    """Write a file there, as an agent would; `at` is its time of writing."""
    path = directory(team, task) / name
    path.unlink(missing_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    if at is not None:
        os.utime(path, (at, at))
    return path


def result(outcome: str, **fields: Any) -> dict[str, Any]:
    """A run result."""
    return {"outcome": outcome, "completedAt": AT, **fields}


def look(team: Team, task: str) -> None:
    """What a scheduler does when something changed there."""
    adopt(team._workspace, task)  # type: ignore[attr-defined]


@pytest.mark.req("AOF-59.07")
def test_the_end_of_a_session_applies_what_was_put_down(team: Team) -> None:
    task, before = claimed(team), head(team)
    drop(team, task, result("partial", notes="half", agentId="ada", taskId=task, mood="fine"))
    assert [one.as_dict() for one in team.session_end(by="ada")] == [
        {"task_id": task, "run_id": f"{task}.1", "outcome": "partial", "applied": True, "state": "review"}
    ]
    assert hops(team, before) == [("in-progress", "review")]
    recorded = team.run_result(task)
    assert recorded is not None and (recorded["notes"], recorded["mood"]) == ("half", "fine")


@pytest.mark.req("AOF-59.08")
@pytest.mark.parametrize("by", ["ada", "lead", "human"])
def test_without_a_result_the_end_of_a_session_leaves_no_trace(team: Team, by: str) -> None:
    claimed(team)
    before = head(team)
    assert team.session_end(by=by) == [] and since(team, before) == []


@pytest.mark.req("AOF-59.09")
def test_each_task_follows_its_own_outcome(team: Team) -> None:
    done, stopped, half, open_ = (claimed(team, review=review) for review in ("none", None, None, None))
    drop(team, done, result("done"))
    drop(team, stopped, result("blocked", blockers=["key"]))
    drop(team, half, result("needs_review"))
    assert len(team.session_end(by="ada")) == 3
    assert [team.task(task).state for task in (done, stopped, half, open_)] == [
        "done", "blocked", "review", "in-progress"
    ]  # fmt: skip
    before = head(team)
    assert team.session_end(by="ada") == [] and since(team, before) == []


def test_whose_results_are_applied_depends_on_who_ends(team: Team) -> None:
    first, second = claimed(team), claimed(team, "bob")
    for task in (first, second):
        drop(team, task, result("partial"))
    assert [one.task_id for one in team.session_end(by="bob")] == [second]
    assert [one.task_id for one in team.session_end(by="lead")] == [first]


def test_a_session_ends_only_its_own_runs(team: Team) -> None:
    one, two = team.acting("ada", session="one"), team.acting("ada", session="two")
    tasks = [team.create_task("Write").id, team.create_task("Test").id]
    one.claim(tasks[0])
    two.claim(tasks[1])
    for task in tasks:
        drop(team, task, result("partial"))
    assert [ended.task_id for ended in two.session_end()] == [tasks[1]]
    assert team.task(tasks[0]).state == "in-progress"


def test_done_is_verified_at_the_end_of_a_session(team: Team) -> None:
    passing, failing = (claimed(team, review="none", verify=command) for command in ("true", "false"))
    for task in (passing, failing):
        drop(team, task, result("done"))
    assert [ended.state for ended in team.session_end(by="ada")] == ["done", "in-progress"]
    before = head(team)
    assert team.session_end(by="ada") == [] and since(team, before) == []  # each content is applied once
    drop(team, failing, result("done", notes="mended"))
    assert [ended.task_id for ended in team.session_end(by="ada")] == [failing]


def test_a_missing_summary_warns_at_the_end_of_a_session_too(team: Team) -> None:
    task, before = claimed(team), head(team)
    drop(team, task, result("partial", summaryRef="outputs/none.md"))
    team.session_end(by="ada")
    reasons = [event.payload["reason"] for event in since(team, before, "protocol.message.warning")]
    assert reasons == ["summary_file_not_found"]


@pytest.mark.req("AOF-principles")
def test_finding_a_result_records_it_and_moves_nothing(team: Team) -> None:
    task, before = claimed(team), head(team)
    path = drop(team, task, result("done", notes="interim"))
    look(team, task)
    assert team.task(task).state == "in-progress" and hops(team, before) == []
    [event] = since(team, before, "run.reported")
    assert (event.payload["source"], event.payload["applied"]) == ("file", False)
    mirrored = json.loads(path.read_text())
    assert mirrored["runId"] == f"{task}.1" and mirrored["notes"] == "interim" and "digest" in mirrored
    [kept] = directory(team, task).glob("run_result.dropped-*.json")
    assert json.loads(kept.read_text()) == result("done", notes="interim")
    seq = head(team)
    look(team, task)
    assert head(team) == seq


def test_the_last_of_several_results_counts(team: Team) -> None:
    task = claimed(team)
    for number in range(3):
        drop(team, task, result("partial", notes=f"number {number}"))
        look(team, task)
        team.heartbeat(task, by="ada")
    drop(team, task, result("blocked", notes="the end"))
    team.heartbeat(task, by="ada")  # the mirror passes by before anybody has looked
    assert team.session_end(by="ada")[0].state == "blocked"
    found = team.run_result(task)
    assert found is not None and found["notes"] == "the end"
    kept = [json.loads(path.read_text())["notes"] for path in directory(team, task).glob("run_result.*-*.json")]
    assert sorted(kept) == ["number 0", "number 1", "number 2", "the end"]


@pytest.mark.parametrize(
    "content", ["{broken", "[]", '{"outcome": "done"}', '{"outcome": "finished", "completedAt": "now"}', "x" * 10,
                '{"outcome": "done", "completedAt": "' + AT + '", "notes": "\\ud800"}', " " * (FILE_BYTES + 1)]
)  # fmt: skip
def test_a_broken_file_is_told_once_and_stays(team: Team, content: str) -> None:
    task, before = claimed(team), head(team)
    path = drop(team, task, content)
    for _ in range(2):
        assert team.session_end(by="ada") == []
    [event] = since(team, before)
    assert event.type == "run.refused" and event.payload["reason"] == "malformed" and event.payload["errors"]
    assert event.payload["path"] == "run_result.json" and path.read_text() == content
    assert team.run_result(task) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"agentId": "bob"}, "unauthorized_agent"),
        ({"runId": "TASK-2026-02-09-001.7"}, "stale_run"),
        ({"taskId": "TASK-2026-02-09-999"}, "taskId_mismatch"),
    ],
)
def test_another_s_result_does_not_count(team: Team, fields: dict[str, str], reason: str) -> None:
    task, before = claimed(team), head(team)
    drop(team, task, result("done", **fields))
    for _ in range(2):
        assert team.session_end(by="ada") == []
    assert [event.payload["reason"] for event in since(team, before)] == [reason]
    assert team.run_result(task) is None


def test_a_new_run_never_inherits_what_the_old_one_left(team: Team) -> None:
    task = claimed(team)
    drop(team, task, result("done"))
    team.release(task, by="ada")
    team.claim(task, by="bob")
    assert not (directory(team, task) / "run_result.json").exists()
    aside = directory(team, task) / "attempts" / "1" / "run_result.json"
    assert json.loads(aside.read_text()) == result("done")
    assert team.session_end() == [] and team.task(task).state == "in-progress"


def test_a_file_from_before_the_run_does_not_count(timed: Team, clock: ManualClock) -> None:
    task, before = claimed(timed), head(timed)
    # Whatever it says about its own time: it was written before.
    drop(timed, task, result("done"), at=clock.now() - 60)
    assert timed.session_end(by="ada") == []
    assert [event.payload["reason"] for event in since(timed, before)] == ["stale_run"]
    drop(timed, task, result("partial"), at=clock.now())
    assert len(timed.session_end(by="ada")) == 1


def test_a_file_that_names_the_run_counts_whatever_its_time(timed: Team, clock: ManualClock) -> None:
    task = claimed(timed)
    drop(timed, task, result("partial", runId=f"{task}.1"), at=clock.now() - 60)
    assert len(timed.session_end(by="ada")) == 1


def test_a_link_or_a_directory_is_no_result(team: Team, tmp_path: Path) -> None:
    task, before = claimed(team), head(team)
    (tmp_path / "elsewhere.json").write_text(json.dumps(result("done")))
    (directory(team, task) / "run_result.json").symlink_to(tmp_path / "elsewhere.json")
    (directory(team, task) / "run_heartbeat.json").mkdir()
    os.mkfifo(directory(team, task) / "run_result.pipe.json")
    assert team.session_end(by="ada") == [] and since(team, before) == []


def test_a_report_does_not_overwrite_what_the_agent_laid_there(team: Team) -> None:
    task = claimed(team)
    drop(team, task, result("done", notes="by hand"))
    team.protocol(completion(task, "partial", notes="by message"), by="ada")
    assert json.loads((directory(team, task) / "run_result.json").read_text())["notes"] == "by message"
    texts = [path.read_text() for path in directory(team, task).glob("run_result.*.json")]
    assert any("by hand" in text for text in texts)


def test_a_dropped_heartbeat_renews_the_lease(timed: Team, clock: ManualClock) -> None:
    task = claimed(timed)
    path = drop(
        timed, task, {"expiresAt": iso(clock.now() + 120), "agentId": "ada", "beatCount": 4}, name="run_heartbeat.json",
        at=clock.now(),
    )  # fmt: skip
    look(timed, task)
    [run] = timed.runs(task)
    assert (run.heartbeat_at, run.expires_at) == (iso(clock.now()), iso(clock.now() + 120))
    assert json.loads(path.read_text())["expiresAt"] == run.expires_at


def test_a_dropped_heartbeat_may_say_that_its_run_is_stale(timed: Team, clock: ManualClock) -> None:
    task = claimed(timed)
    drop(timed, task, {"expiresAt": iso(clock.now() - 300)}, name="run_heartbeat.json", at=clock.now())
    look(timed, task)
    assert timed.runs(task)[0].expires_at == iso(clock.now() - 300)


@pytest.mark.req("AOF-61.01")
def test_a_heartbeat_file_that_was_set_back_after_a_heartbeat_says_that_its_run_is_stale(
    timed: Team, clock: ManualClock
) -> None:
    task = claimed(timed)
    timed.heartbeat(task, by="ada")
    path = directory(timed, task) / "run_heartbeat.json"
    beat = json.loads(path.read_text())
    clock.advance(1)
    drop(timed, task, {**beat, "expiresAt": "2026-02-10T10:00:00.000Z"}, name=path.name, at=clock.now())
    assert [(action.type, action.task_id) for action in timed.poll().actions] == [("stale_heartbeat", task)]
    assert timed.task(task).state == "ready"


def test_a_heartbeat_file_older_than_the_last_heartbeat_makes_no_lease_shorter(timed: Team, clock: ManualClock) -> None:
    task = claimed(timed)
    written = clock.now()
    clock.advance(1)
    timed.heartbeat(task, by="ada")
    drop(timed, task, {"expiresAt": iso(written)}, name="run_heartbeat.json", at=written)
    assert timed.poll().actions == [] and timed.task(task).state == "in-progress"


def test_a_run_whose_heartbeats_last_for_seconds_lives_while_they_come(timed: Team, clock: ManualClock) -> None:
    task = claimed(timed)
    for _ in range(5):
        drop(timed, task, {"expiresAt": iso(clock.now() + 2)}, name="run_heartbeat.json", at=clock.now())
        assert timed.poll().actions == []
        clock.advance(3)
    [action] = timed.poll().actions
    assert action.type == "stale_heartbeat"


def test_a_heartbeat_holds_a_lease_no_longer_than_one_of_ours(timed: Team, clock: ManualClock) -> None:
    task = claimed(timed)
    drop(timed, task, {"expiresAt": "9999-12-31T23:59:59.000Z"}, name="run_heartbeat.json", at=clock.now())
    look(timed, task)
    assert timed.runs(task)[0].expires_at == iso(clock.now() + 300)


def test_many_heartbeats_are_few_commits(timed: Team, clock: ManualClock) -> None:
    task = claimed(timed)
    before = head(timed)
    for beat in range(60):
        expires = {"expiresAt": iso(clock.now() + 120), "beatCount": beat}
        drop(timed, task, expires, name="run_heartbeat.json", at=clock.now())
        look(timed, task)
        clock.advance(1)
    assert 2 <= len(since(timed, before)) <= 3
    assert len(list(directory(timed, task).glob("run_heartbeat*"))) <= 2
