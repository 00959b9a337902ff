"""`interlock task worktree`, `diff` and `merge`, as typed."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.app import worktrees
from tests.behaviours.repository import Repository
from tests.surfaces.cli.conftest import Interlock


@pytest.fixture
def repository(here: Path, interlock: Interlock) -> Repository:
    """A repository, and the work of one task on its integration branch."""
    made = Repository(here / "work")
    plan = "team: crew\nworkdir: work\nisolation: worktree\nmembers: {ada: {agent: shell}}\n"
    (here / "plan.yaml").write_text(plan + "tasks: {a: {subject: Write a, run: echo a > a.txt}}\n")
    assert interlock("run", "plan.yaml").code == 0
    return made


def test_a_diff_is_a_patch_or_a_list_of_files_or_json(
    interlock: Interlock, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = interlock("diff", "a")
    assert patch.code == 0 and patch.out.startswith("diff --git a/a.txt b/a.txt") and patch.out.endswith("+a\n")
    assert "a.txt | 1 +" in interlock("diff", "a", "--stat").out
    found = interlock("--json", "diff", "a").json
    assert found["diff"] == patch.out and found["merged"] == repository.head("interlock/crew")
    monkeypatch.setattr(worktrees, "DIFF_BYTES", 60)
    assert interlock("diff", "a").out == patch.out
    assert interlock("--json", "diff", "a").json == found


@pytest.mark.parametrize("open_task", [False, True])
def test_a_patch_holds_every_byte_whatever_the_configuration_says_of_diffs(
    here: Path, interlock: Interlock, open_task: bool
) -> None:
    made = Repository(here / "work")
    (made.path / "old.txt").write_bytes(b"".join(b"%d caf\xe9\r\n" % line for line in range(20)))
    made.commit("more", **{".gitattributes": "*.txt diff=shouting\n"})
    for name, value in {
        "diff.noprefix": "true", "diff.context": "0", "color.diff": "always", "diff.shouting.textconv": "tr a-z A-Z <",
    }.items():  # fmt: skip
        made.git("config", name, value)
    run = "sed -i '10s/^/changed /' old.txt; printf 'gr\\374n\\nno end' > new.txt; printf 'a\\0b\\377' > picture.png"
    plan = "team: crew\nworkdir: work\nisolation: worktree\nmembers: {ada: {agent: shell}}\n"
    task = {"subject": "Write", "run": run + ("; false" if open_task else ""), "retries": 0}
    (here / "plan.yaml").write_text(f"{plan}tasks: {{a: {json.dumps(task)}}}\n")
    assert interlock("run", "plan.yaml").code == (1 if open_task else 0)
    program = [sys.executable, "-m", "interlock.surfaces.cli", "diff", "a"]
    named = subprocess.run(program, env=os.environ, capture_output=True, check=True)
    assert b"Binary files" in named.stdout and b"--binary has them whole" in named.stderr
    done = subprocess.run([*program, "--binary"], env=os.environ, capture_output=True, check=True)
    assert done.stderr == b""
    (here / "x.patch").write_bytes(done.stdout)
    made.git("apply", str(here / "x.patch"))
    assert (made.path / "picture.png").read_bytes() == b"a\0b\377"
    assert (made.path / "new.txt").read_bytes() == b"gr\374n\nno end"
    assert (made.path / "old.txt").read_bytes().splitlines(keepends=True)[9] == b"changed 9 caf\xe9\r\n"
    said = interlock("--json", "diff", "a", "--binary").json
    assert base64.b64decode(said["raw"]) == done.stdout and "gr\ufffdn" in said["diff"]


def test_a_merge_shows_what_it_would_do_and_then_does_it(interlock: Interlock, repository: Repository) -> None:
    would = interlock("merge", "--team", "crew", "--all", "--dry-run")
    assert would.code == 0 and "would merge 2 commits into main" in would.out and "[a] Write a" in would.out
    assert not (repository.path / "a.txt").exists()
    done = interlock("merge", "--team", "crew", "--all")
    assert done.code == 0 and "merged 2 commits into main" in done.out and (repository.path / "a.txt").exists()
    assert "Nothing to merge" in interlock("merge", "--team", "crew", "--all").out
    assert interlock("--json", "--team", "crew", "merge", "a").json["merged"] is False


def test_what_is_in_the_way_is_an_exit_code(interlock: Interlock, repository: Repository) -> None:
    (repository.path / "a.txt").write_text("mine")
    would = interlock("merge", "--team", "crew", "--all", "--dry-run")
    assert would.code == 1 and "not committed: a.txt" in would.out
    refused = interlock("merge", "--team", "crew", "--all")
    assert refused.code == 1 and "nothing was changed" in refused.err
    assert (
        interlock("merge", "--team", "crew").code == 2 and interlock("merge", "--team", "crew", "a", "--all").code == 2
    )


def test_the_report_says_where_the_work_is_and_how_to_get_it(interlock: Interlock, repository: Repository) -> None:
    said = interlock("report").out
    assert "interlock/crew has the work of 1 task" in said and "interlock merge --all --team crew" in said
    interlock("merge", "--team", "crew", "--all")
    assert "all of it in your branch" in interlock("report").out


def test_a_team_that_works_in_no_worktrees_is_told_where_its_work_is(here: Path, interlock: Interlock) -> None:
    repository = Repository(here / "work")
    plan = "team: crew\nworkdir: work\nmembers: {ada: {agent: shell}}\ntasks: {a: {subject: Write a, run: touch a}}\n"
    (here / "plan.yaml").write_text(plan)
    assert interlock("run", "plan.yaml").code == 0 and (repository.path / "a").exists()
    for words in (("merge", "--all"), ("merge", "--all", "--dry-run")):
        refused = interlock(*words, "--team", "crew")
        assert refused.code == 1 and "crew does not work in worktrees" in refused.err
        assert str(repository.path) in refused.err and "gone" not in refused.err


def test_a_run_says_what_its_worktrees_begin_without(here: Path, interlock: Interlock, repository: Repository) -> None:
    assert "not committed" not in interlock("run", "plan.yaml").out
    (repository.path / "loose.py").touch()
    for words in (("run", "plan.yaml", "--dry-run"), ("run", "plan.yaml")):
        assert "tasks do not see what is not committed: loose.py" in interlock(*words).out
    (note,) = interlock("--json", "run", "plan.yaml", "--dry-run").json["notes"]
    assert "loose.py" in note


def test_a_log_says_that_a_worktree_is_being_prepared_and_what_changed(
    here: Path, interlock: Interlock, repository: Repository
) -> None:
    plan = (here / "plan.yaml").read_text().replace("members", "setup: touch prepared\nmembers")
    plan = plan.replace("echo a > a.txt}", "echo aa > a.txt}, b: {subject: Write b, run: echo b > b.txt}")
    (here / "plan.yaml").write_text(plan)
    said = interlock("run", "plan.yaml").out
    assert "preparing its worktree: touch prepared\n" in said
    assert "a changed in the plan after TASK-" in said and "had ended (done); `--redo a` runs it again\n" in said


def test_a_worktree_for_a_task_of_mine_is_a_line_that_a_shell_can_use(
    interlock: Interlock, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_TEAM", "crew")
    task = interlock("--json", "task", "create", "Write b").json["id"]
    assert interlock("task", "worktree", task).code == 1
    claimed = interlock("task", "claim", task)
    assert f'cd "$(interlock task worktree {task})"' in claimed.out
    made = interlock("task", "worktree", task)
    place = Path(made.out.removesuffix("\n"))
    assert made.code == 0 and place.is_dir() and f"interlock-work/crew/{task}" in made.err
    (place / "b.txt").write_text("b")
    assert interlock("--json", "task", "worktree", task).json["worktree"]["directory"] == str(place)
    assert "done" in interlock("task", "complete", task).out
    assert repository.show("interlock/crew", "b.txt") == "b" and not place.exists()
