"""The line diagram: every task right of what it waits for, also of a thousand."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import interlock
from interlock.model.task import Task
from interlock.surfaces.web.graph_layout import MOST, around, picture


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
    assert len(drawn.tracks) == len(set(edges))


def test_an_edge_over_several_columns_does_not_run_through_the_stations_between(tmp_path: Path) -> None:
    drawn = picture(tasks(tmp_path, 3), [("T-0", "T-1"), ("T-1", "T-2"), ("T-0", "T-2")])
    places = {one.task.id: one for one in drawn.stations}
    long = next(track for track in drawn.tracks if "V" in track.path)
    assert f"V{places['T-1'].y:.1f}" not in long.path


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
    assert "T-0" in around("T-0", edges) and len(around("T-0", edges)) <= 25
    assert around("T-1", edges, steps=1) == {"T-0", "T-1"}
