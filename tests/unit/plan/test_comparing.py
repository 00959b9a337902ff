"""Running a plan again: every task ends in one list, and nothing that was begun is changed unasked."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import InvalidRequest, InvalidTransition
from interlock.model.plan import Plan, PlanTask, cycles, digest, in_order
from interlock.plan.comparing import OPEN, OVER, ExistingTask, PlanChanges, compare

STATES = [
    "backlog",
    "ready",
    "in-progress",
    "awaiting-response",
    "blocked",
    "review",
    "done",
    "deadletter",
    "cancelled",
]


def plan_of(*tasks: PlanTask) -> Plan:
    return Plan(team="t", workdir="/w", path="/w/p.yaml", members={}, tasks={task.key: task for task in tasks})


def existing(task: PlanTask, state: str, changed: bool = False) -> ExistingTask:
    return ExistingTask(task.key, f"id-{task.key}", state, "old" if changed else digest(task))


def keys(changes: PlanChanges) -> dict[str, list[str]]:
    return {
        "new": [task.key for task in changes.new],
        "updated": [change.task.key for change in changes.updated],
        "unchanged": [change.task.key for change in changes.unchanged],
        "changed_started": [change.task.key for change in changes.changed_started],
        "removed_started": [task.key for task in changes.removed_started],
        "removed_open": [task.key for task in changes.removed_open],
        "redo": [change.task.key for change in changes.redo],
    }


A = PlanTask("a", "A")
B = PlanTask("b", "B", blocked_by=("a",))


def test_a_first_run_creates_everything_blockers_first() -> None:
    changes = compare(plan_of(B, A), {})
    assert keys(changes)["new"] == ["a", "b"]


@pytest.mark.parametrize("state", STATES)
def test_a_changed_task_is_updated_while_open_and_asked_about_once_begun(state: str) -> None:
    changes = compare(plan_of(A), {"a": existing(A, state, changed=True)})
    assert keys(changes)["updated" if state in OPEN else "changed_started"] == ["a"]


@pytest.mark.parametrize("state", STATES)
def test_data_about_a_task_is_no_change_of_it_also_where_it_counted_before(state: str) -> None:
    named = PlanTask("a", "A", metadata={"epic": "1"})
    before = existing(A, state)
    for known in (before, replace(before, digest=digest(named, data=True))):
        assert keys(compare(plan_of(named), {"a": known}))["unchanged"] == ["a"]


def test_a_removed_task_is_cancelled_while_open_and_asked_about_once_begun() -> None:
    before = {"b": existing(B, "ready"), "c": ExistingTask("c", "1", "in-progress", "x")}
    found = keys(compare(plan_of(A), before))
    assert found["removed_open"] == ["b"] and found["removed_started"] == ["c"] and found["new"] == ["a"]


def test_a_removed_task_that_was_cancelled_is_not_asked_about_again() -> None:
    assert not compare(plan_of(A), {"b": existing(B, "cancelled")}).removed_started


def test_a_deleted_task_is_made_anew() -> None:
    assert keys(compare(plan_of(A), {"a": existing(A, "deleted")}))["new"] == ["a"]


def test_redo_takes_what_is_over_and_refuses_what_is_under_way_or_unknown() -> None:
    assert keys(compare(plan_of(A), {"a": existing(A, "done", changed=True)}, ["a"]))["redo"] == ["a"]
    assert keys(compare(plan_of(A), {"a": existing(A, "ready")}, ["a"]))["unchanged"] == ["a"]
    with pytest.raises(InvalidTransition, match="is in progress"):
        compare(plan_of(A), {"a": existing(A, "in-progress")}, ["a"])
    with pytest.raises(InvalidRequest, match='Did you mean "build"'):
        compare(plan_of(PlanTask("build", "B")), {}, ["biuld"])


_GRAPH = st.dictionaries(st.sampled_from("abcdefgh"), st.frozensets(st.sampled_from("abcdefgh"), max_size=3))


@given(_GRAPH)
def test_the_order_puts_blockers_first_or_there_is_a_circle(edges: dict[str, frozenset[str]]) -> None:
    ordered = in_order(edges)
    assert sorted(ordered) == sorted(edges)
    late = [(key, b) for key in edges for b in edges[key] if b in edges and ordered.index(b) >= ordered.index(key)]
    found = cycles(edges)
    assert bool(late) == bool(found)
    for circle in found:
        assert circle[0] == circle[-1]
        assert all(after in edges[before] for before, after in pairwise(circle))


@given(st.permutations("abcdef"))
def test_without_dependencies_the_order_is_the_one_given(order: list[str]) -> None:
    assert in_order(dict.fromkeys(order, ())) == order


@given(st.data())
def test_every_task_ends_in_exactly_one_list(data: st.DataObject) -> None:
    planned = data.draw(st.lists(st.sampled_from("abcdefg"), unique=True))
    tasks = [PlanTask(key, key.upper(), blocked_by=tuple(planned[:place][-1:])) for place, key in enumerate(planned)]
    by_key = {task.key: task for task in tasks}
    before: dict[str, ExistingTask] = {}
    for key in data.draw(st.lists(st.sampled_from("abcdefghij"), unique=True)):
        task = by_key.get(key, PlanTask(key, key))
        before[key] = existing(task, data.draw(st.sampled_from([*STATES, "deleted"])), data.draw(st.booleans()))
    over = [key for key in planned if key in before and before[key].state in OVER]
    redo = data.draw(st.lists(st.sampled_from(over), unique=True)) if over else []

    found = keys(compare(plan_of(*tasks), before, redo))

    counted = [key for group in found.values() for key in group]
    gone = {key for key in before if key not in by_key and before[key].state in ("deleted", "cancelled")}
    assert sorted(counted) == sorted((by_key.keys() | before.keys()) - gone)
    assert all(before[key].state in OPEN for key in found["updated"] + found["removed_open"])
    assert not any(before[key].state in OPEN for key in found["changed_started"] + found["removed_started"])
    assert sorted(found["redo"]) == sorted(redo)
    assert found["new"] == [key for key in planned if key in found["new"]]
    assert all(before[key].digest == digest(by_key[key]) for key in found["unchanged"])


@given(st.lists(st.sampled_from("abcdefg"), unique=True))
def test_running_the_same_plan_again_changes_nothing(planned: list[str]) -> None:
    tasks = [PlanTask(key, key) for key in planned]
    changes = compare(plan_of(*tasks), {task.key: existing(task, "done") for task in tasks})
    assert keys(changes)["unchanged"] == planned
