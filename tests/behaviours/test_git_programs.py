"""What an agent does by way of git: filters and the like that it wrote into the repository's configuration, and what it
takes from the user's stash and logs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.gitwork.configured import may_start
from interlock.gitwork.git import Git
from interlock.processes import supervised
from tests.behaviours.driving import Place, running
from tests.behaviours.repository import Repository, stage


@pytest.fixture
def repository(place: Place) -> Repository:
    """The user's repository, in the directory to work in."""
    return Repository(place.work)


@pytest.fixture
def impostor(place: Place) -> Path:
    """A program that passes its input on and approves the task `gate` as a person; `said` is what came of it."""
    file = place.path / "impostor.sh"
    approve = f"{sys.executable} -m interlock --home {place.home.path} --team crew task approve gate --as human"
    file.write_text(
        f"#!/bin/sh\ncat $1\nenv -i PATH=$PATH HOME={place.path} {approve} >>{place.path}/said 2>&1\nexit 0\n"
    )
    file.chmod(0o755)
    return file


def refused(place: Place) -> bool:
    said = (place.path / "said").read_text()
    return "acts for nobody" in said and place.task("gate").state == "review"


def test_a_filter_that_an_agent_configured_acts_for_nobody(
    place: Place, repository: Repository, impostor: Path
) -> None:
    configured = f"git config filter.own.clean {impostor}; echo '*.new filter=own' > .gitattributes; echo hello > a.new"
    tasks = {"gate": {"run": "touch gate", "review": "human"}, "own": {"run": configured, "blocked_by": []}}
    stage(place, tasks)
    place.drive()
    assert place.task("own").state == "done" and repository.show("interlock/crew", "a.new") == "hello"
    assert refused(place)


def test_nor_does_one_that_runs_when_a_person_looks_at_the_work(
    place: Place, repository: Repository, impostor: Path
) -> None:
    converts, shown = place.path / "converts.sh", place.path / "shown"
    converts.write_text(f"#!/bin/sh\ntouch {shown}\ncat $1\n")
    converts.chmod(0o755)
    configured = (
        f"git config filter.own.clean {impostor}; git config diff.own.textconv {converts}; "
        "echo '*.new filter=own diff=own' > .gitattributes; echo hello > a.new"
    )
    stage(place, {"gate": {"run": configured, "review": "human"}})
    place.drive()
    (place.path / "said").unlink()
    work = Path(str((place.task("gate").worktree or {})["path"]))
    (work / "b.new").write_text("bonjour\n")
    patch = place.team.diff("gate").diff
    assert "+hello" in patch and "+bonjour" in patch and refused(place)
    assert not shown.exists(), "what is there is shown, and not what a program makes of it"


def test_what_it_leaves_as_a_daemon_is_ended_and_acts_for_nobody_until_then(
    place: Place, repository: Repository, impostor: Path
) -> None:
    """Its environment is cleared and its parents are gone, so that only what it descends from can tell whose it is."""
    late, pid = place.path / "late.sh", place.path / "pid"
    late.write_text(
        f"#!/bin/sh\nif ! [ -e {pid} ]; then env -i PATH=$PATH setsid sh -c '{impostor} /dev/null; echo $$ >{pid}; "
        f"exec sleep 600' >/dev/null 2>&1 </dev/null & fi\nuntil [ -s {pid} ]; do sleep 0.05; done\ncat\n"
    )
    late.chmod(0o755)
    configured = f"git config filter.own.clean {late}; echo '*.new filter=own' > .gitattributes; echo hello > a.new"
    stage(place, {"gate": {"run": "touch gate", "review": "human"}, "own": {"run": configured, "blocked_by": []}})
    place.drive()
    assert place.task("own").state == "done" and repository.show("interlock/crew", "a.new") == "hello"
    assert refused(place)
    assert not running(int(pid.read_text()))


