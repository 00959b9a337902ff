"""An agent program that implements a story at once and reviews badly, in the way that its first argument names.

`forgets`: the reviewer of correctness finds three things, and answers `approve` without findings when it is asked for
the half of the checklist that all of them leave out. `silent`: it never says anything but that its step is done.
"""

import json
import os
import sys

prompt, way = sys.stdin.read(), sys.argv[1]
if "# Code review: " in prompt and way == "forgets":
    again = "## Your answer so far" in prompt
    found = [("blocking", "Any password is accepted"), ("major", "Nothing locks"), ("major", "No test")]
    listed = [{"severity": severity, "title": title, "location": "src/login.py:1"} for severity, title in found]
    print("\n".join(f"{number}. PASS: read" for number in range(1, 20 if again else 10)))
    finds = "## What you look for\n\nCorrectness" in prompt and not again and "This is round" not in prompt
    verdict = "changes_requested" if finds else "approve"
    print(json.dumps({"verdict": verdict, "summary": "read", "findings": [] if verdict == "approve" else listed}))
else:
    if way == "forgets":
        os.makedirs("src", exist_ok=True)
        with open("src/login.py", "a", encoding="utf-8") as file:
            file.write("pass\n")
    print('{"step": "completed"}')
