"""Separate working copies: each task in a worktree of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from interlock.app.home import Home
from interlock.errors import GitFailed, InterlockError, WorktreeRefused
from tests.behaviours.driving import Place, running
from tests.behaviours.repository import Repository, kept_path, stage
from tests.waiting import until


@pytest.fixture
def repository(place: Place) -> Repository:
    """The user's repository, in the directory to work in."""
    return Repository(place.work)


def test_a_task_works_in_a_worktree_and_is_merged_into_the_integration_branch(
    place: Place, repository: Repository
) -> None:
    (place.work / "notes.txt").write_text("mine, not committed")
    (place.work / "story.txt").write_text("one\ntwo\nthree\nmine\n")
    before = repository.untouchable()
    stage(place, {"one": {"run": "pwd > where; echo four >> story.txt", "verify": "grep four story.txt"}})
    assert place.drive() == "finished"
    task = place.task("one")
    assert task.state == "done" and task.worktree is not None
    assert repository.untouchable() == before
    assert repository.show("interlock/crew", "story.txt").split() == ["one", "two", "three", "four"]
    where = repository.show("interlock/crew", "where")
    assert where == str(Path(place.team.directory) / "worktrees" / task.id) and not os.path.exists(where)
    assert repository.log("interlock/crew")[0].startswith(f"Merge {task.id}")
    assert task.worktree["merged"] == repository.head("interlock/crew")
    assert task.check is not None and task.check["merged"] and task.check["passed"]
    assert repository.branches() == ["interlock/crew", "main"]
    assert repository.git("worktree", "list").count("\n") == 0
    assert place.team.doctor().healthy


@pytest.mark.long
def test_what_depends_on_a_task_starts_from_what_was_merged(place: Place, repository: Repository) -> None:
    tasks = {
        "first": {"run": "echo 1 > a"},
        "second": {"run": "cp a b", "blocked_by": ["first"]},
        "third": {"run": "cat a b > c", "verify": "test $(wc -l < c) = 2", "blocked_by": ["second"]},
    }
    stage(place, tasks)
    assert place.drive() == "finished"
    assert place.states() == dict.fromkeys(tasks, "done")
    assert set(repository.files("interlock/crew")) >= {"a", "b", "c"}
    subjects = repository.git("log", "--format=%B", "interlock/crew")
    assert subjects.count(f"Interlock-Task: {place.task('third').id}") == 2  # the work, and its merge


def test_a_working_directory_below_the_top_of_the_repository_stays_below(place: Place, repository: Repository) -> None:
    repository.commit("more", **{"sub/inner/a.txt": "a\n"})
    stage(place, {"one": {"run": "cp a.txt b.txt && basename $(pwd) > name"}}, workdir="work/sub/inner")
    assert place.drive() == "finished"
    assert repository.show("interlock/crew", "sub/inner/b.txt") == "a"
    assert repository.show("interlock/crew", "sub/inner/name") == "inner"


def test_a_fresh_worktree_gets_its_copies_and_its_setup_also_for_the_merge(
    place: Place, repository: Repository
) -> None:
    (place.work / ".env").write_text("WORD=hello\n")
    (place.work / ".env").chmod(0o600)
    run = "cat .env build/made > out; echo 1 >> times"
    setup = "mkdir -p build && touch build/made"
    stage(place, {"one": {"run": run, "verify": "grep hello .env && test -e build/made"}}, setup=setup, copy=[".env"])
    assert place.drive() == "finished"
    assert place.states() == {"one": "done"}
    assert repository.show("interlock/crew", "out") == "WORD=hello"
    assert ".env" not in repository.files("interlock/crew") and "build/made" not in repository.files("interlock/crew")


def test_a_directory_is_copied_as_it_is_without_caches(place: Place, repository: Repository) -> None:
    for path, text in {"build/a/one": "1", "build/two": "2", "build/node_modules/big": "x"}.items():
        (place.work / path).parent.mkdir(parents=True, exist_ok=True)
        (place.work / path).write_text(text)
    (place.work / "build/link").symlink_to("a/one")
    stage(place, {"one": {"run": "find build ! -type d | sort > out; readlink build/link >> out"}}, copy=["build"])
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    assert repository.show("interlock/crew", "out").split() == ["build/a/one", "build/link", "build/two", "a/one"]


