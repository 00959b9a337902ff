"""The pages of one project, and the first page of all: what needs a person, the board, chat, people, the timeline.

Each function builds one region.
"""

from __future__ import annotations

import time
from typing import Any

from interlock.app.team import Team
from interlock.clock import iso
from interlock.errors import InterlockError, TaskNotFound, WorkflowNotFound
from interlock.model.event import EVENT_TYPES
from interlock.model.names import HUMAN
from interlock.model.question import Question
from interlock.model.report import cannot_work, folded
from interlock.model.task import FINAL, Task
from interlock.surfaces.web.event_text import QUIET
from interlock.surfaces.web.graph_layout import picture
from interlock.surfaces.web.page_context import PageContext
from interlock.surfaces.web.prose import gist
from interlock.surfaces.web.task_actions import actions_for

QUESTION_NEEDS = {"escalation": "deadletter"}
"""The need that a question of that kind stands for, where it is not called by its kind."""
NEED_ACTIONS = {
    "review": ("approve", "reject"),
    "blocked": ("unblock", "cancel"),
    "deadletter": ("retry", "assign", "cancel"),
    "unclaimable": ("assign", "claim"),
    "stopped": ("assign",),
    "held": ("complete", "release"),
    "broken": ("cancel",),
}
"""The buttons that end a need of that kind."""
NEEDS_SHOWN = 40
"""Needs of one project that are shown at once; more are counted."""

COLUMNS = (
    ("awaiting-response", "blocked", "deadletter", "review"),
    ("in-progress",),
    ("ready",),
    ("backlog",),
    ("done", "cancelled"),
)
"""What waits for people first, then the way of the work."""
ALWAYS = ("in-progress", "ready", "done")
"""Columns that are there also when they are empty: a board that changes its shape is hard to read."""
CARDS_PER_COLUMN = 30
CARDS_PER_PAGE = 100
CHATS_PER_PAGE = 20
MESSAGES_PER_PAGE = 60
EVENTS_PER_PAGE = 150
UNHIDDEN = 80
"""Up to so many tasks the graph shows the finished ones, too."""
SHOWN_EVENTS = tuple(sorted(set(EVENT_TYPES) - QUIET))
SINCE = {"1h": "an hour", "12h": "12 hours", "24h": "a day", "7d": "a week", "": "the beginning"}
SINCE_SECONDS = {"1h": 3600, "12h": 43_200, "24h": 86_400, "7d": 604_800}


def nav(page: PageContext) -> dict[str, Any]:
    """The projects with how many things in each need a person."""
    found = [page.glance(name) for name in page.teams]
    here = next((one for one in found if one["name"] == page.project), None)
    return {"projects": found, "needs": sum(one["needs"] for one in found), "here": here}


def needs_everywhere(page: PageContext) -> dict[str, Any]:
    groups = [_group(page.named(status["team"]), status, page.me) for status in page.statuses if _needy(status)]
    return {"groups": groups, "show_project": True, "any_projects": bool(page.teams)}


def needs_here(page: PageContext) -> dict[str, Any]:
    groups = [_group(page.team, page.status, page.me)] if _needy(page.status) else []
    return {"groups": groups, "show_project": False, "any_projects": True}


def _needy(status: dict[str, Any]) -> bool:
    return bool(status["needs_me"] or status.get("unable"))


def _group(team: Team, status: dict[str, Any], me: str) -> dict[str, Any]:
    """What needs a person in one project: questions with what it takes to answer them first, then the rest."""
    questions: dict[str, list[Question]] = {}
    for one in team.questions():
        questions.setdefault(one.task_id, []).append(one)
    needs: list[dict[str, Any]] = []
    for need in folded(status["needs_me"]):
        kind, asked = need["kind"], questions.get(need["task_id"])
        question = asked.pop(0) if asked and kind in (asked[0].kind, QUESTION_NEEDS.get(asked[0].kind)) else None
        entry = {**need, "question": question, "task": None, "moves": [], "on": None}
        if len(needs) < NEEDS_SHOWN:
            try:
                entry["task"] = task = team.task(need["task_id"])
            except TaskNotFound:
                continue  # Deleted between two looks.
            wanted = NEED_ACTIONS.get(kind, ())
            useful = (action for action in actions_for(task, me) if action.verb in wanted)
            entry["moves"] = sorted(useful, key=lambda action: wanted.index(action.verb))
            if kind == "broken":
                entry["on"] = next((id for id in task.blocked_by if id in need["text"]), None)
        needs.append(entry)
    needs.sort(key=lambda one: one["question"] is None)
    return {
        "project": team.name,
        "needs": needs[:NEEDS_SHOWN],
        "more": len(needs) - NEEDS_SHOWN,
        "unable": [cannot_work(one) for one in status["unable"]],
        "members": plain_members(team),
    }


