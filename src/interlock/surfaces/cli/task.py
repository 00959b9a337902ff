"""`interlock task list`, `show` and `graph`: looking at tasks."""

from __future__ import annotations

import click

from interlock.model.task import Task
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.task_words import listed, whole


@verb("list", reads=True, example="interlock task list --status pending")
@click.option("--status", metavar="S", help="Only tasks of this status or state, such as pending, in_progress, review.")
@click.option("--owner", metavar="M", help="Only tasks that this member holds.")
@click.option("--ready", is_flag=True, help="Only what may be claimed now, in the order of the queue.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most so many.")
def list_(call: Call, status: str | None, owner: str | None, ready: bool, limit: int | None) -> None:
    """The tasks, all or those asked for. Deleted ones are shown with --status deleted only."""
    found = call.team().tasks(status=status, owner=owner, ready=ready, limit=limit)
    call.answer(
        {"tasks": [task.as_dict() for task in found]} if call.json else None, _shown(found, status, owner, ready)
    )


@verb("show", reads=True, example="interlock task show 003")
@click.argument("task")
def show(call: Call, task: str) -> None:
    """One task, whole: its state, text, evidence, runs and Work Log."""
    team = call.team()
    found = team.task(task)
    if call.json:
        call.document({**found.as_dict(), "files": team.artifacts(found.id)})
    else:
        call.say(whole(found, team.runs(found.id), team.work_log(found.id), team.artifacts(found.id), team.name))
        call.warn(found.warnings)


@verb("graph", reads=True, example="interlock task graph --format mermaid > tasks.mmd")
@click.option("--format", "form", type=click.Choice(["text", "mermaid"]), default="text", show_default=True)
def graph(call: Call, form: str) -> None:
    """What waits for what, blockers first."""
    tasks, edges = call.team().graph()
    if call.json:
        document = {
            "tasks": [task.as_dict() for task in tasks],
            "edges": [{"blocker": blocker, "blocked": blocked} for blocker, blocked in edges],
        }
        call.document(document)
    elif form == "mermaid":
        call.say(mermaid(tasks, edges))
    else:
        call.say(tree(tasks, edges) if tasks else EMPTY)


EMPTY = 'No tasks yet. Create one: interlock task create "SUBJECT"'

MERMAID_STYLE = {
    "done": "fill:#d3f2d3,stroke:#2e7d32,color:#000",
    "in-progress": "fill:#fff3c4,stroke:#b58900,color:#000",
    "review": "fill:#f3d9f7,stroke:#8e24aa,color:#000",
    "awaiting-response": "fill:#f3d9f7,stroke:#8e24aa,color:#000",
    "blocked": "fill:#ffd6d6,stroke:#c62828,color:#000",
    "deadletter": "fill:#ffd6d6,stroke:#c62828,color:#000",
    "ready": "fill:#d6f0fa,stroke:#0277bd,color:#000",
}


def mermaid(tasks: list[Task], edges: list[tuple[str, str]]) -> list[str]:
    """The graph as a Mermaid flowchart."""
    node = {task.id: f"t{place}" for place, task in enumerate(tasks, 1)}
    lines = ["flowchart TD"]
    for task in tasks:
        text = words.clean(task.subject).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
        shown = task.state.replace("-", "_") if task.state in MERMAID_STYLE else "other"
        lines.append(f'    {node[task.id]}["{task.id}<br/>{text}"]:::{shown}')
    lines += [f"    {node[blocker]} --> {node[blocked]}" for blocker, blocked in edges]
    lines += [f"    classDef {state.replace('-', '_')} {style}" for state, style in MERMAID_STYLE.items()]
    return lines


def tree(tasks: list[Task], edges: list[tuple[str, str]]) -> list[str]:
    """The graph as indented lines: each task under the newest of its blockers, further ones named beside it."""
    blockers: dict[str, list[str]] = {}
    blocked: dict[str, list[str]] = {}
    place = {task.id: number for number, task in enumerate(tasks)}
    for before, after in sorted(edges, key=lambda edge: (place[edge[0]], place[edge[1]]), reverse=True):
        blockers.setdefault(after, []).append(before)
        blocked.setdefault(before, []).append(after)
    by_id = {task.id: task for task in tasks}
    lines: list[str] = []
    # A task may block very many, and a chain may be very long: no recursion.
    waiting = [(task.id, 0) for task in reversed(tasks) if task.id not in blockers]
    while waiting:
        here, depth = waiting.pop()
        task = by_id[here]
        also = blockers.get(here, [])[:0:-1]
        note = words.faint(f"  (also waits for {words.ids(also)})") if also else ""
        lead = "   " * (depth - 1) + "└─ " if depth else ""
        lines.append(
            f"{words.faint(lead)}{words.strong(here)}  {words.state(task.state)}  {words.clean(task.subject)}{note}"
        )
        waiting += [(one, depth + 1) for one in blocked.get(here, ()) if blockers[one][0] == here]
    return lines


def _shown(found: list[Task], status: str | None, owner: str | None, ready: bool) -> list[str]:
    if found:
        return listed(found)
    if ready:
        return ["Nothing is ready to be claimed. `interlock status` says what is under way and what waits for you."]
    if status or owner:
        return ["No such tasks. `interlock task list` shows all."]
    return [EMPTY]
