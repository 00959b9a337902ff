"""What runs cost, limits that ask or stop, an agent that gets nowhere, and one whose provider has nothing left."""

from __future__ import annotations

import time
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from interlock.agents.scripted import Say
from interlock.agents.session import Opening, Turn, Update
from interlock.clock import iso, seconds
from interlock.errors import InvalidRequest, PlanError
from interlock.model.report import as_text
from interlock.runner import team_runner
from interlock.runner.picture import TeamPicture
from tests.agents.acting import acp_member
from tests.behaviours.driving import Place
from tests.behaviours.lasting import driven, event, events, me, play, settled
from tests.behaviours.test_lasting import finish
from tests.waiting import until


def use(say: Say, **spent: float) -> None:
    say.update(Update("usage", "", spent))


def test_what_was_spent_is_summed_up_for_run_task_and_team_and_stands_in_the_report(place: Place) -> None:
    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        use(say, cost_usd=0.25)
        use(say, turns=1, input_tokens=1000, output_tokens=200, cost_usd=0.5)
        return "not yet" if "reported" not in prompt else await finish(place, opening)

    place.stage({"one": {"subject": "One"}, "two": {"subject": "Two"}}, play(place, {"bob": bob}))
    assert place.drive() == "finished"
    (run,) = place.team.runs("one")
    spent = {"turns": 2, "input_tokens": 2000, "output_tokens": 400, "cost_usd": 1.5}
    assert run.spent == spent and run.as_dict()["spent"] == spent
    report = place.team.report()
    assert [task.spent for task in report.done] == [spent, spent]
    assert report.totals.spent == {name: value * 2 for name, value in spent.items()}
    status = place.team.status().spent
    assert (status["turns"], status["tokens"], status["cost_usd"]) == (4, 4800, 3.0)


def test_an_agent_that_tells_nothing_counts_as_one_turn_a_prompt(place: Place) -> None:
    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        return "not yet" if "reported" not in prompt else await finish(place, opening)

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))
    assert place.drive() == "finished" and place.team.runs("one")[0].turns == 2


def test_what_nobody_tells_is_unknown_and_a_sum_with_it_says_at_least(place: Place) -> None:
    async def ada(prompt: str, say: Say, opening: Opening) -> str:
        use(say, turns=1, input_tokens=1000, output_tokens=200, cost_usd=0.5)
        return await finish(place, opening)

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        return await finish(place, opening)

    tasks = {"one": {"subject": "One", "assignee": "ada"}, "two": {"subject": "Two", "assignee": "bob"}}
    place.stage(tasks, play(place, {"ada": ada, "bob": bob}))
    assert place.drive() == "finished"
    silent = place.team.runs("two")[0].as_dict()["spent"]
    assert (silent["turns"], silent["input_tokens"], silent["output_tokens"]) == (1, None, None)
    report = place.team.report()
    told = "\n".join(as_text(report))
    assert "at least 1,200 tokens (bob unknown), at least 0.50 USD" in told and "tokens unknown (bob)" in told
    assert report.totals.spent["unknown"] == ["bob"] and report.totals.spent["input_tokens"] == 1000
    status = place.team.status().spent
    assert (status["tokens"], status["unknown"], status["cost_usd"], status["cost_partial"]) == (
        1200,
        ["bob"],
        0.5,
        True,
    )


@pytest.mark.long
def test_a_run_whose_runner_was_killed_has_an_unknown_part(place: Place) -> None:
    bob = acp_member(
        place.path, turns=[[{"usage": {"total_cost": 0.5}}, {"touch": str(place.work / "on")}, {"hang": 1}]]
    )
    place.stage({"one": {"subject": "One", "retries": 0}}, {"bob": bob})
    with place.runner() as runner:
        until(lambda: (place.work / "on").exists() and place.team.runs("one")[0].agent_session is not None)
        runner.kill()
    place.team.poll()
    spent = place.team.runs("one")[0].spent
    assert spent["input_tokens"] is None and spent["unknown"] == ["bob"]


