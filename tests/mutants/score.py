"""`python -m tests.mutants.score [AREA...]`: how many small changes of the code that matters most some test notices.

The changes are the usual ones: a condition turned round, a bound moved by one, a number more, a value that is false
instead of true, a loop or a call left out. Each is made in a copy, and the tests of its area that run the line are run
until one fails. A change that none notices is printed as a diff: it does the same as before, or a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.mutants.planted import ROOT, Copy

PASSED, STUCK = 0, -1
PATIENCE = 30
"""Seconds that one of these tests may take; a change that lets it wait for ever is noticed."""
OPERATORS = re.compile(
    "core/(Replace(ComparisonOperator_(Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is|(Lt|Gt)_(Lt|Gt)E?|(Lt|Gt)E_(Lt|Gt)E?)"
    "|BinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul|Mod_Mul)"
    "|AndWithOr|OrWithAnd|TrueWithFalse|FalseWithTrue|BreakWithContinue|ContinueWithBreak"
    "|UnaryOperator_Delete_(Not|USub))"
    "|AddNot|NumberReplacer|RemoveDecorator|ZeroIterationForLoop)"
)
"""Those of cosmic-ray's that change what is meant: that two words are equal is not changed into an order of them."""
PAIRS = {ast.Eq: ast.NotEq, ast.Lt: ast.GtE, ast.Gt: ast.LtE, ast.Is: ast.IsNot, ast.In: ast.NotIn}
OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {**PAIRS, **{other: one for one, other in PAIRS.items()}}
CONTEXTS = "[run]\nbranch = False\ndata_file = {}\ninclude =\n    {}\n"


