"""What a session has used, by its program's own accounting: the files in which it keeps its sessions.

Most programs tell a client over ACP little or nothing of what they used, and none of a turn that was interrupted. Their
own files say it, request by request. Only those of the one session are read, found by its id, and only what is new in
them since the last look. What cannot be found or understood is unknown, never zero.
"""

from __future__ import annotations

import glob
import json
import os
import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, NamedTuple, cast

import anyio
import anyio.to_thread

from interlock.model.json import Json

_ID = re.compile(r"[A-Za-z0-9_-]{8,100}")
LOOKS, LOOK_AGAIN = 20, 0.05
_LINE_BYTES = 16_777_216  # a longer line is skipped


class TokenCount(NamedTuple):
    """Tokens of a session since its beginning; `input` holds what came from a cache. `records` is by how many entries
    of its program that is known."""

    input: int
    output: int
    records: int


class Accounting:
    """Reads what the session `id` of a program has used; `kind` is one of `KINDS`."""

    def __init__(self, kind: str, environment: Mapping[str, str], id: str) -> None:
        self._kind = kind
        self._environment = environment
        self._id = id
        self._offsets: dict[str, int] = {}
        self._known: dict[str, tuple[int, int]] = {}
        self._last: dict[str, tuple[int, int]] = {}

    def read(self) -> TokenCount | None:
        """What was used so far; None where that is not known (yet)."""
        if not _ID.fullmatch(self._id):
            return None
        if self._kind == "opencode":
            return _of_opencode(os.path.join(self._home("XDG_DATA_HOME", ".local/share"), "opencode"), self._id)
        try:
            for path in self._paths():
                self._read(path)
        except OSError:
            pass  # What was read before still holds.
        if not self._offsets:
            return None
        totals = self._known.values()
        return TokenCount(sum(one for one, _ in totals), sum(one for _, one in totals), len(totals))

    def _paths(self) -> list[str]:
        id = self._id
        match self._kind:
            case "claude":
                projects = os.path.join(glob.escape(self._home("CLAUDE_CONFIG_DIR", ".claude")), "projects", "*")
                return glob.glob(f"{projects}/{id}.jsonl") + glob.glob(f"{projects}/{id}/subagents/*.jsonl")
            case "codex":
                sessions = os.path.join(glob.escape(self._home("CODEX_HOME", ".codex")), "sessions")
                return list(self._offsets) or glob.glob(f"{sessions}/*/*/*/rollout-*-{id}.jsonl")
            case _:
                chats = os.path.join(glob.escape(self._home("GEMINI_CLI_HOME", "")), ".gemini", "tmp", "*", "chats")
                return [path for path in glob.glob(f"{chats}/session-*-{id[:8]}.jsonl") if self._is_ours(path)]

    def _home(self, variable: str, otherwise: str) -> str:
        home = self._environment.get("HOME") or os.path.expanduser("~")
        return self._environment.get(variable) or os.path.join(home, otherwise)

    def _is_ours(self, path: str) -> bool:
        if path in self._offsets:
            return True
        with open(path, "rb") as file:
            about = _object(file.readline(_LINE_BYTES))
        return about.get("sessionId") == self._id

    def _read(self, path: str) -> None:
        with open(path, "rb") as file:
            file.seek(self._offsets.get(path, 0))
            self._offsets.setdefault(path, 0)
            while True:
                line = file.readline(_LINE_BYTES)
                if not line.endswith(b"\n") and len(line) < _LINE_BYTES:
                    return  # It is being written, or there is no more.
                self._offsets[path] = file.tell()
                self._count(path, _object(line))

    def _count(self, path: str, entry: Mapping[str, Any]) -> None:
        match self._kind:
            case "claude":
                message = _part(entry, "message")
                usage = _part(message, "usage")
                if entry.get("type") == "assistant" and usage:
                    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
                    # The parts of an answer are entries of their own, each with the usage of the whole so far.
                    self._note(str(message.get("id")), _sum(usage, *names), _sum(usage, "output_tokens"))
            case "codex":
                total = _part(_part(_part(entry, "payload"), "info"), "total_token_usage")
                if total:
                    self._grow(path, _sum(total, "input_tokens"), _sum(total, "output_tokens"))
            case _:
                more = _part(entry, "$set").get("messages")
                for message in (entry, *(more if isinstance(more, list) else ())):
                    tokens = _part(message, "tokens")
                    if tokens:
                        said = _sum(tokens, "output", "thoughts")
                        self._note(str(message.get("id")), max(_sum(tokens, "total") - said, 0), said)

    def _note(self, key: str, sent: int, got: int) -> None:
        before = self._known.get(key, (0, 0))
        self._known[key] = max(before[0], sent), max(before[1], got)

    def _grow(self, path: str, sent: int, got: int) -> None:
        """A running total, which is told again unchanged, and may begin at zero again."""
        last = self._last.get(path, (0, 0))
        begins = sent < last[0] or got < last[1]
        self._last[path] = sent, got
        if begins or (sent, got) != last:
            base = (0, 0) if begins else last
            self._known[f"{path}:{len(self._known)}"] = sent - base[0], got - base[1]


