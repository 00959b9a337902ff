"""Contenders whose users type commands: a process for each call, and its start is part of the time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from bench.peers.contender import LEAD, MEMBERS, Contender, Failed
from bench.peers.packages import programs

SECONDS = 120


class Command(Contender):
    """Calls one program, in the place."""

    program: ClassVar[tuple[str, ...]]

    def environment(self, member: str) -> Mapping[str, str]:
        """How the program is told who calls."""
        return {}

    def call(self, *arguments: str, member: str = LEAD, refusal: str = "") -> str:
        """What the program printed; empty when it refused with a message that `refusal` matches.

        Raises:
            Failed: it ended with another error, or not at all.
        """
        try:
            ran = subprocess.run(
                [*self.program, *arguments], cwd=self.place, capture_output=True, text=True, timeout=SECONDS,
                stdin=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1", **self.environment(member)},
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{arguments} took over {SECONDS} s") from error
        if ran.returncode:
            if refusal and re.search(refusal, ran.stdout + ran.stderr):
                return ""
            raise Failed(f"{arguments} ended with {ran.returncode}: {(ran.stderr or ran.stdout).strip()[-200:]}")
        return ran.stdout

    def json(self, *arguments: str, member: str = LEAD) -> Any:
        """What the program printed, as JSON."""
        printed = self.call(*arguments, member=member)
        try:
            return json.loads(printed)
        except ValueError as error:
            raise Failed(f"{arguments} printed no JSON: {printed[:200]!r}") from error


class InterlockCommand(Command):
    """`interlock`, with the settings it has when installed."""

    program = (str(Path(sys.executable).with_name("interlock")),)

    def environment(self, member: str) -> Mapping[str, str]:
        return {"INTERLOCK_HOME": str(self.place / "home"), "INTERLOCK_TEAM": "bench", "INTERLOCK_MEMBER": member}

    @contextmanager
    def prepared(self) -> Iterator[None]:
        self.call("team", "create", "bench")
        for member in MEMBERS:
            self.call("member", "spawn", member)
        yield

    def create(self, subject: str) -> str:
        return str(self.json("--json", "task", "create", subject)["id"])

    def tasks(self) -> list[str]:
        return [task["id"] for task in self.json("--json", "task", "list", "--status", "ready")["tasks"]]

    def claim(self, task: str, member: str) -> bool:
        return bool(self.call("task", "claim", task, member=member, refusal="already claimed"))

    def next(self, member: str) -> str | None:
        task = self.json("--json", "task", "next", member=member)
        return task and str(task["id"])

    def finish(self, task: str, member: str) -> None:
        self.call("task", "complete", task, member=member)

    def send(self, sender: str, to: str, content: str) -> None:
        self.call("message", "send", "--to", to, content, member=sender)

    def read(self, member: str) -> list[str]:
        return [one["content"] for one in self.json("--json", "message", "read", member=member)["messages"]]


class ClawTeam(Command):
    """`clawteam`: JSON files under a lock. A claim is its documented `task update --status in_progress`."""

    program = (str(programs("clawteam") / "clawteam"),)

    def environment(self, member: str) -> Mapping[str, str]:
        return {
            "CLAWTEAM_DATA_DIR": str(self.place / "data"), "CLAWTEAM_TEAM_NAME": "bench",
            "CLAWTEAM_AGENT_NAME": member, "CLAWTEAM_AGENT_ID": member,
        }  # fmt: skip

    @contextmanager
    def prepared(self) -> Iterator[None]:
        self.call("team", "spawn-team", "bench", "-n", LEAD)
        yield

    def create(self, subject: str) -> str:
        return str(self.json("--json", "task", "create", "bench", subject)["id"])

    def tasks(self) -> list[str]:
        return [task["id"] for task in self.json("--json", "task", "list", "bench", "--status", "pending")]

    def claim(self, task: str, member: str) -> bool:
        return bool(self._update(task, member, "in_progress", "--owner", member))

    def finish(self, task: str, member: str) -> None:
        self._update(task, member, "completed")

    def send(self, sender: str, to: str, content: str) -> None:
        self.call("inbox", "send", "bench", to, content, "--from", sender, member=sender)

    def read(self, member: str) -> list[str]:
        got = self.json("--json", "inbox", "receive", "bench", "--agent", member, "--limit", "1000", member=member)
        return [one["content"] for one in got]

    def _update(self, task: str, member: str, status: str, *more: str) -> str:
        return self.call(
            "task", "update", "bench", task, "--status", status, *more, member=member, refusal="is locked by"
        )


class Backlog(Command):
    """`backlog` of Backlog.md: a Markdown file for each task. A claim is its documented `task edit -s -a`.

    Its looks at remotes and at other branches are turned off, as its own documentation advises for speed.
    """

    program = (str(programs("backlog") / "backlog"),)
    lacks: ClassVar[Mapping[str, str]] = {"message": "has no messages"}

    @contextmanager
    def prepared(self) -> Iterator[None]:
        subprocess.run(["git", "init", "-q", str(self.place)], check=True)
        self.call("init", "bench", "--defaults", "--integration-mode", "none")
        for setting in ("remoteOperations", "checkActiveBranches"):
            self.call("config", "set", setting, "false")
        yield

    def create(self, subject: str) -> str:
        printed = self.call("task", "create", subject, "--plain")
        if found := re.search(r"^Task (TASK-\d+) - ", printed, re.MULTILINE):
            return found[1]
        raise Failed(f"task create printed no id: {printed[:200]!r}")

    def tasks(self) -> list[str]:
        return [task["id"] for task in self.json("task", "list", "--status", "To Do", "--json")["tasks"]]

    def claim(self, task: str, member: str) -> bool:
        edit = ("task", "edit", task, "-s", "In Progress", "-a", f"@{member}", "--plain")
        return bool(self.call(*edit, refusal="is being modified by another process"))

    def finish(self, task: str, member: str) -> None:
        self.call("task", "edit", task, "-s", "Done", "--plain")
