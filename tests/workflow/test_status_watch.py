"""While a workflow is at work the status files of its project are watched."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from interlock.workflow.state import status_file
from interlock.workflow.state.sprint_status_watcher import watched
from tests.behaviours.workflow_place import StatePlace


def test_what_changes_during_a_run_is_in_the_history_to_the_very_end(tmp_path: Path) -> None:
    place = StatePlace(tmp_path)
    path = place.project / "_bmad-output" / "sprint-status.yaml"
    path.parent.mkdir()
    path.write_text("development_status:\n  1-1-login: review # mine\n")

    async def work() -> None:
        async with watched(place.workspace, str(place.project), {}):
            await anyio.to_thread.run_sync(lambda: status_file.write(str(path), "1-1-login", "done", expected="review"))

    anyio.run(work)
    [event] = [one for one in place.team.events()[0] if one.type == "workflow.status_changed"]
    assert event.payload["changes"] == [
        {"path": str(path.resolve()), "key": "1-1-login", "before": "review", "after": "done"}
    ]
    place.close()


def test_what_the_run_raises_comes_out_as_it_is(tmp_path: Path) -> None:
    place = StatePlace(tmp_path)

    async def work() -> None:
        async with watched(place.workspace, str(place.project), {}):
            raise LookupError("the run's own")

    with pytest.raises(LookupError, match="the run's own"):
        anyio.run(work)
    place.close()
