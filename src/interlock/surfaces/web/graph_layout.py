"""The dependency graph as a picture, laid out here so that the page needs no library and no script.

Tasks are stations in columns: each stands one column right of the last of its blockers. Within a column the order
follows the neighbours (a few sweeps of barycentres), which takes most crossings out. An edge over several columns gets
a lane of its own in each, so that it never seems to call at a station it passes. Lines run level, and change height at
45 degrees, as on a track diagram. All of it is linear in what is drawn but the sorting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from interlock.model.task import FINAL, Task

ROOMY = 60
"""Up to so many stations each has its name written in full; above, they stand closer."""
MOST = 2000
MOST_LANES = 6000
"""Where there would be more, long edges run straight."""
SWEEPS = 4
LANE = 16.0
"""Pixels that a lane takes of the height."""


@dataclass(frozen=True, slots=True)
class Station:
    """A task in the picture; `x`, `y` is the middle of its mark. `room` is the width of its name, in pixels."""

    task: Task
    x: float
    y: float
    room: float


@dataclass(frozen=True, slots=True)
class Track:
    """An edge, as the `d` of a path. `open` while its blocker is not done."""

    path: str
    open: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything to draw. `alone` counts the tasks that neither wait nor are waited for; they are left out."""

    stations: list[Station]
    tracks: list[Track]
    width: float
    height: float
    alone: int
    left_out: int


def picture(
    tasks: Sequence[Task], edges: Sequence[tuple[str, str]], *, focus: str | None = None, across: float = 1060
) -> Picture:
    """Lay out the tasks that `edges` (blocker, blocked) touch. `focus`: a task that is drawn even if alone; `across`:
    pixels there are from side to side; where the picture can fill them, it does."""
    by_id = {task.id: task for task in tasks}
    known = [(a, b) for a, b in dict.fromkeys(edges) if a in by_id and b in by_id and a != b]
    touched = {id for edge in known for id in edge} | ({focus} if focus in by_id else set())
    chosen = [task for task in tasks if task.id in touched]
    left_out = max(0, len(chosen) - MOST)
    if left_out:
        # What is over goes first: the picture is for what is still to come.
        chosen = sorted(chosen, key=lambda task: (task.state in FINAL, -task.n))[:MOST]
        kept = {task.id for task in chosen}
        known = [(a, b) for a, b in known if a in kept and b in kept]
    columns = _columns(chosen, known)
    ways = _ways(columns, known)
    _order(columns, [hop for way in ways for hop in zip(way, way[1:], strict=False)])
    roomy = len(chosen) <= ROOMY
    wide = _wide(len(columns), across) if roomy else 150.0
    spots = _spots(columns, by_id, wide, 46.0 if roomy else 32.0)
    return Picture(
        stations=[Station(task, *spots[task.id], wide - 36) for task in chosen],
        tracks=[_track([spots[one] for one in way], by_id[way[0]].state != "done") for way in ways],
        width=len(columns) * wide + 8,
        height=max((y for _, y in spots.values()), default=0) + 34,
        alone=len(tasks) - len(touched),
        left_out=left_out,
    )


def around(id: str, edges: Sequence[tuple[str, str]], steps: int = 2, most: int = 24) -> set[str]:
    """The tasks at most `steps` edges before and after one, itself too; at most `most`."""
    before, after = defaultdict(list), defaultdict(list)
    for blocker, blocked in edges:
        before[blocked].append(blocker)
        after[blocker].append(blocked)
    found = {id}
    for onward in (before, after):
        here = [id]
        for _ in range(steps):
            here = [one for last in here for one in onward[last] if one not in found][: max(0, most - len(found))]
            found.update(here)
    return found


def _columns(tasks: Sequence[Task], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Ids by column: the longest way from a beginning."""
    after: defaultdict[str, list[str]] = defaultdict(list)
    waits: defaultdict[str, int] = defaultdict(int)
    for blocker, blocked in edges:
        after[blocker].append(blocked)
        waits[blocked] += 1
    column = {task.id: 0 for task in tasks}
    ready = [task.id for task in tasks if not waits[task.id]]
    for id in ready:
        for onward in after[id]:
            column[onward] = max(column[onward], column[id] + 1)
            waits[onward] -= 1
            if not waits[onward]:
                ready.append(onward)
    found: list[list[str]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
    for task in tasks:
        found[column[task.id]].append(task.id)
    return found


def _ways(columns: list[list[str]], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Each edge as the ids it runs through; lanes are added to the columns it passes."""
    place = {id: n for n, column in enumerate(columns) for id in column}
    lanes = sum(place[b] - place[a] - 1 for a, b in edges)
    found = []
    for a, b in edges:
        way = [a]
        for n in range(place[a] + 1, place[b]) if lanes <= MOST_LANES else ():
            lane = f"{a}>{b}>{n}"
            columns[n].append(lane)
            way.append(lane)
        found.append([*way, b])
    return found


def _order(columns: list[list[str]], edges: Sequence[tuple[str, str]]) -> None:
    """Sort each column by the mean place of its neighbours, from the left and back."""
    left, right = defaultdict(list), defaultdict(list)
    for one, other in edges:
        left[other].append(one)
        right[one].append(other)
    place = {id: n - len(column) / 2 for column in columns for n, id in enumerate(column)}
    for sweep in range(SWEEPS):
        neighbours = left if sweep % 2 == 0 else right
        for column in columns if sweep % 2 == 0 else reversed(columns):
            mean = {id: _mean([place[one] for one in neighbours[id]], place[id]) for id in column}
            column.sort(key=lambda id: (mean[id], place[id]))
            for n, id in enumerate(column):
                place[id] = n - len(column) / 2  # columns of unlike height are compared by their middles


def _mean(places: list[float], own: float) -> float:
    return sum(places) / len(places) if places else own


def _wide(columns: int, across: float) -> float:
    """Pixels from one column to the next."""
    return min(230.0, max(138.0, (across - 20) / max(1, columns)))


def _spots(
    columns: list[list[str]], by_id: dict[str, Task], wide: float, high: float
) -> dict[str, tuple[float, float]]:
    """Where the middle of each station's mark is, and of each lane."""
    heights = [sum(high if id in by_id else LANE for id in column) for column in columns]
    tallest = max(heights, default=0.0)
    found = {}
    for n, column in enumerate(columns):
        y = 6 + (tallest - heights[n]) / 2
        for id in column:
            room = high if id in by_id else LANE
            found[id] = (18 + n * wide, y + room / 2)
            y += room
    return found


def _track(spots: list[tuple[float, float]], open: bool) -> Track:
    """Level from spot to spot, and up or down at 45 degrees right before the next, steeper where there is no room."""
    x, y = spots[0]
    path = [f"M{x + 9:.0f} {y:.0f}"]
    for n, (to_x, to_y) in enumerate(spots[1:], 2):
        rise = to_y - y
        middle = to_x - (23 if n == len(spots) else 14)
        if rise:
            sign, bend = (1 if rise > 0 else -1), min(abs(rise) / 2, 12.0)
            path.append(f"H{middle - 2 * bend:.0f}l{bend:.1f} {sign * bend:.1f}V{to_y - sign * bend:.1f}")
            path.append(f"l{bend:.1f} {sign * bend:.1f}")
        path.append(f"H{to_x - (9 if n == len(spots) else 0):.0f}")
        y = to_y
    return Track("".join(path), open)
