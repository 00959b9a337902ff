"""What Interlock costs an agent that the runner drives: tokens at its model's endpoint, over a task of three requests.

Each program of npm that is installed (`make programs`) does one task with a scripted model: a look at its directory,
`task_complete`, and the last word; Codex looks for our tools first, in a fourth request. Counted is what is Interlock's
own in each request body, at four bytes a token: tools, instructions, prompts and results. All of it travels again with
every request.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from bench.measure import Row, at_most
from scripts import pinned
from tests.agents.endpoint import SEARCH, Endpoint, Move, Seen, call, say
from tests.agents.real import enter
from tests.behaviours.driving import Place

BYTES_PER_TOKEN = 4
GOAL = 2500
SUMMARY = "notes are written"
LOOKS = {
    "claude": call("Bash", command="ls", description="a look"),
    "codex": call("exec_command", cmd="ls"),
    "gemini": call("list_directory", dir_path="."),
    "opencode": call("glob", pattern="*"),
}


def run() -> list[Row]:
    """One task by each agent that is installed."""
    rows = []
    for name in filter(pinned.is_there, LOOKS):
        each = tokens(name)
        rows.append(Row(f"tokens of the first request, {name}", each[0], unit="tokens"))
        rows.append(
            Row(f"tokens of a task of {len(each)} requests, {name}", sum(each), None, (at_most(GOAL),), "tokens")
        )
    return rows


def tokens(name: str) -> list[float]:
    """What each request of one task costs."""
    return [sum(len(piece.encode()) for piece in ours(body)) / BYTES_PER_TOKEN for body in requests(name)]


def requests(name: str) -> list[dict[str, Any]]:
    """The bodies of the requests that one task takes, in order."""

    def model(seen: Seen) -> Move:
        return [LOOKS[name], call("task_complete", summary=SUMMARY), say("that was all")][min(seen.spoken, 2)]

    with (
        tempfile.TemporaryDirectory(prefix="il-", dir="/tmp") as directory,
        pytest.MonkeyPatch.context() as patch,
        Endpoint(bob=model) as endpoint,
    ):
        place = Place(Path(directory))
        enter(patch, place.path / "user", name, endpoint, "bob")
        # Left to itself, Gemini CLI asks another model first which one to take.
        member = {"agent": name, **({"model": "gemini-2.5-pro"} if name == "gemini" else {})}
        place.stage({"notes": {"subject": "Write the notes", "retries": 0}}, {"bob": member})
        place.drive()
        if place.task("notes").output != SUMMARY:
            raise RuntimeError(f"{name} did not do its task: {place.log('notes')[-2000:]}")
        return [seen.body for seen in endpoint.seen]


def ours(body: dict[str, Any]) -> Iterator[str]:
    """What of a request is Interlock's: whole descriptions of tools, and each text that speaks of us or of the task."""
    sought = (item["tools"] for item in body.get("input", []) if item.get("type") == f"{SEARCH}_output")
    for tool in chain(body["tools"], *sought):
        for one in tool.get("functionDeclarations", [tool]):
            if "interlock" in str(one.get("function", one).get("name")):
                yield json.dumps(one, ensure_ascii=False, separators=(",", ":"))
    for text in texts(body):
        if "interlock" in text or "TASK-" in text:
            yield text


def texts(part: Any) -> Iterator[str]:
    """Every text in it, but tools and what the model itself has said."""
    if isinstance(part, dict):
        if part.get("role") not in ("assistant", "model") and part.get("type") != "function_call":
            yield from texts([one for name, one in part.items() if name != "tools"])
    elif isinstance(part, list):
        for one in part:
            yield from texts(one)
    elif isinstance(part, str):
        yield part
