"""An agent program without a model: it reads a project's own settings, as Claude Code does, runs the hooks in them and
starts the MCP server. What it is to do comes as lines of JSON on stdin; each is answered by one on stdout.

Like Claude Code it first asks the server for the protocol of 2026, and begins with `initialize` where that is refused.
Notifications are kept until they are asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys


class Server:
    """Its MCP server, started when first needed."""

    def __init__(self) -> None:
        with open(".mcp.json", encoding="utf-8") as file:
            entry = json.load(file)["mcpServers"]["interlock"]
        self.process = subprocess.Popen(
            [entry["command"], *entry["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.number = 0
        self.heard: list[dict[str, object]] = []
        client = {"name": "window", "version": "1"}
        place = "io.modelcontextprotocol/"
        self.meta = {
            f"{place}protocolVersion": "2026-07-28", f"{place}clientInfo": client, f"{place}clientCapabilities": {}
        }  # fmt: skip
        found = self.ask("server/discover", {})
        self.modern = "capabilities" in found
        if not self.modern:
            self.meta = {}
            begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
            found = self.ask("initialize", begin)
            self.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.capabilities = found["capabilities"]

    def tell(self, message: dict[str, object]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, parameters: dict[str, object]) -> dict[str, object]:
        self.number += 1
        if self.meta:
            parameters = {**parameters, "_meta": self.meta}
        self.tell({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})
        while (answer := self.next()).get("id") != self.number:
            self.heard.append(answer)
        return answer.get("result", answer.get("error"))

    def next(self) -> dict[str, object]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EOFError("the MCP server is gone")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def hook(event: str, fields: dict[str, object]) -> list[object]:
    """Run the hooks of that event; what each of ours answered."""
    with open(".claude/settings.local.json", encoding="utf-8") as file:
        groups = json.load(file)["hooks"].get(event, [])
    given = json.dumps({"hook_event_name": event, "cwd": os.getcwd(), **fields})
    found = []
    for command in [one["command"] for group in groups for one in group["hooks"] if "interlock" in one["command"]]:
        ran = subprocess.run(command, shell=True, input=given, capture_output=True, text=True, check=False)
        found.append([ran.returncode, ran.stdout, ran.stderr])
    return found


def main() -> None:
    if "INTERLOCK_RUN_TOKEN" in os.environ:  # The program of a run: not every one passes on what it was given.
        for name in ("TEAM", "MEMBER", "SESSION", "RUN_TOKEN"):
            del os.environ[f"INTERLOCK_{name}"]
    server: Server | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "hook":
            answer: object = hook(asked["event"], asked["fields"])
        elif asked["do"] == "shell":
            ran = subprocess.run(asked["command"], shell=True, capture_output=True, text=True, check=False)
            answer = [ran.returncode, ran.stdout, ran.stderr]
        elif asked["do"] == "connect":
            server = server or Server()
            answer = {"modern": server.modern, "capabilities": server.capabilities}
        elif asked["do"] == "tell":
            assert server is not None
            answer = server.tell({"jsonrpc": "2.0", "method": asked["method"], "params": asked["params"]})
        elif asked["do"] == "notice":
            assert server is not None
            answer = server.heard.pop(0) if server.heard else server.next()
        else:
            server = server or Server()
            answer = server.ask("tools/call", {"name": asked["tool"], "arguments": asked["arguments"]})
        print(json.dumps(answer), flush=True)
    if server is not None:
        server.close()


main()
