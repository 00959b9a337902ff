"""The rows of people: questions with keys, and chat sessions with their tasks counted."""

from __future__ import annotations

from interlock.model.event import KeyedChange
from interlock.model.group import Group
from interlock.model.question import Question
from interlock.storage.ledger import Ledger
from tests.conformance.test_ledger import AT, connect, ledger, place, task

__all__ = ["connect", "ledger", "place"]


def test_a_key_finds_its_question_of_that_task_alone(ledger: Ledger) -> None:
    with ledger.transaction() as rows:
        for id, about, key in (("Q1", "T1", "a"), ("Q2", "T2", "a"), ("Q3", "T1", None)):
            rows.questions.insert(
                Question(id, about, "menu", "?", [], None, None, AT, "ada", False, "open", None, None, None, key=key,
                         reversible=True, data={"n": [1]})
            )  # fmt: skip
        found = rows.questions.by_key("T1", "a")
        assert found is not None and (found.id, found.reversible, found.data) == ("Q1", True, {"n": [1]})
        assert rows.questions.by_key("T1", "b") is None
        rows.questions.update(found, state="answered", answered_face="page")
        assert [one.id for one in rows.questions.of_task("T1")] == ["Q1", "Q3"]
        assert rows.questions.of_task("T1")[0].answered_face == "page"


def test_a_group_counts_its_tasks_as_they_come_and_move(ledger: Ledger) -> None:
    with ledger.transaction() as rows:
        for number, id in enumerate(("s1", "s2"), 1):
            rows.groups.insert(Group(id, AT, f"2026-01-0{number}", first_prompt="hello"))
        for id in ("T1", "T2"):
            rows.tasks.insert(task(id, id=id, group_id="s1"))
            rows.groups.added("s1", id, "ready", "2026-01-03")
        rows.groups.moved("s1", "ready", "done", "2026-01-04")
        group = rows.groups.get("s1")
        assert group is not None and (group.task_count, group.state_counts) == (2, {"ready": 1, "done": 1})
        assert (group.latest_task, group.latest_state, group.updated_at) == ("T2", "ready", "2026-01-04")
        assert [one.id for one in rows.groups.page(0, 5)] == ["s1", "s2"]
        assert [one.id for one in rows.groups.page(1, 5)] == ["s2"] and rows.groups.count() == 2
        assert rows.groups.tasks("s1") == ["T1", "T2"]
        rows.tasks.update(rows.tasks.get("T1"), state="deleted")  # type: ignore[arg-type]
        rows.groups.moved("s1", "ready", "deleted", AT)
        assert rows.groups.tasks("s1") == ["T2"] and rows.groups.get("s1").task_count == 1  # type: ignore[union-attr]
        assert rows.groups.get("s3") is None


def test_a_change_is_known_by_its_key_until_it_is_old(ledger: Ledger) -> None:
    with ledger.transaction() as rows:
        for number in range(3):
            change = KeyedChange(f"k{number}", "d", f"2026-01-0{number + 1}", number + 1, number + 2)
            rows.upkeep.keep_change(change, "2025")
        rows.upkeep.keep_answer("k1", 201, "{}")
        assert rows.upkeep.change("k0") == KeyedChange("k0", "d", "2026-01-01", 1, 2)
        assert rows.upkeep.change("k1") == KeyedChange("k1", "d", "2026-01-02", 2, 3, 201, "{}")
    with ledger.transaction() as rows:
        rows.upkeep.keep_change(KeyedChange("k3", "d", "2026-01-04", 9, 9), "2026-01-02")
        assert rows.upkeep.change("k0") is None and rows.upkeep.change("k1") is not None