class Usage:
    """What one session uses, turn by turn: by its program's `accounting`, by what it tells over ACP, or unknown."""

    def __init__(self, accounting: Callable[[str], Accounting] | None) -> None:
        self.requests = 0
        """How many requests of its model the turn has had, at most."""
        self._accounting = accounting
        self._account: Accounting | None = None
        self._counted = self._began = TokenCount(0, 0, 0)
        self._told: TokenCount | None = None

    @property
    def kept(self) -> bool:
        """Whether its program keeps account of it, also in the middle of a turn."""
        return self._account is not None

    async def begin(self, id: str, *, resumed: bool) -> None:
        """The session is open; what an earlier life of it has used counts no more."""
        if self._accounting is not None:
            self._account = self._accounting(id)
            if resumed:
                before: TokenCount | None = await anyio.to_thread.run_sync(self._account.read)
                self._counted = before or self._counted

    def turn_begins(self) -> None:
        """A prompt is put to it."""
        self.requests, self._told, self._began = 0, None, self._counted

    def told(self, usage: Any, meta: Mapping[str, Any] | None) -> None:
        """What the agent says at the end of a turn: in the protocol's own field, or in Gemini CLI's."""
        if usage is not None:
            cached = (usage.cached_read_tokens or 0) + (usage.cached_write_tokens or 0)
            self._told = TokenCount(usage.input_tokens + cached, usage.output_tokens, 0)
            return
        count = _part(_part(meta, "quota"), "token_count")
        if count:
            self._told = TokenCount(_sum(count, "input_tokens"), _sum(count, "output_tokens"), 0)

    async def so_far(self) -> dict[str, int]:
        """The tokens since the last look; empty where nobody knows."""
        return self._since(None if self._account is None else await anyio.to_thread.run_sync(self._account.read))

    async def of_turn(self) -> dict[str, int]:
        """The same at the end of a turn. The files of a program may lag behind what it says."""
        found: TokenCount | None = None
        for _ in range(LOOKS if self._account is not None else 0):
            found = await anyio.to_thread.run_sync(cast(Accounting, self._account).read)
            complete = found is not None and found.records >= self._began.records + self.requests
            if complete or self._told is not None or not self.requests:
                break
            await anyio.sleep(LOOK_AGAIN)
        return self._since(found)

    def _since(self, found: TokenCount | None) -> dict[str, int]:
        if found is None and self._told is None:
            return {}
        before, told, began = self._counted, self._told or TokenCount(0, 0, 0), self._began
        found = found or before
        self._counted = now = TokenCount(
            max(before.input, found.input, began.input + told.input),
            max(before.output, found.output, began.output + told.output),
            found.records,
        )
        return {"input_tokens": now.input - before.input, "output_tokens": now.output - before.output}


KINDS = ("claude", "codex", "gemini", "opencode")


def _of_opencode(directory: str, id: str) -> TokenCount | None:
    """Its sessions are rows, those of its subagents below that of the session."""
    path = os.path.join(directory, "opencode.db")
    if not os.path.exists(path):
        return None
    address = f"file:{path.replace('?', '%3f').replace('#', '%23')}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=1.0)) as connection:
            found = connection.execute(
                "WITH RECURSIVE mine(id) AS (SELECT id FROM session WHERE id = ? UNION SELECT s.id FROM session s JOIN "
                "mine ON s.parent_id = mine.id) SELECT count(*), sum(tokens_input + tokens_cache_read + "
                "tokens_cache_write), sum(tokens_output + tokens_reasoning) FROM session "
                "WHERE id IN (SELECT id FROM mine)",
                (id,),
            ).fetchone()
    except sqlite3.Error:
        return None
    return TokenCount(int(found[1]), int(found[2]), 0) if found[0] else None


def _object(line: bytes) -> Json:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _part(about: object, name: str) -> Mapping[str, Any]:
    found = about.get(name) if isinstance(about, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _sum(about: Mapping[str, Any], *names: str) -> int:
    values = [about.get(name) for name in names]
    return sum(value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0)
