"""What must hold after any number of kills."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.mirror.rebuild import compare
from interlock.model.task import STATES
from tests.crash.night import NIGHT
from tests.crash.worker import MEMBERS, TEAM

if TYPE_CHECKING:
    from tests.crash.harness import Storm

_BLOCK = re.compile(r"<teammate-message([^>]*)>\n(.*?)\n</teammate-message>\n", re.DOTALL)
COMPLETED = {("done", "done"), ("review", "review"), ("review", "done")}
"""What a completed task was, and may be now: where the server was killed that ran its check, the next one runs it."""
_LEFT = re.compile(r"was left behind by a process|Left by a process")


def check(storm: Storm) -> list[str]:
    """Everything that is wrong."""
    home = interlock.connect(storm.home)
    try:
        told = [(life, entry) for life in storm.lives for entry in entries(storm.log(life))]
        problems = _teams(home, [entry for _, entry in told])
        team = home.team(TEAM)
        team.tasks(limit=1)  # the one read verb after which the files agree
        workspace = team._workspace  # type: ignore[attr-defined]
        problems += [
            f"the mirror: {kind} {path}" for kind, path in compare(team.directory, workspace.ledger, workspace.clock)
        ]
        problems += _files(team)
        problems += [f"the store: {line}" for line in workspace.ledger.check()]
        problems += _promises(team, [(life.slot, entry) for life, entry in told])
        problems += _mail(storm, team, [entry for _, entry in told])
        problems += _doctor(home)
        return problems
    finally:
        home.close()


def entries(path: Path) -> list[dict[str, Any]]:
    """What a worker has written down."""
    if not path.exists():
        return []
    *lines, _ = path.read_text().split("\n")
    return [json.loads(line) for line in lines]


def _teams(home: Home, entries: list[dict[str, Any]]) -> list[str]:
    """Every team is there whole or not at all."""
    listed = set(home.teams()) - {TEAM, NIGHT}
    known = {(entry["kind"], entry["verb"], entry["team"]) for entry in entries if "team" in entry}
    problems = []
    for kind, verb, name in known:
        if (kind, verb) == ("done", "delete_team") and name in listed:
            problems.append(f"{name} was deleted and is listed")
        if (kind, verb) == ("done", "create_team") and ("try", "delete_team", name) not in known and name not in listed:
            problems.append(f"{name} was made and is lost")
    for name in listed:
        if ("try", "create_team", name) not in known:
            problems.append(f"nobody made {name}")
        team = home.team(name)
        tasks = len(team.tasks())
        if tasks < (("done", "work", name) in known):
            problems.append(f"{name} lost its task")
        if [member.name for member in team.members()] != ["lead"]:
            problems.append(f"{name} has members {team.members()}")
        team.create_task("It can be worked with")
    return problems


def _files(team: Team) -> list[str]:
    """Told without the mirror's own code: each task has one file, in the directory of its state."""
    there = sorted(str(path.relative_to(team.directory)) for path in Path(team.directory).glob("tasks/*/*.md"))
    tasks = sorted(f"tasks/{state}/{task.id}.md" for state in STATES for task in team.tasks(status=state))
    return [] if there == tasks else [f"files of tasks: {set(there) ^ set(tasks)}"]


