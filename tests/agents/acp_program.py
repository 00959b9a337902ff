"""An agent program for tests: a real child process that speaks ACP and follows a script, where a model would be.

    python acp_program.py SCRIPT.json            a member: {"agent": {"acp": [sys.executable, PATH, str(script)]}}

The script is an object; every key may be left out:

    turns      what to do at the first prompt, the second, …: a list of lists of actions; the last one is repeated
    when       [{"match": REGEX, "do": [ACTION, …]}, …]: for prompts that match, before `turns` and not counted
    record     a file to which one JSON line is appended for everything the client sends: {"got", …}
    state      a directory where sessions are kept, so that `load` and `resume` find them in a new process
    can        of "load", "resume", "close", "http": what is advertised; ["load", "close"] with `state`, else nothing
    models     names of models, offered as the config option "model"; the chosen one is recorded
    modes      names of modes, the first is in force
    start      "hang", "crash" or "login": instead of answering session/new
    version    the protocol version to answer with

A prompt's actions are carried out in order, and the turn ends with `end_turn`. An action is an object with one key:

    {"say": TEXT}  {"think": TEXT}  {"stderr": TEXT}
    {"write": {"path": P, "text": T}}       a file in the working directory; {"tool": …} notices go with it
    {"tool": {"title", "kind", "paths", "status"}}
    {"run": [PROGRAM, …]}                   waits for it, with its output as `{out}` and its exit code as `{exit}`
    {"child": [PROGRAM, …]}                 starts it and does not wait; with `"session": true` in a new session
    {"ask": {"title", "kind", "paths", "choices"}, "allowed": [ACTION, …], "refused": [ACTION, …]}
                                            asks permission; `{answer}` is the id of the choice; a cancelled turn ends
    {"call": TOOL, "with": {…}, "as": NAME, "server": NAME}
                                            calls an MCP tool of the (first) server it was given; answer: `{NAME}`,
                                            by default `{result}`, fields of JSON as `{NAME.field}`, lists `{NAME.0}`
    {"usage": {"input", "output", "total_cost"}}   tokens of this turn at its end, cost of the session so far now
    {"wait": FILE}                          until that file exists (5 minutes at most)
    {"touch": FILE}                         make that file
    {"hang": true}                          until cancelled; {"hang": "deaf"} does not hear that either
    {"flood": N, "text": T}                 says T and a newline, N times
    {"raw": TEXT}                           printed on the protocol's own stdout as it is
    {"error": {"code": N, "message": T, "data": …}}      the prompt is answered by this error
    {"limit": TEXT}                         the same, code -32603: a usage limit in the agent's words
    {"stop": REASON}                        ends the turn with it: refusal, max_tokens, max_turn_requests, cancelled
    {"crash": EXIT_CODE}                    exits; {"crash": "kill"} by SIGKILL
    {"again": true}                         the rest of this turn's actions only when the prompt comes a second time

In any text, `{prompt}`, `{cwd}`, `{session}`, `{task}` (that the last prompt named, else INTERLOCK_TASK) and
`{env.NAME}` are replaced as well.

A script that ends in `.py` has `async def play(turn, prompt)` instead: `turn` has a method for each action above.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.append(str(Path(__file__).resolve().parents[2]))
import tests.lean_models  # noqa: F401, I001 - before the library

import acp
from acp import schema
from acp.exceptions import RequestError

CHOICES = [("allow", "allow_once"), ("always", "allow_always"), ("reject", "reject_once")]


class Stop(Exception):
    """The turn ends here, for that reason."""


class Program:
    """The agent's side of the connection."""

    def __init__(self, script: dict[str, Any], play: Any) -> None:
        self.script = script
        self.play = play
        self.client: Any = None
        self.sessions: dict[str, Session] = {}

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    def record(self, got: str, **what: Any) -> None:
        if path := self.script.get("record"):
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"got": got, "pid": os.getpid(), "parent": os.getppid(), **what}) + "\n")

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **_: Any) -> Any:
        offered = client_capabilities.model_dump(by_alias=True, exclude_none=True) if client_capabilities else None
        self.record("initialize", version=protocol_version, capabilities=offered, environment=sorted(os.environ))
        can = self.script.get("can", ["load", "close"] if self.script.get("state") else [])
        return schema.InitializeResponse(
            protocol_version=self.script.get("version", acp.PROTOCOL_VERSION),
            agent_info=schema.Implementation(name="acp-program", version="1.2.3"),
            agent_capabilities=schema.AgentCapabilities(
                load_session="load" in can,
                mcp_capabilities=schema.McpCapabilities(http="http" in can),
                session_capabilities=schema.SessionCapabilities(
                    resume=schema.SessionResumeCapabilities() if "resume" in can else None,
                    close=schema.SessionCloseCapabilities() if "close" in can else None,
                ),
            ),
        )

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> Any:
        await self._start()
        session = Session(self, f"acp-{uuid4()}", cwd, mcp_servers or [])
        self.record("new", session=session.id, cwd=cwd, servers=_dumped(mcp_servers))
        session.keep()
        return schema.NewSessionResponse(session_id=session.id, **self._offers())

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any) -> Any:
        session = await self._again("load", cwd, session_id, mcp_servers)
        for prompt in session.prompts:
            said = schema.UserMessageChunk(session_update="user_message_chunk", content=acp.text_block(prompt))
            await self.client.session_update(session_id=session_id, update=said)
            await session.turn("").say(f"(replayed) {prompt}")
        return schema.LoadSessionResponse(**self._offers())

    async def resume_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any) -> Any:
        await self._again("resume", cwd, session_id, mcp_servers)
        return schema.ResumeSessionResponse(**self._offers())

    async def _again(self, how: str, cwd: str, session_id: str, servers: Any) -> Session:
        self.record(how, session=session_id, cwd=cwd, servers=_dumped(servers))
        await self._start()
        session = Session(self, session_id, cwd, servers or [])
        if not session.find():
            raise RequestError.resource_not_found(session_id)
        return session

    async def _start(self) -> None:
        match self.script.get("start"):
            case "hang":
                await asyncio.Event().wait()
            case "crash":
                print("the program has a bad day", file=sys.stderr, flush=True)
                os._exit(3)
            case "login":
                raise RequestError.auth_required()

    def _offers(self) -> dict[str, Any]:
        offers: dict[str, Any] = {}
        if modes := self.script.get("modes"):
            offers["modes"] = schema.SessionModeState(
                current_mode_id=modes[0], available_modes=[schema.SessionMode(id=one, name=one) for one in modes]
            )
        if models := self.script.get("models"):
            options = [schema.SessionConfigSelectOption(value=one, name=one.title()) for one in models]
            offers["config_options"] = [
                schema.SessionConfigOptionSelect(
                    type="select", id="model", name="Model", category="model", current_value=models[0], options=options
                )
            ]
        return offers

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> Any:
        self.record("mode", session=session_id, mode=mode_id)
        return schema.SetSessionModeResponse()

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **_: Any) -> Any:
        self.record("option", session=session_id, option=config_id, value=value)
        return schema.SetSessionConfigOptionResponse(config_options=self._offers().get("config_options", []))

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> Any:
        session = self.sessions.get(session_id)
        if session is None:
            raise RequestError.resource_not_found(session_id)
        text = "".join(getattr(block, "text", "") for block in prompt)
        self.record("prompt", session=session_id, text=text)
        return await session.prompted(text)

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.record("cancel", session=session_id)
        self.sessions[session_id].cancel()

    async def close_session(self, session_id: str, **_: Any) -> Any:
        self.record("close", session=session_id)
        await self.sessions.pop(session_id).close()
        return schema.CloseSessionResponse()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        return None


