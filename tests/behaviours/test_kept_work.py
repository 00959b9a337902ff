"""Nothing that was made in a worktree is deleted before it is somewhere else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from interlock.model.report import beside_git
from tests.behaviours.driving import SHELL, Place
from tests.behaviours.repository import Repository, kept_path, stage
from tests.waiting import until


@pytest.fixture
def repository(place: Place) -> Repository:
    """The user's repository, in the directory to work in."""
    return Repository(place.work)


@pytest.mark.long
@pytest.mark.parametrize(
    "spoil",
    [
        "rm -rf .git",
        "rm -rf .git && git -C {work} worktree prune",
        "echo lost > .git",
        "rm .git && git init -q && git add -A && git -c user.name=x -c user.email=x@y commit -qm other",
        "rm .git && ln -s {work}/.git .git",
        "rm .git && echo gitdir: {work}/.git > .git",
        "echo broken > $(git rev-parse --git-path HEAD)",
        "echo broken > $(git rev-parse --git-path index)",
        "git checkout -q --orphan elsewhere",
        "echo WORK >> {work}/.git/info/exclude",
        "git update-index --assume-unchanged story.txt",
        "git update-index --skip-worktree story.txt",
        "git config core.excludesFile {work}/../everything",
        "git config core.autocrlf true && git config core.safecrlf true",
        "git config diff.orderFile /nowhere",
        "git sparse-checkout set --no-cone /nothing",
    ],
)
def test_whatever_is_done_to_git_the_work_is_merged(place: Place, repository: Repository, spoil: str) -> None:
    (place.path / "everything").write_text("*\n")
    run = f"{spoil.format(work=place.work)}; echo work > WORK; echo four >> story.txt"
    check = "test -s WORK && grep -q four story.txt"
    stage(
        place,
        {"one": {"run": run, "verify": check}, "two": {"run": check, "blocked_by": ["one"], "retries": 0}},
    )
    assert place.drive() == "finished"
    outputs = [place.task(key).output for key in ("one", "two")]
    assert place.states() == {"one": "done", "two": "done"}, outputs
    assert repository.show("interlock/crew", "WORK") == "work"
    assert repository.show("interlock/crew", "story.txt").split()[-1] == "four"
    task = place.task("one")
    assert task.check is not None and task.check["merged"] and not kept_path(task).exists()
    assert not any(".git.replaced" in name for name in repository.files("interlock/crew"))


def test_commits_of_an_agent_survive_the_loss_of_its_branch_and_of_git(place: Place, repository: Repository) -> None:
    run = "echo a > a && git add a && git commit -qm a && git switch -q --detach && git branch -D $(git branch --list "
    run += "'interlock-work/*' --format '%(refname:short)') && rm .git && echo b > b"
    stage(place, {"one": {"run": run, "verify": "test -e a && test -e b"}})
    assert place.drive() == "finished"
    assert place.states() == {"one": "done"}
    assert {"a", "b"} <= set(repository.files("interlock/crew"))


def test_what_git_ignores_and_the_run_made_is_kept_with_it(place: Place, repository: Repository) -> None:
    run = "mkdir -p build/deep __pycache__ node_modules && echo report > build/deep/REPORT && echo x > node_modules/x"
    stage(place, {"one": {"run": run, "verify": "test -s build/deep/REPORT"}}, setup="mkdir build && touch build/made")
    assert place.drive() == "finished"
    task = place.task("one")
    assert task.state == "done" and task.check is not None and task.check["merged"]
    files = {one.path: one for one in place.team.artifacts("one")}
    assert {path: one.kind for path, one in files.items()} == {
        "build/deep/REPORT": "file", "__pycache__": "cache", "node_modules": "cache",
    }  # fmt: skip
    kept = files["build/deep/REPORT"]
    assert Path(kept.file).read_text() == "report\n" and kept.size == 7 and kept.run == 1
    assert not kept_path(task).exists() and repository.branches() == ["interlock/crew", "main"]
    (done,) = place.team.report().done
    assert done.files == ["build/deep/REPORT"] and done.only_files
    assert beside_git(done) == "nothing that it made is in git, kept with its run: build/deep/REPORT"