def test_what_a_command_leaves_behind_is_kept_and_not_merged(place: Place, repository: Repository) -> None:
    report = "mkdir -p coverage .nyc_output sub; echo {} > coverage/coverage-final.json; echo x > coverage/index.html"
    left = "echo 1 > .nyc_output/a.json; touch .coverage.host.12 sub/Cargo.lock; echo made > made"
    tasks = {
        "test": {"run": f"{report}; {left}"},
        "meant": {"run": "mkdir -p coverage; touch coverage/own.py package-lock.json; git add package-lock.json"},
    }
    stage(place, tasks)
    assert place.drive() == "finished" and place.states() == {"test": "done", "meant": "done"}
    new = set(repository.files("interlock/crew")) - set(repository.files("main"))
    assert new == {"made", "coverage/own.py", "package-lock.json"}
    (kept,) = [task.files for task in place.team.report().done if task.key == "test"]
    assert "sub/Cargo.lock" in kept and "coverage/index.html" in kept, "nothing is lost"


def test_commands_see_where_toolchains_are_and_no_secret_of_theirs(
    place: Place, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {"CARGO_HOME": "/opt/cargo", "PIP_INDEX_URL": "https://me:hunter22@here/simple", "npm_config_cache": "/c"}
    hidden = {"UV_PUBLISH_TOKEN": "t0ps3cret", "npm_config__authToken": "t0ps3cret", "NPM_TOKEN": "t0ps3cret"}
    for name, value in (seen | hidden).items():
        monkeypatch.setenv(name, value)
    stage(place, {"one": {"run": "env > seen; cat seen"}})
    assert place.drive() == "finished"
    told = repository.show("interlock/crew", "seen").splitlines()
    assert {f"{name}={value}" for name, value in seen.items()} <= set(told) and "t0ps3cret" not in "".join(told)
    assert "CARGO_HOME=/opt/cargo" in place.log("one") and "hunter22" not in place.log("one")


def test_a_changed_setup_is_run_in_a_worktree_that_is_there_and_retry_retries(
    place: Place, repository: Repository
) -> None:
    """A check whose program the setup did not install: it is mended in the plan, and `task retry` is enough."""
    task = {"run": "echo 1 >> tries; echo hello > said", "verify": "./tool/check said"}
    stage(place, {"one": task}, setup="mkdir -p tool; echo + >> tool/setups; echo 'tool/' > tool/.gitignore")
    assert place.drive() == "finished" and place.task("one").state == "review"
    (need,) = place.needs("review")
    assert need.verb.startswith(f"interlock task retry {place.task('one').id}"), "none that approves unchecked work"
    assert place.team.retry("one").state == "review", "nothing has changed, and nothing is lost"

    stage(place, {"one": task}, setup="echo + >> tool/setups; exit 7")
    asked = place.team.retry("one").question
    assert asked is not None and "the setup of its worktree, `echo + >> tool/setups; exit 7`" in asked["text"]

    mended = "echo + >> tool/setups; printf '#!/bin/sh\\ngrep -q hello $1\\n' > tool/check; chmod +x tool/check"
    stage(place, {"one": task}, setup=mended)
    done = place.team.retry("one")
    assert done.state == "done" and done.failures == 0
    assert repository.show("interlock/crew", "tries") == "1", "its work was not done twice"


def test_a_setup_that_fails_is_a_failed_attempt_with_its_output(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "true", "retries": 0}}, setup="echo no network; exit 3")
    place.drive()
    assert place.states() == {"one": "deadletter"}
    output = str(place.task("one").output)
    assert "ended with exit code 3\n\nno network" in output, "its first line is shown alone"


