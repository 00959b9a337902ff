"""Real workflows, run: a scripted model plays them, and what reached a human is counted."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from interlock.workflow.package import packages
from interlock.workflow.state.document import RunPlan
from scripts.pinned import FIRST, SECOND, THIRD
from tests.corpus.acting import Model, changed_sources
from tests.corpus.conftest import Corpus
from tests.workflow.stage import MemoryDesk, Outcome, Player, play
from tests.workflow.test_in_a_team import Place

OUT = "_bmad-output/implementation-artifacts"
RUNS = {
    "create-prd": ("_bmad-output/planning-artifacts/prd.md", 11),
    "create-story": (f"{OUT}/1-2-user-auth.md", 6),
    "dev-story": (f"{OUT}/1-2-user-auth.md", 10),
    "code-review": (f"{OUT}/1-2-user-auth.md", 5),
}
BRIEF = "A garden planner for hobby gardeners who forget what they planted. No regulation applies."


def installed(corpus: Corpus, version: str, directory: Path) -> Path:
    return corpus.copy(version, directory / "project")


def sources(root: Path) -> str:
    """One hash over everything the installer laid down; what the package's own renderer makes is not part of it."""
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root).as_posix()
        made = inside.startswith("_bmad/render/") and not inside.endswith(".gitignore")
        if path.is_file() and inside.startswith(("_bmad/", ".claude/")) and not made:
            whole.update(inside.encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()


def run(
    root: Path, skill: str, name: str, *, yolo: bool = False, brief: str = "", tier: int = 1
) -> tuple[Outcome, Model]:
    document = RUNS[name][0] if name in RUNS else "_bmad-output/planning-artifacts/epics.md"
    model = Model(root, name, document)
    desk = MemoryDesk(answers=lambda asking: "1" if asking.kind == "menu" else "As you think best.")
    plan = RunPlan(project=str(root), tier=tier, yolo=yolo, brief=brief)
    return play(root, Player(model), skill=skill, desk=desk, plan=plan), model


@pytest.mark.long
@pytest.mark.req("BMAD-NFR14", "BMAD-UO.2b", "BMAD-FR2")
@pytest.mark.parametrize("name", list(RUNS))
def test_a_workflow_of_the_first_generation_is_taken_to_its_document(
    corpus: Corpus, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = {}
    for manner, more in (("alone", {}), ("with a brief", {"brief": BRIEF}), ("yolo", {"yolo": True})):
        root = installed(corpus, FIRST, tmp_path / manner.replace(" ", "-"))
        before = sources(root)
        outcome, model = run(root, f"/bmad:bmm:workflows:{name}", name, **more)  # type: ignore[arg-type]
        assert outcome.state.outcome == "COMPLETED", outcome.state.error
        assert len(outcome.state.completed_steps) == RUNS[name][1]
        assert model.document.read_text().count("## Step") >= RUNS[name][1]
        assert not changed_sources(root) and sources(root) == before, "the sources stay byte-identical"
        kinds = [one.kind for one in outcome.desk.asked.values()]
        counts[manner] = (len(kinds), kinds.count("menu"))
    with capsys.disabled():
        told = ", ".join(f"{manner}: {all_} ({menus} menus)" for manner, (all_, menus) in counts.items())
        print(f"\n{name}: questions that reached a human: {told}")
    assert counts["yolo"] == (0, 0)
    assert counts["with a brief"] == (0, 0)
    assert counts["alone"][1] == (1 if name == "code-review" else 0)


@pytest.mark.req("BMAD-NFR14")
@pytest.mark.parametrize(
    ("version", "skill", "steps"),
    [
        (FIRST, "/bmad:bmm:workflows:create-epics-and-stories", [1, 2, 3, 4]),
        (SECOND, "/bmad-bmm-create-epics-and-stories", [1, 2, 3, 4]),
        (THIRD, "/bmad-create-epics-and-stories", [1, 2, 3, 4]),
    ],
)
def test_one_workflow_of_each_generation_is_run(
    corpus: Corpus, tmp_path: Path, version: str, skill: str, steps: list[int]
) -> None:
    root = installed(corpus, version, tmp_path)
    before = sources(root)
    outcome, _ = run(root, skill, "epics", yolo=True)
    assert outcome.state.outcome == "COMPLETED" and outcome.state.completed_steps == steps
    assert sources(root) == before and not outcome.desk.asked


@pytest.mark.long
@pytest.mark.req("BMAD-NFR14")
def test_nothing_is_added_below_the_installed_package_by_a_workflow_that_names_it(
    corpus: Corpus, tmp_path: Path
) -> None:
    """B3: `output_folder: "{config_source}:implementation_artifacts}"` put 21 files there."""
    place = Place(tmp_path)
    shutil.rmtree(place.root)
    place.root = installed(corpus, FIRST, tmp_path)
    before = set((place.root / "_bmad").rglob("*"))
    done = place("run", "/bmad:bmm:workflows:retrospective", "--agent", place.agent(), "--tier", "1", "--yolo")
    assert place("status", done["workflow_id"])["checkpoints"], "it has begun"
    assert set((place.root / "_bmad").rglob("*")) == before
    assert (place.root / "_bmad-output/.workflow-state" / f"{done['workflow_id']}.json").is_file()
    kept = place("status", done["workflow_id"])["warnings"]
    assert [one for one in kept if "output_folder" in one and "placeholder" in one]
    (shown,) = place("show", "/bmad:bmm:workflows:retrospective")["steps"][:1]
    assert not any(path.startswith("_bmad/") for path in shown["outputs"])


def test_the_loop_of_dev_story_is_no_infinite_one(corpus: Corpus, tmp_path: Path) -> None:
    root = installed(corpus, FIRST, tmp_path)
    outcome, _ = run(root, "/bmad:bmm:workflows:dev-story", "dev-story")
    assert outcome.state.outcome == "COMPLETED"
    assert outcome.state.steps["step_5"].visit == 2 and outcome.state.steps["step_9"].visit == 1


@pytest.mark.long
@pytest.mark.req("BMAD-FR18", "BMAD-E3.2")
@pytest.mark.parametrize("version", [pytest.param(FIRST, marks=pytest.mark.storm), SECOND, THIRD])
def test_every_installed_workflow_runs_to_its_end(corpus: Corpus, tmp_path: Path, version: str) -> None:
    root = installed(corpus, version, tmp_path)
    before = sources(root)
    ended = {}
    for skill in packages.load(str(root)).of_type("workflows"):
        model = Model(root, skill.name, f"_bmad-output/{skill.module}-{skill.name}.md")
        plan = RunPlan(project=str(root), tier=1, yolo=True)
        ended[skill.invocation] = play(root, Player(model), skill=skill.invocation, plan=plan).state.outcome
    assert len(ended) >= 25 and {name for name, outcome in ended.items() if outcome != "COMPLETED"} == set()
    assert sources(root) == before
