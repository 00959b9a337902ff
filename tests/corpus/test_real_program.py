"""Claude Code itself, over ACP, taken through a whole real workflow; a scripted endpoint plays its model."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from interlock.workflow.menus import step_menus
from scripts.pinned import FIRST
from tests.agents.endpoint import Endpoint, Move, Seen, call, say
from tests.agents.real import enter
from tests.command import command
from tests.corpus.acting import DONE, WAITING, changed_sources, shown
from tests.corpus.conftest import Corpus
from tests.corpus.test_runs import BRIEF, installed, sources

pytestmark = pytest.mark.long

SKILL = "/bmad:bmm:workflows:create-prd"
DOCUMENT = "_bmad-output/planning-artifacts/prd.md"
STEPS = range(1, 12)
QUESTION = "Should it remember what grew in a bed last year?"
SOURCE = Path(__file__).parents[2] / "src"


class Author:
    """The model. What it does next follows from the conversation alone: the last prompt, and how often it has spoken
    since."""

    def __init__(self, root: Path) -> None:
        self.document = str(root / DOCUMENT)

    def __call__(self, seen: Seen) -> Move:
        prompt, spoken = last_prompt(seen.body)
        steps = [text for text in seen.prompts if re.search(r"^# Step \d+: ", text, re.MULTILINE)]
        found = re.search(r"^# Step (\d+): ", steps[-1], re.MULTILINE) if steps else None
        if found is None:
            return say("I was given no step.")
        moves = self.turn(int(found[1]), steps[-1], prompt)
        return moves[min(spoken, len(moves) - 1)]

    def turn(self, step: int, text: str, prompt: str) -> list[Move]:
        """All that is done about one prompt."""
        if step == 1 and prompt == text:
            whole = f"---\nstepsCompleted: []\ninputDocuments: []\n---\n\n# A garden planner\n\n{section(0)}\n"
            return [call("Write", file_path=self.document, content=whole), menu(text)]
        if step == 2 and prompt == text:
            return [say(f"{QUESTION}\n{WAITING}")]
        if step in STEPS[:-1] and not prompt.startswith("C\n"):
            return [menu(text)]
        asked = re.findall(r"^- section: `(.+?)` in ", text, re.MULTILINE)
        written = "".join(f"\n\n## {name}\n\nWhat there is to say." for name in asked)
        # What the engine wrote into the frontmatter since has to be read before it is edited.
        return [
            call("Read", file_path=self.document),
            self.edit(section(step - 1), f"{section(step - 1)}\n\n{section(step)}{written}"),
            self.edit(completed(step - 1), completed(step)),
            say(f"Saved step {step}.\n{DONE}"),
        ]

    def edit(self, old: str, new: str) -> Move:
        return call("Edit", file_path=self.document, old_string=old, new_string=new)


def last_prompt(body: dict[str, Any]) -> tuple[str, int]:
    """What Interlock said last, without what the program adds, and how often the model has spoken since."""
    prompt, spoken = "", 0
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant":
            spoken += 1
        elif message["role"] == "user" and not any(one["type"] == "tool_result" for one in blocks):
            said = [one["text"] for one in blocks if one["type"] == "text" and not one["text"].startswith("<")]
            prompt, spoken = (said[-1], 0) if said else (prompt, spoken)
    return prompt, spoken


def menu(text: str) -> Move:
    """The draft of a step, and the menu that its text tells to display."""
    menus = [one for one in step_menus.menus_of(text) if one.shape != "asked"]
    return say(f"Here is my draft.\n\n{shown(menus[-1])}\n{WAITING}")


def section(step: int) -> str:
    return f"## Part {step}.\n\nWhat step {step} found out."


def completed(step: int) -> str:
    return f"stepsCompleted: {list(range(1, step + 1))}"


@pytest.mark.req("BMAD-NFR13", "BMAD-NFR14", "BMAD-UO.2b")
def test_the_real_program_is_taken_through_a_whole_workflow(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = installed(corpus, FIRST, tmp_path)
    before = sources(root)
    (tmp_path / "brief.md").write_text(BRIEF)
    with Endpoint(bob=Author(root), most=200) as endpoint:
        enter(monkeypatch, tmp_path / "user", "claude", endpoint, "bob")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
        environment |= {"PYTHONPATH": str(SOURCE), "INTERLOCK_HOME": str(tmp_path / "home")}
        # What a program may do with files is its owner's to allow: `--yolo` does not widen it.
        environment["INTERLOCK_PERMISSIONS"] = "workspace"
        words = ["workflow", "run", SKILL, "--agent", "claude", "--yolo", "--brief", str(tmp_path / "brief.md")]
        began = time.monotonic()
        done = command("--json", *words, directory=root, environment=environment)
        seconds = time.monotonic() - began
    assert done.code == 0, (done.out[-3000:], done.err[-3000:])
    run = done.json
    assert (run["outcome"], run["completed_steps"], run["documents"]) == (
        "COMPLETED", [*STEPS, "gate-deliverable"], [DOCUMENT],
    )  # fmt: skip

    document = (root / DOCUMENT).read_text()
    assert [int(number) for number in re.findall(r"^## Part (\d+)\.$", document, re.MULTILINE)] == [0, *STEPS]
    assert completed(11) in document
    assert not changed_sources(root) and sources(root) == before, "the sources stay byte-identical"

    # The tools were the program's own, and one session lasted from the first step to the last.
    assert run["steps"]["step_5"]["files"] == [DOCUMENT]
    assert run["agent_session"] and not [one for one in run["decisions"] if one["kind"] == "resume"]
    menus = [(one["step"], one["choice"]) for one in run["decisions"] if one["kind"] == "menu"]
    assert menus == [(step, "C") for step in STEPS[:-1]]
    # It had the brief, and its question went back to it: nothing reached a human.
    asked = [text for one in endpoint.seen for text in one.prompts if QUESTION in text]
    assert any(BRIEF in text for text in endpoint.seen[0].prompts) and "Nobody is there to answer" in asked[0]
    assert not run["asked"]
    with capsys.disabled():
        turns = sum(bool(one.tools) for one in endpoint.seen)
        print(f"\ncreate-prd by Claude Code: {len(STEPS)} steps, {turns} requests to its model, {seconds:.0f} s")
