"""Print the figures of the house: `make metrics`. They inform; none is a limit.

    python scripts/metrics.py [--json]

A count of the whole as a limit refuses two changes together that are right apart, so the rules that are held are local
ones (tests/architecture/test_style.py). `measure()` counts the code; `commands()` what everyday commands load and ask.
Data that the demo copies into a user's directory is counted in modules and lines only.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "interlock"
Function = ast.FunctionDef | ast.AsyncFunctionDef

COMMANDS = {
    "task list": "task list",
    "task show": "task show 001",
    "task update": "task update 001 --log on-it",
    "task claim": "task claim 001 --as ada",
    "task complete": "task complete 001 --as ada",
    "message send": "message send --to ada hello",
    "message read": "message read",
    "status": "status",
}
"""Everyday commands, tried one after the other in a team with the member ada and one task."""
TRACED = """
import os, sqlite3, sys
connect, asked = sqlite3.connect, []
def traced(*given, **more):
    opened = connect(*given, **more)
    opened.set_trace_callback(lambda one: one.startswith("--") or asked.append(one))
    return opened
sqlite3.connect = traced
"""
"""Python that has every statement that SQLite is asked appended to `asked`."""
RUN = f"""
{TRACED}
from interlock.surfaces.cli import main
os._exit = sys.exit
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
ours = sum(name.partition(".")[0] == "interlock" for name in sys.modules)
print(ours, len(asked), sum(one.startswith("BEGIN") for one in asked), file=sys.stderr)
"""


@dataclass(slots=True, frozen=True)
class Module:
    """One file of the package."""

    name: str
    text: str
    tree: ast.Module
    nodes: list[ast.AST]
    """All of the tree."""

    @property
    def lines(self) -> int:
        return self.text.count("\n")


@contextmanager
def parsing() -> Iterator[None]:
    """Within, trees are made that stay: looking for garbage among millions of nodes takes most of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@cache
def modules(package: Path = PACKAGE) -> list[Module]:
    """Return every module of `package`, parsed."""
    found = []
    with parsing():
        for path in sorted(package.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            parts = path.relative_to(package.parent).with_suffix("").parts
            tree = ast.parse(text, str(path))
            found.append(Module(".".join(parts), text, tree, list(ast.walk(tree))))
    return found


def measure(package: Path = PACKAGE) -> dict[str, int]:
    """Return each figure by its name: counts, lines, or per cent as the name says."""
    everything = modules(package)
    read = [module for module in everything if ".demo.project." not in module.name]
    functions = [node for module in read for node in module.nodes if isinstance(node, Function)]
    lengths = sorted((function.end_lineno or 0) - function.lineno + 1 for function in functions)
    private = [_private(module) for module in read]
    handlers = [n for m in read for n in m.nodes if isinstance(n, ast.ExceptHandler)]
    classes = Counter(node.name for m in read for node in m.nodes if isinstance(node, ast.ClassDef))
    return {
        "modules": len(everything),
        "lines": sum(module.lines for module in everything),
        "largest module": max(module.lines for module in everything),
        "p50 function": lengths[len(lengths) // 2],
        "p99 function": lengths[int(len(lengths) * 0.99)],
        "longest function": lengths[-1],
        "late own imports": sum(late_imports(module) for module in read),
        "private functions used once, %": _per_cent(sum(once for _, once in private), sum(all_ for all_, _ in private)),
        "class names defined twice": sum(times > 1 for times in classes.values()),
        "broad except, %": _per_cent(sum(_broad(handler) for handler in handlers), len(handlers)),
        "most positional parameters": max(len(f.args.args) for f in functions if not f.decorator_list),
        "dict[str, Any]": sum(module.text.count("dict[str, Any]") for module in read),
        "small modules imported once": len(small_modules(read)),
    }


def own_imports(nodes: Iterable[ast.AST]) -> Iterator[ast.ImportFrom]:
    """Yield those that are statements importing from this package."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("interlock"):
            yield node


def late_imports(module: Module) -> int:
    """Return how many statements within functions import from this package, rungs of `__getattr__` ladders included."""
    late = set[int]()
    for function in (node for node in module.nodes if isinstance(node, Function)):
        late |= {id(node) for node in own_imports(ast.walk(function))}
        late |= {id(node) for node in ast.walk(function) if _imports_a_module(node)}
    return len(late)


def _imports_a_module(node: ast.AST) -> bool:
    """Return whether it is `import interlock.…`, or a call of `import_module`."""
    if isinstance(node, ast.Import):
        return any(alias.name.startswith("interlock.") for alias in node.names)
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")


def small_modules(read: list[Module]) -> list[str]:
    """Return the modules under 40 lines that at most one other imports; `__init__` and entry points are not counted."""
    importers: Counter[str] = Counter()
    for module in read:
        # A module that is loaded with its first use is imported by its package, whose attribute it is for all others.
        named = {alias.name for node in module.nodes if isinstance(node, ast.Import) for alias in node.names}
        for node in own_imports(module.nodes):
            named |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        importers.update(named)
    exempt = re.compile(r"\.(__init__|__main__|demo\.agents\.\w+)$")
    return [
        module.name
        for module in read
        if module.lines < 40 and importers[module.name] < 2 and not exempt.search(module.name)
    ]


def _private(module: Module) -> tuple[int, int]:
    """Return how many private functions the module has at its top level, and how many of them are used exactly once."""
    names = [node.name for node in module.tree.body if isinstance(node, Function)]
    names = [name for name in names if name.startswith("_") and not name.startswith("__")]
    return len(names), sum(len(re.findall(rf"\b{name}\b", module.text)) == 2 for name in names)


def _broad(handler: ast.ExceptHandler) -> bool:
    return not handler.type or bool(re.search(r"\b(Base)?Exception\b", ast.unparse(handler.type)))


def _per_cent(part: int, whole: int) -> int:
    return round(100 * part / max(whole, 1))


def commands() -> dict[str, tuple[int, int, int]]:
    """Return for each of `COMMANDS`: modules of ours it loads, statements it asks, and transactions of those."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {
            "PATH": os.environ["PATH"],
            "INTERLOCK_HOME": f"{directory}/home",
            "PYTHONPATH": str(PACKAGE.parent),
        }

        def run(line: str) -> tuple[int, int, int]:
            command = [sys.executable, "-c", RUN, *line.split()]
            ran = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=True)
            loaded, asked, begun = map(int, ran.stderr.splitlines()[-1].split())
            return loaded, asked, begun

        for line in ("team create alpha", "member spawn ada", "task create one"):
            run(line)
        return {name: run(line) for name, line in COMMANDS.items()}


def main() -> None:
    figures, tried = measure(), commands()
    if "--json" in sys.argv:
        print(json.dumps({**figures, "commands": tried}))
        return
    for name, figure in figures.items():
        print(f"{name:32} {figure:>7,}")
    print(f"\n{'command':16} modules  statements  transactions")
    for name, (loaded, asked, begun) in tried.items():
        print(f"{name:16} {loaded:>7} {asked:>11} {begun:>13}")


if __name__ == "__main__":
    main()
