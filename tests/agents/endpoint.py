"""A scripted model on loopback, for real agent programs: Anthropic `/v1/messages` and OpenAI `/v1/responses`, as SSE
(and, for those that speak nothing else, `/chat/completions` and Gemini's `:streamGenerateContent`).

    with Endpoint(bob=[call("task_claim", task_id="T-1"), say("done")]) as endpoint:
        environment = endpoint.claude("bob")            # or endpoint.codex("bob", directory)

Each name is a model of its own, reached at `/<name>/v1/…`. Its script is a list of moves, or a function from what the
model sees to a move. Of a list, the move is chosen by how often the model has spoken in the conversation that the
request carries, so that a request sent again gets the same answer; past the end it says "done". Moves:

    say(TEXT)                       the model speaks, and its turn ends
    call(TOOL, **ARGUMENTS)         it calls a tool; TOOL is the end of an offered tool's name (`task_claim` for
                                    `mcp__interlock__task_claim`); a tool that is not offered is said so in words;
                                    one of Codex's that takes plain text, such as `apply_patch`, gets it as `input`
    fail(STATUS, TEXT, **HEADERS)   the provider refuses: 429, 529, 401, …
    stall()                         it never answers (until the endpoint closes)
    when(EVENT, MOVE)               not before the threading.Event is set

Requests without tools (titles, summaries) are answered "ok" and not counted. After `most` answers, every model only
says "done": no defect of a test makes an agent call for ever. `requests` are all bodies, `seen` what a model saw.
"""

from __future__ import annotations

import gzip
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

MOST = 60
STALLED = 300.0


@dataclass(frozen=True)
class Move:
    """What the model does next."""

    text: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    stalls: bool = False
    after: threading.Event | None = None


def say(text: str) -> Move:
    return Move(text=text)


def call(tool: str, **arguments: Any) -> Move:
    return Move(tool=tool, arguments=arguments)


def fail(status: int, text: str = "overloaded", **headers: str) -> Move:
    return Move(text=text, status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})


def stall() -> Move:
    return Move(stalls=True)


def when(event: threading.Event, move: Move) -> Move:
    return Move(**{**move.__dict__, "after": event})


@dataclass
class Seen:
    """One request as its model sees it.

    `prompts` are the user's texts, oldest first, with what hooks add; `results` the answers of tools; `spoken` how
    often the model has spoken before; `tools` the names it may call. `sought` are those that it has searched for, since
    the program shows them only then; the script knows nothing of it.
    """

    model: str
    prompts: list[str]
    results: list[str]
    spoken: int
    tools: list[str]
    body: dict[str, Any]
    sought: tuple[str, ...] = ()

    @property
    def searches(self) -> bool:
        """Whether it can search for tools of our server."""
        return any(
            tool.get("type") == SEARCH and "interlock" in tool["description"] for tool in self.body.get("tools", [])
        )

    @property
    def prompt(self) -> str:
        """The last of the user's texts."""
        return self.prompts[-1] if self.prompts else ""

    @property
    def result(self) -> str:
        """The last answer of a tool."""
        return self.results[-1] if self.results else ""


Script = list[Move] | Callable[[Seen], Move]


class Endpoint:
    """The server; a context manager."""

    def __init__(self, most: int = MOST, **scripts: Script) -> None:
        self.scripts = scripts
        self.requests: list[dict[str, Any]] = []
        self.seen: list[Seen] = []
        self.closing = threading.Event()
        self._most = most
        self._answers = 0
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"endpoint": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def url(self, name: str) -> str:
        """The base address of one model."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{name}"

    def claude(self, name: str) -> dict[str, str]:
        """The variables that lead Claude Code to that model, and nowhere else."""
        return {
            "ANTHROPIC_BASE_URL": self.url(name),
            "ANTHROPIC_API_KEY": "dummy-key",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def codex(self, name: str, directory: Path) -> dict[str, str]:
        """The same for Codex, which reads it from `config.toml` in its own directory."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.toml").write_text(CODEX.format(url=self.url(name) + "/v1"))
        return {"CODEX_HOME": str(directory), "CODEX_API_KEY": "dummy-key", "OPENAI_API_KEY": "dummy-key"}

    def gemini(self, name: str, home: Path) -> dict[str, str]:
        """The same for Gemini CLI, which reads its settings below `home`."""
        (home / ".gemini").mkdir(parents=True, exist_ok=True)
        (home / ".gemini" / "settings.json").write_text(json.dumps(GEMINI))
        return {"GEMINI_API_KEY": "dummy-key", "GOOGLE_GEMINI_BASE_URL": self.url(name)}

    def opencode(self, name: str, directory: Path) -> dict[str, str]:
        """The same for OpenCode."""
        directory.mkdir(parents=True, exist_ok=True)
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "models": {"scripted-1": {"name": "s"}},
                    "options": {"baseURL": self.url(name) + "/v1", "apiKey": "dummy-key"}}  # fmt: skip
        one = "scripted/scripted-1"
        config = {"provider": {"scripted": provider}, "enabled_providers": ["scripted"], "autoupdate": False,
                  "model": one, "small_model": one, "share": "disabled"}  # fmt: skip
        (directory / "opencode.json").write_text(json.dumps(config))
        off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        return {"OPENCODE_CONFIG": str(directory / "opencode.json"), **{f"OPENCODE_DISABLE_{one}": "1" for one in off}}

    def move(self, seen: Seen) -> Move:
        """What that model does now."""
        with self._lock:
            self.seen.append(seen)
            self._answers += 1
            capped = self._answers > self._most
        script = self.scripts.get(seen.model, [])
        if capped:
            return say("done")
        if callable(script):
            return script(seen)
        return script[seen.spoken] if seen.spoken < len(script) else say("done")


