"""An agent program that plans, implements and reviews stories: one prompt in, one turn out.

Arguments name stories that go wrong: `asks:KEY` needs a person until it gets an answer, `empty:KEY` says that it is
done and writes nothing, `breaks:KEY` breaks the project's check until it is told, `clashes:KEY` changes a line that
another story changes as well, and leaves the conflict until it is told, `marks:KEY` does so until it is told twice,
`gap:KEY` halts at an intent gap and leaves its attempt as a patch, `follow:KEY` recommends a follow-up review. Like
real ones it also writes the status file, which is not its business.
"""

import json
import os
import re
import subprocess
import sys

prompt = sys.stdin.read()
wrong = dict(one.split(":", 1)[::-1] for one in sys.argv[1:])
OUT = "_bmad-output/implementation-artifacts"


def value(name: str) -> str:
    found = re.findall(rf"^- {name}: (\S+)$", prompt, re.MULTILINE)
    return found[-1] if found else ""


def put(path: str, text: str, mode: str = "w") -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, mode, encoding="utf-8") as file:
        file.write(text)


def get(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def end(**closing: object) -> None:
    print(closing.get("reason", "This turn is over."))
    print(json.dumps(closing))
    sys.exit()


key, answered = value("story"), "The first one" in prompt
if "# Code review: " in prompt or ("reviewer" in prompt[:2000].lower() and "# Workflow" not in prompt[:200]):
    small = [{"severity": "low", "title": f"A short name {n}", "location": f"src/x.py:{n}"} for n in range(3)]
    print("\n".join(f"{number}. PASS: read in src" for number in range(1, 20)))
    print(json.dumps({"verdict": "approve", "summary": "read", "findings": small}))
    sys.exit()
if wrong.get(key) == "asks" and not answered:
    end(step="blocked", reason="Which of the two layouts is meant?")
if "retrospective" in key:
    status = get(f"{OUT}/sprint-status.yaml") if os.path.exists(f"{OUT}/sprint-status.yaml") else ""
    put(f"{OUT}/{key}.md", f"# Retrospective\n\nIt went well.\n\n## Statuses\n\n{status or None}\n")
    if wrong.get(key) == "notes":
        status = status.replace("2-1-sun: backlog", "2-1-sun: done")
        put(f"{OUT}/sprint-status.yaml", f"{status}action_items:\n- Water earlier\n")
    end(step="completed")
step = (re.findall(r"^# Step ([\w.-]+):", prompt, re.MULTILINE) or ["?"])[-1]
if key.startswith("deferred-"):
    record = f"{OUT}/spec-{key}.md"
    put("src/log.py", f"LOG = []  # {len(prompt)}\n")
    put(record, "---\nstatus: done\n---\n# Fix\n\n## Auto Run Result\n\nThe log is shorter.\n")
    end(step="completed", evidence=["python -m unittest: 3 passed"])
if value("story_id"):
    record = f"{value('spec_folder')}/stories/{value('story_id')}-made.md"
    if step == "1" and wrong.get(key) == "halts" and not answered:
        put(record, "---\nstatus: blocked\n---\n# Made\n\n## Auto Run Result\n\nBlocking condition: unclear intent\n")
        end(step="finished")
    if step == "1" and wrong.get(key) == "stops" and not answered and "follow the workflow from" not in prompt:
        put(record, "---\nstatus: blocked\n---\n# Made\n\n## Auto Run Result\n\nBlocking condition: unclear intent\n")
        end(step="blocked", reason="Which of the two layouts is meant?")
    if wrong.get(key) == "gap":
        patch, head = f"{OUT}/{key}.patch", "---\nstatus: {}\n---\n# Made\n\n## Auto Run Result\n\n{}\n"
        if "that reading was right" in prompt:
            put(f"src/{key}.py", get(patch))
            put(record, head.format("done", "The patch was applied."))
            end(step="completed", evidence=["python -m unittest: 3 passed"])
        put(patch, f"NAME = {key!r}\n")
        told = f"Blocking condition: intent gap\n\nBeds were read as raised beds; the attempt is in {patch}."
        put(record, head.format("blocked", told))
        end(step="finished")
    if "call it a shop" in prompt and step != "1":
        put(f"src/{key}.py", "NAME = 'shop'\n")
        end(step="completed", evidence=["python -m unittest: 3 passed"])
    if key.endswith("-plan") and "call it a market" in prompt:
        put(record, f"{get(record)}\nA market.\n")
        end(step="completed")
    if step in ("1", "2"):
        base = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        put(
            record,
            f"---\nstatus: ready-for-dev\nbaseline_revision: {base}\n---\n# Made\n\n"
            "## Tasks & Acceptance\n\n- [ ] Do\n",
        )
        if step == "2" and f"story id {value('story_id')}. Halt after planning." in prompt:
            end(step="finished")
    elif step == "3" and wrong.get(key) != "empty":
        put(f"src/{key}.py", f"NAME = {key!r}\n")
        put(record, get(record).replace("ready-for-dev", "in-review").replace("[ ]", "[x]"))
    else:
        if "asks for changes" in prompt:
            put(f"src/{key}.py", f"NAME = {key!r}\n")
        found = "deferred:\n  - summary: The log is too long\n    location: src/log.py:3\n    severity: low\n"
        text = get(record).replace("[ ]", "[x]")
        found += "followup_review_recommended: true\n" if wrong.get(key) == "follow" else ""
        text = re.sub(r"status: [\w-]+\n", f"status: done\n{'' if 'deferred' in text else found}", text, count=1)
        put(record, text if "Auto Run" in text else f"{text}\n## Auto Run Result\n\nA file was written.\n")
    end(step="completed", evidence=["python -m unittest: 3 passed"])
story = f"{OUT}/{key}.md"
if "create-story" in prompt[:300]:
    parts = ("# Story", "Status: ready-for-dev", "## Acceptance Criteria", "1. It is there", "## Tasks / Subtasks")
    put(story, "\n\n".join([*parts, "- [ ] Write it (AC: 1)", "## Dev Agent Record", "### File List", ""]))
elif wrong.get(key) != "empty":
    broken = wrong.get(key) == "breaks" and "asks for changes" not in prompt
    put(f"src/{key}.py", "NAME = (\n" if broken else f"NAME = {key!r}\n")
    if wrong.get(key) in ("clashes", "marks"):
        told = "asks for changes" in prompt
        if wrong[key] != "marks" or not told or "still hold conflict markers" in prompt:
            put("src/log.md", "LOG = ['all of them']\n" if told else f"LOG = [{key!r}]\n")
        put(story, get(story).rstrip() + "\n- src/log.md\n" if "src/log.md" not in get(story) else get(story))
    done = get(story).replace("- [ ]", "- [x]").replace("ready-for-dev", "review")
    put(story, done if f"src/{key}.py" in done else done.rstrip() + f"\n\n- src/{key}.py\n")
put(f"{OUT}/sprint-status.yaml", get(f"{OUT}/sprint-status.yaml").replace(f"{key}: backlog", f"{key}: review"))
end(step="completed", evidence=["python -m unittest: 3 passed"])
