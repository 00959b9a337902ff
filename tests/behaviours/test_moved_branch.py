"""The integration branch belongs to Interlock: whoever else moves it loses nothing, and nothing of it is delivered."""

from __future__ import annotations

import pytest

from interlock.errors import TeamExists, WorktreeRefused
from interlock.model.report import sections
from tests.behaviours.driving import SHELL, Place
from tests.behaviours.repository import Repository, stage

WRITE = "echo {name} > {name}; git add --all; git commit --quiet --message {name}; "
PUSH = "git push --quiet --force . HEAD:interlock/crew; "
ADOPTED = "Commits on interlock/crew that no task has made"


@pytest.fixture
def repository(place: Place) -> Repository:
    """The user's repository, in the directory to work in."""
    return Repository(place.work)


def moves(place: Place) -> list[tuple[str | None, str | None]]:
    """The tasks that the moves were of, and what keeps what was there."""
    found = [one for one in place.team.events()[0] if one.type == "integration.moved"]
    return [(one.task_id, one.payload["kept"]) for one in found]


def test_an_agent_that_pushes_by_force_takes_nothing_off_the_branch(place: Place, repository: Repository) -> None:
    meet = f"while ! git -C {place.work} log --format=%s interlock/crew | grep -q add; do sleep 0.05; done; "
    stage(
        place,
        {
            "add": {"run": "echo add > add", "verify": "test -s add", "assignee": "ada"},
            "sub": {"run": WRITE.format(name="sub") + meet + PUSH, "verify": "test -s sub", "assignee": "bea"},
        },
        {"ada": SHELL, "bea": SHELL},
        parallel=2,
    )
    assert place.drive(parallel=2) == "finished"
    assert place.states() == {"add": "done", "sub": "done"}
    assert {"add", "sub"} <= set(repository.files("interlock/crew"))
    ((task, kept),) = moves(place)
    assert task == place.task("sub").id and repository.files(str(kept)) == [".gitignore", "story.txt", "sub"]
    report = place.team.report()
    assert report.integration is not None and not report.integration.missing and not report.integration.trouble
    (told,) = report.incidents
    assert "interlock/crew was moved to commits of" in told.outcome and str(kept) in str(told.reason)
    assert not place.team.questions(), "it has gone the way of its task's work"
    assert place.team.doctor().healthy


@pytest.mark.parametrize(
    "how",
    [
        PUSH.replace("--force ", ""),
        "git update-ref refs/heads/interlock/crew HEAD; ",
        "git branch --quiet --force interlock/crew; ",
    ],
)
def test_work_that_fails_its_check_is_not_delivered_by_a_push(place: Place, repository: Repository, how: str) -> None:
    bad = WRITE.format(name="bad") + how + "exit 1"
    stage(place, {"good": {"run": "touch good"}, "bad": {"run": bad, "retries": 0, "blocked_by": ["good"]}})
    place.drive()
    assert place.states() == {"good": "done", "bad": "deadletter"}
    assert "bad" not in repository.files("interlock/crew") and len(moves(place)) == 1
    preview = place.team.merge(everything=True, dry_run=True)
    assert [task.key for task in preview.tasks] == ["good"] and "bad" not in str(preview.stat)
    place.team.merge(everything=True)
    assert "good" in repository.files("main") and "bad" not in repository.files("main")


def test_an_agent_at_work_on_the_branch_itself_works_on_its_own(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "git checkout --quiet interlock/crew; echo 1 > a", "verify": "test -s a"},
                  "two": {"run": "git checkout --quiet interlock/crew; " + WRITE.format(name="b"),
                          "blocked_by": ["one"]}})  # fmt: skip
    assert place.drive() == "finished"
    assert place.states() == {"one": "done", "two": "done"} and not place.team.questions()
    assert {"a", "b"} <= set(repository.files("interlock/crew"))
    assert repository.log("interlock/crew")[0].startswith("Merge "), "Interlock merged it"


def test_commits_of_no_task_become_one_that_a_person_decides(place: Place, repository: Repository) -> None:
    stranger = (
        "git checkout --quiet --detach; "
        + WRITE.format(name="stray")
        + "git update-ref refs/heads/interlock/crew HEAD;"
        "git checkout --quiet -; touch two"
    )
    stage(place, {"one": {"run": "touch one"}, "two": {"run": stranger, "blocked_by": ["one"]},
                  "three": {"run": "test ! -e stray", "blocked_by": ["two"]}})  # fmt: skip
    assert place.drive() == "finished"
    assert set(place.states().values()) == {"done"}, "the night goes on without it"
    (task,) = [one for one in place.team.tasks() if one.subject == ADOPTED]
    assert moves(place) == [(task.id, f"refs/heads/interlock-work/crew/{task.id}")]
    (need,) = place.team.report().needs_me
    assert need.task_id == task.id and "stray" not in repository.files("interlock/crew")
    assert "stray" in place.team.diff(task.id).diff and "stray" in str(place.team.task(task.id).output)
    place.team.approve(task.id)
    assert place.team.task(task.id).state == "done" and "stray" in repository.files("interlock/crew")
    assert place.team.doctor().healthy and "three" in place.states()


