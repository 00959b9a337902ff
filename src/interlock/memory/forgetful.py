"""Memory in a Forgetful MCP server (decision 41): its meta tool `execute_forgetful_tool` and the tools behind it.

A project is known by its name and gets an id there. What its schema lacks travels as tags: `type:…`, `workflow_id:…`.
Its query has no filter for tags, so those are looked for among what it finds, and then among the latest with that tag.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.memory.mcp_server import McpConnection
from interlock.memory.store import (
    UNAVAILABLE,
    Condition,
    Memory,
    MemoryQuery,
    MemoryStore,
    MemoryUnavailable,
    RecallResult,
    fit,
    fitted,
    shortened,
    terms,
)
from interlock.model.json import Json
from interlock.version import __version__

TOOL = "execute_forgetful_tool"
WRITE_SECONDS = 5.0
MOST, RECENT, LOOKED_AT = 20, 100, 500
"""Memories of one query, of one list, and of all lists of one question."""
QUERY_CHARS, CONTEXT_CHARS, KNOWN_CHARS = 2000, 500, 600
GENERAL = "interlock"
"""A keyword for a memory without any, which Forgetful would not have."""


class Forgetful(MemoryStore):
    """A Forgetful server. Of memories without a project those are found that are asked for without tags; the time
    limit of a query does not count the time that the server needs to start."""

    def __init__(self, server: McpConnection) -> None:
        self._server = server
        self._projects: dict[str, int] = {}
        self._mutex = threading.Lock()

    def search(self, query: MemoryQuery) -> RecallResult:
        self._server.start()
        end = time.monotonic() + query.time_limit
        project = self._project(query.project_id, end) if query.project_id is not None else None
        found: dict[str, Memory] = {}
        if query.text.strip() and (project is not None or query.project_id is None):
            found |= self._queried(query.text, project, query.project_id, end)
        if query.text.strip() and query.project_id is not None and not query.tags:
            found |= self._queried(query.text, None, None, end)
        wanted = [one for one in found.values() if set(query.tags) <= set(one.tags)]
        if not wanted and (query.tags or not query.text.strip()):
            wanted = self._latest(query, project, end)
        best = sorted(wanted, key=lambda one: -one.relevance)[: query.limit]
        return RecallResult(tuple(best), servers=("forgetful",))

    def remember(self, memory: Memory) -> Memory:
        kept = fitted(memory)
        self._server.start()
        end = time.monotonic() + WRITE_SECONDS
        project = None
        if kept.project_id is not None:
            project = self._project(kept.project_id, end, make=True)
        content = kept.content or kept.title
        known = self._queried(f"{kept.title}\n{content}"[:KNOWN_CHARS], project, kept.project_id, end).values()
        for one in known:
            if one.content == content and set(one.tags) == set(kept.tags):
                return one
        kind = kept.tagged("type") or "memory"
        where = kept.tagged("workflow_id") or kept.tagged("workflow")
        why = f"A {kind.replace('_', ' ')} of {kept.project_id or 'any project'}, kept by Interlock"
        made = self._execute(
            "create_memory",
            {
                "title": kept.title or shortened(content, 80), "content": content,
                "context": f"{why}{f' from the run {where}' if where else ''}."[:CONTEXT_CHARS],
                "keywords": list(kept.keywords) or [GENERAL], "tags": list(kept.tags), "importance": kept.importance,
                "project_ids": [] if project is None else [project],
                "encoding_agent": "interlock", "encoding_version": __version__,
            },
            end - time.monotonic(),
        )  # fmt: skip
        linked = made.get("linked_memory_ids")
        return replace(
            kept, content=content, id=str(_number(made, "id")), relevance=0.0,
            linked=tuple(map(str, linked)) if isinstance(linked, list) else (),
        )  # fmt: skip

    def link(self, id: str, related: Sequence[str]) -> None:
        numbers = [int(one) for one in related if one.isdigit() and one != id]
        if id.isdigit() and numbers:
            self._execute("link_memories", {"memory_id": int(id), "related_ids": numbers}, WRITE_SECONDS)

    def described(self) -> Condition:
        return Condition("forgetful", self._server.where)

    def condition(self) -> Condition:
        try:
            self._execute("get_recent_memories", {"limit": 1}, WRITE_SECONDS)
        except MemoryUnavailable as error:
            return Condition("forgetful", self._server.where, UNAVAILABLE, problem=error.message)
        return self.described()

    def close(self) -> None:
        self._server.close()

    def _queried(self, query: str, project: int | None, name: str | None, end: float) -> dict[str, Memory]:
        """What a query finds, by id. `project` None: among those of none."""
        arguments: Json = {
            "query": query[:QUERY_CHARS], "query_context": "Before and during work on a workflow", "k": MOST,
            "include_links": False,
        }  # fmt: skip
        if project is not None:
            arguments |= {"project_ids": [project], "strict_project_filter": True}
        answer = self._execute("query_memory", arguments, end - time.monotonic())
        scores = {
            str(one.get("memory_id")): max(0.0, min(100.0, round(100 * float(one["similarity"]), 1)))
            for one in _rows(answer.get("scores"))
            if isinstance(one.get("similarity"), (int, float))
        }
        rows = [one for one in _rows(answer.get("primary_memories")) if not one.get("is_obsolete")]
        rows = [one for one in rows if project is not None or not one.get("project_ids")]
        found = (_memory(row, name, scores.get(str(row.get("id")), 0.0)) for row in rows)
        return {one.id: one for one in found if one.id}

    def _latest(self, query: MemoryQuery, project: int | None, end: float) -> list[Memory]:
        """The latest with all the tags. The server takes any of several: the longest, which says most, is asked."""
        if query.project_id is not None and project is None:
            return []
        arguments: Json = {"limit": RECENT}
        if project is not None:
            arguments["project_ids"] = [project]
        if query.tags:
            arguments["tags"] = [max(query.tags, key=len)]
        asked, found = terms(query.text), list[Memory]()
        for offset in range(0, LOOKED_AT, RECENT):
            answer = self._execute("get_recent_memories", {**arguments, "offset": offset}, end - time.monotonic())
            rows = _rows(answer.get("memories"))
            for row in rows:
                one = _memory(row, query.project_id)
                own = project is not None or not row.get("project_ids")
                if own and query.fits(one):
                    found.append(replace(one, relevance=fit(asked, one)))
            if len(rows) < RECENT or len(found) >= query.limit:
                break
        return found

    def _project(self, name: str, end: float, *, make: bool = False) -> int | None:
        """The server's id of a project; made where it is asked for, else None where there is none."""
        with self._mutex:
            if name in self._projects:
                return self._projects[name]
            answer = self._execute("list_projects", {"name": name}, end - time.monotonic())
            # The filter takes parts of names. Of several of one name the first that was made counts, for everybody.
            known = [_number(one, "id") for one in _rows(answer.get("projects")) if one.get("name") == name]
            if known:
                self._projects[name] = min(known)
            elif make:
                about = {
                    "name": name[:500], "description": f"The project {name}, as Interlock works on it",
                    "project_type": "development",
                }  # fmt: skip
                self._projects[name] = _number(self._execute("create_project", about, end - time.monotonic()), "id")
            return self._projects.get(name)

    def _execute(self, tool: str, arguments: Mapping[str, Any], time_limit: float) -> Json:
        if time_limit <= 0:
            raise self._server.unavailable("it takes too long")
        answer = self._server.call(TOOL, {"tool_name": tool, "arguments": dict(arguments)}, time_limit)
        if not isinstance(answer, dict):
            raise self._server.unavailable(f"it answered {tool} with something else than an object")
        return answer


def _memory(row: Mapping[str, Any], project: str | None, relevance: float = 0.0) -> Memory:
    """A memory of the server's. One that is of no project there is of none here."""
    try:
        return Memory(
            str(row.get("title", "")), str(row.get("content", "")), int(row.get("importance", 7)),
            tuple(map(str, row.get("keywords") or ())), tuple(map(str, row.get("tags") or ())),
            project if row.get("project_ids") else None, _utc(str(row.get("created_at") or "")),
            str(row.get("id") or ""), relevance, tuple(map(str, row.get("linked_memory_ids") or ())),
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        raise MemoryUnavailable(f"Forgetful answered with a memory that cannot be read: {error}.") from error


def _utc(time: str) -> str:
    """A time of the server's, which leaves out that it is UTC."""
    return f"{time}Z" if len(time) >= 19 and time[10] == "T" and not time.endswith("Z") and "+" not in time else time


def _rows(value: object) -> Sequence[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _number(row: Mapping[str, Any], name: str) -> int:
    value = row.get(name)
    if not isinstance(value, int):
        raise MemoryUnavailable(f"Forgetful answered without {name}.")
    return value
