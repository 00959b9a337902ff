"""What the mail tools cost: two durable commits where they hand something over, one elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from tests.behaviours.costs import Costs
from tests.surfaces.mcp.harness import connected

pytestmark = pytest.mark.anyio
INBOX = "inbox/bob/messages.jsonl"


@pytest.mark.parametrize(("tool", "arguments"), [("read_inbox", {}), ("poll_inbox", {"timeout_ms": 5000})])
async def test_a_tool_that_hands_mail_over_costs_two_commits(
    home: Home, team: Team, tool: str, arguments: dict[str, Any]
) -> None:
    costs = Costs(team.directory)
    async with connected(home.path, "bob") as bob:
        await bob.ask("read_inbox")
        with costs.watched() as sent:
            await bob.ask("send_message", recipient="ada", content="Look")
        assert (sent.commits, sent.files) == (1, {"inbox/ada/messages.jsonl"})
        team.send("ada", to="bob", content="Seen")
        with costs.watched() as read:
            assert len((await bob.ask(tool, **arguments))["messages"]) == 1
            # The delivery is committed once the answer was written, so perhaps not yet.
            await bob.ask("task_list")
        assert (read.commits, read.files) == (2, {INBOX})
    costs.close()
