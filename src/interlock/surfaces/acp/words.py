"""What a team has and does, in the words of the Agent Client Protocol: values in, messages out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import acp
from acp import schema

from interlock.errors import InvalidRequest
from interlock.model.question import Question
from interlock.model.task import FINAL, Task
from interlock.model.text import gist, plain

CHARS = 20_000
"""How much of one text is told; the page has all of it."""
OVER = frozenset({*FINAL, "deadletter"})
NO = ("no", "refuse", "reject", "deny", "cancel", "drop")
"""Answers that clients show as a refusal."""
OWN_WORDS = "…"
"""What an option ends with that only begins an answer: `changes: …`."""

_PRIORITY: dict[str, Any] = {"critical": "high", "high": "high", "low": "low"}
_KIND: dict[str | None, Any] = {"IMPLEMENTATION": "edit", "READ_INFO": "read"}
_REMARKS = {
    "awaiting-response": "waits for an answer", "blocked": "blocked", "review": "in review", "deadletter": "failed",
    "cancelled": "cancelled", "deleted": "deleted",
}  # fmt: skip


def text_of(prompt: Sequence[Any]) -> str:
    """The chat message that the blocks of a prompt are; of files and other resources their addresses.

    Raises:
        InvalidRequest: there is none, or something that a task cannot hold.
    """
    parts = []
    for block in prompt:
        if block.type == "text":
            parts.append(block.text)
        elif block.type == "resource_link":
            parts.append(f"{block.name} ({block.uri})")
        elif block.type == "resource":
            parts.append(block.resource.uri)
        else:
            raise InvalidRequest(f"A chat message is text and links, not {block.type}.", field="prompt")
    text = "\n\n".join(part for part in parts if part.strip())
    if not text:
        raise InvalidRequest("The prompt is empty: say what you need.", field="prompt")
    return text


def shown(text: str) -> str:
    """A text of ours as clients get it: without what steers a terminal, and bounded."""
    text = plain(text)
    return text if len(text) <= CHARS else f"{text[: CHARS - 1]}…"


def plan(tasks: Iterable[Task]) -> schema.AgentPlanUpdate:
    """The tasks with their states, as a plan."""
    entries = []
    for task in tasks:
        remarks = [one for one in (task.owner, _REMARKS.get(task.state)) if one]
        said = f" ({', '.join(remarks)})" if remarks else ""
        status: Any = "completed" if task.state in OVER else "in_progress" if task.owner else "pending"
        entries.append(
            acp.plan_entry(
                f"{gist(task.subject)}{said}", priority=_PRIORITY.get(task.priority, "medium"), status=status
            )
        )
    return acp.update_plan(entries)


def call_id(task: Task) -> str:
    """A run of a task as the id of a tool call."""
    return f"{task.id}.{task.run}"


def began(task: Task) -> schema.ToolCallStart:
    """A run of the task as a tool call under way."""
    return acp.start_tool_call(
        call_id(task), gist(task.subject), kind=_KIND.get(task.type, "other"), status="in_progress",
        raw_input={"task": task.id, "member": task.owner, "run": task.run},
    )  # fmt: skip


def ended(id: str, task: Task) -> schema.ToolCallProgress:
    """The end of that tool call, by what has become of its task."""
    done = task.state == "done" and id == call_id(task)
    said = shown(task.output or f"The task is {task.state}.")
    return acp.update_tool_call(
        id, status="completed" if done else "failed", content=[acp.tool_content(acp.text_block(said))],
        raw_output={"task": task.id, "state": task.state},
    )  # fmt: skip


def options(question: Question) -> list[schema.PermissionOption]:
    """The answers to choose from; none where a question can only be answered in words."""
    found = []
    for number, option in enumerate(question.options):
        name = option.removesuffix(OWN_WORDS).rstrip(" :") if option.endswith(OWN_WORDS) else option
        refuses = option.endswith(OWN_WORDS) or option.strip().casefold() in NO
        kind: Any = "reject_once" if refuses else "allow_always" if option == "always" else "allow_once"
        found.append(schema.PermissionOption(option_id=str(number), name=gist(name), kind=kind))
    return found


def asked(question: Question, task: Task) -> schema.ToolCallUpdate:
    """A question about the task as what a permission is asked for."""
    content: Any = [acp.tool_content(acp.text_block(shown(question.context)))] if question.context else None
    return schema.ToolCallUpdate(
        tool_call_id=call_id(task) if task.run else question.id, title=shown(question.text), content=content,
        status="pending", kind=_KIND.get(task.type, "other"),
    )  # fmt: skip


def in_words(question: Question, begins: str | None) -> str:
    """A question as text, with how it is answered: by a message that goes on after `begins`, or not from here."""
    if begins is None:
        how = "It is answered on the page or with `interlock question reply`."
    elif begins:
        how = f"Your next message here is taken as `{begins}…`."
    else:
        how = "Your next message here is the answer to this."
        how += f" Choose one of: {', '.join(question.options)}." if question.options else ""
    return shown("\n\n".join(part for part in (question.text, question.context, how) if part))
