"""Whoever waits cannot decide, and whoever decides cannot wait (decision 0890)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.source import PACKAGE, Function, Source, files, functions

OWNERS = {"AutomationController", "RunWriter"}
"""The only classes that have the run, and wait: the one that carries its effects out, and the one that writes it."""
GIVEN = {"note", "_note", "apply", "_apply"}
"""By these is changed what whoever waits does not have."""


def is_run(annotation: ast.expr | None) -> bool:
    """Whether a value of that type is a run, or has one; a function that takes one is none."""
    if annotation is None or (isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Callable"):
        return False
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return is_run(ast.parse(annotation.value, mode="eval").body)
    if isinstance(annotation, ast.Attribute):
        return annotation.attr == "Draft"
    if isinstance(annotation, ast.Name):
        return annotation.id == "Draft"
    return any(is_run(one) for one in ast.iter_child_nodes(annotation) if isinstance(one, ast.expr))


def takes_run(function: Function) -> bool:
    """Whether it is given a run by its caller."""
    given = function.args
    return any(is_run(one.annotation) for one in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def waits(node: ast.AST) -> bool:
    """Whether anything in it waits."""
    return any(
        isinstance(one, (ast.AsyncFunctionDef, ast.Await, ast.AsyncWith, ast.AsyncFor)) for one in ast.walk(node)
    )


def holders(source: Source) -> Iterator[str]:
    """The functions and classes of a file that have a run, and wait."""
    owned = [one for one in ast.walk(source.tree) if isinstance(one, ast.ClassDef) and one.name in OWNERS]
    exempt = {id(one) for owner in owned for one in ast.walk(owner)}
    for function in functions(source.tree):
        if id(function) not in exempt and takes_run(function) and waits(function):
            yield f"{source.at(function)} {function.name}"
    for one in ast.walk(source.tree):
        if isinstance(one, ast.ClassDef) and id(one) not in exempt and waits(one):
            fields = [part for part in one.body if isinstance(part, ast.AnnAssign) and is_run(part.annotation)]
            makers = [part for part in functions(one) if part.name == "__init__" and takes_run(part)]
            yield from (f"{source.at(part)} {one.name}" for part in (*fields, *makers))


@pytest.mark.req("BMAD-FR18")
def test_nothing_that_waits_has_a_run() -> None:
    found = [where for source in files(PACKAGE / "workflow") for where in holders(source)]
    assert not found, f"take a value, and hand back what came of it: {found}"


@pytest.mark.req("BMAD-FR18")
def test_what_changes_a_run_for_those_who_wait_is_a_function_with_a_name() -> None:
    found = [
        source.at(node)
        for source in files(PACKAGE / "workflow")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Lambda)
        if (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in GIVEN
    ]
    assert not found, f"a lambda may hand the run itself out: {found}"


def test_the_search_sees_a_run_that_is_taken_held_or_enclosed() -> None:
    text = """
async def taken(run: Draft): ...
async def optional(run: context.Draft | None): ...
async def listed(*, runs: "list[Draft]"): ...
class Holder:
    def __init__(self, run: Draft): ...
    async def work(self): ...
class Value:
    run: Draft
    async def work(self): ...
def enclosing(run: Draft):
    async def inner(): ...
def decides(run: Draft): ...
async def hands_on(note: Callable[[Draft], None]): ...
class RunWriter:
    def __init__(self, run: Draft): ...
    async def save(self): ...
"""
    found = [one.rpartition(" ")[2] for one in holders(Source(PACKAGE / "x.py", text, ast.parse(text)))]
    assert found == ["taken", "optional", "listed", "enclosing", "Holder", "Value"]