def plain_members(team: Team) -> list[str]:
    """Return the names of the members whom a task can be assigned to."""
    return [member.name for member in team.members() if member.role == "member"]


def projects(page: PageContext) -> dict[str, Any]:
    return {"projects": [{**status, **_progress(status["counts"])} for status in page.statuses]}


def doing(page: PageContext) -> dict[str, Any]:
    """What runs and what is next, of one project."""
    status = page.status
    shown = {need["task_id"] for need in status["needs_me"]}
    return {
        "status": status,
        "waiting": [task for task in status["waiting"] if task["task_id"] not in shown],
        **_progress(status["counts"]),
    }


def _progress(counts: dict[str, int]) -> dict[str, Any]:
    """Return how far a project is: `{total, done, share}`; what was cancelled does not count."""
    total = sum(number for state, number in counts.items() if state not in ("deleted", "cancelled"))
    done = counts.get("done", 0)
    return {"total": total, "done": done, "share": round(100 * done / total) if total else 0}


def board(page: PageContext) -> dict[str, Any]:
    found = page.team.board(limit=CARDS_PER_COLUMN)
    counts = found.counts
    columns = []
    for states in COLUMNS:
        column = [
            {"state": state, "count": counts[state], "cards": _cards(found.tasks[state], page)}
            for state in states
            if counts[state] or state in ALWAYS
        ]
        if column:
            columns.append(column)
    return {"columns": columns, "members": plain_members(page.team), **_progress(counts)}


def state(page: PageContext) -> dict[str, Any]:
    """All tasks in one state, a page at a time."""
    name = page.params["state"]
    tasks = page.team.in_state(name, after=page.number("after") or 0, limit=CARDS_PER_PAGE + 1)
    shown = tasks[:CARDS_PER_PAGE]
    return {
        "state": name,
        "cards": _cards(shown, page),
        "members": plain_members(page.team),
        "next": shown[-1].n if len(tasks) > CARDS_PER_PAGE else None,
    }


def _cards(tasks: list[Task], page: PageContext) -> list[dict[str, Any]]:
    return [{"task": task, "moves": actions_for(task, page.me)} for task in tasks]


def graph(page: PageContext) -> dict[str, Any]:
    """Which task waits for which; without what is finished, unless asked."""
    tasks, edges = page.team.graph()
    finished = sum(task.state in FINAL for task in tasks)
    hidden = finished if page.query.get("all") != "yes" and len(tasks) > UNHIDDEN else 0
    if hidden:
        tasks = [task for task in tasks if task.state not in FINAL]
    return {"picture": picture(tasks, edges), "hidden": hidden, "total": len(tasks), "here": None}


def chats(page: PageContext) -> dict[str, Any]:
    """The project's chat sessions, the one with the newest news first."""
    offset = page.number("offset") or 0
    groups, total = page.home.task_groups(page.project, offset=offset, limit=CHATS_PER_PAGE)
    more = offset + CHATS_PER_PAGE if offset + CHATS_PER_PAGE < total else None
    return {"groups": groups, "total": total, "offset": offset, "more": more}


def chat_title(page: PageContext) -> str:
    tasks = _chat_tasks(page)
    return gist(tasks[0].subject, 100) if tasks else page.params["session"]


def chat(page: PageContext) -> dict[str, Any]:
    """What was asked for in one chat session, and what became of it."""
    words = {task["task_id"]: task.get("last_words") for task in page.status["running"]}
    turns = []
    for task in _chat_tasks(page):
        asked = [one for one in page.team.questions() if one.task_id == task.id] if task.question else []
        turns.append(
            {
                "task": task,
                "words": words.get(task.id),
                "question": asked[0] if asked else None,
                "exchanges": [one for one in page.team.conversation(task.id) if one.get("answer") is not None],
                "moves": actions_for(task, page.me),
            }
        )
    return {"turns": turns}


def _chat_tasks(page: PageContext) -> list[Task]:
    return page.once("group", lambda: page.home.group_tasks(page.params["session"], project=page.project))


def members(page: PageContext) -> dict[str, Any]:
    """Members with what each is doing, those at work first."""
    found = sorted(page.team.crew(), key=lambda one: (not one.tasks, one.member.role != "lead"))
    return {"members": found, "paused": page.status["status"] == "paused"}


def member(page: PageContext) -> dict[str, Any]:
    name = page.params["member"]
    return {"member": next((one for one in page.team.crew() if one.member.name == name), None), "name": name}


