"""An agent program that implements a story, fixes what a review found, and reviews: one prompt in, one turn out.

As a reviewer it wants one thing fixed in the first round and approves after it.
"""

import json
import os
import re
import sys

prompt = sys.stdin.read()
code = os.environ.get("CODE", "src/login.py")


def issue(severity: str, title: str, line: int) -> dict[str, str]:
    return {"severity": severity, "title": title, "location": f"{code}:{line}", "fix": "say what it does"}


if "# Code review: " in prompt:
    grave = [] if "This is round" in prompt else [issue("high", "Any password is accepted", 1)]
    small = [issue("low", title, line) for line, title in enumerate(("A short name", "No comment", "No type"), 2)]
    print("\n".join(f"{number}. PASS: read in {code}" for number in range(1, 20)))
    listed = re.findall(r"^- (F\d+), blocking: ", prompt, re.MULTILINE)
    earlier = [{"finding": id, "verdict": "fixed", "why": f"{code}:2"} for id in listed]
    print(json.dumps({"verdict": "", "summary": "read", "findings": [*grave, *small], "earlier": earlier}))
else:
    with open(code, "a", encoding="utf-8") as file:
        file.write("# fixed\n" if "asks for changes" in prompt else "def sign_in(password): return True\n")
    print("Written.")
    print('{"step": "completed"}')
