"""Workers on another machine: a process with a home and clones of its own, which shares nothing with the team's home
but the verbs, here or over HTTP."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.clock import seconds
from interlock.errors import (
    CommitUnknown,
    Forbidden,
    InterlockError,
    InternalError,
    InvalidRequest,
    InvalidTransition,
    LedgerUnusable,
    ServerUnreachable,
    StaleRun,
    TeamNotFound,
    Unauthorized,
)
from interlock.model.driving import Stop
from interlock.model.task import Task
from interlock.model.worker import WorkerBeat
from tests.agents.acting import acp_member, recorded
from tests.behaviours.driving import SHELL, Place, Runner, follow, pids, running
from tests.behaviours.repository import Repository
from tests.network import FAKETIME, NGINX, Link, Nginx, Way
from tests.surfaces.http.harness import Server
from tests.waiting import until

pytestmark = pytest.mark.long

Machine = Callable[..., Runner]


@pytest.fixture
def repository(place: Place) -> Repository:
    """The user's repository, in the directory to work in."""
    return Repository(place.work)


@pytest.fixture
def machine(place: Place) -> Iterator[Machine]:
    """Starts a worker on "another machine"; its process."""
    started: list[Runner] = []

    def start(
        name: str, server: Server | None = None, url: str | None = None, home: str = "", within: Sequence[str] = (),
        **options: Any,
    ) -> Runner:  # fmt: skip
        at = {"server": place.home.path}
        if server is not None:
            at = {"server": url or server.url, "token": server.tokens.create(name, role="machine", team="crew")[1]}
        started.append(Runner(str(place.path / (home or name)), {**at, "name": name, **options}, within))
        return started[-1]

    yield start
    for one in started:
        if one._process.poll() is None:
            one.send(signal.SIGCONT)
        one.end()


@pytest.fixture
def serve(place: Place) -> Iterator[Callable[..., Server]]:
    """Starts `interlock up` in the home of the team."""
    made: list[Server] = []

    def start(port: int = 0) -> Server:
        made.append(Server(Path(place.home.path), port=port))
        return made[-1]

    yield start
    for server in made:
        server.close()


@pytest.fixture
def way() -> Iterator[Callable[[Server], Way]]:
    """Makes ways to servers."""
    made: list[Way] = []

    def make(server: Server) -> Way:
        made.append(Way(server.host, server.port))
        return made[-1]

    yield make
    for one in made:
        one.close()


def stage(place: Place, tasks: dict[str, Any], members: dict[str, Any] | None = None, **more: Any) -> None:
    place.stage(tasks, members or {"ada": SHELL}, isolation="worktree", **more)


def reaches(place: Place, key: str, state: str) -> Task:
    until(lambda: place.task(key).state == state, 120.0)
    return place.task(key)


def left(place: Place, name: str) -> list[str]:
    return sorted(one.name for one in (place.path / name / "work" / "runs").iterdir())


def beaten(place: Place, name: str) -> str:
    """When a worker was last heard of."""
    return next(one.beat_at for one in place.team.workers() if one.name == name)


def leased_for(place: Place, name: str, seconds: float) -> None:
    """Let leases last so many seconds from now on; return when the worker knows it."""
    place.team.configure({"heartbeat_ttl": seconds})
    for _ in range(2):  # One beat may have been under way.
        before = beaten(place, name)
        until(lambda before=before: beaten(place, name) != before, 120.0)


def test_a_task_is_done_verified_and_merged_from_elsewhere(
    place: Place, repository: Repository, machine: Machine
) -> None:
    before = repository.untouchable()
    run = "echo four >> story.txt; pwd > where; echo said"
    stage(place, {"one": {"run": run, "verify": "grep four story.txt", "labels": ["gpu"]}})
    second = place.team.create_task("after it", run="cat story.txt > copy", blocked_by=["one"])
    far = machine("far", labels=["gpu"])
    task = reaches(place, "one", "done")
    until(lambda: place.team.task(second.id).state == "done")
    assert task.check is not None and task.check["passed"] and task.check["merged"]
    assert repository.show("interlock/crew", "copy").endswith("four")
    assert repository.show("interlock/crew", "where").startswith(str(place.path / "far" / "work" / "runs"))
    assert place.log("one") == "said\n"
    until(lambda: repository.branches() == ["interlock/crew", "main"])
    assert repository.untouchable() == before
    place.team.set_worker("far", "draining")
    assert far.hears("ended: drained") and far.wait() == 0
    assert left(place, "far") == []
    (worker,) = place.team.workers()
    assert worker.name == "far" and worker.ended_at is not None and not worker.holds


def test_findings_of_its_check_come_back_to_an_agent_elsewhere(
    place: Place, repository: Repository, machine: Machine
) -> None:
    agent = place.program("agent", "open('a', 'a').write('x'); say('done so far')")
    stage(place, {"one": {"subject": "Write two", "verify": "grep xx a"}}, {"ada": agent})
    machine("far")
    task = reaches(place, "one", "done")
    assert task.rounds == 1 and task.run == 1 and repository.show("interlock/crew", "a") == "xx"
    kinds = [one.type for one in place.team.events()[0] if one.task_id == task.id]
    assert kinds.count("verify.finished") == 2 and kinds.count("task.claimed") == 1


def test_evidence_from_elsewhere_says_whether_the_check_failed_before_the_work(
    place: Place, repository: Repository, machine: Machine
) -> None:
    tasks = {
        "red": {"run": "echo made > made", "verify": "test -f made"},
        "green": {"run": "echo other > other", "verify": "test -f story.txt"},
        "late": {"run": "echo late > late", "verify": "test -f late", "blocked_by": ["red", "green"]},
    }
    stage(place, tasks)
    far = machine("far", parallel=2)
    reaches(place, "late", "done")
    assert {key: (place.task(key).check or {})["red_before"] for key in tasks} == {
        "red": True, "green": False, "late": True
    }  # fmt: skip
    place.team.set_worker("far", "draining")
    assert far.wait() == 0 and left(place, "far") == []


def test_what_an_agent_elsewhere_had_done_when_it_asked_is_merged_though_the_answer_adds_nothing(
    place: Place, repository: Repository, machine: Machine
) -> None:
    source = """
        if 'yes, that' in prompt:
            say('as it is, then')
        else:
            open('made', 'w').write('made')
            say('{"status": "AWAITING_RESPONSE", "output": "Is that it?"}')
        """
    stage(place, {"one": {"subject": "Make", "verify": "test -f made"}}, {"ada": place.program("agent", source)})
    machine("far")
    reaches(place, "one", "awaiting-response")
    place.team.reply("one", "yes, that is it")
    task = reaches(place, "one", "done")
    assert repository.show("interlock/crew", "made") == "made"
    assert task.check is not None and task.check["merged"] and task.check["red_before"], "the first run's work counts"


