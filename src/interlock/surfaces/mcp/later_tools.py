"""Tools of the contract that this version only announces: they check their arguments and say what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.errors import NotAvailable
from interlock.surfaces.mcp.tool import Call, Tool, text, texts


def _not_yet(name: str, instead: str) -> Callable[[Call], Any]:
    def refuse(call: Call) -> Any:
        raise NotAvailable(f"{name} is not available in this version of Interlock. {instead}", tool=name)

    return refuse


TOOLS = (
    Tool(
        "ask_human",
        "Ask a human a question about a task. Answers {questionId} at once; end your turn or go on with other work: "
        "the answer comes as your next prompt or in your inbox.",
        _not_yet("ask_human", "Use send_message with recipient human, and task_update with block if you cannot go on."),
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
