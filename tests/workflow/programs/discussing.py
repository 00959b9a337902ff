"""An agent program whose first step stalls until it was advised, and that plays each voice it is asked to be."""

import os
import sys

os.makedirs("_bmad-output", exist_ok=True)

prompt = sys.stdin.read()
if prompt.startswith("You are "):
    who = prompt.split(",")[0].removeprefix("You are ")
    print(f"{who} has looked at it: the plan names no users.")
    print('{"recommendation": "Add a section for the users", "position": "add users", "confidence": 85}')
elif "# Step 1: " in prompt and "Add a section for the users" not in prompt.rpartition("\n## Now\n")[2]:
    print('{"step": "completed", "verdict": "FAILED", "issues": ["no users"]}')
else:
    with open("_bmad-output/plan.md", "a", encoding="utf-8") as file:
        file.write("## A part\n")
    print('{"step": "completed", "verdict": "PASSED"}')
