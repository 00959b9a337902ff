"""An epic of the newest package, implemented story by story: rendered `bmad-build-auto` by folder and id."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from interlock.workflow.stories import spec
from scripts.pinned import THIRD
from tests.corpus.conftest import Corpus
from tests.corpus.test_runs import sources
from tests.surfaces.http.harness import Server
from tests.workflow.test_stories import AGENT, Place, commit

FOLDER = "_bmad-output/specs/spec-garden"
LIST = """- id: "1"
  title: Beds
  description: Beds that plants are in.
- id: "2"
  title: Seeds
  description: "Dependencies: none"
- id: "3"
  title: Water
  description: "Depends on: story 1"
  invoke_dev_with: Use the pump that is there.
"""


def project(corpus: Corpus, tmp_path: Path, stories: str = LIST, **variables: str) -> Place:
    root = corpus.copy(THIRD, tmp_path / "project")
    folder = root / FOLDER
    folder.mkdir(parents=True)
    (folder / "SPEC.md").write_text("# The garden\n\nBeds, seeds, water.\n")
    (folder / "stories.yaml").write_text(stories)
    (root / "src").mkdir()
    (root / "src/log.py").write_text("LOG = []\n")
    (root / "interlock.workflows.yaml").write_text("stories:\n  verify: 'test -d src'\n")
    commit(root)
    return Place(root, **variables)


@pytest.mark.long
def test_an_epic_is_implemented_by_folder_and_id(corpus: Corpus, tmp_path: Path) -> None:
    place = project(corpus, tmp_path)
    before = sources(place.root)
    waits = {key: one["depends_on"] for key, one in place.listed().items()}
    assert waits == {"garden-1": [], "garden-2": [], "garden-3": ["garden-1"]}
    done = place("run", "--epic", "garden", "--agent", f"{sys.executable} {AGENT}", "--parallel", "2", "--unattended")
    assert done["exit"] == 0, done
    stories = place.listed()
    assert {(one["status"], one["inputs"]) for one in stories.values()} == {("done", 0)}
    branch = f"interlock/{done['team']}"
    files = place.integrated("ls-tree", "-r", "--name-only", branch).splitlines()
    assert {f"src/garden-{id}.py" for id in "123"} <= set(files)
    assert {f"{FOLDER}/stories/{id}-made.md" for id in "123"} <= set(files)
    assert place.integrated("show", f"{branch}:{FOLDER}/stories.yaml") == LIST
    again = place("run", "--all", "--agent", f"{sys.executable} {AGENT}", "--dry-run")
    assert again["message"].startswith("No story is left"), (
        "its records are not merged yet, and it is done all the same"
    )
    assert sources(place.root) == before and not [one for one in files if "_bmad/render/bmad" in one]
    team = place.home.team(done["team"])
    runs = [one for one in team.workflow_runs() if one["skill"] == "/bmad-build-auto"]
    assert [one["completed_steps"][:4] for one in runs] == [[1, 2, 3, 4]] * 3
    assert all(one["examinations"]["build_result"]["rounds"][-1]["verdict"] == "approve" for one in runs)
    deferred = [one for one in team.tasks() if "fingerprint" in one.metadata]
    assert len(deferred) == 1, "the same finding of three stories is one task"
    assert sorted(deferred[0].metadata["found_by"]) == ["garden-1", "garden-2", "garden-3"]
    assert deferred[0].assignee == "lead" and "Where: src/log.py:3" in deferred[0].body


@pytest.mark.long
def test_a_review_is_followed_up_where_it_is_recommended_and_what_was_deferred_is_swept_up(
    corpus: Corpus, tmp_path: Path
) -> None:
    place = project(corpus, tmp_path)
    agent = f"{sys.executable} {AGENT} follow:garden-2"
    done = place("run", "garden-1", "garden-2", "--agent", agent, "--parallel", "2", "--unattended")
    assert done["exit"] == 0, done
    team = place.home.team(done["team"])
    reviewed = {
        one["plan"]["values"]["story"]: set(one["examinations"]["code_review"]["rounds"][-1]["reports"])
        for one in team.workflow_runs()
    }
    assert {key: len(labels) for key, labels in reviewed.items()} == {"garden-1": 1, "garden-2": 4}, reviewed
    (deferred,) = place("list")["deferred"]
    shown = place("sweep", "--agent", agent, "--dry-run")
    assert shown["new"] == [f"deferred-{deferred.removeprefix('task-')}"] and team.task(deferred).plan_key is None
    assert place("sweep", "task-1", "--agent", agent)["exit"] == 1
    refused = place("sweep", "--agent", "no-such-program")
    assert refused["exit"] and team.task(deferred).plan_key is None, "what is refused has taken nothing up"
    swept = place("sweep", "--agent", agent, "--unattended")
    assert swept["exit"] == 0, swept
    task = team.task(deferred)
    assert task.state == "done" and task.metadata["found_by"] and task.subject == "The log is too long"
    (run,) = [one for one in team.workflow_runs() if one["plan"]["values"]["story"].startswith("deferred")]
    assert run["examinations"]["build_result"]["rounds"][-1]["verdict"] == "approve"
    assert run["examinations"]["project_check"]["rounds"][-1]["verdict"] == "approve"
    assert "LOG = []  # " in place.integrated("show", f"interlock/{team.name}:src/log.py")
    again = place("sweep", "--agent", agent)
    assert again["exit"] == 1 and "No finding" in again["message"], again
    assert place("run", "--all", "--agent", agent, "--dry-run")["new"][0] == "garden-3"
    assert team.task(deferred).state == "done"


@pytest.mark.long
def test_a_build_that_says_done_and_has_written_nothing_is_sent_back(corpus: Corpus, tmp_path: Path) -> None:
    place = project(corpus, tmp_path)
    agent = f"{sys.executable} {AGENT} empty:garden-2"
    done = place("run", "garden-2", "--agent", agent, "--parallel", "1", "--unattended")
    assert done["exit"] == 0, done
    team = place.home.team(done["team"])
    (run,) = [one for one in team.workflow_runs() if one["skill"] == "/bmad-build-auto"]
    rounds = run["examinations"]["build_result"]["rounds"]
    assert [one["verdict"] for one in rounds] == ["changes_requested", "approve"]
    assert "nothing but its record was changed" in rounds[0]["summary"]


@pytest.mark.long
def test_a_build_that_halts_asks_and_its_answer_takes_it_on(corpus: Corpus, tmp_path: Path) -> None:
    place = project(corpus, tmp_path)
    agent = f"{sys.executable} {AGENT} halts:garden-1"
    done = place("run", "--all", "--agent", agent, "--parallel", "2", "--unattended")
    stories = place.listed()
    assert done["exit"] == 1 and stories["garden-1"]["status"] == "blocked"
    assert stories["garden-2"]["status"] == "done" and stories["garden-3"]["waits_for"] == ["garden-1"]
    team = place.home.team(done["team"])
    (question,) = team.questions()
    assert "unclear intent" in question.text
    team.acting("human", person=True).reply(question.task_id, "The first one.", question=question.id)
    assert place("run", "--all", "--agent", agent, "--parallel", "2", "--unattended")["exit"] == 0
    assert place.listed()["garden-1"]["inputs"] == 1


@pytest.mark.long
def test_a_person_looks_at_a_plan_before_it_is_implemented_and_at_the_end_before_anything_else(
    corpus: Corpus, tmp_path: Path
) -> None:
    """Finding W15: both paused after the finished work; finding W1: the words reached nobody."""
    listed = LIST.replace('- id: "2"', '  spec_checkpoint: true\n  done_checkpoint: true\n- id: "2"')
    place = project(corpus, tmp_path, listed)
    words = ("run", "--all", "--agent", f"{sys.executable} {AGENT}", "--parallel", "3", "--unattended")
    assert place.listed()["garden-2"]["depends_on"] == ["garden-1"], "though it says that it waits for nothing"
    assert place(*words)["exit"] == 1
    team = place.home.team(place("list")["team"])

    def states() -> dict[str, str]:
        return {one.subject.partition(":")[0]: one.state for one in team.tasks() if one.plan_key}

    assert states() == {
        "Plan of story garden-1": "review", "Story garden-1": "backlog", "Story garden-2": "backlog",
        "Story garden-3": "backlog", "Retrospective of epic garden": "backlog",
    }  # fmt: skip
    person = team.acting("human", person=True)

    def answer(subject: str, text: str) -> None:
        (question,) = team.questions()
        assert next(one for one in team.tasks() if one.id == question.task_id).subject.startswith(subject)
        person.reply(question.task_id, text, question=question.id)

    answer("Plan of story garden-1", "changes: call it a market")
    assert place(*words)["exit"] == 1
    assert states()["Plan of story garden-1"] == "review" and states()["Story garden-1"] == "backlog"
    answer("Plan of story garden-1", "approve")
    assert place(*words)["exit"] == 1
    assert "A market." in place.integrated("show", f"interlock/{team.name}:{FOLDER}/stories/1-made.md")
    assert states()["Story garden-1"] == "review" and states()["Story garden-2"] == "backlog"
    answer("Story garden-1", "changes: call it a shop")
    assert place(*words)["exit"] == 1
    answer("Story garden-1", "approve")
    assert place(*words)["exit"] == 0, [one.text for one in team.questions()]
    branch = f"interlock/{team.name}"
    assert place.integrated("show", f"{branch}:src/garden-1.py") == "NAME = 'shop'\n"
    assert "status: done" in place.integrated("show", f"{branch}:{FOLDER}/stories/1-made.md")


@pytest.mark.long
@pytest.mark.parametrize("word", ["The first one.", "retry", "skip"])
def test_a_halt_in_the_middle_is_asked_with_what_its_record_says_and_is_nobodys_to_answer(
    corpus: Corpus, tmp_path: Path, word: str
) -> None:
    place = project(corpus, tmp_path)
    words = (
        "run",
        "garden-2",
        "--agent",
        f"{sys.executable} {AGENT} stops:garden-2",
        "--parallel",
        "1",
        "--unattended",
    )
    assert place(*words)["exit"] == 1
    team = place.home.team(place("list")["team"])
    (question,) = team.questions()
    assert "Which of the two layouts is meant?" in question.text
    assert f"{FOLDER}/stories/2-made.md says why: unclear intent" in str(question.context)
    assert list(question.options) == ["retry", "skip", "stop"]
    (run,) = team.workflow_runs()
    assert [one["kind"] for one in run["decisions"] if one["kind"] in ("question", "ask")] == ["ask"], (
        "nobody invents it"
    )
    team.acting("human", person=True).reply(question.task_id, word, question=question.id)
    done = place(*words)
    assert done["exit"] == 0, (done, [one.text for one in team.questions()])


@pytest.mark.long
def test_an_intent_gap_is_answered_with_that_its_reading_was_right(corpus: Corpus, tmp_path: Path) -> None:
    """Its attempt was reverted and kept as a patch: one press applies it, and the record is reviewed."""
    place = project(corpus, tmp_path)
    words = ("run", "garden-1", "--agent", f"{sys.executable} {AGENT} gap:garden-1", "--parallel", "1", "--unattended")
    done = place(*words)
    team = place.home.team(done["team"])
    (question,) = team.questions()
    assert done["exit"] == 1 and list(question.options) == ["that reading was right", "retry", "skip", "stop"]
    assert "intent gap" in question.text and "Beds were read as raised beds" in question.text
    planner = tmp_path / "planner.py"
    planner.write_text("""print('{"dependencies": [{"story": "garden-1"}]}')""")
    assert not place("plan", "--agent", f"{sys.executable} {planner}")["accepted"]
    server = Server(place.home_path)
    try:
        browser = server.browser()
        browser.headers["accept"] = "text/html"
        path = f"/projects/{team.name}/tasks/{question.task_id}"
        shown = browser.call("GET", path).body.decode()
        assert 'name="choice" value="that reading was right"' in shown
        stories = browser.call("GET", f"/projects/{team.name}/stories").body.decode()
        assert "proposes (not accepted yet): garden-1 waits for nothing" in stories, "people see what an agent proposes"
        assert "0 of 3 done." in stories and "garden-1 waits for an answer: Result of the build of" in stories
    finally:
        server.close()  # It would take the story up itself, and be ended in the middle of it.
    team.acting("human", person=True).reply(question.task_id, "that reading was right", question=question.id)
    assert place(*words)["exit"] == 0
    branch = f"interlock/{done['team']}"
    assert place.integrated("show", f"{branch}:src/garden-1.py") == "NAME = 'garden-1'\n"
    assert "status: done" in place.integrated("show", f"{branch}:{FOLDER}/stories/1-made.md")
    assert place.listed()["garden-1"]["inputs"] == 1


CONDITIONS = (
    "unclear intent", "intent gap", "no subagents", "missing spec_file before implementation",
    "implementation verification failed", "review repair loop exceeded 5 iterations (non-convergence)",
    "blocked spec supplied", "no stories.yaml found", "story id not found in stories.yaml", "no epic spec found",
    "ambiguous story file match", "unrecognized status in existing story file", "story already blocked",
)  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_each_blocking_condition_is_a_question_that_names_it(tmp_path: Path, condition: str) -> None:
    record = tmp_path / "specs/stories/1-made.md"
    record.parent.mkdir(parents=True)
    record.write_text(
        f"---\nstatus: blocked\n---\n# X\n\n## Auto Run Result\n\nStatus: blocked\nBlocking condition: {condition}\n"
    )
    found = spec.examined(str(tmp_path), {"spec_folder": "specs", "story_id": "1"}, {}, [], [])
    assert (found.verdict, found.summary) == ("blocked", condition)


@pytest.mark.parametrize("status", ["draft", "ready-for-dev", "in-progress", "in-review", "", "finished"])
def test_a_record_that_is_not_done_is_no_result(tmp_path: Path, status: str) -> None:
    record = tmp_path / "specs/stories/1-made.md"
    record.parent.mkdir(parents=True)
    record.write_text(f"---\nstatus: {status}\n---\n# X\n")
    found = spec.examined(str(tmp_path), {"spec_folder": "specs", "story_id": "1"}, {}, [], [])
    assert found.verdict == "changes_requested" and f"{status or 'no status'}, not done" in found.summary
    (record.parent / "1-other.md").write_text(record.read_text())
    found = spec.examined(str(tmp_path), {"spec_folder": "specs", "story_id": "1"}, {}, [], [])
    assert found.summary == "several files match the story's id"


def test_deferred_findings_are_read_as_upstream_writes_them(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "---\nstatus: done\nfollowup_review_recommended: true\nbaseline_revision: abc\ndeferred:\n  - summary: >-\n"
        "      One: two\n    evidence: |-\n      Seen\n    severity: medium (unverified)\n  - Nonsense\n---\n# X\n"
    )
    read = spec.read(str(tmp_path), "a.md")
    assert [(one.summary, one.severity) for one in read.deferred] == [("One: two", "medium"), ("Nonsense", "medium")]
    assert read.followup


def test_what_a_record_says_of_itself_is_compared_with_what_was_changed(tmp_path: Path) -> None:
    record = tmp_path / "specs/stories/1-made.md"
    record.parent.mkdir(parents=True)
    text = "---\nstatus: done\nbaseline_revision: NO_VCS\n---\n# X\n\n"
    text += "## Tasks\n\n- [ ] More\n\n## Auto Run Result\n\nOk.\n"
    record.write_text(text)
    values, own = {"spec_folder": "specs", "story_id": "1"}, "specs/stories/1-made.md"
    found = spec.examined(str(tmp_path), values, {}, [], [own])
    assert "1 tasks are open: More" in found.summary and "nothing but its record was changed" in found.summary
    record.write_text(text.replace("[ ]", "[x]"))
    assert spec.examined(str(tmp_path), values, {}, [], [own, "code.py"]).verdict == "approve"


def test_another_storys_record_and_the_status_file_are_no_evidence(tmp_path: Path) -> None:
    """Of a project with `sprint-status.yaml`: a build that wrote nothing but its status, beside an earlier story's."""
    folder = tmp_path / "_bmad-output"
    folder.mkdir()
    record = "---\nstatus: done\n---\n# X\n\n## Auto Run Result\n\nOk.\n"
    (folder / "spec-1-1-store.md").write_text(record)
    status = "_bmad-output/sprint-status.yaml"
    (tmp_path / status).write_text("development_status:\n  1-2-listing: review\n")
    found = spec.examined(str(tmp_path), {"story": "1-2-listing"}, {}, [], [status])
    assert (found.verdict, found.summary) == ("changes_requested", "there is no record of the build")
    own = "_bmad-output/spec-1-2-listing.md"
    (tmp_path / own).write_text(record)
    found = spec.examined(str(tmp_path), {"story": "1-2-listing"}, {}, [own], [status, own])
    assert found.summary == "nothing but its record was changed"
    assert spec.examined(str(tmp_path), {"story": "1-2-listing"}, {}, [], [status, own, "a.py"]).verdict == "approve"