class Session:
    """One session: its prompts so far, the MCP servers it was given, the turn under way."""

    def __init__(self, program: Program, id: str, cwd: str, servers: list[Any]) -> None:
        self.program = program
        self.id = id
        self.cwd = cwd
        self.servers = {one.name: Server(one) for one in servers}
        self.prompts: list[str] = []
        self.known: dict[str, Any] = {"cwd": cwd, "session": id, "task": os.environ.get("INTERLOCK_TASK", "")}
        self._running: asyncio.Task[Any] | None = None
        self._played = 0
        program.sessions[id] = self

    async def prompted(self, text: str) -> Any:
        self.prompts.append(text)
        self.keep()
        turn = self.turn(text)
        self._running = asyncio.create_task(turn.play())
        try:
            reason = await self._running
        except asyncio.CancelledError:
            reason = "cancelled"
        finally:
            self._running = None
        return schema.PromptResponse(stop_reason=reason, usage=turn.spent)

    def turn(self, text: str) -> Turn:
        return Turn(self, text)

    def actions(self, text: str) -> list[dict[str, Any]]:
        for one in self.program.script.get("when", []):
            if re.search(one["match"], text):
                return list(one["do"])
        turns = self.program.script.get("turns", [[{"say": "done"}]])
        self._played += 1
        return list(turns[min(self._played, len(turns)) - 1])

    def cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def close(self) -> None:
        self.cancel()
        for server in self.servers.values():
            await server.close()

    def keep(self) -> None:
        if path := self._file():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"prompts": self.prompts, "played": self._played}))

    def find(self) -> bool:
        path = self._file()
        if path is None or not path.exists():
            return False
        kept = json.loads(path.read_text())
        self.prompts, self._played = kept["prompts"], len(kept["prompts"])
        return True

    def _file(self) -> Path | None:
        state = self.program.script.get("state")
        return Path(state) / f"{self.id}.json" if state else None