@pytest.mark.long
def test_a_stop_in_the_middle_of_a_setup_uses_up_no_attempt_and_leaves_nothing(
    place: Place, repository: Repository
) -> None:
    setup = f"echo $$ > {place.path}/pid; test -e {place.path}/go || sleep 300"
    stage(place, {"one": {"run": "touch a"}}, setup=setup)
    with place.runner() as runner:
        until(lambda: (place.path / "pid").exists() and bool((place.path / "pid").read_text()))
        runner.send(signal.SIGTERM)
        assert runner.wait() == 0
    assert not running(int((place.path / "pid").read_text()))
    task = place.task("one")
    assert (task.state, task.failures, task.worktree) == ("ready", 0, None)
    (place.path / "go").touch()
    assert place.drive() == "finished" and place.states() == {"one": "done"}


def test_whoever_is_killed_in_the_middle_of_a_setup_leaves_nothing(place: Place, repository: Repository) -> None:
    setup = f"echo $$ >> {place.path}/pid; test -e {place.path}/go || sleep 300"
    stage(place, {"one": {"run": "touch a"}}, setup=setup)
    with place.runner() as runner:
        until(lambda: (place.path / "pid").exists() and bool((place.path / "pid").read_text()))
        runner.kill()
    (place.path / "go").touch()
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    assert not running(int((place.path / "pid").read_text().split()[0]))


def test_a_further_attempt_and_a_further_round_go_on_in_the_same_worktree(place: Place, repository: Repository) -> None:
    run = "pwd >> places; test $(wc -l < places) -ge 2 || exit 1"
    stage(place, {"one": {"run": run, "verify": "test $(wc -l < places) -ge 3"}})
    assert place.drive() == "finished"
    places = repository.show("interlock/crew", "places").split()
    assert place.states() == {"one": "done"} and len(places) == 3 and len(set(places)) == 1


def test_the_worktree_of_a_failed_task_is_kept_and_listed_and_a_retry_goes_on_in_it(
    place: Place, repository: Repository
) -> None:
    stage(place, {"one": {"run": "echo half >> work; test -e ok", "retries": 0, "verify": "true"}})
    place.drive()
    task = place.task("one")
    kept = kept_path(task)
    assert task.state == "deadletter" and (kept / "work").read_text() == "half\n"
    assert [one.path for one in place.team.report().kept] == [str(kept)]
    assert [one.task_id for one in place.team.status().kept] == [task.id]
    (info,) = [one for one in place.team.doctor(repair=True).findings if one.path == str(kept)]
    assert info.level == "info" and "is kept" in info.what and kept.exists()
    (kept / "ok").touch()
    place.team.retry("one")
    assert place.drive() == "finished"
    assert repository.show("interlock/crew", "work").split() == ["half", "half"] and not kept.exists()
    assert place.team.report().kept == []


def test_the_agents_own_commits_stay_and_what_it_left_is_committed_with_what_it_said(
    place: Place, repository: Repository
) -> None:
    bob = place.program("bob", """
        open('a', 'w').write('a')
        subprocess.run(['git', 'add', 'a'], check=True)
        subprocess.run(['git', 'commit', '-qm', 'My own commit'], check=True)
        open('b', 'w').write('b')
        say('wrote a and b')
    """)  # fmt: skip
    stage(place, {"one": {"subject": "Write two"}}, {"bob": bob})
    assert place.drive() == "finished"
    told = repository.git("log", "-2", "--format=%s|%an", "interlock/crew^2").split("\n")
    assert told == ["Write two|Una User", "My own commit|Una User"]
    assert "wrote a and b" in repository.git("log", "--format=%b", "-2", "interlock/crew")


