"""Tasks whose `review` names a member with an agent are given to that member by the runner."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.behaviours.driving import SHELL, Place, pids, running
from tests.behaviours.test_agent_output import SPEAK

AUTHOR = "open('work', 'a').write('FIX' if 'Findings' in prompt else 'draft'); open('prompts', 'a').write(prompt)"


def reviewed(place: Place, reviewer: str, **more: Any) -> None:
    """Stage one task of bob's that rev reviews."""
    source = SPEAK + "open('seen', 'w').write(prompt)\n" + reviewer
    members = {"bob": place.program("bob", AUTHOR + "\nsay('it is in work')"), "rev": place.program("rev", source)}
    fields = {"subject": "Write it", "body": "All of it.", "assignee": "bob", "review": "rev", **more}
    place.stage({"one": fields}, members)


ANSWERS = {
    "verb": ('interlock("task", "approve", task)', 'interlock("task", "reject", task, "--reason", "too short")'),
    "message": (
        'tell("completion.report", {"outcome": "done"}, by="rev")',
        'tell("completion.report", {"outcome": "needs_review", "notes": "too short"}, by="rev")',
    ),
    "last line": ('say("I read it.\\napprove")', 'say("Hm.\\nchanges: too short")'),
    "last line of JSON": (
        'say(json.dumps({"status": "COMPLETE", "output": "fine"}))',
        'say(json.dumps({"status": "INCOMPLETE", "output": "too short"}))',
    ),
}


@pytest.mark.parametrize("how", ANSWERS)
def test_the_named_member_reviews_and_its_findings_go_to_a_new_run_of_the_author(place: Place, how: str) -> None:
    yes, no = ANSWERS[how]
    reviewed(place, f"if 'FIX' in open('work').read(): {yes}\nelse: {no}")
    assert place.drive() == "finished"
    task = place.task("one")
    assert (task.state, task.owner) == ("done", "bob")
    assert [(run.member, run.outcome) for run in place.team.runs("one")] == [
        ("bob", "done"),
        ("rev", "rejected"),
        ("bob", "done"),
        ("rev", "done"),
    ]
    assert "too short" in (place.work / "prompts").read_text()
    assert [(e.actor, e.payload["member"]) for e in place.team.events()[0] if e.type == "review.started"] == [
        ("rev", "rev")
    ] * 2


def test_a_reviewer_sees_the_task_what_was_said_and_the_evidence_and_how_to_answer(place: Place) -> None:
    reviewed(place, 'say("approve")', verify="echo checked; test -s work")
    place.drive()
    prompt = (place.work / "seen").read_text()
    id = place.task("one").id
    for text in (f"# Review: Write it ({id})", "All of it.", "it is in work", "`echo checked; test -s work` passed",
                 "checked", f"interlock task approve {id}", f"interlock task reject {id}", "changes: "):  # fmt: skip
        assert text in prompt
    assert place.task("one").state == "done" and "Please review" not in prompt


def test_silence_is_no_approval_and_after_too_many_tries_a_human_is_asked(place: Place) -> None:
    reviewed(place, 'say("looks good to me"); open("tries", "a").write("x\\n")', retries=1)
    assert place.drive() == "finished"
    assert place.task("one").state == "review" and place.lines("tries") == ["x", "x"]
    assert [question.kind for question in place.team.questions()] == ["review"]
    assert len(place.needs("review")) == 1
    assert place.team.reply("one", "approve").state == "done"


def test_a_reviewer_that_cannot_judge_leaves_it_to_a_human(place: Place) -> None:
    reviewed(place, 'tell("completion.report", {"outcome": "blocked", "blockers": ["no access"]}, by="rev")')
    assert place.drive() == "finished"
    assert [question.kind for question in place.team.questions()] == ["review"]
    assert len(place.team.runs("one")) == 2


def test_what_a_member_can_review_needs_nobody_else(place: Place) -> None:
    reviewed(place, 'say("approve")')
    bob = place.team.acting("bob")
    bob.claim("one")
    bob.complete("one")
    assert place.team.status().needs_me == []
    assert place.drive() == "finished" and place.task("one").state == "done"


def test_a_shell_member_reviews_nothing_so_a_person_is_needed(place: Place) -> None:
    place.stage({"one": {"run": "true", "assignee": "ada"}}, {"ada": SHELL, "bea": SHELL})
    place.team.update("one", review="bea")
    assert place.drive() == "finished"
    assert len(place.needs("review")) == 1 and len(place.team.runs("one")) == 1


def test_a_review_counts_as_a_run(place: Place) -> None:
    reviewed(place, "open('log', 'a').write('+\\n'); time.sleep(0.3); open('log', 'a').write('-\\n'); say('approve')")
    place.team.create_task("Other", run="echo + >> log; sleep 0.1; echo - >> log", priority="low")
    place.team.spawn("ada", agent="shell")
    assert place.drive(parallel=1) == "finished"
    assert place.lines("log") == ["+", "-"] * 2


@pytest.mark.long
def test_a_review_that_a_runner_left_is_done_again(place: Place) -> None:
    reviewed(place, "print(os.getpid(), file=open('pids', 'a'))\nif not os.path.exists('go'): time.sleep(300)\n"
             "say('approve')")  # fmt: skip
    with place.runner() as runner:
        place.wait_for("pids")
        runner.kill()
    (place.work / "go").touch()
    assert place.drive() == "finished"
    assert not running(pids(place, "pids")[0]) and place.task("one").state == "done"
    assert [run.outcome for run in place.team.runs("one")] == ["done", "reclaimed", "done"]


@pytest.mark.long
def test_a_stop_ends_a_review_and_holds_it_against_nobody(place: Place) -> None:
    reviewed(place, "print(os.getpid(), file=open('pids', 'a')); time.sleep(300)")
    with place.runner() as runner:
        place.wait_for("pids")
        runner.send(signal.SIGTERM)
        assert runner.wait() == 0
    assert not running(pids(place, "pids")[0])
    assert place.team.runs("one")[-1].outcome == "reclaimed" and place.task("one").state == "review"
    assert place.team.questions() == []