def test_the_executable_bit_does_not_count_where_git_takes_no_notice_of_it(
    place: Place, repository: Repository
) -> None:
    repository.git("config", "core.fileMode", "false")
    stage(place, {"one": {"run": "echo x > new && chmod +x new story.txt && mkdir build && echo x > build/x"}})
    assert place.drive() == "finished"
    (done,) = place.team.report().done
    assert done.files == ["build/x"] and "new" in repository.files("interlock/crew")


def test_a_repository_that_a_task_makes_in_its_worktree_is_named_as_one(place: Place, repository: Repository) -> None:
    run = "git init -q web && echo page > web/index.html"
    stage(
        place,
        {
            "one": {"run": run, "verify": "test -s web/index.html"},
            "two": {"run": f"{run}; echo b > beside", "verify": "test -s web/index.html"},
        },
    )
    place.drive()
    (question,) = place.team.questions()
    assert question.task_id == place.task("two").id
    assert "web/index.html" in str(question.context) and "remove that `.git` first" in str(question.context)
    (done,) = place.team.report().done
    assert beside_git(done) == (
        "nothing that it made is in git, kept with its run: web/index.html; with a git repository of its own: web"
    )


def test_a_check_of_the_merged_tree_does_not_see_what_only_the_worktree_had(
    place: Place, repository: Repository
) -> None:
    run = "mkdir -p build && echo x > build/part && echo y > whole"
    stage(place, {"one": {"run": run, "verify": "test -s build/part"}})
    place.drive()
    task = place.task("one")
    assert task.state == "review" and repository.head("interlock/crew") == repository.head("main")
    (question,) = place.team.questions()
    assert (
        question.kind == "merge"
        and "build/part" in str(question.context)
        and "git add --force" in str(question.context)
    )


def test_the_check_runs_on_the_merged_tree_also_when_nothing_was_committed(
    place: Place, repository: Repository
) -> None:
    stage(place, {"one": {"run": "true", "verify": f"pwd >> {place.path}/places"}}, check_before=False)
    assert place.drive() == "finished"
    places = (place.path / "places").read_text().split()
    assert len(places) == 2 and Path(places[1]).name.startswith("merge-")


ODD = """
import os, socket
os.makedirs('build/shut/in')
open('build/shut/in/deep', 'w').write('deep')
for name in (b'new\\nline', b'car\\rriage', b' quote"\\xff'):
    open(b'build/' + name, 'w').write('odd')
for name in (b'made\\nhere', b'made\\rthere', b'"made'):
    open(name, 'w').write('odd')
os.symlink('/etc/passwd', 'build/outside')
os.symlink('..', 'build/up')
os.mkfifo('build/pipe')
socket.socket(socket.AF_UNIX).bind('build/socket')
os.chmod('build/shut/in', 0o555)
os.chmod('build/shut', 0)
"""


def test_odd_files_are_kept_and_nothing_is_followed(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"subject": "Make odd files"}}, {"odd": place.program("odd", ODD)})
    assert place.drive() == "finished"
    task = place.task("one")
    found = {one.path: one for one in place.team.artifacts("one")}
    assert found["build/pipe"].kind == found["build/socket"].kind == "special"
    assert found["build/outside"].kind == "link" and os.readlink(found["build/outside"].file) == "/etc/passwd"
    assert found["build/shut/in/deep"].size == 4
    assert {"build/new\nline", "build/car\rriage", 'build/ quote"\\xff'} <= set(found)
    names = set(repository.git("ls-tree", "-rz", "--name-only", "interlock/crew").split("\0"))
    assert {"made\nhere", '"made'} <= names and not kept_path(task).exists()


def test_a_repository_inside_of_the_worktree_is_kept(place: Place, repository: Repository) -> None:
    run = "mkdir inner && cd inner && git init -q && echo x > x && git add x && "
    run += "git -c user.name=x -c user.email=x@y commit -qm x"
    stage(place, {"one": {"run": run, "verify": "test -e inner/x"}})
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    paths = {one.path for one in place.team.artifacts("one")}
    assert {"inner/x", "inner/.git/HEAD"} <= paths


def test_beyond_the_bound_the_worktree_stays_and_the_report_says_how_large_it_is(
    place: Place, repository: Repository
) -> None:
    stage(place, {"one": {"run": "mkdir build && head -c 3000 /dev/zero > build/big && touch a"}})
    place.team.configure({"artifact_bytes": 2000})
    assert place.drive() == "finished"
    task = place.task("one")
    kept = kept_path(task)
    assert task.state == "done" and (kept / "build" / "big").stat().st_size == 3000
    (told,) = place.team.report().kept
    assert told.path == str(kept) and told.size == 3000 and "artifact_bytes" in told.why
    assert place.team.artifacts("one") == [] and "a" in repository.files("interlock/crew")
    place.team.doctor(repair=True)
    assert place.drive() == "finished" and kept.exists()