def test_an_agent_elsewhere_can_ask_a_person(place: Place, repository: Repository, machine: Machine) -> None:
    source = """
        if 'blue' in prompt:
            open('colour', 'w').write('blue')
        else:
            open('begun', 'w').write('yes')
            say('{"status": "AWAITING_RESPONSE", "output": "Which colour?"}')
        """
    stage(place, {"one": {"subject": "Paint", "verify": "cat colour begun"}}, {"ada": place.program("agent", source)})
    machine("far")
    reaches(place, "one", "awaiting-response")
    place.team.reply("one", "blue")
    task = reaches(place, "one", "done")
    assert task.run == 2
    assert repository.show("interlock/crew", "begun") == "yes", "the second run goes on from what the first delivered"


def test_a_member_elsewhere_reviews_what_is_to_be_merged_and_delivers_its_verdict_alone(
    place: Place, repository: Repository, machine: Machine
) -> None:
    prompts = place.path / "prompts"
    source = f"""
        open({str(prompts)!r}, 'a').write(prompt)
        open('litter', 'w').write('of the reviewer')
        say('approve' if 'FIX' in open('work').read() else 'changes: nothing is tested')
        """
    members = {
        "bob": place.program("author", "open('work', 'a').write('FIX' if 'nothing is tested' in prompt else 'x')"),
        "rev": place.program("reviewer", source),
    }
    fields = {"subject": "Write it", "assignee": "bob", "review": "rev", "verify": "test -s work"}
    stage(place, {"one": fields}, members)
    machine("near", members=["bob"])
    machine("far", members=["rev"])
    task = reaches(place, "one", "done")
    assert [run.member for run in place.team.runs(task.id)] == ["bob", "rev", "bob", "rev"]
    assert task.check is not None and task.check["merged"] and repository.show("interlock/crew", "work") == "xFIX"
    said = prompts.read_text()
    assert "git diff" in said and "interlock task approve" not in said, "our command does not reach the team from there"
    assert "litter" not in repository.files("interlock/crew")
    until(lambda: repository.branches() == ["interlock/crew", "main"])
    until(lambda: left(place, "far") == [])


def test_what_a_run_elsewhere_used_is_told_and_what_it_does_not_tell_is_unknown(
    place: Place, repository: Repository, machine: Machine
) -> None:
    used = [{"usage": {"input": 1000, "output": 200, "total_cost": 0.5}}, {"say": "done"}]
    members = {
        "ada": acp_member(place.path, "ada", turns=[used]),
        "bob": place.program("agent", "say('done')"),
        "sam": SHELL,
    }
    fields = {"subject": "Write it", "verify": "true"}
    tasks = {name: {**fields, "assignee": name} for name in ("ada", "bob")} | {"sam": {"run": "true"}}
    stage(place, tasks, members)
    machine("far", parallel=3)
    for key in tasks:
        reaches(place, key, "done")
    spent = {key: place.team.runs(key)[0].as_dict()["spent"] for key in tasks}
    assert (spent["ada"]["turns"], spent["ada"]["input_tokens"], spent["ada"]["output_tokens"]) == (1, 1000, 200)
    assert (spent["bob"]["turns"], spent["bob"]["input_tokens"]) == (1, None)
    assert (spent["sam"]["turns"], spent["sam"]["input_tokens"]) == (0, 0)
    totals = place.team.report().totals.spent
    assert (totals["turns"], totals["input_tokens"], totals["unknown"]) == (2, 1000, ["bob"])


def test_an_agent_elsewhere_reads_the_files_of_earlier_tasks_and_what_was_said_before(
    place: Place, repository: Repository, machine: Machine, serve: Callable[..., Server]
) -> None:
    reads = [{"run": ["sh", "-c", "interlock task file one build/REPORT > copy"]}, {"say": "It is copied."}]
    repository.commit("ignored", **{".gitignore": "build/"})
    made = {"run": "mkdir build && echo report > build/REPORT && touch made", "assignee": "sam"}
    ada = acp_member(place.path, "ada", turns=[reads])
    stage(place, {"one": made}, {"ada": ada, "sam": SHELL})
    assert place.drive() == "finished"
    server = serve()
    for said in ("Copy the report.", "Once more."):
        task = place.home.chat("crew", said, session_id="s").task_id
        place.team.update(task, labels=["far"], verify="grep report copy")
        place.team.depend(task, on=place.task("one").id)
        if said == "Copy the report.":
            machine("far", server, **FAR)
        until(lambda task=task: place.team.task(task).state == "done", 120.0)
    first, second = (one["text"] for one in recorded(place.path, "prompt", "ada"))
    named = f"`interlock task file TASK PATH` prints one.\n\n- {place.task('one').id}: build/REPORT\n"
    assert named in first and str(place.path) not in first
    assert "Earlier in this conversation\n\n> Copy the report.\n\nIt is copied." in second
    assert repository.show("interlock/crew", "copy") == "report"


def test_what_an_agent_elsewhere_may_do_is_what_the_team_says_and_what_is_refused_is_told(
    place: Place, repository: Repository, machine: Machine
) -> None:
    def wants(command: str, then: str) -> dict[str, Any]:
        asked = {"title": command, "kind": "execute", "command": command}
        return {"ask": asked, "allowed": [{"run": ["touch", then]}], "refused": [{"stop": "end_turn"}]}

    begins = [{"say": "I begin"}, wants("pytest -q", "tested"), wants("curl example.org", "fetched"), {"say": "done"}]
    told = {"match": "something in it was refused", "do": [{"run": ["touch", "heard"]}, {"say": "without it"}]}
    ada = acp_member(place.path, "ada", turns=[begins], when=[told])
    task = {"subject": "Write it", "verify": "test -e tested -a ! -e fetched -a -e heard"}
    stage(place, {"one": task}, {"ada": {**ada, "permissions": "workspace"}})
    place.team.configure({"allowed_commands": "pytest"})
    machine("far")
    done = reaches(place, "one", "done")
    first, again = recorded(place.path, "prompt", "ada")
    assert "commands that begin with `pytest`" in first["text"] and "Everything else is refused" in first["text"]
    why = "it is more than editing, and nobody is there to be asked"
    assert f"- curl example.org ({why})" in again["text"]
    (run,) = place.team.runs("one")
    assert (run.turns, done.output) == (2, "without it")
    (event,) = [event for event in place.team.events()[0] if event.type == "permission.answered"]
    assert event.payload == {
        "answer": "refuse", "run": run.id, "by": "policy", "tool": "execute", "title": "curl example.org",
        "paths": [], "why": why,
    }  # fmt: skip
    assert f"curl example.org ({why})" in str(place.team.report().incidents)


