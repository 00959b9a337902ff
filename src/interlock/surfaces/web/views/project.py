"""The pages of one project, and the first page of all: what needs a person, the board, chat, people, the timeline.

Each function builds one region.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from interlock.app.team import Team
from interlock.clock import iso
from interlock.errors import InterlockError, TaskNotFound, WorkflowNotFound
from interlock.model.json import Json
from interlock.model.names import HUMAN, SYSTEM
from interlock.model.question import Question
from interlock.model.status import Need, StatusReport, cannot_work, folded
from interlock.model.story import StoryList
from interlock.model.task import FINAL, PRIORITIES, Task
from interlock.model.views import BoardFilter, MemberOverview
from interlock.surfaces.web.event_text import KINDS, lengths, types_of
from interlock.surfaces.web.graph_layout import NEAR, around, picture
from interlock.surfaces.web.page_context import STATE_WORDS, PageContext
from interlock.surfaces.web.prose import line
from interlock.surfaces.web.task_actions import BULK, actions_for, takes

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
NAMES = ("ada", "ben", "cleo", "dora", "emil", "finn")
"""What new members are called, unless somebody says otherwise."""
NEEDS_SHOWN = 40
"""Needs of one project that are shown at once."""
NEED_KINDS = {"questions": "Questions", "failed": "Failed", "reviews": "Reviews", "stuck": "Stuck"}
"""What a person does about a need decides its kind: answer, retry, read, or make room."""
KIND_OF = {
    **dict.fromkeys(("deadletter", "escalation"), "failed"),
    **dict.fromkeys(("review", "merge"), "reviews"),
    **dict.fromkeys(("blocked", "broken", "unclaimable", "stopped", "held"), "stuck"),
}
"""The kind of those that are no question."""

COLUMN_WORDS = {
    "next": ("Next", "Nothing is waiting to start."),
    "working": ("Working", "Nobody is at work."),
    "needs-you": ("Needs you", "Nothing needs you."),
    "in-review": ("In review", "Nothing is in review."),
    "to-merge": ("Ready to merge", "Nothing waits to be merged."),
    "done": ("Done", "Nothing is done yet."),
}
"""What a column is called, and what it says where it is empty."""
FILTERS = {"q": "words", "member": "member", "priority": "priority", "epic": "epic"}
"""What the address calls each part of a filter."""
CARDS_PER_COLUMN = 30
CARDS_PER_PAGE = 100
AT_ONCE = 500
"""So many tasks of a column are changed at once."""
COMPLETIONS = 100
"""So many names of tasks are offered where one searches."""
CHATS_PER_PAGE = 20
MESSAGES_PER_PAGE = 60
EVENTS_PER_PAGE = 150
LISTED = 30
"""So many of each part of a report are listed; the rest is counted."""
LAYER_LISTED = 50
"""So many tasks of a layer are listed; the rest is counted."""
UNHIDDEN = 80
"""Up to so many tasks the graph shows the finished ones, too."""
SINCE = {"1h": "Last hour", "12h": "Last 12 hours", "24h": "Last day", "7d": "Last week", "": "All time"}
SINCE_SECONDS = {"1h": 3600, "12h": 43_200, "24h": 86_400, "7d": 604_800}


def nav(page: PageContext) -> Json:
    """The projects with how many things in each need a person."""
    found = [page.glance(name) for name in page.teams]
    here = next((one for one in found if one["name"] == page.project), None)
    return {"projects": found, "needs": sum(one["needs"] for one in found), "here": here}


def needs_everywhere(page: PageContext) -> Json:
    groups = [_group(page, page.named(status.team), status) for status in page.statuses if _needy(status)]
    return {"groups": groups, "show_project": True, "any_projects": bool(page.teams)}


def needs_here(page: PageContext) -> Json:
    groups = [_group(page, page.team, page.status)] if _needy(page.status) else []
    return {"groups": groups, "show_project": False, "any_projects": True}


def _needy(status: StatusReport) -> bool:
    return bool(status.needs_me or status.unable)


def _group(page: PageContext, team: Team, status: StatusReport) -> Json:
    """What needs a person in one project: questions with what it takes to answer them first, then the rest. On the
    project's own page a page at a time, and only of one kind where the address says so."""
    found = _with_questions(team, folded(status.needs_me))
    counts = Counter(kind_of(need) for need, _ in found)
    kind = page.query.get("kind", "") if page.project else ""
    kind = kind if counts[kind] else ""
    some = sorted((one for one in found if kind in ("", kind_of(one[0]))), key=lambda one: one[1] is None)
    offset = (page.number("offset") or 0) if page.project else 0
    offset = offset if offset < len(some) else 0
    over = offset + NEEDS_SHOWN
    entries = (_entry(page, team, *one) for one in some[offset:over])
    return {
        "project": team.name,
        "needs": [one for one in entries if one is not None],
        "total": len(found),
        "kinds": {name: (words, counts[name]) for name, words in NEED_KINDS.items() if counts[name]},
        "kind": kind,
        "offset": offset,
        "next": over if over < len(some) else None,
        "left": len(some) - over,
        "unable": [cannot_work(one) for one in status.unable],
        "members": plain_members(team),
        "agents": page.home.installed_agents,
        "name": free_name(team),
    }


