"""A relay between acplint 0.1.0 and an agent: `python acplint_dialect.py PROGRAM ARGUMENT…`.

acplint checks how an agent behaves, but writes some names otherwise than the published schema of the protocol, by which
clients and the official libraries go (`acp.schema`; `test_acplint.py` holds this list against it):

    protocolVersion     a string, where the schema has a number
    session/prompt      the blocks under `content`, where the schema has `prompt`
    session/update      `agentMessageChunk`, where the schema has `agent_message_chunk`
    plan                nested under `plan`, where the schema has its `entries` in the update
    permissions         `description`, options with `id`, `label`, where the schema has `toolCall`, `optionId`, `name`

The relay changes these names and nothing else, so that what acplint finds is about the agent.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from typing import Any, BinaryIO

Message = dict[str, Any]


def to_agent(message: Message) -> Message:
    """What acplint says, as the schema writes it."""
    params = message.get("params") or {}
    if message.get("method") == "initialize":
        params["protocolVersion"] = int(params["protocolVersion"])
    if message.get("method") == "session/prompt":
        params["prompt"] = params.pop("content")
    outcome = (message.get("result") or {}).get("outcome")
    if outcome is not None:
        message["result"]["outcome"] = {"outcome": "selected", "optionId": outcome["optionId"]}
    return message


def to_acplint(message: Message) -> Message:
    """What the agent says, as acplint writes it."""
    result, params = message.get("result") or {}, message.get("params") or {}
    if "protocolVersion" in result:
        result["protocolVersion"] = str(result["protocolVersion"])
    if message.get("method") == "session/update":
        update = params["update"]
        name = update["sessionUpdate"]
        update["sessionUpdate"] = re.sub("_([a-z])", lambda found: found[1].upper(), name)
        if name == "plan":
            update["plan"] = {"entries": update.pop("entries")}
    if message.get("method") == "session/request_permission":
        params["description"] = params["toolCall"]["title"]
        params["options"] = [{"id": one["optionId"], "label": one["name"]} for one in params["options"]]
    return message


def relay(source: BinaryIO, target: BinaryIO, change: Any) -> None:
    """Pass messages on until there are no more."""
    for line in source:
        target.write(json.dumps(change(json.loads(line))).encode() + b"\n")
        target.flush()
    target.close()


def main() -> int:
    """Relay both ways until the agent ends."""
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin is not None and agent.stdout is not None
        threading.Thread(target=relay, args=(sys.stdin.buffer, agent.stdin, to_agent), daemon=True).start()
        relay(agent.stdout, sys.stdout.buffer, to_acplint)
        return agent.wait()


if __name__ == "__main__":
    sys.exit(main())
