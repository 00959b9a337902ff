"""`interlock up` with tools, resources and prompts of the official suite's own, on our layer."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import suppress
from inspect import Parameter, Signature
from typing import Any

from interlock.errors import InterlockError, InvalidRequest
from interlock.model.json import Json
from interlock.surfaces.cli import main
from interlock.surfaces.mcp.resources import PROMPTS, RESOURCES, McpPrompt, McpResource
from interlock.surfaces.mcp.team_tools import TOOLS
from interlock.surfaces.mcp.tool import McpTool, ToolCall


def test_simple_text(call: ToolCall) -> str:
    """Says what it is told to."""
    return "This is a simple text response for testing."


def test_error_handling(call: ToolCall) -> str:
    """Always fails."""
    raise InvalidRequest("This tool intentionally returns an error for testing.")


def greet(call: ToolCall, *, name: str) -> str:
    """Greets at once."""
    return f"Hello, {name}!"


def slow_compute(call: ToolCall, *, seconds: float, label: str | None = None) -> Json:
    """Takes its time."""
    task = call.connection.team.create_task(label or "Compute", assignee="ann")
    threading.Timer(seconds, finish, [call, task.id]).start()
    return {"task_id": task.id}


def failing_job(call: ToolCall) -> Json:
    """Fails for good."""
    team = call.connection.home.team(call.connection.team_name)
    team.configure({"verify_rounds": 1})
    task = team.create_task("Fail", assignee="ann", verify="false")
    threading.Timer(1.0, finish, [call, task.id]).start()
    return {"task_id": task.id}


def protocol_error_job(call: ToolCall) -> Json:
    """Ends, and what it left cannot be read."""
    team = call.connection.team
    task = team.create_task("Be lost", assignee="ann")
    finish(call, task.id)
    with team.for_machine()._act(None) as act:
        act.rows.tasks.update(act.rows.tasks.get(task.id), workflow="gone", updated_at=act.at)
    return {"task_id": task.id}


def finish(call: ToolCall, task: str) -> None:
    """Do it as the member that it is for; one that was cancelled stays so."""
    with suppress(InterlockError):
        ann = call.connection.team.acting("ann", session="by-hand")
        ann.claim(task)
        ann.complete(task)


def test_simple_prompt() -> list[str]:
    """Says what it is told to."""
    return ["This is a simple prompt for testing."]


def test_prompt_with_arguments(arg1: str, arg2: str) -> list[str]:
    """Repeats its arguments."""
    return [f"Prompt with arguments: arg1={arg1!r}, arg2={arg2!r}"]


def test_prompt_with_embedded_resource(**arguments: str) -> list[str]:
    """Embeds a resource."""
    return [arguments["resourceUri"], "Please process the embedded resource above."]


# The suite's name of it is no Python name of ours.
vars(test_prompt_with_embedded_resource)["__signature__"] = Signature(
    [Parameter("resourceUri", Parameter.KEYWORD_ONLY)]
)


def text(uri: str, kind: str, read: Any) -> McpResource:
    return McpResource(uri, uri, "For the suite", kind, read)


TOOLS |= {tool.name: tool for tool in map(McpTool, (test_simple_text, test_error_handling, greet))}
TOOLS |= {tool.__name__: McpTool(tool, begins_task=True) for tool in (slow_compute, failing_job, protocol_error_job)}
PROMPTS |= {
    prompt.name: prompt
    for prompt in map(McpPrompt, (test_simple_prompt, test_prompt_with_arguments, test_prompt_with_embedded_resource))
}
RESOURCES += [
    text("test://static-text", "text/plain", lambda team: "This is the content of the static text resource."),
    text("test://example-resource", "text/plain", lambda team: "Embedded resource content for testing."),
    text("test://template/{id}/data", "application/json", lambda team, id: json.dumps({"id": id})),
]

if __name__ == "__main__":
    sys.exit(main())
