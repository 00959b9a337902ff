"""Stories: listed with what each waits for, and implemented by a team of real programs in worktrees of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.planning import StagedPlan
from interlock.app.team import Team
from interlock.errors import AgentError, InvalidRequest, NotFound, TeamExists
from interlock.workflow.package import packages
from interlock.workflow.runs import starting
from interlock.workflow.stories import inventory, lane
from tests.command import command
from tests.workflow.reviewed import OUT, SPRINT, story_project

AGENT = str(Path(__file__).parent / "programs" / "story_agent.py")
SOURCE = str(Path(__file__).parents[2] / "src")
STATUS = """# kept
development_status:
  epic-1: backlog
  1-1-beds: backlog  # first
  1-2-seeds: backlog
  1-3-water: backlog
  epic-1-retrospective: optional

  epic-2: backlog
  2-1-sun: backlog
"""
EPICS = """# Epics

## Epic 1: The garden

### Story 1.1: Beds
As a gardener I want beds.

### Story 1.2: Seeds
Dependencies: none

### Story 1.3: Water
**Depends on:** Story 1.1 and story 1.2.

## Epic 2: The sky
Dependencies: none

### Story 2.1: Sun
As a gardener I want sun.
"""


def garden(root: Path, status: str = STATUS, epics: str = EPICS) -> Path:
    """A committed project of the first generation with create-story, dev-story, code-review and a retrospective."""
    story_project(root)
    manifest = root / "_bmad/_config/workflow-manifest.csv"
    for name in ("create-story", "retrospective"):
        folder = root / "_bmad/bmm/workflows" / name
        folder.mkdir()
        (folder / "workflow.yaml").write_text(f'name: {name}\ninstructions: "{{installed_path}}/instructions.xml"\n')
        (folder / "instructions.xml").write_text('<workflow>\n<step n="1" goal="Write it">Write.</step>\n</workflow>\n')
        path = f"_bmad/bmm/workflows/{name}/workflow.yaml"
        manifest.write_text(f'{manifest.read_text()}"{name}","x","bmm","{path}"\n')
    (root / OUT / "1-2-sign-in.md").unlink()
    (root / SPRINT).write_text(status)
    (root / "_bmad-output/epics.md").write_text(epics)
    (root / "src" / "log.py").write_text("LOG = []\n")
    (root / "interlock.workflows.yaml").write_text("stories:\n  verify: 'test -d src'\n")
    commit(root)
    return root


def commit(root: Path) -> None:
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "before"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
        subprocess.run(["git", *who, *words], cwd=root, check=True, timeout=60)


class Place:
    """A project, a home, and the command line in it."""

    def __init__(self, root: Path, **variables: str) -> None:
        self.root = root
        self.home_path = root.parent / "home"
        self.variables = variables

    @property
    def home(self) -> Home:
        return interlock.connect(str(self.home_path))

    def __call__(self, *words: str) -> dict[str, Any]:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")},
            "PYTHONPATH": SOURCE, "INTERLOCK_HOME": str(self.home_path), "INTERLOCK_STOP_GRACE": "0.2",
            **self.variables,
        }  # fmt: skip
        return command("--json", "story", *words, directory=self.root, environment=environment).told

    def integrated(self, *words: str) -> str:
        """What git says of the team's integration branch."""
        return subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=True).stdout

    def listed(self) -> dict[str, dict[str, Any]]:
        return {one["key"]: one for one in self("list")["stories"]}


def test_stories_are_listed_with_what_each_waits_for_and_why(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    found = place("list")
    stories = {one["key"]: one for one in found["stories"]}
    assert list(stories) == ["1-1-beds", "1-2-seeds", "1-3-water", "2-1-sun"] and not found["faults"]
    fields = {"key", "epic", "title", "status", "depends_on", "task_id", "inputs", "waits_for"}
    assert fields <= set(stories["1-1-beds"])
    assert {key: one["depends_on"] for key, one in stories.items()} == {
        "1-1-beds": [], "1-2-seeds": [], "1-3-water": ["1-1-beds", "1-2-seeds"], "2-1-sun": [],
    }  # fmt: skip
    assert "epics.md:12 says “Depends on: Story 1.1 and story 1.2.”" in stories["1-3-water"]["reasons"]["1-1-beds"]
    assert [one["key"] for one in place("next")["stories"]] == ["1-1-beds", "1-2-seeds", "2-1-sun"]
    assert not place.home.teams(), "looking makes nothing"


def test_without_a_word_about_it_the_order_of_the_list_counts(tmp_path: Path) -> None:
    epics = "# Epics\n\n## Epic 1: A\n\n### Story 1.1: Beds\n\n## Epic 2: B\n\n### Story 2.1: Sun\n"
    place = Place(garden(tmp_path / "app", epics=epics))
    waits = {key: one["depends_on"] for key, one in place.listed().items()}
    assert waits == {
        "1-1-beds": [], "1-2-seeds": ["1-1-beds"], "1-3-water": ["1-2-seeds"],
        "2-1-sun": ["1-1-beds", "1-2-seeds", "1-3-water"],
    }  # fmt: skip


def test_what_the_project_says_explicitly_counts_most(tmp_path: Path) -> None:
    root = garden(tmp_path / "app")
    (root / "interlock.workflows.yaml").write_text("stories:\n  dependencies:\n    1-1-beds: [2-1-sun]\n")
    found = inventory.read(packages.load(str(root)))
    assert dict(found.find("1.1").depends_on) == {"2-1-sun": "interlock.workflows.yaml says so"}
    assert [one.key for one in found.stories][:2] == ["2-1-sun", "1-1-beds"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("1-1-beds: [1-3-water]", "dependency cycle: 1-1-beds -> 1-3-water -> 1-1-beds: 1-1-beds waits for 1-3-water, "
         "interlock.workflows.yaml says so; 1-3-water waits for 1-1-beds, _bmad-output/epics.md:12 says “Depends on: "
         "Story 1.1 and story 1.2.”"),
        ("1-1-beds: [9-9-x]", "1-1-beds depends on 9-9-x, which is not here: interlock.workflows.yaml says so"),
    ],
)  # fmt: skip
def test_stories_that_wait_for_what_cannot_be_are_left_out_and_the_rest_is_done(
    tmp_path: Path, said: str, why: str
) -> None:
    place = Place(garden(tmp_path / "app"))
    (place.root / "interlock.workflows.yaml").write_text(f"stories:\n  dependencies:\n    {said}\n")
    home, stage = place.home, partial(place.home.stage_stories, str(place.root), agent="command", command=["true"])
    listed = home.stories(str(place.root))
    assert listed.faults[0] == why, listed.faults
    staged = stage()
    assert [one.key for one in staged.new] == ["1-2-seeds", "2-1-sun"]
    assert f"left out: {why}" in staged.notes
    for key in ("1.1", "1.3"):
        with pytest.raises(InvalidRequest, match="cannot be run"):
            stage([key])


