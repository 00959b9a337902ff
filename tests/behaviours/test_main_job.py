"""The main job: a plan, done by a team of agents that are real programs."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import interlock
from interlock import demo
from interlock.agents.scripted import Say, ScriptedAgent
from interlock.agents.session import Opening, Update
from interlock.core.unit_of_work import Principal
from interlock.errors import AgentError, RunnerAlive
from interlock.model.names import SYSTEM
from interlock.model.team import Member
from interlock.processes import ref
from interlock.runner import team_runner
from interlock.runner.executor import Execution, Executor, Job
from interlock.runner.executors import AgentExecutor, ShellExecutor
from interlock.runner.machine_share import MachineShare
from tests.behaviours.driving import ROOT, SHELL, Place, follow, pids, running

TWO = {"ada": SHELL, "bea": SHELL}


# Who does what, in which order


def test_a_plan_is_done_in_the_order_of_its_dependencies_and_each_task_by_whom_it_suits(place: Place) -> None:
    bob = place.program("bob", "print(prompt.splitlines()[0], file=open('order', 'a'))\nsay('bob: written')")
    staged = place.stage(
        {
            "notes": {"subject": "Write notes", "blocked_by": ["test"], "verify": "grep Write order"},
            "test": {"run": "echo test >> order", "blocked_by": ["lint"]},
            "lint": {"run": "echo lint >> order"},
        },
        {"ada": SHELL, "bob": bob},
    )
    assert staged.team == "crew"
    assert place.drive() == "finished"
    assert place.lines("order")[:2] == ["lint", "test"]
    notes = place.task("notes")
    assert notes.state == "done" and notes.owner == "bob" and place.task("lint").owner == "ada"
    assert notes.output == "bob: written" and notes.check is not None and notes.check["exit_code"] == 0
    done = {task.key: task for task in place.team.report().done}
    assert (done["notes"].verified, done["lint"].verified) == (True, False)
    assert done["notes"].seconds > 0 and place.team.report().totals.runs == 3


def test_an_agent_is_told_what_to_do_how_it_is_judged_and_how_to_report(place: Place) -> None:
    bob = place.program("bob", "open('prompt', 'w').write(prompt)")
    place.stage({"one": {"subject": "Do it", "body": "All of it.", "verify": "test -s prompt"}}, {"bob": bob})
    place.drive()
    prompt = (place.work / "prompt").read_text()
    id = place.task("one").id
    for text in (f"# Do it ({id})", "All of it.", "`test -s prompt`", f"interlock task block {id}"):
        assert text in prompt


def test_no_more_runs_are_open_at_once_than_the_plan_allows_and_one_for_each_member(place: Place) -> None:
    # The first waits for a second beside it, however long a busy machine takes to start that.
    run = "echo + >> log; until test $(grep -c + log) -ge 2; do sleep 0.02; done; sleep 0.15; echo - >> log"
    members = dict.fromkeys(("a1", "a2", "a3"), SHELL)
    staged = place.stage({f"t{number}": {"run": run} for number in range(6)}, members, parallel=2)
    assert staged.parallel == 2
    assert place.drive(parallel=staged.parallel) == "finished"
    open_now = most = 0
    for sign in place.lines("log"):
        open_now += 1 if sign == "+" else -1
        most = max(most, open_now)
    assert (most, open_now) == (2, 0)
    for member in members:
        spans = sorted(
            (run.started_at, run.ended_at)
            for key in place.states()
            for run in place.team.runs(key)
            if run.member == member
        )
        assert all(str(earlier[1]) <= later[0] for earlier, later in zip(spans, spans[1:], strict=False))


def test_an_assigned_task_waits_for_its_assignee(place: Place) -> None:
    place.stage({f"t{number}": {"run": "true", "assignee": "bea"} for number in range(3)}, TWO)
    place.drive()
    assert {place.task(key).owner for key in place.states()} == {"bea"}


def test_what_nobody_can_take_is_listed_and_does_not_keep_the_run_going(place: Place) -> None:
    place.stage({"one": {"run": "true"}})
    place.team.create_task("Think about it")
    place.team.spawn("seat")
    place.team.create_task("Sit there", assignee="seat")
    assert place.drive() == "finished"
    texts = " ".join(need.text for need in place.needs("unclaimable"))
    assert "needs an agent" in texts and "seat, who has no agent" in texts
    why = {one.subject: one.why for one in place.team.report().left}
    assert "no member can take this" in str(why["Think about it"])
    assert "seat, who has no agent" in str(why["Sit there"])


def test_with_nothing_to_do_the_run_ends_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.stage({"one": {"run": "true"}})
    place.drive()
    monkeypatch.setattr(team_runner, "LOOK_AGAIN", 3600.0)  # A run that waits would last longer than a test may.
    assert place.drive() == "finished"


def test_a_run_shows_that_it_lives_and_tells_its_whole_story(place: Place) -> None:
    place.stage({"one": {"run": "while ! test -f go; do sleep 0.02; done; echo last words", "verify": "true"}})
    place.team.configure({"heartbeat_ttl": 6})

    def until_it_has_beaten() -> None:
        follow(place.team, lambda event: event.type == "run.heartbeat")
        (place.work / "go").touch()

    watching = threading.Thread(target=until_it_has_beaten)
    watching.start()
    place.drive()
    watching.join()
    (run,) = place.team.runs("one")
    assert run.beats >= 1 and run.process is not None and run.runner == ref.current().as_text()
    told = [event.type for event in place.team.events()[0] if event.task_id == run.task_id]
    story = ["task.created", "task.claimed", "run.started", "run.heartbeat", "task.completed", "verify.started"]
    story += ["verify.finished", "task.transitioned"]
    places = [told.index(one) for one in story[:-1]]
    assert places == sorted(places) and told[-1] == "task.transitioned"
    ends = [event.type for event in place.team.events()[0] if event.type.startswith(("runner.", "session."))]
    assert ends == ["session.began", "runner.started", "session.began", "session.ended", "runner.stopped"]


# Checks


def test_an_agent_whose_check_fails_gets_the_findings_in_the_same_run(place: Place) -> None:
    bob = place.program("bob", "say('all done!')\nif 'Findings' in prompt: open('fixed', 'w').write('x')")
    place.stage({"one": {"subject": "One", "verify": "test -s fixed || { echo it is empty; exit 3; }"}}, {"bob": bob})
    assert place.drive() == "finished"
    task = place.task("one")
    assert (task.state, task.attempt, len(place.team.runs("one"))) == ("done", 1, 1)
    (incident,) = place.team.report().incidents
    assert (incident.outcome, incident.reason) == ("check failed", "round 1, exit code 3")


def test_a_check_that_fails_three_times_ends_in_deadletter_with_its_output(place: Place) -> None:
    place.stage({"one": {"run": "echo x >> runs", "verify": "echo it is still wrong; false"}})
    assert place.drive() == "finished"
    assert place.states() == {"one": "deadletter"} and place.lines("runs") == ["x"] * 3
    assert "verify failed 3 times" in str(place.task("one").output)
    assert "it is still wrong" in str(place.task("one").output)
    (need,) = place.needs("deadletter")
    assert need.verb == f"interlock task retry {place.task('one').id} --team crew"


def test_a_check_that_takes_too_long_has_failed_and_one_that_cannot_be_read_asks(place: Place) -> None:
    place.stage({"one": {"run": "true"}, "two": {"run": "true", "verify": "sleep 300"}})
    place.team.update("one", verify="echo 'never closed")
    place.team.configure({"verify_timeout": 1, "verify_rounds": 1})
    assert place.drive() == "finished"
    assert place.states() == {"one": "review", "two": "deadletter"}
    assert "quote" in str(place.needs("review")[0].text) and "took too long" in str(place.task("two").output)


# Failures


def test_a_failed_attempt_is_tried_again_later_and_the_last_one_is_final(place: Place) -> None:
    place.stage({"one": {"run": "echo no luck; exit 7", "retries": 1}, "two": {"run": "exit 1", "retries": 0}})
    assert place.drive() == "finished"
    assert [run.reason for run in place.team.runs("one")] == ["ended with exit code 7"] * 2
    assert len(place.team.runs("two")) == 1
    assert place.task("one").output == "ended with exit code 7\n\nno luck"


@pytest.mark.long
def test_a_task_that_takes_too_long_is_ended_and_says_so(place: Place) -> None:
    place.stage({"one": {"run": "echo $$ > pids; exec sleep 300", "timeout": 5, "retries": 0}})
    place.drive()
    assert "took longer than its time limit" in str(place.task("one").output)
    assert not running(pids(place, "pids")[0])


def test_a_program_that_is_missing_is_named(place: Place) -> None:
    place.stage({"one": {"subject": "One", "retries": 0}}, {"bob": {"agent": {"command": ["no-such-program"]}}})
    place.drive()
    assert "'no-such-program'" in str(place.task("one").output) and "not found" in str(place.task("one").output)


class Broken:
    """An executor with a bug."""

    variables = ()

    def lasts(self, kind: str | None = None) -> bool:
        """Nothing of it does."""
        return False

    def start(self, job: Job) -> Execution:
        """Fails in a way nobody thought of."""
        raise ZeroDivisionError("a bug")


def home_with(path: Path, executor_for: object) -> interlock.app.home.Home:
    from interlock.app.home import Home
    from interlock.clock import SystemClock
    from interlock.settings import Settings
    from interlock.storage.sqlite.catalog import SqliteCatalog
    from interlock.wakeup.inprocess import InProcessNotifier

    settings = Settings({})
    catalog = SqliteCatalog(str(path / "teams"), settings, SystemClock())
    return Home(str(path), settings, SystemClock(), catalog, InProcessNotifier(), executor_for)  # type: ignore[arg-type, return-value]


def test_a_bug_in_one_worker_fails_its_run_and_touches_nobody_else(place: Place) -> None:
    def executor_for(member: Member) -> Executor:
        return Broken() if member.name == "bob" else ShellExecutor()

    place.home = home_with(place.path / "home", executor_for)
    bob = place.program("bob", "")
    place.stage({"one": {"subject": "One", "retries": 0}, "two": {"run": "sleep 0.3"}}, {"ada": SHELL, "bob": bob})
    assert place.drive() == "finished"
    assert place.states() == {"one": "deadletter", "two": "done"}
    assert place.task("one").output == "an error in Interlock itself: ZeroDivisionError: a bug"


def test_an_agent_in_process_keeps_its_session_for_the_findings(place: Place) -> None:
    async def first(prompt: str, say: Say, opening: Opening) -> str:
        return '{"status": "COMPLETE", "output": "I believe that I am done"}'

    async def second(prompt: str, say: Say, opening: Opening) -> str:
        (place.work / "fixed").write_text(prompt)
        return '{"status": "COMPLETE", "output": "now I am"}'

    place.home = home_with(place.path / "home", lambda member: AgentExecutor(ScriptedAgent("bob", [first, second])))
    place.stage({"one": {"subject": "One", "verify": "test -s fixed"}}, {"bob": place.program("bob", "")})
    assert place.drive() == "finished"
    assert place.states() == {"one": "done"} and place.task("one").output == "now I am"


def test_a_listener_that_fails_harms_nobody_and_is_told_of_in_the_end(place: Place) -> None:
    place.stage({"one": {"run": "echo a; echo b"}, "two": {"run": "true", "blocked_by": ["one"]}})
    calls = []

    def hear(update: Update) -> None:
        calls.append(update.text)
        raise BrokenPipeError("nobody reads this")

    with pytest.raises(BrokenPipeError):
        place.drive(on_update=hear)
    assert set(place.states().values()) == {"done"} and len(calls) == 1


# Agents that report by themselves


def test_an_agent_that_completes_its_task_itself_is_not_settled_twice(place: Place) -> None:
    bob = place.program(
        "bob", "say(interlock('task', 'complete', os.environ['INTERLOCK_TASK'], '--summary', 'by me').stderr)"
    )
    place.stage({"one": {"subject": "One"}}, {"bob": bob})
    assert place.drive() == "finished"
    task = place.task("one")
    assert (task.state, task.output) == ("done", "by me"), place.log("one")
    events, _ = place.team.events()
    assert sum(event.type == "task.completed" for event in events) == 1


@pytest.mark.long
def test_an_agent_may_complete_with_a_check_that_runs_in_its_own_process(place: Place) -> None:
    bob = place.program(
        "bob",
        """
        me = os.environ["INTERLOCK_TASK"]
        say("first: " + interlock("task", "complete", me).stdout)
        open("fixed", "w").write("x")
        say("second: " + interlock("task", "complete", me).stdout)
        """,
    )
    place.stage({"one": {"subject": "One", "verify": "test -s fixed"}}, {"bob": bob})
    assert place.drive() == "finished"
    assert (place.task("one").state, len(place.team.runs("one"))) == ("done", 1), place.log("one")


def test_a_task_that_an_agent_gives_back_is_taken_by_another(place: Place) -> None:
    bob = place.program("bob", "interlock('task', 'release', os.environ['INTERLOCK_TASK'])")
    eve = place.program("eve", "say('I can')")
    place.stage({"one": {"subject": "One"}}, {"bob": bob, "eve": eve})
    # bob is asked first; eve is free as well, and has it before he is asked again.
    assert place.drive() == "finished"
    assert place.task("one").state == "done" and place.task("one").owner == "eve"
    assert "released" in [run.outcome for run in place.team.runs("one")]


def test_a_task_that_is_given_back_every_time_ends_in_deadletter_instead_of_a_circle(place: Place) -> None:
    bob = place.program("bob", "interlock('task', 'release', os.environ['INTERLOCK_TASK'], '--reason', 'not for me')")
    place.stage({"one": {"subject": "One", "retries": 2}}, {"bob": bob})
    assert place.drive() == "finished"
    assert [run.outcome for run in place.team.runs("one")] == ["released"] * 3
    assert place.task("one").output == "returned to the queue 3 times, last: not for me"


def test_an_agent_that_blocks_its_task_leaves_it_to_a_person_and_frees_its_place(place: Place) -> None:
    bob = place.program("bob", "interlock('task', 'block', os.environ['INTERLOCK_TASK'], '--reason', 'which colour?')")
    place.stage({"one": {"subject": "One"}, "two": {"run": "true"}}, {"ada": SHELL, "bob": bob}, parallel=1)
    assert place.drive(parallel=1) == "finished"
    assert place.states() == {"one": "blocked", "two": "done"}
    (need,) = place.needs("clarification")
    assert "which colour?" in need.text
    assert [run.outcome for run in place.team.runs("one")] == ["blocked"]
    place.team.unblock("one")
    assert place.states()["one"] == "ready"


def test_mail_stands_in_the_next_prompt_of_its_recipient_and_counts_as_read(place: Place) -> None:
    bob = place.program("bob", "say(interlock('message', 'send', '--to', 'eve', 'mind the <gap>').stderr)")
    eve = place.program("eve", "open('prompt', 'w').write(prompt)")
    place.stage(
        {
            "one": {"subject": "One", "assignee": "bob"},
            "two": {"subject": "Two", "assignee": "eve", "blocked_by": ["one"]},
            "three": {"subject": "Three", "assignee": "eve", "blocked_by": ["two"]},
        },
        {"bob": bob, "eve": eve},
    )
    place.team.configure({"retries": 0})
    place.drive()
    assert set(place.states().values()) == {"done"}, place.log("one")
    (message,) = [m for m in place.team.history(member="eve") if m.type == "message"]
    assert message.stage == "acknowledged"
    assert "mind the" not in (place.work / "prompt").read_text(), "the third prompt does not repeat it"
    assert "is yours" not in (place.work / "prompt").read_text(), "news of assignments would only confuse"


def test_what_an_agent_claims_beside_its_task_goes_back_when_it_ends(place: Place) -> None:
    bob = place.program("bob", "if '# One' in prompt: say(interlock('task', 'claim', 'two').stderr)")
    place.stage({"one": {"subject": "One", "priority": "high"}, "two": {"subject": "Two"}}, {"bob": bob})
    assert place.drive() == "finished"
    assert set(place.states().values()) == {"done"}
    assert [run.outcome for run in place.team.runs("two")] == ["released", "done"]


# Reviews


def test_a_review_by_a_human_ends_the_run_and_approval_lets_a_later_one_go_on(place: Place) -> None:
    place.stage({"one": {"run": "true", "review": "human"}, "two": {"run": "true", "blocked_by": ["one"]}})
    assert place.drive() == "finished"
    assert place.states() == {"one": "review", "two": "backlog"}
    assert [need.verb for need in place.needs("review")] == [
        f"interlock task approve {place.task('one').id} --team crew"
    ]
    place.team.approve("one")
    assert place.drive() == "finished"
    assert place.states() == {"one": "done", "two": "done"}


def test_changes_asked_for_reach_the_author_as_findings(place: Place) -> None:
    bob = place.program("bob", "say('blue' if 'make it blue' in prompt else 'red')")
    place.stage({"one": {"subject": "One", "review": "human"}}, {"bob": bob})
    place.drive()
    place.team.reject("one", reason="make it blue")
    place.drive()
    assert (place.task("one").state, place.task("one").output) == ("review", "blue")


def test_a_review_by_a_member_without_an_agent_is_something_a_person_has_to_see_to(place: Place) -> None:
    bob = place.program("bob", "")
    place.stage({"one": {"subject": "One", "assignee": "bob"}}, {"bob": bob})
    place.team.spawn("eve")
    place.team.update("one", review="eve")
    assert place.drive() == "finished"
    (need,) = place.needs("review")
    assert need.text == "One: waits for review by eve"


# What programs may see, and what they print


def test_programs_see_the_variables_that_are_named_and_secrets_are_blanked_everywhere(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "s3cr3t-value")
    monkeypatch.setenv("MEMBER_KEY", "for-ada-only")
    monkeypatch.setenv("OTHER_SECRET", "never-seen")
    monkeypatch.setenv("INTERLOCK_TOKEN", "ours")
    place.stage(
        {
            "one": {
                "run": "env | sort > env; echo $DEPLOY_TOKEN $MEMBER_KEY",
                "verify": "echo $DEPLOY_TOKEN $MEMBER_KEY; env | grep INTERLOCK_ | grep -v RUN_TOKEN; true",
                "env": ["DEPLOY_TOKEN"],
            }
        },
        {"ada": {"agent": "shell", "env": ["MEMBER_KEY"]}},
    )
    assert place.drive() == "finished"
    environment = dict(line.split("=", 1) for line in place.lines("env") if "=" in line)
    assert (environment["DEPLOY_TOKEN"], environment["MEMBER_KEY"]) == ("s3cr3t-value", "for-ada-only")
    assert "OTHER_SECRET" not in environment and "INTERLOCK_TOKEN" not in environment
    assert (environment["INTERLOCK_MEMBER"], environment["INTERLOCK_TASK"]) == ("ada", place.task("one").id)
    task = place.task("one")
    assert task.output == "*** ***" and task.check is not None and task.check["tail"] == "*** ***\n"
    assert place.log("one") == "*** ***\n"
    home = Path(place.home.path)
    for file in (file for file in home.rglob("*") if file.is_file() and not stat.S_ISSOCK(file.stat().st_mode)):
        assert b"s3cr3t-value" not in file.read_bytes(), file


def test_garbage_and_floods_are_kept_within_bounds_and_harm_nothing(place: Place) -> None:
    flood = "head -c 30000000 /dev/zero | tr '\\\\0' 'x'; printf '\\\\000\\\\033[31mred\\\\377\\\\r\\\\n'; echo end"
    place.stage({"one": {"run": flood.replace("\\\\", "\\")}})
    assert place.drive() == "finished"
    task = place.task("one")
    assert task.state == "done" and str(task.output).endswith("end") and len(str(task.output)) < 1000
    assert "\x00" not in str(task.output) and "\x1b" not in str(task.output)


def test_what_a_program_leaves_behind_is_ended_with_its_run(place: Place) -> None:
    daemon = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
    daemon += "print(os.getpid(), file=open('pids', 'a'), flush=True); time.sleep(300)"
    place.stage({"one": {"run": f'{sys.executable} -c "{daemon}"; while ! test -s pids; do sleep 0.02; done'}})
    assert place.drive() == "finished"
    assert place.states() == {"one": "done"} and not running(pids(place, "pids")[0])


@pytest.mark.long
def test_agents_find_the_command_of_this_installation_however_it_was_started(place: Place) -> None:
    bob = place.program("bob", "say(subprocess.run('command -v interlock; interlock --version', shell=True, "
                        "capture_output=True, text=True).stdout)")  # fmt: skip
    place.stage({"one": {"subject": "One"}}, {"bob": bob})
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    code = "import interlock, sys; print(interlock.connect(sys.argv[1]).drive('crew'))"
    ran = subprocess.run(
        [sys.executable, "-c", code, place.home.path],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "finished\n"
    assert place.log("one").splitlines()[0] == f"{place.team.directory}/bin/interlock"
    assert "interlock" in place.log("one").splitlines()[1] or place.log("one").splitlines()[1][0].isdigit()


# Others at work in the same team


def test_a_team_is_driven_by_one_runner_at_a_time(place: Place) -> None:
    place.stage({"one": {"run": "while ! test -f go; do sleep 0.02; done; echo x"}})
    with place.runner() as runner:
        follow(place.team, lambda event: event.type == "run.started")
        with pytest.raises(RunnerAlive, match=f"process {runner.pid}"):
            place.drive()
        (place.work / "go").touch()
        runner.hears("ended: finished")
    assert place.drive() == "finished"


def test_a_thread_of_the_same_process_is_no_exception(place: Place) -> None:
    place.stage({"one": {"run": "while ! test -f go; do sleep 0.02; done"}})
    driving = threading.Thread(target=place.drive)
    driving.start()
    follow(place.team, lambda event: event.type == "run.started")
    with pytest.raises(RunnerAlive):
        place.home.drive("crew")
    (place.work / "go").touch()
    driving.join()
    assert place.states() == {"one": "done"}


def test_a_runner_of_another_machine_is_not_pushed_aside_unless_somebody_says_so(place: Place) -> None:
    place.stage({"one": {"run": "true"}})
    elsewhere = ref.current().as_text().split("|")
    elsewhere[0] = "elsewhere"
    workspace = place.team._workspace  # type: ignore[attr-defined]
    with workspace.act(Principal(SYSTEM)) as act:
        act.rows.team.update(act.rows.team.get(), runner="|".join(elsewhere))
    with pytest.raises(RunnerAlive, match="from another machine, elsewhere"):
        place.drive()
    assert place.drive(take_over=True) == "finished"


@pytest.mark.long
def test_a_sleeping_run_costs_nothing(place: Place) -> None:
    gates = (1, 2, 3)  # The least is what Interlock takes, the rest what this machine is doing besides.
    place.stage(
        {
            "slow": {"run": "while ! test -f go3; do sleep 0.05; done"},
            **{f"gate{n}": {"subject": "Gate", "assignee": "seat"} for n in gates},
            **{f"behind{n}": {"run": f"touch go{n}", "blocked_by": [f"gate{n}"]} for n in gates},
        },
        {**TWO, "seat": place.program("seat", "")},
    )
    for n in gates:
        place.team.claim(f"gate{n}", by="seat")
    used: list[float] = []

    def by_hand() -> None:
        follow(place.team, lambda event: event.type == "run.started")
        for n in gates:
            before = resource.getrusage(resource.RUSAGE_SELF)
            threading.Event().wait(2.0)  # what is measured is a time of quiet
            after = resource.getrusage(resource.RUSAGE_SELF)
            used.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 2.0)
            finish_elsewhere(place, f"gate{n}")
            behind = place.task(f"behind{n}").id
            follow(
                place.team, lambda event, behind=behind: event.task_id == behind and event.payload.get("to") == "done"
            )

    person = threading.Thread(target=by_hand)
    person.start()
    assert place.drive() == "finished"
    person.join()
    assert set(place.states().values()) == {"done"}
    assert min(used) < 0.03, f"{min(used):.1%} of a core"


def test_a_sleeping_run_is_woken_when_somebody_finishes_a_blocker(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_runner, "LOOK_AGAIN", 3600.0)  # It would find it by itself long after this test's time.
    tasks = {
        "slow": {"run": "while ! test -f go; do sleep 0.02; done"},
        "gate": {"subject": "Gate", "assignee": "seat"},
        "behind": {"run": "touch go", "blocked_by": ["gate"]},
    }
    place.stage(tasks, {**TWO, "seat": place.program("seat", "")})
    place.team.claim("gate", by="seat")

    def by_hand() -> None:
        follow(place.team, lambda event: event.type == "run.started")
        finish_elsewhere(place, "gate")

    person = threading.Thread(target=by_hand)
    person.start()
    assert place.drive() == "finished"
    person.join()
    assert set(place.states().values()) == {"done"}


def finish_elsewhere(place: Place, key: str) -> None:
    """Complete a task that `seat` holds, in another process."""
    code = "import interlock, sys; interlock.connect(sys.argv[1]).team('crew').complete(sys.argv[2], by='seat')"
    subprocess.run([sys.executable, "-c", code, place.home.path, key], check=True)


def test_the_run_waits_for_a_member_at_work_in_a_living_process_but_not_for_a_person(place: Place) -> None:
    place.stage(
        {
            "theirs": {"subject": "Theirs", "assignee": "seat"},
            "behind": {"run": "true", "blocked_by": ["theirs"]},
            "mine": {"subject": "Mine"},
        },
        {"ada": SHELL, "seat": place.program("seat", "say('by the runner')")},
    )
    place.team.claim("mine", by="human")
    seat = place.team.acting("seat", session="a-joined-program")
    seat.claim("theirs")
    later = threading.Timer(0.5, seat.complete, ["theirs"])
    later.start()
    assert place.drive() == "finished"
    assert place.states() == {"theirs": "done", "behind": "done", "mine": "in-progress"}
    assert len(place.needs("held")) == 1


def test_a_member_who_comes_while_the_run_lasts_takes_part(place: Place) -> None:
    place.stage({"slow": {"run": "while ! test -f go; do sleep 0.02; done"}, "two": {"run": "touch go"}})
    joining = threading.Thread(
        target=lambda: (
            follow(place.team, lambda event: event.type == "run.started"),
            place.home.team("crew").spawn("bea", agent="shell"),
        )
    )
    joining.start()
    assert place.drive() == "finished"
    joining.join()
    assert place.task("two").owner == "bea"


# What cannot be run is refused before anything is made


def test_a_team_without_agents_cannot_be_driven(place: Place) -> None:
    place.home.create_team("crew")
    with pytest.raises(AgentError, match="member spawn"):
        place.drive()
    events, _ = place.team.events()
    assert not any(event.type.startswith("runner.") for event in events)


def test_a_team_works_without_a_member_whose_agent_is_not_here(place: Place) -> None:
    place.stage({"one": {"run": "echo 1 > one"}}, {"ada": {"agent": "shell"}})
    place.team.spawn("bob", agent="cluade")
    place.team.create_task("For bob", assignee="bob")
    said: list[str] = []
    reason = place.home.drive("crew", on_update=lambda update: said.append(update.text))
    assert reason == "finished" and place.states()["one"] == "done"
    assert sum("bob cannot work here" in text and "Did you mean 'claude'" in text for text in said) == 1


def test_a_member_whose_program_cannot_start_takes_no_tasks_from_those_who_can(place: Place) -> None:
    members = {
        "ada": {"agent": {"command": ["sh", "-c", "cat > /dev/null; echo + >> done"]}},
        "dan": {"agent": {"command": ["./no-such-program"]}},
    }
    place.stage({f"t{number}": {"subject": f"Part {number}"} for number in range(6)}, members)
    said: list[str] = []
    place.home.drive("crew", on_update=lambda update: said.append(update.text))
    assert set(place.states().values()) == {"done"}
    (vain,) = [run for key in place.states() for run in place.team.runs(place.task(key).id) if run.member == "dan"]
    assert vain.outcome == "unstarted" and place.team.task(vain.task_id).failures == 0
    (told,) = [text for text in said if "dan gets no more tasks for now" in text]
    assert "its program could not start. The program './no-such-program' was not found" in told


def test_a_task_that_no_member_can_start_asks_a_person_before_it_goes_round(place: Place) -> None:
    members = {name: {"agent": {"command": [f"./no-such-{name}"]}} for name in ("ada", "dan")}
    place.stage({f"t{number}": {"subject": f"Part {number}"} for number in range(3)}, members)
    place.drive()
    for key, state in place.states().items():
        runs = place.team.runs(place.task(key).id)
        assert state == "deadletter" and len(runs) <= 3 and "could not start" in str(runs[-1].reason)


def test_what_is_meant_for_a_member_whose_program_cannot_start_asks_a_person(place: Place) -> None:
    members = {
        "ada": {"agent": {"command": ["sh", "-c", "cat > /dev/null"]}},
        "dan": {"agent": {"command": ["./no-such-program"]}},
    }
    place.stage({f"t{number}": {"subject": f"Part {number}", "assignee": "dan"} for number in range(3)}, members)
    place.drive()
    assert set(place.states().values()) == {"deadletter"}


def test_a_team_none_of_whose_agents_is_here_is_told_why(place: Place) -> None:
    place.home.create_team("crew")
    place.team.spawn("bob", agent="cluade")
    with pytest.raises(AgentError, match="Did you mean 'claude'"):
        place.drive()


def test_an_agent_that_this_version_cannot_run_is_refused_before_anything_is_made(place: Place) -> None:
    with pytest.raises(AgentError, match="Unknown agent 'claud' for bob"):
        place.stage({"one": {"subject": "One"}}, {"bob": {"agent": "claud"}})
    assert place.home.teams() == []


@pytest.mark.long
def test_the_demo_is_done_with_a_kill_and_a_lie_on_the_way(tmp_path: Path) -> None:
    home = interlock.connect(str(tmp_path / "home"))
    staged = home.stage(demo.materialise(str(tmp_path / "demo")))
    team = home.team(staged.team)
    killed: list[str] = []

    def hear(update: Update) -> None:
        process = team.runs(update.task_id)[-1].process if update.text == demo.HALFWAY else None
        if process is not None and not killed:
            killed.append(update.member)
            os.killpg(ref.ProcessRef.parse(process).pid, 9)

    assert home.drive(staged.team, parallel=staged.parallel, on_update=hear) == "finished"
    report = team.report()
    assert len(report.done) == 10 and report.needs_me == [] and killed == ["ben"]
    assert {one.outcome for one in report.incidents} == {"failed", "check failed"}


class AnswersLate(MachineShare):
    """A share that hears, as every turn of a runner ends, that nothing runs; the first time, a person answers then."""

    def __init__(self, place: Place) -> None:
        super().__init__(4, lambda team: None)
        self._team = place.team
        self.answered: list[str] = []

    def looked(self, team: str, runs: int, *, asks: bool) -> None:
        super().looked(team, runs, asks=asks)
        waiting = self._team.questions() if not runs else []
        if waiting and not self.answered:
            self.answered = [self._team.reply(one.task_id, "use SQLite", question=one.id).id for one in waiting]


def test_an_answer_that_comes_when_the_end_is_decided_is_acted_on_before_it(place: Place) -> None:
    source = """
    if 'use SQLite' not in prompt:
        interlock('question', 'ask', os.environ['INTERLOCK_TASK'], 'Which database?')
    """
    place.stage({"one": {"subject": "One"}}, {"bob": place.program("bob", source)})
    share = AnswersLate(place)
    assert place.drive(share=share, hold=0.0) == "finished"
    assert share.answered and place.states() == {"one": "done"}
    ends = [event.payload["reason"] for event in place.team.latest(types=["runner.stopped"])]
    assert ends == ["finished"], "one run, which ended once"