def kind_of(need: Need) -> str:
    """Which of `NEED_KINDS` it is."""
    return KIND_OF.get(need.kind, "questions")


def _with_questions(team: Team, needs: list[Need]) -> list[tuple[Need, Question | None]]:
    """Each need with the question that it stands for, if any."""
    questions: dict[str, list[Question]] = {}
    for one in team.questions():
        questions.setdefault(one.task_id, []).append(one)
    found: list[tuple[Need, Question | None]] = []
    for need in needs:
        kind, asked = need.kind, questions.get(need.task_id)
        answers = asked and kind in (asked[0].kind, QUESTION_NEEDS.get(asked[0].kind)) and not (need.count or 0) > 1
        found.append((need, asked.pop(0) if asked and answers else None))
    return found


def _entry(page: PageContext, team: Team, need: Need, question: Question | None) -> Json | None:
    """One need as it is shown; None where its task was deleted between two looks."""
    try:
        task = team.task(need.task_id)
    except TaskNotFound:
        return None
    wanted = NEED_ACTIONS.get(need.kind, ())
    useful = (action for action in actions_for(task, page.me) if action.verb in wanted)
    moves = sorted(useful, key=lambda action: wanted.index(action.verb))
    on = next((id for id in task.blocked_by if id in need.text), None) if need.kind == "broken" else None
    return {**need.as_dict(), "question": question, "task": task, "holds": len(task.blocks), "moves": moves, "on": on}