def _promises(team: Team, entries: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """What a verb said it did is so."""
    problems = []
    tasks = {task.id: task for state in STATES for task in team.tasks(status=state)}
    events = team.events()[0]
    seen = {(event.type, event.task_id, event.actor, str(event.payload.get("run"))) for event in events}
    edges = {(event.task_id, event.payload["on"]) for event in events if event.type == "dependency.added"}
    owners: dict[tuple[str, int], str] = {}
    logs: dict[str, Counter[str]] = {}
    for slot, entry in entries:
        verb, id = entry["verb"], entry.get("id")
        if entry["kind"] != "done" or id is None:
            continue
        task = tasks.get(id)
        if task is None:
            problems.append(f"{id} is lost ({entry})")
        elif verb == "create" and task.subject != entry["subject"]:
            problems.append(f"{id} is {task.subject}, {entry['subject']} was acknowledged")
        elif verb == "claim":
            run = (id, entry["run"])
            if owners.setdefault(run, slot) != slot or entry["owner"] != slot:
                problems.append(f"run {run} belongs to {owners[run]} and {slot}")
            if ("task.claimed", id, slot, f"{id}.{entry['run']}") not in seen:
                problems.append(f"{slot} holds run {run}, the history knows nothing of it")
        elif verb == "complete" and (entry["state"], task.state) not in COMPLETED:
            problems.append(f"{id} was {entry['state']} and is {task.state}")
        elif verb == "release" and ("task.released", id, slot, str(entry["run"])) not in seen:
            problems.append(f"the release of {id} is lost")
        elif verb == "delete" and task.state != "deleted":
            problems.append(f"{id} was deleted and is {task.state}")
        elif verb == "depend" and (id, entry["on"]) not in edges:
            problems.append(f"{id} no longer waits for {entry['on']}")
        elif verb == "note":
            if id not in logs:
                logs[id] = Counter(text for _, _, text in team.work_log(id))
            if logs[id][entry["text"]] != 1:
                problems.append(f"{logs[id][entry['text']]} times {entry['text']} in the log of {id}")
    for id in tasks:
        open_runs = [run.number for run in team.runs(id) if run.ended_at is None]
        if len(open_runs) > 1 or (tasks[id].state == "in-progress") > len(open_runs):
            problems.append(f"{id} is {tasks[id].state} with open runs {open_runs}")
    problems += [f"an edit nobody made: {event.payload}" for event in events if event.type == "mirror.conflict"]
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        problems.append("the history has gaps")
    return problems


def _mail(storm: Storm, team: Team, entries: list[dict[str, Any]]) -> list[str]:
    """Every message arrived, and a second time only with a mark."""
    given: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for life in storm.lives:
        if storm.out(life).exists():
            given[MEMBERS[0] if life.slot == "hook" else life.slot] += _given(storm.out(life).read_text())
    for name in (*MEMBERS, "lead"):
        last = team.acting(name, session="the-last")
        while messages := last.read():
            given[name] += [(message.content, message.redelivered) for message in messages]
    problems = []
    for name, messages in given.items():
        unmarked = Counter(text for text, redelivered in messages if not redelivered)
        twice = [text for text, count in unmarked.items() if count > 1]
        problems += [f"{name} was given {text} twice without a mark" for text in twice]
    arrived = {name: {text for text, _ in messages} for name, messages in given.items()}
    stored = Counter((message.recipient, message.content) for message in team.history(limit=10**9))
    for entry in entries:
        if entry["verb"] != "send" or "to" not in entry:
            continue
        key = (entry["to"], entry["text"])
        if stored[key] > 1 or (entry["kind"] == "done" and stored[key] != 1):
            problems.append(f"{stored[key]} times {key} in the ledger")
        if stored[key] and entry["text"] not in arrived[entry["to"]]:
            problems.append(f"{key} never arrived")
    return problems


def _given(text: str) -> list[tuple[str, bool]]:
    """(content, marked) of everything handed over whole, in order."""
    found = [(match.start(), unescape(match[2]), 'redelivered="true"' in match[1]) for match in _BLOCK.finditer(text)]
    for match in re.finditer(r'^\{"text": .*\}$', text, re.MULTILINE):
        line = json.loads(match[0])
        found.append((match.start(), line["text"], line["redelivered"]))
    return [(content, marked) for _, content, marked in sorted(found)]


def _doctor(home: Home) -> list[str]:
    """Nothing but leftovers of the killed, and nothing at all once they are swept."""
    problems = []
    for finding in home.doctor().findings:
        if finding.level != "info" and not _LEFT.search(finding.what):
            problems.append(f"doctor: {finding}")
    home.doctor(repair=True)
    after = home.doctor()
    if not after.healthy:
        problems.append(f"doctor after repair: {after}")
    return problems