@pytest.mark.parametrize(
    ("how", "actions", "state"),
    [
        ("nudge", ["reminded", "ended"], "deadletter"),
        ("session", ["ended"], "deadletter"),
        ("question", ["asked"], "done"),
    ],
)
def test_an_agent_elsewhere_that_only_repeats_itself_is_interrupted(
    place: Place, repository: Repository, machine: Machine, how: str, actions: list[str], state: str
) -> None:
    looks = {"tool": {"title": "Read a.txt", "kind": "read", "paths": ["a.txt"], "status": "completed"}}
    circles = [{"usage": {"input": 9000, "output": 1, "total_cost": 0.5}}, *[looks] * 30, {"hang": True}]
    ada = acp_member(place.path, "ada", turns=[circles], when=[{"match": "b.txt", "do": [{"say": "done"}]}])
    stage(place, {"one": {"subject": "Write it", "verify": "true", "retries": 0}}, {"ada": ada})
    place.team.configure({"repeated_calls": 20, "when_repeating": how})
    machine("far")
    if how == "question":
        until(lambda: bool(place.team.questions()))
        (asked,) = place.team.questions()
        said = str(place.task("one").output)
        assert asked.text == "What should it do?" and said.endswith(asked.text)
        assert "ada repeats itself: its last 20 tool calls" in said and "Read a.txt" in said
        place.team.reply("one", "look at b.txt")
    task = reaches(place, "one", state)
    told = [event.payload for event in place.team.events()[0] if event.type == "run.stuck"]
    assert [one["action"] for one in told] == actions
    assert told[0]["evidence"]["new"] <= 1 and told[0]["evidence"]["repeated"] == ["Read a.txt"]
    assert state == "done" or "repeats itself: its last 20 tool calls" in str(task.output)
    prompts = [one["text"] for one in recorded(place.path, "prompt", "ada")]
    assert ("repeated earlier ones" in prompts[-1]) == (how == "nudge")
    assert ("look at b.txt" in prompts[-1]) == (how == "question")


@pytest.mark.parametrize("word", ["continue", "cancel"])
def test_a_turn_elsewhere_that_is_over_a_limit_ends_and_a_person_is_asked(
    place: Place, repository: Repository, machine: Machine, word: str
) -> None:
    half = [{"write": {"path": "half", "text": "half"}}, {"usage": {"total_cost": 0.5}}, {"hang": True}]
    goes_on = [{"match": "used 0.50 USD", "do": [{"run": ["mv", "half", "whole"]}, {"say": "done"}]}]
    members = {"ada": acp_member(place.path, "ada", turns=[half], when=goes_on)}
    task = {"subject": "Write it", "verify": "test -e whole", "limits": {"cost_usd": 0.4}}
    stage(place, {"one": task}, members)
    machine("far")
    until(lambda: bool(place.team.questions()))
    (question,) = place.team.questions()
    assert (question.kind, question.text) == ("limit", f"{question.task_id} has used 0.50 USD of 0.40 USD. Go on?")
    until(lambda: place.team.runs("one")[0].ended_at is not None)
    assert place.team.runs("one")[0].cost_usd == 0.5
    assert repository.show(str((place.task("one").worktree or {})["branch"]), "half") == "half", "nothing is lost"
    assert place.task("one").changed == [{"path": "half", "kind": "added"}]
    place.team.reply("one", word, question=question.id)
    reaches(place, "one", "done" if word == "continue" else "cancelled")
    assert len(place.team.runs("one")) == (2 if word == "continue" else 1)


def test_a_task_elsewhere_whose_check_failed_does_not_go_on_beyond_its_limit(
    place: Place, repository: Repository, machine: Machine
) -> None:
    members = {"ada": acp_member(place.path, "ada", turns=[[{"say": "done"}]])}
    stage(place, {"one": {"subject": "Write it", "verify": "false", "limits": {"turns": 1}}}, members)
    machine("far")
    until(lambda: bool(place.team.questions()))
    (question,) = place.team.questions()
    assert question.kind == "limit" and "has used 1 turns of 1 turns" in question.text
    until(lambda: place.team.runs("one")[0].ended_at is not None)
    assert place.task("one").state == "awaiting-response" and place.team.runs("one")[0].turns == 1


def test_what_a_run_elsewhere_used_is_counted_once_however_often_it_is_told(
    place: Place, repository: Repository
) -> None:
    from interlock.app.running import Result

    stage(place, {"one": {"subject": "Write it", "limits": {"tokens": 50}}}, {"bob": acp_member(place.path, "bob")})
    process = "far|boot|7|9"
    name = place.team.worker_on(process).name
    offer = place.team.work_offer(name, process)
    assert offer is not None
    told = {"turns": 1, "input_tokens": 30, "cost_usd": 0.1}
    for _ in range(2):
        spent = {offer.session: told, "of another": {"turns": 9}}
        assert place.team.worker_beat(name, process, 0.5, {offer.session: ""}, spent=spent).over == []
    more = {"turns": 1, "input_tokens": 40, "output_tokens": 10, "cost_usd": 0.3}
    for _ in range(2):  # Heard or not: the answer is the same as long as it is so.
        found = place.team.worker_beat(name, process, 0.5, {offer.session: ""}, spent={offer.session: more})
        assert (found.over, found.lost) == ([offer.session], [])
    ended = Result("ended", "done", 0, None, 1.0, spent={**more, "unmetered": 0})
    place.team.work_reported(offer.task_id, offer.session, offer.base, ended)
    assert place.task("one").state == "done", "it was done before it could be stopped"
    (run,) = place.team.runs("one")
    assert (run.turns, run.input_tokens, run.output_tokens, run.cost_usd, run.unmetered) == (1, 40, 10, 0.3, 0)


def test_a_run_that_never_told_what_it_used_has_an_unknown_part(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"subject": "Write it"}}, {"bob": {"agent": {"command": ["true"]}}})
    process = "far|boot|7|9"
    offer = place.team.work_offer(place.team.worker_on(process).name, process)
    assert offer is not None and place.team.runs("one")[0].unmetered
    place.team.cancel("one")
    assert place.team.report().totals.spent["unknown"] == ["bob"]


def test_the_verdict_of_a_review_that_was_taken_from_a_worker_counts_no_more(
    place: Place, repository: Repository
) -> None:
    from interlock.app.running import Result

    idle = {"agent": {"command": ["true"]}}
    stage(place, {"one": {"subject": "Write it", "assignee": "bob", "review": "rev"}}, {"bob": idle, "rev": idle})
    process = "far|boot|7|9"
    name = place.team.worker_on(process).name
    wrote = place.team.work_offer(name, process)
    assert wrote is not None and not wrote.review
    approved = Result("ended", "approve", 0, None, 1.0)
    place.team.work_reported(wrote.task_id, wrote.session, wrote.base, approved)
    first = place.team.work_offer(name, process)
    assert first is not None and first.review and (first.member, first.number) == ("rev", 2)
    assert first.run is None and first.verify is None
    assert place.team.worker_beat(name, process, 0.5, {first.session: "reading"}).lost == []
    assert place.team.work_offer(name, process) is None, "one review at a time"
    place.team.work_reported(first.task_id, first.session, first.base, Result("failed", "", 1, "no such model", 1.0))
    assert place.task("one").state == "review"
    with pytest.raises((StaleRun, InvalidTransition)):
        place.team.work_reported(first.task_id, first.session, first.base, approved)
    assert place.task("one").state == "review", "it is judged by whoever reviews it now"