def test_a_commit_of_the_users_own_on_the_branch_is_merged_once_they_approve_it(
    place: Place, repository: Repository
) -> None:
    stage(place, {"one": {"run": "touch one"}})
    place.drive()
    repository.git("switch", "--quiet", "interlock/crew")
    repository.commit("mine", mine="x")
    with pytest.raises(WorktreeRefused, match="checked out in"):
        place.team.merge(everything=True, into="main")
    repository.git("switch", "--quiet", "main")
    said = place.team.report().integration
    assert said is not None and "moved by somebody else" in str(said.trouble)
    (finding,) = [one for one in place.team.doctor().findings if one.level == "error"]
    assert "interlock/crew was moved" in finding.what and not moves(place), "neither has changed anything"
    assert place.team.doctor(repair=True).healthy and "mine" not in repository.files("interlock/crew")
    (task,) = [one for one in place.team.tasks() if one.subject == ADOPTED]
    place.team.approve(task.id)
    place.team.merge(everything=True)
    assert {"one", "mine"} <= set(repository.files("main"))


def test_whoever_merges_asks_or_looks_is_told_of_a_move_also_once_all_is_delivered(
    place: Place, repository: Repository
) -> None:
    stage(place, {"one": {"run": "touch one"}})
    place.drive()
    place.team.merge(everything=True)
    assert place.team.merge(everything=True).warnings == []
    for name in ("first", "second"):
        repository.git("switch", "--quiet", "interlock/crew")
        repository.commit(name, **{name: "x"})
        repository.git("switch", "--quiet", "main")
        said = place.team.report().integration
        assert said is not None and "branch_moved" in str(said.trouble)
        (finding,) = [one for one in place.team.doctor().findings if one.level == "error"]
        assert "branch_moved" in finding.what
        (told,) = place.team.merge(everything=True).warnings
        assert "branch_moved" in told and "is put back" in told
        assert repository.files("main") == repository.files("interlock/crew")
    assert len(place.team.questions()) == 2
    repository.git("update-ref", "refs/heads/interlock/crew", "main~")
    place.team.create_task("Two", run="touch two")
    place.drive()
    repository.git("update-ref", "refs/heads/interlock/crew", "main~")
    (place.work / "two").write_text("mine")
    with pytest.raises(WorktreeRefused, match=r"not committed would be touched: two.*branch_moved"):
        place.team.merge(everything=True)
    (place.work / "two").unlink()
    repository.git("update-ref", "refs/heads/interlock/crew", "main~")
    (told,) = place.team.merge(["one"], dry_run=True).warnings
    assert "branch_moved" in told and "The next run" in told


def test_work_that_is_on_no_branch_any_more_is_named(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "touch one", "verify": "test -e one"}})
    place.drive()
    repository.git("update-ref", "refs/heads/interlock/crew", "main")
    report = place.team.report()
    assert report.integration is not None and report.integration.missing == [place.task("one").id]
    (finding,) = [one for one in place.team.doctor().findings if one.level == "error"]
    assert "was moved" in finding.what and f"lacks the work of {place.task('one').id}" in finding.what
    titles = [title for title, _, _ in sections(report)]
    assert "Integration branch" in titles and "Ready to merge" not in titles
    assert place.team.doctor(repair=True).healthy and "one" in repository.files("interlock/crew")
    assert not moves(place)[0][1], "nothing had come with it"


def test_what_a_person_has_merged_by_hand_is_in_their_branch(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "touch one"}, "two": {"run": "touch two"}})
    place.drive()
    found = place.team.report().integration
    assert found is not None and (found.tasks, found.delivered) == (2, 0)
    repository.git("merge", "--quiet", "interlock/crew")
    found = place.team.report().integration
    assert found is not None and (found.tasks, found.delivered) == (2, 2)


def test_another_repository_in_the_same_place_is_not_taken_for_the_teams(place: Place, repository: Repository) -> None:
    stage(place, {"one": {"run": "touch one"}})
    place.drive()
    place.work.rename(place.path / "aside")
    Repository(place.work)
    with pytest.raises(TeamExists, match="not in the repository that is there now"):
        stage(place, {"one": {"run": "touch one"}, "two": {"run": "touch two"}})
    with pytest.raises(WorktreeRefused, match="another repository than the team's"):
        place.team.merge(everything=True)
    said = place.team.report().integration
    assert said is not None and said.missing == [place.task("one").id] and "is not in" in str(said.trouble)
    place.work.rename(place.path / "stranger")
    (place.path / "aside").rename(place.work)
    stage(place, {"one": {"run": "touch one"}, "two": {"run": "touch two"}})
    place.drive()
    assert place.states() == {"one": "done", "two": "done"}
