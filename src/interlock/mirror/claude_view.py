"""The team once more, in the layout of Claude Code's Agent Teams, below the directory that `mirror.claude` names.

    teams/NAME/config.json              the team and its members; the lead is `team-lead`
    teams/NAME/inboxes/MEMBER.json      what waits for a member
    tasks/NAME/<n>.json                 a task, by its number; cancelled and deleted ones have no file

It is written as the other files of the mirror are, in the same pass, and never read back: a file that somebody else has
changed is moved to `edited/`. A team of that name whose `config.json` is not ours is left alone, and the view is owed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from interlock.mirror.render import is_ours, sealed
from interlock.mirror.writer import Writer
from interlock.model.json import Json
from interlock.model.message import Message
from interlock.model.names import LEAD
from interlock.model.task import STATES, Task
from interlock.model.team import Member
from interlock.storage.files import Tree
from interlock.storage.ledger import Rows

THEIR_LEAD = "team-lead"
STATUS = {"backlog": "pending", "ready": "pending", "deadletter": "pending", "done": "completed"}
"""Theirs for our states; all others that are shown are `in_progress`."""
GONE = ("cancelled", "deleted")
AT_ONCE = 200
OURS = "interlock"
"""In a message and in a task's metadata: what it is here."""


def write(
    directory: str, writer: Writer, rows: Rows, *, whole: bool, tasks: Iterable[str], inboxes: Iterable[str]
) -> None:
    """Bring the files below `directory` up to the rows: those that were touched, or all.

    Raises:
        OSError: something cannot be written, or a team there is not ours.
    """
    root = os.path.abspath(os.path.expanduser(directory))
    os.makedirs(root, mode=0o700, exist_ok=True)
    with Tree(root) as tree:
        view = ClaudeView(writer.below(tree, root), rows)
        if view.begin() or whole:
            view.all()
        else:
            view.some(tasks, inboxes)


class ClaudeView:
    """The view of one team, from the rows of one moment."""

    def __init__(self, writer: Writer, rows: Rows) -> None:
        self._writer = writer
        self._rows = rows
        self._name = rows.start.team

    def begin(self) -> bool:
        """Whether nothing is there yet.

        Raises:
            FileExistsError: the team there is somebody else's.
        """
        path = f"teams/{self._name}/config.json"
        found = self._writer.tree.read(path)
        if found is not None and not is_ours(found):
            raise FileExistsError(f"{path} is not Interlock's")
        return found is None

    def all(self) -> None:
        """Write everything."""
        members = [member for member in self._rows.team.members() if member.role != "person"]
        self.some((), [member.name for member in members])
        after = 0
        while found := self._rows.tasks.select(states=STATES, after=after, limit=AT_ONCE):
            for task in found:
                self._task(task)
            after = found[-1].n
        team = self._rows.team.get()
        config = {
            "name": self._name, "createdAt": _milliseconds(team.created_at), "leadAgentId": self._address(LEAD),
            "leadSessionId": team.lead_session_key,
            "members": [self._member(one, team.workdir) for one in members],
        }  # fmt: skip
        # Last: without it, everything is written again.
        self._writer.put(f"teams/{self._name}/config.json", sealed(config), beside="edited")

    def some(self, tasks: Iterable[str], inboxes: Iterable[str]) -> None:
        """Write these tasks, with those that they wait for, and the inboxes of these members."""
        ids = list(tasks)
        ids += [blocker for id in ids for blocker, _ in self._rows.graph.blockers(id)]
        for id in dict.fromkeys(ids):
            task = self._rows.tasks.get(id)
            if task is not None:
                self._task(task)
        for name in inboxes:
            path = f"teams/{self._name}/inboxes/{_theirs(name)}.json"
            member = self._rows.team.member(name)
            if member is None or member.role == "person":
                self._writer.drop(path, _is_inbox, beside="edited")
                continue
            waiting = [_message(one) for one in self._rows.messages.undelivered(name)]
            data = json.dumps(waiting, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass")
            self._writer.put(path, data, ours=_is_inbox, beside="edited")

    def _task(self, task: Task) -> None:
        path = f"tasks/{self._name}/{task.n}.json"
        if task.state in GONE:
            self._writer.drop(path, is_ours, beside="edited")
            return
        owner = task.owner or task.reserved_for
        blockers = [id for id, _ in self._rows.graph.blockers(task.id)]
        shown: Json = {
            "id": str(task.n), "subject": task.subject, "description": task.body,
            **({"owner": _theirs(owner)} if owner else {}), "status": STATUS.get(task.state, "in_progress"),
            "blocks": self._numbers(self._rows.graph.dependents(task.id)), "blockedBy": self._numbers(blockers),
            "metadata": {OURS: {"id": task.id, "state": task.state}},
        }  # fmt: skip
        self._writer.put(path, sealed(shown), beside="edited")

    def _member(self, member: Member, workdir: str | None) -> Json:
        return {
            "agentId": self._address(member.name), "name": _theirs(member.name),
            "agentType": member.type or _theirs(member.role), **({"model": member.model} if member.model else {}),
            "joinedAt": _milliseconds(member.joined_at), "tmuxPaneId": "", "cwd": workdir or "", "subscriptions": [],
        }  # fmt: skip

    def _numbers(self, ids: Iterable[str]) -> list[str]:
        found = [task for id in ids if (task := self._rows.tasks.get(id)) is not None and task.state not in GONE]
        return [str(task.n) for task in found]

    def _address(self, name: str) -> str:
        return f"{_theirs(name)}@{self._name}"


def _theirs(name: str) -> str:
    return THEIR_LEAD if name == LEAD else name


def _message(message: Message) -> Mapping[str, Any]:
    summary = {"summary": message.summary} if message.summary else {}
    return {
        "from": _theirs(message.sender), "text": message.content, "timestamp": message.timestamp, "read": False,
        **summary, OURS: message.id,
    }  # fmt: skip


def _is_inbox(data: bytes) -> bool:
    """Whether all that is in it is from here."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, list) and all(isinstance(one, dict) and OURS in one for one in found)


def _milliseconds(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp() * 1000)
