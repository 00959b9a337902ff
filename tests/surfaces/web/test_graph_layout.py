"""The line diagram: every task right of what it waits for, also of a thousand."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import interlock
from interlock.model.task import Task
from interlock.surfaces.web.graph_layout import MOST, NEAR, around, picture


def tasks(tmp_path: Path, number: int) -> list[Task]:
    one = interlock.connect(str(tmp_path / "home")).create_team("t").create_task("x")
    return [numbered(one, n) for n in range(number)]


def numbered(task: Task, n: int) -> Task:
    made = copy.copy(task)
    made.n, made.id = n, f"T-{n}"
    return made


def test_each_task_stands_right_of_what_it_waits_for_and_no_two_share_a_place(tmp_path: Path) -> None:
    some, chance = tasks(tmp_path, 1000), random.Random(7)
    edges = [(f"T-{chance.randrange(max(0, n - 50), n)}", f"T-{n}") for n in range(1, 1000) for _ in range(2)]
    drawn = picture(some, edges)
    places = {one.task.id: (one.x, one.y) for one in drawn.stations}
    assert len(places) == 1000 == len(set(places.values()))
    assert all(places[a][0] < places[b][0] for a, b in edges)
    assert all(0 < x < drawn.width and 0 < y < drawn.height for x, y in places.values())
    assert len(drawn.tracks) + drawn.implied == len(set(edges))


def reached(edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Which waits for which, also by way of others."""
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in edges if b == c} - found:
        found |= more
    return found


def test_edges_that_others_imply_are_not_drawn_and_nothing_else_is_left_out(tmp_path: Path) -> None:
    some, chance = tasks(tmp_path, 40), random.Random(11)
    edges = {(chance.randrange(n), n) for n in range(1, 40) for _ in range(3)}
    drawn = picture(some, [(f"T-{a}", f"T-{b}") for a, b in sorted(edges)])
    kept = {(track.blocker, track.blocked) for track in drawn.tracks}
    assert drawn.implied == len(edges) - len(kept) > 0
    assert reached(kept) == reached(edges)
    assert all((a, b) not in reached(kept - {(a, b)}) for a, b in kept)


def test_the_layers_say_what_each_waits_for_and_how_many_wait_for_it(tmp_path: Path) -> None:
    some = tasks(tmp_path, 4)
    some[0].state = "done"
    drawn = picture(some, [("T-0", "T-1"), ("T-0", "T-2"), ("T-2", "T-3"), ("T-0", "T-3")])
    assert [[one.task.id for one in layer] for layer in drawn.layers] == [["T-0"], ["T-2", "T-1"], ["T-3"]]
    assert [one.holds for layer in drawn.layers for one in layer] == [3, 1, 0, 0]
    assert [task.id for task in drawn.layers[2][0].blockers] == ["T-2"], "what is done holds nothing up"
    assert [one.task.id for one in drawn.holding(3)] == ["T-0"]


def test_names_take_two_lines_and_are_cut_after_that(tmp_path: Path) -> None:
    some = tasks(tmp_path, 2)
    some[0].subject, some[1].subject = "Replace the session table in the worker", "word " * 40
    names = [one.name for one in picture(some, [("T-0", "T-1")]).stations]
    assert " ".join(names[0]) == "Replace the session table in the worker"
    assert len(names[1]) == 2 and names[1][1].endswith("…")


def test_an_edge_over_several_columns_does_not_run_through_the_stations_between(tmp_path: Path) -> None:
    drawn = picture(tasks(tmp_path, 4), [("T-0", "T-1"), ("T-1", "T-2"), ("T-3", "T-2")])
    places = {one.task.n: one for one in drawn.stations}
    long = next(track for track in drawn.tracks if track.blocker == 3)
    assert places[3].x < places[1].x < places[2].x
    assert f"V{places[1].y:.1f}" not in long.path and places[3].y != places[1].y


def test_tasks_that_stand_alone_are_counted_and_left_out(tmp_path: Path) -> None:
    drawn = picture(tasks(tmp_path, 5), [("T-0", "T-1")])
    assert len(drawn.stations) == 2 and drawn.alone == 3
    assert picture([], []).stations == []


def test_more_than_fit_leave_out_what_is_finished_first(tmp_path: Path) -> None:
    some = tasks(tmp_path, MOST + 10)
    for one in some[:10]:
        one.state = "done"
    drawn = picture(some, [(f"T-{n - 1}", f"T-{n}") for n in range(1, MOST + 10)])
    assert drawn.left_out == 10 and min(one.task.n for one in drawn.stations) == 10


def test_what_is_near_a_task_is_bounded(tmp_path: Path) -> None:
    edges = [("T-0", f"T-{n}") for n in range(1, 500)]
    assert "T-0" in around("T-0", edges) and len(around("T-0", edges)) == NEAR
    assert around("T-1", edges, steps=1) == {"T-0", "T-1"}


def test_what_is_near_a_task_is_taken_from_both_sides(tmp_path: Path) -> None:
    edges = [(f"T-{n}", f"T-{n + 1}") for n in range(100)]
    assert around("T-50", edges, most=11) == {f"T-{n}" for n in range(45, 56)}
