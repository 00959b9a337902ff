"""A script for the ACP program of the tests: does file work in the project, shows menus, keeps its session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SCRIPT = {"state": "acp-sessions"}


async def play(turn: Any, prompt: str) -> None:
    root = Path(turn.session.cwd)
    plan = root / "_bmad-output" / "plan.md"
    kept = root / ".step"
    step = re.search(r"^# Step (\d+): ", prompt, re.MULTILINE)
    if step:
        kept.write_text(step[1])
    if prompt.startswith("C\n") or "final step" in prompt:
        before = plan.read_text() if plan.exists() else ""
        await turn.write("_bmad-output/plan.md", f"{before}## Step {kept.read_text()}\n")
        await turn.say('Saved.\n{"step": "completed"}')
    else:
        await turn.say("Here is my draft.\n\n**Select an Option:** [A] Advanced Elicitation ")
        await turn.say('[P] Party Mode [C] Continue\n{"step": "waiting"}')
