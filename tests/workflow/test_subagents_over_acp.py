"""Subagents that are real programs: whatever becomes of them, no process is left."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from interlock.agents.acp.agent import AcpAgent, LaunchSpec
from interlock.agents.session import Opening, Update
from interlock.processes import table
from interlock.processes.ancestry import RUN_TOKEN, RUN_WITHIN
from interlock.processes.groups import end_marked
from interlock.workflow.agents.assignment import HIGH, Assignment, Report
from interlock.workflow.agents.subagent import Staffing
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.agents.watch import Limits
from tests.agents.acting import acp_command, recorded
from tests.waiting import until

DEAF = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]


class Program:
    """A dispatcher of programs that follow one script; `alive` are the processes that any of them left."""

    def __init__(self, path: Path, size: int, **script: object) -> None:
        self.work = path / "work"
        self.work.mkdir()
        self.token = os.urandom(16).hex()
        self.log = path / "log"
        self.told: list[Update] = []
        self.agent = AcpAgent("actor", LaunchSpec(tuple(acp_command(path, **script))))
        self.opening = Opening(
            session_id="s", member="ada", workdir=str(self.work), environment={**os.environ, RUN_TOKEN: self.token},
            log=str(self.log), time_limit=60.0, stop_grace=0.3, output_bytes=100_000,
        )  # fmt: skip
        limits = Limits(silence=30.0, grace=0.3)
        self.dispatcher = SubagentDispatcher(Staffing(self.agent, self.opening), self.told.append, size, limits=limits)

    @property
    def alive(self) -> set[int]:
        pids = [row.pid for row in table.rows() if row.running]
        names = (RUN_TOKEN, RUN_WITHIN)
        return {pid for name in names for pid in table.marked(pids, f"{name}={self.token}")}


@pytest.mark.long
def test_processes_of_subagents_that_answer_crash_hang_or_make_room_are_gone_afterwards(tmp_path: Path) -> None:
    started = tmp_path / "started"
    script = {
        "when": [
            {"match": "answer", "do": [{"child": ["sleep", "300"]}, {"say": "yes"}]},
            {"match": "crash", "do": [{"child": ["sleep", "300"], "session": True}, {"crash": "kill"}]},
            {"match": "hang", "do": [{"child": DEAF}, {"touch": str(started)}, {"hang": "deaf"}]},
        ]
    }
    context = Program(tmp_path, 2, **script)

    async def main() -> tuple[list[Report], Report, int]:
        reports: list[Report] = []

        async def one(label: str, **more: object) -> None:
            assignment = Assignment(label, f"{label}, please", "validation", **more)  # type: ignore[arg-type]
            reports.append(await context.dispatcher.run(assignment))

        async with anyio.create_task_group() as group:
            group.start_soon(one, "answer")
            group.start_soon(one, "crash")
        talk = await context.dispatcher.open(Assignment("open", "", "creative"))
        assert (await talk.say("answer me")).text == "yes\n"
        async with anyio.create_task_group() as group:
            group.start_soon(one, "hang")
            await anyio.to_thread.run_sync(until, started.exists)
            at_work = len(await anyio.to_thread.run_sync(lambda: context.alive))
            # Both seats are taken: the open conversation is idle and gives way, then the hanging one makes room.
            group.start_soon(lambda: one("answer", priority=HIGH))
            group.start_soon(lambda: one("answer too", priority=HIGH))
            await anyio.to_thread.run_sync(until, lambda: sum(one.label.startswith("answer") for one in reports) == 3)
            await context.dispatcher.close()
        late = await context.dispatcher.run(Assignment("late", "answer"))
        return reports, late, at_work

    reports, late, at_work = anyio.run(main)
    found = {(one.label, one.status) for one in reports}
    assert {("answer", "completed"), ("crash", "failed"), ("answer too", "completed")} <= found
    assert dict(found)["hang"] in ("cancelled", "preempted") and late.status == "cancelled"
    assert at_work > 2 and context.alive == set()
    assert "[answer] yes" in context.log.read_text()


@pytest.mark.req("BMAD-FR23c", "BMAD-5.8.4")
def test_a_subagents_session_is_resumed_in_another_process_by_its_id(tmp_path: Path) -> None:
    context = Program(tmp_path, 1, can=["resume"], state=str(tmp_path / "kept"), turns=[[{"say": "noted"}]])

    async def main() -> tuple[str | None, bool, str]:
        first = await context.dispatcher.open(Assignment("winston", "", "creative"))
        await first.say("remember the milk")
        await first.close()
        again = await context.dispatcher.open(Assignment("winston", "", "creative", agent_id=first.agent_id))
        report = await again.say("what was it?")
        await context.dispatcher.close()
        return first.agent_id, again.resumed, report.status

    id, resumed, status = anyio.run(main)
    assert id and resumed and status == "completed" and context.alive == set()
    pids = {one["pid"] for one in recorded(tmp_path, "prompt")}
    assert len(pids) == 2


def test_a_subagent_ends_without_the_runs_own_agent_and_with_the_run_as_a_whole(tmp_path: Path) -> None:
    context = Program(tmp_path, 2, turns=[[{"child": ["sleep", "300"], "session": True}, {"say": "here"}]])

    async def main() -> None:
        own = await context.agent.open(context.opening)
        await own.prompt("begin", context.told.append)
        first = await context.dispatcher.open(Assignment("first", "", "creative"))
        second = await context.dispatcher.open(Assignment("second", "", "creative"))
        assert [(await one.say("hello")).status for one in (first, second)] == ["completed"] * 2
        await first.close()
        assert (await own.prompt("still there?", context.told.append)).output == "here\n"
        assert (await second.say("and you?")).status == "completed"
        await own.close()
        assert (await second.say("and now?")).status == "completed"
        # What a runner does that finds the run of one that was killed.
        assert await anyio.to_thread.run_sync(lambda: end_marked(context.token, 0.3, whole=True))
        assert context.alive == set()
        await context.dispatcher.close()

    anyio.run(main)
    assert context.alive == set()
