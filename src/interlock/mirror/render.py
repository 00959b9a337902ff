"""What the mirror's files say, as a pure function of the rows.

A task file seals itself: `ledger_seq` is the newest event about the task, `digest` the hash of everything else in the
file. So whoever finds one can tell, with no bookkeeping at all, whether the mirror wrote it or somebody edited it,
and which of two is newer.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from interlock.clock import iso
from interlock.model.task import Run, Task
from interlock.model.team import Member, Team

_SEAL = b"digest: "
_SHOWN = (
    "id subject state status owner assignee type priority review verify run run_id attempt blocked_by warnings "
    "parent_id group_id project_id evidence output metadata created_at updated_at claimed_at completed_at"
).split()


def task_file(task: Task, log: list[tuple[str, str, str]], seq: int) -> bytes:
    """The Markdown file of a task: YAML frontmatter, body, Work Log."""
    fields = task.as_dict()
    # JSON values are YAML values, and json is a hundred times faster than a YAML writer.
    lines = [f"{name}: {json.dumps(fields[name], ensure_ascii=False)}" for name in _SHOWN]
    lines.append(f"ledger_seq: {seq}")
    head = "\n".join(lines)
    body = with_work_log(task.body, [f"- {at} {author}: {_indented(text)}" for at, author, text in log])
    text = f"{head}\n---\n\n{body}\n" if body else f"{head}\n---\n"
    content = text.encode("utf-8", "surrogatepass")
    return b"---\n" + _SEAL + hashlib.sha256(content).hexdigest()[:16].encode() + b"\n" + content


def is_ours(data: bytes) -> bool:
    """Whether the mirror wrote this task file and nobody has changed it since."""
    start = b"---\n" + _SEAL
    if not data.startswith(start):
        return False
    digest, _, content = data[len(start) :].partition(b"\n")
    return hashlib.sha256(content).hexdigest()[:16].encode() == digest


def body_of(data: bytes) -> tuple[dict[str, Any], str]:
    """(frontmatter, body without its Work Log) of a task file that somebody edited.

    Raises:
        ValueError: it has no frontmatter that can be read.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = data.decode("utf-8")
    if not text.startswith("---\n") or "\n---" not in text[3:]:
        raise ValueError("it has no frontmatter between two lines of ---")
    head, _, rest = text[4:].partition("\n---")
    try:
        fields = YAML(typ="safe", pure=True).load(head)
    except YAMLError as error:
        raise ValueError(f"its frontmatter is no YAML: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("its frontmatter is no list of fields")
    return fields, without_work_log(rest.partition("\n")[2].strip("\n"))


def with_work_log(body: str, entries: list[str]) -> str:
    """`body` with `entries` in its one `## Work Log` section, which is added where there is none."""
    body = body.strip("\n")
    if not entries:
        return body
    lines = body.split("\n") if body else []
    start = next((i for i, line in enumerate(lines) if line.strip() == "## Work Log"), None)
    if start is None:
        return "\n".join([*lines, *([""] if lines else []), "## Work Log", "", *entries])
    end = next((i for i in range(start + 1, len(lines)) if lines[i].startswith(("# ", "## "))), len(lines))
    before = lines[:end]
    while before and not before[-1].strip():
        before.pop()
    gap = [""] if before[-1].strip() == "## Work Log" else []
    rest = ["", *lines[end:]] if end < len(lines) else []
    return "\n".join([*before, *gap, *entries, *rest])


def without_work_log(body: str) -> str:
    """`body` without the entries the mirror put into its Work Log; an emptied section goes too."""
    kept = [line for line in body.split("\n") if not _is_entry(line)]
    text = "\n".join(kept).rstrip("\n")
    return text.removesuffix("## Work Log").rstrip("\n") if text.endswith("## Work Log") else text


def config_file(team: Team, members: list[Member]) -> bytes:
    """`config.json`: the team, its settings, and who takes part."""
    shown = [member.registration() for member in members if member.role != "person"]
    return _json(team.as_dict(shown))


def run_file(run: Run, task: Task) -> bytes:
    """`run.json`, in the camelCase of AOF."""
    status = "running" if run.ended_at is None else "completed" if run.outcome == "done" else "failed"
    metadata: dict[str, Any] = {}
    if run.ended_at is not None:
        metadata = {"endedAt": run.ended_at, "outcome": run.outcome, "reason": run.reason}
    return _json(
        {
            "taskId": run.task_id,
            "runId": run.id,
            "run": run.number,
            "agentId": run.member,
            "sessionId": run.session,
            "startedAt": run.started_at,
            "status": status,
            "artifactPaths": {"inputs": "inputs/", "work": "work/", "output": "output/"},
            "metadata": metadata,
        }
    )


def heartbeat_file(run: Run) -> bytes:
    """`run_heartbeat.json`, in the camelCase of AOF."""
    return _json(
        {
            "taskId": run.task_id,
            "runId": run.id,
            "agentId": run.member,
            "lastHeartbeat": run.heartbeat_at,
            "beatCount": run.beats,
            "expiresAt": run.expires_at,
        }
    )


def edited_name(task_id: str, now: float) -> str:
    """The name an edited task file is kept under."""
    return f"{task_id}.edited-{iso(now).replace(':', '').replace('.', '')}.md"


def _json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "surrogatepass")


def _indented(text: str) -> str:
    return text.strip("\n").replace("\n", "\n  ")


def _is_entry(line: str) -> bool:
    return line.startswith("- 2") and len(line) > 26 and line[26:27] == " " and line[25] == "Z"
