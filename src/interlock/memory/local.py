"""Memory on this machine: one SQLite file with full-text search, for all projects of a home. Works out of the box.

Any number of processes may use it at once. It is not the truth of anything: a damaged file costs what was learned, and
raises `MemoryUnavailable` like any memory that cannot be reached.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from interlock.clock import iso
from interlock.memory.store import (
    RECALL_SECONDS,
    UNAVAILABLE,
    Condition,
    Memory,
    MemoryUnavailable,
    RecallResult,
    fit,
    fitted,
    terms,
)
from interlock.storage.files import locked_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.clock import Clock

FILE = "memory.db"
PATIENCE = 5.0
STEP = 1000  # instructions of SQLite between looks at the clock
SCHEMA = """
CREATE TABLE IF NOT EXISTS memories (
    n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, content TEXT NOT NULL,
    importance INTEGER NOT NULL, keywords TEXT NOT NULL, tags TEXT NOT NULL, project_id TEXT, created_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS memories_project ON memories (project_id, n);
CREATE VIRTUAL TABLE IF NOT EXISTS memory_text USING fts5(title, content, keywords, tokenize = 'porter unicode61');
CREATE TABLE IF NOT EXISTS memory_links (
    id TEXT NOT NULL REFERENCES memories (id), related TEXT NOT NULL REFERENCES memories (id), PRIMARY KEY (id, related)
) WITHOUT ROWID;
"""
COLUMNS = (
    "m.id, m.title, m.content, m.importance, m.keywords, m.tags, m.project_id, m.created_at, "
    "(SELECT json_group_array(related) FROM memory_links l WHERE l.id = m.id)"
)


class LocalMemory:
    """See `memory.MemoryStore`. `directory` is the home's."""

    def __init__(self, directory: str, clock: Clock) -> None:
        self.path = os.path.join(directory, FILE)
        self._clock = clock
        self._mutex = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def recall(
        self,
        query: str,
        *,
        project_id: str | None = None,
        tags: Sequence[str] = (),
        limit: int = 20,
        time_limit: float = RECALL_SECONDS,
    ) -> RecallResult:
        """See `memory.MemoryStore.recall`."""
        asked = terms(query)
        where, values = ["(m.project_id IS NULL OR m.project_id = ?)"], [project_id]  # type: list[str], list[Any]
        for tag in tags:
            where.append("EXISTS (SELECT 1 FROM json_each(m.tags) WHERE value = ?)")
            values.append(tag)
        if asked:
            source = "memory_text JOIN memories m ON m.n = memory_text.rowid"
            where.insert(0, "memory_text MATCH ?")
            values.insert(0, " OR ".join(f'"{term}"' for term in asked))
            order, score = "bm25(memory_text, 4.0, 1.0, 2.0), m.n DESC", "bm25(memory_text, 4.0, 1.0, 2.0)"
        else:
            source, order, score = "memories m", "m.n DESC", "0"
        sql = f"SELECT {COLUMNS}, {score} FROM {source} WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?"
        if not os.path.exists(self.path):
            return RecallResult(())
        with self._mutex:
            rows = self._run(sql, (*values, limit), time_limit)
        return RecallResult(tuple(_memory(row, asked) for row in rows))

    def remember(self, memory: Memory) -> Memory:
        """See `memory.MemoryStore.remember`."""
        kept = fitted(memory)
        with self._mutex:
            try:
                connection = self._open()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    found = self._known(connection, kept) or self._insert(connection, kept)
                    connection.execute("COMMIT")
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                return found
            except (sqlite3.Error, OSError) as error:
                raise self._unavailable(error) from error

    def link(self, id: str, related: Sequence[str]) -> None:
        """See `memory.MemoryStore.link`."""
        pairs = [pair for one in related if one != id for pair in ((id, one), (one, id))]
        with self._mutex:
            try:
                connection = self._open()
                connection.execute("BEGIN IMMEDIATE")
                for pair in pairs:
                    connection.execute(
                        "INSERT OR IGNORE INTO memory_links SELECT a.id, b.id FROM memories a, memories b "
                        "WHERE a.id = ? AND b.id = ?",
                        pair,
                    )
                connection.execute("COMMIT")
            except (sqlite3.Error, OSError) as error:
                if self._connection is not None and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise self._unavailable(error) from error

    def flush(self, seconds: float = 0.0, *, again: bool = False) -> int:
        """Nothing ever waits for it."""
        return 0

    def described(self) -> Condition:
        """See `memory.MemoryStore.described`."""
        return Condition("local", self.path)

    def condition(self) -> Condition:
        """See `memory.MemoryStore.condition`."""
        try:
            self.recall("", limit=1)
        except MemoryUnavailable as error:
            return Condition("local", self.path, UNAVAILABLE, problem=error.message)
        return self.described()

    def close(self) -> None:
        """Give the connection back."""
        with self._mutex:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _known(self, connection: sqlite3.Connection, memory: Memory) -> Memory | None:
        row = connection.execute(
            f"SELECT {COLUMNS}, 0 FROM memories m WHERE m.project_id IS ? AND m.content = ? AND m.tags = ? LIMIT 1",
            (memory.project_id, memory.content, json.dumps(memory.tags, ensure_ascii=False)),
        ).fetchone()
        return None if row is None else _memory(row, [])

    def _insert(self, connection: sqlite3.Connection, memory: Memory) -> Memory:
        id, at = memory.id or self._clock.new_id(), memory.created_at or iso(self._clock.now())
        keywords, tags = (json.dumps(words, ensure_ascii=False) for words in (memory.keywords, memory.tags))
        done = connection.execute(
            "INSERT INTO memories (id, title, content, importance, keywords, tags, project_id, created_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (id, memory.title, memory.content, memory.importance, keywords, tags, memory.project_id, at),
        )
        connection.execute(
            "INSERT INTO memory_text (rowid, title, content, keywords) VALUES (?, ?, ?, ?)",
            (done.lastrowid, memory.title, memory.content, " ".join(memory.keywords)),
        )
        return Memory(
            memory.title, memory.content, memory.importance, memory.keywords, memory.tags, memory.project_id, at, id
        )

    def _run(self, sql: str, values: tuple[Any, ...], time_limit: float) -> list[tuple[Any, ...]]:
        end = time.monotonic() + time_limit
        try:
            connection = self._open()
            connection.set_progress_handler(lambda: time.monotonic() > end, STEP)
            try:
                return connection.execute(sql, values).fetchall()
            finally:
                connection.set_progress_handler(None, STEP)
        except (sqlite3.Error, OSError) as error:
            raise self._unavailable(error) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            # Made by us, so that nobody else may ever read it.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            made = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            try:
                # While another makes the file SQLite answers "locked" at once, without patience.
                with locked_directory(os.path.dirname(self.path)):
                    made.execute("PRAGMA journal_mode=WAL")
                    made.executescript(SCHEMA)
            except BaseException:
                made.close()
                raise
            self._connection = made
        return self._connection

    def _unavailable(self, error: Exception) -> MemoryUnavailable:
        return MemoryUnavailable(
            f"Memory in {self.path} cannot be used: {error}. Work goes on without it; move it away to start anew.",
            path=self.path,
        )


def _memory(row: tuple[Any, ...], asked: list[str]) -> Memory:
    id, title, content, importance, keywords, tags, project, at, links, _ = row
    found = Memory(
        title, content, importance, tuple(json.loads(keywords)), tuple(json.loads(tags)), project, at, id,
        linked=tuple(json.loads(links)),
    )  # fmt: skip
    return replace(found, relevance=fit(asked, found)) if asked else found