def test_statuses_are_read_as_people_write_them_and_one_that_is_not_known_begins_nothing(tmp_path: Path) -> None:
    status = STATUS.replace("1-1-beds: backlog", "1-1-beds: Done").replace(
        "1-2-seeds: backlog", "1-2-seeds: In Progress"
    )
    status = status.replace("1-3-water: backlog", "1-3-water:").replace("2-1-sun: backlog", "2-1-sun: postponed")
    place = Place(garden(tmp_path / "app", status=status))
    listed = {key: one["status"] for key, one in place.listed().items()}
    assert listed == {"1-1-beds": "done", "1-2-seeds": "in-progress", "1-3-water": "", "2-1-sun": "postponed"}
    staged = place.home.stage_stories(str(place.root), agent="command", command=["true"])
    assert [one.key for one in staged.new] == ["1-2-seeds"]
    known = "it must be one of backlog, ready-for-dev, in-progress, review, done"
    why = [f"1-3-water has no status; {known}", f"2-1-sun has the status 'postponed'; {known}"]
    assert place("list")["faults"] == why and {f"left out: {one}" for one in why} <= set(staged.notes)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (f"{STATUS}  1-1-beds: done\n", 'line 11: while constructing a mapping, found duplicate key "1-1-beds"'),
        ("development_status: [\n", "line 2: while parsing a flow node"),
    ],
)
def test_a_list_that_cannot_be_read_is_told_with_the_line(tmp_path: Path, status: str, why: str) -> None:
    place = Place(garden(tmp_path / "app", status=status))
    assert why in place("list")["faults"][0]
    with pytest.raises(InvalidRequest, match=re.escape(why)) as refused:
        place.home.stage_stories(str(place.root), agent="command", command=["true"])
    assert not refused.value.message.endswith("..")


@pytest.mark.parametrize(("water", "words"), [("done", ["--all"]), ("later", ["1.1"]), ("later", ["--all"])])
def test_a_run_of_what_is_done_already_succeeds(tmp_path: Path, water: str, words: list[str]) -> None:
    status = (
        STATUS.replace("backlog", "done").replace("optional", "done").replace("1-3-water: done", f"1-3-water: {water}")
    )
    told = Place(garden(tmp_path / "app", status=status))("run", *words, "--agent", "true agent", "--unattended")
    done = (water, words) != ("later", ["--all"])
    assert told["exit"] == (0 if done else 1) and told["all_done"] is done
    assert told["message"].startswith("No story is left" if done else "What is left cannot be run: 1-3-water")


