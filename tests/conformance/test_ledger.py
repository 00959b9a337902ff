"""What every ledger promises, whoever implements it: the page `interlock/storage/ledger.py`, aggregate by aggregate.

The rules stand above the port and are tested elsewhere; here rows are written and read back, and transactions tried.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.clock import SystemClock
from interlock.errors import InvalidRequest, LedgerBusy, StorageError, TeamExists, TeamNotFound
from interlock.model.message import Message
from interlock.model.question import Question, StopRequest
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.model.team import ActingMember, Member, Outstanding, TeamRecord
from interlock.model.views import BoardFilter
from interlock.settings import Settings
from interlock.storage.catalog import Catalog
from interlock.storage.ledger import Ledger, TaskPage
from tests.postgres import pooled, schema_of, server_url

AT = "2026-11-21T03:35:13.123Z"


def sqlite_catalog(root: str) -> Callable[[Path, float], Catalog]:
    def connect(path: Path, patience: float) -> Catalog:
        from interlock.storage.sqlite.catalog import SqliteCatalog

        settings = Settings(environment={"INTERLOCK_BUSY_TIMEOUT": str(patience)})
        return SqliteCatalog(str(path / root), settings, SystemClock())

    return connect


def postgres_catalog(path: Path, patience: float) -> Catalog:
    url = server_url()
    from interlock.storage.postgres.catalog import PostgresCatalog

    environment = {"INTERLOCK_BUSY_TIMEOUT": str(patience), "INTERLOCK_LEDGER_SCHEMA": schema_of(path)}
    environment |= {f"INTERLOCK_{name.upper()}": value for name, value in pooled().items()}
    return PostgresCatalog(url, str(path / "teams"), Settings(environment=environment), SystemClock())


BACKENDS = [
    pytest.param(sqlite_catalog("teams"), id="sqlite"),
    pytest.param(sqlite_catalog("var/ledgers of this machine"), id="sqlite-elsewhere"),
    pytest.param(postgres_catalog, id="postgres"),
]


@pytest.fixture(params=BACKENDS)
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Catalog]]:
    """Connects to the same place once more, as another process would; waits for a lock so many seconds."""
    opened: list[Catalog] = []

    def connect(patience: float = 60) -> Catalog:
        opened.append(request.param(tmp_path, patience))
        return opened[-1]

    yield connect
    for catalog in opened:
        catalog.close()


@pytest.fixture
def place(connect: Callable[..., Catalog]) -> str:
    """The name of a new team with its lead."""
    connect().create(TEAM, LEAD, AT)
    return TEAM.name


@pytest.fixture
def ledger(connect: Callable[..., Catalog], place: str) -> Ledger:
    return connect().open(place)


@pytest.fixture
def other(connect: Callable[..., Catalog], place: str) -> Ledger:
    """The same ledger over other connections."""
    return connect().open(place)


TEAM = TeamRecord(
    id="t1", name="alpha", lead_session_key="agent:main:main", status="active", workdir=None, settings={"retries": 5},
    created_at=AT, updated_at=AT, day="", day_count=0, open_tasks=0, runner=None,
)  # fmt: skip
LEAD = Member(
    name="lead", session_key="agent:main:main", inbox="agent_main_main", role="lead", agent=None, command=None,
    type=None, model=None, permissions=None, status="active", unread=0, session=None, joined_at=AT,
    last_active_at=None,
)  # fmt: skip


def member(name: str, **fields: Any) -> Member:
    values = {field: getattr(LEAD, field) for field in LEAD.__slots__}
    return Member(**{**values, "name": name, "session_key": f"key:{name}", "inbox": name, "role": "member", **fields})


def task(id: str, /, **fields: Any) -> Task:
    values: dict[str, Any] = {
        "n": 0, "id": f"TASK-2026-11-21-{id}", "subject": id, "body": "", "state": "ready", "owner": None,
        "assignee": None, "reserved": None, "type": None, "priority": "normal", "review": None, "verify": None,
        "command": None, "parent_id": None, "group_id": None, "project_id": None, "plan_key": None,
        "plan_digest": None, "run": 0, "session": None, "failures": 0, "rounds": 0, "open_blockers": 0, "soft": False,
        "rank": 0, "not_before": None, "output": None, "context": None, "findings": None, "evidence": None,
        "verifying": None, "metadata": {}, "created_by": "lead", "created_at": AT, "updated_at": AT,
        "claimed_at": None, "completed_at": None,
    }  # fmt: skip
    return Task(**{**values, **fields})


def message(content: str, to: str = "bob", **fields: Any) -> Message:
    values: dict[str, Any] = {
        "n": 0, "id": f"m-{content}-{to}", "sender": "ada", "recipient": to, "type": "message", "content": content,
        "summary": None, "timestamp": AT, "stage": "stored", "attempt": 0, "session": None, "request_id": None,
        "approve": None, "reason": None, "metadata": None, "urgent": False,
    }  # fmt: skip
    return Message(**{**values, **fields})


def run(task_id: str, number: int, **fields: Any) -> Run:
    values: dict[str, Any] = {
        "task_id": task_id, "number": number, "member": "bob", "session": f"s{number}", "started_at": AT,
        "ended_at": None, "outcome": None, "reason": None, "runner": None, "process": None, "heartbeat_at": None,
        "expires_at": None, "beats": 0,
    }  # fmt: skip
    return Run(**{**values, **fields})


class TestTransactions:
    def test_what_was_committed_is_seen_by_others(self, ledger: Ledger, other: Ledger) -> None:
        with ledger.transaction() as rows:
            rows.tasks.insert(task("001"))
        with other.snapshot() as rows:
            assert [one.subject for one in rows.tasks.select()] == ["001"]

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, GeneratorExit])
    def test_raising_undoes_everything(self, ledger: Ledger, error: type[BaseException]) -> None:
        def breaks() -> None:
            with ledger.transaction() as rows:
                rows.tasks.insert(task("001"))
                rows.team.count_open(1)
                rows.events.append("task.created", "lead", None, AT, {})
                raise error

        with ledger.snapshot() as rows:
            start = rows.start
        with pytest.raises(error):
            breaks()
        with ledger.snapshot() as rows:
            assert (rows.tasks.select(), rows.start, rows.team.get().open_tasks) == ([], start, 0)
        with ledger.transaction() as rows:
            assert rows.tasks.insert(task("001")) == 1, "and the next one starts again"

    def test_a_transaction_sees_what_it_wrote(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            rows.tasks.insert(task("001"))
            assert rows.tasks.get("TASK-2026-11-21-001") is not None

    def test_there_is_one_writer_at_a_time(self, ledger: Ledger, connect: Callable[..., Catalog], place: str) -> None:
        other = connect(0.2).open(place)
        with ledger.transaction(), pytest.raises(LedgerBusy), other.transaction():
            raise AssertionError("two writers")
        with other.transaction() as rows:
            rows.tasks.insert(task("001"))

    def test_threads_of_one_process_wait_no_longer_than_processes(
        self, connect: Callable[..., Catalog], place: str
    ) -> None:
        ledger = connect(0.2).open(place)
        holding, done = threading.Event(), threading.Event()

        def hold() -> None:
            with ledger.transaction():
                holding.set()
                done.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        try:
            assert holding.wait(60)
            with pytest.raises(LedgerBusy), ledger.transaction():
                raise AssertionError("two writers")
            changed = ledger.watch()
            assert not changed(), "who watches does not wait for who writes"
        finally:
            done.set()
            thread.join()
        with ledger.transaction() as rows:
            rows.tasks.insert(task("001"))

    def test_an_error_of_the_rules_is_not_blamed_on_the_caller(self, ledger: Ledger) -> None:
        with pytest.raises(OverflowError, match="a rule"), ledger.transaction():
            raise OverflowError("a rule is wrong")
        with pytest.raises(OverflowError, match="a rule"), ledger.snapshot():
            raise OverflowError("a rule is wrong")
        with pytest.raises(UnicodeEncodeError), ledger.transaction():
            "\ud800".encode()
        with pytest.raises(InvalidRequest, match="not valid Unicode"), ledger.transaction() as rows:
            rows.tasks.insert(task("\ud800"))
        with pytest.raises(InvalidRequest, match="too large"), ledger.transaction() as rows:
            rows.tasks.insert(task("001", failures=2**70))

    def test_what_a_rule_reads_stays_true_until_the_commit(self, connect: Callable[..., Catalog], place: str) -> None:
        def count(ledger: Ledger) -> None:
            for _ in range(20):
                with ledger.transaction() as rows:
                    team = rows.team.get()
                    rows.team.update(team, settings={"retries": team.settings["retries"] + 1})

        ledgers = [connect().open(place) for _ in range(3)]
        threads = [threading.Thread(target=count, args=(one,)) for one in [*ledgers, ledgers[0]]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with ledgers[0].snapshot() as rows:
            assert rows.team.get().settings == {"retries": 85}

    def test_a_snapshot_is_one_moment_and_waits_for_nobody(self, ledger: Ledger, other: Ledger) -> None:
        with ledger.snapshot() as before:
            assert before.tasks.select() == []
            with other.transaction() as rows:
                rows.tasks.insert(task("001"))
                with other.snapshot() as during:
                    assert during.tasks.select() == []
            assert before.tasks.select() == []
        with ledger.snapshot() as after:
            assert len(after.tasks.select()) == 1

    def test_a_watch_notices_the_commits_of_others(self, ledger: Ledger, other: Ledger) -> None:
        changed = ledger.watch()
        assert not changed()
        with other.transaction() as rows:
            rows.tasks.insert(task("001"))
            rows.events.append("task.created", "lead", None, AT, {})
        assert changed() and not changed()

    def test_a_sound_ledger_has_no_faults_nor_has_its_backup(
        self, ledger: Ledger, connect: Callable[..., Catalog], place: str
    ) -> None:
        with ledger.transaction() as rows:
            rows.tasks.insert(task("001"))
        assert ledger.check() == []
        kept = ledger.back_up("before-something")
        assert "before-something" in kept and connect().inspect(kept) == [] and connect().backups(place) == [kept]
        assert connect().names() == [place], "a backup is no team"

    @pytest.mark.parametrize("there", [sqlite_catalog("others"), postgres_catalog], ids=["to sqlite", "to postgres"])
    def test_an_archive_is_the_same_ledger_in_every_database(
        self, ledger: Ledger, connect: Callable[..., Catalog], there: Callable[[Path, float], Catalog], tmp_path: Path
    ) -> None:
        with ledger.transaction() as rows:
            for number in range(3):
                rows.tasks.insert(task(f"00{number}", timeout=1.5, soft=True, metadata={"a": "é\n\0"}))
            rows.tasks.add_log("TASK-2026-11-21-000", AT, "ada", "one")
            rows.team.add_member(member("zoe"))
            rows.team.add_member(member("ada"))
            rows.messages.insert(message("one"), "c1")
        digest = ledger.export(str(tmp_path / "one.gz"))
        with pytest.raises(StorageError):
            ledger.export(str(tmp_path / "one.gz"))
        other = there(tmp_path / "there", 60)
        try:
            other.take_in(str(tmp_path / "one.gz"), "beta")
            with pytest.raises(TeamExists):
                other.take_in(str(tmp_path / "one.gz"), "beta")
            assert other.open("beta").export(str(tmp_path / "two.gz")) == digest
            with other.open("beta").transaction() as rows:
                assert rows.team.names() == ["lead", "zoe", "ada"]
                assert rows.tasks.insert(task("003")) == 4 and rows.messages.insert(message("two"), None) == 2
                rows.tasks.add_log("TASK-2026-11-21-000", AT, "ada", "two")
                assert [line for _, _, line in rows.tasks.log("TASK-2026-11-21-000")] == ["one", "two"]
            whole = gzip.decompress((tmp_path / "one.gz").read_bytes())
            for bad in (whole.replace(b"zoe", b"joe"), whole[: len(whole) // 2], b"", b'{"format": 2}\n'):
                (tmp_path / "bad.gz").write_bytes(gzip.compress(bad))
                with pytest.raises(StorageError):
                    other.take_in(str(tmp_path / "bad.gz"), "gamma")
                assert connect().inspect(str(tmp_path / "bad.gz")) != []
            assert other.names() == ["beta"]
        finally:
            other.close()

    def test_a_closed_ledger_opens_itself_again(self, ledger: Ledger) -> None:
        ledger.close()
        with ledger.transaction() as rows:
            rows.tasks.insert(task("001"))
        ledger.close()
        with ledger.snapshot() as rows:
            assert len(rows.tasks.select()) == 1


class TestCatalog:
    def test_a_team_is_listed_while_it_exists(self, connect: Callable[..., Catalog], place: str) -> None:
        catalog = connect()
        catalog.create(replace(TEAM, name="beta", id="t2"), LEAD, AT)
        assert catalog.names() == ["alpha", "beta"] and catalog.exists("beta") and not catalog.exists("gamma")
        connect().delete("beta", AT)
        assert catalog.names() == ["alpha"] and not catalog.exists("beta")

    def test_a_name_is_given_once(self, connect: Callable[..., Catalog], place: str) -> None:
        with pytest.raises(TeamExists):
            connect().create(TEAM, LEAD, AT)
        with connect().open(place).snapshot() as rows:
            assert [event.type for event in rows.events.since(0)] == ["team.created", "member.spawned"]

    def test_a_team_that_is_not_there_is_not_found(self, connect: Callable[..., Catalog]) -> None:
        with pytest.raises(TeamNotFound):
            connect().open("nowhere")
        with pytest.raises(TeamNotFound):
            connect().delete("nowhere", AT)

    def test_a_ledger_is_opened_once(self, connect: Callable[..., Catalog], place: str) -> None:
        catalog = connect()
        assert catalog.open(place) is catalog.open(place)

    def test_a_deleted_team_can_be_created_again(
        self, connect: Callable[..., Catalog], ledger: Ledger, place: str
    ) -> None:
        catalog = connect()
        before = catalog.open(place)
        connect().delete(place, AT)
        for one in (ledger, before):
            with pytest.raises(TeamNotFound), one.transaction():
                raise AssertionError("it was deleted")
        with pytest.raises(TeamNotFound):
            catalog.open(place)
        connect().create(replace(TEAM, id="t3"), LEAD, AT)
        with catalog.open(place).snapshot() as rows:
            assert rows.team.get().id == "t3"


class TestTeam:
    def test_a_new_team_is_as_it_was_given_and_its_lead_is_in_it(self, ledger: Ledger) -> None:
        with ledger.snapshot() as rows:
            assert rows.team.get() == TEAM
            assert rows.team.members() == [LEAD] and rows.team.member("lead") == LEAD
            assert [event.type for event in rows.events.since(0)] == ["team.created", "member.spawned"]

    def test_fields_are_written_in_the_row_and_in_the_hand(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            team = rows.team.get()
            rows.team.update(team, settings={"retries": 1}, runner="p1")
            assert (team.settings, team.runner) == ({"retries": 1}, "p1") and rows.team.get() == team

    def test_days_are_numbered_from_one_and_go_on_after_another_day(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for day, number in (("2026-11-21", 1), ("2026-11-21", 2), ("2026-11-22", 1), ("2026-11-21", 3)):
                assert rows.team.number_task(day)[0] == number
                rows.tasks.insert(task("000", id=f"TASK-{day}-{number:03d}"))

    def test_open_tasks_are_counted(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            assert [rows.team.number_task("2026-11-21")[1] for _ in range(2)] == [1, 2]
            rows.team.count_open(-1)
            assert rows.team.get().open_tasks == 1

    def test_a_transaction_and_a_snapshot_begin_with_the_newest_event_and_the_team(self, ledger: Ledger) -> None:
        with ledger.snapshot() as rows:
            newest = rows.events.since(0)[-1]
            assert (rows.start.head, rows.start.at) == (newest.seq, newest.at)
            assert (rows.start.team, rows.start.settings, rows.start.workdir) == ("alpha", {"retries": 5}, None)
        with ledger.transaction() as rows:
            rows.team.update(rows.team.get(), settings={}, workdir="/w")
            seq = rows.events.append("team.updated", "lead", None, AT, {})
        with ledger.transaction() as rows:
            assert (rows.start.head, rows.start.settings, rows.start.workdir) == (seq, {}, "/w")

    def test_the_team_is_read_as_it_is_at_this_point_of_a_transaction(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            begun, handed_out = rows.team.get(), rows.team.get()
            handed_out.settings["retries"] = 9
            assert rows.team.get() == begun, "what was handed out is nobody else's"
            rows.team.number_task("2026-11-21")
            assert (rows.team.get().open_tasks, rows.team.get().day_count) == (1, 1)
        with ledger.snapshot() as rows:
            assert rows.team.get() == replace(begun, open_tasks=1, day="2026-11-21", day_count=1)

    def test_a_member_enters_by_name_or_key_in_a_session(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            rows.team.add_member(member("bob", agent="shell"))
            assert rows.team.enter("nobody", None, AT) is None
            new = ActingMember("bob", "member", "active", "shell", known=False, delivered=False)
            assert rows.team.enter("bob", "s1", AT) == rows.team.enter("key:bob", None, AT) == new
            bob = rows.team.member("bob")
            assert bob is not None and (bob.session, bob.last_active_at) == ("cli:bob", AT)
            rows.sessions.begin("bob", "cli:bob", AT, None)
            one = message("one")
            rows.messages.insert(one, None)
            rows.messages.offer("bob", [one.n], "cli:bob", "p", AT)
            assert rows.team.enter("bob", None, AT) == new._replace(known=True)
            rows.messages.deliver("bob", [one.n], "cli:bob", AT)
            assert rows.team.enter("bob", None, AT) == new._replace(known=True, delivered=True)
            assert rows.team.enter("bob", "s1", AT) == new
            rows.sessions.end("bob", "cli:bob", AT)
            assert rows.team.enter("bob", None, AT) == new._replace(delivered=True)

    def test_members_come_lead_first_then_by_joining_then_people(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for one in (member("zoe"), member("human", role="person"), member("ada", command=["a", "b"])):
                rows.team.add_member(one)
            assert [one.name for one in rows.team.members()] == ["lead", "zoe", "ada", "human"]
            assert sorted(rows.team.names()) == ["ada", "human", "lead", "zoe"]
            assert rows.team.member("ada") == member("ada", command=["a", "b"])
            assert rows.team.member("nobody") is None

    def test_a_member_is_changed_and_forgotten(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            ada = member("ada")
            rows.team.add_member(ada)
            rows.team.update_member(ada, model="opus", command=["x"])
            assert rows.team.member("ada") == ada == member("ada", model="opus", command=["x"])
            rows.team.remove_member("ada")
            assert rows.team.member("ada") is None

    def test_an_address_is_found_by_name_or_key(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            rows.team.add_member(member("ada"))
            assert rows.team.address("ada") == rows.team.address("key:ada") == ("ada", "ada", "member", 0)
            assert rows.team.address("agent:main:main") == ("lead", "agent_main_main", "lead", 0)
            assert rows.team.address("nobody") is None

    def test_inboxes_share_one_namespace_without_case(self, ledger: Ledger) -> None:
        with ledger.snapshot() as rows:
            assert rows.team.inbox_taken("AGENT_main_MAIN") == "lead"
            assert rows.team.inbox_taken("ada") is None

    def test_sessions_begin_end_and_begin_again(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            assert not rows.sessions.known("lead", "s1")
            rows.sessions.begin("lead", "s1", AT, "p1")
            rows.sessions.begin("lead", "s2", AT, None)
            assert rows.sessions.known("lead", "s1") and not rows.sessions.known("ada", "s1")
            assert sorted(rows.sessions.living("lead")) == [("s1", "p1"), ("s2", None)]
            rows.sessions.end("lead", "s1", AT)
            assert not rows.sessions.known("lead", "s1")
            assert rows.sessions.living("lead") == [("s2", None)]
            rows.sessions.begin("lead", "s1", AT, "p2")
            assert ("s1", "p2") in rows.sessions.living("lead")


class TestTasks:
    def test_tasks_of_an_epic_are_found_and_what_only_looks_like_one_is_not(self, ledger: Ledger) -> None:
        said = {"1": {"epic": "1"}, "2": {"epic": "10"}, "3": {"epic": 'a "b" %'}, "4": {"note": '"epic": "1"'}}
        said |= {"5": {"epic": 7, "note": "\0"}, "6": {"note": {"epic": "of something else"}}}
        said |= {"7": {"epic": "1", "note": "\0"}, "8": {"epic": {"epic": "1"}}}
        with ledger.transaction() as rows:
            for id, metadata in said.items():
                rows.tasks.insert(task(id, metadata=metadata))
            assert rows.tasks.epics() == ["1", "10", 'a "b" %']
            for epic, found in (("1", ["1", "7", "8"]), ("10", ["2"]), ('a "b" %', ["3"]), ("2", [])):
                board = rows.tasks.board("next", BoardFilter(epic=epic), limit=9)
                assert [one.subject for one in board] == found
                assert rows.tasks.board_counts(BoardFilter(epic=epic))["next"] == len(found)

    def test_every_field_comes_back_as_it_was_written(self, ledger: Ledger) -> None:
        whole = task(
            "001", subject="S é 🎉", body="B\n\n## Work Log", state="review", owner="bob", assignee="ada",
            reserved="ada",
            type="REPORT", priority="critical", review="human", verify="true", command="false", parent_id="P",
            group_id="G", project_id="J", plan_key="k", plan_digest="d", run=3, session="s", failures=2, rounds=1,
            open_blockers=4, soft=True, not_before=AT, output="o", context="c", findings="f",
            evidence=[{"kind": "verify", "tail": "é"}],
            verifying={"run": 3}, metadata={"a": [1, None]}, claimed_at=AT,
            completed_at=AT,
        )  # fmt: skip
        with ledger.transaction() as rows:
            assert rows.tasks.insert(whole) == whole.n == whole.rank
        with ledger.snapshot() as rows:
            assert rows.tasks.get(whole.id) == whole

    def test_fields_are_written_in_the_row_and_in_the_hand(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            one = task("001")
            rows.tasks.insert(one)
            rows.tasks.update(one, state="in-progress", owner="bob", priority="low", metadata={"x": 1}, evidence=[])
            assert (one.state, one.owner, one.priority, one.metadata) == ("in-progress", "bob", "low", {"x": 1})
            assert rows.tasks.get(one.id) == one

    def test_numbers_and_ranks_grow(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            made = [task(f"{n:03d}") for n in range(1, 5)]
            numbers = [rows.tasks.insert(one) for one in made]
            assert numbers == sorted(set(numbers)) == [one.rank for one in made]

    def test_a_suffix_matches_whole_parts_literally(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for id in ("001", "011", "1001"):
                rows.tasks.insert(task(id))

            def ending(suffix: str, limit: int = 5) -> list[str]:
                return [one.id for one in rows.tasks.named("", suffix, limit)]

            assert ending("001") == ["TASK-2026-11-21-001"]
            assert ending("21-011") == ["TASK-2026-11-21-011"]
            assert ending("%") == ending("_01") == []
            rows.tasks.insert(task("0", id="TASK-2026-11-22-001"))
            assert ending("001") == ["TASK-2026-11-22-001", "TASK-2026-11-21-001"]
            assert ending("001", 1) == ["TASK-2026-11-22-001"]

    def test_a_task_is_named_by_its_plan_key_or_its_ending(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for id, key in (("001", "7"), ("007", None), ("003", "7")):
                rows.tasks.insert(task(id, plan_key=key))
            assert [one.subject for one in rows.tasks.named("7", "007", 5)] == ["003", "007"]
            assert [one.subject for one in rows.tasks.named("7", None, 5)] == ["003"]

    def test_a_page_says_what_the_files_of_a_task_show(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            one, other, lone = (task(id, evidence=[]) for id in ("001", "002", "003"))
            for made in (one, other, lone):
                rows.tasks.insert(made)
            rows.graph.add(one.id, other.id)
            rows.tasks.add_log(one.id, AT, "ada", "é")
            seqs = [rows.events.append("task.created", "ada", made.id, AT, {}) for made in (one, other, one)]
        with ledger.snapshot() as rows:
            assert rows.tasks.page(one.id) == TaskPage(one, seqs[-1], [(AT, "ada", "é")], None)
            assert rows.tasks.page(other.id) == TaskPage(other, seqs[1], [], None)
            assert rows.tasks.page(lone.id) == TaskPage(lone, 0, [], None) and rows.tasks.page("none") is None

    def test_of_a_plan_key_the_newest_task_counts(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for id, key in (("001", "lint"), ("002", "test"), ("003", "lint"), ("004", None)):
                rows.tasks.insert(task(id, plan_key=key))
            lint = rows.tasks.by_plan_key("lint")
            assert lint is not None and lint.subject == "003" and rows.tasks.by_plan_key("none") is None
            assert sorted(one.subject for one in rows.tasks.planned()) == ["002", "003"]

    def test_tasks_below_a_number_come_newest_first(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            numbers = [rows.tasks.insert(task(f"00{n}")) for n in range(1, 5)]
            assert [one.n for one in rows.tasks.select(before=numbers[-1], limit=2)] == numbers[2:0:-1]
            assert [one.n for one in rows.tasks.select(before=numbers[-1] + 1)] == numbers[::-1]

    def test_tasks_are_selected_in_order_of_creation(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for id, state, owner in (("001", "ready", None), ("002", "in-progress", "bob"), ("003", "deleted", None),
                                     ("004", "done", "bob"), ("005", "ready", None)):  # fmt: skip
                rows.tasks.insert(task(id, state=state, owner=owner))

            def found(**filters: Any) -> list[str]:
                return [one.subject for one in rows.tasks.select(**filters)]

            assert found() == ["001", "002", "004", "005"]
            assert found(states=["deleted", "ready"]) == ["001", "003", "005"]
            assert found(states=[]) == []
            assert found(owner="bob") == ["002", "004"]
            assert found(limit=2) == ["001", "002"] and found(limit=0) == []
            second = rows.tasks.get("TASK-2026-11-21-002")
            assert second is not None and found(after=second.n) == ["004", "005"]
            assert [one.subject for one in rows.tasks.owned("bob")] == ["002"]
            assert rows.tasks.current() == {"bob": "TASK-2026-11-21-002"}
            counted = [("deleted", 1), ("done", 1), ("in-progress", 1), ("ready", 2)]
            assert list(rows.tasks.counts().items()) == counted, "in the same order in every database"

    def test_the_next_task_is_the_most_urgent_then_oldest_that_the_member_may_have(self, ledger: Ledger) -> None:
        later, now = "2026-11-21T04:00:00.000Z", "2026-11-21T03:59:00.000Z"
        with ledger.transaction() as rows:
            for one in (
                task("001", priority="low"), task("002"), task("003", priority="high", assignee="ada"),
                task("004", priority="critical", command="make"), task("005", priority="critical", not_before=later),
                task("006", assignee="ada", reserved="bob"), task("007", state="backlog", priority="critical"),
            ):  # fmt: skip
                rows.tasks.insert(one)

            def first(name: str, shell: bool | None, now: str = now) -> str | None:
                found = rows.tasks.next_ready(name, shell=shell, now=now)
                return found.subject if found else None

            assert first("ada", False) == "003" and first("bob", False) == "002"
            assert first("eve", True) == "004" and first("eve", None) == "004"
            assert first("eve", False, later) == "005"
            assert [one.subject for one in rows.tasks.ready(10)] == ["004", "005", "003", "002", "006", "001"]
            assert [one.subject for one in rows.tasks.ready(1)] == ["004"]
            assert rows.tasks.ready_after(now) == later and rows.tasks.ready_after(later) is None

    def test_the_work_log_keeps_its_order(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for text in ("b", "a", "c"):
                rows.tasks.add_log("T1", AT, "ada", text)
            rows.tasks.add_log("T2", AT, "ada", "other")
            assert rows.tasks.log("T1") == [(AT, "ada", "b"), (AT, "ada", "a"), (AT, "ada", "c")]


class TestGraph:
    def test_both_ends_know_of_an_edge_whatever_their_states(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            made = [task(f"00{n}", state=state) for n, state in enumerate(("done", "ready", "backlog", "deleted"))]
            for one in made:
                rows.tasks.insert(one)
            a, b, c, d = (one.id for one in made)
            assert [rows.graph.add(blocker, c) for blocker in (a, b, a)] == [True, True, False]
            assert rows.graph.add(b, d)
            assert rows.graph.blockers(c) == [(a, "done"), (b, "ready")]
            assert sorted(rows.graph.dependents(b)) == [c, d]
            assert [one.id for one in rows.graph.open_dependents(b)] == [c]
            assert sorted(rows.graph.edges()) == [(a, c), (b, c), (b, d)]
            assert set(rows.graph.edges_of([a])) == {(a, "done", c, "backlog")}
            assert set(rows.graph.edges_of([b])) == {(b, "ready", c, "backlog"), (b, "ready", d, "deleted")}
            assert rows.graph.edges_of([]) == []
            assert rows.graph.remove(a, c) and not rows.graph.remove(a, c)
            assert rows.graph.blockers(c) == [(b, "ready")]

    def test_edges_of_very_many_tasks_are_found(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            ids = [f"TASK-2026-11-21-{n:04d}" for n in range(1001)]
            for id in ids:
                rows.tasks.insert(task(id, id=id))
            for blocker, blocked in zip(ids, ids[1:], strict=False):
                rows.graph.add(blocker, blocked)
            assert {(one[0], one[2]) for one in rows.graph.edges_of(ids)} == set(rows.graph.edges())

    def test_ranks_are_kept(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            one, two = task("001"), task("002")
            rows.tasks.insert(one)
            rows.tasks.insert(two)
            rows.graph.set_ranks({one.id: 2, two.id: 1})
            assert (rows.graph.rank(one.id), rows.graph.rank(two.id)) == (2, 1)


class TestReports:
    """What a report reads: of each list the newest, of all of them sums."""

    def test_the_newest_tasks_that_ended_since_a_time_are_found(self, ledger: Ledger) -> None:
        early, late = AT.replace("03:", "02:"), AT.replace("03:", "04:")
        with ledger.transaction() as rows:
            for number, ended in enumerate((early, late, late, None)):
                rows.tasks.insert(task(f"00{number}", state="done" if ended else "ready", completed_at=ended))
            found = rows.tasks.select(states=["done"], before=2**62, limit=1, ended_since=AT)
            assert [one.subject for one in found] == ["002"]
            assert [one.subject for one in rows.tasks.select(ended_since=AT)] == ["001", "002"]

    def test_evidence_of_done_tasks_is_told_and_none_of_it_is_counted(self, ledger: Ledger) -> None:
        early, said = AT.replace("03:", "02:"), [{"kind": "verify", "passed": True, "tail": "It's ?"}]
        with ledger.transaction() as rows:
            for number, (at, proof) in enumerate(((AT, None), (AT, []), (AT, said), (early, said), (early, None))):
                rows.tasks.insert(task(f"00{number}", state="done", completed_at=at, evidence=proof))
            rows.tasks.insert(task("009", state="review", evidence=said))
            assert list(rows.tasks.evidence(AT)) == [([], 2), (said, 1)]
            assert list(rows.tasks.evidence(None)) == [([], 3), (said, 1), (said, 1)]

    def test_tasks_with_trouble_are_found_by_their_runs_and_by_what_events_say(self, ledger: Ledger) -> None:
        early, late = AT.replace("03:", "02:"), AT.replace("03:", "04:")
        telling = {"verify.finished": (("passed", False),), "run.stuck": ()}
        with ledger.transaction() as rows:
            ids = [task(f"00{number}").id for number in range(7)]
            for number, state in enumerate(("done", "done", "done", "ready", "deleted", "done", "done")):
                rows.tasks.insert(task(f"00{number}", state=state))
            rows.runs.begin(run(ids[0], 1, ended_at=early, outcome="failed"))
            rows.runs.begin(run(ids[1], 1, ended_at=late, outcome="done"))
            for id, type, at, said in (
                (ids[2], "verify.finished", late, {"round": 1, "passed": False}),
                (ids[1], "verify.finished", late, {"round": 1, "passed": True, "tail": '"passed": false'}),
                (ids[3], "run.stuck", AT, {"action": "asked"}),
                (ids[4], "run.stuck", AT, {"action": "asked"}),
                (ids[5], "task.claimed", AT, {"passed": False}),
            ):
                rows.events.append(type, "bob", id, at, said)
        with ledger.snapshot() as rows:

            def found(since: str, limit: int) -> list[str]:
                return [one.id for one in rows.tasks.troubled(["done"], telling, since, limit)]

            assert found("", 9) == [ids[0], ids[2], ids[3]]
            assert found("", 2) == found(AT, 9) == [ids[2], ids[3]] and found(late, 9) == [ids[2]]
            told = rows.events.of_tasks([ids[1], ids[3]], ["run.stuck"])
            assert {id: [one.type for one in some] for id, some in told.items()} == {ids[3]: ["run.stuck"]}

    def test_worktrees_are_counted_and_those_that_stay_are_found(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for name, state, known in (
                ("001", "done", {"merged": "c0ffee", "delivered": "main", "stays": None}),
                ("002", "done", {"merged": "c0ffee"}),
                ("003", "done", {"merged": None, "stays": "it is full"}),
                ("004", "cancelled", {"merged": "c0ffee"}),
                ("005", "cancelled", None),
            ):
                rows.tasks.insert(task(name, state=state, worktree=known))
            assert rows.tasks.merged() == 2 and [one.subject for one in rows.tasks.undelivered()] == ["002"]
            assert [one.subject for one in rows.tasks.kept(["cancelled"])] == ["003", "004"]

    def test_what_tasks_wait_for_is_found_near_and_far(self, ledger: Ledger) -> None:
        states = {"001": "ready", "002": "backlog", "003": "backlog", "004": "done", "005": "cancelled"}
        with ledger.transaction() as rows:
            made = {name: task(name, state=state) for name, state in states.items()}
            numbers = {name: rows.tasks.insert(one) for name, one in made.items()}
            for blocker, blocked in (("001", "002"), ("002", "003"), ("004", "003"), ("005", "003"), ("003", "001")):
                rows.graph.add(made[blocker].id, made[blocked].id)
            assert [one.subject for one in rows.graph.holding_up(numbers["002"])] == ["001", "002", "005"]
            assert rows.graph.holding_up(numbers["003"]) == []

    def test_the_totals_are_of_runs_that_were_worked_in(self, ledger: Ledger) -> None:
        early, late = AT.replace("03:", "02:"), AT.replace("03:", "04:")
        with ledger.transaction() as rows:
            assert rows.runs.totals(late, "")["runs"] == 0 and rows.runs.totals(late, "")["cost_usd"] is None
            ids = [task(f"00{number}").id for number in range(3)]
            for number, state in enumerate(("done", "ready", "deleted")):
                rows.tasks.insert(task(f"00{number}", state=state))
            for one in (
                run(ids[0], 1, started_at=early, ended_at=AT, outcome="done"),
                run(ids[0], 2, ended_at=AT, outcome="released"),
                run(ids[1], 1),
                run(ids[2], 1, started_at=early, ended_at=AT, outcome="done"),
            ):
                rows.runs.begin(one)
            rows.runs.update(run(ids[0], 1), turns=2, input_tokens=5, output_tokens=3, cost_usd=0.5)
            found = rows.runs.totals(late, "")
            assert (found["runs"], found["began_at"], found["ended_at"]) == (2, early, late)
            assert (found["turns"], found["tokens"], found["cost_usd"], found["time"]) == (2, 8, 0.5, 7200.0)
            assert rows.runs.totals(late, late)["runs"] == 1


class TestRuns:
    def test_runs_are_kept_by_task_and_number(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            first, second, other = run("T1", 1), run("T1", 2, runner="p"), run("T2", 1)
            for one in (first, second, other):
                rows.runs.begin(one)
            assert rows.runs.get("T1", 2) == second and rows.runs.get("T1", 3) is None
            assert rows.runs.of_task("T1") == [first, second]
            assert rows.runs.by_task(["T1", "T2", "T3"]) == {"T1": [first, second], "T2": [other]}
            assert rows.runs.by_task(["T2"]) == {"T2": [other]} and rows.runs.by_task([]) == {}
            assert rows.runs.open_count() == 1  # those that a runner drives
            rows.runs.update(first, ended_at=AT, outcome="failed", reason="r", beats=7)
            assert rows.runs.get("T1", 1) == first and first.beats == 7
            rows.runs.end("T1", 2, AT, "done", "why")
            rows.runs.end("T1", 2, "later", "failed", None)
            assert rows.runs.get("T1", 2) == replace(second, ended_at=AT, outcome="done", reason="why")
            rows.runs.reopen("T1", 2)
            assert rows.runs.get("T1", 2) == second
            assert rows.runs.open() == [second, other] and rows.runs.open_count() == 1

    def test_the_newest_run_of_a_session_is_found(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for number, session in ((1, "a"), (2, "b"), (3, "a")):
                rows.runs.begin(run("T1", number, session=session))
            rows.runs.begin(run("T2", 9, session="a"))
            found = rows.runs.of_session("T1", "a")
            assert found is not None and found.number == 3
            assert rows.runs.of_session("T1", "c") is None

    def test_runs_are_found_by_what_they_hang_on(self, ledger: Ledger) -> None:
        earlier, later = AT.replace("03:", "02:"), AT.replace("03:", "04:")
        with ledger.transaction() as rows:
            rows.sessions.begin("bob", "s1", AT, "process")
            rows.sessions.begin("bob", "s2", AT, None)
            for number in range(1, 7):
                state = "blocked" if number == 6 else "in-progress"
                rows.tasks.insert(task(f"00{number}", state=state, owner="bob", run=1))
            ids = [f"TASK-2026-11-21-00{number}" for number in range(1, 7)]
            first = run(ids[0], 1, session="s1")
            second = run(ids[1], 1, session="s2", heartbeat_at=AT, expires_at=AT)
            third = run(ids[2], 1, runner="r", expires_at=earlier)
            fourth = run(ids[3], 1, runner="r", expires_at=later)
            ended = run(ids[4], 1, runner="q", session="s1", ended_at=AT, expires_at=AT)
            stopped = run(ids[5], 1, session="s1", expires_at=AT)
            for one in (first, second, third, fourth, ended, stopped):
                rows.runs.begin(one)
            assert rows.runs.lapsed(AT) == [third, second]
            assert rows.runs.runners() == ["r"] and rows.runs.of_runner("r") == [third, fourth]
            assert rows.runs.of_member_session("bob", "s1") == [first]
            assert sorted(rows.runs.by_hand()) == [ids[0], ids[1], ids[5]]
            assert rows.runs.joined() == [("bob", "s1", "process", None)]

    def test_a_session_is_gone_until_it_acts_again(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            assert rows.sessions.get("bob", "s1") is None
            rows.sessions.begin("bob", "s1", AT, "process")
            rows.sessions.note_gone("bob", "s1", AT)
            rows.sessions.note_gone("bob", "s1", "later")
            assert rows.sessions.get("bob", "s1") == ("process", AT)
            rows.sessions.note_alive("bob", "s1", None)
            assert rows.sessions.get("bob", "s1") == ("process", None)
            rows.sessions.note_alive("bob", "s1", "another")
            assert rows.sessions.get("bob", "s1") == ("another", None)
            rows.sessions.end("bob", "s1", AT)
            assert rows.sessions.get("bob", "s1") == ("another", AT)

    def test_the_seats_of_programs_that_joined_are_found_by_session_and_by_process(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            rows.sessions.begin("bob", "by-hand", AT, "p1")
            rows.sessions.begin("bob", "w1", "1", "p1", "claude")
            rows.sessions.begin("ada", "w2", "2", "p2", "codex")
            rows.sessions.begin("ada", "w3", "3", "p1", "claude")
            rows.sessions.end("ada", "w3", AT)
            assert rows.sessions.joined() == [("ada", "w2", "p2", None), ("bob", "w1", "p1", None)]
            assert rows.sessions.joined("w3") == [("ada", "w3", "p1", AT)]
            assert rows.sessions.joined(process="p1") == [("ada", "w3", "p1", AT), ("bob", "w1", "p1", None)]
            assert rows.sessions.joined("by-hand") == rows.sessions.joined(process="p9") == []

    def test_the_process_of_a_program_that_joined_is_the_one_it_began_with(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            rows.sessions.begin("bob", "w1", AT, "p1", "claude")
            rows.sessions.note_gone("bob", "w1", AT)
            rows.sessions.note_alive("bob", "w1", "its MCP server")
            assert rows.sessions.get("bob", "w1") == ("p1", None)
            rows.sessions.begin("bob", "w1", AT, "p2")
            assert rows.sessions.joined() == [("bob", "w1", "p2", None)]

    def test_whether_a_session_was_sent_back_in_this_turn(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            assert not rows.sessions.sent_back("bob", "w1")
            rows.sessions.begin("bob", "w1", AT, "p1", "claude")
            assert not rows.sessions.sent_back("bob", "w1")
            rows.sessions.note_sent_back("bob", "w1", True)
            assert rows.sessions.sent_back("bob", "w1")
            rows.sessions.note_sent_back("bob", "w1", False)
            assert not rows.sessions.sent_back("bob", "w1")

    def test_whether_a_session_holds_work_that_no_runner_drives(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            rows.runs.begin(run("001", 1))
            rows.runs.begin(run("002", 2, runner="r"))
            assert rows.sessions.hold_work("bob", "s1")
            assert not rows.sessions.hold_work("bob", "s2")
            assert not rows.sessions.hold_work("ada", "s1")

    def test_what_is_being_verified_is_found(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            rows.tasks.insert(task("001", state="review", owner="bob"))
            rows.tasks.insert(task("002", state="review", owner="bob", verifying={"process": "p"}))
            assert [one.subject for one in rows.tasks.verifying()] == ["002"]


class TestMessages:
    @pytest.fixture(autouse=True)
    def bob(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            rows.team.add_member(member("bob"))

    def test_every_field_comes_back_and_the_recipient_has_one_more_to_read(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            sent = message(
                "é 🎉\n", type="shutdown_response", summary="s", request_id="r", approve=False, reason="why",
                metadata={"a": 1}, urgent=True,
            )  # fmt: skip
            assert rows.messages.insert(sent, "c1") == sent.n
            (found,) = rows.messages.undelivered("bob")
            assert {name: getattr(found, name) for name in Message.__slots__} == {
                name: getattr(sent, name) for name in Message.__slots__
            }
            assert rows.messages.unread_of("bob") == 1
            assert [one.id for one in rows.messages.by_client_id("ada", "c1")] == [sent.id]
            assert rows.messages.by_client_id("bob", "c1") == rows.messages.by_client_id("ada", "c2") == []

    def test_the_stages_follow_each_other_and_the_counter_goes_along(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            one, two = message("1"), message("2")
            for sent in (one, two):
                rows.messages.insert(sent, None)
            assert rows.messages.deliver("bob", [one.n], "s1", AT) == [], "it was not offered"
            rows.messages.offer("bob", [one.n], "s1", "p1", AT)
            offered = rows.messages.offerable("bob", 10, False)
            assert [(m.content, m.stage, m.attempt, process, at) for m, process, at in offered] == [
                ("1", "offered", 1, "p1", AT), ("2", "stored", 0, "", ""),
            ]  # fmt: skip
            assert rows.messages.unread_of("bob") == 2
            assert rows.messages.deliver("bob", [one.n], "s2", AT) == [], "another session's"
            assert rows.messages.deliver("bob", [one.n, two.n], "s1", AT) == [one.id]
            assert rows.messages.unread_of("bob") == 1
            assert rows.messages.acknowledge("bob", "s2", AT) == []
            assert rows.messages.acknowledge("bob", "s1", AT) == [one.id]
            assert [m.content for m in rows.messages.undelivered("bob")] == ["2"]
            assert [m.stage for m in rows.messages.numbered([one.n, two.n])] == ["acknowledged", "stored"]

    def test_what_was_not_acknowledged_goes_back(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            sent = [message(str(n)) for n in range(4)]
            for one in sent:
                rows.messages.insert(one, None)
            numbers = [one.n for one in sent]
            rows.messages.offer("bob", numbers[:2], "s1", "p1", AT)
            rows.messages.deliver("bob", numbers[:1], "s1", AT)
            rows.messages.offer("bob", numbers[2:], "s2", "p2", AT)
            rows.messages.deliver("bob", numbers[2:3], "s2", AT)
            assert rows.messages.unread_of("bob") == 2
            assert set(rows.messages.requeue("bob", except_session="s2", numbers=None)) == {sent[0].id, sent[1].id}
            assert rows.messages.unread_of("bob") == 3
            assert rows.messages.requeue("bob", except_session=None, numbers=numbers[2:3]) == [sent[2].id]
            assert rows.messages.requeue("bob", except_session=None, numbers=[]) == []
            assert rows.messages.unread_of("bob") == 4
            assert [m.attempt for m in rows.messages.undelivered("bob")] == [1, 1, 1, 1]

    def test_ids_are_acknowledged_for_their_recipient_only(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            one = message("1")
            rows.messages.insert(one, None)
            assert rows.messages.acknowledge_ids("bob", [one.id], AT) == []
            rows.messages.offer("bob", [one.n], "s1", "p1", AT)
            rows.messages.deliver("bob", [one.n], "s1", AT)
            assert rows.messages.acknowledge_ids("lead", [one.id], AT) == []
            assert rows.messages.acknowledge_ids("bob", [one.id, "unknown"], AT) == [one.id]
            assert rows.messages.acknowledge_ids("bob", [one.id], AT) == [], "it was, before"
            assert rows.messages.acknowledge_ids("bob", [], AT) == []
            assert rows.messages.seen("bob", [one.id, "unknown"]) == [one.id]
            assert rows.messages.seen("lead", [one.id]) == []

    def test_what_was_offered_once_may_be_acknowledged_whatever_became_of_it(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            one, two, three = message("1"), message("2"), message("3")
            for sent in (one, two, three):
                rows.messages.insert(sent, None)
            rows.messages.offer("bob", [one.n, two.n], "s1", "p1", AT)
            rows.messages.requeue("bob", except_session=None, numbers=[two.n])
            assert [m.content for m in rows.messages.unacknowledged("bob", 9)] == ["1", "2", "3"]
            assert [m.content for m in rows.messages.unacknowledged("bob", 1, one.n)] == ["2"]
            ids = rows.messages.acknowledge_ids("bob", [one.id, two.id, three.id], AT)
            assert set(ids) == {one.id, two.id}
            assert rows.messages.unread_of("bob") == 1
            assert rows.messages.deliver("bob", [one.n], "s1", AT) == [], "its reader was quicker"
            assert rows.messages.unread_of("bob") == 1
            assert [m.content for m in rows.messages.unacknowledged("bob", 9)] == ["3"]

    def test_urgent_ones_are_found_apart_and_limits_hold(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for n in range(6):
                rows.messages.insert(message(str(n), urgent=n % 2 == 0), None)
            assert [m.content for m, _, _ in rows.messages.offerable("bob", 2, False)] == ["0", "1"]
            assert [m.content for m, _, _ in rows.messages.offerable("bob", 9, True)] == ["0", "2", "4"]

    def test_history_is_the_newest_in_order(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            sent = [message("1"), message("2", to="lead"), message("3", sender="bob", to="lead", request_id="r")]
            for one in sent:
                rows.messages.insert(one, None)

            def found(**filters: Any) -> list[str]:
                values: dict[str, Any] = {"member": None, "limit": 10, "before": None, **filters}
                return [one.content for one in rows.messages.history(**values)]

            assert found() == ["1", "2", "3"] and found(limit=2) == ["2", "3"] and found(limit=0) == []
            assert found(member="bob") == ["1", "3"] and found(before=sent[2].n) == ["1", "2"]
            assert found(request_id="r") == ["3"]


class TestOutstanding:
    """What one look tells of all that somebody may have to see to."""

    def test_of_a_new_team_there_is_nothing(self, ledger: Ledger) -> None:
        with ledger.snapshot() as rows:
            assert not any(rows.outstanding(AT))

    @pytest.mark.parametrize("kind", [*Outstanding._fields])
    def test_each_kind_is_told_by_itself(self, ledger: Ledger, kind: str) -> None:
        later = AT.replace("03:", "04:")
        with ledger.transaction() as rows:
            match kind:
                case "requests":
                    rows.requests.insert(StopRequest("r1", "bob", "lead", ["bob"], {}, None, "open", AT, AT))
                case "questions":
                    rows.questions.insert(
                        Question("Q", "T1", "review", "?", [], None, "", AT, "ada", True, "open", None, None, None)
                    )
                case "by_hand" | "driven":
                    rows.runs.begin(run("T1", 1, runner="r" if kind == "driven" else None))
                    rows.runs.begin(run("T1", 2, runner=None if kind == "driven" else "r", ended_at=AT))
                case "lapsed":
                    rows.tasks.insert(held := task("001", state="in-progress", owner="bob", run=1))
                    rows.runs.begin(run(held.id, 1, expires_at=AT))
                case "review" | "verifying" | "merging":
                    rows.tasks.insert(task("001", state="review", **({} if kind == "review" else {kind: {"at": AT}})))
                    rows.tasks.insert(task("002", state="done", verifying={"at": AT}, merging={"at": AT}))
                case "kept":
                    rows.sessions.begin("bob", "run:1", AT, "process")
                    rows.sessions.begin("bob", "cli:1", AT, "process")
                    rows.sessions.begin("bob", "run:2", AT, None)
                case "ready_after":
                    rows.tasks.insert(task("001", not_before=later))
                    rows.tasks.insert(task("002", not_before=AT))
            found = rows.outstanding(AT)
        beside = {"lapsed": {"by_hand"}, "verifying": {"review"}, "merging": {"review"}}.get(kind, set())
        assert {name for name, value in found._asdict().items() if value} == {kind, *beside}
        assert found.ready_after == (later if kind == "ready_after" else None)

    def test_what_has_ended_is_not_told(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            rows.requests.insert(made := StopRequest("r1", "bob", "lead", ["bob"], {}, None, "open", AT, AT))
            rows.requests.update(made, state="granted")
            rows.runs.begin(run("T1", 1, ended_at=AT, expires_at=AT))
            rows.sessions.begin("bob", "run:1", AT, "process")
            rows.sessions.end("bob", "run:1", AT)
            rows.tasks.insert(held := task("001", state="in-progress", owner="bob", run=2))
            rows.runs.begin(run(held.id, 1, ended_at=AT, expires_at=AT))
            assert not any(rows.outstanding(AT))


class TestQuestionsAndRequests:
    def test_a_question_is_open_until_it_is_answered(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            made = [
                Question(id, "T1", "review", "good?", ["a", "b"], "a", "c", at, "ada", True, "open", None, None, None)
                for id, at in (("Q2", "2026-01-02"), ("Q1", "2026-01-01"))
            ]
            for question in made:
                rows.questions.insert(question)
            assert rows.questions.get("Q2") == made[0] and rows.questions.get("Q3") is None
            assert [one.id for one in rows.questions.open()] == ["Q1", "Q2"]
            assert rows.questions.open("T2") == []
            rows.questions.update(made[0], state="answered", answer="yes", answered_by="human", answered_at=AT)
            assert rows.questions.get("Q2") == made[0] and made[0].answer == "yes"
            assert [one.id for one in rows.questions.open("T1")] == ["Q1"]

    def test_a_request_is_open_until_it_is_decided(self, ledger: Ledger) -> None:
        made = StopRequest("r1", "bob", "lead", ["bob", "ada"], {}, None, "open", AT, AT)
        with ledger.transaction() as rows:
            rows.requests.insert(made)
            assert rows.requests.get("r1") == made and rows.requests.get("r2") is None
            assert rows.requests.open() == [made]
            rows.requests.update(made, state="granted", answers={"bob": {"approve": True}})
            assert rows.requests.get("r1") == made and (made.state, made.answers) == (
                "granted",
                {"bob": {"approve": True}},
            )
            assert rows.requests.open() == []


class TestEvents:
    def test_numbers_have_no_gaps_in_the_order_of_commits(self, ledger: Ledger, other: Ledger) -> None:
        with ledger.snapshot() as rows:
            head = rows.start.head
        for number, one in enumerate((ledger, other, ledger), head + 1):
            with pytest.raises(ZeroDivisionError), one.transaction() as rows:  # noqa: PT012 - what is rolled back
                rows.events.append("task.logged", "ada", "T1", AT, {})
                raise ZeroDivisionError
            with one.transaction() as rows:
                assert rows.events.append("task.logged", "ada", "T1", AT, {"text": f"é {number}"}) == number
        with ledger.snapshot() as rows:
            found = rows.events.since(head)
            assert [event.seq for event in found] == [head + 1, head + 2, head + 3]
            assert [event.payload["text"] for event in found] == [f"é {head + n}" for n in (1, 2, 3)]
            assert rows.events.since(head, 1) == found[:1] and rows.start.head == head + 3
            assert rows.events.since(head + 3) == []

    def test_a_transaction_may_write_any_number_of_events(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            wrote = [rows.events.append("task.logged", "ada", f"T{n}", AT, {"n": n}) for n in range(1001)]
            assert [event.seq for event in rows.events.latest(None, 2)] == wrote[:-3:-1]
        with ledger.snapshot() as rows:
            found = rows.events.since(wrote[0] - 1)
            assert [(event.seq, event.payload["n"]) for event in found] == list(zip(wrote, range(1001), strict=True))

    def test_the_latest_events_come_newest_first_below_a_number_and_by_type(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for type in ("task.created", "task.claimed", "task.logged", "task.created"):
                head = rows.events.append(type, "ada", "T1", AT, {})
            assert [event.seq for event in rows.events.latest(None, 3)] == [head, head - 1, head - 2]
            assert [event.seq for event in rows.events.latest(head, 1)] == [head - 1]
            found = rows.events.latest(None, 2, ["task.created", "task.claimed"])
            assert [event.type for event in found] == ["task.created", "task.claimed"]
            assert rows.events.latest(1, 10) == []

    def test_the_events_of_a_task_are_its_newest_in_order(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for type in ("task.created", "task.claimed", "task.logged"):
                rows.events.append(type, "ada", "T1", AT, {})
                head = rows.events.append("task.created", "ada", "T2", AT, {})
            assert [event.type for event in rows.events.of_task("T1")] == [
                "task.created",
                "task.claimed",
                "task.logged",
            ]
            assert [event.type for event in rows.events.of_task("T1", 2)] == ["task.claimed", "task.logged"]
            assert [one[1:3] for one in rows.events.raw_since(head - 2)] == [
                ("task.logged", "T1"), ("task.created", "T2")
            ]  # fmt: skip