class Turn:
    """One prompt being answered; its methods are the actions."""

    def __init__(self, session: Session, prompt: str) -> None:
        self.session = session
        self.client = session.program.client
        self.prompt = prompt
        self.spent: Any = None
        self.known = session.known
        self.known["prompt"] = prompt
        if named := re.search(r"TASK-\d{4}-\d\d-\d\d-\d+", prompt):
            self.known["task"] = named[0]

    async def play(self) -> str:
        try:
            if self.session.program.play is not None:
                await self.session.program.play(self, self.prompt)
            else:
                await self.do(self.session.actions(self.prompt))
        except Stop as stop:
            return str(stop)
        return "end_turn"

    async def do(self, actions: list[dict[str, Any]]) -> None:
        for number, action in enumerate(actions):
            name = next(iter(action))
            if name == "again":
                if self.session.prompts.count(self.prompt) < 2:
                    return
                await self.do(actions[number + 1 :])
                return
            about = self._filled({key: value for key, value in action.items() if key not in ("allowed", "refused")})
            if name == "ask":
                answer = await self.ask(**about["ask"])
                allowed = not answer.startswith("reject")
                await self.do(action.get("allowed" if allowed else "refused", []))
                continue
            await _ACTIONS[name](self, about.pop(name), about)

    async def say(self, text: str) -> None:
        await self._update(acp.update_agent_message_text(text))

    async def think(self, text: str) -> None:
        await self._update(acp.update_agent_thought_text(text))

    async def tool(self, title: str, kind: str = "other", paths: Any = (), status: str = "completed") -> None:
        await self._notice(f"call-{uuid4()}", title, kind, paths, status)

    async def write(self, path: str, text: str) -> None:
        file = Path(self.session.cwd, path)
        call = f"call-{uuid4()}"
        await self._notice(call, f"Write {path}", "edit", [str(file)], "in_progress")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        await self._update(acp.update_tool_call(call, status="completed"))

    async def run(self, argv: list[str]) -> str:
        call = f"call-{uuid4()}"
        await self._notice(call, " ".join(argv), "execute", (), "in_progress", {"command": argv})
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=self.session.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        self.known.update(out=out.decode("utf-8", "replace"), exit=process.returncode)
        ended = "failed" if process.returncode else "completed"
        await self._update(acp.update_tool_call(call, status=ended, raw_output={"stdout": self.known["out"]}))
        return str(self.known["out"])

    async def ask(self, title: str, kind: str = "edit", paths: Any = (), choices: Any = None, **data: Any) -> str:
        options = [schema.PermissionOption(option_id=id, name=id.title(), kind=kind) for id, kind in choices or CHOICES]
        about = schema.ToolCallUpdate(
            tool_call_id=f"call-{uuid4()}",
            title=title,
            kind=kind,
            raw_input=data or None,
            locations=[schema.ToolCallLocation(path=path) for path in paths],
        )
        answer = await self.client.request_permission(session_id=self.session.id, tool_call=about, options=options)
        outcome = answer.outcome
        chosen = getattr(outcome, "option_id", None)
        self.session.program.record("answer", session=self.session.id, choice=chosen)
        if chosen is None:
            raise Stop("cancelled")
        self.known["answer"] = chosen
        return str(chosen)

    async def call(self, tool: str, arguments: dict[str, Any], name: str = "result", server: str | None = None) -> Any:
        servers = self.session.servers
        call = f"call-{uuid4()}"
        await self._notice(call, f"mcp__{server or next(iter(servers), '?')}__{tool}", "other", (), "in_progress")
        failed, found = await servers[server or next(iter(servers))].call(tool, arguments)
        self.known[name] = found
        self.session.program.record("tool", session=self.session.id, tool=tool, failed=failed, answer=found)
        await self._update(acp.update_tool_call(call, status="failed" if failed else "completed"))
        return found

    async def usage(self, input: int | None = None, output: int | None = None, total_cost: float | None = None) -> None:
        if input is not None or output is not None:
            into, out = input or 0, output or 0
            self.spent = schema.Usage(input_tokens=into, output_tokens=out, total_tokens=into + out)
        if total_cost is not None:
            cost = schema.Cost(amount=total_cost, currency="USD")
            await self._update(schema.UsageUpdate(session_update="usage_update", used=100, size=1000, cost=cost))

    async def child(self, argv: list[str], session: bool = False) -> None:
        process = subprocess.Popen(argv, cwd=self.session.cwd, stdin=subprocess.DEVNULL, start_new_session=session)
        self.session.program.record("child", child=process.pid)

    async def hang(self, how: Any = True) -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if how != "deaf":
                    raise

    async def wait(self, path: str) -> None:
        await until(lambda: os.path.exists(path), f"{path} never came")

    async def _notice(self, call: str, title: str, kind: Any, paths: Any, status: Any, asked: Any = None) -> None:
        places = [schema.ToolCallLocation(path=path) for path in paths]
        begun = acp.start_tool_call(call, title, kind=kind, status=status, locations=places, raw_input=asked)
        await self._update(begun)

    async def _update(self, update: Any) -> None:
        await self.client.session_update(session_id=self.session.id, update=update)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\{([\w.]+)\}", self._known, value)
        if isinstance(value, list):
            return [self._filled(one) for one in value]
        if isinstance(value, dict):
            return {key: self._filled(one) for key, one in value.items()}
        return value

    def _known(self, match: re.Match[str]) -> str:
        name, *path = match[1].split(".")
        if name == "env":
            return os.environ.get(".".join(path), "")
        if name not in self.known:
            return match[0]
        value = self.known[name]
        for step in path:
            value = value[int(step)] if isinstance(value, list) else value[step]
        return value if isinstance(value, str) else json.dumps(value)


