"""How it is known that work is good: rows of evidence, and reports that say neither more nor less than they do."""

from __future__ import annotations

import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.model.report import DoneTask, as_text
from interlock.storage.sqlite.schema import DIRECTORY
from tests.behaviours.driving import SHELL, Place, running
from tests.behaviours.repository import Repository, stage
from tests.waiting import until

ROW = ("kind", "command", "exit_code", "tree", "at", "by", "red_before")


@pytest.fixture
def repository(place: Place) -> Repository:
    return Repository(place.work)


def done(place: Place, key: str) -> DoneTask:
    """What the report says of a finished task."""
    return next(one for one in place.team.report().done if one.key == key)


def text(place: Place) -> str:
    """The report as people read it."""
    return "\n".join(as_text(place.team.report()))


def test_a_command_without_a_check_is_reported_by_its_exit_code(place: Place) -> None:
    place.stage({"one": {"run": "echo fine"}})
    assert place.drive() == "finished"
    found = done(place, "one")
    (row,) = found.evidence
    assert {name: row[name] for name in ROW if name != "at"} == {
        "kind": "exit_code", "command": "echo fine", "exit_code": 0, "tree": None, "by": "ada", "red_before": None,
    }  # fmt: skip
    assert (found.proof, found.verified) == ("exit code 0", False)
    assert "exit code 0" in text(place) and "unverified" not in text(place)


def test_what_a_person_approved_is_reported_as_approved_by_that_person(place: Place) -> None:
    place.stage({"one": {"run": "echo fine", "review": "human"}})
    place.drive()
    place.team.reply("one", "approve")
    found = done(place, "one")
    assert [row["kind"] for row in found.evidence] == ["exit_code", "approval"]
    assert found.evidence[-1]["by"] == "human" and found.proof == "exit code 0, approved by human"


def test_an_agents_word_alone_is_unverified(place: Place) -> None:
    place.stage({"one": {"subject": "Say it"}}, {"bob": place.program("bob", "say('done')")})
    place.drive()
    found = done(place, "one")
    assert (found.evidence, found.proof) == ([], "unverified")
    assert "1 done (1 unverified)" in text(place)


def test_evidence_names_the_tree_that_was_looked_at_and_the_one_that_was_merged(
    place: Place, repository: Repository
) -> None:
    stage(place, {"one": {"run": "echo more >> story.txt", "verify": "grep more story.txt", "review": "human"}})
    place.drive()
    place.team.reply("one", "approve")
    place.drive()
    found = done(place, "one")
    tree = repository.git("rev-parse", "interlock/crew^{tree}")
    kinds = [row["kind"] for row in found.evidence]
    assert kinds == ["exit_code", "verify", "approval", "verify", "diff"]
    assert {row["tree"] for row in found.evidence} == {tree}
    assert all(set(ROW) <= set(row) for row in found.evidence)
    assert found.evidence[-2]["merged"] and place.task("one").as_dict()["evidence"] == found.evidence
    assert {row["own_check"] for row in found.evidence if row["kind"] == "verify"} == {None}
    assert found.changed == place.task("one").as_dict()["changed"] == [{"path": "story.txt", "kind": "changed"}]
    assert found.proof.startswith("verified") and found.proof.endswith("approved by human")


def test_what_failed_work_has_changed_is_told_as_well(place: Place, repository: Repository) -> None:
    """Committed or not, with links; and once it is merged, what the merge has brought."""
    made = "echo more >> story.txt; git commit -qam more; echo new > new.txt; ln -s ../../away link; test -e ok"
    stage(place, {"one": {"run": made, "retries": 0}, "two": {"run": "exit 1", "retries": 0}})
    place.drive()
    (one, two), task = place.team.report().failed, place.task("one")
    files = [("link", "added"), ("new.txt", "added"), ("story.txt", "changed")]
    assert one.changed == task.as_dict()["changed"] == [{"path": path, "kind": kind} for path, kind in files]
    assert (one.changes or {})["links"] == ["link -> ../../away"]
    assert (two.changed, place.task("two").changed) == ([], [])
    assert "changed link (new), new.txt (new), story.txt" in text(place)
    (Path(str((task.worktree or {})["path"])) / "ok").touch()
    place.team.retry("one")
    place.drive()
    assert {one["path"] for one in done(place, "one").changed or ()} == {"link", "new.txt", "story.txt", "ok"}


def test_in_the_users_own_checkout_the_tree_is_what_lies_there_and_nothing_is_written_for_it(
    place: Place, repository: Repository
) -> None:
    objects = set((place.work / ".git" / "objects").rglob("*"))
    place.stage({"one": {"run": "echo new > new.txt", "verify": "test -s new.txt"}}, {"ada": SHELL})
    place.drive()
    assert set((place.work / ".git" / "objects").rglob("*")) == objects
    repository.git("add", "--all")
    assert done(place, "one").evidence[-1]["tree"] == repository.git("write-tree")


