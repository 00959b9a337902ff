"""Backlogs of three epics on real packages, the person who runs them, and what came of it."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import interlock
from interlock.app.home import Home
from scripts.pinned import FIRST, THIRD
from tests.command import command
from tests.corpus.conftest import Corpus
from tests.workflow.test_stories import commit

AGENT = Path(__file__).parent / "programs" / "epic_agent.py"
SOURCE = Path(__file__).parents[2] / "src"
OUT = "_bmad-output/implementation-artifacts"
EPICS = 3
ROUNDS = 8
CHECK = """import pathlib
for path in pathlib.Path("src").glob("*.py"):
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert path.stem == "log" or names["built"]() == path.stem, path
"""
ANSWER = "Do what the story says, by your own judgement. Nothing else is needed; go on to the end."


def name(number: int) -> str:
    """A word for a story: letters alone, since agents read keys in prose."""
    return "part-" + "abcdefghijklmnopqrstuvwxyz"[number % 26] * (1 + number // 26)


def waits(number: int) -> list[int]:
    """What story `number` of an epic waits for: a start, two streams that meet now and then."""
    if number in (1, 2):
        return []
    return [number - 2] if number % 4 else [number - 1, number - 2]


def newest(corpus: Corpus, root: Path, count: int) -> list[str]:
    """Three spec folders of 6.12 with `count` stories in all; their keys."""
    corpus.copy(THIRD, root)
    keys = []
    for epic in range(1, EPICS + 1):
        folder = root / f"_bmad-output/specs/spec-e{epic}"
        folder.mkdir(parents=True)
        (folder / "SPEC.md").write_text(f"# Epic {epic}\n\nParts of the garden.\n")
        entries = []
        for number in range(1, count // EPICS + 1):
            said = (
                f"Depends on: stories {' and '.join(map(str, waits(number)))}"
                if waits(number)
                else "Dependencies: none"
            )
            entries.append(f'- id: "{number}"\n  title: {name(number)}\n  description: "{said}"\n')
            keys.append(f"e{epic}-{number}")
        (folder / "stories.yaml").write_text("".join(entries))
    return keys


def earliest(corpus: Corpus, root: Path, count: int) -> list[str]:
    """Three epics of a22 with `count` stories in all, all in backlog; their keys."""
    corpus.copy(FIRST, root)
    status, epics, keys = "development_status:\n", "# Epics\n", []
    for epic in range(1, EPICS + 1):
        status += f"  epic-{epic}: backlog\n"
        epics += f"\n## Epic {epic}: Garden {epic}\n\nDependencies: none\n"
        for number in range(1, count // EPICS + 1):
            key = f"{epic}-{number}-{name(number)}"
            keys.append(key)
            status += f"  {key}: backlog\n"
            told = " and ".join(f"{epic}.{one}" for one in waits(number))
            said = f"Depends on: {told}" if told else "Dependencies: none"
            epics += f"\n### Story {epic}.{number}: {name(number)}\n\nAs a gardener I want it.\n{said}\n"
        status += f"  epic-{epic}-retrospective: optional\n"
    (root / OUT).mkdir(parents=True, exist_ok=True)
    (root / OUT / "sprint-status.yaml").write_text(status)
    for number in range(25):  # Documents of earlier work: a story is looked for among all that there are.
        (root / OUT / f"0-{number}-earlier.md").write_text(f"# Earlier story {number}\n")
    (root / "_bmad-output/planning-artifacts").mkdir(parents=True, exist_ok=True)
    (root / "_bmad-output/planning-artifacts/epics.md").write_text(epics)
    return keys


PACKAGES = {"6.12": newest, "a22": earliest}


@dataclass
class Night:
    """One run of a backlog from its start to the last merge, with a person who answers what is asked."""

    directory: Path
    corpus: Corpus
    package: str
    stories: int
    parallel: int
    seed: int = 1
    rate: float = 0.3
    work: float = 1.0
    silence: int = 8
    more: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    kills: tuple[float, ...] = ()
    inputs: Counter[str] = field(default_factory=Counter)
    asked: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    keys: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.root = self.directory / "garden"
        self.keys = PACKAGES[self.package](self.corpus, self.root, self.stories)
        (self.root / "src").mkdir()
        (self.root / "src/log.py").write_text("LOG = []\n")
        (self.root / "check.py").write_text(CHECK)
        (self.root / "interlock.workflows.yaml").write_text(f"stories:\n  verify: '{sys.executable} -S check.py'\n")
        commit(self.root)
        self.settings = self.directory / "agent.json"
        told = {"state": str(self.directory / "agent"), "seed": self.seed, "rate": self.rate, "work": self.work}
        self.settings.write_text(json.dumps({**told, **self.more}))

    @property
    def home(self) -> Home:
        return interlock.connect(str(self.directory / "home"))

    def story(self, *words: str, kill_after: float | None = None) -> dict[str, Any]:
        """`interlock story …` in the project; with SIGKILL after so many seconds."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")} | {
            "PYTHONPATH": str(SOURCE), "INTERLOCK_HOME": str(self.directory / "home"), "INTERLOCK_STOP_GRACE": "0.2",
            "INTERLOCK_WORKFLOW_SILENCE": str(self.silence), "INTERLOCK_RETRY_DELAY": "0.2", **self.variables,
        }  # fmt: skip
        if kill_after is None:
            return command("--json", "story", *words, directory=self.root, environment=environment).told
        argv = [sys.executable, "-m", "interlock.surfaces.cli", "--json", "story", *words]
        # Files, not pipes: what is killed leaves children behind that hold them open.
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            ran = subprocess.Popen(argv, cwd=self.root, env=environment, stdout=out, stderr=err, start_new_session=True)
            try:
                ran.wait(kill_after)
            except subprocess.TimeoutExpired:
                os.killpg(ran.pid, signal.SIGKILL)
                ran.wait()
                return {"exit": ran.returncode}
            out.seek(0)
            err.seek(0)
            text = out.read().strip() or err.read().strip().splitlines()[-1]
        return {**json.loads(text), "exit": ran.returncode}

    def listed(self) -> dict[str, dict[str, Any]]:
        return {one["key"]: one for one in self.story("list")["stories"]}

    def run(self) -> Night:
        """Run all; a person answers once a run is over, and starts it again."""
        agent = f"{sys.executable} -S {AGENT} {self.settings}"
        words = ("run", "--all", "--agent", f"acp {agent}", "--parallel", str(self.parallel), "--unattended")
        for seconds in self.kills:
            self.story(*words, kill_after=seconds)
        for _ in range(ROUNDS):
            began = time.monotonic()
            done = self.story(*words)
            self.seconds += time.monotonic() - began
            assert "team" in done, done
            self.team = self.home.team(done["team"])
            if done["exit"] == 0:
                break
            if not self.answer():
                raise AssertionError(f"nothing is done, and nothing is asked: {json.dumps(done)[:2000]}")
        return self

    def answer(self) -> int:
        """Answer every open question, each one input of its story; how many."""
        person = self.team.acting("human", person=True)
        questions = [one for one in self.team.questions() if one.state == "open"]
        for one in questions:
            task = self.team.task(one.task_id)
            key = next((key for key in self.keys if f"Story {key}:" in task.subject), task.subject)
            self.inputs[key] += 1
            self.asked.append((key, f"{one.text}\n{json.dumps(one.context)[:1500]}"))
            reply = "retry" if "`retry`" in one.text or "retry" in (one.options or ()) else ANSWER
            person.reply(one.task_id, reply, question=one.id)
        return len(questions)

    def turns(self) -> Iterator[dict[str, Any]]:
        """What the agents did."""
        with open(self.directory / "agent/turns.jsonl", encoding="utf-8") as file:
            yield from map(json.loads, file)

    def tree(self) -> dict[str, str]:
        """The files of the integration branch with their content, without the revisions and runs that records name."""
        branch = f"interlock/{self.team.name}"
        listed = self.git("ls-tree", "-r", branch).splitlines()
        found = {}
        for line in listed:
            head, _, path = line.partition("\t")
            found[path] = head.split()[2]
            if path.startswith("_bmad-output/") and path.endswith(".md"):
                text = self.git("show", f"{branch}:{path}")
                found[path] = re.sub(r"[0-9a-f]{40}|\d{8}T\d{6}-[0-9a-f]{4}|\d{4}-\d\d-\d\d", "…", text)
        return found

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=True).stdout

    def lacking(self) -> list[str]:
        """What the stories lack, by what lies on the integration branch; nothing of the ledger is believed."""
        tree = self.tree()
        missing = []
        for key in self.keys:
            if f"src/{key}.py" not in tree:
                missing.append(f"{key}: its source")
            elif "return NAME" not in self.git("show", f"interlock/{self.team.name}:src/{key}.py"):
                missing.append(f"{key}: a whole source")
            missing += [f"{key}: {one}" for one in self._of_record(key, tree)]
        return missing

    def _of_record(self, key: str, tree: dict[str, str]) -> Sequence[str]:
        if self.package == "6.12":
            epic, _, id = key.partition("-")
            text = tree.get(f"_bmad-output/specs/spec-{epic}/stories/{id}-made.md", "")
            wanted = {"status: done": "done", "- [x]": "ticked tasks", "## Auto Run Result": "its result"}
        else:
            text = tree.get(f"{OUT}/{key}.md", "")
            wanted = {"Status: done": "done", "- [x]": "ticked tasks", f"- src/{key}.py": "File List"}
            wanted["Approve"] = "an approval"
        return [f"its record lacks {name}" for sign, name in wanted.items() if sign not in text]

    @property
    def each(self) -> list[int]:
        """How often a person was needed for each story, sorted."""
        return sorted(self.inputs[key] for key in self.keys)

    @property
    def median(self) -> float:
        return statistics.median(self.each)

    @property
    def p90(self) -> int:
        return self.each[max(0, -(-len(self.each) * 9 // 10) - 1)]

    def report(self) -> str:
        """The number."""
        turns = list(self.turns())
        bad = sum(one["kind"] != "honest" for one in turns)
        inputs = f"median {self.median:g}, p90 {self.p90}, most {self.each[-1]}, sum {sum(self.each)}"
        beside = sum(self.inputs.values()) - sum(self.each)
        return (
            f"{self.package}, {len(self.each)} stories in {EPICS} epics, {self.parallel} at once, seed {self.seed}: "
            f"human inputs per story {inputs} (beside stories {beside}); {len(turns)} turns, {bad} of them bad; "
            f"{self.seconds:.0f} s; lacking evidence: {len(self.lacking())}"
        )
