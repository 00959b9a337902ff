"""What `acp_program.py` plays in the short night:  python acp_program.py short_player.py NIGHT.json

It is loaded in the agent's own process, which finds nothing of ours but what stands in that file.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

NIGHT = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
SCRIPT = {"state": NIGHT["sessions"], "record": NIGHT["record"]}


async def play(turn: Any, prompt: str) -> None:
    """One prompt, by the task that it is about."""
    found = re.search(r"^# (\w+): .* \((TASK-[\d-]+)\)$", prompt, re.MULTILINE)
    if found is None:
        await turn.say("noted")
        return
    key, task = found.groups()
    marks = Path(NIGHT["marks"])
    if key == "publish":
        await turn.call("ask_human", {"question": NIGHT["question"], "task_id": task})
        await turn.say("I have asked.")
        return
    if key == "div" and _first(marks / "limited"):
        await turn.do([{"limit": NIGHT["limit"]}])
    if key == "power" and _first(marks / "begun"):
        await turn.write("tally/power.py", "half of it")
        await turn.child(["sleep", "600"], session=True)
        (marks / "in mid-turn").touch()
        await turn.hang()
    if key == "mul":
        await _finish(turn, task, NIGHT["false"])
    await _finish(turn, task, NIGHT["work"][key])
    await turn.say("That was all.")


async def _finish(turn: Any, task: str, work: dict[str, str]) -> None:
    """Write it, and say that it is done."""
    for path, text in work.items():
        await turn.write(path, text)
    await turn.call("task_complete", {"task_id": task, "summary": NIGHT["lie"]})


def _first(mark: Path) -> bool:
    """Whether nobody was here before."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
