"""While a workflow is at work, the status files of its project are watched, and what changes is in the team's history.

Background work: nothing that goes wrong here stops the run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from math import inf

import anyio
import anyio.to_thread

from interlock.core.unit_of_work import Workspace
from interlock.errors import InterlockError
from interlock.workflow.state import status_file
from interlock.workflow.state.file_changes import watching
from interlock.workflow.state.sprint_status_watcher import SprintStatusWatcher
from interlock.workflow.state.status_events import StatusEvents

LAST = 5.0  # seconds for what is still to be written when the run ends


@asynccontextmanager
async def watched(workspace: Workspace, project: str, config: dict[str, object]) -> AsyncIterator[None]:
    """Watch the status files of `project`, which its `config` places, while the block runs."""
    events = StatusEvents(workspace)
    paths = status_file.paths(project, config)
    send, receive = anyio.create_memory_object_stream[Callable[[], None]](inf)
    written = anyio.Event()

    async def write() -> None:
        async with receive:
            async for one in receive:
                try:
                    await anyio.to_thread.run_sync(one)
                except InterlockError:
                    continue  # The ledger is busy or gone; the run itself will say so.
        written.set()

    failed: Exception | None = None
    async with send, watching(paths) as source, anyio.create_task_group() as group:
        watcher = SprintStatusWatcher(
            paths,
            source,
            lambda changes: send.send_nowait(partial(events.changed, changes)),
            lambda found: send.send_nowait(partial(events.cycling, found)),
        )
        group.start_soon(write)
        group.start_soon(watcher.run)
        try:
            yield
        except Exception as error:  # boundary: raised again below, not wrapped in a group
            failed = error
        finally:
            watcher.look()  # What changed at the very end.
            send.close()
            with anyio.move_on_after(LAST, shield=True):
                await written.wait()
            group.cancel_scope.cancel()
    if failed is not None:
        raise failed
