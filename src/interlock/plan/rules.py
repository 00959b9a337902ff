"""What must be true of a plan's members and tasks together. Each breach is a fault at the line that causes it.

The rules are checked on what is left of the file without the values that were refused, so that all faults are found in
one go and none is reported twice.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.plan import cycles
from interlock.model.task import metadata_faults
from interlock.plan.faults import Faults, Location, YamlDocument
from interlock.plan.schema import nearest

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlanRules:
    """One check of a plan file. `refused` are the places whose value was refused, and the sections with an unknown key:
    what seems to be missing from these may just be misspelt."""

    document: YamlDocument
    refused: set[Location]
    faults: Faults

    def check(self) -> None:
        tasks, members = self._entries("tasks"), self._entries("members")
        for key, task in tasks.items():
            self._check_blockers(key, task, tasks)
            if ("tasks", key) not in self.refused:
                self._check_doer(key, task, members)
                if not self._has(("tasks", key), "subject", "run"):
                    self._add(("tasks", key), f'task "{key}" has no subject. Say in a line what is to be done')
            self._check_reviewer(key, task, members)
            for fault in metadata_faults(task.get("metadata", {})):
                place = tuple(str(fault.details["field"]).split(".", 1))
                self._add(("tasks", key, *place), f'metadata of task "{key}": {fault.message.rstrip(".")}')
        for cycle in cycles({key: task.get("blocked_by") or () for key, task in tasks.items()}):
            shown = " -> ".join(cycle)
            place = ("tasks", cycle[-2], "blocked_by")
            self._add(place, f"dependency cycle: {shown}. Remove one of these from blocked_by")
        self._check_worktrees()
        self._check_limits(members, tasks)

    def _entries(self, name: str) -> dict[str, Entry]:
        found: dict[str, Entry] = self.document.data.get(name) or {}
        return found

    def _has(self, place: Location, *names: str) -> bool:
        return any((*place, name) in self.document.lines for name in names)

    def _add(self, place: Location, message: str) -> None:
        self.faults.add(self.document.line(place), message)

    def _check_blockers(self, key: str, task: Entry, tasks: Mapping[str, Entry]) -> None:
        for blocker in dict.fromkeys(task.get("blocked_by", ())):
            if blocker not in tasks:
                hint = nearest(blocker, (other for other in tasks if other != key)) or " Add it or remove it here"
                message = f'task "{key}" waits for "{blocker}", which is not a task in this plan.{hint}'
                self._add(("tasks", key, "blocked_by"), message)

    def _able(self, key: str, members: Mapping[str, Entry]) -> list[str]:
        """The members of the kind that a task needs, with those whose agent was refused: they might be."""
        runs = self._has(("tasks", key), "run")
        return [
            name for name, member in members.items() if "agent" not in member or (member["agent"] == "shell") == runs
        ]

    def _check_doer(self, key: str, task: Entry, members: Mapping[str, Entry]) -> None:
        if not members:
            return
        runs, able, assignee = self._has(("tasks", key), "run"), self._able(key, members), task.get("assignee")
        remedy = "Add a member such as `bob: {agent: claude}`, or give the task a run command"
        if runs:
            meant = [name for name, one in members.items() if nearest(str(one.get("agent")), ["shell"])]
            # Whoever misspelt `shell` is told so where the agent is looked for.
            able, remedy = able or meant, "Add a member such as `ada: {agent: shell}`"
        if assignee is not None and assignee not in members:
            message = f'task "{key}" has the unknown assignee "{assignee}".{_members(assignee, members)}'
            self._add(("tasks", key, "assignee"), message)
        elif assignee is not None and assignee not in able:
            if runs:
                need, kind = "has a run command, and only a shell member can carry it out", "not a shell member"
            else:
                need, kind = "has no run command, so it needs an agent", "a shell member"
            remedy = f"Assign it to {' or '.join(able)}" if able else remedy
            self._add(("tasks", key, "assignee"), f'task "{key}" {need}; {assignee} is {kind}. {remedy}')
        elif not able:
            need, who = ("a run command", "a shell member") if runs else ("no run command", "an agent")
            self._add(("tasks", key), f'task "{key}" has {need}, so it needs {who}, and there is none. {remedy}')

    def _check_reviewer(self, key: str, task: Entry, members: Mapping[str, Entry]) -> None:
        reviewer, place = task.get("review", "none"), ("tasks", key, "review")
        if reviewer in ("none", "human") or not members:
            return
        if reviewer not in members:
            choice = _members(reviewer, {**members, "human": None, "none": None})
            self._add(place, f'task "{key}" has the unknown reviewer "{reviewer}".{choice}')
        elif reviewer == task.get("assignee"):
            message = f'task "{key}" would be reviewed by its own assignee, {reviewer}. Name another member or human'
            self._add(place, message)
        elif members[reviewer].get("agent") == "shell":
            self._add(place, f'{reviewer} is a shell member and cannot review task "{key}". Name an agent or human')
        elif not self._has(("tasks", key), "assignee") and self._able(key, members) == [reviewer]:
            only = f'{reviewer} is the only member that can do task "{key}", so nobody else can review it'
            self._add(place, f"{only}. Add a member, or let human review it")

    def _check_worktrees(self) -> None:
        plan = self.document.data
        isolation = plan.get("isolation")
        for path in plan.get("copy", ()) if isolation != "none" else ():
            parts = path.replace("\\", "/").split("/")
            if os.path.isabs(path) or ".." in parts or ".git" in parts or "\n" in path:
                message = f'copy names files below workdir, and "{path}" leads elsewhere. Write its path from there'
                self._add(("copy",), message)
        for name in ("setup", "copy"):
            if self._has((), name) and isolation == "none":
                message = f"{name} prepares worktrees, and there are none. Add `isolation: worktree`, or remove it"
                self._add((name,), message)

    def _check_limits(self, members: Mapping[str, Entry], tasks: Mapping[str, Entry]) -> None:
        """Refuse limits of tokens where nobody can tell what a program uses that is only run."""
        silent = [
            name for name, member in members.items()
            if isinstance(member.get("agent"), dict) and "command" in member["agent"]
        ]  # fmt: skip
        limited: list[tuple[Location, str]] = [(("members", name), name) for name in silent]
        for key, task in tasks.items():
            owner = task.get("assignee")
            if silent and not task.get("run") and owner in (None, *silent):
                limited.append((("tasks", key), owner or silent[0]))
        limited += [((), name) for name in silent[:1]]
        for place, name in limited:
            section: Any = self.document.data
            for part in (*place, "limits"):
                section = section.get(part) or {}
            if "tokens" in section:
                message = f"the tokens of {name} cannot be measured, since its agent is a command"
                self._add((*place, "limits"), f"{message}. Limit its `turns` or `time`")


def _members(name: str, names: Mapping[str, object]) -> str:
    return nearest(name, names) or f" Members: {', '.join([one for one in names if one][:20])}"
