"""What subagents say, so that everybody sees who said it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType

import anyio

from interlock.agents.session import Opening, Update
from interlock.errors import StorageError
from interlock.processes.output import Output
from interlock.workflow.agents.watch import Watch


class Told:
    """What one turn says, under its label: to the run's log, and as notices, so that nobody takes it for the run's own
    agent. What it cost passes as it is."""

    def __init__(self, opening: Opening, on_update: Callable[[Update], None], label: str, watch: Watch) -> None:
        self._opening = opening
        self._on_update = on_update
        self._label = label
        self._watch = watch
        self._log: Output | None = None

    def __enter__(self) -> Told:
        opening = self._opening
        try:
            self._log = Output(log=opening.log, secrets=opening.secrets, limit=0)
        except StorageError:
            pass  # The run's own agent says so; a subagent works without.
        return self

    def __exit__(
        self, type: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._log is not None:
            self._log.finish(_nobody)

    def hear(self, update: Update) -> None:
        """One update of its session."""
        self._watch.hear(update, anyio.current_time())
        tell, label = self._on_update, self._label
        if update.kind == "usage":
            tell(update)
        elif update.kind == "tool":
            data: Mapping[str, object] = {**update.data, "id": f"{label}/{update.data.get('id', '')}"}
            tell(Update("tool", f"[{label}] {update.text}", data))
        else:
            for line in update.text.splitlines():
                tell(Update("thought" if update.kind == "thought" else "notice", f"[{label}] {line}"))
                if self._log is not None and update.kind == "text":
                    self._log.feed(f"[{label}] {line}\n".encode("utf-8", "replace"), _nobody)


def _nobody(line: str) -> None:
    """The lines were told already."""
