"""Members whose agent takes more than one prompt keep their session: over tasks, for mail, and while they are asked."""

from __future__ import annotations

import json

import anyio
import anyio.to_thread
import pytest
from anyio.abc import TaskGroup

from interlock.agents.scripted import Say
from interlock.agents.session import Opening, Turn
from interlock.runner.picture import TeamPicture
from interlock.runner.team_runner import TeamRunner
from tests.behaviours.driving import Place
from tests.behaviours.lasting import driven, event, events, me, play, settled, stage_of
from tests.waiting import until


async def finish(place: Place, opening: Opening, summary: str = "done") -> str:
    team = me(place, opening)
    mine = [task for task in team.tasks(owner=opening.member) if task.state == "in-progress"]
    await anyio.to_thread.run_sync(lambda: team.complete(mine[0].id, summary=summary))
    return summary


def test_a_member_keeps_its_session_for_the_next_task_and_each_task_its_own_log(place: Place) -> None:
    heard: list[tuple[str, str]] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        heard.append((opening.session_id, prompt.splitlines()[0]))
        assert "INTERLOCK_RUN" not in opening.environment and "INTERLOCK_TASK" not in opening.environment
        assert [server.name for server in opening.mcp] == ["interlock"] and "task_complete" in prompt
        return await finish(place, opening, f"this is number {len(heard)}")

    members = play(place, {"bob": bob})
    place.stage({"one": {"subject": "One"}, "two": {"subject": "Two", "blocked_by": ["one"]}}, members)
    assert place.drive() == "finished"
    assert place.states() == {"one": "done", "two": "done"}
    assert [first.split(" (")[0] for _, first in heard] == ["# One", "# Two"] and len({id for id, _ in heard}) == 1
    assert place.log("one").strip() == "this is number 1" and place.log("two").strip() == "this is number 2"
    began = [one for one in events(place, "session.began") if one.payload["member"] == "bob"]
    assert len(began) == 1 and len(events(place, "session.ended")) == 1, "and it ends with the runner"


def test_mail_that_comes_while_it_works_is_the_next_prompt_of_the_same_run_urgent_first(place: Place) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        if len(prompts) == 1:
            await anyio.to_thread.run_sync(lambda: place.team.send(to="bob", content="at your leisure"))
            await anyio.to_thread.run_sync(lambda: place.team.send(to="bob", content="at once", urgent=True))
            return "half done"
        return await finish(place, opening)

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    assert len(prompts) == 2 and prompts[1].index("at once") < prompts[1].index("at your leisure")
    assert len(place.team.runs("one")) == 1
    assert {one.stage for one in place.team.history() if one.recipient == "bob"} == {"acknowledged"}


def test_mail_reaches_an_idle_member_as_a_prompt_of_its_own_in_the_same_session(place: Place) -> None:
    sessions: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        sessions.append(opening.session_id)
        if "are you there" in prompt:
            assert "You have no task now" in prompt
            await anyio.to_thread.run_sync(lambda: me(place, opening).send(to="human", content="here I am"))
            return "answered"
        return await finish(place, opening)

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))
    with driven(place, endless=True):
        settled(place, "one", "done")
        sent = place.team.send(to="bob", content="are you there?")
        event(place, "session.prompted", member="bob", stop="ended")
        assert stage_of(place, sent.id) == "acknowledged"
    assert len(set(sessions)) == 1 and len(sessions) == 2
    assert [one.content for one in place.team.history(member="human") if one.sender == "bob"] == ["here I am"]


def test_an_idle_member_without_a_session_gets_one_for_its_mail_and_a_paused_one_does_not(place: Place) -> None:
    heard: list[str] = []

    async def listen(prompt: str, say: Say, opening: Opening) -> str:
        heard.append(opening.member)
        return "ok"

    members = play(place, {"bob": listen, "cid": listen})
    place.stage({"one": {"subject": "One", "review": "human"}}, members)
    place.team.cancel("one")
    place.team.pause("cid")
    place.team.send(to="cid", content="hello")
    place.team.send(to="bob", content="hello")
    assert place.drive() == "finished"
    assert heard == ["bob"]


def test_what_an_agent_was_given_when_it_died_is_given_again_and_marked(place: Place) -> None:
    prompts: list[str] = []
    place_of: dict[str, str] = {}

    async def bob(prompt: str, say: Say, opening: Opening) -> str | Turn:
        prompts.append(prompt)
        if len(prompts) == 1:
            await until_delivered(place, place_of["id"])
            return Turn("killed", detail="by the test")
        return "read" if "You have no task" in prompt else await finish(place, opening)

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))
    place_of["id"] = place.team.send(to="bob", content="once more").id
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    assert "once more" in prompts[0] and 'redelivered="true"' not in prompts[0]
    assert "once more" in prompts[1] and 'redelivered="true"' in prompts[1]
    assert stage_of(place, place_of["id"]) == "acknowledged"
    stages = [one.type for one in place.team.events()[0] if place_of["id"] in (one.payload.get("ids") or ())]
    once = ["message.offered", "message.delivered"]
    assert [one for one in stages if one.startswith("message.")] == [
        *once, "message.requeued", *once, "message.acknowledged"
    ]  # fmt: skip


