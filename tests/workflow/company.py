"""A team in this process whose one agent plays a part in workflows, driven by a runner in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interlock.agents.session import Agent
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import SystemClock
from interlock.memory.local import LocalMemory
from interlock.memory.store import Log, MemoryStore, OpenMemory
from interlock.model.driving import Stop
from interlock.model.question import Question
from interlock.model.team import Member
from interlock.runner.executors import AgentExecutor
from interlock.settings import Settings
from interlock.storage.sqlite.catalog import SqliteCatalog
from interlock.wakeup.inprocess import InProcessNotifier
from interlock.workflow.executor import WorkflowExecutor
from tests.behaviours.driving import follow
from tests.waiting import until
from tests.workflow.stage import SKILL

TEAM = "plan-app"


class Company:
    """`agents` are the members and what plays them; `root` is the project they work in."""

    def __init__(
        self, directory: Path, root: Path, agents: dict[str, Agent], memory: OpenMemory | bool = False
    ) -> None:
        settings = Settings({})
        self.root = root
        self.agents = agents
        self.memory = self._open if memory is True else memory or None
        self.home = Home(
            str(directory / "home"), settings, SystemClock(),
            SqliteCatalog(str(directory / "home" / "teams"), settings, SystemClock()), InProcessNotifier(),
            self._executor, open_memory=self.memory,
        )  # fmt: skip
        self.team: Team = self.home.create_team(TEAM, workdir=str(root))
        self.team.configure({"stop_grace": 1.0})
        for name in agents:
            self.team.spawn(name, agent="command", command=["true"])

    def _executor(self, member: Member) -> WorkflowExecutor:
        return WorkflowExecutor(AgentExecutor(self.agents[member.name]), self.home.workspace, self.memory)

    def _open(self, settings: Any, project: str, output_folder: str, log: Log) -> MemoryStore:
        return LocalMemory(self.home.path, SystemClock())

    def begin(self, skill: str = SKILL, **more: Any) -> dict[str, Any]:
        """Begin a run; its document."""
        return self.team.start_workflow(skill, **more)

    def run(self, run: str | None = None) -> dict[str, Any]:
        """A run as it is now."""
        return self.team.workflow_run(run)

    def question(self, *, held: bool | None = None) -> Question:
        """Wait for the question of a run."""
        until(lambda: any(held in (None, one.held) for one in self.team.questions()))
        return self.team.questions()[0]

    def answer(self, text: str, question: Question | None = None) -> None:
        """Answer the question that is open."""
        found = question or self.question()
        self.team.reply(found.task_id, text, question=found.id)

    def event(self, type: str, **payload: Any) -> None:
        """Wait for an event with these values."""
        follow(self.team, lambda one: one.type == type and all(one.payload.get(k) == v for k, v in payload.items()))

    def drive(self, **options: Any) -> str:
        """Work until nothing goes on without a person."""
        return self.home.drive(TEAM, **{"hold": 0.0, **options})

    @contextmanager
    def at_work(self, **options: Any) -> Iterator[Stop]:
        """A runner beside the test that waits for more work, ended with it."""
        stop = Stop()
        failures: list[BaseException] = []

        def drive() -> None:
            try:
                self.home.drive(TEAM, **{"endless": True, "stop": stop, **options})
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=drive)
        thread.start()
        try:
            yield stop
        finally:
            stop.request("the test is over", now=True)
            thread.join(60)
        assert not failures, failures
