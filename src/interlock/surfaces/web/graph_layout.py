"""The dependency graph as a picture, laid out here so that the page needs no library and no script.

Tasks are stations in columns: each stands one column right of the last of its blockers. Within a column the order
follows the neighbours (a few sweeps of barycentres), which takes most crossings out. An edge over several columns gets
a lane of its own in each, so that it never seems to call at a station it passes. Lines run level, and change height at
45 degrees, as on a track diagram; those of one station share their bends, those of its neighbours bend beside them. An
edge that others imply is not drawn. All of it is linear in what is drawn but the sorting and the implied edges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from textwrap import wrap

from interlock.lazy_dataclass import dataclass
from interlock.model.task import FINAL, Task
from interlock.surfaces.web.prose import gist

ROOMY = 60
"""Up to so many stations each has its name written in full; above, they stand closer."""
NEAR = 40
"""So many tasks around one are drawn."""
MOST = 2000
MOST_LANES = 6000
"""Where there would be more, long edges run straight."""
SWEEPS = 4
ROW = 52.0
"""Pixels that a station takes of the height: its mark and two lines."""
LETTER = 6.4
LANE = 16.0
"""Pixels that a lane takes of the height."""
BENDS, BESIDE = 5, 7.0
"""In so many places lines bend before a column, and how many pixels these are apart."""


@dataclass(frozen=True, slots=True)
class Station:
    """A task in the picture; `x`, `y` is the middle of its mark. `room` is the width of its name, in pixels, `name` the
    lines of it."""

    task: Task
    x: float
    y: float
    room: float
    name: list[str]


@dataclass(frozen=True, slots=True)
class Track:
    """An edge between the tasks of these numbers, as the `d` of a path. `open` while its blocker is not done."""

    blocker: int
    blocked: int
    path: str
    open: bool


@dataclass(frozen=True, slots=True)
class LayerTask:
    """A task in a layer: what it still waits for, and how many tasks wait for it, also by way of others."""

    task: Task
    blockers: list[Task]
    holds: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything to draw. `alone` counts the tasks that neither wait nor are waited for; they are left out. `implied`
    counts the edges that others imply. `layers` is the same to read: the columns, what holds up most first."""

    stations: list[Station]
    tracks: list[Track]
    width: float
    height: float
    alone: int
    left_out: int
    implied: int
    layers: list[list[LayerTask]]

    @property
    def roomy(self) -> bool:
        """Whether every name has its room, so that the picture can be read without pointing at it."""
        return len(self.stations) <= ROOMY

    def holding(self, most: int) -> list[LayerTask]:
        """Return the tasks that hold up most."""
        found = [one for layer in self.layers for one in layer if one.holds > 1]
        return sorted(found, key=lambda one: -one.holds)[:most]


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
    beyond = _beyond(columns, known)
    drawn = _needed(known, beyond)
    layers = _layers(columns, by_id, known, beyond)
    ways = _ways(columns, drawn)
    _order(columns, [hop for way in ways for hop in zip(way, way[1:], strict=False)])
    roomy = len(chosen) <= ROOMY
    # Pixels from one column to the next.
    wide = min(250.0, max(186.0, (across - 20) / max(1, len(columns)))) if roomy else 220.0
    spots = _spots(columns, by_id, wide)
    rank = {id: n for column in columns for n, id in enumerate(column)}
    return Picture(
        stations=[Station(task, *spots[task.id], wide - 56, _name(task, wide - 44)) for task in chosen],
        tracks=[
            Track(
                by_id[way[0]].n,
                by_id[way[-1]].n,
                _path([spots[one] for one in way], rank[way[0]]),
                by_id[way[0]].state != "done",
            )
            for way in ways
        ],
        width=len(columns) * wide + 8,
        height=max((y for _, y in spots.values()), default=0) + 46,
        alone=len(tasks) - len(touched),
        left_out=left_out,
        implied=len(known) - len(drawn),
        layers=layers,
    )


