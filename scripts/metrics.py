"""What the house measures: `make metrics` prints it beside the goals, and tests/architecture holds the limits.

    python scripts/metrics.py [--json]

The figures are those of `measure()`: counts, lines, or per cent as each row says. Data that the demo copies into a
user's directory is counted in modules and lines only.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "interlock"
Function = ast.FunctionDef | ast.AsyncFunctionDef

GOALS = {
    "modules": 380,
    "lines": 52_000,
    "largest module": 600,
    "p99 function": 60,
    "longest function": 60,
    "late own imports": 25,
    "private functions used once, %": 30,
    "class names defined twice": 0,
    "broad except, %": 10,
    "most positional parameters": 8,
    "dict[str, Any]": 150,
    "small modules imported once": 0,
}
"""The most that each row may be. The median function is printed beside them and has no goal."""


@dataclass(slots=True, frozen=True)
class Module:
    """One file of the package."""

    name: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.text.count("\n")


def modules(package: Path = PACKAGE) -> list[Module]:
    """Return every module of `package`, parsed."""
    found = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        parts = path.relative_to(package.parent).with_suffix("").parts
        found.append(Module(".".join(parts), text, ast.parse(text, str(path))))
    return found


def measure(package: Path = PACKAGE) -> dict[str, int]:
    """Return each figure by the name it has in `GOALS`, with the median function as `p50 function`."""
    everything = modules(package)
    read = [module for module in everything if ".demo.project." not in module.name]
    functions = [node for module in read for node in ast.walk(module.tree) if isinstance(node, Function)]
    lengths = sorted((function.end_lineno or 0) - function.lineno + 1 for function in functions)
    private = [_private(module) for module in read]
    handlers = [n for m in read for n in ast.walk(m.tree) if isinstance(n, ast.ExceptHandler)]
    classes = Counter(node.name for m in read for node in ast.walk(m.tree) if isinstance(node, ast.ClassDef))
    return {
        "modules": len(everything),
        "lines": sum(module.lines for module in everything),
        "largest module": max(module.lines for module in everything),
        "p50 function": lengths[len(lengths) // 2],
        "p99 function": lengths[int(len(lengths) * 0.99)],
        "longest function": lengths[-1],
        "late own imports": sum(len(list(own_imports(function))) for function in functions),
        "private functions used once, %": _per_cent(sum(once for _, once in private), sum(all_ for all_, _ in private)),
        "class names defined twice": sum(times > 1 for times in classes.values()),
        "broad except, %": _per_cent(sum(_broad(handler) for handler in handlers), len(handlers)),
        "most positional parameters": max(len(f.args.args) for f in functions if not f.decorator_list),
        "dict[str, Any]": sum(module.text.count("dict[str, Any]") for module in read),
        "small modules imported once": len(small_modules(read)),
    }


def own_imports(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    """Yield the statements within `tree` that import from this package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("interlock"):
            yield node


def small_modules(read: list[Module]) -> list[str]:
    """Return the modules under 40 lines that at most one other imports; `__init__` and entry points are not counted."""
    importers: Counter[str] = Counter()
    for module in read:
        named = set()
        for node in own_imports(module.tree):
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


def main() -> None:
    figures = measure()
    if "--json" in sys.argv:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        goal = GOALS.get(name)
        missed = "" if goal is None or figure <= goal else "   missed"
        print(f"{name:32} {figure:>7,}" + ("" if goal is None else f"   goal <= {goal:,}{missed}"))


if __name__ == "__main__":
    main()
