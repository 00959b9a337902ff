"""How tasks and their questions read to people: a table, a graph, or one task whole."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from interlock import model
from interlock.errors import Conflict
from interlock.model.task import Task
from interlock.model.text import plain
from interlock.surfaces.cli import words

if TYPE_CHECKING:
    from interlock.app.team import Team
    from interlock.model.views import TaskDiff

ONLY_NAMED = re.compile(r"^Binary files .* differ$", re.MULTILINE)
"""What a patch says of a file that it does not hold."""
TAIL_LINES = 20
FILES_SHOWN = 50
KANA = "[\u3041-\u30ff]"
MERMAID_STYLE = {
    "done": "fill:#d3f2d3,stroke:#2e7d32,color:#000",
    "in-progress": "fill:#fff3c4,stroke:#b58900,color:#000",
    "review": "fill:#f3d9f7,stroke:#8e24aa,color:#000",
    "awaiting-response": "fill:#f3d9f7,stroke:#8e24aa,color:#000",
    "blocked": "fill:#ffd6d6,stroke:#c62828,color:#000",
    "deadletter": "fill:#ffd6d6,stroke:#c62828,color:#000",
    "ready": "fill:#d6f0fa,stroke:#0277bd,color:#000",
}


def listed(tasks: Sequence[Task]) -> list[str]:
    rows = [
        [
            words.strong(task.id),
            words.state(task.state),
            words.priority(task.priority),
            words.clean(task.owner or (f"({task.reserved_for})" if task.reserved_for else "")),
            words.ids(task.blocked_by),
            words.ago(task.updated_at),
            words.clean(task.subject),
        ]
        for task in tasks
    ]
    return words.table(["TASK", "STATE", "PRIORITY", "OWNER", "WAITS FOR", "UPDATED", "SUBJECT"], rows)


def changed(parts: Iterable[TaskDiff]) -> Iterator[str]:
    """The lines of a diff, in colours."""
    for part in parts:
        for line in plain(part.diff).splitlines():
            head = line.startswith(("+++", "---", "diff ", "index "))
            colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
            yield click.style(line, bold=True) if head else click.style(line, fg=colour)
        if not part.size:
            yield f"{part.task_id} changed nothing"


def diff_of(team: Team, task: str, *, stat: bool = False, binary: bool = False) -> Iterator[TaskDiff]:
    """What a task changed, part by part.

    Raises:
        Conflict: it changes meanwhile.
    """
    part = team.diff(task, stat=stat, binary=binary)
    size = part.size
    yield part
    while part.next is not None:
        part = team.diff(task, stat=stat, binary=binary, start=part.next)
        if part.size != size:
            raise Conflict(f"{part.task_id} is changing its files right now: this is not all of its diff. Try again.")
        yield part


def mermaid(tasks: Sequence[Task], edges: Sequence[tuple[str, str]]) -> list[str]:
    node = {task.id: f"t{place}" for place, task in enumerate(tasks, 1)}
    lines = ["flowchart TD"]
    for task in tasks:
        text = words.clean(task.subject).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
        shown = task.state.replace("-", "_") if task.state in MERMAID_STYLE else "other"
        lines.append(f'    {node[task.id]}["{task.id}<br/>{text}"]:::{shown}')
    lines += [f"    {node[blocker]} --> {node[blocked]}" for blocker, blocked in edges]
    return lines + [f"    classDef {state.replace('-', '_')} {style}" for state, style in MERMAID_STYLE.items()]


def tree(tasks: Sequence[Task], edges: Sequence[tuple[str, str]]) -> list[str]:
    """The dependencies as indented lines: each task under the newest of its blockers, the others named beside it."""
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
        lead = words.faint("   " * (depth - 1) + "└─ " if depth else "")
        lines.append(f"{lead}{words.strong(here)}  {words.state(task.state)}  {words.clean(task.subject)}{note}")
        waiting += [(one, depth + 1) for one in blocked.get(here, ()) if blockers[one][0] == here]
    return lines


def whole(
    task: Task,
    runs: Sequence[model.run.Run],
    log: Sequence[tuple[str, str, str]],
    files: Sequence[model.run.Artifact],
    team: str,
    elsewhere: str | None = None,
) -> list[str]:
    """Everything about a task; `elsewhere` is the address of its home, where that is on another machine."""
    lines = [f"{words.strong(task.id)}  {words.strong(words.clean(task.subject))}", "", *_fields(task, elsewhere)]
    if task.question:
        lines += ["", words.strong("Question"), *question(task.question, team)]
    for title, text in (("Body", task.body), ("Output", _marked(task.output)), ("Findings", task.findings)):
        if text:
            lines += ["", words.strong(title), *words.block(text)]
    if task.evidence:
        lines += ["", words.strong("Evidence"), *(line for one in task.evidence for line in _evidence(one))]
    if changed := model.text.changed_files((task.worktree or {}).get("changes"), FILES_SHOWN):
        lines += ["", words.strong("Changes"), *(f"  {words.clean(line)}" for line in changed)]
    if runs:
        rows = [
            [
                f"  {run.number}",
                words.clean(run.member),
                run.outcome or words.state("working"),
                words.ago(run.started_at),
                words.ago(run.ended_at),
                words.clean(run.reason or ""),
            ]
            for run in runs
        ]
        table = words.table(["  RUN", "MEMBER", "OUTCOME", "STARTED", "ENDED", "REASON"], rows)
        lines += ["", words.strong("Runs"), *table]
    if files:
        lines += ["", words.strong("Files outside git")]
        for one in files[:FILES_SHOWN]:
            where = one.file or f"interlock task file {one.task_id} {shlex.quote(one.path)}"
            kept = one.kind in model.run.KEPT
            what = f"{words.size(one.size or 0)}  {words.clean(where)}" if kept else f"{one.kind}, not kept"
            lines.append(f"  {words.clean(one.path)}  {words.faint(what)}")
        lines += [f"  and {len(files) - FILES_SHOWN} more (--json)"] if len(files) > FILES_SHOWN else []
    if log:
        lines += ["", words.strong("Work Log")]
        for at, author, text in log:
            first, *rest = words.block(text, "") or [""]
            lines.append(f"  {words.faint(words.ago(at))}  {words.clean(author)}: {first}")
            lines += [f"    {more}" for more in rest]
    return lines


def _marked(output: str | None) -> str:
    """The output of a task; where it ends in Japanese, as the fallbacks of the specification do, those lines say so."""
    before, gap, last = (output or "").rstrip().rpartition("\n\n")
    return before + gap + "\n".join(f"[ja] {line}" if re.search(KANA, line) else line for line in last.split("\n"))


def checked(found: Mapping[str, Any]) -> list[str]:
    """How a check ended; its last output where it failed."""
    passed = bool(found.get("passed"))
    verdict = words.state("done" if passed else "deadletter").replace("done", "passed").replace("deadletter", "failed")
    ended = model.evidence.ended(dict(found)).removeprefix("ended with ")
    took = f" in {words.span(float(found['seconds']))}" if found.get("seconds") is not None else ""
    lines = [f"  {verdict}  {words.clean(found.get('command') or '')}  {words.faint(f'({ended}{took})')}"]
    if passed and found.get("changed_check"):
        lines += words.block(model.evidence.in_words([found]), "    ")
    if not passed and found.get("tail"):
        lines += words.block("\n".join(str(found["tail"]).splitlines()[-TAIL_LINES:]), "    ")
    return lines


def question(found: Mapping[str, Any], team: str) -> list[str]:
    """An open question and the command that answers it; with the team, since ids are counted per team."""
    lines = words.block(found["text"])
    if found.get("options"):
        lines.append(f"  {words.faint('one of: ' + ', '.join(words.clean(option) for option in found['options']))}")
    answer = model.question.reply_command(found["id"], found["task_id"], team)
    if found["kind"] == "review":
        answer = f"interlock task approve {found['task_id']} --team {team}, or reject … --reason R"
    return [*lines, f"  {words.faint('answer: ' + answer)}"]


def _evidence(found: Mapping[str, Any]) -> list[str]:
    if found["kind"] == "verify":
        return checked(found)
    ended = "" if found["exit_code"] is None else f"exit code {found['exit_code']}"
    tree = f"tree {str(found['tree'])[:12]}" if found["tree"] else ""
    about = words.faint(", ".join(filter(None, (ended, tree))))
    parts = (found["kind"].replace("_", " "), words.clean(found["command"] or ""), words.clean(f"by {found['by']}"))
    return [f"  {'  '.join(part for part in (*parts, about) if part)}"]


def _fields(task: Task, elsewhere: str | None) -> list[str]:
    limits = {"timeout": task.timeout, "retries": task.retries, **(task.limits or {})}
    worktree, known = None, task.worktree
    if known and known.get("merged"):
        worktree = f"merged as {str(known['merged'])[:12]}"
    elif known and elsewhere:
        worktree = f"{known['path']} on {known['branch']}, on the machine of {elsewhere}"
    elif known:
        worktree = f"{known['path']} on {known['branch']}" if os.path.isdir(str(known["path"])) else "gone"
    return words.fields(
        [
            ("state", words.state(task.state)),
            ("why", words.clean(task.why or "")),
            ("priority", words.priority(task.priority)),
            ("type", task.type),
            ("key", task.plan_key),
            ("owner", words.clean(task.owner or "")),
            ("assigned to", words.clean(task.assignee or "")),
            ("waits for", ", ".join(task.blocked_by)),
            ("blocks", ", ".join(task.blocks)),
            ("parent", task.parent_id),
            ("review by", task.review if task.review != "none" else None),
            ("run", words.clean(task.command or "")),
            ("verify", words.clean(task.verify or "")),
            ("env", ", ".join(task.env or ())),
            ("limits", ", ".join(f"{name} {value:g}" for name, value in limits.items() if value is not None)),
            ("worktree", words.clean(worktree or "")),
            ("created", f"{words.ago(task.created_at)} by {words.clean(task.created_by)}"),
            ("claimed", words.ago(task.claimed_at)),
            ("completed", words.ago(task.completed_at)),
            ("metadata", words.clean(json.dumps(task.metadata, ensure_ascii=False)) if task.metadata else None),
        ]
    )
