"""What a managed agent says in AOF/1 on its standard output, what it leaves in files, and what is said for it."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

import pytest

from interlock.model.event import Event
from tests.behaviours.driving import SHELL, Place

SPEAK = """
import json
task = os.environ["INTERLOCK_TASK"]
def envelope(kind, payload, about=task, by="bob", **more):
    return {"protocol": "aof", "version": 1, "type": kind, "taskId": about, "fromAgent": by, "toAgent": "lead",
            "sentAt": "2026-02-10T10:00:00.000Z", "payload": payload, **more}
def tell(*args, **more): say("AOF/1 " + json.dumps(envelope(*args, **more)))
"""


def events(place: Place, *types: str) -> list[Event]:
    return [event for event in place.team.events()[0] if event.type in types]


def one(place: Place, source: str, member: str = "bob", more: dict[str, Any] | None = None, **fields: Any) -> None:
    """Drive one task, done by a program that can `tell`."""
    programs = {member: place.program(member, SPEAK + textwrap.dedent(source)), **(more or {})}
    place.stage({"one": {"subject": "Write it", "assignee": member, **fields}}, programs)
    assert place.drive() == "finished"


def result_file(place: Place) -> dict[str, Any]:
    path = Path(place.team.directory) / "runs" / place.task("one").id / "run_result.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.req("AOF-58.02", "AOF-58.07", "AOF-59.02")
def test_a_report_on_standard_output_settles_the_run_once(place: Place) -> None:
    one(place, 'say("thinking"); tell("completion.report", {"outcome": "done", "notes": "in a.txt"}); sys.exit(3)')
    task = place.task("one")
    (run,) = place.team.runs("one")
    assert (task.state, task.output, run.outcome) == ("done", "in a.txt", "done"), "its exit code changes nothing"
    assert run.result is not None and run.result["notes"] == "in a.txt" and result_file(place)["outcome"] == "done"
    assert len(events(place, "task.completed")) == 1
    (told,) = events(place, "run.reported")
    assert (told.actor, told.payload["source"], told.payload["run"]) == ("bob", "message", run.id)
    assert not events(place, "agent.idle_without_report")


@pytest.mark.req("AOF-58.03")
def test_a_plain_json_line_is_a_message_too(place: Place) -> None:
    one(place, 'say(json.dumps(envelope("completion.report", {"outcome": "needs_review", "notes": "look"})))')
    assert place.task("one").state == "review"
    assert [need.kind for need in place.needs("review")] == ["review"]


@pytest.mark.req("AOF-59.03")
def test_who_reports_blocked_is_blocked_when_its_program_ends_well(place: Place) -> None:
    one(place, 'tell("completion.report", {"outcome": "blocked", "blockers": ["no key"]})')
    assert (place.task("one").state, place.team.runs("one")[0].outcome) == ("blocked", "blocked")


@pytest.mark.req("AOF-58.08", "AOF-59.17")
def test_updates_are_logged_while_it_runs_and_do_not_end_it(place: Place) -> None:
    source = """
    tell("status.update", {"progress": "half of it"})
    for _ in range(3000):
        shown = interlock("task", "show", task).stdout
        if "half of it" in shown: break
        time.sleep(0.01)
    say("seen" if "half of it" in shown else "not seen")
    """
    one(place, source)
    assert "seen" in place.log("one").splitlines() and place.task("one").state == "done"
    assert place.task("one").output == "seen", "its messages are no part of what it said"
    assert any("half of it" in text for _, _, text in place.team.work_log("one"))


@pytest.mark.req("AOF-58.09", "AOF-60.01")
def test_a_part_of_the_task_is_handed_over(place: Place) -> None:
    # Bob's until it is handed over: eve is free, and would take it before.
    source = """
    child = json.loads(interlock("task", "create", "A part", "--assignee", "bob", "--json").stdout)["id"]
    tell("handoff.request", {"taskId": child, "parentTaskId": task, "fromAgent": "bob", "toAgent": "eve",
         "dueBy": "2026-02-11T12:00:00.000Z", "acceptanceCriteria": ["it works"]}, about=child)
    """
    one(place, source, more={"eve": place.program("eve", "say('did it')")})
    (child,) = [task for task in place.team.tasks() if task.subject == "A part"]
    assert (child.state, child.owner, child.parent_id) == ("done", "eve", place.task("one").id)
    (requested,) = events(place, "delegation.requested")
    assert requested.actor == "bob"


def test_a_report_leads_to_the_check_and_its_failure_back_to_the_agent(place: Place) -> None:
    source = """
    if "Findings" in prompt: open("good", "w").close()
    tell("completion.report", {"outcome": "done"})
    """
    one(place, source, verify="test -f good")
    task = place.task("one")
    assert (task.state, task.rounds, len(place.team.runs("one"))) == ("done", 1, 1)
    assert task.check is not None and task.check["passed"]


@pytest.mark.req("AOF-58.04")
def test_what_is_not_ours_passes_silently(place: Place) -> None:
    lines = ["{", '{"protocol": "mcp", "version": 1}', '{"a": "aof"}', "see AOF/1 for that", '["aof"]', "AOF/12"]
    one(place, f"for line in {lines!r}: say(line)")
    assert not [event for event in place.team.events()[0] if event.type.startswith("protocol.")]
    assert place.task("one").state == "done" and "see AOF/1" in str(place.task("one").output)


@pytest.mark.req("AOF-58.05", "AOF-58.06")
def test_what_is_ours_and_broken_is_written_down_and_the_run_goes_on(place: Place) -> None:
    one(place, 'say("AOF/1 {oops"); tell("completion.report", {"outcome": "fine"}); say("so much for that")')
    refused = [(event.payload["reason"], event.actor) for event in events(place, "protocol.message.rejected")]
    assert refused == [("invalid_json", "bob"), ("invalid_envelope", "bob")]
    assert sum("was refused" in text for _, kind, text in place.said if kind == "notice") == 2
    assert place.task("one").state == "done"


def test_an_agent_speaks_for_nobody_else_and_for_no_task_of_others(place: Place) -> None:
    source = """
    other = json.loads(interlock("task", "list", "--json").stdout)["tasks"][1]["id"]
    tell("completion.report", {"outcome": "done"}, by="lead")
    tell("completion.report", {"outcome": "done"}, about=other)
    """
    place.stage({"first": {"run": "true"}}, {"ada": SHELL})
    place.drive()
    other = place.team.create_task("Held by ada")
    place.team.claim(other.id, by="ada")
    place.stage(
        {"first": {"run": "true"}, "one": {"subject": "Write it"}},
        {"ada": SHELL, "bob": place.program("bob", SPEAK + textwrap.dedent(source))},
    )
    place.drive()
    reasons = [event.payload["reason"] for event in events(place, "protocol.message.rejected")]
    assert reasons == ["unauthorized_agent", "unauthorized_agent"]
    assert place.task(other.id).state == "in-progress"


@pytest.mark.req("AOF-59.07")
@pytest.mark.parametrize("code", [0, 3])
def test_a_result_left_as_a_file_is_applied_when_the_program_has_ended(place: Place, code: int) -> None:
    source = f"""
    where = os.path.join(os.environ["INTERLOCK_HOME"], "teams", "crew", "runs", task)
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "run_result.json"), "w") as file:
        json.dump({{"outcome": "partial", "completedAt": "2026-02-10T10:00:00.000Z", "notes": "half"}}, file)
    sys.exit({code})
    """
    one(place, source)
    assert place.task("one").state == "review" and len(place.team.runs("one")) == 1
    assert place.team.runs("one")[0].outcome == "partial"
    assert not events(place, "agent.idle_without_report", "task.failed")


def test_who_ends_well_without_a_report_has_one_written(place: Place) -> None:
    one(place, 'say("all of it is done")')
    (run,) = place.team.runs("one")
    assert run.result is not None and (run.result["outcome"], run.result["automatic"]) == ("done", True)
    assert result_file(place)["notes"] == "all of it is done"
    assert [event.payload for event in events(place, "agent.idle_without_report")] == [{"run": run.id, "member": "bob"}]
    assert [event.payload["source"] for event in events(place, "run.reported")] == ["worker"]


def test_the_end_of_a_command_is_its_report_and_a_failure_is_none(place: Place) -> None:
    place.stage({"one": {"run": "echo well"}, "two": {"run": "exit 3", "retries": 0}})
    place.drive()
    (well,), (failed,) = place.team.runs("one"), place.team.runs("two")
    assert well.result is not None and well.result["notes"] == "well" and failed.result is None
    assert (place.task("one").state, place.task("two").state) == ("done", "deadletter")
    assert not events(place, "agent.idle_without_report")


def test_an_agent_that_talks_without_end_is_heard_in_order(place: Place) -> None:
    one(place, 'for n in range(60): tell("status.update", {"progress": f"step {n}"})')
    said = [text for _, _, text in place.team.work_log("one") if "step" in text]
    assert said == [f"Progress: step {n}" for n in range(60)]
    assert os.path.exists(place.team.output("one")[0])
