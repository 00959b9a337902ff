"""The five waits of the specification (NFR5), each with the default that real runs have, in virtual time."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import anyio
import pytest

from interlock.settings import known
from interlock.workflow.agents.watch import Limits
from interlock.workflow.state.document import RunPlan
from interlock.workflow.state.sprint_status_watcher import SprintStatusWatcher, StatusChange
from tests.workflow import virtual
from tests.workflow.builder import SLEEPS, Maker, Validators, build, builder, rounds
from tests.workflow.stage import DONE, MemoryDesk, Outcome, Part, Player, play, project, script
from tests.workflow.test_party_runs import line, stalling, who

SETTINGS = {"party_round": "workflow_party_round", "sync_wait": "workflow_sync_wait", "selection": "workflow_selection"}


def party(root: Path, seconds: dict[str, float], leaves: str = "") -> Outcome:
    """A stall that is discussed by voices that take so long each, and are never silent for long meanwhile."""

    async def part(part: Part) -> str:
        ends = anyio.current_time() + seconds[who(part)]
        while anyio.current_time() < ends:
            part.say("…")
            await virtual.passes(min(10.0, ends - anyio.current_time()))
        return line("Add users") + ("\n*exit" if who(part) == leaves else "")

    desk = MemoryDesk(answers=lambda asking: "stop")
    return play(project(root), stalling(), plan=RunPlan(project=str(root), tier=1), desk=desk, subagents=Player(part))


def heard(outcome: Outcome) -> list[str]:
    return [one["agent"] for round in outcome.state.party["rounds"] for one in round["contributions"]]


@pytest.mark.req("BMAD-NFR5")
def test_the_five_waits_end_what_they_wait_for_and_no_earlier(tmp_path: Path) -> None:
    # A round of Party Mode: 120 s.
    found = party(tmp_path / "round", {"Rowan": 119.9, "Ines": 120.1, "Noor": 10_000})
    assert {*heard(found)} == {"Rowan"}, "what took longer than a round is not heard"
    nobody = party(tmp_path / "nobody", dict.fromkeys(("Rowan", "Ines", "Noor"), 10_000.0))
    assert nobody.state.party["exit_reason"] == "timeout" and 120 <= nobody.seconds < 121

    # The grace of those that still speak when a discussion is left: 500 ms.
    left = party(tmp_path / "left", {"Rowan": 10.0, "Ines": 10.4, "Noor": 10.6}, leaves="Rowan")
    assert heard(left) == ["Rowan", "Ines"] and 10.5 <= left.seconds < 10.6

    # The synchronisation of validators: 120 s.
    validators = Validators({"08b": [SLEEPS, 0.0]})
    root = builder(tmp_path / "builder")
    waited = build(root, Maker(root), validators)
    assert rounds(waited)[-1]["error"] == "barrier_timeout" and validators.began[-1] == ("08b", 120.0)
    in_time = Validators({"08b": [119.9]})
    root = builder(tmp_path / "in-time")
    assert "error" not in rounds(build(root, Maker(root), in_time))[-1] and in_time.attempts["08b"] == 1

    # The choice of a human: 300 s, then the run is parked and has not failed.
    author = Player(script("Which one?\n\n[D] Delete the plan\n[R] Reset it", DONE))
    parked = play(project(tmp_path / "parked"), author)
    assert parked.ending.kind == "parked" and parked.seconds == 300 and parked.state.outcome is None

    # The reading of status files whose change does not show in their times: every 5 s.
    assert watched(tmp_path / "status.yaml") == [(5.0, "backlog", "done"), (10.0, "done", "review")]


class Unchanged:
    """A source that never hears of a change."""

    def now(self) -> float:
        return anyio.current_time()

    async def changed(self, timeout: float) -> bool:
        await virtual.passes(timeout)
        return False


def watched(path: Path) -> list[tuple[float, str | None, str | None]]:
    """(when, before, after) of what is told of a file that changes at 1 s and 6 s, which does not show."""
    told: list[tuple[float, str | None, str | None]] = []

    def change(status: str) -> None:
        path.write_text(f"development_status:\n  1-1-first: {status}\n")

    def on_change(changes: list[StatusChange]) -> None:
        told.extend((anyio.current_time(), one.before, one.after) for one in changes)

    async def main() -> None:
        change("backlog")
        watcher = SprintStatusWatcher([str(path)], Unchanged(), on_change)
        async with anyio.create_task_group() as group:
            group.start_soon(watcher.run)
            for seconds, status in ((1, "done"), (5, "review")):
                await virtual.passes(seconds)
                change(status)
            await virtual.passes(6)
            group.cancel_scope.cancel()

    virtual.run(main)
    return told


@pytest.mark.req("BMAD-NFR5")
def test_the_defaults_of_real_runs_are_those_limits() -> None:
    limits = Limits()
    assert (limits.party_round, limits.sync_wait, limits.selection, limits.exit_grace) == (120, 120, 300, 0.5)
    for name, setting in SETTINGS.items():
        assert known(setting).default == getattr(limits, name)
    assert {*SETTINGS, "exit_grace"} <= {one.name for one in fields(Limits)}


@pytest.mark.req("BMAD-NFR5")
@pytest.mark.parametrize("seconds", [30, 90])
def test_how_long_a_human_is_waited_for_can_be_set(tmp_path: Path, seconds: int) -> None:
    author = Player(script("Which one?\n\n[D] Delete the plan\n[R] Reset it", DONE))
    found = play(project(tmp_path / "p"), author, limits=Limits(selection=float(seconds)))
    assert found.ending.kind == "parked" and found.seconds == seconds
