"""What an ACP agent says during one turn: its updates, read as they come, become `Update`s and the turn's output.

Read from plain JSON and not from the package's models: an update of a kind, or with a value, that is newer than the
package is then skipped or passed on instead of being refused whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from acp.schema import AllowedOutcome, DeniedOutcome, PermissionOption, RequestPermissionResponse, ToolCallUpdate

from interlock.agents.session import Opening, Permission, PermissionChoice, Update
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.processes.output import Output, blanked

TITLE_CHARS = 300
TOOLS_KEPT = 5000  # tool calls of one turn whose state is remembered
PATHS_KEPT = 50
ENDED = ("completed", "failed")
_STATES = ("pending", "in_progress", *ENDED)
_TIMES = re.compile(
    r"(?<!\d)(?:\d{1,9}(?:\.\d{1,9})?\s?(?:ms|s|sec|seconds)\b|\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)",
)
"""What differs each time the same program prints the same: how long it took, and when that was."""


class Speech:
    """One turn of speaking. What `on_update` raises is kept in `failure`; it hears no more then.

    Raises:
        StorageError: the log file cannot be opened.
    """

    def __init__(
        self, opening: Opening, on_update: Callable[[Update], None], cost_so_far: float, log: str | None = None
    ) -> None:
        self.failure: Exception | None = None
        self.cost = cost_so_far
        self.last_line = ""
        self.updates = 0
        self._opening = opening
        self._on_update = on_update
        self._said = Output(
            log=opening.log if log is None else log, secrets=opening.secrets, limit=opening.output_bytes
        )
        self._thought = Output(log=None, secrets=opening.secrets, limit=0)
        self._tools: dict[str, Json] = {}
        self._servers: dict[str, str] = {}
        self._speaking: tuple[str, object] | None = None
        self._open_line = False

    @property
    def output(self) -> str:
        """What it said so far."""
        return self._said.text

    @property
    def warning(self) -> str | None:
        """What went wrong with the log."""
        return self._said.warning

    def hear(self, update: Mapping[str, Any]) -> None:
        """One update of the session."""
        self.updates += 1
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                self._chunk("text", update)
            case "agent_thought_chunk":
                self._chunk("thought", update)
            case "tool_call" | "tool_call_update":
                self._tool(update)
            case "usage_update":
                self._usage(update)

    def about(self, call: ToolCallUpdate, meta: Mapping[str, Any]) -> AnnouncedCall:
        """What it has said before of the tool call that a permission request with that `_meta` is about."""
        id = str(call.tool_call_id)[:TITLE_CHARS]
        server = self._servers.get(id) if meta.get("is_mcp_tool_approval") is True else None
        return AnnouncedCall(str(self._tools.get(id, {}).get("title", "")), server)

    def finish(self) -> None:
        """The turn is over: hand on what was held back."""
        self._end_line()
        self._said.finish(self._on_text)
        self._thought.finish(self._on_thought)

    def close(self) -> None:
        """Close the log."""
        self._said.close()

    def spent(self, usage: Mapping[str, int]) -> None:
        """Hand on what the whole turn took."""
        self._tell(Update("usage", "", dict(usage)))

    def waits(self, reason: str, until: float | None) -> None:
        """Its program waits for its provider by itself, until then; None: it does not say."""
        when = (
            datetime.fromtimestamp(until).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z") if until else "not known when"
        )
        said = f"its program waits for its provider, until {when}: {reason}"
        self._tell(Update("notice", said, {"reason": reason, "retry_at": until}))

    def complains(self, line: str) -> None:
        """Its program writes a line into its own log."""
        self._tell(Update("error", line))

    def _chunk(self, kind: str, update: Mapping[str, Any]) -> None:
        content = update.get("content")
        text = content.get("text") if isinstance(content, dict) else None
        if not isinstance(text, str) or not text:
            return
        speaker = (kind, update.get("messageId"))
        if speaker != self._speaking:
            self._end_line()
            self._speaking = speaker
        raw = text.encode("utf-8", "replace")
        if kind == "text":
            self._said.feed(raw, self._on_text)
        else:
            self._thought.feed(raw, self._on_thought)
        self._open_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._open_line and self._speaking is not None:
            if self._speaking[0] == "text":
                self._said.feed(b"\n", self._on_text)
            else:
                self._thought.feed(b"\n", self._on_thought)
        self._open_line = False
        self._speaking = None

    def _tool(self, update: Mapping[str, Any]) -> None:
        id = str(update.get("toolCallId", ""))[:TITLE_CHARS]
        known = self._tools.get(id, {"id": id, "title": "", "kind": "other", "status": "pending", "paths": []})
        now = dict(known)
        if isinstance(update.get("title"), str):
            now["title"] = blanked(update["title"], self._opening.secrets)[:TITLE_CHARS]
        if isinstance(update.get("kind"), str):
            now["kind"] = update["kind"][:40]
        if update.get("status") in _STATES:
            now["status"] = update["status"]
        if isinstance(update.get("locations"), list):
            now["paths"] = list(paths(update["locations"], self._opening))
        if "rawInput" in update:
            now["input"] = _digest(update["rawInput"])
        if now["status"] in ENDED and ("rawOutput" in update or "content" in update):
            now["output"] = _digest([update.get("rawOutput"), update.get("content")])
        if now == known and id in self._tools:
            return  # its output grew; that it runs is known
        self._end_line()
        if len(self._tools) < TOOLS_KEPT:
            self._tools[id] = now
            raw = update.get("rawInput")
            meta = update.get("_meta")
            if isinstance(raw, dict) and isinstance(meta, dict) and meta.get("is_mcp_tool_call") is True:
                self._servers.setdefault(id, str(raw.get("server")))
        self._tell(Update("tool", str(now["title"]), now))

    def _usage(self, update: Mapping[str, Any]) -> None:
        cost = update.get("cost")
        if not isinstance(cost, dict) or cost.get("currency", "USD") != "USD":
            return
        amount = cost.get("amount")
        if isinstance(amount, (int, float)) and amount > self.cost:
            self._tell(Update("usage", "", {"cost_usd": amount - self.cost}))
            self.cost = float(amount)

    def _on_text(self, line: str) -> None:
        if line.strip():
            self.last_line = line
        self._tell(Update("text", line))

    def _on_thought(self, line: str) -> None:
        self._tell(Update("thought", line))

    def _tell(self, update: Update) -> None:
        if self.failure is None:
            try:
                self._on_update(update)
            except Exception as error:  # boundary: a listener's own; `prompt` raises it, and not in the package's task
                self.failure = error


def _digest(value: object) -> str:
    """What an input or output is compared by: not the text, which may hold a secret and be large."""
    text = _TIMES.sub("", json.dumps(value, sort_keys=True, default=str))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def paths(locations: object, opening: Opening) -> tuple[str, ...]:
    """The files that a tool call names, absolute, without secrets."""
    found = []
    for one in locations if isinstance(locations, list) else []:
        path = one.get("path") if isinstance(one, dict) else None
        if isinstance(path, str) and path and "\0" not in path:
            found.append(blanked(os.path.normpath(os.path.join(opening.workdir, path)), opening.secrets))
    return tuple(dict.fromkeys(found))[:PATHS_KEPT]


# Tools of MCP servers as agents title them: Claude Code `mcp__SERVER__TOOL`, Gemini CLI `TOOL (SERVER MCP Server)`.
_TITLES = (re.compile(r"mcp__(?P<server>[A-Za-z0-9-]+)__\w+"), re.compile(r"\w+ \((?P<server>[\w-]+) MCP Server\).*"))
_KINDS = ("other", None)  # A command may be called what it likes; its kind is "execute".
_LONGEST = 10_000
_MANY = 100


@dataclass(frozen=True, slots=True)
class AnnouncedCall:
    """What an agent said of a tool call before it asked: the title, and the MCP server whose tool it is. Codex names
    neither in what it asks."""

    title: str
    server: str | None


def read_permission(
    number: int, call: ToolCallUpdate, options: list[PermissionOption], opening: Opening, told: AnnouncedCall
) -> Permission:
    """What the session's `number`th request asks; secrets are blanked in all of it."""
    places = [{"path": one.path} for one in call.locations or []]
    data = call.model_dump(mode="json", by_alias=True, exclude_none=True, include={"raw_input", "content"})
    return Permission(
        id=f"{number}:{call.tool_call_id}",
        title=blanked(call.title or told.title or call.kind or "something", opening.secrets)[:TITLE_CHARS],
        kind=call.kind or "other",
        choices=tuple(PermissionChoice(one.option_id, one.name, one.kind) for one in options),
        paths=paths(places, opening),
        data=_blanked(data, opening.secrets),
        server=told.server or _server(call),
        tool=str(call.tool_call_id)[:TITLE_CHARS],
    )


def permission_answer(choice: str | None) -> RequestPermissionResponse:
    """The choice of that id; None: the turn is cancelled."""
    if choice is None:
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
    return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=choice))


def _server(call: ToolCallUpdate) -> str | None:
    if call.kind not in _KINDS:
        return None
    raw = call.raw_input if isinstance(call.raw_input, Mapping) else {}
    request = raw.get("request")
    meta = request.get("_meta") if isinstance(request, Mapping) else None
    kind = meta.get("codex_approval_kind") if isinstance(meta, Mapping) else None
    if kind == "mcp_tool_call" and isinstance(raw.get("server_name"), str):
        return str(raw["server_name"])
    for pattern in _TITLES:
        found = pattern.fullmatch(call.title or "")
        if found is not None:
            return found["server"]
    return None


def _blanked(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return blanked(value, secrets)[:_LONGEST]
    if isinstance(value, list):
        return [_blanked(one, secrets) for one in value[:_MANY]]
    if isinstance(value, dict):
        return {str(key): _blanked(one, secrets) for key, one in list(value.items())[:_MANY]}
    return value