SEARCH = "tool_search"
"""With which Codex finds the tools of MCP servers; it shows a model none of them before."""

GEMINI = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
}

CODEX = """\
model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false
[features]
plugins = false
apps = false
[sandbox_workspace_write]
exclude_slash_tmp = true
exclude_tmpdir_env_var = true
[analytics]
enabled = false
[feedback]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}"
env_key = "CODEX_API_KEY"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
"""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that was ended left its connection open: no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    endpoint: Endpoint

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the tests look at `requests`."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self._json({"data": [{"id": "scripted-1", "object": "model", "type": "model"}], "has_more": False})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        body = json.loads(raw or b"{}")
        model, _, path = self.path.partition("?")[0].lstrip("/").partition("/")
        self.endpoint.requests.append({"model": model, "path": path, "body": body})
        try:
            if path.endswith("messages"):
                self._answer(_anthropic_seen(model, body), _anthropic, body)
            elif path.endswith("responses"):
                self._answer(_openai_seen(model, body), _openai, body)
            elif path.endswith("chat/completions"):
                self._answer(_chat_seen(model, body), _chat, body)
            elif "enerateContent" in path:
                self._answer(_gemini_seen(model, body), _gemini, {**body, "stream": "stream" in path})
            else:
                self._json({"input_tokens": 10})
        except (BrokenPipeError, ConnectionResetError):
            pass  # the agent was ended, or gave up

    def _answer(self, seen: Seen, spell: Callable[[Move, dict[str, Any]], list[Any]], body: dict[str, Any]) -> None:
        move = self.endpoint.move(seen) if seen.tools else say("ok")
        if move.after is not None:
            move.after.wait(STALLED)
        if move.stalls:
            self.endpoint.closing.wait(STALLED)
            return
        if move.status != 200:
            kinds = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
            about = {"type": kinds.get(move.status, "api_error"), "message": move.text}
            self._json({"type": "error", "error": about}, move.status, move.headers)
            return
        if move.tool is not None:
            name = next((one for one in seen.tools if one == move.tool or one.endswith(f"_{move.tool}")), None)
            if name is None and seen.searches and move.tool not in seen.sought:
                move = Move(tool=SEARCH, arguments={"query": move.tool})
            else:
                move = say(f"no tool {move.tool}") if name is None else Move(tool=name, arguments=move.arguments)
        events = spell(move, body)
        if body.get("stream"):
            self._stream(events[1])
        else:
            self._json(events[0])

    def _json(self, about: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        raw = json.dumps(about).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, events: list[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()
        self.close_connection = True


def _anthropic_seen(model: str, body: dict[str, Any]) -> Seen:
    prompts, results, spoken = [], [], 0
    for message in body.get("messages", []):
        if message["role"] == "assistant":
            spoken += 1
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "tool_result":
                results.append(_words(block.get("content")))
            elif block["type"] == "text":
                prompts.append(block["text"])
    tools = [one["name"] for one in body.get("tools", []) if "name" in one]
    return Seen(model, prompts, results, spoken, tools, body)


def _openai_seen(model: str, body: dict[str, Any]) -> Seen:
    prompts, results, spoken, sought = [], [], 0, []
    for item in body.get("input", []):
        kind = item.get("type", "message")
        if kind == f"{SEARCH}_call":
            sought.append(item["arguments"]["query"])
        elif kind == f"{SEARCH}_output":
            continue
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            spoken += 1
        elif kind.endswith("_output"):
            results.append(_words(item.get("output")))
        elif kind == "message" and item.get("role") == "assistant":
            spoken += 1
        elif kind == "message":
            prompts.append(_words(item.get("content")))
    return Seen(model, prompts, results, spoken, list(_openai_tools(body)), body, tuple(sought))


def _openai_tools(body: dict[str, Any]) -> Iterator[str]:
    """Names, with the namespace in front where there is one: `interlock/task_claim`."""
    found = [item["tools"] for item in body.get("input", []) if item.get("type") == f"{SEARCH}_output"]
    for tool in itertools.chain(body.get("tools", []), *found):
        if tool.get("type") == "namespace":
            for one in tool.get("tools", []):
                yield f"{tool['name']}/_{one['name']}"
        elif "name" in tool:
            yield tool["name"]


def _words(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(_words(one.get("text", "") if isinstance(one, dict) else one) for one in content)
    return content if isinstance(content, str) else json.dumps(content)


def _anthropic(move: Move, body: dict[str, Any]) -> list[Any]:
    id, usage = f"msg_{uuid4().hex[:20]}", {"input_tokens": 12, "output_tokens": 5}
    block: dict[str, Any] = {"type": "text", "text": move.text}
    begun: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": move.text}
    stop = "end_turn"
    if move.tool is not None:
        block = {"type": "tool_use", "id": f"toolu_{uuid4().hex[:20]}", "name": move.tool, "input": move.arguments}
        begun = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(move.arguments)}
        stop = "tool_use"
    message = {"id": id, "type": "message", "role": "assistant", "model": body.get("model"), "stop_sequence": None}
    whole = {**message, "content": [block], "stop_reason": stop, "usage": usage}
    return [
        whole,
        [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": begun},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ],
    ]


def _openai(move: Move, body: dict[str, Any]) -> list[Any]:
    id = f"resp_{uuid4().hex[:20]}"
    custom = any(one.get("type") == "custom" and one.get("name") == move.tool for one in body.get("tools", []))
    if custom:
        item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": f"call_{uuid4().hex[:12]}", "name": move.tool,
                "input": move.arguments["input"], "status": "completed"}  # fmt: skip
        begun: dict[str, Any] = {**item, "input": ""}
        spoken: list[Any] = []
    elif move.tool == SEARCH:
        item = {"type": f"{SEARCH}_call", "id": "ts_1", "call_id": f"call_{uuid4().hex[:12]}", "execution": "client",
                "arguments": move.arguments, "status": "completed"}  # fmt: skip
        begun, spoken = item, []
    elif move.tool is not None:
        namespace, _, name = move.tool.rpartition("/_")
        item = {"type": "function_call", "id": "fc_1", "call_id": f"call_{uuid4().hex[:12]}", "name": name,
                "arguments": json.dumps(move.arguments), "status": "completed"}  # fmt: skip
        if namespace:
            item["namespace"] = namespace
        begun = {**item, "arguments": ""}
        spoken = []
    else:
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": move.text, "annotations": []}]}  # fmt: skip
        begun = {**item, "content": []}
        about = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": move.text}
        spoken = [{"type": "response.output_text.delta", **about}]
    usage = {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}
    whole = {"id": id, "object": "response", "status": "completed", "output": [item], "usage": usage}
    started = {"id": id, "object": "response", "status": "in_progress", "output": []}
    return [
        whole,
        [
            {"type": "response.created", "response": started},
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            *spoken,
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ],
    ]


def _chat_seen(model: str, body: dict[str, Any]) -> Seen:
    prompts, results, spoken = [], [], 0
    for message in body.get("messages", []):
        if message["role"] == "assistant":
            spoken += 1
        elif message["role"] == "tool":
            results.append(_words(message.get("content")))
        elif message["role"] == "user":
            prompts.append(_words(message.get("content")))
    return Seen(model, prompts, results, spoken, [one["function"]["name"] for one in body.get("tools", [])], body)


def _chat(move: Move, body: dict[str, Any]) -> list[Any]:
    said: dict[str, Any] = {"role": "assistant", "content": move.text}
    if move.tool is not None:
        function = {"name": move.tool, "arguments": json.dumps(move.arguments)}
        said["tool_calls"] = [{"index": 0, "id": f"call_{uuid4().hex[:12]}", "type": "function", "function": function}]
    stop = "stop" if move.tool is None else "tool_calls"
    usage = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
    about = {"id": f"chatcmpl-{uuid4().hex[:12]}", "created": 1, "model": body.get("model")}
    whole = {**about, "object": "chat.completion", "usage": usage}
    piece = {**about, "object": "chat.completion.chunk"}
    return [
        {**whole, "choices": [{"index": 0, "message": said, "finish_reason": stop}]},
        [
            {**piece, "choices": [{"index": 0, "delta": said, "finish_reason": None}]},
            {**piece, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage},
        ],
    ]


def _gemini_seen(model: str, body: dict[str, Any]) -> Seen:
    prompts, results, spoken = [], [], 0
    for content in body.get("contents", []):
        spoken += content.get("role") == "model"
        for part in content.get("parts", []) if content.get("role") != "model" else []:
            if "functionResponse" in part:
                results.append(json.dumps(part["functionResponse"].get("response")))
            elif "text" in part:
                prompts.append(part["text"])
    tools = [one["name"] for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
    return Seen(model, prompts, results, spoken, tools, body)


def _gemini(move: Move, body: dict[str, Any]) -> list[Any]:
    part: dict[str, Any] = {"text": move.text}
    if move.tool is not None:
        part = {"functionCall": {"name": move.tool, "args": move.arguments}}
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 5, "totalTokenCount": 17}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
    return [whole, [whole]]
