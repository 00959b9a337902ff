"""The source of changes for the watcher that watches real files, by the operating system's own notices (watchfiles).

Directories are watched, not files: an editor or an agent puts a new file in the place of the old one. A directory that
does not exist yet is found by looking again every few seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
from watchfiles import Change, awatch

STEP = 100  # ms in which the operating system's notices are gathered
LOOK = 5.0  # seconds between looks for directories that are new


class FileChanges:
    """See `sprint_status_watcher.Source`. Made by `watching`."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = frozenset(os.path.realpath(path) for path in paths)
        self._folders = sorted({os.path.dirname(path) for path in self._paths})
        self._send, self._receive = anyio.create_memory_object_stream[frozenset[str]](100)
        self._stop = anyio.Event()

    def now(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()

    async def changes(self, timeout: float) -> frozenset[str] | None:
        """See `sprint_status_watcher.Source.changes`."""
        found: frozenset[str] | None = frozenset()
        with anyio.move_on_after(timeout):
            try:
                found = await self._receive.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                return None
        return found

    def end(self) -> None:
        """Let the watching end."""
        self._stop.set()
        self._send.close()
        self._receive.close()

    async def feed(self) -> None:
        """Hear of changes until `end`."""
        try:
            while not self._stop.is_set():
                here = [folder for folder in self._folders if os.path.isdir(folder)]
                if not here:
                    with anyio.move_on_after(LOOK):
                        await self._stop.wait()
                    continue
                await self._watch(here)
        finally:
            self._send.close()

    async def _watch(self, folders: list[str]) -> None:
        """Watch these directories until another one appears, or one of them goes."""
        await self._tell(frozenset(self._paths))  # What happened before we watched.
        try:
            await self._hear(folders)
        except (OSError, RuntimeError):
            # No more watches, or a file system without them: whoever listens looks every few seconds anyway.
            with anyio.move_on_after(LOOK):
                await self._stop.wait()

    async def _hear(self, folders: list[str]) -> None:
        watched = awatch(
            *folders, watch_filter=self._ours, step=STEP, debounce=STEP, recursive=False, stop_event=self._stop,
            rust_timeout=int(LOOK * 1000), yield_on_timeout=True,
        )  # fmt: skip
        async for heard in watched:
            if heard:
                await self._tell(frozenset(path for _, path in heard))
            if folders != [folder for folder in self._folders if os.path.isdir(folder)]:
                return

    async def _tell(self, paths: frozenset[str]) -> None:
        try:
            self._send.send_nowait(paths)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # Whoever listens has a hundred to look at already, and looks at the files; or nobody does any more.

    def _ours(self, change: Change, path: str) -> bool:
        return os.path.realpath(path) in self._paths


@asynccontextmanager
async def watching(paths: Sequence[str]) -> AsyncIterator[FileChanges]:
    """Changes of those files, heard of while the block runs."""
    source = FileChanges(paths)
    async with anyio.create_task_group() as group:
        group.start_soon(source.feed)
        try:
            yield source
        finally:
            source.end()
            group.cancel_scope.cancel()
