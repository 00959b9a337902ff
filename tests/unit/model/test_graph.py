"""Ranks find every cycle, and only cycles, and stay in topological order."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.model.graph import Cycle, ranks_for_edge

NODES = "abcdefgh"
edges = st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=40)


class Graph:
    """Edges (blocker, blocked) with ranks kept as the ledger keeps them."""

    def __init__(self) -> None:
        self.rank = {node: place for place, node in enumerate(NODES, 1)}
        self.blocks: dict[str, set[str]] = defaultdict(set)
        self.blocked_by: dict[str, set[str]] = defaultdict(set)

    def add(self, blocker: str, blocked: str) -> None:
        self.rank |= ranks_for_edge(
            blocker, blocked, self.rank.__getitem__, self.blocked_by.__getitem__, self.blocks.__getitem__
        )
        self.blocks[blocker].add(blocked)
        self.blocked_by[blocked].add(blocker)

    def reaches(self, start: str, goal: str) -> bool:
        """By brute force: whether `goal` waits for `start`, directly or not, or is it."""
        seen, waiting = set(), [start]
        while waiting:
            here = waiting.pop()
            seen.add(here)
            waiting += self.blocks[here] - seen
        return goal in seen


@given(edges)
def test_an_edge_is_refused_exactly_when_it_would_close_a_circle(edges: list[tuple[str, str]]) -> None:
    graph = Graph()
    for blocker, blocked in edges:
        if graph.reaches(blocked, blocker):
            with pytest.raises(Cycle) as refused:
                graph.add(blocker, blocked)
            path = refused.value.path
            assert path[0] == path[-1] == blocked and (path[-2] == blocker)
            # It runs from the blocked task along existing edges to the blocker, and the new edge closes it.
            assert all(later in graph.blocks[earlier] for earlier, later in zip(path, path[1:-1], strict=False))
        else:
            graph.add(blocker, blocked)
        assert sorted(graph.rank.values()) == list(range(1, len(NODES) + 1)), "ranks are moved, never made up"
        assert all(graph.rank[a] < graph.rank[b] for a, after in graph.blocks.items() for b in after)


def test_an_edge_that_agrees_with_the_ranks_searches_nothing() -> None:
    def forbidden(node: str) -> list[str]:
        raise AssertionError(f"looked at the neighbours of {node}")

    assert ranks_for_edge("a", "b", {"a": 1, "b": 2}.__getitem__, forbidden, forbidden) == {}


def test_a_task_that_waits_for_itself_is_the_smallest_circle() -> None:
    with pytest.raises(Cycle, match="a -> a"):
        Graph().add("a", "a")
