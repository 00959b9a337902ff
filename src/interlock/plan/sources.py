"""The tasks of other programs, read from their files, of which `interlock import` makes a plan. Those stay as they are.

    claude       Claude Code's Agent Teams: `teams/NAME/config.json` and `tasks/NAME/<id>.json` of ~/.claude
    backlog      Backlog.md: `backlog/config.yml` and `backlog/tasks/*.md`
    taskmaster   Task Master: `.taskmaster/tasks/tasks.json`, of the tag that is current there
    beads        beads: `.beads/issues.jsonl`

What is over there is left out here: no work of ours shows that it was done. What was put off there is left out with all
that waits for it. A task with parts waits for its parts.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, Literal

from interlock.lazy_dataclass import dataclass
from interlock.model.plan import cycles, key_of
from interlock.plan.faults import Faults, Location, described, read_yaml

Fate = Literal["open", "over", "put off"]

LARGEST = 16_777_216
"""The largest file of another program, in bytes."""
MOST_TASKS = 10_000
SUBJECT, BODY = 200, 10_000
PRIORITIES = {"critical": "critical", "high": "high", "medium": "normal", "low": "low"}
BEADS_PRIORITIES = ("critical", "high", "normal", "low", "low")
FATES: Mapping[str, Mapping[str, Fate]] = {
    "claude": {"pending": "open", "planning": "open", "in_progress": "open", "completed": "over", "deleted": "over"},
    "taskmaster": {
        "pending": "open", "in-progress": "open", "review": "open", "blocked": "open", "done": "over",
        "completed": "over", "cancelled": "over", "deferred": "put off",
    },
    "beads": {
        "open": "open", "in_progress": "open", "blocked": "open", "hooked": "open", "closed": "over",
        "tombstone": "over", "deferred": "put off", "pinned": "put off",
    },
}  # fmt: skip
WORK = ("task", "bug", "feature", "epic", "chore", "story", "spike", "decision", "question", "docs")
"""The types of issues of beads that are work; others are its own bookkeeping."""
WAITS = ("blocks", "conditional-blocks", "waits-for")


@dataclass(slots=True)
class SourceTask:
    """One task as it is there; `waits_for` and `parent` are ids of the same source, `data` is kept with ours."""

    id: str
    subject: str
    body: str
    status: str
    fate: Fate
    place: tuple[str, int | None]
    priority: str = "normal"
    owner: str | None = None
    waits_for: list[str] = field(default_factory=list)
    parent: str | None = None
    data: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class TaskSource:
    """What was found at a path: `name` of the project or team there, the directory that it works in, its tasks, and the
    members as in a plan, where it says who they are."""

    kind: str
    path: str
    name: str
    workdir: str
    tasks: list[SourceTask] = field(default_factory=list)
    members: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """Eight hex digits that tell its place from others."""
        return hashlib.sha256(os.path.realpath(self.path).encode()).hexdigest()[:8]

    def planned(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The tasks of a plan by key, and why others are left out, by id.

        Raises:
            PlanError: something in the files makes no sense; every fault with its file and line.
        """
        faults = Faults(self.path)
        known = {one.id: one for one in reversed(self.tasks)}
        for one in self.tasks:
            if known[one.id] is not one:
                faults.add(one.place[1], f'there are two tasks "{one.id}"', path=one.place[0])
            for other in dict.fromkeys(one.waits_for):
                if other not in known:
                    message = f'task "{one.id}" waits for "{other}", which is not there'
                    faults.add(one.place[1], message, path=one.place[0])
        left_out = _left_out(self.tasks, known)
        edges = {
            one.id: [other for other in dict.fromkeys(one.waits_for) if other in known and other not in left_out]
            for one in self.tasks
            if one.id not in left_out
        }
        for cycle in cycles(edges):
            path, line = known[cycle[-2]].place
            faults.add(line, f"dependency cycle: {' -> '.join(cycle)}. Remove one of these there", path=path)
        if not self.tasks and not faults:
            faults.add(None, "no task is here")
        if faults:
            raise faults.error()
        keys = {id: key_of(id, "task") for id in edges}
        tasks = {keys[id]: self._task(known[id], [keys[other] for other in waits]) for id, waits in edges.items()}
        return tasks, left_out

    def _task(self, one: SourceTask, waits_for: list[str]) -> dict[str, Any]:
        data = {"source": self.kind, "source_id": one.id, **one.data}
        if one.owner and one.owner not in self.members:
            data["source_owner"] = one.owner
        return {
            "subject": one.subject,
            **({"body": one.body} if one.body else {}),
            **({"blocked_by": waits_for} if waits_for else {}),
            **({"priority": one.priority} if one.priority != "normal" else {}),
            **({"assignee": one.owner} if one.owner in self.members else {}),
            "metadata": {name: value[:200] for name, value in data.items() if value},
        }