def test_prompts_that_only_bring_mail_count_for_their_member_and_the_team(place: Place) -> None:
    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        use(say, turns=1, input_tokens=1000, output_tokens=200, cost_usd=0.5)
        return "read" if "You have no task" in prompt else await finish(place, opening)

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))
    with driven(place, endless=True):
        settled(place, "one", "done")
        place.team.send(to="bob", content="are you there?")
        event(place, "session.prompted", member="bob", input_tokens=1000)
    status = place.team.status()
    assert (status.spent["tokens"], status.spent["turns"], status.spent["cost_usd"]) == (2400, 2, 1.0)
    totals = place.team.report().totals
    assert totals.runs == 1 and totals.spent["input_tokens"] == 2000
    assert place.team.runs("one")[0].spent["input_tokens"] == 1000


@pytest.mark.parametrize("whose", ["member", "run"])
def test_a_limit_holds_for_mail_between_two_tasks_as_well(place: Place, whose: str) -> None:
    count = {"ada": 0, "bob": 0}

    async def chat(prompt: str, say: Say, opening: Opening) -> str:
        other = "bob" if opening.member == "ada" else "ada"
        count[opening.member] += 1
        use(say, turns=1, input_tokens=1000)
        await anyio.to_thread.run_sync(lambda: me(place, opening).send(to=other, content=f"well? {count}"))
        return "sent"

    members = play(place, {"ada": chat, "bob": chat})
    if whose == "member":
        members["ada"]["limits"] = members["bob"]["limits"] = {"tokens": 3000}
    place.stage({"one": {"subject": "One", "review": "human"}}, members)
    place.team.cancel("one")
    place.team.configure({"mail_turns": 100})
    place.team.send(to="bob", content="go on")
    with driven(place, limits={"tokens": 3000} if whose == "run" else {}) as runner:
        reason = runner.ended()
        said = [update.text for _, _, update in runner.said if update.kind == "notice"]
    if whose == "member":
        assert count == {"ada": 3, "bob": 3} and reason == "finished"
        assert [text for text in said if "used 3,000 tokens of 3,000 tokens: its mail waits" in text]
    else:
        assert "are used up, of 3,000 tokens" in reason
        assert 3 <= sum(count.values()) <= 5, "what both were at when it was reached, and no more"


def test_what_was_asked_for_when_a_prompt_was_cut_off_makes_the_sum_a_lower_bound(place: Place) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str | Turn:
        prompts.append(prompt)
        use(say, turns=1, input_tokens=1000)
        return Turn("killed", detail="by the test") if len(prompts) == 1 else await finish(place, opening)

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    killed, whole = place.team.runs("one")
    assert killed.spent["unknown"] == ["bob"] and killed.spent["input_tokens"] == 1000
    assert "unknown" not in whole.spent
    assert "at least 2,000 tokens (bob unknown)" in "\n".join(as_text(place.team.report()))


@pytest.mark.long
def test_mail_under_way_when_its_runner_was_killed_has_an_unknown_part(place: Place) -> None:
    bob = acp_member(place.path, turns=[[{"touch": str(place.work / "on")}, {"hang": 1}]])
    place.stage({"one": {"subject": "One", "review": "human"}}, {"bob": bob})
    place.team.cancel("one")
    place.team.send(to="bob", content="hello")
    with place.runner() as runner:
        until(lambda: (place.work / "on").exists())
        runner.kill()
    assert place.team.status().spent["unknown"] == ["bob"]


def test_a_program_that_never_started_has_spent_nothing(place: Place) -> None:
    place.stage({"one": {"subject": "One", "retries": 0}}, {"bob": {"agent": {"command": ["./nowhere"]}}})
    assert place.drive() == "finished" and place.states() == {"one": "deadletter"}
    report = place.team.report()
    assert report.totals.spent["turns"] == 0 and "unknown" not in "\n".join(as_text(report))


def test_a_limit_of_tokens_asks_where_they_turn_out_to_be_unknown(place: Place) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        return "half of it" if len(prompts) == 1 else await finish(place, opening)

    place.stage({"one": {"subject": "One", "limits": {"tokens": 1000}}}, play(place, {"bob": bob}))
    with driven(place) as runner:
        until(lambda: bool(place.team.questions()))
        (question,) = place.team.questions()
        assert question.kind == "limit" and "an unknown number of tokens" in question.text
        place.team.reply("one", "continue", question=question.id)
        assert runner.ended() == "finished"
    assert place.states() == {"one": "done"} and len(prompts) == 2


