"""Workflows: begin one; its questions go to humans."""

from __future__ import annotations

from typing import Any

from interlock.surfaces.mcp.tool import Call, Tool, text


def _run(call: Call) -> dict[str, Any]:
    """The run's task stands in the team's queue; a runner of the team carries it out."""
    run = call.connection.team.start_workflow(
        call["skill"], directory=call.get("workdir"), brief=call.get("input") or "",
    )  # fmt: skip
    names = ("workflow_id", "task_id", "skill", "state", "remaining_count", "warnings")
    return {name: run[name] for name in names}


TOOLS = (
    Tool(
        "run_workflow",
        "Start a workflow, such as bmm:create-prd; it asks humans when it must.",
        _run,
        {"skill": text(), "input": text("What it should be about"), "workdir": text("default: the team's")},
        required=("skill",),
        for_leads=True,
    ),
)
