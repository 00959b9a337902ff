"""Merging: one at a time, proved on the merged tree, and whatever dies in the middle is taken up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from interlock.errors import InvalidRequest, InvalidTransition
from tests.behaviours import drive
from tests.behaviours.driving import ROOT, SHELL, Place, follow, running
from tests.behaviours.repository import Repository, checkout, kept_path, stage
from tests.command import command
from tests.forked import Forked
from tests.waiting import until

TWO = {"ada": SHELL, "bea": SHELL}
MEND = """
import os, pathlib
story = pathlib.Path('story.txt')
text = story.read_text()
if '<<<<<<<' in text:
    open(PLACE + '/prompt-' + NAME, 'w').write(prompt)
    lines = [line for line in text.splitlines() if not line.startswith(('<<<<<<<', '=======', '>>>>>>>'))]
    story.write_text('\\n'.join(lines) + '\\n')
else:
    together()
    story.write_text(text.replace('two', NAME))
"""


@pytest.fixture
def repository(place: Place) -> Repository:
    """The user's repository, in the directory to work in."""
    return Repository(place.work)


def meeting(place: Place, name: str, source: str, size: int = 2) -> dict[str, object]:
    """A program that can wait, by `together()`, until so many of them have come so far."""
    where = place.path / "meeting"
    where.mkdir(exist_ok=True)
    return place.program(
        name,
        f"NAME, PLACE = {name!r}, {str(place.path)!r}\n"
        "def together():\n"
        f"    open({str(where)!r} + '/' + NAME, 'w').close()\n"
        f"    while len(os.listdir({str(where)!r})) < {size}: time.sleep(0.01)\n" + source,
    )


def rendezvous(place: Place, name: str, size: int = 2) -> str:
    """The same for a shell member."""
    where = place.path / "meeting"
    where.mkdir(exist_ok=True)
    return f"touch {where}/{name}; until test $(ls {where} | wc -l) -ge {size}; do sleep 0.01; done; "


def outcomes(place: Place, key: str) -> list[str]:
    """How the merges of a task ended."""
    id = place.task(key).id
    return [e.payload["outcome"] for e in place.team.events()[0] if e.type == "merge.finished" and e.task_id == id]


@pytest.mark.long
def test_of_two_that_conflict_the_second_author_mends_it(place: Place, repository: Repository) -> None:
    before = repository.untouchable()
    members = {name: meeting(place, name, MEND) for name in ("ann", "ben")}
    tasks = {
        name: {"subject": f"Write {name}", "assignee": name, "verify": f"grep {name} story.txt"} for name in members
    }
    tasks["last"] = {"run": "cp story.txt seen.txt", "blocked_by": ["ann", "ben"]}
    stage(place, tasks, {**members, "ada": SHELL}, parallel=2)
    words = ("--home", place.home.path, "run", str(place.path / "plan.yaml"), "--unattended")
    done = command(*words, directory=place.path)
    assert done.code == 0, done.out + done.err
    assert "interlock/crew has the work of 3 tasks" in done.out
    assert place.states() == dict.fromkeys(tasks, "done")
    assert repository.untouchable() == before
    story = repository.show("interlock/crew", "story.txt").split()
    assert sorted(story) == ["ann", "ben", "one", "three"]
    assert repository.show("interlock/crew", "seen.txt").split() == story
    (name,) = [name for name in members if (place.task(name).worktree or {}).get("returned")]
    assert outcomes(place, name) == ["conflict", "merged"]
    prompt = (place.path / f"prompt-{name}").read_text()
    assert "in: story.txt" in prompt and "conflict markers" in prompt and "interlock/crew" not in prompt


