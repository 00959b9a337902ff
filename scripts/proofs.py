"""Two tables whose every line names the tests that prove it, the pages made from them, and the campaign.

    docs/failures.tsv    how agents and messages fail, and what Interlock does
    docs/incidents.tsv   what has happened to users of other programs of this kind

`python -m scripts.proofs [WORD …]` runs the tests of the first table (those of rows that have one of the words) and
prints it with what came of each; it exits 1 unless all passed.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import xml.etree.ElementTree as Tree
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
CANNOT = "-"
"""What stands before the reason where something cannot happen here, or is not handled."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table: its id, what happens, what Interlock does (failures only), and its tests or the reason why
    there is none."""

    id: str
    situation: str
    answer: str
    tests: tuple[str, ...]
    reason: str

    @classmethod
    def of(cls, cells: list[str]) -> Line:
        """Read a line of three or four cells; the last names tests, or is `- REASON`."""
        id, situation, *more, proof = cells
        none = proof.startswith(f"{CANNOT} ")
        tests = () if none else tuple(proof.split())
        if not none and not all("::" in test for test in tests or ("",)):
            raise ValueError(f"{id} names no test and no reason (`{CANNOT} REASON`)")
        return cls(id, situation, more[0] if more else "", tests, proof[2:] if none else "")


def lines(table: str) -> list[Line]:
    """The lines of `docs/<table>.tsv`."""
    text = (ROOT / "docs" / f"{table}.tsv").read_text(encoding="utf-8")
    return [Line.of(line.split("\t")) for line in text.splitlines() if line and not line.startswith("#")]


@cache
def known() -> frozenset[str]:
    """Every test there is, as the tables name it: its file below `tests/` without `test_` and `.py`, and its name."""
    return frozenset(_known())


def _known() -> Iterator[str]:
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                yield f"{_file(file)}::{node.name.removeprefix('test_')}"


def _file(path: Path) -> str:
    folder = path.parent.relative_to(ROOT / "tests").as_posix()
    return f"{folder}/{path.stem.removeprefix('test_')}"


def node_id(test: str) -> str:
    """What pytest calls it."""
    file, _, name = test.partition("::")
    folder, _, stem = file.rpartition("/")
    return f"tests/{folder}/test_{stem}.py::test_{name}"


def page(table: str, title: str, told: str, heads: tuple[str, ...]) -> str:
    """A table as a page of the documentation."""
    found = [
        f"# {title}",
        "",
        f"<!-- Written by `make reference` from docs/{table}.tsv. Do not edit. -->",
        "",
        told,
        "",
    ]
    found += [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for line in lines(table):
        tests = "<br>".join(f"[`{_words(test)}`](../{node_id(test).partition('::')[0]})" for test in line.tests)
        cells = [
            line.id,
            line.situation,
            *([line.answer] if len(heads) > 3 else []),
            tests or f"no test: {line.reason}",
        ]
        found.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(found) + "\n"


def _words(test: str) -> str:
    return test.partition("::")[2].replace("_", " ")


def failures() -> str:
    """The page about how agents fail."""
    return page(
        "failures",
        "How agents fail, and what happens then",
        "The fourteen failure modes of MAST (arXiv 2503.13657), the faults that MAS-FIRE (arXiv 2602.19843) injects "
        "into prompts, answers and routing, and faults of the model's endpoint. Passed means: contained, named, asked "
        "or tried again, and never called done. `make campaign` carries all of it out and prints this table with the "
        "results. What is not handled says so.",
        ("mode", "what goes wrong", "what Interlock does", "tests"),
    )


def incidents() -> str:
    """The page about what has happened to others."""
    return page(
        "incidents",
        "What has happened elsewhere, and here cannot or is tested",
        "Incidents that users and maintainers of programs of this kind have reported, each in a line of ours, and the "
        "tests of that situation here, or why it cannot occur, or that it is not handled. They were read in issues and "
        "sources; most were not tried there again.",
        ("where", "what happened", "here"),
    )


def campaign(words: list[str]) -> int:
    """Run the tests of the failures and print the table with what came of them."""
    chosen = [
        line
        for line in lines("failures")
        if not words or any(word in "\t".join([line.id, line.situation]) for word in words)
    ]
    ids = sorted({node_id(test) for line in chosen for test in line.tests})
    with TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "long or storm or not long", f"--junitxml={report}", *ids],
            cwd=ROOT,
            check=False,
        )
        if not report.exists():
            return 1
        results: dict[str, list[bool]] = {}
        for case in Tree.parse(report).iter("testcase"):
            path = str(case.get("classname")).replace(".", "/")
            id = f"{path}.py::{str(case.get('name')).partition('[')[0]}"
            results.setdefault(id, []).append(not any(one.tag in ("failure", "error", "skipped") for one in case))
    passed = 0
    for line in chosen:
        found = [results.get(node_id(test), [False]) for test in line.tests]
        good = bool(found) and all(map(all, found))
        passed += good
        told = "passed" if good else "FAILED" if line.tests else "NOT HANDLED"
        print(f"{told:12} {line.id:14} {line.situation}\n{'':28}{line.answer or line.reason}")
    print(f"{passed} of {len(chosen)} passed, {len(ids)} tests")
    return 0 if passed == sum(bool(line.tests) for line in chosen) else 1


if __name__ == "__main__":
    sys.exit(campaign(sys.argv[1:]))
