"""The program of an agent in the night elsewhere:  python elsewhere_player.py NIGHT.json

It knows nothing of Interlock but what its prompt says, and works in the directory that it is started in. What goes
wrong with a task goes wrong once, in its order.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """One prompt."""
    night: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    (key,) = set(re.findall(r"^# (\w+): .* \(TASK-[\d-]+\)$", sys.stdin.read(), re.MULTILINE))
    if key == night["impossible"]:
        print(json.dumps({"status": "AWAITING_RESPONSE", "output": night["question"]}))
        return
    made = Path("parts", f"{key}.py")
    match _misfortune(night, key):
        case "crash":
            made.write_text("half of")
            os.kill(os.getpid(), signal.SIGKILL)
        case "half":
            made.write_text("NUMBER = 0\n")
        case "lie" | "silent":
            pass
        case _:
            made.write_text(night["tasks"][key]["text"])
            if key in night["crossed"]:
                shared = Path("parts", "crossed.txt")
                known = shared.read_text().split() if shared.exists() else []
                lines = {key, *(one for one in known if one in night["crossed"])}  # Without the marks of a conflict.
                shared.write_text("".join(f"{one}\n" for one in sorted(lines)))
    print("All is written, and all tests pass.")


def _misfortune(night: dict[str, Any], key: str) -> str | None:
    """The next one of that task that has not happened yet."""
    for number, name in enumerate(night["tasks"][key]["misfortunes"]):
        try:
            Path(night["marks"], f"{key}-{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return str(name)
    return None


if __name__ == "__main__":
    main()