def test_a_command_whose_result_conflicts_is_run_again_on_what_was_merged(place: Place, repository: Repository) -> None:
    run = "{}echo $INTERLOCK_MEMBER >> story.txt"
    tasks = {
        name: {"run": run.format(rendezvous(place, name)), "assignee": name, "verify": f"grep {name} story.txt"}
        for name in TWO
    }
    stage(place, tasks, TWO, parallel=2)
    assert place.drive(parallel=2) == "finished"
    assert place.states() == dict.fromkeys(tasks, "done")
    story = repository.show("interlock/crew", "story.txt").split()
    assert sorted(story) == ["ada", "bea", "one", "three", "two"]
    (name,) = [name for name in TWO if (place.task(name).worktree or {}).get("returned")]
    assert outcomes(place, name) == ["conflict", "merged"]
    assert [(run.member, run.outcome) for run in place.team.runs(name)] == [(name, "done")] * 2
    (said,) = [e.payload["text"] for e in place.team.events()[0] if e.type == "task.logged"]
    assert "It conflicts with what others have done meanwhile, in: story.txt." in said
    (told,) = place.team.report().incidents
    assert (told.run, told.member, told.outcome) == (1, name, "merge: conflict")
    (message,) = [one.content for one in place.team.inbox(name) if "It conflicts" in one.content]
    assert "Its command is run again, on what others have done meanwhile" in message and "markers" not in message


TURNS = (
    "n=$(ls {0} | grep -c ^$INTERLOCK_MEMBER); touch {0}/$INTERLOCK_MEMBER.$n; "
    "until test $(ls {0} | grep -c $n$) -ge $((3 - n)); do sleep 0.01; done; echo $INTERLOCK_MEMBER >> story.txt"
)
"""Of three that begin at once, two begin at once again, and one of them once more."""


def test_what_meets_something_newer_each_time_goes_back_each_time_and_nobody_is_asked(
    place: Place, repository: Repository
) -> None:
    where = place.path / "turns"
    where.mkdir()
    members = {**TWO, "cy": SHELL}
    stage(place, {name: {"run": TURNS.format(where), "assignee": name} for name in members}, members, parallel=3)
    assert place.drive(parallel=3) == "finished"
    assert place.states() == dict.fromkeys(members, "done") and place.team.questions() == []
    assert sorted(repository.show("interlock/crew", "story.txt").split()) == [*members, "one", "three", "two"]
    assert sorted(map(len, (outcomes(place, name) for name in members))) == [1, 2, 3]


STUBBORN = """
import pathlib
subprocess.run(['git', 'merge', '--abort'], capture_output=True)
together()
pathlib.Path('story.txt').write_text(NAME + '\\n')
"""


def conflicting(place: Place) -> str:
    """Two that conflict, of whom neither fixes it; the key of the one that is asked about."""
    members = {name: meeting(place, name, STUBBORN) for name in ("ann", "ben")}
    stage(place, {name: {"subject": name, "assignee": name} for name in members}, members, parallel=2)
    assert place.drive(parallel=2) == "finished"
    (need,) = place.needs("merge")
    states = place.states()
    (key,) = [key for key, state in states.items() if state == "review"]
    assert need.task_id == place.task(key).id and "story.txt" in need.text
    assert sorted(states.values()) == ["done", "review"] and outcomes(place, key) == ["conflict", "conflict"]
    return key


def test_a_second_conflict_is_a_question_and_retry_merges_what_a_person_has_mended(
    place: Place, repository: Repository
) -> None:
    key = conflicting(place)
    assert place.team.report().left[0].why == "could not be merged; waits for an answer"
    (question,) = place.team.questions()
    context = str(question.context)
    assert "into your worktree now" not in context, "nothing was merged there this time"
    assert "It conflicts" not in context and "`drop` gives it up" in " ".join(context.split())
    with pytest.raises(InvalidRequest, match="`retry`"):
        place.team.reply(key, "perhaps")
    assert place.team.reply(key, "retry").state == "review"  # nothing was fixed
    work = kept_path(place.task(key))
    checkout(work).git("merge", "--quiet", "interlock/crew", check=False)
    (work / "story.txt").write_text("mended\n")
    assert place.team.reply(key, "retry").state == "done"
    assert repository.show("interlock/crew", "story.txt") == "mended"
    assert place.team.questions() == [] and place.team.doctor().healthy


