"""Dependencies without cycles, at a cost that does not grow with the graph.

Every task has a `rank`; each blocker ranks below what it blocks. An edge that agrees with the ranks needs no search
at all, which is nearly every edge, since a new task ranks above all others. An edge against them is searched only
between the two ranks concerned, and that stretch is ranked again (Pearce and Kelly, "A dynamic topological sort
algorithm for directed acyclic graphs", 2006).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Cycle(Exception):
    """The edge would create a dependency cycle; `path` runs from the blocked task back to itself."""

    def __init__(self, path: list[str]) -> None:
        super().__init__(" -> ".join(path))
        self.path = path


def ranks_for_edge(
    blocker: str,
    blocked: str,
    rank: Callable[[str], int],
    blocked_by: Callable[[str], Iterable[str]],
    blocks: Callable[[str], Iterable[str]],
) -> dict[str, int]:
    """The new ranks that make room for the edge `blocker` before `blocked`; empty where none is needed.

    `rank` answers a task's rank, `blocked_by` its direct blockers, `blocks` what it blocks directly.

    Raises:
        Cycle: `blocked` already comes before `blocker`.
    """
    if blocker == blocked:
        raise Cycle([blocked, blocked])
    low, high = rank(blocked), rank(blocker)
    if high < low:
        return {}
    ranks = {blocked: low, blocker: high}
    came_from: dict[str, str] = {}
    after = [blocked]
    seen = {blocked}
    for here in after:
        for onward in blocks(here):
            if onward == blocker:
                came_from[onward] = here
                raise Cycle(_circle(blocked, blocker, came_from))
            if onward not in seen:
                seen.add(onward)
                place = ranks[onward] = rank(onward)
                if place < high:
                    came_from[onward] = here
                    after.append(onward)
    before = [blocker]
    seen = {blocker}
    for here in before:
        for back in blocked_by(here):
            if back not in seen:
                seen.add(back)
                place = ranks[back] = rank(back)
                if place > low:
                    before.append(back)
    ordered = sorted(before, key=ranks.__getitem__) + sorted(after, key=ranks.__getitem__)
    places = sorted(ranks[task] for task in ordered)
    return {task: place for task, place in zip(ordered, places, strict=True) if ranks[task] != place}


def _circle(blocked: str, blocker: str, came_from: dict[str, str]) -> list[str]:
    path = [blocker]
    while path[-1] != blocked:
        path.append(came_from[path[-1]])
    path.reverse()
    return [*path, blocked]