@pytest.mark.parametrize("whose", ["member", "task", "run"])
def test_a_limit_of_tokens_on_a_mere_command_is_a_fault_of_the_plan(place: Place, whose: str) -> None:
    limits: dict[str, Any] = {"limits": {"tokens": 1000}}
    members = {"bob": {"agent": {"command": ["true"]}, **(limits if whose == "member" else {})}}
    task = {"subject": "One", **(limits if whose == "task" else {})}
    with pytest.raises(PlanError, match=r":\d+: the tokens of bob cannot be measured"):
        place.stage({"one": task}, members, **(limits if whose == "run" else {}))


def test_a_turn_is_ended_as_soon_as_it_has_told_too_much(place: Place) -> None:
    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        if not place.team.questions() and "answered" not in prompt:
            use(say, input_tokens=2000)
            await anyio.sleep_forever()
        return await finish(place, opening)

    place.stage({"one": {"subject": "One", "limits": {"tokens": 1000}}}, play(place, {"bob": bob}))
    with driven(place) as runner:
        until(lambda: bool(place.team.questions()))
        assert "2,000 tokens of 1,000 tokens" in place.team.questions()[0].text
        place.team.reply("one", "cancel", question=place.team.questions()[0].id)
        assert runner.ended() == "finished"
    assert place.states() == {"one": "cancelled"}


@pytest.mark.parametrize(
    "limits", [{"turns": 1}, {"tokens": 1000}, {"cost_usd": 0.5}], ids=["turns", "tokens", "cost_usd"]
)
@pytest.mark.parametrize("whose", ["task", "member"])
@pytest.mark.parametrize("word", ["continue", "cancel"])
def test_over_a_limit_a_person_is_asked_whether_it_goes_on(
    place: Place, limits: dict[str, float], whose: str, word: str
) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        if len(prompts) == 1:
            use(say, turns=1, input_tokens=1000, output_tokens=10, cost_usd=0.5)
            return "half of it"
        return await finish(place, opening)

    members = play(place, {"bob": bob})
    task = {"subject": "One", **({"limits": limits} if whose == "task" else {})}
    if whose == "member":
        members["bob"]["limits"] = limits
    place.stage({"one": task}, members)
    with driven(place) as runner:
        until(lambda: bool(place.team.questions()))
        (question,) = place.team.questions()
        assert question.kind == "limit" and question.options == ["continue", "cancel"] and "used" in question.text
        (need,) = place.needs("limit")
        assert need.verb.startswith(f"interlock question reply {question.task_id} 'continue|cancel' --question ")
        with pytest.raises(InvalidRequest, match="one of: continue, cancel"):
            place.team.reply("one", "continue|cancel", question=question.id)
        place.team.reply("one", word, question=question.id)
        assert runner.ended() == "finished"
    assert place.states() == {"one": "done" if word == "continue" else "cancelled"}
    assert len(prompts) == (2 if word == "continue" else 1)
    (reached,) = events(place, "limit.reached")
    assert reached.payload["of"] == whose and reached.payload["measure"] == next(iter(limits))


@pytest.mark.parametrize("late", [False, True], ids=["", "that is reached while the runner looks around"])
def test_a_limit_of_the_whole_run_lets_nothing_new_start(
    place: Place, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    look = team_runner.TeamRunner._end_superseded

    async def look_around_for_long(runner: team_runner.TeamRunner, seen: TeamPicture) -> None:
        await look(runner, seen)
        while late and runner._busy:
            await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(team_runner.TeamRunner, "_end_superseded", look_around_for_long)

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        use(say, cost_usd=3.0)
        return await finish(place, opening)

    tasks = {"one": {"subject": "One"}, "two": {"subject": "Two"}}
    staged = place.stage(tasks, play(place, {"bob": bob}), limits={"cost_usd": 2.5, "turns": 100})
    assert staged.limits == {"cost_usd": 2.5, "turns": 100.0}
    reason = place.drive(limits=staged.limits)
    assert "3.00 USD" in reason and "2.50 USD" in reason
    assert sorted(place.states().values()) == ["done", "ready"]


def test_who_gets_nowhere_is_told_once_and_then_the_attempt_is_over_with_evidence(place: Place) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        await anyio.to_thread.run_sync(lambda: place.team.send(to="bob", content="well?"))
        return "still thinking"

    place.stage({"one": {"subject": "One", "retries": 0}}, play(place, {"bob": bob}))
    place.team.configure({"stuck_turns": 2})
    with driven(place) as runner:
        settled(place, "one", "deadletter")
        place.team.pause("bob")
        runner.stop.request("enough")
        runner.ended()
    told, ended = events(place, "run.stuck")
    assert (told.payload["action"], ended.payload["action"]) == ("reminded", "ended")
    assert ended.payload["evidence"]["turns"] >= 3 and ended.payload["evidence"]["changes"] == 0
    assert any("no progress" in prompt for prompt in prompts) and "stuck" in str(place.task("one").output)


def test_a_tool_call_a_file_or_another_word_is_progress(place: Place) -> None:
    count = 0

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        nonlocal count
        count += 1
        if count == 9:
            return await finish(place, opening)
        await anyio.to_thread.run_sync(lambda: place.team.send(to="bob", content="well?"))
        if count % 3 == 0:
            say.update(Update("tool", "Edit", {"kind": "edit", "status": "completed"}))
        elif count % 3 == 1:
            (place.work / "file").write_text("x" * count)
        return "other words" if count % 3 == 2 else "the same"

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))
    place.team.configure({"stuck_turns": 1, "mail_turns": 100})
    with driven(place) as runner:
        settled(place, "one", "done")
        runner.stop.request("enough", now=True)
    assert not events(place, "run.stuck")


