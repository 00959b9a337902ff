"""How tasks read to people: one line, a table, or whole."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from interlock.model.evidence import ended as how_ended
from interlock.model.question import reply_command
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.surfaces.cli import words
from interlock.surfaces.cli.table import fields, table

TAIL_LINES = 20
FILES_SHOWN = 50


def line(task: Task, happened: str) -> str:
    """What happened to a task, in a line."""
    return f"{words.strong(task.id)} {happened}: {words.clean(task.subject)}"


def listed(tasks: Sequence[Task]) -> list[str]:
    """Tasks as a table."""
    rows = [
        [
            words.strong(task.id),
            words.state(task.state),
            words.priority(task.priority) if task.priority != "normal" else "",
            words.clean(task.owner or (f"({task.reserved_for})" if task.reserved_for else "")),
            words.ids(task.blocked_by),
            words.ago(task.updated_at),
            words.clean(task.subject),
        ]
        for task in tasks
    ]
    return table(["TASK", "STATE", "PRIORITY", "OWNER", "WAITS FOR", "UPDATED", "SUBJECT"], rows)


def whole(
    task: Task, runs: Sequence[Run], log: Sequence[tuple[str, str, str]], files: Sequence[dict[str, Any]], team: str
) -> list[str]:
    """Everything about one task of that team."""
    lines = [f"{words.strong(task.id)}  {words.strong(words.clean(task.subject))}", "", *_fields(task)]
    for title, text in (("Body", task.body), ("Output", task.output), ("Findings", task.findings)):
        if text:
            lines += ["", words.strong(title), *words.block(text)]
    if task.evidence:
        lines += ["", words.strong("Evidence"), *(told for one in task.evidence for told in evidence(one))]
    if task.question:
        lines += ["", words.strong("Question"), *question(task.question, team)]
    if runs:
        lines += ["", words.strong("Runs"), *_runs(runs)]
    if files:
        lines += ["", words.strong("Files outside git"), *_files(files)]
    if log:
        lines += ["", words.strong("Work Log")]
        for at, author, text in log:
            first, *rest = words.block(text, "") or [""]
            lines.append(f"  {words.faint(words.ago(at))}  {words.clean(author)}: {first}")
            lines += [f"    {more}" for more in rest]
    return lines


def _files(found: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for one in found[:FILES_SHOWN]:
        what = (
            f"{words.size(one['size'] or 0)}  {words.clean(one['file'])}" if one["file"] else f"{one['kind']}, not kept"
        )
        lines.append(f"  {words.clean(one['path'])}  {words.faint(what)}")
    return lines + ([f"  and {len(found) - FILES_SHOWN} more (--json)"] if len(found) > FILES_SHOWN else [])


def evidence(found: dict[str, Any]) -> list[str]:
    """One row of evidence."""
    if found["kind"] == "verify":
        return checked(found)
    ended = "" if found["exit_code"] is None else f"exit code {found['exit_code']}"
    about = f"tree {str(found['tree'])[:12]}" if found["tree"] else ""
    told = (found["kind"].replace("_", " "), words.clean(found["command"] or ""), words.clean(f"by {found['by']}"))
    return [f"  {'  '.join(part for part in (*told, words.faint(', '.join(filter(None, (ended, about))))) if part)}"]


def checked(found: dict[str, Any]) -> list[str]:
    """How a check ended; its last output where it failed."""
    passed = bool(found.get("passed"))
    verdict = words.state("done" if passed else "deadletter").replace("done", "passed").replace("deadletter", "failed")
    ended = how_ended(found).removeprefix("ended with ")
    took = f" in {words.span(float(found['seconds']))}" if found.get("seconds") is not None else ""
    lines = [f"  {verdict}  {words.clean(found.get('command') or '')}  {words.faint(f'({ended}{took})')}"]
    if not passed and found.get("tail"):
        lines += words.block("\n".join(str(found["tail"]).splitlines()[-TAIL_LINES:]), "    ")
    return lines


def question(found: dict[str, Any], team: str) -> list[str]:
    """An open question and how to answer it."""
    lines = words.block(found["text"])
    if found.get("options"):
        lines.append(f"  {words.faint('one of: ' + ', '.join(words.clean(option) for option in found['options']))}")
    return [*lines, f"  {words.faint('answer: ' + how_to_answer(found, team))}"]


def how_to_answer(found: dict[str, Any], team: str) -> str:
    """The command that answers a question; with the team, since ids are counted per team."""
    if found["kind"] == "review":
        return f"interlock task approve {found['task_id']} --team {team}, or reject … --reason R"
    return reply_command(found["id"], found["task_id"], team)


def _fields(task: Task) -> list[str]:
    blocked_by = ", ".join(task.blocked_by)
    return fields(
        [
            ("state", words.state(task.state)),
            ("priority", words.priority(task.priority) if task.priority != "normal" else None),
            ("type", task.type),
            ("key", task.plan_key),
            ("owner", words.clean(task.owner or "")),
            ("assigned to", words.clean(task.assignee or "")),
            ("waits for", blocked_by),
            ("blocks", ", ".join(task.blocks)),
            ("parent", task.parent_id),
            ("review by", task.review if task.review not in (None, "none") else None),
            ("run", words.clean(task.command or "")),
            ("verify", words.clean(task.verify or "")),
            ("env", ", ".join(task.env or ())),
            ("limits", _allowed(task)),
            ("worktree", words.clean(_worktree(task.worktree)) if task.worktree else None),
            ("created", f"{words.ago(task.created_at)} by {words.clean(task.created_by)}"),
            ("claimed", words.ago(task.claimed_at)),
            ("completed", words.ago(task.completed_at)),
            ("metadata", words.clean(json.dumps(task.metadata, ensure_ascii=False)) if task.metadata else None),
        ]
    )


def _allowed(task: Task) -> str:
    found = {"timeout": task.timeout, "retries": task.retries, **(task.limits or {})}
    return ", ".join(f"{name} {value:g}" for name, value in found.items() if value is not None)


def _worktree(known: dict[str, Any]) -> str:
    if known.get("merged"):
        return f"merged as {str(known['merged'])[:12]}"
    return f"{known['path']} on {known['branch']}" if os.path.isdir(str(known["path"])) else "gone"


def _runs(runs: Sequence[Run]) -> list[str]:
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
    return table(["  RUN", "MEMBER", "OUTCOME", "BEGAN", "ENDED", "REASON"], rows)