def test_what_is_written_after_the_work_was_kept_is_not_deleted(place: Place, repository: Repository) -> None:
    verify = f"case $PWD in */merge-*) echo late > {place.path}/home/teams/crew/worktrees/$(basename $PWD | "
    verify += "cut -c7-)/late; esac"
    stage(place, {"one": {"run": "touch a", "verify": verify}})
    assert place.drive() == "finished"
    task = place.task("one")
    assert task.state == "done" and not kept_path(task).exists()
    (late,) = place.team.artifacts("one")
    assert late.path == "late" and Path(late.file).read_text() == "late\n"


def test_a_dependent_is_told_where_the_files_are(place: Place, repository: Repository) -> None:
    reader = place.program("reader", f"open({str(place.path / 'prompt')!r}, 'w').write(prompt)")
    tasks = {
        "one": {"run": "mkdir build && echo report > build/REPORT"},
        "two": {"subject": "Read", "assignee": "reader", "blocked_by": ["one"]},
        "three": {"run": "cat $INTERLOCK_FILES/build/REPORT > copy", "blocked_by": ["one"]},
    }
    stage(place, tasks, {"ada": SHELL, "reader": reader})
    assert place.drive() == "finished"
    (kept,) = place.team.artifacts("one")
    assert kept.file in (place.path / "prompt").read_text()
    assert repository.show("interlock/crew", "copy") == "report"


def test_whoever_is_killed_while_it_lands_has_merged_once(place: Place, repository: Repository) -> None:
    """Between the moved branch and the row that says so."""
    shim = place.path / "bin"
    shim.mkdir()
    real = shutil.which("git")
    (shim / "git").write_text(
        f'#!/bin/sh\n{real} "$@"\ncode=$?\n'
        'case "$*" in *"update-ref --stdin"*) '
        f'if test "$({real} -C {place.work} rev-parse interlock/crew)" != "$(cat {place.path}/before)" '
        f"&& test ! -e {place.path}/once; then touch {place.path}/once; sleep 600; fi;; esac\n"
        "exit $code\n"
    )
    (shim / "git").chmod(0o755)
    stage(place, {"one": {"run": "echo a >> a", "verify": f"echo x >> {place.path}/checks"}}, check_before=False)
    (place.path / "before").write_text(repository.head())
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{shim}:{path}"
    try:
        with place.runner() as runner:
            until(lambda: (place.path / "once").exists())
            state = place.task("one").merging
            assert state is not None and state["landing"] and place.states() == {"one": "review"}
            place.team.send(to="ada", content="nobody waits for git")  # a transaction of its own
            runner.kill()
    finally:
        os.environ["PATH"] = path
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    assert len(repository.git("log", "--format=%s", "--merges", "interlock/crew").split("\n")) == 1
    assert (place.path / "checks").read_text().count("x") == 2


def test_a_link_in_the_place_of_a_worktree_leads_nowhere(place: Place, repository: Repository) -> None:
    before = repository.untouchable()
    stage(place, {"one": {"run": f"here=$PWD && cd / && rm -rf $here && ln -s {place.work} $here", "retries": 0}})
    place.drive()
    place.team.doctor(repair=True)
    assert place.drive() == "finished"
    assert repository.untouchable() == before and not (place.work / ".git.replaced").exists()


def test_deleting_a_team_commits_what_was_open(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "echo half > work; exit 1", "retries": 0}})
    place.drive()
    branch = str((place.task("one").worktree or {})["branch"])
    place.home.delete_team("crew")
    assert repository.show(branch, "work") == "half"


def test_with_a_team_goes_its_branch_where_yours_has_all_of_it(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "echo done > work"}})
    place.drive()
    place.home.delete_team("crew")
    assert repository.show("interlock/crew", "work") == "done"
    repository.git("branch", "-D", "interlock/crew")
    stage(place, {"one": {"run": "echo done > work"}})
    place.drive()
    place.team.merge(everything=True)
    place.home.delete_team("crew")
    assert repository.git("branch", "--list", "interlock/crew") == "" and repository.show("HEAD", "work") == "done"