def test_what_another_machine_did_is_merged_in_order_with_what_is_done_here(
    place: Place, repository: Repository, machine: Machine
) -> None:
    tasks = {f"t{n}": {"run": f"echo {n} > f{n}", "labels": ["gpu"] if n % 2 else []} for n in range(4)}
    stage(place, {**tasks, "all": {"run": "cat f0 f1 f2 f3 > all", "blocked_by": list(tasks)}})
    machine("far", labels=["gpu"])
    with place.runner(endless=True):
        reaches(place, "all", "done")
    assert repository.show("interlock/crew", "all").split() == ["0", "1", "2", "3"]
    assert len(repository.log("interlock/crew")) == 6, "each is merged once"


HANGS = "echo $$ >> {work}/pids; echo half > half; while [ ! -e {work}/go ]; do sleep 0.05; done; echo run > result"


def hanging(place: Place) -> dict[str, Any]:
    return {"run": HANGS.format(work=place.work), "labels": ["far"]}


FAR = {"labels": ["far"]}


@pytest.mark.parametrize(
    "fault",
    [pytest.param("killed", marks=pytest.mark.storm), pytest.param("suspended", marks=pytest.mark.storm), "cut off"],
)
def test_the_run_of_a_worker_that_is_gone_is_taken_up_elsewhere_and_its_branch_kept(
    place: Place, repository: Repository, machine: Machine, serve: Callable[..., Server],
    way: Callable[[Server], Way], fault: str,
) -> None:  # fmt: skip
    stage(place, {"one": hanging(place)})
    server = serve()
    between = way(server)
    first = machine("first", server, between.url, **FAR)
    place.wait_for("pids")
    (pid,) = pids(place, "pids")
    leased_for(place, "first", 15)
    match fault:
        case "killed":
            first.kill()
        case "suspended":
            first.send(signal.SIGSTOP)
        case _:
            between.cut()
            assert first.hears("its lease is over")
            until(lambda: not running(pid))
    # By the clock of the home alone: it sees nothing of that machine but its beats.
    follow(place.team, lambda event: event.type == "task.recovered")
    place.team.configure({"heartbeat_ttl": 300})  # A busy machine must not take it from the second as well.
    machine("second", server, **FAR)
    until(lambda: len(place.lines("pids")) == 2)
    assert place.task("one").run == 2
    match fault:
        case "killed":
            machine("first", server, **FAR)  # It is started again: what it had done is delivered.
        case "suspended":
            first.send(signal.SIGCONT)
        case _:
            between.mend()
    branch = f"interlock-work/crew/{place.task('one').id}.1"
    until(lambda: branch in repository.branches())
    assert repository.show(branch, "half") == "half"
    until(lambda: left(place, "first") == [] and not running(pid))
    (place.work / "go").touch()
    task = reaches(place, "one", "done")
    assert task.run == 2 and repository.show("interlock/crew", "result") == "run"
    assert repository.log("interlock/crew")[0].startswith(f"Merge {task.id}")
    assert branch in repository.branches() and len(repository.log("interlock/crew")) == 2


@pytest.mark.parametrize("broken", [False, True], ids=["", "or a person asked where that cannot be"])
def test_the_check_of_a_worker_that_fell_silent_is_run_by_the_home(
    place: Place, repository: Repository, machine: Machine, serve: Callable[..., Server],
    way: Callable[[Server], Way], broken: bool,
) -> None:  # fmt: skip
    begun, go = place.path / "begun", place.path / "go"
    check = f"test -e made || exit; echo >> {begun}; while [ ! -e {go} ]; do sleep 0.05; done"
    tasks = {"one": {"run": "echo made > made", "verify": check, "labels": ["far"]}}
    stage(place, tasks, setup=f"test ! -e {place.path / 'broken'}")
    server = serve()
    between = way(server)
    first = machine("first", server, between.url, **FAR)
    until(begun.exists)
    if broken:
        (place.path / "broken").touch()
    leased_for(place, "first", 15)
    between.cut()
    assert first.hears("its lease is over")
    if broken:
        until(lambda: bool(place.team.questions()))
        assert place.team.questions()[0].options[0] == "retry"
        assert place.task("one").rounds == 0, "nothing is held against the work"
        (place.path / "broken").unlink()
        place.team.retry("one")
    until(lambda: len(begun.read_text()) == 2)
    go.touch()
    until(lambda: (place.task("one").check or {}).get("red_before"), 120.0)
    task = reaches(place, "one", "done")
    assert task.run == 1 and task.check is not None and task.check["merged"]


