"""What every ledger promises about workflows: the page `interlock/storage/ledger.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.model.workflow import QueueEntry, WorkflowEntry, WorkflowRow
from interlock.storage.ledger import Ledger
from tests.conformance.test_ledger import AT, connect, ledger, other, place, task

__all__ = ["connect", "ledger", "other", "place"]  # fixtures

ROW = WorkflowRow("w1", None, "/bmad:x", "RUNNING", None, 1, {"ä": [1, None, {"b": "'\"\u2028"}]}, AT, AT)


def entry(id: str, **fields: Any) -> QueueEntry:
    return replace(QueueEntry(0, id, "/bmad:x", "normal", "human", AT, {"k": 1}), **fields)


class TestWorkflows:
    def test_a_row_is_read_back_as_it_was_written(self, ledger: Ledger, other: Ledger) -> None:
        with ledger.transaction() as rows:
            assert rows.workflows.get("w1") is None
            assert rows.workflows.insert(ROW)
        with other.snapshot() as rows:
            assert rows.workflows.get("w1") == ROW

    def test_what_a_session_shares_is_the_last_that_was_kept(self, ledger: Ledger, other: Ledger) -> None:
        with ledger.transaction() as rows:
            assert rows.workflows.session("s1") == {}
            rows.workflows.keep_session("s1", {"tier": 3}, AT)
            rows.workflows.keep_session("s1", {"tier": 1, "ä": [None]}, AT)
        with other.snapshot() as rows:
            assert rows.workflows.session("s1") == {"tier": 1, "ä": [None]} and rows.workflows.session("s2") == {}

    def test_an_id_is_inserted_once(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            assert rows.workflows.insert(ROW)
            assert not rows.workflows.insert(replace(ROW, state="IDLE"))
            assert rows.workflows.get("w1") == ROW

    def test_only_the_version_named_is_replaced(self, ledger: Ledger, other: Ledger) -> None:
        newer = replace(ROW, version=2, state="TERMINAL", outcome="COMPLETED", document={"n": 2})
        with ledger.transaction() as rows:
            rows.workflows.insert(ROW)
            assert rows.workflows.replace(newer, 1)
        with other.transaction() as rows:
            assert not rows.workflows.replace(replace(newer, version=2, document={"n": "late"}), 1)
            assert not rows.workflows.replace(replace(newer, id="w2"), 2)
            assert rows.workflows.get("w1") == newer

    def test_entries_come_with_their_run_by_kind_and_place(self, ledger: Ledger, other: Ledger) -> None:
        def named(kind: str, key: str, n: int, text: str = "{}") -> WorkflowEntry:
            return WorkflowEntry(kind, key, n, text)

        with ledger.transaction() as rows:
            rows.workflows.insert(ROW)
            rows.workflows.insert(replace(ROW, id="w2"))
            rows.workflows.change_entries("w1", [named("b", "x", 2), named("b", "y", 1), named("a", "ä", 9, '"ü"')], [])
            rows.workflows.change_entries("w2", [named("b", "x", 7)], [])
            rows.workflows.change_entries("w1", [named("b", "x", 0, "[1]")], [("a", "ä"), ("none", "x")])
        with other.snapshot() as rows:
            (second, first) = rows.workflows.select()
            assert (
                first.entries == [named("b", "x", 0, "[1]"), named("b", "y", 1)] and rows.workflows.get("w1") == first
            )
            assert second.entries == [named("b", "x", 7)]

    def test_raising_undoes_a_write(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            rows.workflows.insert(ROW)

        def breaks() -> None:
            with ledger.transaction() as rows:
                rows.workflows.replace(replace(ROW, version=2), 1)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            breaks()
        with ledger.snapshot() as rows:
            assert rows.workflows.get("w1") == ROW

    def test_runs_are_found_the_newest_first(self, ledger: Ledger) -> None:
        made = [
            replace(ROW, id="a", task_id="T1"),
            replace(ROW, id="b", skill="/bmad:y"),
            replace(ROW, id="c", state="TERMINAL", outcome="FAILED"),
            replace(ROW, id="d"),
        ]
        with ledger.transaction() as rows:
            for one in made:
                rows.workflows.insert(one)

            def ids(**wanted: Any) -> list[str]:
                return [one.id for one in rows.workflows.select(**wanted)]

            assert ids() == ["d", "c", "b", "a"]
            assert ids(limit=2) == ["d", "c"]
            assert ids(skill="/bmad:x") == ["d", "c", "a"]
            assert ids(skill="/bmad:x", open_only=True) == ["d", "a"]
            assert ids(task_id="T1") == ["a"]
            assert ids(task_id="T2") == []


class TestQueue:
    def test_entries_come_by_priority_and_then_by_arrival(self, ledger: Ledger, other: Ledger) -> None:
        with ledger.transaction() as rows:
            for id, priority in (("a", "low"), ("b", "normal"), ("c", "critical"), ("d", "normal"), ("e", "high")):
                rows.queue.insert(entry(id, priority=priority))
        with other.snapshot() as rows:
            found = rows.queue.entries()
            assert [one.task_id for one in found] == ["c", "e", "b", "d", "a"]
            assert found[0] == entry("c", priority="critical", n=found[0].n)
            assert (rows.queue.oldest(), rows.queue.count()) == (rows.queue.get("a"), 5)
            assert sorted(found, key=lambda one: one.order) == found

    def test_what_is_removed_and_changed(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            first, second = entry("a"), entry("b")
            rows.queue.insert(first)
            rows.queue.insert(second)
            assert first.n < second.n
            rows.queue.update(second, priority="critical", data={})
            assert (second.priority, rows.queue.get("b")) == ("critical", second)
            assert rows.queue.remove("a") and not rows.queue.remove("a")
            third = entry("c", priority="critical")
            rows.queue.insert(third)
            assert [one.task_id for one in rows.queue.entries()] == ["b", "c"]

    def test_an_empty_queue(self, ledger: Ledger) -> None:
        with ledger.snapshot() as rows:
            assert (rows.queue.entries(), rows.queue.oldest(), rows.queue.count()) == ([], None, 0)
            assert rows.queue.get("a") is None

    def test_active_are_workflows_at_work_or_ready_that_do_not_wait_here(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            for number, state in enumerate(("ready", "in-progress", "backlog", "blocked", "awaiting-response", "done")):
                rows.tasks.insert(
                    task(
                        f"00{number}",
                        type="WORKFLOW",
                        state=state,
                        owner=None if state in ("ready", "backlog") else "bob",
                    )
                )
            rows.tasks.insert(task("010", state="ready"))
            assert rows.queue.active() == 2
            rows.queue.insert(entry(task("000").id))
            assert rows.queue.active() == 1

    def test_nobody_is_given_a_task_that_waits_here(self, ledger: Ledger) -> None:
        with ledger.transaction() as rows:
            rows.tasks.insert(task("001", type="WORKFLOW"))
            rows.tasks.insert(task("002", type="WORKFLOW"))
            rows.queue.insert(entry(task("001").id))
            found = rows.tasks.next_ready("bob", shell=None, now=AT)
            assert found is not None and found.id == task("002").id
            rows.queue.insert(entry(task("002").id))
            assert rows.tasks.next_ready("bob", shell=None, now=AT) is None
