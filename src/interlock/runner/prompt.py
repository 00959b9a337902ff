"""The text an agent gets for a task."""

from __future__ import annotations

from interlock.model.message import Message, as_xml
from interlock.model.task import Task

FINDINGS = "## Findings of the last check"

_REPORTING = """\
## How to report

End your turn when you are finished: that reports the task as complete, and what you said last as its summary. The
command `interlock` is on your PATH for everything else:

- `interlock task block {id} --reason TEXT` if you cannot go on without a person
- `interlock task release {id} --reason TEXT` to give the task back
- `interlock message send --to MEMBER TEXT` to tell a member, `lead` or `human` something"""


def prompt_for(task: Task, mail: list[Message]) -> str:
    """Subject, body, how the result is judged, how to report, the member's mail, and what an earlier check found."""
    parts = [f"# {task.subject} ({task.id})"]
    if task.body:
        parts.append(task.body.strip("\n"))
    if task.verify:
        parts.append(
            f"When you are finished, Interlock itself runs `{task.verify}` in this directory; the task counts as done "
            "only if that succeeds."
        )
    parts.append(_REPORTING.format(id=task.id))
    if mail:
        parts.append("## Messages for you\n\n" + "".join(as_xml(message) for message in mail).rstrip("\n"))
    if task.findings:
        parts.append(f"{FINDINGS}\n\n{task.findings}")
    return "\n\n".join(parts) + "\n"
