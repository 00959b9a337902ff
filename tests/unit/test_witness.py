"""The figures of a witness against a recount that knows no shortcuts, from rows made at random."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.clock import iso, seconds
from interlock.core.reports.witness import NO_WORK, derive
from interlock.model.event import Event
from interlock.model.question import Question
from interlock.model.run import Run
from interlock.model.task import FINAL
from interlock.model.witness import REDONE, Account, WitnessedTask, as_text

LIMIT = 7.0
TASKS = ("a", "b", "c")
ENDS = FINAL | {"deadletter"}


def at(second: int) -> str:
    return iso(1_800_000_000.0 + second)


def second(time: str) -> int:
    return round(seconds(time) - 1_800_000_000.0)


STATE = st.sampled_from("ready in-progress review awaiting-response done deadletter backlog cancelled".split())
SAID: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "task.claimed": st.just({}),
    "task.transitioned": st.fixed_dictionaries({"to": STATE}),
    "question.asked": st.fixed_dictionaries({"id": st.sampled_from("pq")}),
    "question.answered": st.fixed_dictionaries({"id": st.sampled_from("pq")}),
    "question.withdrawn": st.fixed_dictionaries({"id": st.sampled_from("pq")}),
    "task.failed": st.fixed_dictionaries({"retry_at": st.one_of(st.none(), st.integers(0, 60).map(at))}),
    "run.capacity": st.fixed_dictionaries({"retry_at": st.integers(0, 60).map(at)}),
    "verify.started": st.just({}),
    "verify.finished": st.fixed_dictionaries({"passed": st.booleans()}),
    "merge.started": st.just({}),
    "merge.finished": st.fixed_dictionaries({"outcome": st.sampled_from(["merged", "red", "conflict"])}),
    "team.paused": st.just({}),
    "team.resumed": st.just({}),
    "runner.started": st.sampled_from([{}, {"endless": True}]),
    "runner.stopped": st.sampled_from([{}, {"endless": True}]),
    "run.heartbeat": st.just({}),
    "scheduler.poll": st.just({}),
    "session.began": st.just({}),
}
TEAM = ("team.", "runner.", "scheduler.", "session.")


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    times = sorted(draw(st.lists(st.integers(0, 50), max_size=25)))
    found = []
    for number, time in enumerate(times, 1):
        type = draw(st.sampled_from(sorted(SAID)))
        task = None if type.startswith(TEAM) else draw(st.sampled_from(TASKS))
        actor = draw(st.sampled_from(["ada", "una", "interlock"]))
        found.append(Event(number, type, at(time), actor, task, draw(SAID[type])))
    return found


def run(task: str, number: int, outcome: str | None, turns: int, tokens: int) -> Run:
    return Run(
        task, number, "ada", "", at(number), None if outcome is None else at(number + 4), outcome,
        turns=turns, input_tokens=tokens, output_tokens=tokens // 2, unmetered=int(tokens == 0 and turns > 0),
    )  # fmt: skip


def question(task: str, text: str, answer: str | None, by: str | None, default: str | None, number: int) -> Question:
    state = "answered" if answer else "open" if by is None else "withdrawn"
    return Question(
        f"Q-{number}", task, "clarification", text, [], default, None, at(number), "ada", False, state, answer, by, None
    )


ROW = st.fixed_dictionaries(
    {"kind": st.sampled_from(["verify", "diff"]), "tree": st.sampled_from([None, "t", "u"])},
    optional={
        "passed": st.booleans(), "merged": st.booleans(), "command": st.just("make"), "exit_code": st.just(0),
        "red_before": st.sampled_from([None, True, False]),
    },
)  # fmt: skip
GOOD = {"kind": "verify", "tree": "t", "passed": True, "merged": True, "command": "make", "exit_code": 0}
EVIDENCE = st.one_of(
    st.lists(ROW, max_size=3), st.sampled_from([[{**GOOD, "red_before": red}] for red in (True, False, None)])
)


@st.composite
def accounts(draw: st.DrawFn) -> Account:
    happened = draw(events())
    states = {one.task_id: one.payload["to"] for one in happened if one.type == "task.transitioned"}
    tasks = [
        WitnessedTask(
            id, states.get(id, "ready"), draw(EVIDENCE), draw(st.sampled_from([None, "branch"])), None,
            draw(st.integers(0, 1)),
        )
        for id in TASKS
    ]  # fmt: skip
    outcome = st.sampled_from([*sorted(REDONE), "done", "blocked", None])
    runs = [
        run(id, number, draw(outcome), draw(st.integers(0, 2)), draw(st.sampled_from([0, 0, 100, 330])))
        for id in TASKS
        for number in range(1, draw(st.integers(0, 3)) + 1)
    ]
    word = st.sampled_from("xy")
    questions = [
        question(
            draw(st.sampled_from(TASKS)), draw(word), draw(st.one_of(st.none(), word)),
            draw(st.sampled_from(["una", "ada", None])), draw(st.one_of(st.none(), word)), number,
        )
        for number in range(draw(st.integers(0, 5)))
    ]  # fmt: skip
    return Account("crew", at(55), LIMIT, ["una"], happened, tasks, runs, questions)


def recounted_silence(found: Account, began: int, ended: int) -> int:
    """The longest stretch of whole seconds in which something is due and nothing happens, each second looked at alone
    from all that happened before it."""
    longest = current = 0
    for now in range(began, ended):
        if any(second(one.at) == now and one.type not in NO_WORK for one in found.events):
            current = 0
        current = current + 1 if due(found, now) else 0
        longest = max(longest, current)
    return longest


def due(found: Account, now: int) -> bool:
    past = [one for one in found.events if second(one.at) <= now and one.type not in NO_WORK]
    team = [one.type for one in past if one.type in ("team.paused", "team.resumed")]
    if team and team[-1] == "team.paused":
        return False
    single, endless, stopped = False, 0, False
    for one in past:
        if one.type == "runner.started":
            single, endless, stopped = (
                (single, endless + 1, False) if one.payload.get("endless") else (True, endless, False)
            )
        elif one.type == "runner.stopped":
            if one.payload.get("endless") and endless:
                endless -= 1
            else:
                single = False
            stopped = not single and not endless
    if stopped:
        return False
    states = {one.task_id: one.payload["to"] for one in past if one.type == "task.transitioned"}
    working = [id for id, state in states.items() if state in ("in-progress", "review")]
    return any(
        not excused([one for one in past if one.task_id == id or one.type == "runner.started"], now)
        for id in working or [id for id, state in states.items() if state == "ready"]
    )


def excused(past: list[Event], now: int) -> bool:
    for id in "pq":
        asked = [one.type for one in past if one.type.startswith("question.") and one.payload["id"] == id]
        if asked and asked[-1] == "question.asked":
            return True
    waits = [second(one.payload["retry_at"]) for one in past if one.payload.get("retry_at")]
    if waits and waits[-1] > now:
        return True
    checks = [one for one in past if one.type.startswith(("verify.", "merge.")) or one.type == "runner.started"]
    checks = [one for one in checks if not one.payload.get("endless")]
    return (
        bool(checks)
        and checks[-1].type.endswith("e.started") | checks[-1].type.endswith("y.started")
        and (second(checks[-1].at) + LIMIT > now)
    )


@settings(max_examples=60)
@given(accounts())
def test_every_figure_is_what_a_naive_recount_finds(found: Account) -> None:
    told = derive(found)
    done = [task for task in found.tasks if task.state == "done"]
    assert told.claimed == len(done) == told.witnessed + len(told.unwitnessed)
    assert {one.task_id for one in told.unwitnessed} == {task.id for task in done if not is_witnessed(task)}
    assert told.verified == sum(
        bool(checks) and bool(checks[-1].get("passed"))
        for checks in [[row for row in task.evidence if row["kind"] == "verify"] for task in done]
    )
    assert told.green_before == sum(
        is_witnessed(task) and [row for row in task.evidence if row["kind"] == "verify"][-1]["red_before"] is False
        for task in done
    )
    told_of = [(run.task_id, run.number) for run in found.runs]
    assert told.redone == sum(
        run.outcome in REDONE and any(task == run.task_id and number > run.number for task, number in told_of)
        for run in found.runs
    )
    measured = sum(run.input_tokens + run.output_tokens for run in found.runs)
    if told.input_tokens is not None and told.output_tokens is not None:
        assert told.input_tokens + told.output_tokens == measured
    else:
        assert measured == 0 and told.tokens_unknown == ["ada"]
    answered: list[Question] = []
    genuine = 0
    for one in found.questions:
        if one.state == "answered" and one.answered_by == "una":
            genuine += one.answer != one.default and all(
                (one.task_id, one.text) != (other.task_id, other.text) for other in answered
            )
            answered.append(one)
    assert told.genuine == genuine
    claims = [second(one.at) for one in found.events if one.type == "task.claimed"]
    if not claims:
        assert (told.began_at, told.silence, told.touches) == (None, None, 0)
        return
    ends = [second(one.at) for one in found.events if one.type == "task.transitioned" and one.payload["to"] in ENDS]
    ended = 55 if any(task.state not in ENDS for task in found.tasks) else max(ends)
    assert (second(str(told.began_at)), second(str(told.ended_at))) == (claims[0], ended)
    assert (told.silence.seconds if told.silence else 0) == recounted_silence(found, claims[0], ended)
    acts = {second(one.at) for one in found.events if one.actor == "una" and one.type != "session.began"}
    assert told.touches == sum(claims[0] <= time <= ended for time in acts)
    assert as_text(told)


def is_witnessed(task: WitnessedTask) -> bool:
    checks = [row for row in task.evidence if row["kind"] == "verify"]
    merges = [row for row in task.evidence if row["kind"] == "diff"]
    return (
        bool(checks)
        and bool(checks[-1].get("passed") and checks[-1].get("merged"))
        and all(checks[-1].get(name) is not None for name in ("tree", "command", "exit_code", "red_before"))
        and (not merges or merges[-1]["tree"] == checks[-1]["tree"])
    )


def test_what_is_unknown_is_said_to_be_unknown() -> None:
    empty = Account("crew", at(0), LIMIT, [], [], [], [run("a", 1, "done", 1, 0)], [])
    told = derive(empty)
    assert (told.input_tokens, told.cost_usd, told.tokens_per_verified) == (None, None, None)
    text = "\n".join(as_text(told))
    assert "unknown for some turns of ada" in text and "$0.00" not in text
    priced = derive(replace(empty, runs=[replace(empty.runs[0], cost_usd=0.5), run("b", 1, "done", 1, 100)]))
    assert "at least $0.50; unknown for 1 run" in "\n".join(as_text(priced))
    assert "at least 100 sent" in "\n".join(as_text(priced))
