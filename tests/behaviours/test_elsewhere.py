"""What happens where nobody was to change anything: in the user's checkout, and by members that may only read."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.gitwork import repository as gitwork
from interlock.gitwork.isolation import look
from interlock.runner import checkout_watch
from tests.behaviours.driving import SHELL, Place
from tests.behaviours.repository import Repository, kept_path, stage


@pytest.fixture
def repository(place: Place) -> Repository:
    """The user's repository, in the directory to work in."""
    return Repository(place.work)


def watching(place: Place) -> checkout_watch.CheckoutWatch:
    workspace = place.home.workspace(place.team.name)
    return checkout_watch.CheckoutWatch(workspace, lambda: look(workspace))


@pytest.fixture(autouse=True)
def no_look_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look in the middle of a command would tell of its changes in two events, however slow this machine is."""
    monkeypatch.setattr(checkout_watch, "INTERVAL", 3600.0)


def test_what_changes_in_the_checkout_is_told_with_the_run_that_was_at_work(
    place: Place, repository: Repository
) -> None:
    run = f"cd {place.work} && echo other >> story.txt && echo x > intruder.txt && git branch intruder && touch .env"
    stage(place, {"one": {"run": run}})
    assert place.drive() == "finished"
    (event,) = [one for one in place.team.events()[0] if one.type == "checkout.changed"]
    task = place.task("one")
    assert event.task_id == task.id and event.payload["runs"] == [f"{task.id}.1"]
    assert event.payload["path"] == str(place.work)
    assert {"story.txt", "intruder.txt", "intruder", ".env"} <= set(event.payload["changed"])
    (told,) = place.team.report().incidents
    assert told.outcome == "something changed elsewhere" and "intruder.txt" in told.reason
    assert "not known" in told.reason
    (info,) = [one for one in place.team.doctor().findings if one.path == str(place.work)]
    assert info.level == "info" and f"{task.id}.1" in info.what


def test_a_change_is_an_event_of_each_task_that_was_at_work_and_is_reported_once(
    place: Place, repository: Repository
) -> None:
    stage(place, {"one": {"run": f"echo x > {place.work}/intruder.txt"}, "two": {"run": "true"}})
    place.drive()
    changed = [one.task_id for one in place.team.events()[0] if one.type == "checkout.changed"]
    assert sorted(changed) == sorted(place.task(key).id for key in ("one", "two"))
    (told,) = place.team.report().incidents
    assert (told.member, told.run) == (None, None), "who changed it is not known"
    assert all(f"{place.task(key).id}.1" in told.reason for key in ("one", "two"))


def test_what_changes_again_is_reported_with_the_last_time(place: Place, repository: Repository) -> None:
    run = f"echo x >> {place.work}/night.log"
    stage(place, {"one": {"run": run}})
    place.drive()
    place.team.create_task("Once more", run=run)
    place.drive()
    first, last = [one.at for one in place.team.events()[0] if one.type == "checkout.changed"]
    assert first < last
    for since in (None, last):
        (told,) = place.team.report(since=since).incidents
        assert told.at == last and "night.log" in told.reason


def test_a_file_that_changes_all_the_time_is_told_once_to_each_run(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "true"}, "two": {"run": "true"}})
    watch = watching(place)
    log, ada = place.work / "night.log", place.team.acting("ada", session="s")
    for key in ("one", "two"):
        ada.claim(place.task(key).id)
        watch.look()
        for line in ("began\n", "still going\n", "ended\n"):
            with log.open("a") as file:
                file.write(line)
            watch.look()
        ada.complete(place.task(key).id)
    events = [one for one in place.team.events()[0] if one.type == "checkout.changed"]
    assert [(one.task_id, one.payload["changed"]) for one in events] == [
        (place.task(key).id, ["night.log"]) for key in ("one", "two")
    ]


def test_work_that_stays_in_its_worktree_is_no_news(place: Place, repository: Repository) -> None:
    stage(
        place,
        {"one": {"run": "touch a && git add a && git commit -qm a"}, "two": {"run": "touch b; exit 1", "retries": 0}},
    )
    place.drive()
    assert not [one for one in place.team.events()[0] if one.type in ("checkout.changed", "worktree.changed")]


def test_what_a_run_changes_that_begins_during_a_look_is_told(
    place: Place, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(place, {"one": {"run": "true"}})
    watch = watching(place)
    watch.look()

    def slow(of: gitwork.Repository, checkout: str, but: str) -> dict[str, str]:
        monkeypatch.undo()
        place.team.claim(place.task("one").id, by="ada")
        (place.work / "intruder").touch()
        return checkout_watch.observe(of, checkout, but)

    monkeypatch.setattr(checkout_watch, "observe", slow)
    watch.look()
    (event,) = [one for one in place.team.events()[0] if one.type == "checkout.changed"]
    assert event.payload["changed"] == ["intruder"]


def test_a_change_in_a_worktree_where_nobody_is_at_work_is_told(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "touch half; exit 1", "retries": 0}})
    place.drive()
    left = kept_path(place.task("one"))
    stage(place, {"one": {"run": "touch half; exit 1", "retries": 0}, "two": {"run": f"echo x > {left}/intruder"}})
    place.drive()
    (event,) = [one for one in place.team.events()[0] if one.type == "worktree.changed"]
    assert event.task_id == place.task("one").id and event.payload["changed"] == ["intruder"]
    assert event.payload["runs"] == [f"{place.task('two').id}.1"]


CHANGES = """
open('story.txt', 'a').write('four\\n')
open('O', 'w').write('made')
subprocess.run(['git', 'add', 'O'], check=True)
subprocess.run(['git', 'commit', '-qm', 'mine'], check=True)
open('P', 'wb').write(b'\\0made')
os.makedirs('build', exist_ok=True)
open('build/notes', 'w').write('notes')
"""


def test_what_a_member_that_may_only_read_changes_is_kept_as_a_patch_and_never_merged(
    place: Place, repository: Repository
) -> None:
    members = {"rea": {**place.program("rea", CHANGES), "permissions": "read-only"}, "ada": SHELL}
    tasks = {
        "look": {"subject": "Look around", "assignee": "rea", "verify": "test ! -e build/none"},
        "next": {"run": "test ! -e O && touch next", "blocked_by": ["look"]},
    }
    stage(place, tasks, members)
    assert place.drive() == "finished"
    assert place.states() == {"look": "done", "next": "done"}
    assert set(repository.files("interlock/crew")) == {".gitignore", "story.txt", "next"}
    files = {one.kind: one for one in place.team.artifacts("look")}
    assert files["file"].path == "build/notes"
    repository.git("apply", files["patch"].file)
    assert (repository.path / "O").read_text() == "made" and (repository.path / "P").read_bytes() == b"\0made"
    (told,) = [one for one in place.team.report().incidents if one.outcome.startswith("may only read")]
    assert told.member == "rea" and files["patch"].file in told.reason
    assert any("May only read" in text for _, _, text in place.team.work_log("look"))


def test_what_it_left_in_a_run_that_failed_does_not_reach_the_next_member(place: Place, repository: Repository) -> None:
    failing = CHANGES + "sys.exit(1)\n"
    members = {"rea": {**place.program("rea", failing), "permissions": "read-only"}, "ada": SHELL}
    stage(place, {"look": {"subject": "Look", "assignee": "rea", "retries": 0}}, members)
    place.drive()
    assert place.states() == {"look": "deadletter"}
    left = kept_path(place.task("look"))
    assert not (left / "O").exists() and (left / "story.txt").read_text() == "one\ntwo\nthree\n"
    (patch,) = [one for one in place.team.artifacts("look") if one.kind == "patch"]
    assert "four" in Path(patch.file).read_text(errors="replace")