def _left_out(tasks: list[SourceTask], known: Mapping[str, SourceTask]) -> dict[str, str]:
    """Make each task with parts wait for them; why tasks are left out, by id."""
    found = {one.id: f"{one.status} there" for one in tasks if one.fate != "open"}
    waiting: dict[str, list[str]] = {}
    for one in tasks:
        parent = known.get(one.parent or "")
        if parent is not None and parent is not one and parent.id not in one.waits_for:
            parent.waits_for.append(one.id)
    for one in tasks:
        for other in one.waits_for:
            waiting.setdefault(other, []).append(one.id)
    behind = [one.id for one in tasks if one.fate == "put off"]
    while behind:
        reason = behind.pop()
        for id in waiting.get(reason, ()):
            if id not in found:
                found[id] = f"waits for {reason}, which is put off there"
                behind.append(id)
    return found


class _Record:
    """One mapping of a file, whose faults are told with the line."""

    def __init__(self, file: _File, data: Any, place: Location = (), line: int | None = None) -> None:
        self.file, self.place, self._line = file, place, line
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}
        if not isinstance(data, dict):
            self.fault("", f"this should be a mapping, not {described(data)}")

    def line(self, name: str = "") -> int | None:
        return self.file.line((*self.place, name) if name else self.place) if self._line is None else self._line

    def fault(self, name: str, message: str) -> None:
        self.file.faults.add(self.line(name), f"{name}{' ' if name else ''}{message}", path=self.file.path)

    def text(self, name: str, *, required: bool = False, cut: int = 0) -> str:
        """A text or number without control characters, as text, cut to one line of so many characters; "" for none."""
        value = self.data.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (str, int))):
            self.fault(name, f"must be text, not {described(value)}")
            return "?"
        plain = str("" if value is None else value)
        plain = "".join(c for c in plain if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs")).strip()
        if required and not plain:
            self.fault(name, "is missing" if value is None else "is blank")
        one_line = " ".join(plain.split()) if cut else plain
        return one_line if not cut or len(one_line) <= cut else one_line[: cut - 1] + "…"

    def items(self, name: str) -> list[Any]:
        value = self.data.get(name)
        if value is None or isinstance(value, list):
            return value or []
        self.fault(name, f"must be a list, not {described(value)}")
        return []

    def ids(self, name: str) -> list[str]:
        found = self.items(name)
        for one in found:
            if isinstance(one, bool) or not isinstance(one, (str, int)):
                self.fault(name, f"holds {described(one)}, which is no id")
        return [str(one) for one in found]

    def fate(self, kind: str, default: str) -> tuple[str, Fate]:
        status, fates = self.text("status") or default, FATES[kind]
        if status not in fates:
            self.fault("status", f"{status!r} is none of {', '.join(fates)}")
        return status, fates.get(status, "open")

    def task(self, id: str, subject: str, parts: Mapping[str, str], status: str, fate: Fate) -> SourceTask:
        """A task with those `parts` of its text, by their headings."""
        whole = "\n\n".join(
            f"{f'## {title}' if title else ''}\n\n{text}".strip() for title, text in parts.items() if text
        )
        if len(whole) > BODY:
            rest = f"\n\n… and more in {self.file.path}"
            whole = whole[: BODY - len(rest)] + rest
        return SourceTask(id, subject, whole, status, fate, (self.file.path, self.line()))


class _File:
    """The text of a file, and where its pieces stand, which is looked up only for a fault."""

    def __init__(self, path: str, faults: Faults) -> None:
        self.path, self.faults = path, faults
        self.text = ""
        self.broken = False
        try:
            with open(path, "rb") as file:
                content = file.read(LARGEST + 1)
            if len(content) > LARGEST:
                raise ValueError(f"it has more than {LARGEST:,} bytes")
            self.text = content.decode("utf-8-sig")
        except (OSError, ValueError) as error:
            self._break(None, f"the file cannot be read: {getattr(error, 'strerror', None) or error}")

    def json(self) -> Any:
        """The file as JSON; an empty mapping where it is none."""
        try:
            return json.loads(self.text) if self.text else {}
        except json.JSONDecodeError as error:
            self._break(error.lineno, f"this is not JSON: {error.msg}")
        except RecursionError:
            self._break(1, "this is not JSON: it is nested too deep")
        return {}

    def yaml(self, text: str | None = None) -> Any:
        """The file, or that text in its lines, as YAML; an empty mapping where it is none."""
        found = Faults(self.path)
        document = read_yaml(self.text if text is None else text, found)
        if document is None:
            for fault in found.error().details["errors"]:
                self._break(fault["line"], fault["message"])
            return {}
        self.__dict__["lines"] = document.lines
        return document.data

    def _break(self, line: int | None, message: str) -> None:
        self.broken = True
        self.faults.add(line, message, path=self.path)

    def line(self, place: Location) -> int | None:
        """Where that place of it is, or the nearest around it that has a line."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)

    @cached_property
    def lines(self) -> Mapping[Location, int]:
        """The line of every piece."""
        # JSON is YAML, but for tabs, which can stand between its pieces only.
        document = read_yaml(self.text.replace("\t", " "), Faults(self.path))
        return document.lines if document is not None else {(): 1}


def read(kind: str, path: str) -> TaskSource:
    """The tasks of a program of that kind at `path`.

    Raises:
        PlanError: nothing of it is there, or something cannot be read; every fault with its file and line.
    """
    path = os.path.abspath(os.path.expanduser(path))
    faults = Faults(path)
    found = READERS[kind](path, faults)
    if faults:
        raise faults.error()
    assert found is not None
    if len(found.tasks) > MOST_TASKS:
        faults.add(None, f"there are more than {MOST_TASKS:,} tasks")
        raise faults.error()
    return found


def first(path: str, *places: str) -> str | None:
    """`path` itself where it is a file, else the first of `places` in it that is there."""
    found = (os.path.normpath(os.path.join(path, place)) for place in places)
    return path if os.path.isfile(path) else next((one for one in found if os.path.exists(one)), None)


def project_of(path: str, *folders: str) -> str:
    """The directory of a file, outside of those `folders`."""
    found = os.path.dirname(path)
    while os.path.basename(found) in folders:
        found = os.path.dirname(found)
    return found


def _claude(path: str, faults: Faults) -> TaskSource | None:
    path = os.path.dirname(path) if os.path.isfile(path) else path
    folder, name = os.path.split(path)
    if os.path.basename(folder) not in ("teams", "tasks"):
        teams = sorted(map(os.path.dirname, _inside(path, "teams/*/config.json")))
        if len(teams) != 1:
            listed = f"say which: {', '.join(teams[:20])}" if teams else "name ~/.claude, or a team in its `teams`"
            faults.add(None, f"{len(teams) or 'no'} teams of Claude Code are here; {listed}")
            return None
        folder, name = os.path.split(teams[0])
    source = TaskSource("claude", path, name, os.getcwd())
    config = os.path.join(os.path.dirname(folder), "teams", name, "config.json")
    if os.path.exists(config):
        _team_of_claude(source, _File(config, faults))
    blocked_by: dict[str, list[str]] = {}
    files = _inside(os.path.join(os.path.dirname(folder), "tasks", name), "*[!s].json")
    for file in (_File(one, faults) for one in sorted(files, key=lambda one: (len(one), one))):
        record = _Record(file, file.json())
        if file.broken:
            continue
        (status, fate), id = record.fate("claude", "pending"), record.text("id", required=True)
        subject = record.text("subject", required=True, cut=SUBJECT)
        data = record.data.get("metadata")
        if isinstance(data, dict) and data.get("_internal"):  # One for each teammate, not work.
            status, fate = "internal", "over"
        task = record.task(id, subject, {"": record.text("description")}, status, fate)
        task.owner = _member(record.text("owner").partition("@")[0]) or None
        blocked_by.setdefault(id, []).extend(record.ids("blockedBy"))
        for other in record.ids("blocks"):
            blocked_by.setdefault(other, []).append(id)
        source.tasks.append(task)
    there = {task.id for task in source.tasks}
    for task in source.tasks:  # It deletes the files of some tasks, and leaves their ids in others.
        task.waits_for = [one for one in blocked_by[task.id] if one in there]
    return source


def _team_of_claude(source: TaskSource, file: _File) -> None:
    team = _Record(file, file.json())
    source.name = team.text("name") or source.name
    for place, one in enumerate(team.items("members")):
        member = _Record(file, one, ("members", place))
        name, role = _member(member.text("name", required=True)), member.text("agentType", cut=100)
        source.workdir = (not place and member.text("cwd")) or source.workdir
        if name and "lead" not in (name, name.removeprefix("team-"), role.removeprefix("team-")):
            said = {"agent": "claude", "type": role, "model": member.text("model", cut=SUBJECT)}
            source.members[name] = {key: value for key, value in said.items() if value}


def _member(name: str) -> str:
    """A name that a member of ours can have, as near as may be."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-_")[:50].rstrip("-_")