def test_without_an_identity_interlock_commits_in_its_own_name(
    place: Place, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.git("config", "--unset", "user.name")
    repository.git("config", "--unset", "user.email")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    stage(place, {"one": {"run": "touch a"}})
    assert place.drive() == "finished"
    told = repository.git("log", "--format=%an <%ae>, %cn", "main..interlock/crew").split("\n")
    assert told == ["Interlock <interlock@localhost>, Interlock"] * 2


def test_an_agent_that_leaves_its_branch_is_merged_all_the_same(place: Place, repository: Repository) -> None:
    run = "git switch -q -c elsewhere && touch a && git add a && git commit -qm a && git switch -q --detach && touch b"
    stage(place, {"one": {"run": run}})
    assert place.drive() == "finished"
    assert set(repository.files("interlock/crew")) >= {"a", "b"}


def test_neither_hooks_nor_signing_of_the_user_have_a_part_in_our_commits(place: Place, repository: Repository) -> None:
    for hook in (
        "pre-commit",
        "commit-msg",
        "post-checkout",
        "post-merge",
        "pre-merge-commit",
        "reference-transaction",
    ):
        path = place.work / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {place.path}/hooked-{hook}\nexit 1\n")
        path.chmod(0o755)
    repository.git("config", "commit.gpgSign", "true")
    repository.git("config", "gpg.program", "false")
    stage(place, {"one": {"run": "touch a"}})
    assert place.drive() == "finished"
    assert place.states() == {"one": "done"}
    assert place.team.merge(everything=True).merged
    assert not list(place.path.glob("hooked-*"))


def test_a_name_that_is_no_unicode_is_told_and_merged(place: Place, repository: Repository) -> None:
    name, mine = os.fsdecode(b"caf\xe9"), place.work / os.fsdecode(b"caf\xe9")
    run = f"printf made > \"$(printf 'caf\\351')\"; printf mine > {place.work}/\"$(printf 'caf\\351')\""
    stage(place, {"one": {"run": run, "verify": "test -s caf*"}})
    assert place.drive() == "finished"
    task = place.task("one")
    assert task.state == "done" and task.worktree is not None
    assert task.worktree["changes"]["files"] == [{"path": "caf\\xe9", "status": "added"}]
    told = [event.payload["changed"] for event in place.team.events()[0] if event.type == "checkout.changed"]
    assert told == [["caf\\xe9"]]
    assert place.team.merge(everything=True, dry_run=True).dirty == ["caf\\xe9"]
    with pytest.raises(WorktreeRefused, match="would be touched") as caught:
        place.team.merge(everything=True)
    assert mine.read_text() == "mine" and caught.value.message.encode()
    mine.unlink()
    assert place.team.merge(everything=True).merged and mine.read_text() == "made" and name in os.listdir(place.work)


def test_variables_of_a_surrounding_git_lead_nowhere(
    place: Place, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = repository.untouchable()
    monkeypatch.setenv("GIT_DIR", str(place.work / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(place.work / ".git" / "index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(place.work))
    stage(place, {"one": {"run": "touch a"}})
    assert place.drive() == "finished"
    assert place.states() == {"one": "done"} and repository.untouchable() == before


def test_a_task_that_changed_nothing_is_done_without_a_merge(place: Place, repository: Repository) -> None:
    stage(place, {"look": {"run": "ls", "verify": "true"}})
    assert place.drive() == "finished"
    task = place.task("look")
    assert task.state == "done" and task.worktree is not None and task.worktree["merged"] is None
    assert repository.head("interlock/crew") == repository.head("main")


@pytest.mark.long
def test_the_integration_branch_follows_the_user_once_they_have_all_of_it(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "touch a"}})
    place.drive()
    mine = repository.commit("mine", mine="x")
    stage(place, {"one": {"run": "touch a"}, "two": {"run": "test ! -e mine && touch b"}})
    place.drive()
    assert place.states()["two"] == "done"  # not all of it: it stays where it is
    assert place.team.merge(everything=True).merged and mine in repository.git("log", "--format=%H")
    stage(
        place, {"one": {"run": "touch a"}, "two": {"run": "test ! -e mine && touch b"}, "three": {"run": "cp mine c"}}
    )
    place.drive()
    assert place.states()["three"] == "done" and repository.show("interlock/crew", "c") == "x"


def test_deleting_a_team_leaves_its_branches_and_no_worktrees(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "touch a"}, "two": {"run": "touch b; exit 1", "retries": 0}})
    place.drive()
    two = place.task("two").id
    place.home.delete_team("crew")
    assert repository.git("worktree", "list").count("\n") == 0
    assert repository.branches() == [f"interlock-work/crew/{two}", "interlock/crew", "main"]
    stage(place, {"one": {"run": "touch z"}})
    with pytest.raises(WorktreeRefused, match="of an older team"):
        place.drive()
    repository.git("merge", "--quiet", "interlock/crew")
    assert place.drive() == "finished"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        ("rm -rf .git", "not in a git repository"),
        ("rm -rf .git && git init -q", "has no commit yet"),
        ("rm -rf * .git .gitignore && git init -q --bare .", "is a bare repository"),
        ("git config core.bare true", "though there is a checkout.*config core.bare false"),
    ],
)
def test_where_worktrees_cannot_be_had_nothing_is_made(
    place: Place, repository: Repository, spoil: str, says: str
) -> None:
    os.system(f"cd {place.work} && {spoil}")
    with pytest.raises(WorktreeRefused, match=says):
        stage(place, {"one": {"run": "true"}})
    assert place.home.teams() == []


