"""The text an agent gets for a task."""

from __future__ import annotations

from interlock.model.message import Message, as_xml
from interlock.model.task import Task

FINDINGS = "## Findings of the last check"


def prompt_for(task: Task, mail: list[Message]) -> str:
    """Subject, body, what an earlier round found, how the result is judged, and the member's mail."""
    parts = [f"# {task.subject} ({task.id})"]
    if task.body:
        parts.append(task.body.strip("\n"))
    if task.verify:
        parts.append(
            f"When you are finished, Interlock itself runs `{task.verify}` in this directory; the task counts as done "
            "only if that succeeds."
        )
    if task.findings:
        parts.append(f"{FINDINGS}\n\n{task.findings}")
    if mail:
        parts.append("## Messages for you\n\n" + "".join(as_xml(message) for message in mail).rstrip("\n"))
    return "\n\n".join(parts) + "\n"