def _inside(folder: str, pattern: str) -> list[str]:
    return sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))


def _backlog(path: str, faults: Faults) -> TaskSource | None:
    config = first(path, "backlog/config.yml", ".backlog/config.yml", "config.yml", "backlog/config.yaml")
    if config is None or not os.path.basename(config).startswith("config."):
        faults.add(None, "no Backlog.md is here: name the directory that its folder `backlog` is in")
        return None
    folder = os.path.dirname(config)
    file = _File(config, faults)
    settings = _Record(file, file.yaml() or {})
    statuses = [one.casefold() for one in settings.ids("statuses")]
    over = {"done", *statuses[-1:]}
    source = TaskSource(
        "backlog",
        path,
        settings.text("project_name") or os.path.basename(os.path.dirname(folder)),
        os.path.dirname(folder),
    )
    for place, archived in (("tasks", False), ("completed", True), ("archive/tasks", True)):
        for name in _inside(os.path.join(folder, place), "*.md"):
            file = _File(name, faults)
            front = re.match(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|\Z)", file.text.replace("\r\n", "\n"), re.DOTALL)
            if front is None:
                faults.add(1, "a task begins with its fields between two lines `---`", path=name)
                continue
            record = _Record(file, file.yaml("\n" + front[1]))
            status = record.text("status") or "To Do"
            id, title = record.text("id", required=True).upper(), record.text("title", required=True, cut=SUBJECT)
            text = re.sub(r"^[ \t]*<!--.*?-->[ \t]*\n?", "", file.text.replace("\r\n", "\n")[front.end() :], flags=re.M)
            fate: Fate = "over" if archived or status.casefold() in over else "open"
            task = record.task(
                id, title, {"": text.strip()}, "archived" if archived and fate == "open" else status, fate
            )
            task.priority = PRIORITIES.get(record.text("priority").lower(), "normal")
            task.waits_for = [one.upper() for one in record.ids("dependencies")]
            task.parent = record.text("parent_task_id").upper() or None
            task.owner = ", ".join(one.lstrip("@") for one in _words(record, "assignee")) or None
            task.data = {"source_labels": ", ".join(_words(record, "labels"))}
            source.tasks.append(task)
    return source


