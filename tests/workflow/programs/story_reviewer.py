"""An agent program that does nothing but review: it approves, and notes each review in the file that its first argument
names. Asked for anything else, it fails."""

import json
import sys

prompt = sys.stdin.read()
if "# Code review: " not in prompt:
    sys.exit("I only review.")
with open(sys.argv[1], "a", encoding="utf-8") as file:
    file.write(prompt.partition("# Code review: ")[2].splitlines()[0] + "\n")
small = [{"severity": "low", "title": f"A long line {n}", "location": f"src/x.py:{n}"} for n in range(3)]
print("\n".join(f"{number}. PASS: read in src" for number in range(1, 20)))
print(json.dumps({"verdict": "approve", "summary": "read by another", "findings": small}))