async def until_delivered(place: Place, id: str) -> None:
    await anyio.to_thread.run_sync(lambda: until(lambda: stage_of(place, id) == "delivered"))


def test_two_members_that_write_to_each_other_for_ever_are_ended_by_the_bound(place: Place) -> None:
    count = {"ada": 0, "bob": 0}

    async def chat(prompt: str, say: Say, opening: Opening) -> str:
        other = "bob" if opening.member == "ada" else "ada"
        count[opening.member] += 1
        await anyio.to_thread.run_sync(lambda: me(place, opening).send(to=other, content=f"no, you {count}"))
        return "said" if "You have no task" in prompt else await finish(place, opening)

    place.stage({"one": {"subject": "One"}, "two": {"subject": "Two"}}, play(place, {"ada": chat, "bob": chat}))
    place.team.configure({"mail_turns": 3})
    assert place.drive() == "finished" and set(place.states().values()) == {"done"}
    assert sum(count.values()) <= 2 * (1 + 3 + 3)


def test_mail_that_is_sent_while_the_runner_looks_around_is_read_before_it_ends(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bob writes to ada after the runner has found no mail for her, and ends his turn before it asks who is at work."""
    heard: list[str] = []
    looked, dispatch = anyio.Event(), TeamRunner._dispatch

    async def listen(prompt: str, say: Say, opening: Opening) -> str:
        heard.append(opening.member)
        if opening.member == "bob":
            await looked.wait()
            await anyio.to_thread.run_sync(lambda: me(place, opening).send(to="ada", content="one more thing"))
        return "ok"

    async def wait_for_bob(runner: TeamRunner, group: TaskGroup, seen: TeamPicture) -> None:
        await dispatch(runner, group, seen)
        if "bob" in runner._pool.beside:
            looked.set()
            await anyio.to_thread.run_sync(lambda: until(lambda: "bob" not in runner._pool.beside))

    monkeypatch.setattr(TeamRunner, "_dispatch", wait_for_bob)
    place.stage({"one": {"subject": "One", "review": "human"}}, play(place, {"ada": listen, "bob": listen}))
    place.team.cancel("one")
    place.team.send(to="bob", content="go")
    assert place.drive() == "finished" and heard == ["bob", "ada"]


def test_who_does_not_report_is_reminded_once_and_then_the_attempt_has_failed(place: Place) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        return await finish(place, opening) if len(prompts) == 4 else "I think I am done"

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    assert len(prompts) == 4 and "you have not reported" in prompts[1] and prompts[2].startswith("# One")
    failed = events(place, "task.failed")
    assert len(failed) == 1 and "without a report" in failed[0].payload["reason"]
    assert len(events(place, "run.reminded")) == 2 and len(events(place, "agent.idle_without_report")) == 1


def test_with_a_check_the_end_of_a_turn_without_a_report_is_judged_by_the_check(place: Place) -> None:
    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        (place.work / "made").write_text("x")
        return "there"

    place.stage({"one": {"subject": "One", "verify": "test -s made"}}, play(place, {"bob": bob}))
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    assert len(events(place, "agent.idle_without_report")) == 1


def test_a_held_question_is_answered_in_the_next_prompt_of_the_same_session_and_run(place: Place) -> None:
    prompts: list[str] = []
    sessions: set[str] = set()

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        sessions.add(opening.session_id)
        if len(prompts) == 1:
            await anyio.to_thread.run_sync(lambda: me(place, opening).ask("one", "Which port?"))
            return "I asked"
        return await finish(place, opening)

    async def cid(prompt: str, say: Say, opening: Opening) -> str:
        return await finish(place, opening)

    members = play(place, {"bob": bob, "cid": cid})
    place.stage({"one": {"subject": "One", "assignee": "bob"}, "two": {"subject": "Two", "assignee": "cid"}}, members)
    with driven(place, parallel=1) as runner:
        settled(place, "two", "done")  # A session that waits for a person takes nobody's place.
        until(lambda: bool(place.team.questions()) and place.team.questions()[0].held)
        task = place.task("one")
        assert task.state == "awaiting-response" and task.run == 1
        place.team.reply("one", "8080", question=place.team.questions()[0].id)
        assert runner.ended() == "finished"
    assert place.states() == {"one": "done", "two": "done"}
    assert "8080" in prompts[1] and "> Which port?" in prompts[1] and len(sessions) == 1
    assert len(place.team.runs("one")) == 1


def test_a_question_that_nobody_answers_is_parked_and_the_answer_begins_a_new_run_that_resumes(place: Place) -> None:
    resumed: list[str | None] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        resumed.append(opening.resume)
        if len(resumed) == 1:
            await anyio.to_thread.run_sync(lambda: me(place, opening).ask("one", "Which port?"))
            return "I asked"
        assert "8080" in prompt
        return await finish(place, opening)

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}, resumable=True))
    assert place.drive(hold=0.0) == "finished"
    (question,) = place.team.questions()
    (run,) = place.team.runs("one")
    assert not question.held and run.ended_at is not None and run.agent_session == "bob-1"
    shown = place.path / "home" / "teams" / "crew" / "runs" / run.task_id / "run.json"
    assert json.loads(shown.read_text())["status"] == "failed", "it is told as it is: ended without a report"
    assert place.home.doctor().healthy
    place.team.reply("one", "8080", question=question.id)
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    assert resumed == [None, "bob-1"] and len(place.team.runs("one")) == 2


def test_mail_reaches_a_session_that_waits_for_a_person(place: Place) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        if len(prompts) == 1:
            await anyio.to_thread.run_sync(lambda: me(place, opening).ask("one", "Which port?"))
            return "I asked"
        if "8080" in prompt:
            return await finish(place, opening)
        return "I wait"

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))
    with driven(place) as runner:
        until(lambda: bool(place.team.questions()) and place.team.questions()[0].held)
        sent = place.team.send(to="bob", content="by the way")
        until(lambda: stage_of(place, sent.id) == "acknowledged")
        assert place.task("one").state == "awaiting-response"
        place.team.reply("one", "8080", question=place.team.questions()[0].id)
        assert runner.ended() == "finished"
    assert "by the way" in prompts[1] and len(place.team.runs("one")) == 1


def test_a_soft_stop_parks_what_waits_and_ends_every_session(place: Place) -> None:
    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        await anyio.to_thread.run_sync(lambda: me(place, opening).ask("one", "Which port?"))
        return "I asked"

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))
    with driven(place, endless=True) as runner:
        until(lambda: bool(place.team.questions()) and place.team.questions()[0].held)
        runner.stop.request("enough")
        assert runner.ended() == "enough"
    assert not place.team.questions()[0].held and place.task("one").state == "awaiting-response"
    assert len(events(place, "session.ended")) == 1


@pytest.mark.parametrize("unattended", [True, False])
def test_unattended_no_session_is_held(place: Place, unattended: bool) -> None:
    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        if prompt.startswith("# One"):
            await anyio.to_thread.run_sync(lambda: me(place, opening).ask("one", "Which port?"))
            return "I asked"
        return await finish(place, opening)

    place.stage({"one": {"subject": "One"}, "two": {"subject": "Two"}}, play(place, {"bob": bob}))
    place.team.configure({"unattended": unattended})
    with driven(place) as runner:
        if unattended:
            assert runner.ended() == "finished" and place.states()["two"] == "done"
        else:
            until(lambda: bool(place.team.questions()) and place.team.questions()[0].held)
            assert place.states()["two"] == "ready"


def test_what_two_members_write_to_each_other_in_the_middle_of_work_is_read_once_each_and_nothing_is_lost(
    place: Place,
) -> None:
    prompts: dict[str, list[str]] = {"ada": [], "bob": []}
    sent: dict[str, list[str]] = {"ada": [], "bob": []}

    async def chat(prompt: str, say: Say, opening: Opening) -> str:
        name = opening.member
        other = "bob" if name == "ada" else "ada"
        prompts[name].append(prompt)
        for _ in range(3 if len(sent[name]) < 12 else 0):
            word = f"<{name}-{len(sent[name])}>"
            sent[name].append(word)
            await anyio.to_thread.run_sync(lambda word=word: me(place, opening).send(to=other, content=word))  # type: ignore[misc]
        if "You have no task" in prompt or (len(prompts[name]) < 3 and "reported" not in prompt):
            return f"turn {len(prompts[name])}"
        return await finish(place, opening)

    place.stage({"one": {"subject": "One"}, "two": {"subject": "Two"}}, play(place, {"ada": chat, "bob": chat}))
    assert place.drive() == "finished" and set(place.states().values()) == {"done"}
    for name, other in (("ada", "bob"), ("bob", "ada")):
        everything = "".join(prompts[other])
        assert [everything.count(word.replace("<", "&lt;").replace(">", "&gt;")) for word in sent[name]] == [1] * len(
            sent[name]
        )
        assert len(sent[name]) >= 6, "how many rounds there are depends on who is faster"
    assert {one.stage for one in place.team.history() if one.type == "message"} == {"acknowledged"}
