"""Checkpoints keep state and files; a rollback brings both back, leaves what others changed, and can be undone."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.clock import iso
from interlock.core.unit_of_work import Principal
from interlock.errors import CheckpointNotFound
from interlock.model.names import HUMAN
from interlock.workflow.errors import RollbackRefused, StateConflict
from interlock.workflow.package import files as frontmatter
from interlock.workflow.state import rollback_plan, step_tracking
from interlock.workflow.state.checkpoint_keeper import CheckpointKeeper
from interlock.workflow.state.document import CheckpointRow, WorkflowState
from interlock.workflow.state.rollback import Rollback
from interlock.workflow.state.snapshots import Snapshots
from tests.behaviours.workflow_place import NAMES, OUTPUT, StatePlace

PRD = f"{OUTPUT}/prd.md"
NOTES = f"{OUTPUT}/notes.txt"


def checkpoints_of(text: str) -> list[dict[str, object]]:
    """The checkpoints that a document's frontmatter lists."""
    listed = frontmatter.read(text, "document.md").values.get("checkpoints")
    return list(listed) if isinstance(listed, list) else []


def git(directory: Path, *words: str) -> str:
    who = ["-c", "user.name=User", "-c", "user.email=user@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *who, *words], cwd=directory, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class RollPlace(StatePlace):
    """A run that goes through steps, each of which writes files, by a keeper as the controller uses it."""

    def __init__(self, root: Path, *, worktree: bool = False) -> None:
        super().__init__(root)
        if worktree and not (self.project / ".git").exists():
            main = root / "main"
            main.mkdir()
            git(main, "init", "--quiet", "--initial-branch=main")
            (main / "src.py").write_text("print()\n")
            (main / ".gitattributes").write_text("*.bat text eol=crlf\n")
            (main / "run.bat").write_text("echo\n")
            git(main, "add", "--all")
            git(main, "commit", "--quiet", "--message", "first")
            self.project.rmdir()
            git(main, "worktree", "add", "--quiet", "-b", "interlock-work/flows/TASK-1", str(self.project))
        self.keeper = CheckpointKeeper()
        self.rolling = Rollback(self.workspace, Principal(HUMAN), self.states)

    def at(self) -> str:
        self.clock.advance(1)
        return iso(self.clock.now())

    def write(self, path: str, text: str | None) -> None:
        whole = self.project / path
        if text is None:
            whole.unlink(missing_ok=True)
        else:
            whole.parent.mkdir(parents=True, exist_ok=True)
            whole.write_text(text)

    def begin(self, state: WorkflowState, step: int) -> None:
        step_tracking.begin(state, step, NAMES[step], self.at())
        self.keeper.create(state, step=step, reason=f"before step {step}", at=self.at())
        self.save(state)

    def step(self, state: WorkflowState, step: int, **written: str | None) -> None:
        """One step that writes (or, with null, deletes) these files of the output folder."""
        self.begin(state, step)
        paths = []
        for name, text in written.items():
            path = f"{OUTPUT}/{name}.md"
            self.write(path, text)
            paths.append(path)
            if text is not None and path not in state.documents:
                state.documents.append(path)
        self.keeper.wrote(state, paths)
        step_tracking.complete(state, step, self.at(), files=paths)
        self.save(state)

    def tree(self) -> dict[str, bytes]:
        """Every file of the project that is not ours."""
        found = {}
        for path in sorted(self.project.rglob("*")):
            inside = path.relative_to(self.project).parts
            if path.is_file() and not {".git", ".workflow-state", ".rollback-archive"} & set(inside):
                found["/".join(inside)] = path.read_bytes()
        return found


@pytest.fixture(params=["files", "worktree"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RollPlace]:
    found = RollPlace(tmp_path, worktree=request.param == "worktree")
    yield found
    found.close()


def three_steps(place: RollPlace) -> WorkflowState:
    state = place.state()
    place.step(state, 1, prd="---\nstepsCompleted: [1]\n---\nOne\n")
    place.step(state, 2, prd="---\nstepsCompleted: [1, 2]\n---\nOne\nTwo\n", extra="made by 2\n")
    place.step(
        state,
        3,
        prd="---\nstepsCompleted: [1, 2, 3]\n---\nOne\nTwo\nThree\n",
        extra=None,
        late="made by 3\n",
        able="3\n",
    )
    return state


@pytest.mark.req("BMAD-3.6.1", "BMAD-3.6.3", "BMAD-3.6.4", "BMAD-E3.3", "BMAD-FR60", "BMAD-FR62")
def test_a_checkpoint_is_made_before_each_step_and_stands_in_the_document_too(place: RollPlace) -> None:
    state = three_steps(place)
    assert [(one["step_id"], one["step_name"], one["can_rollback"]) for one in state.checkpoints] == [
        (1, "Init", True), (2, "Discovery", True), (3, "Success", True),
    ]  # fmt: skip
    assert state.checkpoints[2]["state_snapshot"]["completed_steps"] == [1, 2]
    assert all(one["timestamp"] for one in state.checkpoints)
    place.begin(state, 4)
    text = (place.project / PRD).read_text()
    [*_, last] = checkpoints_of(text)
    assert last.items() >= {"step_id": 4, "can_rollback": True, "timestamp": state.checkpoints[-1]["timestamp"]}.items()
    assert last["state_snapshot"]["completed_steps"] == [1, 2, 3]
    assert text.startswith("---\nstepsCompleted: [1, 2, 3]\n") and text.endswith("---\nOne\nTwo\nThree\n")
    assert place.load().checkpoints == state.checkpoints
    place.begin(state, 4)
    again = checkpoints_of((place.project / PRD).read_text())
    assert [one["step_id"] for one in again] == [1, 2, 3, 4] and len(place.load().checkpoints) == 5, "one for each try"


@pytest.mark.req("BMAD-FR62")
def test_a_finished_document_lists_its_checkpoints_briefly_or_on_request_not_at_all(place: RollPlace) -> None:
    """B12: ten checkpoints took two kilobytes of every finished document."""
    state = place.state(steps=12)
    for step in range(1, 13):
        NAMES.setdefault(step, f"Step {step}")
        place.step(state, step, prd=f"---\ntitle: Plan\n---\n{step}\n", bare=f"{step}\n")
    place.begin(state, 12)
    text = (place.project / PRD).read_text()
    listed = checkpoints_of(text)
    assert len(listed) == 9 and len(text.encode()) < 1_400, "the last step was begun twice"
    assert all(set(one) == {"step_id", "timestamp", "can_rollback", "state_snapshot"} for one in listed)
    place.keeper.finished(state)
    assert (place.project / PRD).read_text() == text
    CheckpointKeeper(in_documents=False).finished(state)
    assert (place.project / PRD).read_text() == "---\ntitle: Plan\n---\n12\n"
    assert (place.project / OUTPUT / "bare.md").read_text() == "12\n"
    assert not rollback_plan.preview(state, rollback_plan.choose(state, 12)).asked, "the documents are still the run's"


@pytest.mark.req("BMAD-3.6.2")
def test_a_checkpoint_before_a_fix_is_one_of_its_own(place: RollPlace) -> None:
    state = three_steps(place)
    place.keeper.create(state, step=3, reason="before a fix of step 3", at=place.at())
    assert [one["step_id"] for one in state.checkpoints] == [1, 2, 3, 3]
    assert rollback_plan.choose(state, 3)["id"] == "cp-3", "the step's own, not the fix's"
    assert rollback_plan.choose(state, "cp-4")["reason"] == "before a fix of step 3"


@pytest.mark.req("BMAD-3.6.5", "BMAD-3.7.4")
def test_the_ten_newest_are_kept_and_what_was_pruned_is_explained(place: RollPlace) -> None:
    state = place.state(steps=12)
    for step in range(1, 13):
        NAMES.setdefault(step, f"Step {step}")
        place.step(state, step, prd=f"{step}\n")
    assert [one["step_id"] for one in state.checkpoints] == list(range(3, 13))
    with pytest.raises(CheckpointNotFound) as found:
        rollback_plan.choose(state, 2)
    assert "pruned due to age" in found.value.message and "recreate it by hand" in found.value.message
    assert found.value.details["nearest"]["step_id"] == 3
    with pytest.raises(CheckpointNotFound, match="never begun"):
        rollback_plan.choose(state, 99)
    done = place.rolling.to(state, rollback_plan.choose(state, 3))
    assert (place.project / PRD).read_text().endswith("2\n")
    assert done.state.completed_steps == [1, 2]
    with pytest.raises(CheckpointNotFound, match="was rolled back, and its checkpoint with it") as found:
        rollback_plan.choose(done.state, 7)
    assert "pruned" not in found.value.message and found.value.details["nearest"]["step_id"] == 3


@pytest.mark.req("BMAD-3.7.3", "BMAD-3.7.6", "BMAD-3.7.7", "BMAD-E3.4", "BMAD-FR61")
def test_a_rollback_brings_state_and_files_back_and_keeps_what_it_replaced(place: RollPlace) -> None:
    state = three_steps(place)
    user = place.project / "mine.txt"
    user.write_text("the user's\n")
    before = place.tree()
    done = place.rolling.to(state, rollback_plan.choose(state, 2))
    assert (place.project / PRD).read_text().endswith("---\nOne\n")
    assert not (place.project / OUTPUT / "extra.md").exists() and not (place.project / OUTPUT / "late.md").exists()
    assert user.read_text() == "the user's\n"
    found = place.load()
    assert (found.current_step, found.completed_steps, found.outcome) == (2, [1], None)
    assert [found.steps[f"step_{n}"].status for n in (1, 2, 3)] == ["completed", "rolled_back", "rolled_back"]
    assert [one["step_id"] for one in found.checkpoints] == [1, 2]
    archive = place.project / done.archive
    assert archive.parent == place.project / OUTPUT / ".rollback-archive"
    assert (archive / "files" / PRD).read_bytes() == before[PRD]
    assert (archive / "files" / OUTPUT / "late.md").read_text() == "made by 3\n"
    [event] = [one for one in place.team.events()[0] if one.type == "workflow.rolled_back"]
    assert event.payload["step"] == 2 and not event.payload["undo"]
    assert place.file(found)["current_step"] == 2
    place.step(found, 2, prd="another two\n")
    assert found.steps["step_2"].visit == 2, "its questions are not those of the visit that was undone"


def test_a_step_that_was_rolled_back_to_has_one_checkpoint(place: RollPlace) -> None:
    """B12: begun again it had two, in the state and in the document."""
    state = three_steps(place)
    state = place.rolling.to(state, rollback_plan.choose(state, 2)).state
    place.step(state, 2, prd="another two\n")
    place.begin(state, 3)
    assert [one["step_id"] for one in state.checkpoints] == [1, 2, 3]
    assert [one["step_id"] for one in checkpoints_of((place.project / PRD).read_text())] == [1, 2, 3]
    again = place.rolling.to(state, rollback_plan.choose(state, 2))
    assert (place.project / PRD).read_text().endswith("---\nOne\n") and again.left == []


def test_a_deleted_file_comes_back_with_its_mode(place: RollPlace) -> None:
    state = place.state()
    script = place.project / OUTPUT / "tool.md"
    place.step(state, 1, tool="#!/bin/sh\n")
    script.chmod(0o755)
    place.step(state, 2, prd="x\n")
    place.step(state, 3, tool=None)
    place.rolling.to(state, rollback_plan.choose(state, 3))
    assert script.read_text().endswith("#!/bin/sh\n") and script.stat().st_mode & 0o111 == 0o111


@pytest.mark.req("BMAD-3.7.2")
def test_a_preview_lists_what_would_be_done_and_changes_nothing(place: RollPlace) -> None:
    state = three_steps(place)
    place.write(f"{OUTPUT}/late.md", "made by 3, changed by the user\n")
    before, version = place.tree(), state.version
    found = rollback_plan.preview(state, rollback_plan.choose(state, 2))
    assert found.as_dict()["restored"] == [PRD]
    assert found.as_dict()["asked"] == [
        {"path": f"{OUTPUT}/late.md", "why": "changed since the run last wrote it", "possible": True}
    ]
    assert found.as_dict()["rolled_back"] == [2, 3]
    assert "Back to before step 2 (Discovery)" in found.text and "Left as they are, unless you agree" in found.text
    assert (place.tree(), place.load().version) == (before, version)


def test_what_the_user_changed_is_left_until_the_user_agrees(place: RollPlace) -> None:
    state = three_steps(place)
    late = place.project / OUTPUT / "late.md"
    late.write_text("the user's now\n")
    (place.project / PRD).write_text("rewritten by the user\n")
    point = rollback_plan.choose(state, 2)
    done = place.rolling.to(state, point)
    assert [one["path"] for one in done.left] == [f"{OUTPUT}/late.md", PRD]
    assert late.read_text() == "the user's now\n" and (place.project / PRD).read_text() == "rewritten by the user\n"
    undone = place.rolling.undo(done.state)
    again = place.rolling.to(undone.state, rollback_plan.choose(undone.state, 2), include=["*"])
    assert again.left == [] and not late.exists()
    assert (place.project / again.archive / "files" / OUTPUT / "late.md").read_text() == "the user's now\n"


@pytest.mark.req("BMAD-3.7.1")
@pytest.mark.parametrize("said", ["undo", "rollback", "Roll back.", "please undo"])
def test_undo_and_rollback_show_the_checkpoints_with_names_and_times(place: RollPlace, said: str) -> None:
    wish = rollback_plan.understood(said)
    assert wish is not None and wish.kind == "list"
    state = three_steps(place)
    text = rollback_plan.listed(state)
    assert all(f"{one['step_name']}  {one['timestamp']}" in text for one in state.checkpoints)
    assert [one["step_id"] for one in rollback_plan.available(state)] == [3, 2, 1]
    assert "no checkpoint yet" in rollback_plan.listed(place.state("other"))


@pytest.mark.parametrize(
    ("said", "kind", "step"),
    [
        ("rollback to step 3", "to", 3),
        ("Rollback to 3", "to", 3),
        ("please roll back to step 8a!", "to", "8a"),
        ("go back to step 2", "to", 2),
        ("undo to before step 4.", "to", 4),
        ("rollback to checkpoint cp-12", "to", "cp-12"),
        ("undo the rollback", "undo", None),
        ("undo rollback", "undo", None),
    ],
)
def test_what_a_message_asks_for(said: str, kind: str, step: int | str | None) -> None:
    assert rollback_plan.understood(said) == rollback_plan.Wish(kind, step)


@pytest.mark.parametrize("said", ["do not undo it", "the rollback plan of step 3 is missing", "", "undo step", "go on"])
def test_other_messages_are_left_alone(said: str) -> None:
    assert rollback_plan.understood(said) is None


@pytest.mark.req("BMAD-3.7.5")
def test_a_checkpoint_that_cannot_be_rolled_back_to_says_why_and_offers_others(place: RollPlace) -> None:
    state = three_steps(place)
    state.checkpoints[1] |= {"can_rollback": False, "why_not": "its files could not be kept: disk full"}
    with pytest.raises(RollbackRefused, match="disk full") as found:
        rollback_plan.choose(state, 2)
    assert [one["step_id"] for one in found.value.details["alternatives"]] == [3, 1]
    assert "Available are: step 3 (Success" in found.value.message


def test_files_that_cannot_be_kept_make_a_checkpoint_without_rollback(tmp_path: Path) -> None:
    place = RollPlace(tmp_path)
    state = place.state()
    (place.project / OUTPUT).mkdir()
    (place.project / OUTPUT / ".workflow-state").write_text("in the way")
    place.keeper.create(state, step=1, reason="before step 1", at=place.at())
    [only] = state.checkpoints
    assert not only["can_rollback"] and "could not be kept" in only["why_not"]
    place.close()


def as_in_version_0_1(folder: Path, checkpoint: CheckpointRow) -> str:
    """Keep the state of a checkpoint in an object of its own, which its commit names; the id of that."""

    def put(kind: str, data: bytes) -> str:
        whole = f"{kind} {len(data)}\0".encode() + data
        sha = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        (folder / sha[:2]).mkdir(exist_ok=True)
        (folder / sha[:2] / sha[2:]).write_bytes(zlib.compress(whole))
        return sha

    commit = checkpoint["files"]["commit"]
    said = zlib.decompress((folder / commit[:2] / commit[2:]).read_bytes()).partition(b"\0")[2]
    head, _, about = said.rpartition(b"\n\n")
    found = json.loads(about)
    found["state"] = put("blob", json.dumps(found["state"]).encode())
    checkpoint["files"]["commit"] = put("commit", head + b"\n\n" + json.dumps(found).encode() + b"\n")
    return str(found["state"])


def test_a_checkpoint_whose_state_is_an_object_of_its_own_is_gone_back_to(tmp_path: Path) -> None:
    place = RollPlace(tmp_path)
    state = three_steps(place)
    folder = place.project / OUTPUT / ".workflow-state" / f"{state.workflow_id}.git" / "objects"
    for one in state.checkpoints:
        as_in_version_0_1(folder, one)
    place.save(state)
    state = place.load()
    Snapshots(str(place.project), OUTPUT, state.workflow_id).forget_all_but(
        one["files"]["commit"] for one in state.checkpoints
    )
    place.rolling.to(state, rollback_plan.choose(state, 2))
    found = place.load()
    assert found.completed_steps == [1] and place.tree()[PRD].endswith(b"\nOne\n")
    place.close()


@pytest.mark.req("BMAD-3.7.8")
@pytest.mark.parametrize("damage", ["snapshot", "state", "manifest", "content"])
def test_a_damaged_checkpoint_changes_nothing_and_says_why(tmp_path: Path, damage: str) -> None:
    place = RollPlace(tmp_path)
    state = three_steps(place)
    point = state.checkpoints[1]
    folder = place.project / OUTPUT / ".workflow-state" / f"{state.workflow_id}.git" / "objects"
    if damage == "snapshot":
        point["state_snapshot"] = None  # as one of schema 1 that could not be read
    elif damage == "state":
        kept_state = as_in_version_0_1(folder, point)
        (folder / kept_state[:2] / kept_state[2:]).unlink()
    elif damage == "manifest":
        commit = point["files"]["commit"]
        (folder / commit[:2] / commit[2:]).unlink()
    else:
        for kept in folder.glob("*/*"):
            if kept.parent.name + kept.name not in [one["files"]["commit"] for one in state.checkpoints]:
                kept.chmod(0o600)
                kept.write_bytes(zlib.compress(b"blob 7\0damaged"))
    before, version = place.tree(), place.load().version
    with pytest.raises(RollbackRefused, match="damaged") as found:
        place.rolling.to(state, point)
    assert "Nothing was changed" in found.value.message
    assert (place.tree(), place.load().version) == (before, version)
    place.close()


def test_a_rollback_that_fails_halfway_is_taken_back(place: RollPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    from interlock.errors import StorageError
    from interlock.workflow.state import files

    state = three_steps(place)
    before = place.tree()
    drop, calls = files.drop, []

    def fails(path: str) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise StorageError("no space left on device")
        drop(path)

    with monkeypatch.context() as patched:
        patched.setattr(files, "drop", fails)
        with pytest.raises(RollbackRefused, match="as they were before"):
            place.rolling.to(state, rollback_plan.choose(state, 2))
    assert place.tree() == before
    found = place.load()
    assert (found.current_step, found.completed_steps, found.rollbacks) == (3, [1, 2, 3], [])


def test_what_no_copy_is_kept_of_is_listed_and_never_removed(tmp_path: Path) -> None:
    place = RollPlace(tmp_path)
    place.write(".env", "SECRET=1\n")
    place.write("dist/old.js", "old\n")
    state = three_steps(place)
    place.write("dist/old.js", "new\n")
    place.write(".env", "SECRET=2\n")
    place.keeper.wrote(state, ["dist/old.js", ".env"])
    place.save(state)
    found = rollback_plan.preview(state, rollback_plan.choose(state, 2), include=["*"])
    assert [(one.path, one.why, one.possible) for one in found.asked] == [
        (".env", rollback_plan.UNCOVERED, False), ("dist/old.js", rollback_plan.UNCOVERED, False),
    ]  # fmt: skip
    place.rolling.to(state, rollback_plan.choose(state, 2), include=["*"])
    assert (place.project / ".env").read_text() == "SECRET=2\n"
    assert (place.project / "dist" / "old.js").read_text() == "new\n"
    kept = place.project / OUTPUT / ".workflow-state" / f"{state.workflow_id}.git"
    objects = [zlib.decompress(one.read_bytes()) for one in kept.glob("objects/*/*")]
    assert objects and not any(b"SECRET" in one for one in objects)
    assert kept.stat().st_mode & 0o777 == 0o700
    place.close()


def test_somebody_elses_write_of_the_state_stops_it_before_any_file(place: RollPlace) -> None:
    state = three_steps(place)
    place.save(place.load())
    before = place.tree()
    with pytest.raises(StateConflict):
        place.rolling.to(state, rollback_plan.choose(state, 2))
    assert place.tree() == before
    assert list((place.project / OUTPUT / ".rollback-archive").iterdir()) == []


def test_an_interrupted_step_begins_again_from_its_files(place: RollPlace) -> None:
    state = three_steps(place)
    place.begin(state, 4)
    whole = place.tree()
    place.write(PRD, "half of a step\n")
    place.write(f"{OUTPUT}/mine.md", "the user's\n")
    assert place.keeper.restore(state) in ([], [f"{OUTPUT}/mine.md"])
    found = place.tree()
    assert found.pop(f"{OUTPUT}/mine.md", b"the user's\n") == b"the user's\n"
    assert found == whole
    assert place.keeper.restore(place.state("other")) is None


@pytest.mark.parametrize("worktree", [False, True], ids=["checkout", "worktree"])
def test_nothing_of_the_users_repository_is_touched(tmp_path: Path, worktree: bool) -> None:
    """Neither branch nor index, whatever its configuration, hooks and attributes say; and every byte comes back."""
    place = RollPlace(tmp_path, worktree=worktree)
    if not worktree:
        git(place.project, "init", "--quiet", "--initial-branch=interlock-work/mine")
        (place.project / "a.py").write_text("a\n")
        git(place.project, "add", "--all")
        git(place.project, "commit", "--quiet", "--message", "first")
    loud = tmp_path / "loud"
    loud.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    loud.chmod(0o755)
    for name, value in (("core.autocrlf", "true"), ("core.hooksPath", str(tmp_path)), ("filter.loud.clean", str(loud)),
                        ("filter.loud.smudge", str(loud)), ("filter.loud.required", "true")):  # fmt: skip
        git(place.project, "config", name, value)
    (place.project / ".gitattributes").write_text("* filter=loud text eol=crlf ident\n")
    (place.project / ".gitignore").write_text("*.md\n")
    index = Path(git(place.project, "rev-parse", "--absolute-git-dir")) / "index"
    head, staged = git(place.project, "rev-parse", "HEAD"), index.read_bytes()
    state = place.state()
    place.step(state, 1, prd="One\n", data="x")
    raw = bytes(range(256)) + b"\r\n$Id$\n"
    (place.project / OUTPUT / "data.md").write_bytes(raw)
    (place.project / OUTPUT / "data.md").chmod(0o600)
    place.keeper.wrote(state, [f"{OUTPUT}/data.md"])
    state.documents.clear()
    place.step(state, 2, data=None)
    before = place.tree()
    done = place.rolling.to(state, rollback_plan.choose(state, 2))
    back = place.project / OUTPUT / "data.md"
    assert back.read_bytes() == raw and back.stat().st_mode & 0o777 == 0o600
    place.rolling.undo(done.state)
    assert place.tree() == before
    assert (git(place.project, "rev-parse", "HEAD"), index.read_bytes()) == (head, staged)
    assert not (tmp_path / "ran").exists()
    assert ".git/" not in git(place.project, "add", "--all", "--dry-run").replace(".gitattributes", "")
    place.close()


def test_a_file_that_nobody_of_the_run_wrote_is_asked_about_in_a_worktree_too(tmp_path: Path) -> None:
    place = RollPlace(tmp_path, worktree=True)
    state = three_steps(place)
    (place.project / "theirs.py").write_text("theirs\n")
    git(place.project, "add", "theirs.py")
    git(place.project, "commit", "--quiet", "--message", "a person's")
    found = rollback_plan.preview(state, rollback_plan.choose(state, 2))
    assert [(one.path, one.why) for one in found.asked] == [("theirs.py", rollback_plan.NOT_THE_RUNS)]
    place.rolling.to(state, rollback_plan.choose(state, 2))
    assert (place.project / "theirs.py").read_text() == "theirs\n"
    place.close()


@pytest.mark.parametrize("kept_by", [{"kind": "files", "manifest": "0" * 64}, {"kind": "git", "commit": "0" * 40}])
def test_a_checkpoint_of_an_earlier_version_is_refused_and_the_run_goes_on(
    tmp_path: Path, kept_by: dict[str, str]
) -> None:
    place = RollPlace(tmp_path)
    state = three_steps(place)
    for one in state.checkpoints:
        one["files"] = kept_by
    place.save(state)
    state = place.load()
    before = place.tree()
    with pytest.raises(RollbackRefused, match="earlier version of Interlock"):
        place.rolling.to(state, rollback_plan.choose(state, 2))
    assert place.tree() == before and place.keeper.restore(state) is None
    place.begin(state, 4)
    place.write(PRD, "half of a step\n")
    assert place.keeper.restore(state) == [] and place.tree()[PRD] != b"half of a step\n"
    archived = place.project / OUTPUT / ".rollback-archive" / "old"
    archived.mkdir(parents=True)
    (archived / "rollback.json").write_text('{"source": {"kind": "files"}, "items": []}')
    noted = {"at": "", "archive": "old", "step": 2, "kind": "rollback", "checkpoint": "cp-9", "files": "done"}
    state.rollbacks = [noted]
    with pytest.raises(RollbackRefused, match="earlier version of Interlock"):
        place.rolling.undo(state)
    place.close()


def test_any_git_reads_the_snapshots_and_none_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, state = RollPlace(tmp_path), None
    for name in ("a b.txt", "ä\nö.txt", "x/1.txt", "x.y/2.txt", "x-z", "deep/er/3.txt"):
        place.write(name, name)
    (place.project / "x-z").chmod(0o755)
    state = place.state()
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        place.begin(state, 1)
    kept = place.project / OUTPUT / ".workflow-state" / f"{state.workflow_id}.git"
    commit = state.checkpoints[-1]["files"]["commit"]
    git(kept, "fsck", "--strict", "--full", commit)
    listed = git(kept, "ls-tree", "-r", "-z", commit).split("\0")
    assert sorted(one.partition("\t")[2] for one in listed if one) == sorted(place.tree())
    assert [one.split("\t")[1] for one in listed if one.startswith("100755")] == ["x-z"]
    assert git(kept, "show", f"{commit}:deep/er/3.txt") == "deep/er/3.txt"
    place.close()


def test_a_change_that_the_times_of_a_file_do_not_show_is_in_the_next_snapshot(tmp_path: Path) -> None:
    place = RollPlace(tmp_path)
    state = place.state()
    for step, text in ((1, "One\n"), (2, "Two\n"), (3, "Six\n")):
        place.write("same.txt", text)
        os.utime(place.project / "same.txt", ns=(0, 0))
        place.begin(state, step)
    kept = place.project / OUTPUT / ".workflow-state" / f"{state.workflow_id}.git"
    shown = [git(kept, "show", f"{one['files']['commit']}:same.txt") for one in state.checkpoints]
    assert shown == ["One", "Two", "Six"]
    place.close()


def test_what_only_old_checkpoints_need_is_dropped(tmp_path: Path) -> None:
    place = RollPlace(tmp_path)
    state = place.state(steps=40)
    kept = place.project / OUTPUT / ".workflow-state" / f"{state.workflow_id}.git"
    sizes = []
    for step in range(1, 41):
        NAMES.setdefault(step, f"Step {step}")
        place.step(state, step, prd=f"{step}\n" * 1000)
        sizes.append(sum(1 for one in kept.joinpath("objects").rglob("*") if one.is_file()))
    assert sizes[39] <= sizes[29] <= sizes[19], "the tenth drops what the ten before needed"
    assert place.rolling.to(state, rollback_plan.choose(state, 31)).left == []
    assert (place.project / PRD).read_text().endswith("30\n")
    place.close()


def test_undoing_what_has_gone_on_since_is_refused(place: RollPlace) -> None:
    state = three_steps(place)
    with pytest.raises(RollbackRefused, match="no rollback"):
        place.rolling.undo(state)
    found = place.rolling.to(state, rollback_plan.choose(state, 2)).state
    place.step(found, 2, prd="another two\n")
    place.begin(found, 3)
    with pytest.raises(RollbackRefused, match="gone on since"):
        place.rolling.undo(found)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.behaviours.test_workflow_rollback import RollPlace
from interlock.workflow.state import archive, rollback_plan
place = RollPlace(Path(sys.argv[1]), worktree=sys.argv[3] == "worktree")
state = place.load()
def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
def after(times):
    real, count = archive.sha_of, [0]
    def counted(*given):
        count[0] += 1
        if count[0] > times: die()
        return real(*given)
    return counted
if sys.argv[2] == "before the files":
    archive.Archive.carry_out = die
elif sys.argv[2] == "after the files":
    real = archive.Archive.carry_out
    def done(*given): real(*given); die()
    archive.Archive.carry_out = done
else:
    archive.sha_of = after(int(sys.argv[2]))
place.rolling.to(state, rollback_plan.choose(state, 2))
"""


@pytest.mark.parametrize("kind", ["files", "worktree"])
@pytest.mark.parametrize("where", ["before the files", "1", "2", "after the files"])
def test_a_killed_rollback_is_finished_by_whoever_comes_next(tmp_path: Path, where: str, kind: str) -> None:
    place = RollPlace(tmp_path, worktree=kind == "worktree")
    three_steps(place)
    before = place.tree()
    place.close()
    path = os.pathsep.join(one for one in sys.path if one)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), where, kind], env={**os.environ, "PYTHONPATH": path},
        timeout=100, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    later = RollPlace(tmp_path, worktree=kind == "worktree")
    state = later.load()
    assert state.rollbacks[-1]["files"] == "pending"
    assert later.rolling.finish(state) == []
    assert (later.project / PRD).read_text().endswith("---\nOne\n")
    assert not (later.project / OUTPUT / "late.md").exists()
    assert later.rolling.finish(later.load()) == []
    later.rolling.undo(later.load())
    assert later.tree() == before
    later.close()


NAMED = st.sampled_from(["prd", "extra", "late", "deep/er/one", "ümlaut"])
TEXT = st.none() | st.text(max_size=30).map(lambda text: text.replace("\r", ""))
STEP = st.dictionaries(NAMED, TEXT, max_size=3)


@pytest.mark.long
@pytest.mark.parametrize("worktree", [False, True], ids=["files", "worktree"])
@given(
    steps=st.lists(STEP, min_size=2, max_size=4),
    user=st.dictionaries(NAMED | st.sampled_from(["own", "prd", "late"]), TEXT, max_size=2),
    target=st.integers(1, 4),
)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_rollback_then_undo_gives_the_same_bytes_and_the_users_files_are_never_touched(
    tmp_path_factory: pytest.TempPathFactory,
    worktree: bool,
    steps: list[dict[str, str | None]],
    user: dict[str, str | None],
    target: int,
) -> None:
    place = RollPlace(tmp_path_factory.mktemp("roll"), worktree=worktree)
    try:
        state = place.state()
        for number, written in enumerate(steps, 1):
            place.step(state, number, **written)
        mine = place.tree()
        for name, text in user.items():
            place.write(f"{OUTPUT}/{name}.md", text)
        before, document = place.tree(), state.as_dict()
        changed = {path for path in {*before, *mine} if before.get(path) != mine.get(path)}
        done = place.rolling.to(state, rollback_plan.choose(state, min(target, len(steps))))
        after = place.tree()
        assert {path: after.get(path) for path in changed} == {path: before.get(path) for path in changed}
        undone = place.rolling.undo(done.state)
        assert undone.left == [] and place.tree() == before
        volatile = ("version", "updated_at", "rollbacks")
        found = place.load().as_dict()
        assert {k: v for k, v in found.items() if k not in volatile} == {
            k: v for k, v in document.items() if k not in volatile
        }
    finally:
        place.close()