def around(id: str, edges: Sequence[tuple[str, str]], steps: int = MOST, most: int = NEAR) -> set[str]:
    """The tasks nearest before and after one, itself too: at most `steps` edges away, at most `most`."""
    before, after = defaultdict(list), defaultdict(list)
    for blocker, blocked in edges:
        before[blocked].append(blocker)
        after[blocker].append(blocked)
    found = {id}
    ends = [(before, [id]), (after, [id])]
    for _ in range(steps):
        ends = [(onward, list(dict.fromkeys(one for last in here for one in onward[last]))) for onward, here in ends]
        ends = [(onward, [one for one in here if one not in found]) for onward, here in ends]
        if not any(here for _, here in ends):
            break
        for _, here in ends:
            found.update(here[: max(0, most - len(found))])
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


def _beyond(columns: list[list[str]], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """For each task what waits for it, also by way of others, as the bits of a number; the bit of a task is its
    place."""
    after: defaultdict[str, list[str]] = defaultdict(list)
    for blocker, blocked in edges:
        after[blocker].append(blocked)
    place = {id: n for n, id in enumerate(id for column in columns for id in column)}
    found: dict[str, int] = {}
    for id in reversed(place):
        found[id] = 0
        for onward in after[id]:
            found[id] |= found[onward] | 1 << place[onward]
    return found


def _needed(edges: Sequence[tuple[str, str]], beyond: dict[str, int]) -> list[tuple[str, str]]:
    """The edges that no others imply."""
    place = {id: n for n, id in enumerate(reversed(beyond))}
    after: defaultdict[str, list[str]] = defaultdict(list)
    for blocker, blocked in edges:
        after[blocker].append(blocked)
    by_way = {
        blocker: {one for one in some if any(beyond[other] >> place[one] & 1 for other in some)}
        for blocker, some in after.items()
    }
    return [(a, b) for a, b in edges if b not in by_way[a]]


def _layers(
    columns: list[list[str]], by_id: dict[str, Task], edges: Sequence[tuple[str, str]], beyond: dict[str, int]
) -> list[list[LayerTask]]:
    blockers: defaultdict[str, list[Task]] = defaultdict(list)
    for blocker, blocked in edges:
        if by_id[blocker].state != "done":
            blockers[blocked].append(by_id[blocker])
    return [
        sorted(
            (LayerTask(by_id[id], blockers[id], beyond[id].bit_count()) for id in column), key=lambda one: -one.holds
        )
        for column in columns
    ]


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
            near = {id: [place[one] for one in neighbours[id]] or [place[id]] for id in column}
            column.sort(key=lambda id: (sum(near[id]) / len(near[id]), place[id]))
            for n, id in enumerate(column):
                place[id] = n - len(column) / 2  # columns of unlike height are compared by their middles


def _name(task: Task, room: float) -> list[str]:
    return wrap(gist(task.plan_key or task.subject), max(8, int(room / LETTER)), max_lines=2, placeholder="…")


def _spots(columns: list[list[str]], by_id: dict[str, Task], wide: float) -> dict[str, tuple[float, float]]:
    """Where the middle of each station's mark is, and of each lane."""
    heights = [sum(ROW if id in by_id else LANE for id in column) for column in columns]
    tallest = max(heights, default=0.0)
    found = {}
    for n, column in enumerate(columns):
        y = 6 + (tallest - heights[n]) / 2
        for id in column:
            room = ROW if id in by_id else LANE
            found[id] = (18 + n * wide, y + (15 if id in by_id else room / 2))
            y += room
    return found


def _path(spots: list[tuple[float, float]], rank: int) -> str:
    """Level from spot to spot, and up or down at 45 degrees before the next, steeper where there is no room.

    Args:
        rank: the place of the first in its column, by which lines of neighbours bend beside each other.
    """
    x, y = spots[0]
    aside = rank % BENDS * BESIDE
    path = [f"M{x + 9:.0f} {y:.0f}"]
    for n, (to_x, to_y) in enumerate(spots[1:], 2):
        rise = to_y - y
        middle = to_x - (23 if n == len(spots) else 14) - aside
        if rise:
            sign, bend = (1 if rise > 0 else -1), min(abs(rise) / 2, 6.0)
            path.append(f"H{middle - bend:.0f}l{bend:.1f} {sign * bend:.1f}V{to_y - sign * bend:.1f}")
            path.append(f"l{bend:.1f} {sign * bend:.1f}")
        path.append(f"H{to_x - (9 if n == len(spots) else 0):.0f}")
        y = to_y
    return "".join(path)
