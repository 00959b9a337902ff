"""A runner, or a program, that is killed without warning: nothing is lost, nothing of it stays."""

from __future__ import annotations

import os
import signal

import pytest

from interlock.core.unit_of_work import Principal
from interlock.model.names import SYSTEM
from interlock.model.report import as_text, headline
from interlock.model.status import folded
from interlock.runner import scheduler
from tests.behaviours.driving import SHELL, Place, follow, pids, running

ESCAPES = """
    if os.path.exists("again"):
        say("finished")
        sys.exit()
    open("again", "w").close()
    code = "import os, time; os.setsid(); print(os.getpid(), file=open('pids', 'a'), flush=True); time.sleep(300)"
    child = subprocess.Popen([sys.executable, "-c", code])
    while not (os.path.exists("pids") and os.path.getsize("pids")):
        time.sleep(0.01)
    print(os.getpid(), file=open("pids", "a"))
    say("half done")
    time.sleep(300)
"""


@pytest.mark.long
def test_a_run_whose_runner_was_killed_is_taken_up_at_once_and_its_programs_are_ended(place: Place) -> None:
    bob = place.program("bob", ESCAPES)
    place.stage({"build": {"subject": "Build"}, "next": {"subject": "Next", "blocked_by": ["build"]}}, {"bob": bob})
    with place.runner() as runner:
        runner.hears("text half done$")
        left = pids(place, "pids")
        assert len(left) == 2 and all(running(pid) for pid in left)
        runner.kill()

    assert place.drive() == "finished"
    assert not any(running(pid) for pid in left)
    assert place.states() == {"build": "done", "next": "done"}
    build = place.task("build")
    first, second = place.team.runs("build")
    assert (first.outcome, first.reason) == ("reclaimed", "its runner died")
    assert (second.outcome, build.attempt) == ("done", 1), "no attempt was used up"


@pytest.mark.long
def test_a_run_is_found_by_its_token_when_its_process_was_never_written_down(place: Place) -> None:
    place.stage({"one": {"subject": "One"}}, {"bob": place.program("bob", ESCAPES)})
    with place.runner() as runner:
        runner.hears("text half done$")
        runner.kill()
    workspace = place.team._workspace  # type: ignore[attr-defined]
    with workspace.act(Principal(SYSTEM)) as act:
        act.rows.runs.update(act.rows.runs.open()[0], process=None)
    assert place.drive() == "finished"
    assert not any(running(pid) for pid in pids(place, "pids"))


CHECK = "echo $$ >> pids; test -f again && exit 0; touch again; echo checking it; sleep 300"


def test_a_verify_whose_runner_was_killed_is_ended_and_run_again(place: Place) -> None:
    place.stage({"one": {"run": "echo x >> runs", "verify": CHECK}})
    with place.runner() as runner:
        runner.hears("text checking it$")
        (left,) = pids(place, "pids")
        assert running(left)
        runner.kill()
    assert place.states() == {"one": "review"}

    assert place.drive() == "finished"
    assert not running(left)
    assert place.states() == {"one": "done"}
    assert place.lines("runs") == ["x"], "the work itself was not done again"
    assert place.task("one").check is not None


@pytest.mark.long
def test_a_check_that_fails_after_its_runner_is_gone_starts_a_new_run_with_the_findings(place: Place) -> None:
    bob = place.program("bob", "open('fixed', 'w') if 'Findings' in prompt else None")
    check = (
        "test -f again && { test -f fixed || echo NOT FIXED; test -f fixed; exit; }; touch again; echo ok; sleep 300"
    )
    place.stage({"one": {"subject": "One", "verify": check}}, {"bob": bob})
    with place.runner() as runner:
        runner.hears("text ok$")
        runner.kill()
    assert place.drive() == "finished"
    assert place.states() == {"one": "done"}
    assert [run.outcome for run in place.team.runs("one")] == ["reclaimed", "done"]


def test_a_program_killed_from_outside_uses_up_an_attempt_and_is_tried_again(place: Place) -> None:
    place.stage({"one": {"run": "test -f again || { touch again; kill -9 $$; }"}})
    assert place.drive() == "finished"
    assert place.states() == {"one": "done"}
    first, second = place.team.runs("one")
    assert (first.outcome, first.reason, second.outcome) == ("failed", "was killed", "done")
    assert place.task("one").attempt == 2


def test_a_program_that_is_killed_every_time_ends_in_deadletter_with_the_cause(place: Place) -> None:
    place.stage(
        {
            "eats": {"run": "echo I eat memory; kill -9 $$", "retries": 2},
            "after": {"run": "true", "blocked_by": ["eats"]},
            "last": {"run": "true", "blocked_by": ["after"]},
            "both": {"run": "true", "blocked_by": ["after", "last"]},
        }
    )
    assert place.drive() == "finished"
    assert place.states() == {"eats": "deadletter", **dict.fromkeys(("after", "last", "both"), "backlog")}
    assert len(place.team.runs("eats")) == 3
    report = place.team.report()
    (failed,) = report.failed
    assert failed.reason == "was killed\n\nI eat memory" and failed.attempts == 3
    assert [one.reason for one in report.incidents] == ["was killed"] * 3
    why = {task.key: task.why for task in report.left}
    assert why["after"] == "blocked by eats (failed)"
    assert why["last"] == "blocked by after, blocked in turn by eats (failed)"
    assert why["both"] == why["last"].replace("for last", "for after"), "a cause is said once"
    (broken,) = place.needs("broken")
    assert broken.task_id == place.task("after").id and "deadletter" in broken.text
    # People are told once: one answer fixes it all.
    (told,) = folded(report.needs_me)
    assert told.kind == "deadletter" and told.text.endswith("(1 task waits for it)")
    assert "1 for you" in headline(report) and "waits for TASK" not in "\n".join(as_text(report)).split("Failed")[0]


def test_what_an_agent_had_begun_to_verify_itself_is_verified_by_the_runner_when_it_dies(place: Place) -> None:
    bob = place.program(
        "bob",
        """
        subprocess.Popen(["interlock", "task", "complete", os.environ["INTERLOCK_TASK"]])
        while not os.path.exists("again"):
            time.sleep(0.01)
        os.kill(os.getpid(), 9)
        """,
    )
    place.stage({"one": {"subject": "One", "verify": CHECK}}, {"bob": bob})
    assert place.drive() == "finished"
    assert place.states() == {"one": "done"}
    assert len(place.team.runs("one")) == 1
    assert not any(running(pid) for pid in pids(place, "pids"))


def test_a_second_runner_takes_over_only_what_a_dead_one_left(place: Place) -> None:
    place.stage({"one": {"run": "echo $$ > pids; exec sleep 300"}}, {"ada": SHELL})
    with place.runner() as runner:
        follow(place.team, lambda event: event.type == "run.started")
        workspace = place.team._workspace  # type: ignore[attr-defined]
        assert scheduler.take_up(workspace) == []
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
        assert scheduler.take_up(workspace) == [place.task("one").id]
        assert scheduler.take_up(workspace) == []
    assert place.states() == {"one": "ready"}
