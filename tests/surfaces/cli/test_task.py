"""`interlock task`."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.cli.conftest import Interlock

Create = Callable[..., str]

KEYS = (
    "id subject body state status owner assignee type priority review verify evidence blocked_by blocks warnings "
    "parent_id group_id project_id run_id attempt metadata question output context created_at updated_at claimed_at "
    "completed_at"
).split()


@pytest.mark.req("TEAM-2.1", "CORE-KE.2")
def test_a_task_has_everything_the_contract_names(interlock: Interlock, team: str) -> None:
    answer = interlock(
        *("--json", "task", "create", "Write the parser", "--body", "-", "--priority", "high"),
        *("--type", "IMPLEMENTATION", "--assignee", "tester", "--review", "human", "--verify", "true"),
        input="From a file\nof two lines\n",
    )
    assert set(KEYS) <= set(answer.json)
    shown = interlock("--json", "task", "show", "001").json
    assert shown["body"] == "From a file\nof two lines"
    assert (shown["state"], shown["status"], shown["assignee"]) == ("ready", "pending", "tester")
    assert (shown["priority"], shown["type"], shown["review"]) == ("high", "IMPLEMENTATION", "human")


def test_what_steers_a_task_can_be_said_when_it_is_created(interlock: Interlock, team: str) -> None:
    made = interlock(
        *("--json", "task", "create", "Steered", "--env", "HOME,LANG", "--env", "TERM", "--timeout", "90"),
        *("--retries", "0", "--limits", '{"turns": 5}', "--metadata", '{"ticket": 7}'),
    ).json
    assert (made["env"], made["timeout"], made["retries"]) == (["HOME", "LANG", "TERM"], 90.0, 0)
    assert (made["limits"], made["metadata"]) == ({"turns": 5}, {"ticket": 7})
    edited = interlock("--json", "task", "update", "001", "--limits", "", "--metadata", "", "--env", "").json
    assert (edited["env"], edited["limits"], edited["metadata"], edited["retries"]) == (None, None, {}, 0)
    wrong = interlock("task", "create", "Steered", "--limits", "5")
    assert wrong.code == 1 and "limits must be a JSON object" in wrong.err


@pytest.mark.req("TEAM-2.2", "CORE-FR-009")
@pytest.mark.parametrize("options", [["--blocked-by", "001", "002"], ["--blocked-by", "001,002"],
                                     ["--blocked-by", "001", "--blocked-by", "002"]])  # fmt: skip
def test_a_task_may_wait_for_several(interlock: Interlock, task: Create, options: list[str]) -> None:
    first, second = task("first"), task("second")
    third = task("third", *options)
    shown = interlock("--json", "task", "show", third).json
    assert (shown["state"], shown["status"], shown["blocked_by"]) == ("backlog", "pending", [first, second])
    assert interlock("--json", "task", "show", first).json["blocks"] == [third]


def test_a_subject_without_quotes_is_wrong_usage(interlock: Interlock, team: str) -> None:
    answer = interlock("task", "create", "Write", "the", "parser")
    assert answer.code == 2
    assert "'Write the parser'" in answer.err


@pytest.mark.req("TEAM-2.3")
def test_tasks_are_listed_by_status_state_owner_and_readiness(interlock: Interlock, task: Create) -> None:
    ready, waiting, taken = task("ready"), task("waits", "--blocked-by", "001"), task("taken")
    interlock("task", "claim", taken, "--as", "tester")

    def ids(*options: str) -> list[str]:
        return [one["id"] for one in interlock("--json", "task", "list", *options).json["tasks"]]

    assert ids() == [ready, waiting, taken]
    assert ids("--status", "pending") == [ready, waiting]
    assert ids("--status", "backlog") == [waiting]
    assert ids("--status", "in_progress") == ids("--owner", "tester") == [taken]
    assert ids("--ready") == [ready]
    assert ids("--limit", "1") == [ready]


@pytest.mark.req("TEAM-2.4", "TEAM-2.status")
def test_a_claim_sets_owner_state_and_time(interlock: Interlock, task: Create) -> None:
    claimed = interlock("--json", "task", "claim", task("T1"), "--as", "researcher").json
    assert (claimed["status"], claimed["owner"]) == ("in_progress", "researcher")
    assert claimed["claimed_at"] is not None


@pytest.mark.req("TEAM-2.5")
def test_a_claimed_task_is_refused_to_others(interlock: Interlock, task: Create) -> None:
    interlock("task", "claim", task("T1"), "--as", "tester")
    answer = interlock("--json", "task", "claim", "001", "--as", "researcher")
    assert answer.code == 1
    assert answer.error["error"] == "task_already_claimed"
    assert "Task already claimed by another agent" in answer.error["message"]


@pytest.mark.req("TEAM-2.6")
def test_a_task_with_open_blockers_is_refused(interlock: Interlock, task: Create) -> None:
    blocker = task("T1")
    task("T2", "--blocked-by", blocker)
    answer = interlock("--json", "task", "claim", "002", "--as", "researcher")
    assert answer.error["error"] == "unmet_dependencies"
    assert "Task has unmet dependencies" in answer.error["message"]
    assert answer.error["blocked_by"] == [blocker]


@pytest.mark.req("CORE-FR-013", "CORE-P4.1", "CORE-P4.2", "CORE-SC.4")
def test_a_forced_or_soft_claim_succeeds_with_a_warning_that_stays_until_the_blocker_is_done(
    interlock: Interlock, task: Create
) -> None:
    blocker = task("T1")
    task("T2", "--blocked-by", blocker)
    forced = interlock("task", "claim", "002", "--as", "researcher", "--force")
    assert forced.code == 0
    assert f"warning: Claimed with unmet dependencies: {blocker}" in forced.err
    assert blocker in interlock("--json", "task", "show", "002").json["warnings"][0]
    interlock("config", "set", "claim_policy", "soft", "--team", "alpha-squad")
    task("T3", "--blocked-by", blocker)
    assert interlock("--json", "task", "claim", "003", "--as", "tester").json["warnings"]
    interlock("task", "claim", "001", "--as", "lead")
    interlock("task", "complete", "001", "--as", "lead")
    assert interlock("--json", "task", "show", "002").json["warnings"] == []


@pytest.mark.req("TEAM-2.7", "TEAM-2.8", "CORE-FR-010", "CORE-P3.1", "CORE-P3.2", "TEAM-4.4")
def test_completing_a_task_unblocks_what_waits_for_it(interlock: Interlock, task: Create) -> None:
    first = task("T1")
    second = task("T2", "--blocked-by", first)
    third = task("T3", "--blocked-by", second)
    for here, onward in ((first, second), (second, third)):
        assert interlock("task", "claim", here, "--as", "tester").code == 0
        done = interlock("--json", "task", "complete", here, "--as", "tester", "--summary", "-", input="all of it\n")
        assert (done.code, done.json["status"], done.json["output"]) == (0, "completed", "all of it")
        shown = interlock("--json", "task", "show", onward).json
        assert (shown["blocked_by"], shown["state"]) == ([], "ready")


@pytest.mark.req("TEAM-2.9")
def test_a_deleted_task_is_out_of_sight(interlock: Interlock, task: Create) -> None:
    gone = task("T1")
    task("T2", "--blocked-by", gone)
    answer = interlock("task", "delete", gone)
    assert answer.code == 0 and "002 still waits for it" in answer.err
    assert [one["subject"] for one in interlock("--json", "task", "list").json["tasks"]] == ["T2"]
    assert interlock("--json", "task", "list", "--status", "deleted").json["tasks"][0]["id"] == gone


@pytest.mark.req("TEAM-2.10", "CORE-FR-012", "CORE-SC.5")
def test_a_circle_is_refused_and_shown(interlock: Interlock, task: Create) -> None:
    first = task("T1")
    second = task("T2", "--blocked-by", first)
    answer = interlock("--json", "task", "depend", first, "--on", second)
    assert answer.error["error"] == "dependency_cycle"
    assert first in answer.error["cycle"] and second in answer.error["cycle"]
    removed = interlock("--json", "task", "depend", second, "--on", first, "--remove")
    assert removed.json["blocked_by"] == []
    assert interlock("task", "depend", first, "--on", second).code == 0


@pytest.mark.req("CORE-FR-011", "CORE-EC.6")
def test_a_status_goes_forward_only(interlock: Interlock, task: Create) -> None:
    task("T1")
    forward = interlock("--json", "task", "update", "001", "--status", "in_progress", "--as", "tester")
    assert forward.json["owner"] == "tester"
    back = interlock("--json", "task", "update", "001", "--status", "pending", "--as", "tester")
    assert back.error["error"] == "invalid_transition"
    assert (
        interlock("--json", "task", "update", "001", "--status", "completed", "--as", "tester").json["state"] == "done"
    )


def test_next_takes_the_most_urgent_and_says_null_when_there_is_none(interlock: Interlock, task: Create) -> None:
    task("later")
    urgent = task("now", "--priority", "critical")
    assert interlock("--json", "task", "next", "--as", "tester").json["id"] == urgent
    interlock("task", "next", "--as", "tester")
    none = interlock("--json", "task", "next", "--as", "tester")
    assert (none.code, none.out) == (0, "null\n")
    assert "Nothing is ready" in interlock("task", "next", "--as", "tester").out


def test_a_failed_verify_is_shown_and_the_exit_code_is_1(interlock: Interlock, task: Create, here: Path) -> None:
    task("prove it", "--verify", "cat proof")
    interlock("task", "claim", "001", "--as", "tester")
    failed = interlock("task", "complete", "001", "--as", "tester")
    assert failed.code == 1
    assert "cat proof" in failed.out and "exit code 1" in failed.out
    assert "verify failed; the task is yours again" in failed.err
    document = interlock("--json", "task", "complete", "001", "--as", "tester")
    assert (document.code, document.json["state"], document.json["evidence"][0]["passed"]) == (1, "in-progress", False)
    (here / "proof").write_text("here\n")
    passed = interlock("task", "complete", "001", "--as", "tester")
    assert passed.code == 0
    assert "verified" in passed.out and "cat proof" in passed.out


def test_three_failed_verifies_end_in_deadletter_and_retry_gives_another_chance(
    interlock: Interlock, task: Create
) -> None:
    task("never", "--verify", "false")
    interlock("task", "claim", "001", "--as", "tester")
    answers = [interlock("task", "complete", "001", "--as", "tester") for _ in range(3)]
    assert "deadletter" in answers[-1].err and "interlock task retry" in answers[-1].err
    assert interlock("--json", "task", "retry", "001").json["state"] == "ready"


def test_a_review_is_approved_or_rejected(interlock: Interlock, task: Create) -> None:
    task("look at it", "--review", "researcher")
    interlock("task", "claim", "001", "--as", "tester")
    assert interlock("--json", "task", "complete", "001", "--as", "tester").json["state"] == "review"
    assert interlock("task", "reject", "001", "--as", "researcher").code == 2
    rejected = interlock("--json", "task", "reject", "001", "--reason", "no test", "--as", "researcher").json
    assert rejected["state"] == "ready"
    assert "no test" in interlock("task", "claim", "001", "--as", "tester").out
    interlock("task", "complete", "001", "--as", "tester")
    assert interlock("--json", "task", "approve", "001", "--as", "researcher").json["state"] == "done"


def test_release_assign_block_unblock_and_heartbeat(interlock: Interlock, task: Create) -> None:
    task("T1")
    interlock("task", "claim", "001", "--as", "tester")
    beat = interlock("--json", "task", "heartbeat", "001", "--as", "tester").json
    assert (beat["number"], beat["member"]) == (1, "tester")
    assert (
        interlock("--json", "task", "block", "001", "--reason", "no disk", "--as", "tester").json["state"] == "blocked"
    )
    assert interlock("--json", "task", "unblock", "001", "--as", "tester").json["state"] == "in-progress"
    assert interlock("--json", "task", "release", "001", "--as", "tester").json["state"] == "ready"
    assert interlock("--json", "task", "assign", "001", "--to", "researcher").json["assignee"] == "researcher"
    assert interlock("--json", "task", "claim", "001", "--as", "tester").error["error"] == "forbidden"
    assert interlock("--json", "task", "assign", "001", "--free").json["assignee"] is None
    assert interlock("task", "assign", "001").code == 2


def test_cancel_answers_the_task_and_with_cascade_what_went_with_it(interlock: Interlock, task: Create) -> None:
    first = task("T1")
    second = task("T2", "--blocked-by", first)
    answer = interlock("--json", "task", "cancel", first, "--cascade", "--reason", "no longer needed").json
    assert (answer["id"], answer["state"], answer["cancelled"]) == (first, "cancelled", [first, second])


def test_editing_a_task(interlock: Interlock, task: Create) -> None:
    task("T1", "--verify", "true")
    answer = interlock(
        *("--json", "task", "update", "001", "--subject", "T one", "--priority", "low", "--verify", ""),
        *("--metadata", '{"branch": "main"}', "--log", "half way"),
    ).json
    assert (answer["subject"], answer["priority"], answer["verify"]) == ("T one", "low", None)
    assert answer["metadata"] == {"branch": "main"}
    assert "half way" in interlock("task", "show", "001").out
    assert interlock("--json", "task", "update", "001", "--metadata", "[1]").error["error"] == "invalid_request"
    assert interlock("--json", "task", "update", "001").error["error"] == "invalid_request"


def test_a_short_id_that_fits_two_tasks_lists_both(interlock: Interlock, task: Create) -> None:
    answer = interlock("--json", "task", "show", "404")
    assert answer.error["error"] == "task_not_found"
    assert interlock("task", "show", "404").err.startswith("error: ")
    assert task("T1").endswith("-001")


def test_the_graph_as_text_mermaid_and_json(interlock: Interlock, task: Create) -> None:
    assert "interlock task create" in interlock("task", "graph").out
    first = task('Say "hi" <now>')
    second = task("T2", "--blocked-by", first)
    third = task("T3", "--blocked-by", first, second)
    lines = interlock("task", "graph").out.splitlines()
    assert lines[0].startswith(first) and lines[1].startswith(f"└─ {second}") and lines[2].startswith(f"   └─ {third}")
    assert "also waits for 001" in lines[2]
    drawn = interlock("task", "graph", "--format", "mermaid").out
    assert drawn.startswith("flowchart TD\n") and "t1 --> t2" in drawn
    assert "&quot;hi&quot; &lt;now>" in drawn
    edges = interlock("--json", "task", "graph").json["edges"]
    assert {(edge["blocker"], edge["blocked"]) for edge in edges} == {(first, second), (first, third), (second, third)}


def test_the_table_shows_who_holds_what_and_what_waits(interlock: Interlock, task: Create) -> None:
    assert "interlock task create" in interlock("task", "list").out
    task("Write it")
    task("Test it", "--blocked-by", "001")
    interlock("task", "claim", "001", "--as", "tester")
    head, first, second = interlock("task", "list").out.splitlines()
    assert head.split() == ["TASK", "STATE", "OWNER", "WAITS", "FOR", "UPDATED", "SUBJECT"]
    assert "in-progress" in first and "tester" in first and first.endswith("Write it")
    assert "backlog" in second and " 001 " in second
    assert "No such tasks" in interlock("task", "list", "--status", "cancelled").out


def race(interlock: Interlock, team: str) -> list[tuple[int, str]]:
    """Ten processes claim one task at once; the exit code and stderr of each."""
    interlock("config", "set", "member_limit", "20", "--team", team)
    names = [f"m{number}" for number in range(10)]
    for name in names:
        interlock("member", "spawn", name)
    program = [sys.executable, "-m", "interlock.surfaces.cli", "--json", "task", "claim", "001", "--as"]
    racing = [subprocess.Popen([*program, name], stdout=-1, stderr=-1, text=True) for name in names]
    return [(process.communicate()[1], process.returncode)[::-1] for process in racing]


@pytest.mark.req("CORE-EC.3")
def test_of_ten_processes_that_claim_one_task_exactly_one_wins(interlock: Interlock, team: str, task: Create) -> None:
    task("T1")
    assert sorted(code for code, _ in race(interlock, team)) == [0] + [1] * 9
    assert interlock("--json", "task", "show", "001").json["attempt"] == 1


def test_the_nine_that_lose_are_told_that_it_is_claimed(interlock: Interlock, team: str, task: Create) -> None:
    task("T1")
    assert sum("task_already_claimed" in err for _, err in race(interlock, team)) == 9


def test_a_member_names_no_command_and_a_person_sets_what_steers_a_task(interlock: Interlock, task: Create) -> None:
    for option in ("--verify", "--run"):
        answer = interlock("--json", "task", "create", "Mine", option, "touch owned", "--as", "tester")
        assert answer.error["error"] == "forbidden" and "ask the lead" in answer.error["message"]
    here = task("Write it")
    assert interlock("--json", "task", "update", here, "--metadata", '{"env": []}').error["error"] == "invalid_request"
    found = interlock("--json", "task", "update", here, "--env", "CI,TZ", "--timeout", "90", "--retries", "0").json
    assert (found["env"], found["timeout"], found["retries"]) == (["CI", "TZ"], 90, 0)
    assert "timeout 90, retries 0" in interlock("task", "show", here).out


def test_the_setting_force_is_listed_and_holds(interlock: Interlock, team: str, task: Create) -> None:
    assert "force" in {one["name"] for one in interlock("--json", "config", "list").json["settings"]}
    assert interlock("config", "set", "force", "lead", "--team", team).code == 0
    task("first")
    waits = task("second", "--blocked-by", "001")
    answer = interlock("--json", "task", "claim", waits, "--force", "--as", "tester")
    assert answer.error["error"] == "forbidden" and "only the lead or a human" in answer.error["message"]
    assert interlock("task", "claim", waits, "--force", "--as", "lead").code == 0


def test_a_claim_opens_its_team_once(interlock: Interlock, task: Create, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(said.append)
        return connection

    here = task("Write it")
    monkeypatch.setattr(sqlite3, "connect", traced)
    assert interlock("--team", "alpha-squad", "task", "claim", here, "--as", "tester").code == 0
    begun = [one for one in said if one.startswith("BEGIN")]
    assert len([one for one in said if "program IS NOT NULL" in one]) == 1, "who the caller is was asked once"
    assert len(begun) <= 6 and len(said) <= 56, "it only ever shrinks"


def test_json_that_is_nested_too_deep_is_refused_as_such(interlock: Interlock, team: str) -> None:
    deep = '{"a":' * 100_000
    interlock("task", "create", "x")
    for line in (("create", "y", "--metadata"), ("create", "y", "--limits"), ("update", "001", "--metadata")):
        error = interlock("--json", "task", *line, deep).error
        assert (error["error"], error["message"]) == ("invalid_request", f"{line[-1][2:]} is nested too deep.")
