"""Claude Code itself implements an epic of two stories, run by `interlock story run`; an endpoint plays its model."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest

from tests.agents.endpoint import Endpoint, Move, Seen, call, say
from tests.agents.real import enter
from tests.corpus.conftest import Corpus
from tests.corpus.test_real_program import last_prompt
from tests.corpus.test_runs import sources
from tests.corpus.test_stories import FOLDER, project

pytestmark = pytest.mark.long

STORIES = """- id: "1"
  title: Beds
  description: Beds that plants are in.
- id: "2"
  title: Water
  description: "Depends on: story 1"
"""
RETROSPECTIVE = "_bmad-output/implementation-artifacts/retrospective-garden.md"


def model(seen: Seen) -> Move:
    """The model plans, writes, tests and reviews as each step says, with the program's own tools; what it does next
    follows from the conversation alone."""
    prompt, spoken = last_prompt(seen.body)
    place = re.search(r"/[^\s\"\\]*/worktrees/[\w-]+", json.dumps(seen.body))
    if place is None:
        return say("I was given nothing to do.")
    moves = turn(place[0], prompt, seen)
    return moves[min(spoken, len(moves) - 1)]


def turn(root: str, prompt: str, seen: Seen) -> list[Move]:
    """All that is done about one prompt."""
    if "# Code review: " in prompt:
        (source,) = set(re.findall(r"src/garden\d\.py", prompt))
        return [call("Read", file_path=f"{root}/{source}"), say(verdict(source))]
    if "# Workflow /bmad-retrospective" in prompt:
        written = call(
            "Write",
            file_path=f"{root}/{RETROSPECTIVE}",
            content="# Retrospective\n\nIt went well.\n\n## Next\n\nWater.\n",
        )
        return [written, *closed(outputs=[RETROSPECTIVE])]
    step = re.search(r"^# Step (\d+): ", prompt, re.MULTILINE)
    id = next(iter(re.findall(r"^- story_id: (\d+)$", "\n".join(seen.prompts), re.MULTILINE)), "")
    record, source, test = (
        f"{FOLDER}/stories/{id}-made.md",
        f"src/garden{id}.py",
        f"import garden{id}\n\nassert garden{id}.built() == {id!r}\nprint('1 passed')\n",
    )
    match step and step[1]:
        case "2":
            head = call("Bash", command="git rev-parse HEAD", description="The baseline")
            (baseline,) = re.findall(r"\b[0-9a-f]{40}\b", seen.result)[:1] or ["NO_VCS"]
            planned = call("Write", file_path=f"{root}/{record}", content=plan(id, baseline))
            return [head, planned, *closed(outputs=[record])]
        case "3":
            return [
                call("Write", file_path=f"{root}/{source}", content=f"def built():\n    return {id!r}\n"),
                call("Write", file_path=f"{root}/src/test_garden{id}.py", content=test),
                call("Read", file_path=f"{root}/{record}"),
                call("Edit", file_path=f"{root}/{record}", old_string="ready-for-dev", new_string="in-review"),
                call("Edit", file_path=f"{root}/{record}", old_string="- [ ]", new_string="- [x]"),
                *closed(outputs=[record, source]),
            ]
        case "4":
            ran = f"{sys.executable} -B src/test_garden{id}.py"
            result = "## Auto Run Result\n\nThe source and its test were written; the test passes.\n"
            return [
                call("Bash", command=ran, description="The tests"),
                call("Edit", file_path=f"{root}/{record}", old_string="in-review", new_string="done"),
                call("Edit", file_path=f"{root}/{record}", old_string="- [x] Write it\n",
                     new_string=f"- [x] Write it\n\n{result}"),
                *closed(outputs=[record], evidence=[f"{ran}: 1 passed"]),
            ]  # fmt: skip
    return closed()


def closed(**said: list[str]) -> list[Move]:
    """How a turn ends: by the tool of the run, and a word."""
    return [call("step_done", **said), say("That is done.")]


def plan(id: str, baseline: str) -> str:
    head = f"---\nstatus: ready-for-dev\nbaseline_revision: {baseline}\n---\n# Story {id}\n\n"
    return f"{head}## Tasks & Acceptance\n\n- [ ] Write it\n"


def verdict(source: str) -> str:
    items = "\n".join(f"{number}. PASS: read in {source}" for number in range(1, 40))
    found = [{"severity": "minor", "title": f"A name that says little, {line}", "location": f"{source}:{line}"}
             for line in (1, 2)]  # fmt: skip
    closing = {"verdict": "approve", "summary": "read", "findings": found, "earlier": []}
    return f"{items}\n\n```json\n{json.dumps(closing)}\n```"


def test_the_real_program_implements_an_epic_of_two_stories_by_itself(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = f"git rev-parse HEAD\n{sys.executable} -B"
    place = project(corpus, tmp_path, STORIES, INTERLOCK_ALLOWED_COMMANDS=commands)
    before = sources(place.root)
    with Endpoint(bob=model, most=200) as endpoint:
        enter(monkeypatch, tmp_path / "user", "claude", endpoint, "bob")
        began = time.monotonic()
        done = place("run", "--epic", "garden", "--agent", "claude", "--parallel", "2", "--unattended")
        seconds = time.monotonic() - began
    team = place.home.team(done["team"])
    assert done["exit"] == 0, (done, [(one.text, one.context) for one in team.questions()])
    stories = place.listed()
    assert {(one["status"], one["inputs"]) for one in stories.values()} == {("done", 0)} and not team.questions()
    assert stories["garden-2"]["depends_on"] == ["garden-1"]

    branch = f"interlock/{team.name}"
    for id in "12":
        record = place.integrated("show", f"{branch}:{FOLDER}/stories/{id}-made.md")
        assert place.integrated("show", f"{branch}:src/garden{id}.py") == f"def built():\n    return {id!r}\n"
        assert "status: done" in record and "- [x] Write it" in record and "## Auto Run Result" in record
        # What it ran in its shell was known to it in the same turn.
        assert re.search(r"^baseline_revision: [0-9a-f]{40}$", record, re.MULTILINE)
    assert sources(place.root) == before, "the sources stay byte-identical"
    runs = [one for one in team.workflow_runs() if one["skill"] == "/bmad-build-auto"]
    assert [(one["outcome"], one["completed_steps"][:4]) for one in runs] == [("COMPLETED", [1, 2, 3, 4])] * 2
    for one in runs:
        assert all(had["rounds"][-1]["verdict"] == "approve" for had in one["examinations"].values())
        assert not [had for had in one["decisions"] if had["kind"] == "unclear"]
    assert any("1 passed" in text for one in endpoint.seen for text in one.results), "its tests ran in its own shell"
    with capsys.disabled():
        print(f"\ntwo stories and their retrospective by Claude Code: {len(endpoint.seen)} requests, {seconds:.0f} s")
