"""The dependency graph as a picture, laid out here so that the page needs no library and no script.

Tasks are stations in columns: each stands one column right of the last of its blockers. Within a column the order
follows the neighbours (two sweeps of barycentres), which takes most crossings out. Lines run level, and change height
at 45 degrees, as on a track diagram. All of it is linear in tasks and edges but the sorting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from interlock.model.task import FINAL, Task

ROOMY = 60
"""Up to so many stations each has its name written in full; above, they stand closer."""
MOST = 2000
SWEEPS = 3


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
    ids: str


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
    _order(columns, known)
    roomy = len(chosen) <= ROOMY
    stations = _place(columns, by_id, _wide(len(columns), across) if roomy else 150.0, 46.0 if roomy else 30.0)
    return Picture(
        stations=list(stations.values()),
        tracks=[_track(stations[a], stations[b]) for a, b in known],
        width=max((one.x + one.room for one in stations.values()), default=0) + 16,
        height=max((one.y for one in stations.values()), default=0) + 34,
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


def _order(columns: list[list[str]], edges: Sequence[tuple[str, str]]) -> None:
    """Sort each column by the mean place of its neighbours, from the left and back."""
    left, right = defaultdict(list), defaultdict(list)
    for blocker, blocked in edges:
        left[blocked].append(blocker)
        right[blocker].append(blocked)
    place = {id: float(n) for column in columns for n, id in enumerate(column)}
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


def _place(columns: list[list[str]], by_id: dict[str, Task], wide: float, high: float) -> dict[str, Station]:
    tallest = max((len(column) for column in columns), default=0)
    found = {}
    for n, column in enumerate(columns):
        top = (tallest - len(column)) * high / 2
        for row, id in enumerate(column):
            found[id] = Station(by_id[id], 18 + n * wide, 30 + top + row * high, wide - 40)
    return found


def _track(a: Station, b: Station) -> Track:
    """Level out of the one, at 45 degrees (steeper where there is no room), level into the other."""
    start, end = a.x + 9, b.x - 9
    rise = b.y - a.y
    slope = min(abs(rise), 26.0)
    middle = end - 14
    if rise == 0:
        path = f"M{start:.0f} {a.y:.0f}H{end:.0f}"
    else:
        sign = 1 if rise > 0 else -1
        bend = middle - slope
        path = f"M{start:.0f} {a.y:.0f}H{bend - 0:.0f}"
        if abs(rise) <= 2 * 13:
            path += f"L{middle:.0f} {b.y:.0f}H{end:.0f}"
        else:
            path += f"l13 {sign * 13}V{b.y - sign * 13:.0f}l13 {sign * 13}H{end:.0f}"
    return Track(path, a.task.state != "done", f"{a.task.id} {b.task.id}")
