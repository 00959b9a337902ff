"""A program that waits for its provider by itself is told of, with until when, and is left to it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from interlock.clock import seconds
from tests.agents.acting import acp_command
from tests.behaviours.driving import Place

pytestmark = pytest.mark.long

RETRY = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10, "error_status": 429}
TOLD = {"jsonrpc": "2.0", "method": "_claude/sdkMessage", "params": {"sessionId": "{session}"}}


@pytest.mark.parametrize(
    ("said", "after"),
    [
        ({"stderr": "Attempt 1 failed with status 429. Retrying with backoff... "}, None),
        ({"stderr": "Attempt 1 failed with status 429. Retrying after 400s"}, 400),
        (
            {
                "raw": json.dumps(
                    TOLD | {"params": {"sessionId": "{session}", "message": {**RETRY, "retry_delay_ms": 400_000}}}
                )
            },
            400,
        ),
    ],
)
def test_waiting_inside_the_program_is_an_event_with_until_when(
    place: Place, said: dict[str, Any], after: float | None
) -> None:
    done = [{"call": "task_complete", "with": {"task_id": "{task}", "summary": "done"}}]
    profile = f"[patient]\nacp = {json.dumps(acp_command(place.path, turns=[[said, *done]]))}\n"
    profile += "[[patient.limits]]\npattern = '429'\nafter = 60\n"
    (place.path / "home").mkdir(exist_ok=True)
    (place.path / "home" / "agents.toml").write_text(profile)
    began = time.time()
    place.stage({"one": {"subject": "Do it", "retries": 0}}, {"ada": {"agent": "patient"}})
    place.drive()
    assert place.states() == {"one": "done"}
    (event,) = [one for one in place.team.events()[0] if one.type == "run.waiting"]
    assert "429" in event.payload["reason"]
    until = event.payload["retry_at"]
    assert (until is None) == (after is None)
    assert until is None or began + 400 <= seconds(until) <= time.time() + 401
    (notice,) = [text for _, kind, text in place.said if kind == "notice" and "waits for its provider" in text]
    assert ("until not known when" in notice) == (after is None)
