"""Tools of the contract that this version only announces: they check their arguments and say what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.errors import NotAvailable
from interlock.surfaces.mcp.tool import Call, Schema, Tool, choice, flag, number, text, texts

TESTS: Schema = {
    "type": "object",
    "properties": {name: number(0, 1_000_000) for name in ("total", "passed", "failed")},
    "additionalProperties": False,
}


def _not_yet(name: str, instead: str) -> Callable[[Call], Any]:
    def refuse(call: Call) -> Any:
        raise NotAvailable(f"{name} is not available in this version of Interlock. {instead}", tool=name)

    return refuse


TOOLS = (
    Tool(
        "report",
        "Report on your task: with outcome that you end it, else your progress. Plain work needs only task_complete.",
        _not_yet("report", "Use task_complete to finish, task_update with log or block for progress."),
        {
            "task_id": text(),
            "outcome": choice("done", "blocked", "needs_review", "partial"),
            "status": choice("in-progress", "blocked", "review"),
            "progress": text(),
            "summary_ref": text("File with your summary"),
            "deliverables": texts("Files you made"),
            "tests": TESTS,
            "blockers": texts("What stops you; questions last"),
            "notes": text(),
        },
        required=("task_id",),
    ),
    Tool(
        "handoff",
        "Hand a subtask to another member, or answer one handed to you with accept.",
        _not_yet("handoff", "Use task_create with an assignee, and send_message to tell them."),
        {
            "task_id": text("The subtask"),
            "parent_task_id": text("Your own task"),
            "to_agent": text(),
            "acceptance_criteria": texts(),
            "expected_outputs": texts(),
            "context_refs": texts(),
            "constraints": texts(),
            "due_by": text("ISO 8601"),
            "accept": flag(),
            "reason": text("Why you do not accept"),
        },
        required=("task_id",),
    ),
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
    Tool(
        "run_workflow",
        "Start a workflow, such as bmm:create-prd; it asks humans when it must.",
        _not_yet("run_workflow", "Create its steps with task_create instead."),
        {"skill": text(), "input": text(), "workdir": text()},
        required=("skill",),
        for_leads=True,
    ),
)