@pytest.mark.long
def test_a_question_about_a_merge_can_send_the_author_back_or_drop_the_work(
    place: Place, repository: Repository
) -> None:
    key = conflicting(place)
    back = place.team.reply(key, "changes: take both lines")
    assert (back.state, back.reserved_for, back.findings) == ("ready", key, "take both lines")
    assert place.drive() == "finished" and place.task(key).state == "review"
    dropped = place.team.reply(key, "drop")
    assert dropped.state == "cancelled" and kept_path(dropped).is_dir()
    assert [one.task_id for one in place.team.report().kept] == [dropped.id]
    assert str((dropped.worktree or {})["branch"]) in repository.branches()


def test_conflict_markers_are_never_committed(place: Place, repository: Repository) -> None:
    lazy = "if 'conflict markers' not in prompt:\n    together()\n    open('story.txt', 'w').write(NAME + '\\n')\n"
    members = {name: meeting(place, name, lazy) for name in ("ann", "ben")}
    stage(place, {name: {"subject": name, "assignee": name} for name in members}, members, parallel=2)
    place.drive(parallel=2)
    (question,) = place.team.questions()
    assert question.kind == "merge" and "still hold conflict markers: story.txt" in question.text
    assert "<<<<" not in repository.git("log", "-p", "--all")


@pytest.mark.long
def test_what_is_red_only_when_merged_goes_back_with_the_output_and_the_branch_stays_green(
    place: Place, repository: Repository
) -> None:
    source = """
        together() if 'Findings' not in prompt else os.remove(NAME + '.n')
        if 'Findings' not in prompt: open(NAME + '.n', 'w').close()
    """
    members = {name: meeting(place, name, _dedent(source)) for name in ("ann", "ben")}
    verify = "ls; test $(ls *.n 2>/dev/null | wc -l) -le 1"
    tasks = {name: {"subject": name, "assignee": name, "verify": verify} for name in members}
    stage(place, tasks, members, parallel=2)
    assert place.drive(parallel=2) == "finished"
    assert place.states() == {"ann": "done", "ben": "done"}
    (second,) = [name for name in members if outcomes(place, name) == ["red", "merged"]]
    (first,) = [name for name in members if name != second]
    assert [name for name in repository.files("interlock/crew") if name.endswith(".n")] == [f"{first}.n"]
    commits = repository.git("log", "--first-parent", "--format=%H", "interlock/crew").split()
    assert all(len([n for n in repository.files(one) if n.endswith(".n")]) <= 1 for one in commits)
    assert "ann.n" in place.log(second, 1) or place.task(second).state == "done"


def _dedent(text: str) -> str:
    import textwrap

    return textwrap.dedent(text)


@pytest.mark.long
def test_merges_of_many_happen_one_at_a_time(place: Place, repository: Repository) -> None:
    members = {f"m{n}": SHELL for n in range(4)}
    verify = f"mkdir {place.path}/alone && sleep 0.05 && rmdir {place.path}/alone"
    tasks = {f"t{n}": {"run": rendezvous(place, f"t{n}", 4) + f"touch f{n}"} for n in range(4)}
    stage(place, tasks, members, parallel=4)
    for key in tasks:
        place.team.update(key, verify=f"test ! -e merged || {{ {verify}; }}")
    assert place.drive(parallel=4) == "finished"
    assert place.states() == dict.fromkeys(tasks, "done")
    told = [e.type for e in place.team.events()[0] if e.type in ("merge.started", "merge.finished")]
    assert told == ["merge.started", "merge.finished"] * 4
    assert len([subject for subject in repository.log("interlock/crew") if subject.startswith("Merge TASK")]) == 4