@pytest.mark.long
def test_without_capacity_no_attempt_is_used_up_and_the_session_is_resumed_at_the_reset(place: Place) -> None:
    resumed: list[str | None] = []
    resets: list[float] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str | Turn:
        resumed.append(opening.resume)
        if len(resumed) == 1:
            resets.append(time.time() + 10)  # Long enough to look at what waits for it, on a busy machine too.
            return Turn("capacity", detail="usage limit reached", retry_at=resets[0])
        assert "Your session goes on" in prompt or "your session goes on" in prompt
        return await finish(place, opening)

    async def cid(prompt: str, say: Say, opening: Opening) -> str:
        return await finish(place, opening)

    members = play(place, {"bob": bob, "cid": cid}, resumable=True)
    place.stage({"one": {"subject": "One", "assignee": "bob"}, "two": {"subject": "Two", "assignee": "cid"}}, members)
    with driven(place, parallel=1) as runner:
        until(lambda: bool(events(place, "run.capacity")))
        assert place.task("one").state == "ready" and place.task("one").failures == 0
        (left,) = [task for task in place.team.report().left if task.key == "one"]
        assert "capacity" in left.why and "usage limit reached" in left.why
        (waiting,) = place.team.report().incidents
        again = str(place.task("one").not_before)[:19].replace("T", " ")
        assert str(waiting.reason).endswith(f"; next try {again} UTC")
        assert runner.ended() == "finished"
    assert place.states() == {"one": "done", "two": "done"} and resumed == [None, "bob-1"]
    first, second = place.team.runs("one")
    assert first.outcome == "capacity" and seconds(second.started_at) >= seconds(iso(resets[0]))
    assert any(one.outcome == "capacity" for one in place.team.report().incidents)


def test_a_run_without_a_session_of_its_agent_hides_no_earlier_one(place: Place) -> None:
    resumed: list[str | None] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str | Turn:
        resumed.append(opening.resume)
        if len(resumed) == 1:
            await anyio.to_thread.run_sync(place.team.pause)  # The runner leaves the task to the other session.
            return Turn("capacity", detail="usage limit reached", retry_at=time.time())
        return await finish(place, opening)

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}, resumable=True))
    with driven(place) as runner:
        until(lambda: bool(events(place, "run.capacity")))
        by_hand = place.team.acting("bob", session="by-hand")
        by_hand.claim("one")
        by_hand.release("one")
        place.team.resume()
        assert runner.ended() == "finished"
    assert place.states() == {"one": "done"} and resumed == [None, "bob-1"]


def test_an_expired_login_is_a_question_and_no_loop(place: Place) -> None:
    count = 0

    async def bob(prompt: str, say: Say, opening: Opening) -> str | Turn:
        nonlocal count
        count += 1
        if count == 1:
            return Turn("capacity", detail="please run /login", login=True)
        return await finish(place, opening)

    place.stage({"one": {"subject": "One"}}, play(place, {"bob": bob}))
    assert place.drive() == "finished" and count == 1
    (question,) = place.team.questions()
    assert "/login" in question.text and place.needs("clarification")
    place.team.reply("one", "I did", question=question.id)
    assert place.drive() == "finished" and place.states() == {"one": "done"} and count == 2
    assert place.task("one").failures == 0
