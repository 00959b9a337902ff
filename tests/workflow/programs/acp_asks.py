"""A script for the ACP program of the tests: asks before it writes its document, and is done whatever the answer is."""

from __future__ import annotations

from pathlib import Path
from typing import Any


async def play(turn: Any, prompt: str) -> None:
    plan = Path(turn.session.cwd, "_bmad-output", "plan.md")
    answer = await turn.ask("Write plan.md", "edit", [str(plan)])
    if answer.startswith("reject"):
        Path(turn.session.cwd, "refused").write_text(answer)
    else:
        await turn.write("_bmad-output/plan.md", "## Step 1\n")
    await turn.say('Done.\n{"step": "completed"}')
