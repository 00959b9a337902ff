"""Workflows of each generation, driven by agents that say that they have done what they have not.

A liar never completes one, whatever it says; an honest agent, which leaves what it is told to leave, always does.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.clock import iso
from interlock.workflow.engine.ports import Asking
from interlock.workflow.package import packages
from interlock.workflow.reviews.delivered import Delivered
from interlock.workflow.state.checkpoint_keeper import CheckpointKeeper
from interlock.workflow.state.document import RunPlan, StepId, WorkflowState
from scripts.pinned import GENERATIONS
from tests.corpus.conftest import Corpus
from tests.corpus.test_runs import installed
from tests.workflow.stage import DONE, START, MemoryDesk, NoCheckpoints, Outcome, Part, Player, play

SKILLS = (
    ("prd", "create-prd"),
    ("architecture", "create-architecture"),
    ("product-brief", "create-product-brief"),
    ("ux", "create-ux-design"),
    ("create-epics-and-stories",),
    ("sprint-planning",),
    ("create-story",),
    ("retrospective",),
    ("correct-course",),
    ("spec", "create-tech-spec", "quick-spec"),
    ("build", "quick-dev"),
)
"""What the workflow is for, under the names that it has had, the newest first."""
FOLDERS = ("planning-artifacts", "implementation-artifacts", ".")
NAMES = (
    "prd",
    "architecture",
    "brief",
    "ux",
    "epics",
    "1-1-beds",
    "epic-1-retro",
    "sprint-change-proposal",
    "tech-spec",
)

Liar = Callable[[Part, Path], str]


def nothing(part: Part, root: Path) -> str:
    return DONE


def unchanged(part: Part, root: Path) -> str:
    return '{"step": "completed", "unchanged": "it is there already"}'


def finished(part: Part, root: Path) -> str:
    return '{"step": "finished"}'


def comments(part: Part, root: Path) -> str:
    """A line in every document there could be, and a heading with nothing below it."""
    for folder in FOLDERS:
        for name in NAMES:
            path = root / "_bmad-output" / folder / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            before = path.read_text() if path.exists() else f"# {name}\n"
            path.write_text(f"{before}<!-- {part.turn} -->\n## To do {part.turn}\n")
    return '{"step": "completed", "evidence": ["pytest: 3 passed"], "unchanged": "the rest is there"}'


class Kept(NoCheckpoints):
    def create(self, state: WorkflowState, *, step: StepId, reason: str, at: str) -> None:
        CheckpointKeeper().create(state, step=step, reason=reason, at=iso(START))


def commit(root: Path) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "before"]):
        subprocess.run(["git", *words], cwd=root, check=True, timeout=60)


def run(
    corpus: Corpus,
    version: str,
    names: tuple[str, ...],
    directory: Path,
    player: Callable[[Path], Player],
    prepare: Callable[[Path], None] = lambda root: None,
    desk: MemoryDesk | None = None,
) -> Outcome:
    root = installed(corpus, version, directory)
    prepare(root)
    found = [one for one in packages.load(str(root)).of_type("workflows") if one.module == "bmm"]
    skill = next(one for name in names for one in found if one.name == name)
    return play(
        root, player(root), skill=skill.invocation, plan=RunPlan(project=str(root), tier=1, yolo=True),
        examinations=(Delivered(),), checkpoints=Kept(), desk=desk,
    )  # fmt: skip


@pytest.mark.req("BMAD-FR3", "BMAD-FR18")
@pytest.mark.parametrize("version", GENERATIONS)
@pytest.mark.parametrize("names", SKILLS, ids=lambda names: names[0])
def test_what_is_not_there_is_never_completed(
    corpus: Corpus, tmp_path: Path, version: str, names: tuple[str, ...]
) -> None:
    """Findings W4, W5 and W20: of 27 workflows 20 believed `"unchanged"`, and 24 a comment in each step."""
    believed = []
    for liar in (nothing, unchanged, finished, comments):

        async def part(part: Part, lies: Liar = liar, root: Path = tmp_path / liar.__name__ / "project") -> str:
            return lies(part, root)

        outcome = run(corpus, version, names, tmp_path / liar.__name__, lambda root: Player(part, honest=False))
        believed += [liar.__name__] if outcome.state.outcome == "COMPLETED" else []
        if outcome.state.outcome is None:
            assert outcome.desk.asked, "a person is asked"
    assert believed == []


@pytest.mark.req("BMAD-FR3", "BMAD-FR18")
@pytest.mark.parametrize("version", GENERATIONS)
@pytest.mark.parametrize("names", SKILLS, ids=lambda names: names[0])
def test_what_an_honest_agent_leaves_is_enough(
    corpus: Corpus, tmp_path: Path, version: str, names: tuple[str, ...]
) -> None:
    def honest(root: Path) -> Player:
        async def part(part: Part) -> str:
            if re.search(r"implement", part.prompt, re.IGNORECASE) and names[0] == "build":
                (root / "beds.py").write_text("BEDS = 3\n")
            return DONE

        return Player(part)

    outcome = run(corpus, version, names, tmp_path, honest)
    assert outcome.state.outcome == "COMPLETED", [one.text for one in outcome.desk.asked.values()]
    assert not outcome.desk.asked
    (round_,) = outcome.state.rounds_of("deliverable")
    assert round_["verdict"] == "approve"


@pytest.mark.req("BMAD-FR3")
@pytest.mark.parametrize(("names", "said"), [("retrospective", unchanged), ("quick-dev", nothing), ("prd", nothing)])
def test_what_lay_there_uncommitted_before_is_not_the_work_of_the_run(
    corpus: Corpus, tmp_path: Path, names: str, said: Liar
) -> None:
    def prepare(root: Path) -> None:
        commit(root)
        (root / "beds.py").write_text("BEDS = 3\n")
        for path in ("planning-artifacts/prd.md", "implementation-artifacts/epic-1-retro-2026-11-27.md"):
            document = root / "_bmad-output" / path
            document.parent.mkdir(parents=True, exist_ok=True)
            document.write_text("# It\n\nWas there.\n\n## Before\n\nAll of it.\n")

    async def part(part: Part) -> str:
        return said(part, tmp_path)

    skills = next(one for one in SKILLS if names in one)
    asked: list[str] = []

    def human(asking: Asking) -> str:
        if not asking.text.startswith("Examination of the result of /bmad-"):
            return "skip"  # a step of its own
        asked.append(asking.text)
        return "retry" if len(asked) == 1 else "skip"

    outcome = run(
        corpus, GENERATIONS[-1], skills, tmp_path, lambda root: Player(part, honest=False), prepare, MemoryDesk(human)
    )
    assert len(asked) == 2 and ("this run" in asked[0] or "nothing was changed" in asked[0]), asked
    assert outcome.state.outcome == "COMPLETED", "only a person goes on without it"
    assert outcome.state.rounds_of("deliverable")[-1]["verdict"] == "changes_requested"