def test_a_list_that_is_not_text_is_told(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    (place.root / SPRINT).write_bytes(f"{STATUS}  # ä\n".encode("latin-1"))
    assert place("list")["faults"] == [f"{SPRINT} cannot be read: it is not UTF-8"]


def test_an_agent_that_is_not_known_is_told_without_the_plan_that_nobody_wrote(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    with pytest.raises(AgentError, match=r"^Unknown agent 'cluade' for dev-1") as refused:
        place.home.stage_stories(str(place.root), ["1.1"], agent="cluade", dry_run=True)
    assert ".yaml" not in refused.value.message


def test_an_epic_waits_for_the_whole_one_before_it(tmp_path: Path) -> None:
    """What stands alone in the first epic, and what stands alone in the second, lets nothing else begin early."""
    epics = EPICS.replace("## Epic 2: The sky\nDependencies: none\n", "## Epic 2: The sky\n")
    found = inventory.read(packages.load(str(garden(tmp_path / "app", epics=epics))))
    why = "its epic comes before in the list"
    assert dict(found.find("2.1").depends_on) == dict.fromkeys(("1-1-beds", "1-2-seeds", "1-3-water"), why)
    alone = epics.replace("**Depends on:** Story 1.1 and story 1.2.", "Depends on: 1.2")
    alone += "Dependencies: none\n\n### Story 2.2: Moon\n"
    status = STATUS.replace("  2-1-sun: backlog\n", "  2-1-sun: backlog\n  2-2-moon: backlog\n")
    found = inventory.read(packages.load(str(garden(tmp_path / "b" / "app", status, alone))))
    assert not found.find("2.1").depends_on
    assert set(found.find("2.2").depends_on) == {"2-1-sun", "1-1-beds", "1-2-seeds", "1-3-water"}


@pytest.mark.parametrize(
    ("text", "depends"),
    [
        ("Depends on: 1.1", {"1-1-a"}),
        ("**Dependencies:** Story 1.1, 1.2 and 2.1", {"1-1-a", "1-2-b", "2-1-d"}),
        ("- **Prerequisites**: Story 1-1-a (the beds), Story 1.2: Seeds", {"1-1-a", "1-2-b"}),
        ("Blocked by: stories 1.1 & 1.2.", {"1-1-a", "1-2-b"}),
        ("Depends on: epic 1", {"1-1-a", "1-2-b", "1-3-c"}),
        ("Dependencies:\n\n- Story 1.1\n- Story 1.2\n\nThat is all.", {"1-1-a", "1-2-b"}),
        ("Dependencies: none", set()),
        ("**Prerequisites:** None (first of its kind)", set()),
        # Prose is not read: then the order of the list counts.
        ("After 2 days it depends on nothing.", {"2-1-d"}),
        ("The layout is independent of screen size.", {"2-1-d"}),
        ("No dependencies on external services.", {"2-1-d"}),
        ("The price depends on 3 factors.", {"2-1-d"}),
        ("Depends on: 3 factors", {"2-1-d"}),
        ("This does not depend on story 1.2; story 1.3 will depend on story 2.2.", {"2-1-d"}),
        # Nor is what could lose a story.
        ("Depends on: stories 1.1-1.3", {"2-1-d"}),
        ("Depends on: 1.1 through 1.3", {"2-1-d"}),
        ("Dependencies: none beyond story 1.1", {"2-1-d"}),
        ("Depends on: 1.1 or 1.2 / 1.3", {"1-1-a", "1-2-b", "1-3-c"}),
        ("Prerequisites: PostgreSQL, Story 1.1", {"1-1-a"}),
    ],
)
def test_the_words_of_a_story_about_what_it_waits_for(tmp_path: Path, text: str, depends: set[str]) -> None:
    status = "development_status:\n" + "".join(f"  {one}: backlog\n" for one in ("1-1-a", "1-2-b", "1-3-c", "2-1-d"))
    status += "  2-2-e: backlog\n"
    root = garden(tmp_path / "app", status, f"## Epic 2: E\n\n### Story 2.2: Last\n{text}\n")
    found = inventory.read(packages.load(str(root)))
    assert set(found.find("2.2").depends_on) == depends


def test_a_list_of_stories_that_cannot_be_told_apart_is_refused(tmp_path: Path) -> None:
    root = garden(tmp_path / "app")
    folder = root / "_bmad-output/specs/spec-tool"
    folder.mkdir(parents=True)
    (folder / "stories.yaml").write_text('- id: "3"\n  title: A\n- id: "3-2"\n  title: B\n')
    assert "cannot be told apart" in inventory.read(packages.load(str(root))).faults[0]
    (folder / "stories.yaml").write_text('- id: "1"\n  title: A\n- id: "2"\n  title: B\n  depends_on: []\n')
    found = inventory.read(packages.load(str(root)))
    assert [one.key for one in found.stories[:2]] == ["tool-1", "tool-2"]
    assert dict(found.find("tool-2").depends_on) == {"tool-1": "it comes before it in the list"}
    with pytest.raises(NotFound):
        found.find("7")


def test_what_a_person_is_to_look_at_holds_the_rest_of_its_list_whatever_else_is_said(tmp_path: Path) -> None:
    """The hold was lost where the overlay, or a proposal that was accepted, says what a story waits for."""
    root = garden(tmp_path / "app")
    listed = '- id: "1"\n  title: A\n- id: "2"\n  title: B\n  done_checkpoint: true\n- id: "3"\n  title: C\n'
    for name in ("tool", "wool"):
        folder = root / "_bmad-output/specs" / f"spec-{name}"
        folder.mkdir(parents=True)
        (folder / "stories.yaml").write_text(listed)
    said = "stories:\n  dependencies:\n    tool-3: []\n    wool-2: [tool-1]\n"
    (root / "interlock.workflows.yaml").write_text(said)
    found = inventory.read(packages.load(str(root)), {"wool-3": {"wool-1": "an agent says so"}})
    waits = {one.key: dict(one.depends_on) for one in found.stories if one.folder}
    held = "a person looks at it before anything after it in the list"
    assert waits["tool-3"] == {"tool-2": held}
    assert waits["wool-3"] == {"wool-1": "an agent says so", "wool-2": held}
    assert waits["wool-1"] == {} and waits["wool-2"] == {"tool-1": "interlock.workflows.yaml says so"}


def test_the_body_of_a_task_is_its_lane_again() -> None:
    links = (starting.Link("/bmad-build-auto spec folder a, story id 1", {"story": "a-1", "story_id": "1"}, True),)
    made = starting.Lane("a-1", links, "Use the client that is there.")
    assert starting.lane_of(made.body) == made
    assert starting.lane_of("/bmad-build-auto do this") is None and starting.lane_of("Write it.") is None
    assert lane.task_key("1-2-x") == "1-2-x" and lane.task_key("1-2") == "story-1-2"
    assert len(lane.task_key("1-2-" + "long-" * 30)) <= 50


@pytest.mark.long
def test_an_epic_is_over_with_a_story_that_somebody_has_called_done_in_their_own_spelling(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app", status=f"{STATUS}  2-2-moon: Done\n"))
    done = place("run", "2.1", "--agent", f"{sys.executable} {AGENT}", "--unattended")
    assert done["exit"] == 0, done
    status = place.integrated("show", f"interlock/{done['team']}:{SPRINT}")
    assert "epic-2: done\n  2-1-sun: done\n  2-2-moon: Done\n" in status


@pytest.mark.long
def test_stories_are_implemented_in_worktrees_merged_in_order_and_their_status_is_ours(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    planned = place("run", "--all", "--agent", f"{sys.executable} {AGENT}", "--dry-run")
    assert planned["new"] == ["1-1-beds", "1-2-seeds", "1-3-water", "2-1-sun", "epic-1-retrospective"]
    assert not [one for one in place.home_path.rglob("*") if place.home_path.is_dir()], "looking makes nothing"
    done = place("run", "--all", "--agent", f"{sys.executable} {AGENT}", "--parallel", "3", "--unattended")
    assert done["exit"] == 0 and done["all_done"], done
    stories = place.listed()
    assert {one["status"] for one in stories.values()} == {"done"}
    assert {one["inputs"] for one in stories.values()} == {0}
    assert (place.root / SPRINT).read_text() == STATUS, "the checkout is its owner's until the merge"
    branch = f"interlock/{done['team']}"
    status = place.integrated("show", f"{branch}:{SPRINT}")
    assert "1-1-beds: done  # first" in status and "epic-1: done" in status and status.startswith("# kept\n")
    assert "epic-1-retrospective: done" in status
    files = place.integrated("ls-tree", "-r", "--name-only", branch).splitlines()
    assert {f"src/{key}.py" for key in stories} <= set(files) and f"{OUT}/1-3-water.md" in files
    assert f"{OUT}/epic-1-retrospective.md" in files and not [one for one in files if ".workflow-state" in one]
    for key in ("1-1-beds", "1-2-seeds", "1-3-water", "2-1-sun"):
        (commit_,) = place.integrated("log", "--first-parent", "--format=%H", f"--grep={key}", branch).split()
        then = place.integrated("show", f"{commit_}:{SPRINT}")
        assert f"{key}: done" in then and f"{key}: done" not in place.integrated("show", f"{commit_}^:{SPRINT}")
    merged = place.integrated("log", "--first-parent", "--reverse", "--format=%s", branch)
    assert merged.index("1-1-beds") < merged.index("1-3-water") and merged.index("1-2-seeds") < merged.index(
        "1-3-water"
    )
    team = place.home.team(done["team"])
    assert [one.files for one in team.report().done] == [[]] * 5, "what the engine keeps for itself is no result"
    runs = [one["skill"].rpartition(":")[2] for one in team.workflow_runs()]
    assert runs.count("create-story") == runs.count("dev-story") == 4
    assert not place("next")["stories"]
    team.merge(everything=True)
    assert (place.root / SPRINT).read_text() == status and place.integrated("status", "--porcelain") == ""
    assert not place.home.settle_stories(done["team"]) and (place.root / SPRINT).read_text() == status


@pytest.mark.long
def test_another_agent_reviews_what_one_develops(tmp_path: Path) -> None:
    place, notes = Place(garden(tmp_path / "app")), tmp_path / "reviews"
    words = ("run", "1.2", "--agent", f"{sys.executable} {AGENT}", "--unattended")
    refused = place(*words, "--reviewer", "nobody")
    assert refused["exit"] == 1 and "Unknown agent 'nobody' for reviewer" in refused["message"], refused
    assert not place.home.teams(), "it is refused before anything is made"
    other = f"{sys.executable} {AGENT.replace('story_agent', 'story_reviewer')} {notes}"
    done = place(*words, "--reviewer", other, "--reviewer-model", "large")
    assert done["exit"] == 0, done
    assert [line.split()[0] for line in notes.read_text().splitlines()] == ["1-2-seeds"]
    team = place.home.team(done["team"])
    assert [team.setting(f"workflow_reviewer{of}")[0] for of in ("", "_model")] == [other, "large"]
    (run,) = [one for one in team.workflow_runs() if one["skill"].endswith("dev-story")]
    assert "read by another" in run["examinations"]["code_review"]["rounds"][0]["summary"]
    place.home.stage_stories(str(place.root), ["1.1"], agent="command", command=["true"], reviewer="")
    assert team.setting("workflow_reviewer")[0] == "" and team.setting("workflow_reviewer_model")[0] == "large"


def test_a_reviewer_that_cannot_be_had_fails_the_run_with_its_name(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    staged = place.home.stage_stories(str(place.root), ["1.2"], agent="command", command=[sys.executable, AGENT])
    place.home.team(staged.team).configure({"workflow_reviewer": "nobody", "retries": 0})
    done = place("run", "1.2", "--agent", f"{sys.executable} {AGENT}", "--unattended")
    assert done["exit"] == 1
    team = place.home.team(staged.team)
    run = team.runs(team.task("1-2-seeds").id)[-1]
    assert "the setting workflow_reviewer: Unknown agent 'nobody'" in str(run.as_dict()), run


@pytest.mark.long
def test_a_retrospective_sees_what_is_done_and_what_it_leaves_to_be_done_is_kept(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    agent = f"{sys.executable} {AGENT} notes:epic-1-retrospective"
    done = place("run", "--epic", "1", "--agent", agent, "--parallel", "2", "--unattended")
    assert done["exit"] == 0, done
    branch = f"interlock/{done['team']}"
    status = place.integrated("show", f"{branch}:{SPRINT}")
    assert "action_items:\n- Water earlier\n" in status and "epic-1-retrospective: done" in status
    assert "2-1-sun: backlog" in status, "what it says of the stories is put back"
    seen = place.integrated("show", f"{branch}:{OUT}/epic-1-retrospective.md")
    assert all(f"{key}: done" in seen for key in ("1-1-beds", "1-2-seeds", "1-3-water")), seen


@pytest.mark.long
def test_a_status_that_a_person_sets_back_is_respected_and_the_story_is_done_again(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    words = ("run", "1.2", "--agent", f"{sys.executable} {AGENT}", "--parallel", "1", "--unattended")
    done = place(*words)
    place.home.team(done["team"]).merge(everything=True)
    again = place(*words)
    assert again["message"].startswith("No story is left") and (again["exit"], again["all_done"]) == (0, True)
    path = place.root / SPRINT
    path.write_text(path.read_text().replace("1-2-seeds: done", "1-2-seeds: ready-for-dev"))
    before = path.read_text()
    (place.root / "src/1-2-seeds.py").write_text("NAME = 'not what was asked for'\n")
    commit(place.root)
    assert place.listed()["1-2-seeds"]["status"] == "ready-for-dev"
    assert place(*words, "--dry-run")["redo"] == ["1-2-seeds"] and path.read_text() == before
    assert place(*words)["exit"] == 0 and path.read_text() == before
    assert "1-2-seeds: done" in place.integrated("show", f"interlock/{done['team']}:{SPRINT}")


COMPILES = "stories:\n  verify: '\"{}\" -m compileall -q src'\n"


def checked(root: Path, epics: str = EPICS) -> Place:
    """A project whose check is that everything compiles."""
    garden(root, epics=epics)
    (root / "interlock.workflows.yaml").write_text(COMPILES.format(sys.executable))
    (root / ".gitignore").write_text("__pycache__/\n")
    commit(root)
    return Place(root)


@pytest.mark.long
def test_a_story_is_done_only_where_the_check_of_the_project_passes(tmp_path: Path) -> None:
    """The reviewers approve; the check does not, and its maker is told before the story's status is written."""
    place = checked(tmp_path / "app")
    agent = f"{sys.executable} {AGENT} breaks:1-2-seeds"
    done = place("run", "1.2", "--agent", agent, "--parallel", "1", "--unattended")
    assert done["exit"] == 0, done
    (run,) = [one for one in place.home.team(done["team"]).workflow_runs() if one["skill"].endswith("dev-story")]
    rounds = run["examinations"]["project_check"]["rounds"]
    assert [one["verdict"] for one in rounds] == ["changes_requested", "approve"]
    assert "ended with exit code 1" in rounds[0]["summary"] and "src/1-2-seeds.py" in rounds[0]["findings"][0]["fix"]
    ids = run["completed_steps"]
    assert ids.index("gate-project_check") < ids.index("gate-code_review"), "what does not work is not reviewed"
    assert place.integrated("show", f"interlock/{done['team']}:src/1-2-seeds.py") == "NAME = '1-2-seeds'\n"


@pytest.mark.long
def test_a_finished_story_that_cannot_be_merged_is_taken_up_again(tmp_path: Path) -> None:
    """Four stories change the same line: each later one gets the conflict to resolve, also one that says that it is
    resolved while the markers are there (of two such one at least is not the first), and nobody is asked."""
    place = checked(tmp_path / "app", EPICS.replace("**Depends on:** Story 1.1 and story 1.2.", "Dependencies: none"))
    agent = f"{sys.executable} {AGENT} clashes:1-1-beds clashes:1-2-seeds marks:2-1-sun marks:1-3-water"
    done = place("run", "1.1", "1.2", "1.3", "2.1", "--agent", agent, "--parallel", "4", "--unattended")
    assert done["exit"] == 0, (done, [one.text for one in place.home.team(done["team"]).questions()])
    assert place.integrated("show", f"interlock/{done['team']}:src/log.md") == "LOG = ['all of them']\n"
    assert {(one["status"], one["inputs"]) for one in place.listed().values()} == {("done", 0)}
    team = place.home.team(done["team"])
    runs = [one for one in team.workflow_runs() if one["skill"].endswith("dev-story")]
    reviewed = sorted(len(one["examinations"]["code_review"]["rounds"]) for one in runs)
    assert reviewed == [1, 2, 2, 2], "it is reviewed again"
    checks = [found["summary"] for one in runs for found in one["examinations"]["project_check"]["rounds"]]
    assert [one for one in checks if "still hold conflict markers: src/log.md" in one], checks


@pytest.mark.long
def test_a_story_that_asks_holds_up_only_what_waits_for_it(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    agent = f"{sys.executable} {AGENT} asks:1-1-beds"
    done = place("run", "--all", "--agent", agent, "--parallel", "3", "--unattended")
    assert done["exit"] == 1
    stories = place.listed()
    status = {key: one["status"] for key, one in stories.items()}
    assert status == {"1-1-beds": "blocked", "1-2-seeds": "done", "1-3-water": "backlog", "2-1-sun": "done"}
    assert stories["1-3-water"]["waits_for"] == ["1-1-beds"] and stories["1-1-beds"]["question"]
    team = place.home.team(done["team"])
    (question,) = team.questions()
    assert "Which of the two layouts" in (question.text + str(question.context))
    (epic,) = place("list", "--epic", "1")["epics"]
    assert epic["digest"][:2] == ["1 of 3 done: 1-2-seeds.", "Blocked: 1-1-beds."]
    assert epic["digest"][2].startswith("1-1-beds waits for an answer: ")
    assert epic["digest"][3] == (
        "1-3-water waits for 1-1-beds (_bmad-output/epics.md:12 says “Depends on: Story 1.1 and story 1.2.”)."
    )
    assert epic["digest"][4].endswith(" of work; 0 answers by people.") and not epic["done"]
    assert place("list", "--epic", "7")["error"] == "not_found"
    team.acting("human", person=True).reply(question.task_id, "The first one.", question=question.id)
    again = place("run", "--all", "--agent", agent, "--parallel", "3", "--dry-run")
    assert [len(again[one]) for one in ("new", "updated", "changed_started", "removed_started")] == [0] * 4, again
    # Its maker asks the same in the next workflow of the story: it has the answer.
    done = place("run", "--all", "--agent", agent, "--parallel", "3", "--unattended")
    assert done["exit"] == 0, done
    stories = place.listed()
    assert {one["status"] for one in stories.values()} == {"done"} and stories["1-1-beds"]["inputs"] == 1


@pytest.mark.long
def test_what_cannot_be_run_is_refused_with_the_reason(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    agent = f"{sys.executable} {AGENT}"
    assert place("run", "--agent", agent)["error"] == "invalid_request"
    assert place("run", "9.9", "--agent", agent)["error"] == "not_found"
    assert place("run", "--all", "--agent", agent, "--budget", "much")["error"] == "invalid_request"
    budget = place("run", "1.3", "--agent", agent, "--budget", "5, 200 turns, 2h", "--dry-run")
    new = ["1-1-beds", "1-2-seeds", "1-3-water", "epic-1-retrospective"]
    assert budget["new"] == new, "what it waits for comes with it, and the end of the epic"
    subprocess.run(["git", "rm", "-rq", "--cached", "_bmad"], cwd=place.root, check=True)
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"], cwd=place.root, check=True
    )
    refused = place("run", "--all", "--agent", agent)
    assert refused["message"].startswith("_bmad is not committed, so a story's worktree would be without it. Commit it")


@pytest.mark.long
def test_what_git_ignores_of_a_package_is_copied_and_what_it_does_not_know_is_refused(tmp_path: Path) -> None:
    """A story of a package that git ignores could not be run at all: directories were not copied."""
    root = garden(tmp_path / "app")
    place, agent = Place(root), f"{sys.executable} {AGENT}"

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=root, check=True)

    git("rm", "-rq", "--cached", "_bmad", "_bmad-output")
    git("commit", "-qm", "x")
    (root / ".gitignore").write_text("_bmad/\n")
    refused = place("run", "1.2", "--agent", agent)
    assert refused["message"].startswith(f"{SPRINT} is not committed"), refused
    git("add", "_bmad-output")
    assert place("run", "1.2", "--agent", agent)["message"] == refused["message"], "a worktree has no index of yours"
    git("rm", "-rq", "--cached", "_bmad-output")
    (root / ".gitignore").write_text("_bmad/\nsprint-status.yaml\n")
    git("add", "-A")
    git("commit", "-qm", "all but the list")
    assert place("run", "1.1", "--agent", agent, "--unattended")["exit"] == 0, "the list alone is copied, too"
    git("rm", "-rq", "--cached", "_bmad-output")
    (root / ".gitignore").write_text("_bmad/\n_bmad-output/\n")
    git("add", "-A")
    git("commit", "-qm", "y")
    done = place("run", "1.2", "--agent", agent, "--unattended")
    assert done["exit"] == 0, done
    assert "1-2-seeds: done" in (root / SPRINT).read_text(), "no merge brings it"
    assert place.listed()["1-2-seeds"]["status"] == "done"
    assert "src/1-2-seeds.py" in place.integrated("ls-tree", "-r", "--name-only", f"interlock/{done['team']}")


def test_what_an_epic_leaves_to_be_done_is_taken_up_after_its_last_story(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    command, home = [sys.executable, AGENT], place.home
    staged = home.stage_stories(str(place.root), agent="command", command=command)
    (place.root / SPRINT).write_text(re.sub("backlog", "done", STATUS))
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "x"], cwd=place.root, check=True
    )
    again = home.stage_stories(str(place.root), agent="command", command=command)
    assert again.team == staged.team and not again.new, "the retrospective is still to be done"
    team = home.team(staged.team)
    for task in team.tasks():
        team.cancel(task.id)
    with pytest.raises(InvalidRequest, match="No story is left"):
        home.stage_stories(str(place.root), agent="command", command=command)


def without_git(tmp_path: Path) -> tuple[Home, Callable[..., StagedPlan]]:
    """A garden whose tasks are done in its directory, and what makes a plan of its stories."""
    place = Place(garden(tmp_path / "app"))
    shutil.rmtree(place.root / ".git")
    return place.home, partial(place.home.stage_stories, str(place.root), agent="command", command=["true"])


def finish(team: Team, *stories: str) -> None:
    """Do the tasks of these stories, whatever they wait for."""
    for story in stories:
        task = next(one.id for one in team.tasks() if story in one.subject)
        team.claim(task, force=True, by="dev-1")
        assert team.complete(task, by="dev-1").state == "done"


def test_naming_stories_cancels_nothing_and_begins_no_other(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    agent, home = f"{sys.executable} {AGENT}", place.home
    staged = home.stage_stories(str(place.root), agent="command", command=[sys.executable, AGENT])
    team = home.team(staged.team)
    asked = team.task("1-1-beds").id
    team.claim(asked, by="dev-1")
    team.ask(asked, "Which of the two layouts?", by="dev-1")
    team.reply(asked, "The first one.")
    assert team.task(asked).state == "ready" and team.task(asked).run == 1
    done = place("run", "1.2", "--agent", agent, "--parallel", "1", "--unattended")
    assert done["exit"] == 0 and done["all_done"], done
    states = {one.plan_key: one.state for one in team.tasks()}
    assert states == {
        "1-1-beds": "ready", "1-2-seeds": "done", "1-3-water": "backlog", "2-1-sun": "ready",
        "epic-1-retrospective": "backlog",
    }  # fmt: skip
    assert [one.answer for one in team.conversation(asked)] == ["The first one."]
    rest = home.stage_stories(str(place.root), agent="command", command=[sys.executable, AGENT])
    assert not rest.new and not rest.removed_open and not rest.removed_started and rest.only is None
    with pytest.raises(InvalidRequest, match="No story is left"):
        home.stage_stories(str(place.root), ["1.2"], agent="command", command=[sys.executable, AGENT])


def test_a_story_is_shown_with_what_its_list_says_of_it(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    shown = place("show", "1.3")
    assert shown["story"]["key"] == "1-3-water" and shown["story"]["waits_for"] == ["1-1-beds", "1-2-seeds"]
    assert "Depends on" in shown["text"] and shown["file"] == "_bmad-output/epics.md" and shown["impossible"] is None
    assert place("show", "9.9")["error"] == "not_found"


def test_without_git_stories_are_done_one_by_one_and_without_a_check_it_is_said_before(tmp_path: Path) -> None:
    home, stage = without_git(tmp_path)
    with pytest.raises(InvalidRequest, match="would overwrite each other"):
        stage(parallel=3)
    (tmp_path / "app" / "interlock.workflows.yaml").unlink()
    staged = stage()
    assert [one.name for one in home.team(staged.team).members() if one.agent] == ["dev-1"]
    assert staged.parallel == 1 and any("no test command was found" in note for note in staged.notes)


def test_a_story_is_done_once_more_where_a_person_says_so(tmp_path: Path) -> None:
    home, stage = without_git(tmp_path)
    team = home.team(stage(["1.2", "2.1"]).team)
    with pytest.raises(InvalidRequest, match="1-2-seeds cannot be done once more: it is not done"):
        stage(["1.2"], redo=True)
    finish(team, "1-2-seeds", "2-1-sun")
    home.settle_stories(team.name)
    assert [one.key for one in stage(["1.2"], redo=True, dry_run=True).redo] == ["1-2-seeds"]
    staged = stage(["1.2"], redo=True)
    assert [one.key for one in staged.redo] == ["1-2-seeds"] and staged.only == ("1-2-seeds",)
    states = {one.plan_key: one.state for one in team.tasks()}
    assert states["1-2-seeds"] != "done" and states["2-1-sun"] == "done"
    with pytest.raises(NotFound):
        stage(["9.9"], redo=True)


def test_a_retrospective_is_listed_with_its_epic_and_its_question(tmp_path: Path) -> None:
    home, stage = without_git(tmp_path)

    def listed() -> dict[str, tuple[str, list[str]]]:
        epics = home.stories(str(tmp_path / "app")).epics
        return {one.epic: (one.retrospective.status, one.retrospective.waits_for) for one in epics if one.retrospective}

    assert listed() == {"1": ("optional", ["1-1-beds", "1-2-seeds", "1-3-water"])}
    team = home.team(stage(epic="1").team)
    finish(team, "1-1-beds", "1-2-seeds", "1-3-water")
    assert listed() == {"1": ("optional", [])}
    task = next(one for one in team.tasks() if "Retrospective" in one.subject)
    team.claim(task.id, by="dev-1")
    team.ask(task.id, "Was it accepted?", by="dev-1")
    epic = home.stories(str(tmp_path / "app"), epic="1").epics[0]
    assert epic.retrospective is not None and epic.retrospective.status == "blocked" and epic.done
    assert "epic-1-retrospective waits for an answer: Was it accepted?" in epic.digest
    assert not home.stories(str(tmp_path / "app"), next=True).epics[0].retrospective


def test_a_plan_of_one_epic_brings_no_retrospective_of_another(tmp_path: Path) -> None:
    home, stage = without_git(tmp_path)
    team = home.team(stage(["1.1", "1.2"]).team)
    finish(team, "1-1-beds", "1-2-seeds")
    status = tmp_path / "app" / SPRINT
    status.write_text(status.read_text().replace("1-3-water: backlog", "1-3-water: done"))
    planned = stage(["2.1"])
    assert [one.key for one in planned.new] == ["2-1-sun"]
    assert not [one for one in team.tasks() if "Retrospective" in one.subject]


def test_a_done_story_that_the_status_file_does_not_list_is_not_done_again(tmp_path: Path) -> None:
    """Its list is that of a spec; the status file lists the stories of another one."""
    home, stage = without_git(tmp_path)
    folder = tmp_path / "app/_bmad-output/specs/spec-sky"
    folder.mkdir(parents=True)
    (folder / "SPEC.md").write_text("# Sky\n")
    (folder / "stories.yaml").write_text('- id: "1"\n  title: A\n')
    status = tmp_path / "app" / SPRINT
    before = status.read_text()
    team = home.team(stage(["sky-1"]).team)
    finish(team, "sky-1")
    assert home.settle_stories(team.name) == [] and status.read_text() == before
    with pytest.raises(InvalidRequest, match="No story is left"):
        stage(["sky-1"])


def test_a_story_that_was_done_stays_in_the_plan_without_what_it_waited_for_and_left_it(tmp_path: Path) -> None:
    home, stage = without_git(tmp_path)
    team = home.team(stage(["1.3"]).team)
    finish(team, "1-3-water")
    status = tmp_path / "app" / SPRINT
    status.write_text(re.sub("(1-[12]-[a-z]+): backlog", r"\1: done", status.read_text()))
    planned = stage(["2.1"])
    kept = [one.key for one in (*planned.unchanged, *planned.changed_started, *planned.updated)]
    assert [one.key for one in planned.new] == ["2-1-sun"] and kept == ["1-3-water", "epic-1-retrospective"]


def test_a_project_of_the_same_name_has_a_story_team_of_its_own(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    command, home = [sys.executable, AGENT], place.home
    assert home.stage_stories(str(place.root), agent="command", command=command).team == "app-stories"
    other = garden(tmp_path / "other" / "app")
    assert home.stage_stories(str(other), agent="command", command=command).team == "app-stories-2"
    assert [home.story_team(str(one)) for one in (place.root, other)] == ["app-stories", "app-stories-2"]
    for verb in (home.stage_stories, home.stories):
        with pytest.raises(TeamExists, match="works in"):
            verb(str(other), team="app-stories")


PLANNER = """import json, sys
asked = sys.stdin.read()
proposals = json.loads(open(sys.argv[1]).read())
told = "That cannot be used" in asked
with open(sys.argv[1] + ".asked", "a") as file:
    file.write(asked + chr(0))
print("I looked.", json.dumps({"dependencies": proposals[1 if told else 0]}))
"""


def entry(story: str, **depends_on: str) -> dict[str, Any]:
    return {"story": story, "depends_on": {key.replace("_", "-"): why for key, why in depends_on.items()}}


@pytest.mark.long
def test_an_agent_proposes_what_stories_wait_for_and_it_counts_once_it_is_accepted(tmp_path: Path) -> None:
    """It is asked of the stories alone of which nobody says it; a cycle is refused; explicit keys go before it."""
    place = Place(garden(tmp_path / "app"))
    answers = tmp_path / "answers.json"
    (tmp_path / "planner.py").write_text(PLANNER)
    sound = [entry("1-1-beds"), entry("2-1-sun", **{"1_2_seeds": "it needs seeds"})]
    answers.write_text(json.dumps([[entry("1-1-beds", **{"1_3_water": "x"}), entry("1-3-water")], sound]))
    planner = f"{sys.executable} {tmp_path / 'planner.py'} {answers}"
    before = place("list")
    assert place("plan", "--accept")["error"] == "not_found" and before["proposal"] is None
    done = place("plan", "--agent", planner)
    first, again = (tmp_path / "answers.json.asked").read_text().split("\0")[:2]
    assert "Say it of: 1-1-beds, 2-1-sun." in first
    for fault in ("1-3-water: leave it out", "2-1-sun is missing", "cycle: 1-1-beds -> 1-3-water -> 1-1-beds"):
        assert fault in again
    assert (done["accepted"], done["dependencies"]["2-1-sun"]) == (False, {"1-2-seeds": "it needs seeds"})
    assert place.listed() == {one["key"]: one for one in before["stories"]}, "nobody has accepted it"

    assert place("plan", "--accept")["accepted"]
    assert place.listed()["2-1-sun"]["reasons"] == {"1-2-seeds": "it needs seeds"}
    staged = place("run", "2-1-sun", "--agent", f"{sys.executable} {AGENT}", "--dry-run")
    assert staged["new"][:2] == ["1-2-seeds", "2-1-sun"], "what it waits for is done as well"
    (place.root / "interlock.workflows.yaml").write_text("stories:\n  dependencies:\n    2-1-sun: []\n")
    assert place.listed()["2-1-sun"]["depends_on"] == [], "what is written down goes before it"
    assert not place("plan", "--drop")["exit"] and place("list")["proposal"] is None


def test_a_proposal_that_cannot_be_used_is_refused_and_not_kept(tmp_path: Path) -> None:
    place = Place(garden(tmp_path / "app"))
    (tmp_path / "planner.py").write_text('print(\'{"dependencies": [{"story": "9-9"}]}\')')
    refused = place("plan", "--agent", f"{sys.executable} {tmp_path / 'planner.py'}")
    assert (refused["exit"], refused["error"]) == (1, "invalid_request") and "9-9: leave it out" in refused["message"]
    assert place("list")["proposal"] is None