@pytest.mark.long
def test_two_runners_never_merge_at_once(place: Place, repository: Repository) -> None:
    tasks = {f"t{n}": {"run": f"touch f{n}", "verify": f"test -e f{n}"} for n in range(6)}
    stage(place, tasks, {"ada": SHELL, "bea": SHELL})
    with place.runner() as one, place.runner(endless=True) as two:
        # A signal that comes before it has begun to work is not for it to handle.
        follow(place.team, lambda event: event.type == "runner.started" and bool(event.payload.get("endless")))
        follow(place.team, lambda event: list(place.states().values()).count("done") == 6)
        two.send(signal.SIGINT)
        assert one.wait() == two.wait() == 0
    told = [e.type for e in place.team.events()[0] if e.type in ("merge.started", "merge.finished")]
    assert told == ["merge.started", "merge.finished"] * 6
    assert {f"f{n}" for n in range(6)} <= set(repository.files("interlock/crew"))


@pytest.mark.long
def test_many_who_claim_the_merge_slot_at_one_moment_get_it_once(place: Place, repository: Repository) -> None:
    from interlock.core.tasks import merge
    from interlock.core.tasks.find import find
    from interlock.core.unit_of_work import Principal
    from interlock.runner.run_processes import verifier

    one = waiting_for_its_merge(place)
    workspace = place.team._workspace  # type: ignore[attr-defined]
    gate, got = threading.Barrier(6), []

    def claim() -> None:
        gate.wait()
        with workspace.act(Principal("interlock")) as act:
            got.append(merge.begin(act, find(act.rows, one), verifier(), alive=lambda process: True))

    threads = [threading.Thread(target=claim) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [False] * 5 + [True]


def waiting_for_its_merge(place: Place) -> str:
    """A task that is in the queue for its merge, and no runner there; its id."""
    stage(
        place,
        {"one": {"subject": "One", "assignee": "ada", "verify": "test -e a"}},
        {"ada": {"agent": {"command": ["true"]}}},
    )
    id = place.task("one").id
    run = {
        "TEAM": "crew",
        "MEMBER": "ada",
        "SESSION": "mine",
        "RUN_TOKEN": os.urandom(16).hex(),
        "HOME": place.home.path,
    }
    environment = {**os.environ, **{f"INTERLOCK_{name}": value for name, value in run.items()}}
    # Inside of a run nobody waits for a merge: it is left in the queue.
    work = (
        f"import interlock, pathlib\nteam = interlock.connect().team('crew')\nteam.claim({id!r})\n"
        f"pathlib.Path(team.worktree({id!r}).worktree['directory'], 'a').touch()\nteam.complete({id!r})"
    )
    subprocess.run([sys.executable, "-c", work], env=environment, check=True, cwd=ROOT)
    assert place.task("one").merging is not None
    return id


@pytest.mark.long
def test_a_poll_merges_what_nobody_does_and_what_is_being_merged_is_guarded(
    place: Place, repository: Repository
) -> None:
    one = waiting_for_its_merge(place)
    with pytest.raises(InvalidTransition, match="is being merged"):
        place.team.approve(one)
    with pytest.raises(InvalidTransition, match="is being merged"):
        place.team.reject(one, reason="no")
    assert place.team.questions() == [] and place.team.status().needs_me == []
    assert place.team.doctor().healthy
    (action,) = place.team.poll(dry_run=True).actions
    assert (action.type, action.task_id) == ("merge", one)
    assert place.team.poll().actions_executed == 1 and place.task("one").state == "done"
    assert place.team.poll().actions == []


@pytest.mark.long
def test_a_claim_goes_through_while_a_slow_git_moves_the_integration_branch(
    place: Place, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = waiting_for_its_merge(place)
    other = place.team.create_task("Something else").id
    slow = place.path / "slow"
    slow.mkdir()
    landing, released = place.path / "landing", place.path / "released"
    (slow / "git").write_text(
        f"#!/bin/sh\ncase \"$*\" in *'update-ref --stdin'*) touch {landing}; "
        f'until test -e {released}; do sleep 0.01; done;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}{os.pathsep}{os.environ['PATH']}")
    merging = threading.Thread(target=place.team.poll)
    merging.start()
    try:
        until(landing.exists)
        assert place.team.claim(other).state == "in-progress"
        assert place.team.task(one).state == "review"
    finally:
        released.touch()
        merging.join()
    assert place.team.task(one).state == "done"


def test_a_reviewer_sees_what_is_to_be_merged_before_it_is(place: Place, repository: Repository) -> None:
    rita = place.program("rita", """
        import pathlib
        ok = pathlib.Path('a').read_text() == '1' and os.path.basename(os.getcwd()).startswith('review-')
        pathlib.Path('rubbish').write_text('x')
        say('approve' if ok and 'git diff' in prompt else 'changes: no')
    """)  # fmt: skip
    stage(place, {"one": {"run": "printf 1 > a", "review": "rita", "verify": "true"}}, {"ada": SHELL, "rita": rita})
    assert place.drive() == "finished"
    assert place.states() == {"one": "done"} and "rubbish" not in repository.files("interlock/crew")
    told = [e.type for e in place.team.events()[0] if e.type in ("review.started", "task.approved", "merge.queued")]
    assert told == ["review.started", "task.approved", "merge.queued"]
    assert os.listdir(Path(place.team.directory) / "worktrees") == []


def test_a_person_approves_after_a_look_at_the_diff_and_the_merge_is_done_there_and_then(
    place: Place, repository: Repository
) -> None:
    stage(place, {"one": {"run": "echo four >> story.txt; touch new", "review": "human"}})
    place.drive()
    patch = place.team.diff("one").diff
    assert "+four" in patch and "new file" in patch and "story.txt" in place.team.diff("one", stat=True).diff
    assert repository.head("interlock/crew") == repository.head("main")
    assert place.team.approve("one").state == "done"
    assert place.team.diff("one").diff == patch


def test_a_review_that_comes_back_says_why(place: Place, repository: Repository) -> None:
    run = "{}echo $INTERLOCK_MEMBER >> story.txt"
    tasks = {
        name: {"run": run.format(rendezvous(place, name)), "assignee": name, "review": "human"} for name in TWO
    }  # fmt: skip
    stage(place, tasks, TWO, parallel=2)
    place.drive(parallel=2)
    first = place.team.questions()
    assert all(one.again is None and one.text.endswith(")?") for one in first)
    for name in TWO:
        place.team.approve(name)
    place.drive(parallel=2)
    (again,) = place.team.questions()
    why = "It conflicts with what others have done meanwhile, in: story.txt."
    assert again.text.endswith(f"? Again, since it was approved but not merged: {why}"), again.text
    assert again.again is not None and again.again["by"] == "human" and again.again["at"] < again.asked_at
    (need,) = place.team.status().needs_me
    assert why in need.text
    assert place.team.approve(again.task_id).state == "done"


def test_a_person_is_told_why_the_reviewer_did_not_decide(place: Place, repository: Repository) -> None:
    rita = place.program("rita", "say('I cannot read this language.')")
    stage(place, {"one": {"run": "touch a", "review": "rita"}}, {"ada": SHELL, "rita": rita})
    place.drive()
    (asked,) = place.team.questions()
    assert asked.text.endswith("? rita gave no verdict in 4 attempts. The last: it ended without a verdict"), asked.text


def test_a_rejected_task_goes_on_in_its_worktree(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "echo 1 >> a", "review": "human"}})
    place.drive()
    place.team.reject("one", reason="once more")
    place.drive()
    (asked,) = place.team.questions()
    assert asked.text.endswith("? Again, after the changes you asked for: once more")
    assert place.team.approve("one").state == "done"
    assert repository.show("interlock/crew", "a").split() == ["1", "1"]


@pytest.mark.long
def test_a_task_that_is_cancelled_while_it_is_merged_is_not_merged(place: Place, repository: Repository) -> None:
    verify = f"case $PWD in */merge-*) touch {place.path}/here; sleep 60;; esac"
    stage(place, {"one": {"run": "touch a", "verify": verify}})
    with place.runner() as runner:
        until(lambda: (place.path / "here").exists())
        place.team.cancel("one")
        runner.send(signal.SIGTERM)
        runner.wait()
    assert place.states() == {"one": "cancelled"} and repository.head("interlock/crew") == repository.head("main")


def test_a_merge_goes_on_to_its_end_and_lands_nothing_of_a_task_that_was_cancelled_meanwhile(
    place: Place, repository: Repository
) -> None:
    verify = (
        f"case $PWD in */merge-*) touch {place.path}/here; until test -e {place.path}/go; do sleep 0.05; done;; esac"
    )
    stage(place, {"one": {"run": "touch a", "verify": verify}})
    with place.runner() as runner:
        until(lambda: (place.path / "here").exists())
        place.team.cancel("one")
        (place.path / "go").touch()
        runner.hears("^ended: finished")
    assert place.states() == {"one": "cancelled"} and repository.head("interlock/crew") == repository.head("main")
    assert "merged" not in outcomes(place, "one")


@pytest.mark.long
def test_a_stop_puts_a_merge_back_and_the_next_run_does_it(place: Place, repository: Repository) -> None:
    verify = (
        f"case $PWD in */merge-*) touch {place.path}/here; until test -e {place.path}/go; do sleep 0.05; done;; esac"
    )
    stage(place, {"one": {"run": "touch a", "verify": verify}})
    with place.runner() as runner:
        until(lambda: (place.path / "here").exists())
        runner.send(signal.SIGTERM)
        assert runner.wait() == 0
    task = place.task("one")
    assert task.merging is not None and task.merging["stage"] == "waiting"
    (place.path / "go").touch()
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    assert outcomes(place, "one") == ["postponed", "merged"]


@pytest.mark.long
def test_a_soft_stop_still_merges_what_was_finished(place: Place, repository: Repository) -> None:
    run = f"touch {place.path}/here; until test -e {place.path}/go; do sleep 0.02; done; touch a"
    stage(place, {"one": {"run": run}, "two": {"run": "touch b", "blocked_by": ["one"]}})
    with place.runner() as runner:
        until(lambda: (place.path / "here").exists())
        runner.send(signal.SIGINT)
        runner.hears("interrupted")
        (place.path / "go").touch()
        runner.wait()
    assert place.states() == {"one": "done", "two": "ready"}


def test_where_the_integration_branch_is_checked_out_a_person_is_asked(place: Place, repository: Repository) -> None:
    other = place.path / "other"
    stage(place, {"one": {"run": f"git -C {place.work} worktree add -q {other} interlock/crew; touch a"}})
    place.drive()
    (question,) = place.team.questions()
    assert question.kind == "merge" and f"checked out in {other}" in question.text
    repository.git("worktree", "remove", "--force", str(other))
    assert place.team.reply("one", "retry", question=question.id).state == "done"


@pytest.mark.long
def test_whoever_is_killed_in_the_middle_of_a_merge_leaves_nothing_and_the_next_poll_goes_on(
    place: Place, repository: Repository
) -> None:
    before = repository.untouchable()
    verify = f"case $PWD in */merge-*) echo $$ >> {place.path}/pids; test -e {place.path}/go || sleep 300;; esac"
    stage(place, {"one": {"run": "touch a", "verify": verify}, "two": {"run": "touch b", "blocked_by": ["one"]}})
    with place.runner() as runner:
        until(lambda: (place.path / "pids").exists() and bool((place.path / "pids").read_text()))
        runner.kill()
    assert place.task("one").merging is not None and place.team.doctor().findings is not None
    (place.path / "go").touch()
    assert place.drive() == "finished"
    assert place.states() == {"one": "done", "two": "done"} and repository.untouchable() == before
    assert not running(int((place.path / "pids").read_text().split()[0]))
    assert os.listdir(Path(place.team.directory) / "worktrees") == [] and place.team.doctor().healthy


SHIM = """#!/bin/sh
# Kills whoever calls git, right before or after its call number $AT; each call is one line of $COUNT.
echo x >> "$COUNT"
if [ "$(wc -l < "$COUNT")" -eq "$AT" ]; then
  [ "$WHEN" = before ] && kill -9 $PPID && exit 1
  {git} "$@"; code=$?
  kill -9 $PPID
  exit $code
fi
exec {git} "$@"
"""


def killed_at(place: Place, call: int, when: str) -> bool:
    """Drive the team in a process that is killed at its n-th call of git; false where there were not so many."""
    count = place.path / "count"
    count.unlink(missing_ok=True)
    count.touch()
    path = f"{place.path / 'shim'}:{os.environ['PATH']}"
    environment = {"AT": str(call), "WHEN": when, "COUNT": str(count), "PATH": path}
    words = (place.home.path, json.dumps({"parallel": 2}))
    done = Forked(drive.main, *words, directory=ROOT, environment=environment)
    done.communicate(200)
    return done.returncode == -signal.SIGKILL


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(more, marks=pytest.mark.storm) for more in (2, 3))])
@pytest.mark.timeout(900)
def test_killed_at_any_call_of_git_the_next_run_repairs_it(place: Place, seed: int) -> None:
    tasks = {
        "one": {"run": "echo 1 > a", "verify": "test -s a"},
        "two": {"run": "echo 2 > b", "verify": "test -s b"},
        "three": {"run": "cat a b > c", "verify": "test $(wc -l < c) = 2", "blocked_by": ["one", "two"]},
    }
    repository = Repository(place.work)
    before = repository.untouchable()
    stage(place, tasks, TWO, parallel=2)
    shim = place.path / "shim"
    shim.mkdir()
    (shim / "git").write_text(SHIM.replace("{git}", subprocess.check_output(["which", "git"], text=True).strip()))
    (shim / "git").chmod(0o755)
    for step in range(6):
        call = 1 + (seed * 13 + step * 17) % 60
        if not killed_at(place, call, "before" if (seed + step) % 2 else "after"):
            break
        assert repository.untouchable() == before
    place.drive(parallel=2)
    assert place.states() == dict.fromkeys(tasks, "done"), place.team.report()
    assert repository.untouchable() == before
    assert repository.show("interlock/crew", "c").split() == ["1", "2"]
    assert place.team.doctor(repair=True).healthy
    assert os.listdir(Path(place.team.directory) / "worktrees") == []
    assert repository.git("worktree", "list").count("\n") == 0
    assert repository.branches() == ["interlock/crew", "main"]