def _words(record: _Record, name: str) -> list[str]:
    """A list of texts, or one text."""
    return [record.data[name]] if isinstance(record.data.get(name), str) else record.ids(name)


def _taskmaster(path: str, faults: Faults) -> TaskSource | None:
    name = first(path, ".taskmaster/tasks/tasks.json", "tasks/tasks.json", "tasks.json")
    if name is None:
        faults.add(None, "no Task Master is here: name its tasks.json, or the directory that `.taskmaster` is in")
        return None
    file = _File(name, faults)
    whole = file.json()
    place: Location = ()
    tag = ""
    if isinstance(whole, dict) and "tasks" not in whole:
        tags = [one for one, held in whole.items() if isinstance(held, dict) and "tasks" in held]
        state = os.path.join(os.path.dirname(os.path.dirname(name)), "state.json")
        current = (
            _Record(it := _File(state, faults), it.json()).text("currentTag") if os.path.exists(state) else "master"
        )
        tag = current if current in tags or not tags else "master" if "master" in tags else tags[0]
        place, whole = (tag,), whole.get(tag, {})
    root = project_of(name, ".taskmaster", "tasks")
    source = TaskSource("taskmaster", path, os.path.basename(root), root)
    held = _Record(file, whole, place)
    for number, one in enumerate(held.items("tasks")):
        record = _Record(file, one, (*place, "tasks", number))
        task = _of_taskmaster(record, record.text("id", required=True))
        source.tasks.append(task)
        for part, inside in enumerate(record.items("subtasks")):
            own = _Record(file, inside, (*record.place, "subtasks", part))
            child = _of_taskmaster(own, f"{task.id}.{own.text('id', required=True)}")
            # Within its task, a part names another by its own number.
            child.waits_for = [one if "." in one else f"{task.id}.{one}" for one in child.waits_for] + task.waits_for
            child.parent = task.id
            if task.fate != "open" and child.fate == "open":
                child.status, child.fate = task.status, task.fate
            source.tasks.append(child)
    for task in source.tasks:
        task.data = {"source_tag": tag}
    return source


