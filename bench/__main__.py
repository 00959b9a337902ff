"""`python -m bench [SCENARIO …] [--json] [--full]`: measures, and prints each number beside its floor.

`python -m bench --peers [PEER …]` races the tools of others instead (`bench.peers`).

A scenario is a module of this package with a function `run() -> list[Row]`; its name is the module's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))  # measures this tree, whether or not it is installed

from bench import measure  # noqa: E402
from bench.measure import Row  # noqa: E402

HEAD = ("work", "measured", "floor", "ratio", "goal", "")


def scenarios() -> dict[str, Callable[[], list[Row]]]:
    """Every scenario by name."""
    names = (module.name for module in pkgutil.iter_modules([str(HERE)]) if not module.name.startswith("_"))
    modules = {name: importlib.import_module(f"bench.{name}") for name in names}
    return {name: module.run for name, module in modules.items() if hasattr(module, "run")}


def table(rows: Sequence[Row]) -> str:
    """The rows for people; the mark says whether all goals of a row are kept."""
    cells = [HEAD, *(line(row) for row in rows)]
    widths = [max(len(one[column]) for one in cells) for column in range(len(HEAD))]
    lines = (
        [one[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(one[1:], widths[1:], strict=True))]
        for one in cells
    )
    return "\n".join("  ".join(one).rstrip() for one in lines)


def line(row: Row) -> tuple[str, ...]:
    """The cells of one row."""
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}x"
    goal = ", ".join(goal.text(row.unit) for goal in row.goals) or "-"
    mark = {True: "✓", False: "✗", None: ""}[row.met]
    return row.work, number(row.measured, row.unit), number(row.floor, row.unit), ratio, goal, mark


def number(value: float | None, unit: str) -> str:
    """A value with its unit."""
    return "-" if value is None else f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for, or everything."""
    known = scenarios()
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, each beside its floor.")
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help=f"one of: {', '.join(known)}; default all")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--full", action="store_true", help="sizes of the goals, also where that takes an hour")
    parser.add_argument(
        "--peers",
        action="store_true",
        help="race the named tools of others, or all, and write docs/peers.md: downloads up to 570 MB into .cache",
    )
    options = parser.parse_args(arguments)
    if options.peers:
        from bench.peers import racing

        return racing.main(options.names)
    measure.FULL = options.full
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no scenario {unknown[0]!r}; there are: {', '.join(known)}")
    rows: list[Row] = []
    for name in options.names or known:
        print(f"measuring {name} ...", file=sys.stderr)
        rows += known[name]()
    print(json.dumps({"rows": [row.as_dict() for row in rows]}) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
