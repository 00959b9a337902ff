"""House rules that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.source import ROOT, Function, Source, files

BROAD = {"Exception", "BaseException"}
SQL = re.compile(r"\b(SELECT\s.+\sFROM\s|INSERT\s+(OR\s+\w+\s+)?INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s"
                 r"|(CREATE|DROP|ALTER)\s+(TABLE|INDEX|VIEW|TRIGGER)\s|PRAGMA\s+\w)", re.DOTALL)  # fmt: skip
SLEEPERS = {"time", "asyncio", "anyio", "trio"}


def test_whoever_catches_everything_says_why() -> None:
    silent = [
        source.at(node)
        for source in files()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ExceptHandler) and catches_everything(node) and "# boundary:" not in source.line(node)
    ]
    assert not silent, f"name the errors, or say `# boundary: why` on the line: {silent}"


def catches_everything(handler: ast.ExceptHandler) -> bool:
    if isinstance(handler.body[-1], ast.Raise):
        return False  # cleans up and passes it on
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD) for kind in kinds)


def test_sql_is_written_in_ledgers_and_memories_only() -> None:
    found = [
        f"{source.at(node)} {node.value[:60]!r}"
        for source in files()
        # The database that OpenCode keeps its usage in is its own, and only read.
        if not source.module.startswith(("interlock.ledgers.", "interlock.memories.", "interlock.agents.usage"))
        for node in texts(source)
        if SQL.search(node.value)
    ]
    assert not found, "\n".join(found)


def texts(source: Source) -> Iterator[ast.Constant]:
    """The text constants of a file that are not docstrings or other free-standing texts."""
    free = {id(node.value) for node in ast.walk(source.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in free:
            yield node


def test_no_test_sleeps_to_wait() -> None:
    # Where nothing can be waited for (a process that another one ends), a bounded `until(condition)` looks again.
    sleeping = [
        source.at(node)
        for source in files(ROOT / "tests")
        for part in ast.iter_child_nodes(source.tree)
        if not (isinstance(part, Function) and part.name == "until")
        for node in ast.walk(part)
        if sleeps(node)
    ]
    assert not sleeping, f"wait for the thing itself: {sleeping}"


def sleeps(node: ast.AST) -> bool:
    """`time.sleep(…)` and its kin; `sleep(0)` only lets others run."""
    if isinstance(node, ast.ImportFrom):
        return node.module in SLEEPERS and any(alias.name == "sleep" for alias in node.names)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "sleep"
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in SLEEPERS
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    )


def test_everything_public_says_what_it_is() -> None:
    documented = {
        method.name
        for source in files()
        for kind in ast.walk(source.tree)
        if isinstance(kind, ast.ClassDef)
        for method in kind.body
        if isinstance(method, Function) and ast.get_docstring(method)
    }
    missing = [
        f"{source.name}: {name}"
        for source in files()
        for name, node in public(source.tree)
        # A method that a port or a base class documents needs no second text where it is implemented.
        if not ast.get_docstring(node) and not ("." in name and name.rpartition(".")[2] in documented)
    ]
    missing += [source.name for source in files() if source.text.strip() and not ast.get_docstring(source.tree)]
    assert not missing, "no docstring:\n" + "\n".join(missing)


def public(body: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Public classes, functions and methods, also those for the type checker alone; nothing within functions."""
    for node in body.body:
        if isinstance(node, ast.If):
            yield from public(ast.Module(node.body, []), prefix)
        elif isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_") and not overload(node):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public(node, f"{prefix}{node.name}.")


def overload(node: Function | ast.ClassDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list)