def test_a_repository_that_git_cannot_read_now_is_not_said_to_be_none(place: Place, repository: Repository) -> None:
    config = place.work / ".git" / "config"
    before = config.read_text()
    config.write_text("[core")  # As an editor leaves it for a moment.
    with pytest.raises(GitFailed, match="bad config"):
        stage(place, {"one": {"run": "touch made"}})
    config.write_text(before)
    stage(place, {"one": {"run": "touch made"}})
    assert place.drive() == "finished"


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        ("git checkout -q --detach", "no branch checked out"),
        ("git branch interlock", "Rename it"),
        ("git switch -q -c interlock/crew", "have it checked out"),
    ],
)
def test_what_forbids_an_integration_branch_is_said_before_anything_starts(
    place: Place, repository: Repository, prepare: str, says: str
) -> None:
    stage(place, {"one": {"run": "touch ../started"}})
    os.system(f"cd {place.work} && {prepare}")
    with pytest.raises(WorktreeRefused, match=says):
        place.drive()
    assert place.task("one").run == 0


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("story.txt", "not ignored by git"),
        ("gone.env", "does not exist"),
        ("build/pipe", "neither a file nor a directory"),
        (".env", "leads out"),
        ("late.env", "is ignored by .gitignore, whose changes are not committed"),
    ],
)
def test_files_that_cannot_be_copied_are_refused_before_anything_is_made(
    place: Place, repository: Repository, path: str, says: str
) -> None:
    (place.work / "build").mkdir()
    os.mkfifo(place.work / "build/pipe")
    if path == "late.env":  # It would have been in the commit of an agent: its worktree does not ignore it.
        (place.work / path).write_text("KEY=secret")
        (place.work / ".gitignore").write_text("*.pyc\n.env\nbuild/\nlate.env\n")
    (place.path / "outside").write_text("secret")
    (place.work / ".env").symlink_to(place.path / "outside")
    with pytest.raises(WorktreeRefused, match=says):
        stage(place, {"one": {"run": "true"}}, copy=[path])
    assert place.home.teams() == []


def test_a_home_inside_the_checkout_is_refused_unless_git_ignores_it(
    tmp_path: Path, place: Place, repository: Repository
) -> None:
    import interlock

    inside = interlock.connect(str(place.work / "home"))
    try:
        (place.path / "plan.yaml").write_text(
            "team: crew\nworkdir: work\nisolation: worktree\nmembers: {ada: {agent: shell}}\n"
            "tasks: {a: {run: touch a}}\n"
        )
        inside.stage(str(place.path / "plan.yaml"))
        with pytest.raises(WorktreeRefused, match="INTERLOCK_HOME"):
            inside.drive("crew")
        (place.work / ".git" / "info" / "exclude").write_text("home/\n")
        assert inside.drive("crew") == "finished" and inside.team("crew").task("a").state == "done"
    finally:
        inside.close()


def test_a_git_that_hangs_is_ended_and_says_so(
    place: Place, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = place.path / "bin"
    shim.mkdir()
    (shim / "git").write_text("#!/bin/sh\nsleep 300\n")
    (shim / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim}:{os.environ['PATH']}")
    monkeypatch.setenv("INTERLOCK_GIT_TIMEOUT", "1")
    with pytest.raises(GitFailed, match="git_timeout"):
        stage(place, {"one": {"run": "true"}})


def test_without_git_the_plan_says_so(place: Place, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = place.path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    with pytest.raises(GitFailed, match="install it"):
        stage(place, {"one": {"run": "true"}})


def test_isolation_is_a_setting_of_the_team_too(place: Place, repository: Repository) -> None:
    place.stage({"one": {"run": "touch a"}})
    place.team.configure({"isolation": "worktree", "worktree_setup": "touch b"})
    assert place.drive() == "finished"
    assert {"a", "b"} <= set(repository.files("interlock/crew")) and not place.lines("a")


def test_a_task_completed_by_hand_without_a_worktree_is_done_as_ever(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "touch a"}})
    team = place.team
    team.claim("one", by="lead")
    assert team.complete("one", by="lead").state == "done"


