"""An ACP agent that plans, implements and reviews stories, and misbehaves at a rate fixed beforehand.

    python epic_agent.py SETTINGS.json

The settings: `state` (a directory for what it counts and records), `seed`, `rate` (of misbehaving turns), `work`
(seconds that an honest turn takes) and `kinds` (how it misbehaves). It imports nothing of the program under test; what
it knows, it reads in its prompt and in its working directory, as any agent does. Which turns go wrong follows from the
seed, the story, the part it plays and how often it has played it, so that the order of the stories changes nothing.
"""

import hashlib
import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import threading

OUT = "_bmad-output/implementation-artifacts"
DONE = '{"step": "completed", "evidence": ["python -m unittest: 3 passed"]}'
STORY = re.compile(r"\b(\d+-\d+-[a-z]+(?:-[a-z]+)*)\b")
MAKER = ("lie", "stall", "contradict", "crash", "half", "ask")
ON_DEMAND = ("land", "revert")  # only where the settings name them
REVIEWER = ("silent", "stall", "approve", "crash", "invent", "contradict")

with open(sys.argv[1], encoding="utf-8") as file:
    SETTINGS = json.load(file)
STATE = SETTINGS["state"]


def get(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def put(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def head():
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()


class Work:
    """What is to be done about one prompt, and how far an honest agent gets with it."""

    def __init__(self, prompt, session):
        self.prompt = prompt
        # A new session knows nothing of the one before it: what it is not told, it cannot do.
        self.known = os.path.join(STATE, "known-" + hashlib.sha256(session.encode()).hexdigest()[:16] + ".json")
        memory = json.loads(get(self.known) or "{}")
        self.review = "# Code review: " in prompt or '"earlier"' in prompt
        for name in ("story", "spec_folder", "story_id"):
            found = re.findall(rf"^- {name}: (\S+)$", prompt, re.MULTILINE)
            if found:
                memory[name] = found[-1]
        skill = re.findall(r"^# Workflow /\S*?([\w-]+)$", prompt, re.MULTILINE)
        if skill and not self.review:
            memory["skill"] = {"create-story": "create"}.get(skill[-1], "dev")
        step = re.findall(r"^# Step ([\w.-]+):", prompt, re.MULTILINE)
        if step and not self.review:
            memory["step"] = step[-1]
            memory["due"] = due(prompt)
        put(self.known, json.dumps(memory))
        self.memory = memory
        self.key = memory.get("story", "")
        self.step = memory.get("step", "")
        if self.review and not self.key:
            found = re.findall(r"src/([\w-]+)\.py", prompt) + STORY.findall(prompt)
            self.key = next((one for one in found if one != "log"), "unknown")
        self.role = "review" if self.review else f"{memory.get('skill', '')}{self.step}"

    def turn(self):
        """How often this part was played before, counted on disk: a new process goes on counting."""
        path = os.path.join(STATE, f"count-{self.key}-{self.role}".replace("/", "_"))
        with open(path, "a+", encoding="utf-8") as file:
            file.write(".")
            return file.tell()

    def source(self, whole=True):
        body = f'NAME = "{self.key}"\n\n\ndef built():\n    return NAME\n'
        put(f"src/{self.key}.py", body if whole else body[: len(body) // 2])

    def honest(self):
        if self.review:
            return self.judge()
        if "retrospective" in self.key:
            put(f"{OUT}/{self.key}.md", f"# Retrospective {self.key}\n\nIt went well.\n\n## Next\n\nWater earlier.\n")
            if os.path.exists(f"src/{self.key}.py"):
                os.remove(f"src/{self.key}.py")
        elif self.memory.get("story_id"):
            self.build()
        elif self.memory.get("skill") == "create":
            self.plan()
        else:
            self.develop()
        for kind, subject, paths in self.memory.get("due", []):
            self.leave(kind, subject, [one.replace("*", self.key) for one in paths])
        return f"The work of step {self.step} is done.\n{DONE}"

    def record(self):
        return f"{self.memory['spec_folder']}/stories/{self.memory['story_id']}-made.md"

    def build(self):
        """6.12: the steps clarify, plan, implement and review of one unattended build."""
        path = self.record()
        text = get(path)
        if not text:
            text = (
                f"---\nstatus: ready-for-dev\nbaseline_revision: {head()}\n---\n# {self.key}\n\n"
                "## Tasks & Acceptance\n\n- [ ] Write it\n"
            )
        if self.step not in ("1", "2"):
            self.source()
            text = re.sub(r"^status: .*$", "status: in-review", text, count=1, flags=re.MULTILINE)
            text = text.replace("- [ ]", "- [x]")
        if self.step not in ("1", "2", "3"):
            text = text.replace("status: in-review", "status: done")
            if "deferred:" not in text:
                found = "deferred:\n  - summary: The log is too long\n    location: src/log.py:3\n    severity: low\n"
                text = text.replace("status: done\n", f"status: done\n{found}")
            if "## Auto Run Result" not in text:
                text += "\n## Auto Run Result\n\nThe file was written; its tests pass.\n"
        put(path, text)

    def plan(self):
        path = f"{OUT}/{self.key}.md"
        parts = ("# Story", "Status: ready-for-dev", "## Acceptance Criteria", "1. It is there", "## Tasks / Subtasks")
        tail = ["- [ ] Write it (AC: 1)", "## Dev Agent Record", "### File List", ""]
        if "## Tasks" not in get(path):
            put(path, "\n\n".join([*parts, *tail]))

    def develop(self):
        path = f"{OUT}/{self.key}.md"
        self.source()
        text = get(path).replace("- [ ]", "- [x]").replace("Status: ready-for-dev", "Status: review")
        unlisted = re.findall(r"not in the File List, but changed: (.+?)(?: \(|$)", self.prompt, re.MULTILINE)
        for one in [f"src/{self.key}.py", *(name for found in unlisted for name in found.split(", "))]:
            if f"- {one}\n" not in text:
                text = text.replace("### File List\n", f"### File List\n\n- {one}\n", 1)
        put(path, text)

    def judge(self):
        """A review: every item of the checklist, what is wrong, and a verdict on what was found before."""
        body = get(f"src/{self.key}.py")
        good = "return NAME" in body
        found = [
            {"severity": "low", "title": f"A name that says little, {n}", "location": f"src/{self.key}.py:{n}"}
            for n in range(1, 4)
        ]
        if not good:
            found.insert(0, {"severity": "high", "title": "The source is cut off", "location": f"src/{self.key}.py:3"})
        return self.verdict(found, "fixed" if good else "open")

    def verdict(self, found, earlier="fixed", items=40, block=True):
        listed = [
            {"finding": id, "verdict": earlier, "why": f"src/{self.key}.py:1"}
            for id in dict.fromkeys(re.findall(r"^(?:> )?- (F\d+), \w+: ", self.prompt, re.MULTILINE))
        ]
        grave = any(one["severity"] != "low" for one in found) or earlier == "open"
        told = "changes_requested" if grave else "approve"
        lines = "\n".join(f"{n}. PASS: read in src/{self.key}.py" for n in range(1, items))
        closing = {"verdict": told, "summary": "read", "findings": found, "earlier": listed}
        return f"{lines}\n\n```json\n{json.dumps(closing)}\n```" if block else lines

    def leave(self, kind, subject, paths):
        """What the step says it must leave, where the work above has not left it."""
        for path in paths[:1]:
            text = get(path)
            if kind in ("changed", "file"):
                put(path, f"{text}\nWritten for step {self.step}.\n" if f"step {self.step}." not in text else text)
            elif kind == "section" and f"## {subject}" not in text:
                put(path, f"{text}\n## {subject}\n\nContent.\n")

    def land(self):
        """Commit what there is, as skills of 6.12 do at their end, and note the commit."""
        git = ["git", "-c", "user.name=agent", "-c", "user.email=agent@localhost"]
        subprocess.run([*git, "add", "-A"], capture_output=True)
        subprocess.run([*git, "commit", "-qm", f"{self.key}, step {self.step}"], capture_output=True)
        with open(os.path.join(STATE, "landed"), "a", encoding="utf-8") as file:
            file.write(head() + "\n")

    def revert(self):
        """Put the status of every story back, in the worktree and in the project itself."""
        said = subprocess.run(["git", "worktree", "list", "--porcelain"], capture_output=True, text=True).stdout
        for root in (".", said.partition("\n")[0].removeprefix("worktree ")):
            path = os.path.join(root, OUT, "sprint-status.yaml")
            if get(path):
                put(path, re.sub(r"(\d-\d+-[\w-]+): \w+", r"\1: backlog", get(path)))

    def wrong(self, kind):
        """One misbehaviour: what is said, or None for nothing more ever."""
        if kind == "lie":
            status = get(f"{OUT}/sprint-status.yaml")  # Which is not its business.
            if status:
                put(f"{OUT}/sprint-status.yaml", re.sub(r"(\d-\d+-[\w-]+): \w+", r"\1: review", status))
            return f"Everything of step {self.step} is done, and all tests pass.\n{DONE}"
        if kind == "contradict":
            said = self.honest()
            return f"I could not finish this, it failed.\n{said}\nOn second thought it is not done.\n" + (
                '{"step": "waiting"}'
            )
        if kind == "revert":
            self.revert()
            return self.honest()
        if kind == "half":
            if not self.review and self.memory.get("skill") == "dev" and self.step not in ("1", "2"):
                self.source(whole=False)
            return f"Written.\n{DONE}"
        if kind == "ask":
            return 'Shall I go on with this step?\n{"step": "waiting"}'
        if kind == "silent":
            return "Looks good to me."
        if kind == "approve":
            return '{"verdict": "approve", "summary": "fine", "findings": []}'
        if kind == "invent":
            title = f"Invented problem {random.randint(1, 999)}"
            return self.verdict([{"severity": "high", "title": title, "location": f"src/{self.key}.py:1"}])
        if kind == "crash":
            if not self.review and self.memory.get("skill") == "dev" and self.step not in ("1", "2"):
                self.source(whole=False)
            os.kill(os.getpid(), signal.SIGKILL)
        return None


def due(prompt):
    """(kind, subject, paths) of each thing that the prompt says the step must leave."""
    _, begun, rest = prompt.partition("## What this step must leave\n\n")
    found = []
    for line in rest.split("\n\n")[0].splitlines() if begun else ():
        kind, _, said = line.removeprefix("- ").partition(": ")
        subject = where = said
        if kind == "section":
            subject, _, where = said.partition("` in ")
        paths = re.findall(r"`([^`]+)`", where)
        found.append((kind, subject.strip("`"), paths))
    return found


class Agent:
    """The protocol: one line of JSON each way."""

    def __init__(self):
        self.lock = threading.Lock()
        self.calls = queue.Queue()
        self.cancelled = threading.Event()
        self.sessions = {}

    def send(self, **message):
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def read(self):
        for line in sys.stdin:
            message = json.loads(line)
            if message.get("method") == "session/cancel":
                self.cancelled.set()
            else:
                self.calls.put(message)
        os._exit(0)

    def run(self):
        threading.Thread(target=self.read, daemon=True).start()
        while True:
            call = self.calls.get()
            method, params, id = call.get("method"), call.get("params") or {}, call.get("id")
            if id is None or method is None:
                continue
            if method == "initialize":
                info = {"name": "epic-agent", "version": "1"}
                result = {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": {"loadSession": False}}
            elif method == "session/new":
                session = f"s-{os.getpid()}-{len(self.sessions)}"
                self.sessions[session] = params["cwd"]
                result = {"sessionId": session}
            elif method == "session/prompt":
                result = {"stopReason": self.prompted(params)}
            else:
                self.send(id=id, error={"code": -32601, "message": f"no method {method}"})
                continue
            self.send(id=id, result=result)

    def say(self, session, text):
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        self.send(method="session/update", params={"sessionId": session, "update": update})

    def prompted(self, params):
        self.cancelled.clear()
        session = params["sessionId"]
        os.chdir(self.sessions[session])
        prompt = "".join(one.get("text", "") for one in params["prompt"])
        work = Work(prompt, session)
        turn = work.turn()
        chance = random.Random(f"{SETTINGS['seed']}:{work.key}:{work.role}:{turn}")
        bad = chance.random() < SETTINGS["rate"]
        can = REVIEWER if work.review else (*MAKER, *ON_DEMAND)
        kinds = [one for one in can if one in SETTINGS.get("kinds", REVIEWER + MAKER)]
        kind = chance.choice(kinds) if bad and kinds else "honest"
        random.seed(f"{work.key}{turn}")
        told = {"key": work.key, "role": work.role, "turn": turn, "kind": kind, "prompt": prompt}
        with open(os.path.join(STATE, "turns.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")
        if kind == "land":
            work.honest()
            work.land()
        if kind in ("stall", "land"):
            self.cancelled.wait()
            if turn % 2:
                threading.Event().wait()  # deaf: until it is killed
            return "cancelled"
        if self.cancelled.wait(SETTINGS["work"] * chance.uniform(0.8, 1.2)):
            return "cancelled"
        self.say(session, work.honest() if kind == "honest" else work.wrong(kind))
        return "end_turn"


os.makedirs(STATE, exist_ok=True)
Agent().run()
