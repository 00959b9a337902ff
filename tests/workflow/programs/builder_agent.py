"""An agent program that makes an agent file in the builder's workflow, fixes it, and validates: one prompt, one turn.

As the validator of the persona it finds something until the file says that it was fixed; as that of the menu it says
nothing that can be read the first time. Who validates tells when: a file with its label is there while it is at work.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable

MADE = "_bmad-output/creations/poet/poet.agent.yaml"
AT_WORK = os.environ["AT_WORK"]
prompt = sys.stdin.read()
found = re.search(r"^# Validation (\w+): ", prompt, re.MULTILINE)


def first_time(label: str) -> bool:
    try:
        os.close(os.open(os.path.join(AT_WORK, f"{label}.began"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def until(met: Callable[[], bool], seconds: float) -> bool:
    latest = time.monotonic() + seconds
    while not met():
        if time.monotonic() > latest:
            return False
        time.sleep(0.02)
    return True


if found:
    label = found[1]
    again = not first_time(label)
    # The first time all six are waited for, so that it is seen whether they are there together.
    if not again and until(lambda: sum(name.endswith(".began") for name in os.listdir(AT_WORK)) == 6, 60):
        os.close(os.open(os.path.join(AT_WORK, f"{label}.met"), os.O_CREAT))
    with open(MADE, encoding="utf-8") as file:
        fixed = "fixed" in file.read()
    if label == "08d" and not again:
        print("Nice weather.")
    elif label == "08c" and not fixed:
        fault = {
            "severity": "major",
            "field": "persona.role",
            "expected": "a role",
            "actual": "vague",
            "remediation": "x",
        }
        print(json.dumps({"status": "issues", "findings": [fault]}))
    else:
        print(json.dumps({"status": "passed", "findings": []}))
else:
    if "# Step 7a: " in prompt or "asks for changes" in prompt:
        os.makedirs(os.path.dirname(MADE), exist_ok=True)
        with open(MADE, "w", encoding="utf-8") as file:
            file.write(os.environ["AGENT"] + ("# fixed\n" if "asks for changes" in prompt else ""))
    print("Written.")
    print('{"step": "completed"}')
