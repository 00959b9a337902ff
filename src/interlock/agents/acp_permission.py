"""Permission requests of ACP agents: what is asked, about which tool, and the answer in the protocol's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from acp.schema import AllowedOutcome, DeniedOutcome, PermissionOption, RequestPermissionResponse, ToolCallUpdate

from interlock.agent import Choice, Opening, Permission
from interlock.agents.acp_speech import TITLE_CHARS, paths
from interlock.output import blanked

# Tools of MCP servers as agents title them: Claude Code `mcp__SERVER__TOOL`, Gemini CLI `TOOL (SERVER MCP Server)`.
_TITLES = (re.compile(r"mcp__(?P<server>[A-Za-z0-9-]+)__\w+"), re.compile(r"\w+ \((?P<server>[\w-]+) MCP Server\).*"))
_KINDS = ("other", None)  # A command may be called what it likes; its kind is "execute".
_LONGEST = 10_000
_MANY = 100


def read_permission(number: int, call: ToolCallUpdate, options: list[PermissionOption], opening: Opening) -> Permission:
    """What the session's `number`th request asks; secrets are blanked in all of it."""
    places = [{"path": one.path} for one in call.locations or []]
    data = call.model_dump(mode="json", by_alias=True, exclude_none=True, include={"raw_input", "content"})
    return Permission(
        id=f"{number}:{call.tool_call_id}",
        title=blanked(call.title or call.kind or "something", opening.secrets)[:TITLE_CHARS],
        kind=call.kind or "other",
        choices=tuple(Choice(one.option_id, one.name, one.kind) for one in options),
        paths=paths(places, opening),
        data=_blanked(data, opening.secrets),
        server=_server(call),
        tool=str(call.tool_call_id)[:TITLE_CHARS],
    )


def permission_answer(choice: str | None) -> RequestPermissionResponse:
    """The choice of that id; null: the turn is cancelled."""
    if choice is None:
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
    return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=choice))


def _server(call: ToolCallUpdate) -> str | None:
    if call.kind not in _KINDS:
        return None
    if isinstance(call.raw_input, Mapping) and _of_codex(call.raw_input):
        return str(call.raw_input["server_name"])
    for pattern in _TITLES:
        found = pattern.fullmatch(call.title or "")
        if found is not None:
            return found["server"]
    return None


def _of_codex(raw: Mapping[str, Any]) -> bool:
    request = raw.get("request")
    meta = request.get("_meta") if isinstance(request, Mapping) else None
    kind = meta.get("codex_approval_kind") if isinstance(meta, Mapping) else None
    return kind == "mcp_tool_call" and isinstance(raw.get("server_name"), str)


def _blanked(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return blanked(value, secrets)[:_LONGEST]
    if isinstance(value, list):
        return [_blanked(one, secrets) for one in value[:_MANY]]
    if isinstance(value, dict):
        return {str(key): _blanked(one, secrets) for key, one in list(value.items())[:_MANY]}
    return value