class Interrupted:
    """A team that cancels a task while its worker waits for the commits to start from."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._told = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place.team, name)

    def worker_beat(self, *given: Any, **named: Any) -> WorkerBeat:
        found = self._place.team.worker_beat(*given, **named)
        if found.lost:
            self._told.set()
        return found

    def work_objects(self, *given: Any, **named: Any) -> bytes:
        if not self._told.is_set():
            self._place.team.cancel("one")
            assert self._told.wait(100)
        return self._place.team.work_objects(*given, **named)


@contextmanager
def working(place: Place, team: Any) -> Iterator[None]:
    """A worker in this process."""
    stop = Stop()

    def work() -> None:
        at = str(place.path / "far")
        interlock.work(team, home=at, beat=0.05, stop=stop, on_update=lambda update: None)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        stop.request("over")
        worker.join()


def test_a_run_that_is_lost_before_its_worktree_was_made_ends_no_other(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "echo one > one"}, "two": {"run": "echo two > two"}})
    with working(place, Interrupted(place)):
        reaches(place, "two", "done")
    assert place.task("one").state == "cancelled" and left(place, "far") == []
    assert [name for name in repository.branches() if "work" in name] == []


class Faltering:
    """A team whose home answers beats with errors for a while, once a run is under way."""

    def __init__(self, place: Place, *errors: InterlockError) -> None:
        self._place = place
        self.errors = list(errors)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place.team, name)

    def worker_beat(self, name: str, process: str, load: float | None, said: dict[str, str], **more: Any) -> WorkerBeat:
        if said and self.errors:
            raise self.errors.pop()
        return self._place.team.worker_beat(name, process, load, said, **more)


def test_a_home_that_is_upgraded_or_fails_by_itself_ends_no_run(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": f"while [ ! -e {place.path}/go ]; do sleep 0.05; done; echo one > one"}})
    team = Faltering(place, LedgerUnusable("newer tables"), InternalError("a defect"), LedgerUnusable("newer tables"))
    with working(place, team):
        until(lambda: not team.errors)
        (place.path / "go").touch()
        assert reaches(place, "one", "done").run == 1


class LosingAnswers:
    """A team whose verb of that name gets no answer the `nth` time, whether or not it was done."""

    def __init__(self, place: Place, verb: str, nth: int, done: bool) -> None:
        self._place = place
        self._verb = verb
        self.left = nth
        self._done = done

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._place.team, name)
        if name != self._verb:
            return verb

        def losing(*given: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self._done:
                raise ServerUnreachable("Nobody answers.")
            found = verb(*given, **named)
            if self.left == 0:
                raise CommitUnknown("Its answer was lost.")
            return found

        return losing


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize(
    ("verb", "nth"),
    [
        ("worker_beat", 1), ("worker_beat", 2), ("worker_beat", 4), ("work_offer", 1), ("work_objects", 1),
        ("work_delivered", 1), ("work_reported", 1), ("work_reported", 2), ("work_checked", 1), ("work_checked", 2),
    ],
)  # fmt: skip
def test_no_verb_of_a_worker_costs_a_run_when_its_answer_is_lost(
    place: Place, repository: Repository, verb: str, nth: int, done: bool
) -> None:
    agent = place.program("agent", "open('a', 'a').write('x'); say('done so far')")
    stage(place, {"one": {"subject": "Write two", "verify": "grep xx a"}}, {"ada": agent})
    team = LosingAnswers(place, verb, nth, done)
    with working(place, team):
        task = reaches(place, "one", "done")
        until(lambda: left(place, "far") == [])
    assert team.left <= 0, "it was called so often"
    runs = place.team.runs("one")
    assert (task.failures, task.rounds) == (0, 1), [run.as_dict() for run in runs]
    assert len(runs) == 1, [run.as_dict() for run in runs]
    assert runs[-1].turns == 2 and repository.show("interlock/crew", "a") == "xx"
    kinds = [one.type for one in place.team.events()[0] if one.task_id == task.id]
    assert kinds.count("verify.finished") == 2 and kinds.count("merge.finished") == 1, kinds


def test_a_worker_whose_disk_is_full_uses_up_no_attempt(
    place: Place, repository: Repository, machine: Machine, disk: Path
) -> None:
    filler = disk / "filler"
    fill = f"cat /dev/zero > {filler} 2> /dev/null; true"
    stage(place, {"one": {"run": "echo made > made"}})
    machine("there", home="disk")
    reaches(place, "one", "done")

    filled = place.team.create_task("Fill it", run=f"echo more > more; {fill}").id
    until(lambda: any(run.outcome is not None for run in place.team.runs(filled)))
    [run], task = place.team.runs(filled), place.team.task(filled)
    assert (run.outcome, task.state, task.failures) == ("capacity", "ready", 0)
    assert "No space left on device" in str(run.reason)
    filler.unlink()
    new = place.team.create_task("Go on", run="true").id
    until(lambda: place.team.task(new).state == "done")


def test_a_check_that_hangs_on_the_tree_before_the_work_holds_nothing_up(
    place: Place, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.remote.run.BASELINE_SECONDS", 0.1)
    pids = place.path / "pids"
    hangs = f"echo $$ >> {pids}; exec sleep 300"
    stage(place, {"one": {"run": "echo one > one", "verify": f"test -s one || {{ {hangs}; }}"}})
    with working(place, place.team):
        task = reaches(place, "one", "done")
    assert task.check is not None and task.check["merged"] and task.check["red_before"] is None
    assert left(place, "far") == [] and not any(running(int(pid)) for pid in pids.read_text().split())


@pytest.fixture
def link() -> Iterator[Link]:
    """A link to another host."""
    try:
        made = Link()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespace can be made here: {error}")
    yield made
    made.close()


@pytest.mark.timeout(600)
@pytest.mark.skipif(NGINX is None or shutil.which("openssl") is None, reason="needs nginx and openssl")
def test_a_worker_on_another_host_whose_network_falls_silent_overwrites_nobody_and_delivers_through_nginx(
    place: Place, repository: Repository, machine: Machine, serve: Callable[..., Server], link: Link,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    big = "head -c 3000000 /dev/urandom > big; "
    stage(place, {"one": {"run": big + HANGS.format(work=place.work), "labels": ["far"]}})
    monkeypatch.setenv("INTERLOCK_HTTP_PROXIES", "127.0.0.1")
    monkeypatch.setenv("INTERLOCK_HTTP_HOSTS", link.near)
    server = serve()
    proxy = Nginx(tmp_path / "nginx", server.url, host=link.near)
    try:
        monkeypatch.setenv("SSL_CERT_FILE", str(proxy.certificate))
        first = machine("first", server, proxy.url, within=link.within, **FAR)
        until(lambda: len(place.lines("pids")) == 1, 120.0)
        (pid,) = pids(place, "pids")
        leased_for(place, "first", 10)
        link.silence()
        assert first.hears("its lease is over")
        until(lambda: not running(pid))
        follow(place.team, lambda event: event.type == "task.recovered")
        place.team.configure({"heartbeat_ttl": 300})
        machine("second", server, **FAR)
        until(lambda: len(place.lines("pids")) == 2, 120.0)
        link.mend()
        branch = f"interlock-work/crew/{place.task('one').id}.1"
        until(lambda: branch in repository.branches(), 180.0)
        assert repository.git("cat-file", "-s", f"{branch}:big").strip() == "3000000"
        (place.work / "go").touch()
        task = reaches(place, "one", "done")
        assert task.run == 2 and repository.show("interlock/crew", "result") == "run"
        assert branch in repository.branches() and len(repository.log("interlock/crew")) == 2
    finally:
        proxy.close()


@pytest.mark.timeout(300)
@pytest.mark.skipif(FAKETIME is None, reason="needs faketime")
@pytest.mark.parametrize("by", [pytest.param("-1h", marks=pytest.mark.storm), "+1h"])
def test_a_worker_whose_clock_is_wrong_by_an_hour_keeps_its_run_by_the_clock_of_the_home(
    place: Place, repository: Repository, machine: Machine, serve: Callable[..., Server], by: str
) -> None:
    stage(place, {"one": hanging(place)})
    place.team.configure({"heartbeat_ttl": 20})
    machine("wrong", serve(), within=(str(FAKETIME), "-f", by), **FAR)
    place.wait_for("pids")
    begun = beaten(place, "wrong")
    until(lambda: seconds(beaten(place, "wrong")) > seconds(begun) + 20, 90.0)
    (place.work / "go").touch()
    task = reaches(place, "one", "done")
    assert task.run == 1, "its lease was renewed, and is not over"
    (run,) = place.team.runs(task.id)
    assert abs(seconds(str(run.ended_at)) - time.time()) < 1800, "times are the home's"


def test_workers_that_share_a_home_leave_each_others_runs_alone(
    place: Place, repository: Repository, machine: Machine
) -> None:
    stage(place, {"one": hanging(place), "two": {"run": "echo two > two", **FAR}}, {"ada": SHELL, "ben": SHELL})
    machine("first", **FAR)
    place.wait_for("pids")
    (pid,) = pids(place, "pids")
    machine("second", home="first", **FAR)
    reaches(place, "two", "done")
    assert running(pid), "what lies there is no run of a killed worker"
    (place.work / "go").touch()
    assert reaches(place, "one", "done").run == 1
    until(lambda: left(place, "first") == [])


@pytest.mark.parametrize("limit", [0, 1])
def test_workers_of_several_teams_share_what_their_machine_may_do(
    place: Place, repository: Repository, machine: Machine, limit: int
) -> None:
    stage(place, {"one": hanging(place)})
    plan = {"team": "other", "workdir": "work", "isolation": "worktree", "members": {"ada": SHELL}}
    file = place.path / "other.yaml"
    file.write_text(json.dumps({**plan, "tasks": {"two": {"run": "echo two > two", **FAR}}}))
    place.home.stage(str(file))
    other = place.home.team("other")
    for team in (place.team, other):
        team.configure({"heartbeat_ttl": 20})
    (place.path / "shared").mkdir()
    (place.path / "shared" / "settings.json").write_text(json.dumps({"machine_parallel": limit}))

    def beaten_by_the_other() -> str | None:
        return next((one.beat_at for one in other.workers() if one.name == "second"), None)

    machine("first", home="shared", parallel=2, **FAR)
    place.wait_for("pids")
    machine("second", home="shared", team="other", **FAR)
    assert other.task("two").id == place.task("one").id, "runs of one id do not get into each other's way"
    if limit:
        for _ in range(2):
            before = beaten_by_the_other()
            until(lambda before=before: beaten_by_the_other() != before)
        assert other.task("two").state == "ready", "it looks for work with each beat, and there is no place"
    else:
        until(lambda: other.task("two").state == "done")
        assert place.task("one").state == "in-progress"
    (place.work / "go").touch()
    until(lambda: other.task("two").state == "done")
    assert reaches(place, "one", "done").run == 1


def test_a_server_that_is_restarted_loses_no_run_and_much_is_carried_in_pieces(
    place: Place, repository: Repository, machine: Machine, serve: Callable[..., Server]
) -> None:
    (place.work / "much").write_bytes(os.urandom(5_000_000))
    repository.git("add", "much")
    repository.git("commit", "--quiet", "--message", "much")
    run = "cat much much > more; head -c 5000000 /dev/urandom >> more; " + HANGS.format(work=place.work)
    stage(place, {"one": {"run": run, "verify": "grep run result", "labels": ["far"]}})
    server = serve()
    machine("far", server, **FAR)
    place.wait_for("pids")
    server.kill()
    (place.work / "go").touch()
    serve(server.port)
    task = reaches(place, "one", "done")
    assert task.run == 1 and task.check is not None and task.check["passed"]
    assert len(repository.git("cat-file", "-p", "interlock/crew:result")) > 0
    assert repository.git("cat-file", "-s", "interlock/crew:more").strip() == "15000000"
    until(lambda: left(place, "far") == [])


def test_running_work_is_cancelled_from_anywhere(place: Place, repository: Repository, machine: Machine) -> None:
    stage(place, {"one": hanging(place)})
    machine("far", **FAR)
    place.wait_for("pids")
    place.team.cancel("one")
    until(lambda: left(place, "far") == [])
    follow(place.team, lambda event: event.type == "task.transitioned" and event.payload["to"] == "cancelled")
    assert place.task("one").state == "cancelled"


def test_a_report_of_a_run_that_was_superseded_is_refused(place: Place, repository: Repository) -> None:
    from interlock.app.running import Result

    stage(place, {"one": {"run": "true"}})
    process = "far|boot|7|9"
    name = place.team.worker_on(process).name
    offer = place.team.work_offer(name, process)
    assert offer is not None and place.team.work_offer(name, process) is None, "ada is at work"
    again = place.team.work_offer(name, process, offer.session)
    assert again is not None and (again.task_id, again.number, again.base) == (offer.task_id, 1, offer.base)
    for session in ("run:x", f"run:{'g' * 32}", "cli:ada"):
        with pytest.raises(InvalidRequest, match="sessions of runs"):
            place.team.work_offer(name, process, session)
    assert place.team.worker_beat(name, process, 0.5, {offer.session: "hello"}).lost == []
    assert place.team.workers()[0].holds == [offer.task_id]
    place.team.cancel("one")
    assert place.team.worker_beat(name, process, 0.5, {offer.session: ""}).lost == [offer.session]
    with pytest.raises(StaleRun):
        place.team.work_reported(offer.task_id, "run:nobody", offer.base, Result("ended", "", 0, None, 1.0))
    with pytest.raises(InvalidTransition, match="cancelled"):
        place.team.work_reported(offer.task_id, offer.session, offer.base, Result("ended", "", 0, None, 1.0))
    assert place.log("one") == "hello"


def test_mail_reaches_a_member_who_works_elsewhere(place: Place, repository: Repository, machine: Machine) -> None:
    prompts = place.path / "prompts"
    source = f"""
        open({str(prompts)!r}, 'a').write(prompt + chr(12))
        open('work', 'a').write('FIX' if 'nothing is tested' in prompt else 'x')
        say('approve' if '# Review' in prompt else 'done so far')
        """
    members = {name: place.program("agent", source) for name in ("ada", "rev")}
    fields = {"subject": "Write it", "assignee": "ada", "review": "rev", "verify": "grep FIX work"}
    stage(place, {"one": fields}, members)
    place.team.send(to="ada", content="Mind: nothing is tested")
    place.team.send(to="rev", content="Be quick")
    urgent = place.team.send("rev", to="ada", content="Begin with FIX", urgent=True)
    place.team.create_task("Write more", assignee="ada", blocked_by=["one"], verify="true")
    machine("far")
    until(lambda: [task.state for task in place.team.tasks()] == ["done", "done"], 120.0)
    first, *_, review, more = prompts.read_text().split(chr(12))[:-1]
    assert first.index("Begin with FIX") < first.index("nothing is tested") and "Be quick" not in first
    assert "Be quick" in review and "nothing is tested" not in review
    assert "Messages for you" not in more, "what was seen does not come again"
    told = {one.id: one for name in ("ada", "rev") for one in place.team.history(member=name)}
    assert told[urgent.id].stage == "acknowledged" and told[urgent.id].attempt == 1
    assert [one.stage for one in told.values()] == ["acknowledged"] * len(told)


def test_an_agent_elsewhere_has_the_tools_that_reach_its_team_and_its_token_ends_with_its_run(
    place: Place, repository: Repository, machine: Machine, serve: Callable[..., Server]
) -> None:
    go = place.path / "go"
    script = [
        {"write": {"path": "made", "text": "made"}},
        {"call": "send_message", "with": {"recipient": "bob", "content": "made is made"}},
        {"call": "task_create", "with": {"subject": "Look at made", "body": "It is new.", "assignee": "bob"}},
        {"call": "task_complete", "with": {"summary": "made"}},
        {"wait": str(go)},
        {"call": "read_inbox"},
        {"say": "made"},
    ]
    stage(
        place,
        {"one": {"subject": "Make", "verify": "test -f made", "assignee": "ada", "labels": ["gpu"]}},
        {"ada": acp_member(place.path, "ada", turns=[script]), "bob": SHELL},
    )
    server = serve()
    far = machine("far", server, labels=["gpu"])
    until(lambda: len(recorded(place.path, "tool", "ada")) == 3, 120.0)
    sent, made, refused = recorded(place.path, "tool", "ada")
    assert not sent["failed"] and not made["failed"] and refused["failed"], refused["answer"]
    assert refused["answer"]["error"] == "forbidden" and "ending its turn" in refused["answer"]["message"]
    assert next(one.content for one in place.team.acting("bob").inbox() if one.sender == "ada") == "made is made"
    more = place.team.task(made["answer"]["id"])
    assert (more.subject, more.assignee, place.task("one").state) == ("Look at made", "bob", "in-progress")

    [given] = recorded(place.path, "new", "ada")[0]["servers"]
    own = {one["name"]: one["value"] for one in given["env"]}
    with interlock.connect(server.url, token=own["INTERLOCK_TOKEN"]) as home:
        there = home.team("crew")
        assert [task.subject for task in there.tasks()][:1] == ["Make"]
        for verb in (there.claim, there.complete, there.release, there.cancel, there.approve):
            with pytest.raises(Forbidden):
                verb("one")
        for act in (
            lambda: there.send("bob", to="ada", content="as another"),
            lambda: there.inbox("bob"),
            lambda: there.configure({"parallel": 9}),
            lambda: there.spawn("eve"),
            lambda: there.work_offer("far", "far|boot|1|1"),
            lambda: there.update("one", status="completed"),
            lambda: home.create_team("other"),
        ):
            with pytest.raises(Forbidden):
                act()
        with pytest.raises(TeamNotFound):
            home.team("another")
        place.team.send(to="ada", content="well done")
        go.touch()
        task = reaches(place, "one", "done")
        assert task.output == "made" and task.check is not None and task.check["merged"]
        read = recorded(place.path, "tool", "ada")[-1]
        assert [one["content"] for one in read["answer"]["messages"]] == ["well done"]
        assert place.team.history(member="ada")[-1].stage == "acknowledged"
        for token in (own["INTERLOCK_TOKEN"], own["INTERLOCK_TOKEN"][:-1] + "x", "ilr_crew.x.y", "ilr_", "ilr_no.1.2"):
            with interlock.connect(server.url, token=token) as late, pytest.raises(Unauthorized):
                late.team("crew").send(to="bob", content="too late")
    place.team.set_worker("far", "draining")
    assert far.wait() == 0
    assert own["INTERLOCK_TOKEN"] not in "".join(one.read_text() for one in place.path.rglob("output*.log"))


def test_a_command_elsewhere_has_ours_and_its_check_acts_for_nobody(
    place: Place, repository: Repository, machine: Machine, serve: Callable[..., Server]
) -> None:
    run = "interlock message send --to lead 'half of it' && interlock --json task list > listed; echo $INTERLOCK_TOKEN"
    check = '[ -z "$INTERLOCK_TOKEN$INTERLOCK_URL" ] && ! interlock message send --to lead no && grep -q one listed'
    stage(place, {"one": {"run": run, "verify": check, "labels": ["gpu"]}})
    machine("far", serve(), labels=["gpu"])
    task = reaches(place, "one", "done")
    assert task.check is not None and task.check["passed"]
    (told,) = place.team.acting("lead").inbox()
    assert (told.sender, told.content) == ("ada", "half of it")
    assert "ilr_" not in place.log("one")


def test_a_new_prompt_of_a_run_elsewhere_has_the_mail_again(
    place: Place, repository: Repository, machine: Machine
) -> None:
    source = "open('a', 'a').write('x'); say('no mail') if 'Write xx' not in prompt else say('done so far')"
    stage(place, {"one": {"subject": "Write", "verify": "grep xx a"}}, {"ada": place.program("agent", source)})
    message = place.team.send(to="ada", content="Write xx")
    machine("far")
    task = reaches(place, "one", "done")
    assert task.rounds == 1 and "no mail" not in place.log("one"), "it is another program, which has seen nothing yet"
    (told,) = [one for one in place.team.history(member="ada") if one.id == message.id]
    assert (told.stage, told.attempt) == ("acknowledged", 2)


def test_mail_of_a_run_elsewhere_that_was_lost_or_failed_comes_again_and_says_so(
    place: Place, repository: Repository
) -> None:
    from interlock.app.running import Result

    stage(place, {"one": {"subject": "One"}}, {"ada": place.program("agent", "say('done')")})
    message, process = place.team.send(to="ada", content="Mind the gap"), "far|boot|7|9"
    name = place.team.worker_on(process).name

    def stage_now() -> str:
        return next(one.stage for one in place.team.history(member="ada") if one.id == message.id)

    offer = place.team.work_offer(name, process)
    assert offer is not None and "Mind the gap" in offer.prompt and "redelivered" not in offer.prompt
    assert stage_now() == "offered"
    again = place.team.work_offer(name, process, offer.session)
    assert again is not None and 'redelivered="true"' in again.prompt, "the first answer may have arrived"
    place.team.configure({"heartbeat_ttl": 1})

    def delivered() -> bool:
        place.team.worker_beat(name, process, 0.5, {offer.session: ""})
        return stage_now() == "delivered"

    until(delivered)
    place.team.configure({"heartbeat_ttl": 300})
    step = place.team.work_reported(offer.task_id, offer.session, offer.base, Result("failed", "", 1, "broken", 1.0))
    assert step.kind == "end" and stage_now() == "stored", "nobody has seen it, as far as is known"
    until(lambda: place.team.worker_beat(name, process, 0.5, {}).work)
    following = place.team.work_offer(name, process)
    assert following is not None and following.number == 2 and 'redelivered="true"' in following.prompt
    step = place.team.work_reported(
        following.task_id, following.session, following.base, Result("ended", "done", 0, None, 1.0)
    )
    assert step.kind == "end" and stage_now() == "acknowledged"


def test_a_session_that_a_worker_asks_with_is_of_one_run(
    place: Place, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(place, {name: {"run": "true"} for name in ("one", "two", "three")}, {"ada": SHELL, "bob": SHELL})
    process = "far|boot|7|9"
    name = place.team.worker_on(process).name
    offer = place.team.work_offer(name, process)
    assert offer is not None
    with monkeypatch.context() as both:  # It asks again while its first request is still being answered.
        both.setattr("interlock.runner.remote_runs._begun", lambda *about: None)
        assert place.team.work_offer(name, process, offer.session) is None
    place.team.cancel("one")
    following = place.team.work_offer(name, process, offer.session)
    assert following is not None and following.task_id != offer.task_id
    assert following.session != offer.session, "that run has ended"


def test_a_beat_only_looks_and_many_workers_rest_longer(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "true"}, "two": {"run": "true", "labels": ["gpu"]}})
    began = time.time()
    for n in range(40):
        place.team.worker_on(f"far~{n}|boot|7|9", name=f"w{n}")
    found = place.team.worker_beat("w0", "far~0|boot|7|9", 0.5, {})
    assert found.work and found.rest == 2.0, "all together send 20 a second"
    assert 299 - (time.time() - began) < found.lease <= 300, "it counts from what was written of it last"
    offer = place.team.work_offer("w0", "far~0|boot|7|9")
    assert offer is not None and place.team.workers()[0].host == "far"
    head = place.team.head()
    for _ in range(3):
        found = place.team.worker_beat("w0", "far~0|boot|7|9", 0.5, {offer.session: "said\n"})
        assert (found.work, found.lost) == (False, [])
    assert place.team.head() == head and place.log("one") == "said\n" * 3
    place.team.configure({"heartbeat_ttl": 1})

    def written() -> bool:
        place.team.worker_beat("w0", "far~0|boot|7|9", 0.5, {offer.session: ""})
        return any(event.type == "run.heartbeat" for event in place.team.events(head)[0])

    until(written)


def test_a_team_without_worktrees_has_no_workers_elsewhere(place: Place) -> None:
    place.stage({"one": {"run": "true"}})
    with pytest.raises(InvalidRequest, match="isolation"):
        place.team.worker_on("far|boot|7|9")


def test_the_command_works_for_a_home_elsewhere(
    place: Place, repository: Repository, serve: Callable[..., Server], tmp_path: Path
) -> None:
    stage(place, {"one": {"run": "echo x > y; echo said", "labels": ["gpu"]}})
    server = serve()
    made = [sys.executable, "-m", "interlock.surfaces.cli", "--home", place.home.path, "--team", "crew", "--json"]
    secret = json.loads(subprocess.check_output([*made, "token", "create", "--machine", "ci-1"]))["token"]
    words = ["work", "--url", server.url, "--members", "ada", "--labels", "gpu", "--json"]
    command = [sys.executable, "-m", "interlock.surfaces.cli", *words, "--home", str(tmp_path / "far")]
    environment = {**os.environ, "INTERLOCK_TOKEN": secret}
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environment) as process:
        reaches(place, "one", "done")
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    assert json.loads(out) == {"team": "crew", "ended": "interrupted"}
    assert "said" in said


NIGHT = """
import json, os, pathlib, sys, time
prompt = sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read()
place = pathlib.Path({place!r})
name = json.loads((place / "keys.json").read_text())[os.environ["INTERLOCK_TASK"]]
with open(name, "a") as file:
    file.write(name + "\\n")