def mail(page: PageContext) -> dict[str, Any]:
    """The messages of the team, or to and from one member, a page at a time, the newest at the end."""
    who = page.params.get("member") or page.query.get("member") or None
    found = page.team.history(member=who, limit=MESSAGES_PER_PAGE + 1, before=page.number("before"))
    shown = found[-MESSAGES_PER_PAGE:]
    entries: list[dict[str, Any]] = []
    for message in shown:
        last = entries[-1] if entries else None
        same = last is not None and (last["sender"], last["type"]) == (message.sender, message.type)
        if last and same and message.type == "broadcast" and last["content"] == message.content:
            # What went to several at once is shown once.
            last["to"].append(message.recipient)
            last["waiting"] += not message.read
            continue
        # Within the same ten minutes by the clock it needs no heading of its own.
        close = last is not None and last["to"] == [message.recipient] and last["at"][:15] == message.timestamp[:15]
        entries.append(
            {
                "n": message.n,
                "sender": message.sender,
                "to": [message.recipient],
                "type": message.type,
                "at": message.timestamp,
                "content": message.content,
                "summary": message.summary if message.summary and message.summary not in message.content else None,
                "waiting": int(not message.read),
                "urgent": message.urgent,
                "follows": same and close,
            }
        )
    return {
        "entries": entries,
        "older": shown[0].n if len(found) > MESSAGES_PER_PAGE else None,
        "newer": page.number("before") is not None,
        "who": who,
        "unread": page.status["unread"].get(page.me, 0) if page.may_act and not who else 0,
        "me": HUMAN,
    }


def write(page: PageContext) -> dict[str, Any]:
    """Whom one may write to."""
    names = [member.name for member in page.team.members()]
    return {"names": names, "to": page.params.get("member") or page.query.get("member")}


def timeline(page: PageContext) -> dict[str, Any]:
    """What happened, newest first, by day."""
    everything = page.query.get("all") == "yes"
    types = () if everything else SHOWN_EVENTS
    found = page.team.latest(before=page.number("before"), limit=EVENTS_PER_PAGE + 1, types=types)
    shown = found[:EVENTS_PER_PAGE]
    days: dict[str, list[Any]] = {}
    subjects: dict[str, str] = {}
    for event in shown:
        days.setdefault(event.at[:10], []).append(event)
        if event.task_id and event.task_id not in subjects:
            try:
                subjects[event.task_id] = page.team.task(event.task_id).subject
            except InterlockError:
                subjects[event.task_id] = ""  # Its name is only a help.
    return {
        "days": list(days.items()),
        "subjects": {id: subject for id, subject in subjects.items() if subject},
        "older": shown[-1].seq if len(found) > EVENTS_PER_PAGE else None,
        "everything": everything,
        "show_task": True,
    }


def report(page: PageContext) -> dict[str, Any]:
    """What was done with its evidence, what failed and why, what is left: of one project, or of all."""
    since = page.query.get("since", "")
    at = iso(time.time() - SINCE_SECONDS[since]) if since in SINCE_SECONDS else None
    found = []
    for name in [page.project] if page.project else page.teams:
        try:
            one = page.named(name).report(at)
            found.append({**one, "needs_me": folded(one["needs_me"])})
        except InterlockError as error:
            found.append({"team": name, **error.as_dict()})
    return {"reports": found, "since": since if since in SINCE else "", "choices": SINCE, "one": bool(page.project)}


STORY_MARKS = {"done": "done", "in-progress": "in-progress", "in-review": "review", "blocked": "blocked"}
"""Which signal a story shows; one that was not begun shows that of the backlog."""


def epics(page: PageContext) -> dict[str, Any]:
    """The epics: what runs, what waits for which story and why, what is merged, and what each cost."""
    workdir = page.team.describe().get("workdir")
    try:
        found = page.home.stories(str(workdir), page.project) if workdir else {"stories": [], "epics": [], "faults": []}
    except WorkflowNotFound:
        found = {"stories": [], "epics": [], "faults": []}
    shown = []
    for epic in found["epics"]:
        own = [
            {**one, "mark": STORY_MARKS.get(one["status"], "backlog")}
            for one in found["stories"]
            if one["epic"] == epic["epic"]
        ]
        usage = [one["usage"] for one in own if one["usage"]]
        costs = [one["cost_usd"] for one in usage if one.get("cost_usd") is not None]
        shown.append({
            **epic, "stories": own, "done_stories": sum(one["status"] == "done" for one in own),
            "running": sum(one["status"] in ("in-progress", "in-review") for one in own),
            "blocked": sum(one["status"] == "blocked" for one in own), "inputs": sum(one["inputs"] for one in own),
            "cost_usd": sum(costs) if costs else None, "time": sum(float(one.get("time") or 0) for one in usage),
        })  # fmt: skip
    return {"epics": shown, "faults": found["faults"]}