class Server:
    """An MCP server on stdio that this session was given: started at its first call, in one task of its own."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self._calls: asyncio.Queue[tuple[str, dict[str, Any], asyncio.Future[Any]] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def call(self, tool: str, arguments: dict[str, Any]) -> tuple[bool, Any]:
        if self._task is None:
            self._task = asyncio.create_task(self._serve())
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self._calls.put((tool, arguments, answer))
        done, _ = await asyncio.wait([answer, self._task], return_when=asyncio.FIRST_COMPLETED)
        if answer not in done:
            self._task.result()
            raise RuntimeError("the MCP server went away")
        result = answer.result()
        text = "".join(getattr(block, "text", "") for block in result.content[:1])
        try:
            return bool(result.is_error), json.loads(text)
        except ValueError:
            return bool(result.is_error), text

    async def close(self) -> None:
        if self._task is not None:
            await self._calls.put(None)
            await asyncio.wait([self._task], timeout=5)

    async def _serve(self) -> None:
        from mcp import ClientSession, StdioServerParameters, stdio_client

        given = self.given
        environment = {one.name: one.value for one in given.env}
        parameters = StdioServerParameters(command=given.command, args=list(given.args), env=environment)
        async with stdio_client(parameters) as (reading, writing), ClientSession(reading, writing) as client:
            await client.initialize()
            while (item := await self._calls.get()) is not None:
                tool, arguments, answer = item
                answer.set_result(await client.call_tool(tool, arguments))


async def until(condition: Any, otherwise: str) -> None:
    for _ in range(30_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise RequestError.internal_error({"details": otherwise})


async def _flood(turn: Turn, count: int, more: dict[str, Any]) -> None:
    for _ in range(count):
        await turn.say(more.get("text", "spam") + "\n")


async def _crash(turn: Turn, how: Any, _: dict[str, Any]) -> None:
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(int(how))


async def _error(turn: Turn, what: dict[str, Any], _: dict[str, Any]) -> None:
    raise RequestError(what.get("code", -32603), what.get("message", "Internal error"), what.get("data"))


async def _limit(turn: Turn, text: str, _: dict[str, Any]) -> None:
    raise RequestError(-32603, f"Internal error: {text}")


async def _stop(turn: Turn, reason: str, _: dict[str, Any]) -> None:
    raise Stop(reason)


async def _call(turn: Turn, tool: str, more: dict[str, Any]) -> None:
    await turn.call(tool, more.get("with", {}), more.get("as", "result"), more.get("server"))


async def _raw(turn: Turn, text: str, _: dict[str, Any]) -> None:
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()


async def _plainly(turn: Turn, name: str, value: Any) -> None:
    if name == "stderr":
        print(value, file=sys.stderr, flush=True)
    else:
        Path(value).touch()


_ACTIONS: dict[str, Any] = {
    "say": lambda turn, text, _: turn.say(text),
    "think": lambda turn, text, _: turn.think(text),
    "stderr": lambda turn, text, _: _plainly(turn, "stderr", text),
    "touch": lambda turn, path, _: _plainly(turn, "touch", path),
    "tool": lambda turn, about, _: turn.tool(**about),
    "write": lambda turn, about, _: turn.write(**about),
    "run": lambda turn, argv, _: turn.run(argv),
    "child": lambda turn, argv, more: turn.child(argv, more.get("session", False)),
    "call": _call,
    "usage": lambda turn, about, _: turn.usage(**about),
    "wait": lambda turn, path, _: turn.wait(path),
    "hang": lambda turn, how, _: turn.hang(how),
    "flood": _flood,
    "raw": _raw,
    "error": _error,
    "limit": _limit,
    "stop": _stop,
    "crash": _crash,
}


def _dumped(servers: Any) -> list[Any]:
    return [one.model_dump(by_alias=True, exclude_none=True) for one in servers or []]


def main() -> None:
    file = Path(sys.argv[1])
    play = None
    script: dict[str, Any] = {}
    if file.suffix == ".py":
        spec = importlib.util.spec_from_file_location("script", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        play, script = module.play, getattr(module, "SCRIPT", {})
    else:
        script = json.loads(file.read_text(encoding="utf-8"))
    asyncio.run(acp.run_agent(Program(script, play), use_unstable_protocol=True))
    gc.freeze()  # Python's last looks for garbage take longer than most turns.


if __name__ == "__main__":
    main()
