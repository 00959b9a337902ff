"""What a program within a run says over HTTP: `from_a_run.py DIRECTORY`. Each request of `asked.json` is made in turn,
and `answered.json` gets the status and the body of each answer."""

from __future__ import annotations

import http.client
import json
import os
import sys
from pathlib import Path
from typing import Any


def over_mcp(asked: dict[str, Any], sent: dict[str, str], call: dict[str, Any]) -> list[Any]:
    """The status and the answer of a call of a tool at /mcp."""
    session: dict[str, str] = {}
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    documents: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    for document in documents:
        connection = http.client.HTTPConnection(asked["host"], asked["port"], timeout=60)
        accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        body = json.dumps({"jsonrpc": "2.0", **document})
        connection.request("POST", "/mcp", body, {**sent, **accept, **session})
        answer = connection.getresponse()
        said = answer.read().decode()
        session |= {"mcp-session-id": answer.headers["mcp-session-id"] or ""}
        connection.close()
        if answer.status >= 400:
            return [answer.status, said]
    lines = [line.removeprefix("data:") for line in said.splitlines() if line.startswith("data:")] or [said]
    return [answer.status, json.loads(lines[-1])["result"]["content"][0]["text"]]


def main(place: Path) -> None:
    asked = json.loads((place / "asked.json").read_text())
    found = {}
    for name, (method, path, headers, body) in asked["requests"].items():
        if method == "MCP":
            found[name] = over_mcp(asked, headers, body)
            continue
        connection = http.client.HTTPConnection(asked["host"], asked["port"], timeout=60)
        sent = {**headers, "content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        found[name] = [answer.status, answer.read().decode()]
        connection.close()
    (place / "new.json").write_text(json.dumps(found))
    os.rename(place / "new.json", place / "answered.json")


def alone() -> None:
    """Leave everything: environment, session and parents."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)


if "daemon" in sys.argv:
    alone()
main(Path(sys.argv[1]))
