"""The project's source, parsed once, for the tests of this folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from scripts.metrics import parsing

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PACKAGE = SRC / "interlock"
DEMO_PROJECT = PACKAGE / "demo" / "project"
DEMO_AGENTS = PACKAGE / "demo" / "agents"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Source(NamedTuple):
    """One file."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """Its path within the project, as messages show it."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self) -> str:
        """Its dotted name."""
        parts = self.path.relative_to(SRC).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def line(self, node: ast.AST) -> str:
        """The text of the line that `node` starts on."""
        return self.text.splitlines()[node.lineno - 1]  # type: ignore[attr-defined]

    def at(self, node: ast.AST) -> str:
        """`path:line` of `node`."""
        return f"{self.name}:{node.lineno}"  # type: ignore[attr-defined]


@cache
def files(under: Path = PACKAGE) -> tuple[Source, ...]:
    """Every Python file below `under`; what the demo puts into a user's directory is data, not ours to import."""
    paths = (path for path in sorted(under.rglob("*.py")) if not path.is_relative_to(DEMO_PROJECT))
    texts = ((path, path.read_text(encoding="utf-8")) for path in paths if not path.is_relative_to(DEMO_AGENTS))
    with parsing():
        return tuple(Source(path, text, ast.parse(text, str(path))) for path, text in texts)


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, also nested ones."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def imports(source: Source, tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """The modules of ours that import statements within `tree` name, with the statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names if alias.name.split(".")[0] == "interlock")
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "interlock":
            for alias in node.names:
                dotted = f"{node.module}.{alias.name}"
                yield node, dotted if _exists(dotted) else str(node.module)


@cache
def _exists(module: str) -> bool:
    path = SRC.joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()