if "/first/" in os.getcwd():
    pathlib.Path("half").write_text(name)
    with open(place / "held", "a") as file:
        file.write(name + "\\n")
    while True:
        time.sleep(1)
print("Written:", name)
"""


def at_night(place: Place) -> tuple[dict[str, Any], dict[str, Any]]:
    """The members of a night, two that speak ACP and two plain programs, and the tasks: one cannot be done."""
    player = place.path / "player.py"
    player.write_text(NIGHT.format(place=str(place.path)))
    turn = [{"run": [sys.executable, str(player), "{prompt}"]}, {"say": "Written."}]
    members = {name: acp_member(place.path, name, turns=[turn]) for name in ("ada", "cleo")}
    members |= {name: {"agent": {"command": [sys.executable, str(player)]}} for name in ("ben", "dan")}
    needs: dict[str, list[str]] = {
        **{f"{member}-{n}": [] for n in (1, 2) for member in members}, "joined": ["ada-1", "ben-1"],
        "last": ["joined", "cleo-2", "dan-2"], "impossible": [], "never": ["impossible"],
    }  # fmt: skip
    names = list(members)
    tasks = {
        key: {
            "subject": f"Write {key}", "assignee": key.split("-")[0] if "-" in key else names[n % 4],
            "blocked_by": blockers, "labels": ["far"],
            "verify": "false" if key == "impossible" else f"test `cat {key}` = {key}",
        }
        for n, (key, blockers) in enumerate(needs.items())
    }  # fmt: skip
    return members, tasks


@pytest.mark.timeout(900)
def test_a_night_over_two_workers_of_which_one_is_cut_off_merges_all_that_can_be_and_nothing_twice(
    place: Place, repository: Repository, machine: Machine, serve: Callable[..., Server], way: Callable[[Server], Way]
) -> None:
    members, tasks = at_night(place)
    stage(place, tasks, members)
    keys = {task.id: str(task.plan_key) for task in place.team.tasks()}
    (place.path / "keys.json").write_text(json.dumps(keys))
    possible = sorted(set(tasks) - {"impossible", "never"})
    server = serve()
    between = way(server)
    first = machine("first", server, between.url, parallel=2, **FAR)
    begun = place.path / "held"
    until(lambda: begun.exists() and len(begun.read_text().split()) == 2, 120.0)
    held = begun.read_text().split()
    second = machine("second", server, parallel=2, **FAR)
    until(lambda: any(one.name == "second" and one.holds for one in place.team.workers()), 120.0)

    leased_for(place, "first", 10)  # For a moment: a busy machine must not take them from the second, too.
    between.cut()
    assert first.hears("its lease is over")
    for key in held:
        id = place.task(key).id
        follow(place.team, lambda event, id=id: event.type == "task.recovered" and event.task_id == id)
    away = place.team.set_worker("first", "draining")
    assert away.alive is False and away.ended_at is None
    place.team.configure({"heartbeat_ttl": 300})
    until(lambda: {key for key, state in place.states().items() if state == "done"} == set(possible), 240.0)
    until(lambda: place.states()["impossible"] in ("deadletter", "blocked", "failed"), 120.0)

    between.mend()
    kept = {key: f"interlock-work/crew/{place.task(key).id}.1" for key in held}
    until(lambda: set(kept.values()) <= set(repository.branches()), 120.0)
    for key, branch in kept.items():
        assert repository.show(branch, "half") == key, "what was under way is kept"
    assert first.hears("ended: drained")
    place.team.set_worker("second", "draining")
    assert second.hears("ended: drained")
    assert left(place, "first") == [] and left(place, "second") == []
    ended = {one.name for one in place.team.workers() if one.ended_at is not None}
    assert {"first", "second"} <= ended

    assert place.states()["never"] == "backlog"
    assert sorted(repository.files("interlock/crew")) == sorted([".gitignore", "story.txt", *possible])
    for key in possible:
        task = place.task(key)
        assert task.check is not None and task.check["passed"] and task.check["merged"], key
        assert repository.show("interlock/crew", key) == key, "written once, by one run"
    merged = [line.split(":")[0] for line in repository.log("interlock/crew")[:-1]]
    assert len(merged) == len(possible) == len(set(merged)), "each is merged once"
    ends = [event.task_id for event in place.team.events()[0] if event.payload.get("to") == "done"]
    assert sorted(keys[str(id)] for id in ends) == possible
    assert all(place.task(key).run > 1 for key in held)
    report = place.team.doctor()
    assert report.healthy, report.findings
