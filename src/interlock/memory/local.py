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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from interlock.clock import Clock, iso
from interlock.memory.store import (
    Condition,
    Memory,
    MemoryQuery,
    MemoryStore,
    MemoryUnavailable,
    RecallResult,
    fit,
    fitted,
    terms,
)
from interlock.storage.files import locked_directory

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


class LocalMemory(MemoryStore):
    """`directory` is the home's."""

    def __init__(self, directory: str, clock: Clock) -> None:
        self.path = os.path.join(directory, FILE)
        self._clock = clock
        self._mutex = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def search(self, query: MemoryQuery) -> RecallResult:
        asked = terms(query.text)
        where, values = ["(m.project_id IS NULL OR m.project_id = ?)"], [query.project_id]  # type: list[str], list[Any]
        for tag in query.tags:
            where.append("EXISTS (SELECT 1 FROM json_each(m.tags) WHERE value = ?)")
            values.append(tag)
        source, order = "memories m", "m.n DESC"
        if asked:
            source = "memory_text JOIN memories m ON m.n = memory_text.rowid"
            where.insert(0, "memory_text MATCH ?")
            values.insert(0, " OR ".join(f'"{term}"' for term in asked))
            order = "bm25(memory_text, 4.0, 1.0, 2.0), m.n DESC"
        sql = f"SELECT {COLUMNS} FROM {source} WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?"
        if not os.path.exists(self.path):
            return RecallResult(())
        end = time.monotonic() + query.time_limit
        with self._used() as connection:
            connection.set_progress_handler(lambda: time.monotonic() > end, STEP)
            try:
                rows = connection.execute(sql, (*values, query.limit)).fetchall()
            finally:
                connection.set_progress_handler(None, STEP)
        found = (_memory(row) for row in rows)
        return RecallResult(tuple(replace(one, relevance=fit(asked, one)) for one in found))

    def remember(self, memory: Memory) -> Memory:
        kept = fitted(memory)
        keywords, tags = (json.dumps(words, ensure_ascii=False) for words in (kept.keywords, kept.tags))
        with self._used() as connection, _transaction(connection):
            known = connection.execute(
                f"SELECT {COLUMNS} FROM memories m WHERE m.project_id IS ? AND m.content = ? AND m.tags = ? LIMIT 1",
                (kept.project_id, kept.content, tags),
            ).fetchone()
            if known is not None:
                return _memory(known)
            id, at = kept.id or self._clock.new_id(), kept.created_at or iso(self._clock.now())
            done = connection.execute(
                "INSERT INTO memories (id, title, content, importance, keywords, tags, project_id, created_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (id, kept.title, kept.content, kept.importance, keywords, tags, kept.project_id, at),
            )
            connection.execute(
                "INSERT INTO memory_text (rowid, title, content, keywords) VALUES (?, ?, ?, ?)",
                (done.lastrowid, kept.title, kept.content, " ".join(kept.keywords)),
            )
            return replace(kept, id=id, created_at=at, relevance=0.0, linked=())

    def link(self, id: str, related: Sequence[str]) -> None:
        pairs = [pair for one in related if one != id for pair in ((id, one), (one, id))]
        with self._used() as connection, _transaction(connection):
            connection.executemany(
                "INSERT OR IGNORE INTO memory_links SELECT a.id, b.id FROM memories a, memories b "
                "WHERE a.id = ? AND b.id = ?",
                pairs,
            )

    def described(self) -> Condition:
        return Condition("local", self.path)

    def close(self) -> None:
        with self._mutex:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        with self._mutex:
            try:
                yield self._open()
            except (sqlite3.Error, OSError) as error:
                raise MemoryUnavailable(
                    f"Memory in {self.path} cannot be used: {error}. Work continues without it; move it away to start "
                    "with an empty one.",
                    path=self.path,
                ) from error

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


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _memory(row: tuple[Any, ...]) -> Memory:
    id, title, content, importance, keywords, tags, project, at, links = row
    return Memory(
        title, content, importance, tuple(json.loads(keywords)), tuple(json.loads(tags)), project, at, id,
        linked=tuple(json.loads(links)),
    )  # fmt: skip
