"""What a client's user can attach or start: tasks and the report as resources, and prompts over them.

Both are tables over the verbs, as the tools are. An agent that the runner drives is offered neither: its program would
offer its model tools to read them, in every request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from inspect import Parameter, cleandoc, signature
from typing import Any, TypeVar

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmbeddedResource,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)

from interlock.errors import InterlockError, InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.model.report import as_markdown
from interlock.surfaces.mcp.connection import Connection
from interlock.surfaces.mcp.team_tools import TOOLS
from interlock.surfaces.mcp.threads import in_thread
from interlock.surfaces.mcp.tool import ToolCall, camel

READS_AT_ONCE = 8
LISTED = 100
COMPLETED = 100
TASK, REPORT = "interlock://tasks/{id}", "interlock://report"

T = TypeVar("T")


@dataclass(frozen=True)
class McpResource:
    """The texts under one address; `{name}` in it stands for a part that `read` gets by that name.

    Attributes:
        listed: of an address with parts, those that are worth a list: (parts, title).
    """

    uri: str
    name: str
    description: str
    mime_type: str
    read: Callable[..., str]
    listed: Callable[[Connection], Iterable[tuple[dict[str, str], str]]] = lambda connection: ()

    @property
    def is_template(self) -> bool:
        return "{" in self.uri

    def parts(self, uri: str) -> dict[str, str] | None:
        """Return the parts of `uri`; None where it is no address of this one."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.uri))
        found = re.fullmatch(pattern, uri)
        return None if found is None else found.groupdict()


def _task(connection: Connection, id: str) -> str:
    return json.dumps(camel(TOOLS["task_list"].run(ToolCall(connection), id=id)), ensure_ascii=False)


def _open_tasks(connection: Connection) -> Iterable[tuple[dict[str, str], str]]:
    for status in ("in_progress", "pending"):
        yield from (({"id": task.id}, task.subject) for task in connection.team.tasks(status=status, limit=LISTED))


RESOURCES = [
    McpResource(
        REPORT,
        "report",
        "What needs you, what is done with its evidence, what failed and why, what it cost",
        "text/markdown",
        lambda connection: "\n".join(as_markdown(connection.team.report(limit=LISTED))),
    ),
    McpResource(
        TASK, "task", "A task whole, with its work log and runs", "application/json", _task, listed=_open_tasks
    ),
]


@dataclass(frozen=True)
class McpPrompt:
    """A prompt that a user picks. `run` gets its arguments, all texts, and returns texts and addresses of resources.
    Its name and docstring are what users see."""

    run: Callable[..., list[str]]

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def description(self) -> str:
        return " ".join(cleandoc(self.run.__doc__ or "").split())

    @property
    def arguments(self) -> list[Parameter]:
        return list(signature(self.run).parameters.values())


def work() -> list[str]:
    """Take the next task of the team, do it, and go on until there is none."""
    return [
        "Take the next task with task_claim, do it, and end it with task_complete; go on until none is ready. If you "
        "cannot go on, use ask_human, or task_update with block."
    ]


def task(id: str) -> list[str]:
    """Do one task of the team."""
    return [TASK.format(id=id), f"Take the task {id} with task_claim, do it, and end it with task_complete."]


def report() -> list[str]:
    """What needs me, and what the team has done."""
    return [REPORT, "Say in a few sentences what needs me first, then what was done and how that is known."]


PROMPTS = {prompt.name: prompt for prompt in (McpPrompt(work), McpPrompt(task), McpPrompt(report))}


class ResourceServer:
    """Lists and reads resources and prompts for one connection. Verbs block, so each runs in a thread of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._limit = anyio.CapacityLimiter(READS_AT_ONCE)

    async def list_resources(self) -> ListResourcesResult:
        return ListResourcesResult(resources=await self._in_thread(self._listed))

    async def list_templates(self) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(
                    uri_template=one.uri, name=one.name, description=one.description, mime_type=one.mime_type
                )
                for one in RESOURCES
                if one.is_template
            ]
        )

    async def read(self, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Read one. Raises MCPError where there is no such resource."""
        return ReadResourceResult(contents=[await self._in_thread(self._read, params.uri)])

    async def list_prompts(self) -> ListPromptsResult:
        return ListPromptsResult(
            prompts=[
                Prompt(
                    name=one.name,
                    description=one.description,
                    arguments=[
                        PromptArgument(name=argument.name, required=argument.default is argument.empty)
                        for argument in one.arguments
                    ],
                )
                for one in PROMPTS.values()
            ]
        )

    async def get_prompt(self, params: GetPromptRequestParams) -> GetPromptResult:
        """Make one. Raises MCPError where there is no such prompt, or its arguments are not those."""
        return GetPromptResult(messages=await self._in_thread(self._messages, params.name, params.arguments or {}))

    async def complete(self, params: CompleteRequestParams) -> CompleteResult:
        """Complete the id of a task, for the prompt and the address that take one."""
        begun = params.argument.value if params.argument.name == "id" else None
        values = [] if begun is None else await self._in_thread(self._ids, begun)
        return CompleteResult(completion=Completion(values=values[:COMPLETED], total=len(values)))

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        async with self._limit:
            try:
                return await in_thread(function, *arguments)
            except InterlockError as refusal:
                raise MCPError(INVALID_PARAMS, refusal.message, camel(refusal.as_dict())) from refusal

    def _listed(self) -> list[Resource]:
        self._connection.settle()
        found = []
        for one in RESOURCES:
            listed = one.listed(self._connection) if one.is_template else [({}, "")]
            for parts, title in listed:
                uri = one.uri.format(**parts)
                name = "/".join([one.name, *parts.values()])
                found.append(
                    Resource(
                        uri=uri, name=name, title=title or None, description=one.description, mime_type=one.mime_type
                    )
                )
        return found

    def _ids(self, begun: str) -> list[str]:
        self._connection.settle()
        return [parts["id"] for parts, _ in _open_tasks(self._connection) if begun in parts["id"]]

    def _read(self, uri: str) -> TextResourceContents:
        self._connection.settle()
        for one in RESOURCES:
            parts = one.parts(uri)
            if parts is not None:
                text = one.read(self._connection, **parts)
                return TextResourceContents(uri=uri, mime_type=one.mime_type, text=text)
        raise InvalidRequest(f"There is no resource {uri[:200]!r}.", field="uri", uri=uri[:1000])

    def _messages(self, name: str, arguments: dict[str, str]) -> list[PromptMessage]:
        prompt = PROMPTS.get(name)
        if prompt is None:
            raise InvalidRequest(f"There is no prompt {name[:80]!r}. There are: {', '.join(PROMPTS)}.", field="name")
        known = {one.name: one.default is one.empty for one in prompt.arguments}
        wrong = [one for one in arguments if one not in known]
        wrong += [one for one, needed in known.items() if needed and not arguments.get(one)]
        if wrong:
            takes = ", ".join(known) or "no arguments"
            raise InvalidRequest(f"The prompt {name} takes {takes}: look at {wrong[0][:80]!r}.", field=wrong[0][:80])
        return [PromptMessage(role="user", content=self._content(text)) for text in prompt.run(**arguments)]

    def _content(self, text: str) -> TextContent | EmbeddedResource:
        if any(one.parts(text) is not None for one in RESOURCES):
            return EmbeddedResource(type="resource", resource=self._read(text))
        return TextContent(type="text", text=text)
