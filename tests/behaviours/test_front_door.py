"""Projects, chat sessions and task groups: one message is one task of its session's group, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.projects import infer_type
from interlock.errors import (
    AmbiguousId,
    DirectoryNotFound,
    GroupNotFound,
    InvalidRequest,
    InvalidTeamName,
    LedgerUnusable,
    ProjectNotFound,
    SessionInOtherProject,
    TaskLimit,
    TaskNotFound,
)
from interlock.model.group import ChatResult
from tests.behaviours.driving import Place


@pytest.fixture
def shop(home: Home) -> str:
    """A project."""
    return home.create_project("shop").id


def test_a_project_is_a_team_with_a_working_directory(home: Home, tmp_path: Path) -> None:
    home.create_project("shop", workdir=str(tmp_path))
    own = home.create_project("own")
    assert os.path.isdir(own.workdir)
    found = [(one.id, one.workdir) for one in home.projects()]
    assert found == [
        ("own", own.workdir),
        ("shop", str(tmp_path)),
    ]
    with pytest.raises(InvalidTeamName):
        home.create_project("No Such Name")
    with pytest.raises(DirectoryNotFound):
        home.create_project("nowhere", workdir=str(tmp_path / "nowhere"))
    (tmp_path / "file").touch()
    for workdir in ("nowhere", "file"):
        with pytest.raises(DirectoryNotFound, match="does not exist: make it, or correct workdir") as refused:
            home.create_team("nowhere", workdir=str(tmp_path / workdir))
        assert refused.value.details == {"field": "workdir"}
    assert [one.id for one in home.projects()] == ["own", "shop"]


@pytest.mark.req("GUARD-INV-3", "GUARD-AC-3")
def test_a_chat_makes_a_task_and_its_group(home: Home, shop: str) -> None:
    made = home.chat(shop, "Fix the login\nIt fails on Fridays.", session_id="s1")
    assert made == ChatResult(made.task_id, "s1", "QUEUED")
    groups, total = home.task_groups()
    assert total == len(groups) == 1 and groups[0].task_count == 1
    assert (groups[0].id, groups[0].first_prompt) == ("s1", "Fix the login It fails on Fridays.")
    (task,) = home.group_tasks("s1")
    assert (task.id, task.group_id, task.project_id) == (made.task_id, "s1", shop)
    assert (task.subject, task.body) == ("Fix the login It fails on Fridays.", "Fix the login\nIt fails on Fridays.")
    assert (task.type, task.review) == ("IMPLEMENTATION", "none")


@pytest.mark.req("GUARD-INV-4", "GUARD-AC-4")
def test_one_session_is_one_group_however_many_messages_and_from_how_many_at_once(home: Home, shop: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: home.chat(shop, f"message {n}", session_id="test-session"), range(24)))
    assert len({one.task_id for one in made}) == 24
    assert {one.session_id for one in made} == {"test-session"}
    groups, total = home.task_groups()
    assert total == 1
    assert (groups[0].id, groups[0].task_count) == ("test-session", 24)
    assert groups[0].status_counts == {"QUEUED": 24}


@pytest.mark.req("GUARD-INV-5", "GUARD-AC-5")
def test_what_was_answered_is_there_after_kill_9(home: Home, shop: str) -> None:
    program = (
        "import sys, interlock\n"
        "home = interlock.connect(sys.argv[1])\n"
        "for n in range(1000):\n"
        "    print(home.chat('shop', f'message {n}', session_id=f's{n % 3}').task_id, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    said = []
    with subprocess.Popen(
        [sys.executable, "-c", program, home.path], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for _ in range(20):
            said.append(process.stdout.readline().strip())
        process.send_signal(signal.SIGKILL)
        said += [line.strip() for line in process.stdout if line.endswith("\n")]
    again = interlock.connect(home.path)
    try:
        groups, total = again.task_groups("shop")
        assert total == 3
        found = {task.id for group in groups for task in again.group_tasks(group.id)}
        assert set(said) <= found and len(found) - len(said) in (0, 1), "at most the one that was under way is more"
        assert sum(group.task_count for group in groups) == len(found)
    finally:
        again.close()


def test_a_task_is_located_without_opening_ledgers_that_have_rested_since_before_its_day(
    home: Home, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resting = home.create_team("resting")
    for number in range(2):
        home.team(shop).create_task(f"Task {number}")
    resting.create_task("Old")
    first, second = (task.id for task in home.team(shop).tasks())
    opened: list[str] = []
    real = home.workspace
    monkeypatch.setattr(home, "workspace", lambda name: opened.append(name) or real(name))
    with pytest.raises(AmbiguousId):
        home.locate(first)
    home.close()
    for file in Path(resting.directory).glob("ledger.db*"):
        os.utime(file, (0, 0))
    opened.clear()
    assert home.locate(second).name == shop and "resting" not in opened
    home.team(shop).delete(first)
    made = resting.tasks()[0].id
    home.close()
    for file in Path(resting.directory).glob("ledger.db*"):
        os.utime(file, (0, 0))
    home.delete_team(shop, force=True)
    assert home.locate(made).name == "resting", "made while the clock was ahead"


def test_a_chat_that_cannot_be_recorded_is_an_error_and_leaves_nothing(home: Home, shop: str) -> None:
    for content in ("", "  \n", None, 3):
        with pytest.raises(InvalidRequest):
            home.chat(shop, content, session_id="s1")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        home.chat(shop, "go", session_id="no/slash")
    with pytest.raises(InvalidRequest):
        home.chat(shop, "go", task_type="HOLIDAY")
    with pytest.raises(ProjectNotFound):
        home.chat("nowhere", "go")
    home.team(shop).configure({"task_limit": 1})
    home.chat(shop, "go", session_id="s1")
    with pytest.raises(TaskLimit):
        home.chat(shop, "go on", session_id="s2")
    assert [group.id for group in home.task_groups()[0]] == ["s1"]


def test_a_session_belongs_to_one_project(home: Home, shop: str) -> None:
    home.create_project("barn")
    home.chat(shop, "go", session_id="s1")
    with pytest.raises(SessionInOtherProject) as refused:
        home.chat("barn", "go", session_id="s1")
    assert refused.value.details["project"] == shop
    assert home.chat("barn", "go").session_id == "barn-default", "without one it is the project's own"
    with pytest.raises(AmbiguousId) as ambiguous:
        home.locate("TASK-" + home.group_tasks("s1")[0].id[5:])
    assert len(ambiguous.value.details["candidates"]) == 2
    assert home.locate(home.group_tasks("s1")[0].id, project="barn").name == "barn"
    with pytest.raises(TaskNotFound):
        home.locate("TASK-2001-01-01-001")
    with pytest.raises(GroupNotFound):
        home.group_tasks("s2")


def test_a_task_is_located_by_the_end_of_its_id_where_one_team_has_it(home: Home, shop: str) -> None:
    home.create_project("barn")
    ids = [home.chat(shop, f"n {number}").task_id for number in range(11)]
    home.chat("barn", "go")
    assert home.locate("2").name == home.locate("002").name == home.locate(ids[1][5:]).name == shop
    with pytest.raises(AmbiguousId, match="several projects: barn, shop") as refused:
        home.locate("001")
    assert refused.value.details["candidates"] == [f"barn/{ids[0]}", f"shop/{ids[0]}"]
    with pytest.raises(TaskNotFound):
        home.locate("012")


def test_a_damaged_ledger_hides_no_other_and_is_told_of_once(home: Home, shop: str) -> None:
    home.create_project("barn")
    task = home.chat(shop, "go", session_id="s1").task_id
    home.close()
    Path(home.path, "teams", "barn", "ledger.db").write_bytes(b"no database" * 100)
    looks: tuple[Callable[[], object], ...] = (
        home.projects, home.task_groups, lambda: home.group_tasks("s1"), lambda: home.locate(task),
        lambda: home.locate("001"),
    )  # fmt: skip
    for look in looks:
        look()
        (told,) = home.warnings()
        assert "'barn' is left out" in told and "damaged" in told and "interlock doctor" in told
        assert home.warnings() == []
    assert [one.id for one in home.projects()] == [shop] and home.warnings(shop) == []
    assert len(home.warnings("barn")) == 1
    assert [one.id for one in home.projects(within=shop)] == [shop] and home.warnings() == []
    with pytest.raises(TaskNotFound, match="'barn' is left out"):
        home.locate("TASK-2001-01-01-001")
    with pytest.raises(GroupNotFound, match="'barn' is left out"):
        home.group_tasks("s2")
    named: tuple[Callable[[], object], ...] = (
        lambda: home.task_groups("barn"), lambda: home.chat("barn", "go"), lambda: home.locate(task, every=True),
        lambda: home.chat(shop, "go", session_id="new"),
    )  # fmt: skip
    for call in named:
        with pytest.raises(LedgerUnusable):
            call()


def test_the_counts_follow_the_tasks_and_lists_page(home: Home, shop: str) -> None:
    team = home.team(shop)
    team.spawn("ada")
    for n in range(7):
        home.chat(shop, f"message {n}", session_id=f"s{n}")
    first = home.group_tasks("s0")[0].id
    team.claim(first, by="ada")
    team.complete(first, by="ada")
    groups, total = home.task_groups(limit=3)
    assert total == 7 and [group.id for group in groups] == ["s0", "s6", "s5"]
    assert (groups[0].status_counts, groups[0].latest_status) == ({"COMPLETE": 1}, "COMPLETE")
    assert [group.id for group in home.task_groups(offset=6)[0]] == ["s1"]
    assert home.task_groups(offset=9)[0] == []
    team.delete(home.group_tasks("s1")[0].id)
    assert home.group_tasks("s1") == []
    assert {group.id: group.task_count for group in home.task_groups()[0]}["s1"] == 0


@pytest.mark.parametrize(
    ("content", "type"),
    [
        ("/bmad:bmm:workflows:create-prd", "WORKFLOW"),
        ("Add a test for the parser", "IMPLEMENTATION"),
        ("please fix the build", "IMPLEMENTATION"),
        ("Summarise the last week", "REPORT"),
        ("Where is the parser?", "READ_INFO"),
        ("hello there", None),
    ],
)
def test_only_chat_infers_a_type(content: str, type: str | None) -> None:
    assert infer_type(content) == type


def test_an_agent_reads_what_was_said_earlier_in_the_conversation(place: Place) -> None:
    bob = place.program("bob", "say('blue' if 'Earlier' not in prompt else 'you said ' + prompt.split('> ')[1][:20])")
    place.stage({"one": {"subject": "One"}}, {"bob": bob})
    place.home.chat("crew", "Which colour is it?", session_id="s1")
    place.drive()
    place.home.chat("crew", "And why?", session_id="s1")
    place.drive()
    assert [str(task.output)[:19] for task in place.home.group_tasks("s1")] == ["blue", "you said Which colo"]
