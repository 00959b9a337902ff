"""An agent program that plays the author of a document: one prompt on stdin, one turn on stdout, no memory.

It shows the menu of each step, saves on C, and says how the step stands. `DOCUMENT` is where it writes, else the
document that the step names; with `SLOW` it waits that long before and after it has written, so that it can be killed
in between. Asked for changes, it adds a line.
"""

import os
import re
import select
import sys

prompt = sys.stdin.read()
named = re.search(r"^- changed: `([^`*]+)`", prompt, re.MULTILINE)
document = os.environ.get("DOCUMENT") or (named[1] if named else "_bmad-output/planning-artifacts/prd.md")
slow = float(os.environ.get("SLOW", "0"))
steps = re.findall(r"^# Step ([\w.-]+): (.*)$", prompt, re.MULTILINE)
number, title = steps[0] if steps else ("?", "?")
final = "final step" in prompt.lower() or "FINAL STEP" in prompt
# The answer is what stands after the step and what was said in it.
asked = prompt.rpartition("\n## Now\n")[2].strip() if "\n## Now\n" in prompt else ""
answer = asked.splitlines()[0].strip() if asked else ""


def save() -> None:
    select.select([], [], [], slow)
    os.makedirs(os.path.dirname(document) or ".", exist_ok=True)
    with open(document, "a", encoding="utf-8") as file:
        file.write(f"## Step {number}: {title}\n\nWritten for {number}.\n\n")
    select.select([], [], [], slow)


if "asks for changes" in prompt:
    with open(document, "a", encoding="utf-8") as file:
        file.write(f"It is a {'market' if 'a market' in prompt else 'shop'}.\n")
    print('{"step": "completed"}')
elif answer == "C" or answer.startswith("C ") or (final and not answer):
    save()
    print(f"Step {number} is saved.")
    print('{"step": "completed"}')
elif answer and answer not in "ACPX":
    print(f"I take that: {answer[:60]}")
    print("[C] Continue - Save this and move on")
    print('{"step": "waiting"}')
else:
    print(f"Here is my draft of step {number} ({title}).\n")
    print("**Select an Option:** [A] Advanced Elicitation [P] Party Mode [C] Continue")
    print('{"step": "waiting"}')