@pytest.mark.long
@pytest.mark.parametrize("how", ["git branch -q -D interlock/crew", "git update-ref refs/heads/interlock/crew HEAD~1"])
def test_an_integration_branch_that_an_agent_removes_or_moves_back_has_all_that_was_merged(
    place: Place, repository: Repository, how: str
) -> None:
    repository.commit("second", other="1\n")
    first, third = {"run": "echo 1 > a"}, {"run": "echo 3 > c", "blocked_by": ["two"]}
    stage(place, {"one": first, "two": {"run": f"{how}; echo 2 > b", "blocked_by": ["one"]}, "three": third})
    assert place.drive() == "finished"
    assert set(place.states().values()) == {"done"}
    assert {"a", "b", "c", "other"} <= set(repository.files("interlock/crew"))
    repository.git(*how.replace("HEAD~1", "main~1").split()[1:])
    assert place.drive() == "finished", "a person who runs the team again finds all of it, too"
    assert {"a", "b", "c"} <= set(repository.files("interlock/crew"))
    # Where all of it came to main as a commit of the user's own, nothing would be lost.
    repository.git("merge", "--quiet", "--squash", "interlock/crew")
    repository.git("commit", "--quiet", "--message", "squashed")
    repository.git("branch", "--quiet", "-D", "interlock/crew")
    stage(place, {"four": {"run": "test -e a"}})
    assert place.drive() == "finished"
    assert repository.head("interlock/crew") == repository.head("main")