def test_an_included_file_and_the_users_own_settings_count_as_well(
    place: Place, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "global"))
    (tmp_path / "global").touch()
    git = Git(str(repository.path), timeout=30)

    def starts(command: str, at: Git = git) -> bool:
        return may_start(command, at.directory, lambda *words: at(*words).out)

    assert not starts("status")
    repository.git("config", "include.path", str(tmp_path / "more"))
    assert not starts("status")
    for file in ("more", "global"):
        (tmp_path / file).write_text('[filter "own"]\n\tclean = cat\n')
        assert starts("status") and not starts("rev-parse"), file
        (tmp_path / file).write_text("[credential]\n\thelper = store\n[alias]\n\tst = status\n")
        assert starts("fetch") and not starts("status"), file
    (tmp_path / "more").write_text(f"[include]\n\tpath = {tmp_path / 'deeper'}\n")
    assert not starts("status")
    (tmp_path / "deeper").write_text("[diff]\n\texternal = cat\n")
    assert starts("status"), "of a file that was not there"
    assert starts("status", git.at(str(tmp_path))), "no repository, or one that cannot be read"


def test_a_program_below_a_supervisor_answers_as_any_other(tmp_path: Path) -> None:
    def run(script: str, stdin: bytes | None = None, timeout: float = 60) -> tuple[int, bytes, bytes]:
        environment = {"PATH": os.environ["PATH"]}
        argv = ["sh", "-c", script]
        return supervised.run(argv, workdir=str(tmp_path), environment=environment, stdin=stdin, timeout=timeout)

    much = b"a\r" * 100_000
    assert run("cat; echo wrong >&2; exit 3", much) == (3, much, b"wrong\n")
    assert run("sleep 600 & echo begun")[:2] == (0, b"begun\n"), "what it leaves is ended, and not waited for"
    assert run("kill -9 $$")[0] == -9 and run("kill -9 $PPID; sleep 600")[0] == -9
    with pytest.raises(FileNotFoundError):
        supervised.run(["no-such-program"], workdir="/", environment={}, stdin=None, timeout=60)
    with pytest.raises(subprocess.TimeoutExpired):
        run("echo $$ >pid; setsid sleep 600 & echo $! >>pid; wait", timeout=1)
    assert not any(running(int(pid)) for pid in (tmp_path / "pid").read_text().split())


def test_what_an_agent_takes_from_the_users_stash_is_kept_and_told(place: Place, repository: Repository) -> None:
    for text in ("older", "newer"):
        (place.work / "story.txt").write_text(f"{text}\n")
        repository.git("stash", "push", "--quiet", "--message", text)
    newest = repository.head("stash@{0}")
    stage(place, {"one": {"run": "git stash pop --quiet"}})
    assert place.drive() == "finished"
    told = "; ".join(changed(place))
    assert "gone from your stash: On main: newer" in told and "On main: older" not in told
    (kept,) = repository.git("for-each-ref", "--format=%(refname)", "refs/interlock/stash").split("\n")
    repository.git("stash", "store", "--message", "newer", kept)
    assert repository.head("stash@{0}") == newest


def test_logs_of_references_that_an_agent_empties_are_told(place: Place, repository: Repository) -> None:
    (place.work / "story.txt").write_text("older\n")
    repository.git("stash", "push", "--quiet")
    stage(place, {"one": {"run": "git reflog expire --expire=now --all"}})
    assert place.drive() == "finished"
    told = changed(place)
    assert ".git/logs/HEAD (its oldest entries)" in told
    assert any(one.startswith("gone from your stash: WIP on main") for one in told), "its entries are that log"


def test_what_is_gone_for_good_is_told_and_the_watch_goes_on(place: Place, repository: Repository) -> None:
    (place.work / "story.txt").write_text("older\n")
    repository.git("stash", "push", "--quiet", "--message", "older")
    gone = "git stash drop --quiet; git reflog expire --expire=now --all; git gc --quiet --prune=now"
    stage(place, {"one": {"run": gone}, "two": {"run": f"touch {place.work}/left"}})
    assert place.drive() == "finished"
    told = [name for one in place.team.events()[0] if one.type == "checkout.changed" for name in one.payload["changed"]]
    assert any(name.startswith("gone from your stash: On main: older (its commit ") for name in told)
    assert "left" in told


def changed(place: Place) -> list[str]:
    (event,) = [one for one in place.team.events()[0] if one.type == "checkout.changed"]
    return list(event.payload["changed"])


def test_hooks_are_told_one_by_one(place: Place, repository: Repository) -> None:
    """What is written into a hook that is there changes nothing of its directory."""
    hook = place.work / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    stage(place, {"one": {"run": f"echo 'touch seen' >> {hook}"}})
    assert place.drive() == "finished"
    assert changed(place) == [".git/hooks/pre-commit"]
