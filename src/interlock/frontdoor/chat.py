"""A chat message becomes exactly one task of its session's group, in one transaction, or an error (INV-3, INV-4)."""

from __future__ import annotations

import re

from interlock.core.tasks.create import create
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import InvalidRequest
from interlock.model.group import Group, check_chat_session
from interlock.model.names import check_text
from interlock.model.task import TYPES, Task
from interlock.workflow.entry.workflow_entry_wrapper import Invocation, detect

PROMPT_CHARS = 200
"""How much of a message stands in lists."""

_READS = re.compile(
    r"(what|why|who|when|where|which|how|is|are|does|do|did|can|could|should|show|list|explain|find|look|tell)\b", re.I
)
_REPORTS = re.compile(r"(report|summari[sz]e|summary|analy[sz]e|review|compare|document what|write up)\b", re.I)
_CHANGES = re.compile(
    r"(please\s+)?(add|fix|implement|change|create|write|refactor|remove|delete|update|rename|build|make|replace|move|"
    r"migrate|upgrade|bump|convert|extract|split|improve|optimi[sz]e|correct|repair|introduce|support|handle|release)\b",
    re.I,
)


def infer_type(content: str) -> str | None:
    """The type of task a message asks for; null where that cannot be told (decision 25)."""
    text = content.strip()
    if isinstance(detect(text), Invocation):
        return "WORKFLOW"
    if _CHANGES.match(text):
        return "IMPLEMENTATION"
    if _REPORTS.match(text):
        return "REPORT"
    return "READ_INFO" if _READS.match(text) or text.endswith("?") else None


def default_session(project: str) -> str:
    """The chat session of messages that name none."""
    return f"{project}-default"


def receive(act: UnitOfWork, project: str, content: str, session_id: str, task_type: str | None) -> Task:
    """Make the task of a chat message, and its group with the session's first.

    Raises:
        InvalidRequest: there is no content, it is too long, or the session id or type is none.
        TaskLimit: too many tasks are open.
    """
    check_chat_session(session_id)
    check_text(content, "content", limit=act.settings.get("body_chars"), required=True, setting="body_chars")
    if task_type is not None and task_type not in TYPES:
        raise InvalidRequest(f"task_type must be one of: {', '.join(TYPES)}.", field="task_type")
    if act.rows.groups.get(session_id) is None:
        act.rows.groups.insert(Group(session_id, act.at, act.at, first_prompt=_in_a_line(content, PROMPT_CHARS)))
        act.event("group.created", group=session_id, project=project)
    limit = min(PROMPT_CHARS, act.settings.get("subject_chars"))
    return create(
        act,
        _in_a_line(content, limit),
        body=content,
        type=task_type or infer_type(content),
        review="none",
        group_id=session_id,
        project_id=project,
    )


def _in_a_line(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"
