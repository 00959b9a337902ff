"""All tools, in the order in which agents see them."""

from __future__ import annotations

from interlock.surfaces.mcp import ask_tools, mail_tools, speech_tools, task_tools, team_tools, workflow_tools
from interlock.surfaces.mcp.tool import Tool

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        *team_tools.TOOLS,
        *task_tools.TOOLS,
        *mail_tools.TOOLS,
        *speech_tools.TOOLS,
        *ask_tools.TOOLS,
        *workflow_tools.TOOLS,
    )
}


def visible(leads: bool) -> list[Tool]:
    """The tools a member sees: all for who leads, without the lead's own for everybody else."""
    return [tool for tool in TOOLS.values() if leads or not tool.for_leads]