def test_what_a_leftover_is_the_doctor_knows_and_removes(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "touch a"}})
    place.drive()
    root = Path(place.team.directory) / "worktrees"
    task = place.task("one")
    repository.git("worktree", "add", "--quiet", "--detach", str(root / task.id), "main")
    repository.git("worktree", "add", "--quiet", "--detach", str(root / f"merge-{task.id}"), "main")
    (root / "TASK-2020-01-01-001").mkdir()
    found = [one for one in place.team.doctor().findings if "no longer needed" in one.what]
    assert len(found) == 3 and not place.team.doctor().healthy
    assert place.team.doctor(repair=True).healthy and list(root.iterdir()) == []
    assert repository.git("worktree", "list").count("\n") == 0


def test_every_refusal_says_what_to_do(home: Home, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(
        "team: crew\nworkdir: .\nisolation: worktree\nmembers: {ada: {agent: shell}}\ntasks: {a: {run: ls}}\n"
    )
    with pytest.raises(InterlockError) as caught:
        home.stage(str(tmp_path / "plan.yaml"))
    assert caught.value.code == "worktree_refused" and "git init" in caught.value.message


def test_what_running_programs_leaves_behind_is_not_committed(place: Place, repository: Repository) -> None:
    leave = "mkdir -p __pycache__ node_modules && echo 1 | tee __pycache__/a.pyc node_modules/x a"
    place.stage({"one": {"run": leave}}, isolation="worktree")
    assert place.drive() == "finished" and place.task("one").state == "done"
    files = repository.git("ls-tree", "-r", "--name-only", "interlock/crew").split()
    assert "a" in files and not [name for name in files if "pycache" in name or "node_modules" in name]


def test_what_is_not_committed_is_said_before_anything_starts(place: Place, repository: Repository) -> None:
    def notes() -> tuple[str, ...]:
        place.stage({"one": {"run": "true"}}, isolation="worktree")
        return place.home.stage(str(place.path / "plan.yaml"), dry_run=True).notes

    assert notes() == ()
    (place.work / "agents").mkdir()
    (place.work / "agents" / "ada.py").write_text("print()")
    (place.work / "a b.txt").write_text("staged")
    repository.git("add", "a b.txt")
    repository.git("mv", "story.txt", "tale.txt")
    before = repository.untouchable()
    (note,) = notes()
    assert "not committed" in note and "git commit" in note and repository.untouchable() == before
    assert all(name in note for name in ("agents/", "a b.txt", "tale.txt")) and ": story.txt" not in note
    for number in range(9):
        (place.work / f"more{number}").touch()
    assert " and 7 more" in notes()[0] and "more8" not in notes()[0]
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message", "all")
    assert notes() == ()


def test_commits_that_the_integration_branch_has_not_are_said_until_both_are_merged(
    place: Place, repository: Repository
) -> None:
    stage(place, {"one": {"run": "echo 1 > one"}})
    repository.commit("before anything ran", zero="0")
    assert place.drive() == "finished" and repository.show("interlock/crew", "zero") == "0"
    repository.commit("mine", mine="x")
    more = {"one": {"run": "echo 1 > one"}, "two": {"run": "cp mine two", "retries": 0}}
    place.stage(more, isolation="worktree")
    plan = str(place.path / "plan.yaml")
    (note,) = place.home.stage(plan).notes
    assert "main has 1 commit that interlock/crew has not" in note
    assert "interlock merge --all --team crew" in note
    place.team.merge(everything=True)
    assert place.home.stage(plan).notes == ()
    assert place.drive() == "finished" and place.states() == {"one": "done", "two": "done"}
