"""Tools of the contract that this version only announces: they check their arguments and say what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.errors import NotAvailable
from interlock.surfaces.mcp.tool import Call, Tool, text


def _not_yet(name: str, instead: str) -> Callable[[Call], Any]:
    def refuse(call: Call) -> Any:
        raise NotAvailable(f"{name} is not available in this version of Interlock. {instead}", tool=name)

    return refuse


TOOLS = (
    Tool(
        "run_workflow",
        "Start a workflow, such as bmm:create-prd; it asks humans when it must.",
        _not_yet("run_workflow", "Create its steps with task_create instead."),
        {"skill": text(), "input": text(), "workdir": text()},
        required=("skill",),
        for_leads=True,
    ),
)
