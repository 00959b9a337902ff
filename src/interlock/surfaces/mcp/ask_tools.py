"""`ask_human`: a question to a person, answered at once with its id."""

from __future__ import annotations

from typing import Any

from interlock.errors import InvalidRequest
from interlock.model.task import HELD
from interlock.surfaces.mcp.tool import Call, Tool, text, texts


def _ask(call: Call) -> dict[str, Any]:
    team = call.connection.team
    task = call["task_id"] if "task_id" in call.arguments else _held(call)
    default = call.get("default")
    asked = team.ask(
        task, call["question"], options=call.get("options", ()), default=default, context=call.get("context"),
        reversible=default is not None,
    )  # fmt: skip
    return {"question_id": asked.id, "task_id": asked.task_id}


def _held(call: Call) -> str:
    """The one task that the caller holds."""
    team, member = call.connection.team, call.connection.member
    mine = [task.id for task in team.tasks(owner=member) if task.state in HELD - {"review"}]
    if len(mine) == 1:
        return mine[0]
    which = (
        f"You hold {', '.join(mine)}: say which with task_id." if mine else "You hold no task: name one with task_id."
    )
    raise InvalidRequest(which, field="task_id")


TOOLS = (
    Tool(
        "ask_human",
        "Ask a human a question about a task. Answers {questionId} at once; end your turn or go on with other work: "
        "the answer comes as your next prompt or in your inbox.",
        _ask,
        {
            "question": text("One question"),
            "task_id": text("default: the one you hold"),
            "options": texts("Answers to choose from"),
            "default": text("What you do if nobody answers; only if it can be undone"),
            "context": text("What one must know to answer"),
        },
        required=("question",),
    ),
)