def _of_taskmaster(record: _Record, id: str) -> SourceTask:
    status, fate = record.fate("taskmaster", "pending")
    parts = {
        "": record.text("description"),
        "Details": record.text("details"),
        "Test strategy": record.text("testStrategy"),
    }
    task = record.task(id, record.text("title", required=True, cut=SUBJECT), parts, status, fate)
    task.priority = PRIORITIES.get(record.text("priority"), "normal")
    task.waits_for = record.ids("dependencies")
    return task


def _beads(path: str, faults: Faults) -> TaskSource | None:
    name = first(path, ".beads/issues.jsonl", ".beads/beads.jsonl", "issues.jsonl", "beads.jsonl")
    if name is None:
        faults.add(
            None, "no beads are here: name issues.jsonl (`bd export` writes it), or the directory `.beads` is in"
        )
        return None
    file, root = _File(name, faults), project_of(name, ".beads")
    source = TaskSource("beads", path, os.path.basename(root), root)
    for record in _issues(file):
        issue = record.text("issue_type") or "task"
        status, fate = record.fate("beads", "open")
        parts = {
            "": record.text("description"), "Design": record.text("design"),
            "Acceptance criteria": record.text("acceptance_criteria"), "Notes": record.text("notes"),
        }  # fmt: skip
        title = record.text("title", required=fate == "open", cut=SUBJECT)
        task = record.task(record.text("id", required=True), title, parts, status, fate)
        if issue not in WORK or record.data.get("ephemeral"):
            task.status, task.fate = issue, "over"
        urgency = record.data.get("priority", 2)
        if type(urgency) is not int or urgency not in range(5):
            record.fault("priority", f"must be a number from 0 to 4, not {described(urgency)}")
        else:
            task.priority = BEADS_PRIORITIES[urgency]
        task.owner = record.text("assignee", cut=SUBJECT) or None
        task.data = {"source_type": issue, "source_labels": ", ".join(record.ids("labels"))}
        for edge in record.items("dependencies"):
            of = _Record(file, edge, line=record.line())
            kind, other = of.text("type") or "blocks", of.text("depends_on_id", required=True)
            if kind == "parent-child":
                task.parent = other
            elif kind in WAITS and not other.startswith("external:"):
                task.waits_for.append(other)
        source.tasks.append(task)
    known = {task.id: task for task in source.tasks}
    for task in source.tasks:  # What stops an epic stops its parts.
        parent = known.get(task.parent or "")
        task.waits_for += [one for one in (parent.waits_for if parent else ()) if one not in (task.id, *task.waits_for)]
    return source


def _issues(file: _File) -> Iterator[_Record]:
    for number, line in enumerate(file.text.split("\n"), 1):
        if line.strip():
            try:
                data = json.loads(line)
            except (ValueError, RecursionError) as error:
                said = getattr(error, "msg", "it is nested too deep")
                file.faults.add(number, f"this is not JSON: {said}", path=file.path)
                continue
            yield _Record(file, data, line=number)


READERS = {"claude": _claude, "backlog": _backlog, "taskmaster": _taskmaster, "beads": _beads}


def lines_of_yaml(path: str) -> dict[str, int]:
    """The line of each key in a file of YAML; of the last, where there are several of a name.

    Raises:
        PlanError: it is no YAML, or cannot be read.
    """
    faults = Faults(path)
    file = _File(path, faults)
    file.yaml()
    if faults:
        raise faults.error()
    return {str(place[-1]): line for place, line in file.lines.items() if place}
