"""Memory as the home's verbs show it: how it is, what is in it, and what waits for it, seen from a project."""

from __future__ import annotations

import os

from interlock.errors import NotAvailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from interlock.memory.store import MemoryStore, OpenMemory
    from interlock.settings import Settings

SECONDS = 10.0


class LocalMemories:
    """See `client.Home`."""

    path: str
    open_memory: OpenMemory | None = None
    _settings: Settings

    def memory_status(self, directory: str | None = None) -> dict[str, Any]:
        from contextlib import closing

        place = _Place(directory)
        with closing(self._opened(place, [])) as memory:
            return {**memory.condition().as_dict(), "project": place.project}

    def memories(
        self, query: str = "", *, directory: str | None = None, project: str | None = None, limit: int = 20
    ) -> dict[str, Any]:
        from contextlib import closing

        place = _Place(directory)
        problems: list[str] = []
        with closing(self._opened(place, problems)) as memory:
            found = memory.recall(query, project_id=project or place.project, limit=limit, time_limit=SECONDS)
        return {
            "project": project or place.project, "source": found.source, "stale": found.stale,
            "memories": [one.as_dict() for one in found.memories], "problems": problems,
        }  # fmt: skip

    def flush_memory(self, directory: str | None = None) -> dict[str, Any]:
        from contextlib import closing

        from interlock.memory.store import MemoryUnavailable

        place = _Place(directory)
        done = 0
        with closing(self._opened(place, [])) as memory:
            try:
                # A batch at a time, as far as it goes.
                while more := memory.flush(SECONDS, again=True):
                    done += more
            except MemoryUnavailable:
                pass  # the condition says so
            return {**memory.condition().as_dict(), "project": place.project, "handed_over": done}

    def _opened(self, place: _Place, problems: list[str]) -> MemoryStore:
        if self.open_memory is None:
            raise NotAvailable("This home was opened without memory. Open it with `interlock.connect`.")
        return self.open_memory(
            self._settings, place.root, place.output, lambda reason, operation: problems.append(reason)
        )


class _Place:
    """The project at a directory: what it is called, and where its output goes."""

    def __init__(self, directory: str | None) -> None:
        from interlock.workflow.package import packages
        from interlock.workflow.state import files

        here = os.path.abspath(directory or os.getcwd())
        package = packages.find(here)
        self.root = package.root if package is not None else here
        configs = [package.config(module) for module in package.modules] if package is not None else []
        self.project = next(_set(configs, "project_name"), os.path.basename(self.root))
        folder = next(_set(configs, "output_folder"), "")
        self.output = files.output_folder(self.root, folder.replace("{project-root}/", ""))


def _set(configs: list[Any], name: str) -> Iterator[str]:
    from interlock.workflow.package.variables import is_set

    return (str(config[name]) for config in configs if is_set(config.get(name)))
