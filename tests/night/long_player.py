"""What `acp_program.py` plays in the long night:  python acp_program.py long_player.py NIGHT.json

It is loaded in the agent's own process. What goes wrong with a task goes wrong once, in its order.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

NIGHT = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
SCRIPT = {"state": NIGHT["sessions"], "record": NIGHT["record"]}


async def play(turn: Any, prompt: str) -> None:
    """One prompt, by the task that it is about."""
    # What comes later in a session, such as the findings of a check, is about the task that was named last.
    found = re.findall(r"^# (\w+): .* \((TASK-[\d-]+)\)$", "\n".join(turn.session.prompts), re.MULTILINE)
    key, task = found[-1]
    path, text = f"parts/{key}.py", NIGHT["tasks"][key]["text"]
    if key == NIGHT["impossible"]:
        await turn.call("ask_human", {"question": NIGHT["question"], "task_id": task})
        await turn.say("I have asked.")
        return
    match _misfortune(key):
        case "crash":
            await turn.write(path, "half of")
            await turn.child(["sleep", "600"], session=True)
            os.kill(os.getpid(), signal.SIGKILL)
        case "limit":
            await turn.do([{"limit": "You've hit your usage limit. Try again in 1 second."}])
        case "lie":
            await turn.call("task_complete", {"task_id": task, "summary": "All is written, and all tests pass."})
        case "silent":
            await turn.say("That was all.")
            return
        case "half":
            await turn.write(path, "NUMBER = 0\n")
            await turn.call("task_complete", {"task_id": task, "summary": "Nearly."})
            return
    await turn.write(path, text)
    if key in NIGHT["crossed"]:
        shared = Path(turn.session.cwd, "parts", "crossed.txt")
        known = shared.read_text().split() if shared.exists() else []
        lines = {key, *(one for one in known if one in NIGHT["crossed"])}  # Without the marks of a conflict.
        await turn.write("parts/crossed.txt", "".join(f"{one}\n" for one in sorted(lines)))
    await turn.call("task_complete", {"task_id": task, "summary": "Its test is green."})
    await turn.say("That was all.")


def _misfortune(key: str) -> str | None:
    """The next one of that task that has not happened yet."""
    for number, name in enumerate(NIGHT["tasks"][key]["misfortunes"]):
        mark = Path(NIGHT["marks"], f"{key}-{number}")
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            continue
        return str(name)
    return None
