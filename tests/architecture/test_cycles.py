"""Imports never run in a cycle: of modules, or of folders beside each other, whatever hides the import."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from tests.architecture.source import files, imports

Graph = dict[str, set[str]]


@cache
def module_graph() -> Graph:
    """Return which module imports which, imports for type checkers and within functions included."""
    return {
        source.module: {name for _, name in imports(source, source.tree) if name != source.module} for source in files()
    }


def folder_graph(parent: str) -> Graph:
    """Return which of the packages directly in package `parent` imports which."""
    graph: Graph = defaultdict(set)
    packages = {source.module for source in files() if source.path.name == "__init__.py"}
    for module, targets in module_graph().items():
        folder = child(parent, module)
        if folder in packages:
            graph[folder] |= {one for one in (child(parent, target) for target in targets) if one in packages}
            graph[folder].discard(folder)
    return graph


def child(parent: str, module: str) -> str:
    """Return what stands directly in `parent` and holds `module`; empty where `module` stands elsewhere."""
    if not module.startswith(parent + "."):
        return ""
    return f"{parent}.{module.removeprefix(parent + '.').split('.')[0]}"


def cycles(graph: Graph) -> set[frozenset[str]]:
    """Return the groups of nodes of which each reaches every other (Kosaraju's algorithm)."""
    back: Graph = defaultdict(set)
    for node, targets in graph.items():
        for target in targets:
            back[target].add(node)
    order: list[str] = []
    seen: set[str] = set()
    for node in sorted(graph):
        order += finished(graph, node, seen)
    seen = set()
    groups = [finished(back, node, seen) for node in reversed(order)]
    return {frozenset(group) for group in groups if len(group) > 1}


def finished(graph: Graph, start: str, seen: set[str]) -> list[str]:
    """Return the unseen nodes that `start` reaches, each after those that it reaches."""
    order: list[str] = []
    stack = [] if start in seen else [(start, iter(sorted(graph.get(start, ()))))]
    seen.add(start)
    while stack:
        node, targets = stack[-1]
        target = next((one for one in targets if one not in seen), None)
        if target is None:
            order.append(node)
            stack.pop()
        else:
            seen.add(target)
            stack.append((target, iter(sorted(graph.get(target, ())))))
    return order


def test_no_modules_import_each_other_in_a_cycle() -> None:
    assert not cycles(module_graph())


def test_no_folders_import_each_other_in_a_cycle() -> None:
    parents = {source.module for source in files() if source.path.name == "__init__.py"}
    found = set[frozenset[str]]().union(*(cycles(folder_graph(parent)) for parent in parents))
    assert not found