def free_name(team: Team) -> str:
    """Return a name that no member has yet."""
    taken = {member.name for member in team.members()}
    numbered = (f"agent-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in (*NAMES, *numbered) if name not in taken)


def plain_members(team: Team) -> list[str]:
    """Return the names of the members whom a task can be assigned to."""
    return [member.name for member in team.members() if member.role == "member"]


def projects(page: PageContext) -> Json:
    return {
        "projects": [
            {"status": one, "error": page.unreadable.get(one.team), **_progress(one.counts)} for one in page.statuses
        ]
    }


def doing(page: PageContext) -> Json:
    """What runs and what is next, of one project."""
    status = page.status
    shown = {need.task_id for need in status.needs_me}
    return {
        "status": status,
        "waiting": [task for task in status.waiting if task.task_id not in shown],
        "told": shown,
        **_progress(status.counts),
    }


def _progress(counts: dict[str, int]) -> Json:
    """Return how far a project is: `{total, done, share}`; what was cancelled does not count."""
    total = sum(number for state, number in counts.items() if state not in ("deleted", "cancelled"))
    done = counts.get("done", 0)
    return {"total": total, "done": done, "share": round(100 * done / total) if total else 0}


def board(page: PageContext) -> Json:
    sought = sought_in(page.query)
    found = page.team.board(sought, limit=CARDS_PER_COLUMN)
    columns = [
        {"name": name, "words": COLUMN_WORDS[name], "count": count, "groups": _grouped(found.tasks[name], page)}
        for name, count in found.counts.items()
    ]
    tasks = [task for some in found.tasks.values() for task in some]
    number = sum(found.counts.values())
    return {
        "columns": columns,
        "keys": {task.id: task.plan_key for task in tasks},
        "limit": CARDS_PER_COLUMN,
        **_searching(page, sought, tasks, found.epics, number),
        **_progress(found.states),
    }


def _searching(page: PageContext, sought: BoardFilter, tasks: list[Task], epics: list[str], found: int) -> Json:
    """What the filter offers, and what can be done to all that it finds."""
    names = dict.fromkeys(name for task in tasks for name in (task.subject, task.plan_key) if name)
    verbs = {verb: label for verb, label in BULK.items() if any(takes(task, verb, page.me) for task in tasks)}
    return {
        "sought": sought,
        "members": plain_members(page.team),
        "priorities": PRIORITIES,
        "epics": epics,
        "names": list(names)[:COMPLETIONS],
        "found": found,
        "bulk": verbs if page.may_act else {},
    }


def sought_in(values: Mapping[str, str]) -> BoardFilter:
    """Return the filter in a query or in a form."""
    return BoardFilter(**{name: values.get(key, "")[:200].strip() for key, name in FILTERS.items()})


def state_title(page: PageContext) -> str:
    name = page.params["state"]
    return f"{COLUMN_WORDS[name][0] if name in COLUMN_WORDS else STATE_WORDS.get(name, name)} · {page.project}"


def state(page: PageContext) -> Json:
    """All tasks of one column or in one state, a page at a time."""
    offset, sought = page.number("offset") or 0, sought_in(page.query)
    name = page.params["state"]
    # What can be done to all of them is offered on the first page.
    tasks = page.team.column(name, sought, offset=offset, limit=CARDS_PER_PAGE + 1 if offset else AT_ONCE)
    return {
        "groups": _grouped(tasks[:CARDS_PER_PAGE], page),
        "keys": {task.id: task.plan_key for task in tasks},
        "offset": offset,
        "next": offset + CARDS_PER_PAGE if len(tasks) > CARDS_PER_PAGE else None,
        "column": name,
        **_searching(page, sought, [] if offset else tasks, page.team.board(limit=1).epics, len(tasks)),
    }


def _grouped(tasks: list[Task], page: PageContext) -> dict[str, list[Json]]:
    """Return the cards, as one group without a name or, with `?by=epic`, by epic; what is of none comes last."""
    by_epic = page.query.get("by") == "epic"
    groups: dict[str, list[Json]] = {}
    for task in sorted(tasks, key=lambda task: not task.epic) if by_epic else tasks:
        group = task.epic or "No epic" if by_epic else ""
        groups.setdefault(group, []).append({"task": task, "moves": actions_for(task, page.me)})
    return groups


def graph(page: PageContext) -> Json:
    """Which task waits for which; without what is finished, unless asked. `?task=` draws what is near one task,
    `?epic=` those of one epic, `?as=list` writes the same by layers."""
    tasks, edges = page.team.graph()
    epics = sorted({task.epic for task in tasks} - {""})
    tasks = [task for task in tasks if page.query.get("epic") in (None, "", task.epic)]
    total, asked = len(tasks), page.query.get("task", "").strip()[:200]
    focus = next((one for one in tasks if asked and asked in (one.id, one.plan_key, one.subject)), None)
    hidden = sum(task.state in FINAL for task in tasks) if page.query.get("all") != "yes" and total > UNHIDDEN else 0
    if hidden:
        tasks = [task for task in tasks if task.state not in FINAL or task is focus]
    matches = [task for task in tasks if asked.lower() in task.subject.lower()] if total > UNHIDDEN or asked else []
    if focus is not None:
        known = {task.id for task in tasks}
        near = around(focus.id, [edge for edge in edges if known.issuperset(edge)])
        tasks = [task for task in tasks if task.id in near]
    return {
        "picture": picture(tasks, edges, focus=focus.id if focus else None),
        "hidden": hidden,
        "total": total,
        "focus": focus,
        "asked": asked,
        "names": [task.subject for task in matches[:COMPLETIONS]],
        "matches": matches[:LAYER_LISTED],
        "epics": epics,
        "form": page.query.get("as", "either"),
        "listed": LAYER_LISTED,
        "nearest": NEAR,
    }


def chats(page: PageContext) -> Json:
    """The project's chat sessions, the one with the newest news first."""
    offset = page.number("offset") or 0
    groups, total = page.home.task_groups(page.project, offset=offset, limit=CHATS_PER_PAGE)
    more = offset + CHATS_PER_PAGE if offset + CHATS_PER_PAGE < total else None
    return {"groups": groups, "total": total, "offset": offset, "more": more}


def chat_title(page: PageContext) -> str:
    tasks = _chat_tasks(page)
    return line(tasks[0].subject, 100) if tasks else page.params["session"]


def chat(page: PageContext) -> Json:
    """What was asked for in one chat session, and what became of it."""
    words = {task.task_id: task.last_words for task in page.status.running}
    turns = []
    for task in _chat_tasks(page):
        asked = [one for one in page.team.questions() if one.task_id == task.id] if task.question else []
        turns.append(
            {
                "task": task,
                "why": page.team.task(task.id).why if task.state in ("ready", "backlog") else None,
                "words": words.get(task.id),
                "question": asked[0] if asked else None,
                "exchanges": [one for one in page.team.conversation(task.id) if one.answer is not None],
                "moves": actions_for(task, page.me),
            }
        )
    return {"turns": turns}


def _chat_tasks(page: PageContext) -> list[Task]:
    return page.once("group", lambda: page.home.group_tasks(page.params["session"], project=page.project))


def members(page: PageContext) -> Json:
    """Members with what each is doing, those at work first."""
    found = sorted(page.team.member_overviews(), key=lambda one: (not one.tasks, one.member.role != "lead"))
    used = [one for one in found if one.spent["turns"] or one.spent["time"] or one.member.limits or one.capacity_at]
    return {
        "members": found,
        "used": sorted(used, key=lambda one: (one.member.agent or "", one.member.name)),
        "agents_used": _by_agent(used),
        "paused": page.status.status == "paused",
        "agents": page.home.installed_agents,
        "name": free_name(page.team),
    }


def _by_agent(used: list[MemberOverview]) -> list[Json]:
    """Return what the members of each agent used together; what one of them does not know is not known of all."""
    found: dict[str, list[Json]] = {}
    for one in used:
        found.setdefault(one.member.agent or "no agent", []).append(one.spent)
    return [
        {"agent": agent, "members": len(some)}
        | {name: _sum([one[name] for one in some]) for name in ("turns", "tokens", "cost_usd", "time")}
        for agent, some in sorted(found.items())
        if len(some) > 1
    ]


def _sum(parts: list[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def member(page: PageContext) -> Json:
    name = page.params["member"]
    return {
        "member": next((one for one in page.team.member_overviews() if one.member.name == name), None),
        "name": name,
    }


def mail(page: PageContext) -> Json:
    """The messages of the team, or to and from one member, a page at a time, the newest at the end."""
    who = page.params.get("member") or page.query.get("member") or None
    found = page.team.history(member=who, limit=MESSAGES_PER_PAGE + 1, before=page.number("before"))
    shown = found[-MESSAGES_PER_PAGE:]
    entries: list[Json] = []
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
        "unread": page.status.unread.get(page.me, 0) if page.may_act and not who else 0,
        "me": HUMAN,
    }


def write(page: PageContext) -> Json:
    """Whom one may write to."""
    names = [member.name for member in page.team.members()]
    return {"names": names, "to": page.params.get("member") or page.query.get("member")}


def timeline(page: PageContext) -> Json:
    """What happened, newest first, by day: everything, or of one kind, or what one member did."""
    everything, kind, who = page.query.get("all") == "yes", page.query.get("kind", ""), page.query.get("who") or None
    types = () if everything and kind not in KINDS else types_of(kind, everything)
    found = page.team.latest(before=page.number("before"), limit=EVENTS_PER_PAGE + 1, types=types, actor=who)
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
        "lengths": lengths(shown),
        "subjects": {id: subject for id, subject in subjects.items() if subject},
        "older": shown[-1].seq if len(found) > EVENTS_PER_PAGE else None,
        "everything": everything,
        "show_task": True,
        "kinds": {name: words for name, (words, _) in KINDS.items()},
        "kind": kind,
        "who": who,
        "people": [HUMAN, SYSTEM, *(member.name for member in page.team.members())],
    }


def report(page: PageContext) -> Json:
    """What is to be decided, what was done with its evidence, what failed and why, what is left: of one project, or of
    all."""
    since = page.query.get("since", "")
    at = iso(time.time() - SINCE_SECONDS[since]) if since in SINCE_SECONDS else None
    found: list[Json] = []
    listed = LISTED if page.project else LISTED // 3
    for name in [page.project] if page.project else page.teams:
        try:
            one = page.named(name).report(at, limit=listed)
            found.append({"team": name, "told": one, "decide": _to_decide(page.named(name), folded(one.needs_me))})
        except InterlockError as error:
            found.append({"team": name, "told": None, "message": error.message})
    return {
        "reports": found,
        "since": since if since in SINCE else "",
        "choices": SINCE,
        "one": bool(page.project),
        "listed": listed,
    }


def _to_decide(team: Team, needs: list[Need]) -> list[Json]:
    """What waits for a person by what it takes: answers, then failures, then reviews; each with what it rests on."""
    parts: dict[str, list[Need]] = {words: [] for words in NEED_KINDS.values()}
    for need in needs:
        parts[NEED_KINDS[kind_of(need)]].append(need)
    found = []
    for title, some in parts.items():
        rows = []
        for need in some[:LISTED]:
            with suppress(TaskNotFound):
                rows.append({"need": need, "task": team.task(need.task_id)})
        found.append({"title": title, "rows": rows, "total": len(some)})
    return [one for one in found if one["rows"]]


STORY_MARKS = {"done": "done", "in-progress": "in-progress", "in-review": "review", "blocked": "blocked"}
"""Which signal a story shows; one that was not begun shows that of the backlog."""


def epics(page: PageContext) -> Json:
    """The epics, each with its digest, its stories and its retrospective."""
    workdir = page.team.describe().team.workdir
    found = StoryList("", [], [])
    with suppress(WorkflowNotFound):
        found = page.home.stories(workdir, page.project) if workdir else found
    epics = []
    for epic in found.epics:
        own = [one for one in found.stories if one.epic == epic.epic]
        epics.append((epic, [*own, *([epic.retrospective] if epic.retrospective is not None else [])]))
    proposed = found.proposal.lines if found.proposal is not None else []
    return {"epics": epics, "faults": found.faults, "proposed": proposed, "marks": STORY_MARKS}
