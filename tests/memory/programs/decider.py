"""An agent program that decides, learns, and where FAIL is set fails its second step once; it keeps what it was told in
the file PROMPTS. One prompt on stdin, one turn on stdout."""

import json
import os
import re
import sys

prompt = sys.stdin.read()
with open(os.environ["PROMPTS"], "a") as file:
    file.write(f"{prompt}\n=====\n")
steps = re.findall(r"^# Step ([\w.-]+): (.*)$", prompt, re.MULTILINE)
number = steps[0][0] if steps else "?"
now = prompt.rpartition("\n## Now\n")[2] if "\n## Now\n" in prompt else ""
os.makedirs("_bmad-output", exist_ok=True)
with open("_bmad-output/plan.md", "a") as file:
    file.write(f"## Part {number}\n")
closing: dict[str, object] = {"step": "completed"}
said = f"Part {number} is written."
if "validation failed" in now:
    said, closing["verdict"] = "Added a section called Scope to the plan.", "PASSED"
elif number == "2" and os.environ.get("FAIL"):
    closing |= {"verdict": "FAILED", "issues": ["there is no scope in it"]}
elif number == "1":
    orders = "Chose PostgreSQL over MongoDB for the orders, because they need transactions"
    closing["learned"] = [
        {"kind": "architecture", "text": orders, "importance": 10},
        "Used retry with exponential backoff for the payment provider",
    ]
print(said)
print(json.dumps(closing))