def test_what_was_known_of_rejected_work_says_nothing_about_the_next(place: Place) -> None:
    place.stage({"one": {"run": "echo x >> file", "verify": "grep x file", "review": "human"}})
    place.drive()
    place.team.reply("one", "changes: do it again")
    place.drive()
    assert [row["kind"] for row in place.task("one").evidence] == ["exit_code", "verify"]


def test_the_evidence_of_an_older_ledger_is_a_row(place: Place) -> None:
    place.stage({"one": {"run": "true", "verify": "true"}})
    place.drive()
    place.home.close()
    ledger = place.path / "home" / "teams" / "crew" / "ledger.db"
    old = (
        '{"command": "true", "exit_code": 0, "passed": true, "seconds": 0.1, "tail": "", "at": "2026-01-01T00:00:00Z"}'
    )
    with sqlite3.connect(ledger) as rows:
        rows.execute("UPDATE tasks SET evidence = ?", (old,))
        for statement in Path(DIRECTORY, "006_evidence.sql").read_text().split(";"):
            if "UPDATE tasks" in statement:
                rows.execute(statement)
    rows.close()
    place.home = interlock.connect(str(place.path / "home"))
    (row,) = place.task("one").evidence
    assert set(ROW) <= set(row) and (row["kind"], row["red_before"], row["tree"]) == ("verify", None, None)
    assert done(place, "one").proof == "verified"


# What the check says of the tree before the work


def test_a_check_that_was_green_before_the_work_is_said_to_have_been(place: Place, repository: Repository) -> None:
    log = place.path / "checks"
    verify = f"echo $PWD >> {log}; test -s story.txt"
    tasks = {"one": {"run": "echo a > a", "verify": verify}, "two": {"run": "echo b > b", "verify": verify}}
    stage(place, tasks, {"ada": SHELL, "bob": SHELL}, parallel=1)
    place.drive()
    assert done(place, "one").proof == "verified (green before the work, too)"
    assert "verified (green before the work, too): echo" in text(place)
    assert [row["red_before"] for row in checks(place, "one")] == [False] * 2
    before = [line for line in log.read_text().splitlines() if "/before-" in line]
    assert 1 <= len(before) <= len({str((place.task(key).worktree or {})["tree"]) for key in tasks})
    assert not list((place.path / "home" / "teams" / "crew" / "worktrees").glob("before-*"))


def test_a_check_that_was_red_before_the_work_and_is_green_now_is_verified(
    place: Place, repository: Repository
) -> None:
    stage(place, {"one": {"run": "echo a > a", "verify": "test -s a || (echo a is missing; exit 1)"}})
    place.drive()
    assert done(place, "one").proof == "verified" and [row["red_before"] for row in checks(place, "one")] == [True] * 2
    (before,) = place.team.latest(types=("verify.before",))
    assert before.payload["tail"].strip() == "a is missing", "what it printed is kept for whoever reviews"


def test_whether_it_was_red_before_is_unknown_where_the_plan_does_not_want_it(
    place: Place, repository: Repository
) -> None:
    log = place.path / "checks"
    stage(place, {"one": {"run": "echo a > a", "verify": f"echo $PWD >> {log}; test -s a"}}, check_before=False)
    place.drive()
    assert done(place, "one").proof == "verified" and [row["red_before"] for row in checks(place, "one")] == [None] * 2
    assert "/before-" not in log.read_text()


def test_whether_it_was_red_before_is_found_out_after_the_runner_of_both_checks_was_killed(
    place: Place, repository: Repository
) -> None:
    go, begun = place.path / "go", place.path / "begun"
    verify = f"test -e {go} || echo >> {begun}; while [ ! -e {go} ]; do sleep 0.05; done; test -s a"
    stage(place, {"one": {"run": "echo a > a", "verify": verify}})
    with place.runner() as runner:
        until(lambda: begun.exists() and len(begun.read_text()) == 2)
        runner.send(signal.SIGKILL)
        runner.wait()
    go.touch()
    assert place.drive() == "finished"
    assert [row["red_before"] for row in checks(place, "one")] == [True] * 2


def checks(place: Place, key: str) -> list[dict[str, Any]]:
    """The checks that stand for a finished task."""
    return [row for row in done(place, key).evidence if row["kind"] == "verify"]


@pytest.mark.skipif(sys.platform != "linux", reason="daemons are found by descent on Linux only")
def test_a_check_before_the_work_ends_with_the_runner_that_was_killed(place: Place, repository: Repository) -> None:
    file = place.path / "pids"
    file.touch()
    program = f"echo $$ >> {file}; exec sleep 300"
    stage(place, {"one": {"run": "sleep 300", "verify": f"env -i setsid sh -c '{program}' & {program}"}})
    with place.runner() as runner:
        until(lambda: len(file.read_text().splitlines()) == 2)
        runner.kill()
    until(lambda: not any(running(int(pid)) for pid in file.read_text().split()))