@dataclass(slots=True, frozen=True)
class Area:
    """Files of `src`, and the tests that hold them, the quickest first."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


def _area(sources: str, tests: str) -> Area:
    """Modules of the house, and files of tests by their name, those of other rooms than behaviours with it."""
    names = [name.rpartition("/") for name in tests.split()]
    return Area(
        tuple(f"src/interlock/{name}.py" for name in sources.split()),
        tuple(f"tests/{room or 'behaviours'}/test_{name}.py" for room, _, name in names),
    )


AREAS = {
    "ledger": _area(
        "core/unit_of_work storage/sqlite/ledger",
        "conformance/ledger announcements keyed_changes python sessions delivery task_ledger clock_set_back"
        " finishing state_access statements ledger_identity team_lifecycle failing_disks migrations mirror persons"
        " controls doctor surfaces/http/remote_home",
    ),
    "mailbox": _area("core/mailbox", "announcements mailbox mail_rules delivery sessions limits"),
    "claim": _area(
        "core/tasks/claim",
        "announcements claims run_fences task_ledger dependencies limits fairness pausing shutdown questions",
    ),
    "finish": _area(
        "core/tasks/finish core/tasks/verify",
        "announcements finishing task_ledger evidence review completion_report rounds questions main_job merging",
    ),
    "fencing": _area(
        "core/tasks/transition",
        "announcements task_ledger run_fences merge_ledger sessions claims guard questions answers review finishing"
        " dependencies held_sessions workflow_queue front_door recovery running_again",
    ),
    "windows": _area("core/sessions", "window_seats permissions"),
    "merge": _area(
        "core/tasks/merge",
        "announcements merge_ledger merging merging_into moved_branch worktrees_by_hand changed_checks",
    ),
    "questions": _area(
        "core/questions core/tasks/answer",
        "announcements questions answers held_sessions review front_door permissions lasting guard merging",
    ),
    "guard": _area("model/guard", "unit/guard guard"),
    "access": _area(
        "core/tasks/permission app/base",
        "relayed_permissions names_of_teams python review delivery controls security task_ledger permissions"
        " ledger_identity team_lifecycle persons worktrees_by_hand",
    ),
}


@dataclass(slots=True, frozen=True)
class Mutant:
    """A file with one change; `lines` are those of the statement that it is in."""

    path: str
    code: str
    diff: str
    lines: Collection[int]


class Workshop:
    """A copy of the repository in which changes of one area are tried, one after the other."""

    def __init__(self, directory: Path, area: Area) -> None:
        directory.mkdir()
        self._root = Copy(directory).root
        self._area = area
        self._longest: float | None = None
        """Seconds that tests may take in all: a change may hang beyond the end of each."""
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "INTERLOCK_"))},
            "PYTHONPATH": str(self._root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def covering(self) -> Coverage:
        """Which tests run which lines. Raises AssertionError where a test fails without a change."""
        from coverage import CoverageData  # type: ignore[import-not-found,unused-ignore]

        file, settings = self._root / "coverage", self._root / "coverage.ini"
        settings.write_text(CONTEXTS.format(file, "\n    ".join(str(self._root / path) for path in self._area.sources)))
        how = ("-m", "coverage", "run", f"--rcfile={settings}")
        began = time.monotonic()
        done = self._run(["-p", "tests.mutants.score", *self._area.tests], *how)
        self._longest = 2 * (time.monotonic() - began) + PATIENCE
        assert done == PASSED, f"red without a change: {' '.join(self._area.tests)}"
        data = CoverageData(str(file))
        data.read()
        found: dict[str, Mapping[int, list[str]]] = {}
        for path in self._area.sources:
            found[path] = data.contexts_by_lineno(str(self._root / path))
        return found

    def notices(self, mutant: Mutant, tests: Sequence[str]) -> bool:
        """Whether one of the tests fails with that change."""
        path = self._root / mutant.path
        before = path.read_text()
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
        path.write_text(mutant.code)
        try:
            return self._run(tests) != PASSED
        finally:
            path.write_text(before)

    def _run(self, tests: Sequence[str], *how: str) -> int:
        words = ["-q", "-x", "-m", "not long and not storm", "-p", "no:cacheprovider", "-p", "no:xdist"]
        words += [f"--timeout={PATIENCE}", *tests]
        running = subprocess.Popen(
            [sys.executable, *how, "-m", "pytest", *words], cwd=self._root, env=self._environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            return running.wait(self._longest)
        except subprocess.TimeoutExpired:
            return STUCK
        finally:
            # What a test started is not left running by a change that broke its end.
            try:
                os.killpg(running.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            running.wait()


Coverage = Mapping[str, Mapping[int, list[str]]]
"""For each file and line the tests that run it; an empty one where it is run when it is imported."""


def pytest_runtest_protocol(item: pytest.Item) -> None:
    """As a plug-in: which test it is that runs a line, or has it run to be set up."""
    from coverage import Coverage as Running

    measuring = Running.current()
    if measuring is not None:
        measuring.switch_context(item.nodeid.partition("[")[0])


def concerned(mutant: Mutant, area: Area, coverage: Coverage) -> list[str]:
    """The tests of the area that may notice the change, the quickest files first: all where none runs its lines here,
    since a program that one starts may run them."""
    names = {name for line in mutant.lines for name in coverage[mutant.path].get(line, ())}
    if not names or "" in names:
        return list(area.tests)
    return [name for path in area.tests for name in sorted(names) if name.startswith(f"{path}::")]


def mutants(paths: Sequence[str], seed: int) -> Iterator[Mutant]:
    """The changes of these files, in the order of that seed: none in an annotation, and each only once."""
    from cosmic_ray.ast import ast_nodes, get_ast  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from cosmic_ray.mutating import mutate_code  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from cosmic_ray.plugins import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        get_operator,
        operator_names,
    )

    sources = {path: (ROOT / path).read_text() for path in paths}
    operators = {name: get_operator(name)() for name in operator_names() if OPERATORS.fullmatch(name)}
    places: list[tuple[str, str, int]] = []
    for path, source in sources.items():
        nodes = list(ast_nodes(get_ast(source)))
        for name, operator in operators.items():
            places += [(path, name, n) for n in range(sum(len([*operator.mutation_positions(one)]) for one in nodes))]
        places += [(path, "", number) for number in range(len(_calls(source)))]
    random.Random(seed).shuffle(places)
    seen = {_meaning(source) for source in sources.values()}
    for path, name, number in places:
        source = sources[path]
        code = mutate_code(source, operators[name], number) if name else _left_out(source, _calls(source)[number])
        try:
            meaning = _meaning(code)
        except SyntaxError:
            continue
        if meaning not in seen:
            seen.add(meaning)
            yield _mutant(path, source, code)


def _calls(source: str) -> list[ast.Expr]:
    """The statements that are a call, whose value nobody takes."""
    return [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)]


def _left_out(source: str, call: ast.Expr) -> str:
    lines = source.splitlines(keepends=True)
    end = call.end_lineno or call.lineno
    lines[call.lineno - 1 : end] = [lines[call.lineno - 1][: call.col_offset] + "pass\n"]
    return "".join(lines)


def _mutant(path: str, source: str, code: str) -> Mutant:
    before, after = source.splitlines(), code.splitlines()
    changed = {
        line
        for kind, first, last, _, _ in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        for line in range(first + 1, max(last, first + 1) + 1)
        if kind != "equal"
    }
    diff = difflib.unified_diff(before, after, path, path, lineterm="", n=0)
    within = [lines for lines in _statements(source) if changed & set(lines)]
    return Mutant(
        path, code, "\n".join(line for line in diff if not line.startswith(("---", "+++"))),
        min(within, key=len, default=changed),
    )  # fmt: skip


def _statements(source: str) -> Iterator[range]:
    """The lines of each statement, without those of the statements in it."""
    for one in ast.walk(ast.parse(source)):
        if isinstance(one, ast.stmt):
            body = getattr(one, "body", None)
            end = body[0].lineno - 1 if isinstance(body, list) and body else one.end_lineno or one.lineno
            yield range(one.lineno, max(end, one.lineno) + 1)


def _meaning(code: str) -> str:
    """What the code does, as far as its syntax says: without annotations, which are text here, and without the number
    of characters of a text that are shown."""
    tree = _Plainer().visit(ast.parse(code))
    return ast.dump(tree)


class _Plainer(ast.NodeTransformer):
    """Brings what means the same into one form."""

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        """`mutants` takes the star of a signature for a product."""
        node.args, node.posonlyargs, node.kwonlyargs = [*node.posonlyargs, *node.args, *node.kwonlyargs], [], []
        node.defaults, node.kw_defaults = [*node.defaults, *(one for one in node.kw_defaults if one)], []
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        """Strictness only says that what is joined is equally long."""
        node.value = ast.Constant(None) if node.arg == "strict" else node.value
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        for part in ast.walk(node):
            if isinstance(part, ast.Slice):
                part.lower = part.upper = None
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        inner = node.operand
        if isinstance(node.op, ast.Not) and isinstance(inner, ast.Compare) and len(inner.ops) == 1:
            inner.ops = [OPPOSITES[type(inner.ops[0])]()]
            return inner
        return node


def measure(area: Area, sample: int, seed: int, jobs: int) -> Iterator[tuple[Mutant, bool]]:
    """Try `sample` changes of an area, or all of them: each, and whether a test noticed it."""
    tried = list(islice(mutants(area.sources, seed), sample or None))
    with tempfile.TemporaryDirectory(prefix="il-score-") as directory:
        free: SimpleQueue[Workshop] = SimpleQueue()
        workshops = [Workshop(Path(directory) / str(number), area) for number in range(jobs)]
        coverage = workshops[0].covering()
        for workshop in workshops:
            free.put(workshop)

        def noticed(mutant: Mutant) -> tuple[Mutant, bool]:
            tests = concerned(mutant, area, coverage)
            workshop = free.get()
            try:
                return mutant, workshop.notices(mutant, tests)
            finally:
                free.put(workshop)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(noticed, tried)


def main(words: Sequence[str]) -> int:
    """Print the score of each area, and what was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"of: {', '.join(AREAS)} (default: all)")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="changes of each (default: all)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="at once")
    asked = parser.parse_args(words)
    for name in asked.areas or AREAS:
        count = lives = 0
        for one, noticed in measure(AREAS[name], asked.sample, asked.seed, asked.jobs):
            count += 1
            if not noticed:
                lives += 1
                print(f"{one.path}\n{one.diff}\n", flush=True)
        print(f"{name:<10} {count - lives:>4} of {count:>4} noticed: {1 - lives / count:.0%}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
