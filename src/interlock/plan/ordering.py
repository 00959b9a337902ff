"""The order of things that wait for each other. Pure; `edges` maps each key to the keys it waits for."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping


def in_order(edges: Mapping[str, Collection[str]]) -> list[str]:
    """Every key of `edges`, blockers first and otherwise in the order given, so that the answer is stable.

    Blockers that are no keys themselves do not count. Keys on a cycle, and those behind one, come last as given.
    """
    place = {key: index for index, key in enumerate(edges)}
    keys = list(edges)
    waits_for = {key: {blocker for blocker in blockers if blocker in edges} for key, blockers in edges.items()}
    waited_for_by: dict[str, list[str]] = {key: [] for key in keys}
    for key, blockers in waits_for.items():
        for blocker in blockers:
            waited_for_by[blocker].append(key)
    free = [place[key] for key in keys if not waits_for[key]]
    heapq.heapify(free)
    ordered: list[str] = []
    while free:
        key = keys[heapq.heappop(free)]
        ordered.append(key)
        for dependent in waited_for_by[key]:
            waits_for[dependent].discard(key)
            if not waits_for[dependent]:
                heapq.heappush(free, place[dependent])
    done = set(ordered)
    return ordered + [key for key in keys if key not in done]


def cycles(edges: Mapping[str, Collection[str]]) -> list[list[str]]:
    """List the cycles in `edges`, each as `[a, b, a]`: a waits for b, b waits for a.

    One cycle is shown for each backward edge that a walk in the given order meets, so breaking those breaks all.
    """
    found: list[list[str]] = []
    finished: set[str] = set()
    for start in edges:
        if start in finished:
            continue
        path = [start]
        on_path = {start: 0}
        waiting = [iter([key for key in edges[start] if key in edges])]
        while path:
            following = next(waiting[-1], None)
            if following is None:
                finished.add(path[-1])
                del on_path[path.pop()]
                waiting.pop()
            elif following in on_path:
                found.append([*path[on_path[following] :], following])
            elif following not in finished:
                on_path[following] = len(path)
                path.append(following)
                waiting.append(iter([key for key in edges[following] if key in edges]))
    return found
