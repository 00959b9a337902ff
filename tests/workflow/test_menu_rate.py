"""Menus reach a human no faster than a human can take them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from interlock.clock import seconds
from interlock.workflow.agents.watch import Limits
from interlock.workflow.engine.ports import Asking
from interlock.workflow.preferences import menu_rate
from interlock.workflow.state.document import RunPlan
from tests.workflow import virtual
from tests.workflow.stage import DONE, START, MemoryDesk, Outcome, Part, Player, play, project, writes

MENU = "Please select an option:\n\n[D] Delete plan {}\n[O] Overwrite"
"""Nothing but a human answers this."""


def menus(count: int, *, every: float = 0.0, question_after: int | None = None) -> Any:
    """An agent that shows so many menus, each after so many seconds, and perhaps asks something in between."""
    shown = {"menus": 0, "asked": False}

    async def part(part: Part) -> str:
        if every:
            await virtual.passes(every)
        if question_after == shown["menus"] and not shown["asked"]:
            shown["asked"] = True
            return "What is it called?"
        if shown["menus"] == count:
            return DONE
        shown["menus"] += 1
        return MENU.format(shown["menus"])

    return part


def answer(asking: Asking) -> str:
    return "O" if asking.kind == "menu" else "continue"


def run(tmp_path: Path, count: int, desk: MemoryDesk | None = None, **more: Any) -> Outcome:
    root = project(tmp_path / "p", steps=1)
    player = Player(menus(count, every=more.pop("every", 0.0), question_after=more.pop("question_after", None)))
    plan = RunPlan(project=str(root), tier=1)
    return play(root, player, desk=desk or Timed(answers=answer), plan=plan, limits=more.pop("limits", None), **more)


@dataclass
class Timed(MemoryDesk):
    """A desk that notes when each menu was put to the human, and what a status would have said while it waited."""

    times: list[tuple[str, float]] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)

    async def save(self, state: Any, events: Any = (), asking: Asking | None = None) -> str | None:
        if asking is not None:
            self.times.append((asking.kind, seconds(self.now()) - START))
        return await super().save(state, events, asking)

    async def change_session(self, change: Any) -> dict[str, Any]:
        found = await super().change_session(change)
        self.statuses.append(menu_rate.status(copy.deepcopy(self.shared), seconds(self.now())))
        return found

    @property
    def menus(self) -> list[float]:
        return [at for kind, at in self.times if kind == "menu"]


@pytest.mark.req("BMAD-7.6.1", "BMAD-FR55", "BMAD-E7.5")
@pytest.mark.parametrize(("every", "apart"), [(0.0, 2.0), (0.5, 2.0), (1.75, 2.0), (3.0, 3.0)])
def test_two_menus_are_two_seconds_apart(tmp_path: Path, every: float, apart: float) -> None:
    desk = Timed(answers=answer)
    outcome = run(tmp_path, 5, desk, every=every)
    assert outcome.state.outcome == "COMPLETED" and len(desk.menus) == 5
    between = [b - a for a, b in zip(desk.menus, desk.menus[1:], strict=False)]
    assert all(one == pytest.approx(apart, abs=0.01) for one in between)


@pytest.mark.req("BMAD-7.6.4", "BMAD-E7.5")
def test_while_a_menu_waits_the_status_says_until_when(tmp_path: Path) -> None:
    desk = Timed(answers=answer)
    run(tmp_path, 2, desk)
    waiting = [one for one in desk.statuses if one["rate_limited"]]
    assert waiting and waiting[0]["rate_limit_reason"] == "interval"
    assert seconds(waiting[0]["next_available_at"]) - START == pytest.approx(2.0, abs=0.01)
    assert menu_rate.status(desk.shared, START + 100)["rate_limited"] is False


@pytest.mark.req("BMAD-7.6.2", "BMAD-7.6.4", "BMAD-FR56", "BMAD-E7.5")
def test_before_the_eleventh_menu_in_a_row_there_is_a_pause_with_a_summary(tmp_path: Path) -> None:
    desk = Timed(answers=lambda asking: "O" if asking.kind == "menu" else None)
    outcome = run(tmp_path, 12, desk)
    assert outcome.ending.kind == "parked" and len(desk.menus) == 10
    assert outcome.state.waiting is not None and outcome.state.waiting.purpose == "menu_pause"
    pause = list(desk.asked.values())[-1]
    assert "10 menus in a row" in pause.text and pause.options == ("continue", "stop")
    assert all(f"Delete plan {number} " in pause.text for number in range(1, 11)) and pause.text.count("-> O") == 10
    status = menu_rate.status(desk.shared, START + 1000)
    assert (status["rate_limited"], status["rate_limit_reason"]) == (True, "pause")
    assert seconds(status["next_available_at"]) >= START


@pytest.mark.req("BMAD-7.6.3", "BMAD-E7.5")
def test_acknowledged_the_menu_that_waited_is_presented_and_the_count_begins_anew(tmp_path: Path) -> None:
    desk = Timed(answers=answer)
    outcome = run(tmp_path, 23, desk)
    assert outcome.state.outcome == "COMPLETED"
    kinds = [one.kind for one in desk.asked.values()]
    assert kinds == ["menu"] * 10 + ["clarification"] + ["menu"] * 10 + ["clarification"] + ["menu"] * 3
    eleventh = list(desk.asked.values())[11]
    assert "Delete plan 11" in eleventh.text and eleventh.options == ("D: Delete plan 11", "O: Overwrite")
    assert menu_rate.status(desk.shared, START + 10_000)["rate_limited"] is False


def test_the_pause_may_stop_the_run(tmp_path: Path) -> None:
    desk = Timed(answers=lambda asking: "O" if asking.kind == "menu" else "stop")
    outcome = run(tmp_path, 12, desk)
    assert outcome.state.outcome == "FAILED" and outcome.state.error == "a human stopped it"


def test_another_word_of_the_human_in_between_begins_the_count_anew(tmp_path: Path) -> None:
    desk = Timed(answers=lambda asking: "O" if asking.kind == "menu" else "Garden")
    outcome = run(tmp_path, 15, desk, question_after=8)
    assert outcome.state.outcome == "COMPLETED"
    assert [one.kind for one in desk.asked.values()] == ["menu"] * 8 + ["clarification"] + ["menu"] * 7


def test_what_the_engine_answers_itself_counts_for_nothing(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=30)
    outcome = play(root, Player(writes(root)), plan=RunPlan(project=str(root), tier=1))
    assert outcome.state.outcome == "COMPLETED" and outcome.seconds == 0 and not outcome.desk.asked


def test_a_pause_survives_the_process(tmp_path: Path) -> None:
    first = Timed(answers=lambda asking: "O" if asking.kind == "menu" else None)
    parked = run(tmp_path / "a", 12, first)
    state = first.saved
    assert state is not None and parked.ending.kind == "parked"
    again = Timed(answers=answer, shared=first.shared, asked=first.asked, replies=first.replies)
    again.replies[str(state.waiting and state.waiting.question_id)] = "continue"
    root = tmp_path / "a" / "p"
    outcome = play(root, Player(menus(0)), desk=again, state=state)
    assert outcome.state.outcome == "COMPLETED"
    assert [one.kind for one in again.asked.values()] == ["menu"] * 10 + ["clarification", "menu"]


def test_both_limits_are_settings(tmp_path: Path) -> None:
    desk = Timed(answers=answer)
    outcome = run(tmp_path, 15, desk, limits=Limits(menu_interval=0.0, menu_pause=0))
    assert outcome.state.outcome == "COMPLETED" and outcome.seconds == 0 and len(desk.menus) == 15


@given(
    arrivals=some.lists(some.floats(0, 5), min_size=1, max_size=40),
    interval=some.sampled_from([0.0, 1.0, 2.0]),
    most=some.integers(0, 6),
)
def test_whatever_the_order_no_two_menus_come_too_close_and_none_waits_for_ever(
    arrivals: list[float], interval: float, most: int
) -> None:
    document: dict[str, Any] = {}
    now, last, row = START, None, 0
    for gap in arrivals:
        now += gap
        admission = menu_rate.admit(document, now, interval=interval, most=most)
        if admission.pause:
            assert most and row == most and menu_rate.status(document, now)["rate_limited"]
            menu_rate.spoke(document)
            row = 0
            admission = menu_rate.admit(document, now, interval=interval, most=most)
        assert not admission.pause and 0 <= admission.wait <= interval * max(1, most or 1)
        at = now + admission.wait
        assert last is None or at - last >= interval - 0.01
        menu_rate.presented(document, "menu", run="r", step=1, at="")
        last, row, now = at, row + 1, max(now, at)


def test_a_clock_that_was_set_back_keeps_nobody_waiting() -> None:
    document: dict[str, Any] = {}
    menu_rate.admit(document, START + 86_400)
    assert menu_rate.admit(document, START).wait <= 20
