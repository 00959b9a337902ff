"""What the mirror's files say, as a pure function of the rows.

Every file seals itself: `digest` is the hash of everything else in it. So whoever finds one can tell, with no
bookkeeping at all, whether the mirror wrote it or somebody edited it; and of two files of one task `ledger_seq`, the
newest event about the task when it was written, tells which is newer. Only an inbox, which is appended to, has no seal.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from interlock import model
from interlock.model.task import Task
from interlock.model.team import Member, TeamRecord

_as_json = json.JSONEncoder(ensure_ascii=False).encode
_SEAL = b"digest: "
_COMMENT = b"<!-- digest: "
_LAST_FIELD = b',\n  "digest": "'
_REPORTED = ("done", "needs_review", "partial")
_SHOWN = (
    "id subject state status owner assignee type priority review verify run run_id attempt blocked_by warnings "
    "parent_id group_id project_id evidence output metadata created_at updated_at claimed_at completed_at"
).split()


def task_file(task: Task, log: Sequence[tuple[str, str, str]], seq: int) -> bytes:
    """The Markdown file of a task: YAML frontmatter, body, Work Log."""
    fields = task.as_dict()
    # JSON values are YAML values, and json is a hundred times faster than a YAML writer; most of them are null.
    lines = [f"{name}: {'null' if fields[name] is None else _as_json(fields[name])}" for name in _SHOWN]
    lines.append(f"ledger_seq: {seq}")
    head = "\n".join(lines)
    body = with_work_log(task.body, log_entries(log))
    text = f"{head}\n---\n\n{body}\n" if body else f"{head}\n---\n"
    content = text.encode("utf-8", "surrogatepass")
    return b"---\n" + _SEAL + _digest(content).encode() + b"\n" + content


def is_ours(data: bytes) -> bool:
    """Whether the mirror wrote this file and nobody has changed it since."""
    start = b"---\n" + _SEAL
    if data.startswith(start):
        digest, _, content = data[len(start) :].partition(b"\n")
        return _digest(content).encode() == digest
    if data.startswith(_COMMENT):
        digest, _, content = data[len(_COMMENT) :].partition(b" -->\n")
        return _digest(content).encode() == digest
    content, _, digest = data.rpartition(_LAST_FIELD)
    return digest == _digest(content + b"\n}").encode() + b'"\n}\n'


def says_the_same(found: bytes, data: bytes) -> bool:
    """Whether the file of a task is ours and says what `data` does, as of the same event or an earlier one."""
    (*said, seq), (*saying, newest) = _unsealed(found), _unsealed(data)
    return found == data or (said == saying and is_ours(found) and int(seq) <= int(newest))


def _unsealed(data: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands before and after the two fields that seal the file of a task, and the event."""
    before, _, rest = data.partition(b"\n")[2].partition(b"\n")[2].partition(b"\nledger_seq: ")
    seq, _, after = rest.partition(b"\n")
    return before, after, seq


def body_of(data: bytes, log: Sequence[tuple[str, str, str]]) -> tuple[dict[str, Any], str]:
    """(frontmatter, body without those Work Log entries) of a task file that somebody edited.

    Raises:
        ValueError: it has no frontmatter that can be read.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = data.decode("utf-8")
    if not text.startswith("---\n") or "\n---" not in text[3:]:
        raise ValueError("it has no frontmatter between two lines of ---")
    head, _, rest = text[4:].partition("\n---")
    head = "\n".join(line for line in head.split("\n") if not line.startswith("digest: "))
    try:
        fields = YAML(typ="safe", pure=True).load(head)
    except YAMLError as error:
        raise ValueError(f"its frontmatter is no YAML: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("its frontmatter is no list of fields")
    return fields, without_work_log(rest.partition("\n")[2].strip("\n"), log_entries(log))


def log_entries(log: Sequence[tuple[str, str, str]]) -> list[str]:
    """The lines of a Work Log's rows."""
    return [f"- {at} {author}: {_indented(text)}" for at, author, text in log]


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


def without_work_log(body: str, entries: list[str]) -> str:
    """`body` without those of its lines that the mirror added: the reverse of `with_work_log`."""
    if not entries:
        return body
    before, heading, section = ("\n" + body).rpartition("\n## Work Log\n")
    if not heading:
        return body
    for entry in entries:
        head, found, rest = f"{section}\n".partition(f"\n{entry}\n")
        if found:
            section = f"{head}\n{rest}".removesuffix("\n")
    whole = f"{before}{heading}{section}" if section.strip() else before
    return whole.removeprefix("\n").strip("\n")


def config_file(team: TeamRecord, members: list[Member]) -> bytes:
    """`config.json`: the team, its settings, and who takes part."""
    shown = [member.registration() for member in members if member.role != "person"]
    return sealed(team.as_dict(shown))


def run_file(run: model.run.Run, task: Task) -> bytes:
    """`run.json`, in the camelCase of AOF."""
    status = "running" if run.ended_at is None else "completed" if run.outcome in _REPORTED else "failed"
    metadata: dict[str, Any] = {}
    if run.ended_at is not None:
        metadata = {"endedAt": run.ended_at, "outcome": run.outcome, "reason": run.reason}
        if run.outcome == "expired":
            metadata |= {"expiredAt": run.ended_at, "expiredReason": run.reason}
    return sealed(
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


def heartbeat_file(run: model.run.Run) -> bytes:
    """`run_heartbeat.json`, in the camelCase of AOF."""
    return sealed(
        {
            "taskId": run.task_id,
            "runId": run.id,
            "agentId": run.member,
            "lastHeartbeat": run.heartbeat_at,
            "beatCount": run.beats,
            "expiresAt": run.expires_at,
        }
    )


def result_file(run: model.run.Run) -> bytes:
    """`run_result.json`: what the run reported, as it came."""
    return sealed({name: value for name, value in (run.result or {}).items() if name != "digest"})


def handoff_json(handoff: model.run.Handoff) -> bytes:
    """`inputs/handoff.json`: the request, as it came."""
    return sealed({name: value for name, value in handoff.payload.items() if name != "digest"})


def handoff_page(handoff: model.run.Handoff) -> bytes:
    """`inputs/handoff.md`: the same for a reader."""
    payload = handoff.payload
    lines = [
        "# Handoff Request", "", f"- Task: {handoff.task_id}", f"- Part of: {handoff.parent_id}",
        f"- From: {_line(payload.get('fromAgent'))}", f"- To: {_line(payload.get('toAgent'))}",
        f"- Due by: {_line(payload.get('dueBy'))}",
    ]  # fmt: skip
    for title, name in (
        ("Acceptance Criteria", "acceptanceCriteria"), ("Expected Outputs", "expectedOutputs"),
        ("Context References", "contextRefs"), ("Constraints", "constraints"),
    ):  # fmt: skip
        items = [f"- {_line(item)}" for item in payload.get(name) or ()]
        lines += ["", f"## {title}", "", *(items or ["None"])]
    content = ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")
    return _COMMENT + _digest(content).encode() + b" -->\n" + content


def sealed(value: dict[str, Any]) -> bytes:
    """`value` as a file of JSON that seals itself."""
    content = json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass")
    # In front of the last brace, so that the file stays plain JSON.
    return content[:-2] + _LAST_FIELD + _digest(content).encode() + b'"\n}\n'


def _digest(content: bytes) -> str:
    return str(sha256(content).hexdigest()[:16])


def _line(value: object) -> str:
    return " ".join(str(value).split())


def _indented(text: str) -> str:
    return text.strip("\n").replace("\n", "\n  ")
