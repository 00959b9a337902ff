"""A plan that grows, and `interlock run` on it: killed and started again, with programs that its tasks leave behind.

Where there is an endpoint, Claude Code and Codex themselves do half of the tasks, and are killed as well.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import interlock
from interlock.processes import table
from interlock.processes.ancestry import RUN_TOKEN
from tests.agents.endpoint import Endpoint, Move, Seen, call, say
from tests.agents.real import NAMED, environment, write
from tests.behaviours.repository import Repository

NIGHT = "night"
LEFT = str(100_000 + os.getpid())
"""How many seconds the program sleeps that each task leaves behind: by that number it is found, and that of a storm in
another process is not."""
AGENTS = {"cai": "claude", "dee": "codex"}
PATIENCE = 900


class Night:
    """A repository, and the team that works on it in worktrees."""

    def __init__(self, directory: Path, home: str, endpoint: Endpoint | None = None) -> None:
        self.home = home
        self.repository = Repository(directory / "work")
        self.tasks: dict[str, dict[str, Any]] = {}
        self.members = {"ada": {"agent": "shell"}, "ben": {"agent": "shell"}}
        self._plan = directory / "plan.yaml"
        self._agents = endpoint is not None
        self._told: dict[str, int] = {}
        """How often a model had spoken when it said that this task was complete."""
        self.environment = dict(os.environ)
        if endpoint is not None:
            endpoint.scripts |= dict.fromkeys(AGENTS.values(), self.play)
            self.environment = environment(directory / "user", endpoint, {name: name for name in AGENTS.values()})
            self.members |= {name: {"agent": agent, "permissions": "workspace"} for name, agent in AGENTS.items()}
        self.environment["INTERLOCK_RETRY_DELAY"] = "0.1"

    @property
    def words(self) -> list[str]:
        """The module, with its words, that does the plan as far as it goes."""
        return ["interlock", "--home", self.home, "run", str(self._plan), "--unattended"]

    def grow(self, rng: Random, count: int) -> None:
        """Add tasks to the plan, which wait for some of those before them."""
        for _ in range(count):
            key, earlier = f"t{len(self.tasks)}", list(self.tasks)[-6:]
            by_agent = self._agents and rng.random() < 0.5
            self.tasks[key] = {
                **({"subject": f"{key}: write it"} if by_agent else {"run": f"sleep {LEFT} & echo {key} > {key}"}),
                "verify": f"grep -qx {key} {key}",
                "blocked_by": rng.sample(earlier, min(len(earlier), rng.randrange(3))),
                "retries": 1000,
            }
        plan = {
            "team": NIGHT, "workdir": "work", "isolation": "worktree", "parallel": 2, "members": self.members,
            "tasks": self.tasks,
        }  # fmt: skip
        written = self._plan.with_suffix(".new")
        written.write_text(json.dumps(plan))
        written.replace(self._plan)

    def play(self, seen: Seen) -> Move:
        """What a model does next: it writes the file of its task, and says that this is complete."""
        named = [one for text in seen.prompts for one in NAMED.findall(text)]
        if not named:
            return say("noted")
        key, task = named[-1]
        root = Path(self.home) / "teams" / NIGHT / "worktrees" / task
        if not (root / key).exists() or (root / key).read_text() != f"{key}\n":
            return write(seen, root, key, f"{key}\n")
        if self._told.get(task) == seen.spoken - 1:
            return say("That was all.")
        self._told[task] = seen.spoken
        return call("task_complete", task_id=task, summary=f"{key} is written.")

    def programs(self) -> list[int]:
        """The processes of its runs, where agents are among them; in no order."""
        if not self._agents:
            return []
        pids = {row.pid for row in table.rows() if row.running}
        return list(table.marked(table.marked(pids, f"HOME={self.environment['HOME']}"), f"{RUN_TOKEN}="))

    def check(self) -> list[str]:
        """Do the rest, undisturbed; what is wrong then."""
        done = subprocess.run(
            [sys.executable, "-m", *self.words],
            env=self.environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        problems = [] if done.returncode == 0 else [f"the last run ended with {done.returncode}:\n{done.stdout}"]
        return problems + self.judge()

    def judge(self) -> list[str]:
        """What is wrong, where all of the plan should have been done."""
        problems = []
        home = interlock.connect(self.home)
        try:
            tasks = {str(task.plan_key): task for task in home.team(NIGHT).tasks(limit=10**6)}
        finally:
            home.close()
        branch = f"interlock/{NIGHT}"
        merged = Counter(re.findall(r"^Merge (\S+):", self.repository.git("log", "--format=%s", branch), re.MULTILINE))
        files = set(self.repository.files(branch))
        for key in self.tasks:
            task = tasks.get(key)
            if task is None or task.state != "done":
                problems.append(f"{key} is {task and (task.state, task.run)}")
            elif key not in files or self.repository.show(branch, key) != key:
                problems.append(f"{key} is done, and its file is not in {branch}")
            elif merged[task.id] != 1 or not (task.check or {}).get("merged"):
                problems.append(f"{key} was merged {merged[task.id]} times; its evidence: {task.check}")
        left = [row.pid for row in table.rows() if table.words(row.pid)[-2:] == ["sleep", LEFT]] + self.programs()
        problems += [f"processes are left: {left}"] if left else []
        for words in (("worktree", "list", "--porcelain"), ("branch", "--list", "interlock-work/*")):
            lines = [one for one in self.repository.git(*words).splitlines() if one.startswith(("worktree ", " ", "+"))]
            if len(lines) > (words[0] == "worktree"):
                problems.append(f"left in the repository: {lines}")
        return problems
