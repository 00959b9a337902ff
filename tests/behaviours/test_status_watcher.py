"""Status files of a project are watched and written: nothing told twice, nothing missed, nothing else changed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.errors import ConfigParseError, NotFound
from interlock.workflow.errors import StateConflict
from interlock.workflow.state import status_file
from interlock.workflow.state.sprint_status_watcher import (
    Cycling,
    FileChanges,
    SprintStatusWatcher,
    StatusChange,
    StatusEvents,
)
from tests.behaviours.workflow_place import StatePlace

SPRINT = """# written by sprint-planning, keep this comment
generated: 05-06-2-2025 21:30
project: 'My: Project'

development_status:
  epic-1: in-progress   # the first
  1-1-login: done
  1-2-account: "ready-for-dev"  # quoted

  1-3-model: backlog
  epic-1-retrospective: optional
"""
WORKFLOW = """project: x
workflow_status:
  # Phase 1
  - id: product-brief
    status: docs/brief.md
  - id: "prd"
    status: required # next
  - {id: ux, status: conditional}
"""


class Script:
    """A source of changes that a test writes: at which second which file gets which content."""

    def __init__(self, path: str, *writes: tuple[float, dict[str, str]], until: float = 200.0) -> None:
        self.path, self.until = path, until
        self._writes = list(writes)
        self._now = 0.0
        self.files: dict[str, dict[str, str]] = {path: {}}

    def now(self) -> float:
        return self._now

    async def changed(self, timeout: float) -> bool:
        if self._now >= self.until:
            raise EOFError
        if self._writes and self._writes[0][0] <= self._now + timeout:
            at, statuses = self._writes.pop(0)
            self._now = max(self._now, at)
            self.files[self.path] = {**self.files[self.path], **statuses}
            return True
        self._now += timeout
        return False

    def watch(self) -> tuple[SprintStatusWatcher, list[tuple[float, StatusChange]], list[Cycling]]:
        told: list[tuple[float, StatusChange]] = []
        warned: list[Cycling] = []
        watcher = SprintStatusWatcher(
            [self.path], self, lambda found: told.extend((self._now, one) for one in found), warned.append,
            read=self.files.get,
        )  # fmt: skip
        with suppress(EOFError):
            anyio.run(watcher.run)
        return watcher, told, warned


def flips(path: str, *statuses: str, every: float, begin: float = 1.0) -> Script:
    writes = [(begin + number * every, {"s": status}) for number, status in enumerate(statuses)]
    return Script(path, *writes, until=begin + len(statuses) * every + 100)


@pytest.mark.req("BMAD-3.3.1", "BMAD-E3.5")
def test_a_change_is_told_half_a_second_after_the_file_came_to_rest() -> None:
    watcher, told, _ = Script("p", (3.0, {"s": "done"})).watch()
    assert watcher.debounce == 0.5
    assert told == [(3.5, StatusChange("p", "s", None, "done"))]


@pytest.mark.req("BMAD-3.3.2")
def test_two_writes_within_the_debounce_are_one_change() -> None:
    _, told, _ = Script("p", (3.0, {"s": "review"}), (3.4, {"s": "done", "t": "x"})).watch()
    assert told == [(3.9, StatusChange("p", "s", None, "done")), (3.9, StatusChange("p", "t", None, "x"))]


def test_a_file_that_never_rests_is_looked_at_all_the_same() -> None:
    writes = [(1.0 + number * 0.3, {"s": str(number)}) for number in range(40)]
    _, told, _ = Script("p", *writes, until=13.0).watch()
    assert 2 <= len(told) <= 5


@pytest.mark.req("BMAD-3.3.3")
def test_the_same_change_within_thirty_seconds_is_told_once() -> None:
    _, told, _ = flips("p", "a", "b", "a", "b", every=5).watch()
    within = [(change.before, change.after) for at, change in told if at < told[1][0] + 30]
    assert within == [(None, "a"), ("a", "b"), ("b", "a")]


def test_what_was_held_back_is_told_once_the_window_is_over_if_it_still_stands() -> None:
    _, told, _ = flips("p", "a", "b", "a", "b", every=5).watch()
    assert [(change.before, change.after) for _, change in told] == [(None, "a"), ("a", "b"), ("b", "a"), ("a", "b")]
    assert told[-1][0] - told[1][0] == pytest.approx(30)


def test_a_touch_without_a_change_tells_nothing() -> None:
    _, told, _ = Script("p", (1.0, {"s": "a"}), (5.0, {}), (9.0, {"s": "a"})).watch()
    assert len(told) == 1


@pytest.mark.req("BMAD-3.3.5", "BMAD-FR28")
def test_a_status_that_goes_to_and_fro_more_than_three_times_is_warned_about_and_looked_at_less_often() -> None:
    watcher, told, warned = flips("p", *["a", "b"] * 3, every=5).watch()
    assert [(one.key, one.count, one.debounce) for one in warned] == [("s", 4, 1.0)]
    assert warned[0].statuses[-4:] == ("a", "b", "a", "b")
    assert watcher.debounce == 1.0 and told[-1][1].after == "b", "and watching goes on"


def test_three_times_are_none_too_many() -> None:
    assert flips("p", "a", "b", "a", "b", "a", every=5).watch()[2] == []


def test_the_debounce_does_not_grow_for_ever() -> None:
    watcher, _, warned = flips("p", *["a", "b"] * 10, every=20).watch()
    assert len(warned) > 4 and watcher.debounce == 8.0


def test_coming_back_from_review_is_work_and_not_a_fault() -> None:
    statuses = ["in-progress", "review"] * 6
    assert flips("p", *statuses, every=120).watch()[2] == []
    assert flips("p", *statuses, every=2).watch()[2] != [], "unless no work fits in between"


def test_a_key_that_goes_is_told_too() -> None:
    script = Script("p", (1.0, {"s": "a"}))
    script.files["p"] = {"gone": "done"}
    told: list[StatusChange] = []
    watcher = SprintStatusWatcher(["p"], script, told.extend, read=script.files.get)
    script.files["p"] = {}
    watcher.look()
    assert told == [StatusChange("p", "gone", "done", None)]


def test_a_file_that_cannot_be_read_just_now_is_read_at_the_next_look(tmp_path: Path) -> None:
    path = tmp_path / "sprint-status.yaml"
    path.write_text("development_status: {a: x}")
    told: list[StatusChange] = []
    watcher = SprintStatusWatcher([str(path)], Script("p"), told.extend)
    path.write_text("development_status: {a: ")
    assert watcher.look() == []
    path.write_text("development_status: {a: y}")
    assert [one.after for one in watcher.look()] == ["y"]


@given(st.lists(st.tuples(st.floats(0.01, 20), st.sampled_from("abc")), max_size=25))
@settings(max_examples=80, deadline=None)
def test_whatever_happens_the_last_thing_told_is_how_it_is(writes: list[tuple[float, str]]) -> None:
    at, planned = 0.0, []
    for pause, status in writes:
        at += pause
        planned.append((at, {"s": status}))
    script = Script("p", *planned, until=at + 100)
    _, told, _ = script.watch()
    assert (told[-1][1].after if told else None) == script.files["p"].get("s")
    seen: str | None = None
    for _, change in told:
        assert change.before == seen and change.after != seen
        seen = change.after


@pytest.mark.req("BMAD-E3.6")
def test_real_files_are_watched_in_every_place_that_the_config_names(tmp_path: Path) -> None:
    place = StatePlace(tmp_path)
    config = {
        "output_folder": "{project-root}/_bmad-output",
        "planning_artifacts": "{project-root}/_bmad-output/planning",
        "implementation_artifacts": "_bmad-output/implementation",
    }
    paths = status_file.paths(str(place.project), config)
    folders = [place.project / "_bmad-output" / name for name in ("planning", ".", "implementation")]
    assert {str((folder / name).resolve()) for folder in folders for name in status_file.NAMES} == set(paths)
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    workflow, sprint = folders[0] / "bmm-workflow-status.yaml", folders[2] / "sprint-status.yaml"
    workflow.write_text(WORKFLOW)
    sprint.write_text(SPRINT)
    told: list[StatusChange] = []
    events = StatusEvents(place.workspace)

    async def watch() -> None:
        both = anyio.Event()

        def on_change(changes: list[StatusChange]) -> None:
            told.extend(changes)
            events.changed(changes)
            if len({one.path for one in told}) == 2:
                both.set()

        async with anyio.create_task_group() as group:
            watcher = SprintStatusWatcher(paths, FileChanges(paths), on_change)
            group.start_soon(watcher.run)
            await anyio.to_thread.run_sync(
                lambda: status_file.write(str(sprint), "1-3-model", "in-progress", expected="backlog")
            )
            await anyio.to_thread.run_sync(
                lambda: status_file.write(str(workflow), "prd", "docs/prd.md", expected="required")
            )
            with anyio.fail_after(60):
                await both.wait()
            group.cancel_scope.cancel()

    anyio.run(watch)
    assert {(one.key, one.before, one.after) for one in told} == {
        ("1-3-model", "backlog", "in-progress"),
        ("prd", "required", "docs/prd.md"),
    }
    logged = [one.payload for one in place.team.events()[0] if one.type == "workflow.status_changed"]
    assert {one["path"] for one in logged} == {str(sprint.resolve()), str(workflow.resolve())}
    place.close()


def test_both_kinds_of_files_are_read_in_their_order() -> None:
    assert status_file.statuses(SPRINT) == {
        "epic-1": "in-progress", "1-1-login": "done", "1-2-account": "ready-for-dev", "1-3-model": "backlog",
        "epic-1-retrospective": "optional",
    }  # fmt: skip
    assert status_file.statuses(WORKFLOW) == {"product-brief": "docs/brief.md", "prd": "required", "ux": "conditional"}
    assert status_file.statuses("a: 1") == status_file.statuses("") == status_file.statuses("- x") == {}
    nested = "workflow_status:\n  phase-1:\n    prd: required\n    ux: {status: skipped}\n"
    assert status_file.statuses(nested) == {"prd": "required", "ux": "skipped"}
    with pytest.raises(ConfigParseError):
        status_file.statuses("a: [")


@pytest.mark.parametrize(
    ("text", "key", "status", "line"),
    [
        (SPRINT, "epic-1", "done", "  epic-1: done   # the first\n"),
        (SPRINT, "1-2-account", "in-progress", "  1-2-account: in-progress  # quoted\n"),
        (SPRINT, "1-1-login", "yes", '  1-1-login: "yes"\n'),
        (WORKFLOW, "prd", "docs/my prd.md", "    status: docs/my prd.md # next\n"),
        (WORKFLOW, "ux", "skipped", "  - {id: ux, status: skipped}\n"),
        (WORKFLOW, "product-brief", 'a "b": #c', '    status: "a \\"b\\": #c"\n'),
    ],
)
def test_a_write_changes_one_status_and_not_a_byte_besides(text: str, key: str, status: str, line: str) -> None:
    before, after = text.splitlines(keepends=True), status_file.changed(text, key, status).splitlines(keepends=True)
    different = [number for number, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert [after[number] for number in different] == [line]


@given(st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()))
@settings(max_examples=100, deadline=None)
def test_any_status_can_be_written_and_is_read_back(status: str) -> None:
    assert status_file.statuses(status_file.changed(SPRINT, "1-3-model", status))["1-3-model"] == status


def writer(path: Path, *, between: Callable[[], None] = lambda: None) -> dict[str, str]:
    return status_file.write(str(path), "1-3-model", "in-progress", expected="backlog", between=between)


@pytest.mark.req("BMAD-3.3.4")
def test_a_concurrent_write_of_another_status_is_kept_and_ours_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "sprint-status.yaml"
    path.write_text(SPRINT)
    others = ["done"]

    def between() -> None:
        if others:
            path.write_text(status_file.changed(path.read_text(), "epic-1", others.pop()))

    found = writer(path, between=between)
    assert (found["epic-1"], found["1-3-model"]) == ("done", "in-progress")
    assert "keep this comment" in path.read_text()


def test_a_status_that_is_not_what_the_writer_expects_is_left(tmp_path: Path) -> None:
    path = tmp_path / "sprint-status.yaml"
    path.write_text(SPRINT.replace("backlog", "review"))
    before = path.read_bytes()
    with pytest.raises(StateConflict) as found:
        writer(path)
    assert found.value.details["status"] == "review" and path.read_bytes() == before
    with pytest.raises(NotFound):
        status_file.write(str(path), "none", "x", expected="y")


def test_after_three_tries_a_writer_gives_up(tmp_path: Path) -> None:
    path = tmp_path / "sprint-status.yaml"
    path.write_text(SPRINT)
    tries = []

    def between() -> None:
        tries.append(1)
        path.write_text(f"{path.read_text()}# {len(tries)}\n")

    with pytest.raises(StateConflict, match="3 tries"):
        writer(path, between=between)
    assert len(tries) == 3 and status_file.read(str(path)) == status_file.statuses(SPRINT)


def test_of_many_writers_at_once_each_change_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "sprint-status.yaml"
    path.write_text(SPRINT)
    keys = list(status_file.statuses(SPRINT).items())

    def write(key: str, before: str) -> None:
        while True:
            try:
                status_file.write(str(path), key, f"new-{key}", expected=before)
                return
            except StateConflict:
                continue

    threads = [threading.Thread(target=write, args=one) for one in keys]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert status_file.read(str(path)) == {key: f"new-{key}" for key, _ in keys}
