"""A script for the ACP program of the tests: works through a workflow by the tools of its run, and says nothing that
could be read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SCRIPT = {"state": "acp-sessions"}


async def play(turn: Any, prompt: str) -> None:
    root = Path(turn.session.cwd)
    plan, kept, tools = root / "_bmad-output" / "plan.md", root / ".step", root / ".tools"
    step = re.search(r"^# Step (\d+): ", prompt, re.MULTILINE)
    if step:
        kept.write_text(step[1])
    await turn.say("Voilà. Et maintenant ?")
    if prompt.startswith("C\n") or "final step" in prompt:
        before = plan.read_text() if plan.exists() else ""
        await turn.write("_bmad-output/plan.md", f"{before}## Step {kept.read_text()}\n")
        called = await turn.call("step_done", {"outputs": ["_bmad-output/plan.md"], "evidence": ["wc: one more line"]})
    else:
        called = await turn.call("choose", {"menu": ["A: Advanced Elicitation", "P: Party Mode", "C: Continue"]})
    with tools.open("a") as file:
        file.write(json.dumps(called) + "\n")
