"""`python -m tests.mutants.score [AREA...]`: how many small changes of the code that matters most some test notices.

The changes are those of cosmic-ray's operators: another comparison, a number more, a condition turned round, a loop
left out. Each is made in a copy, and the tests of its area are run until one fails. A change that none notices is
printed as a diff: it does the same as before, or a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.planted import FAILED, ROOT, Copy

PASSED = 0
SLOWER = 5
"""How many times as long as without a change the tests may take; a change that makes them slower is noticed."""
LEFT_OUT = ("core/ExceptionReplacer",)
"""Fails on exceptions whose name has a dot."""
CORE, BEHAVIOURS = "src/interlock/core", "tests/behaviours"


@dataclass(slots=True, frozen=True)
class Area:
    """Files of `src`, and the tests that hold them, the quickest first."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


AREAS = {
    "ledger": Area(
        (f"{CORE}/unit_of_work.py", "src/interlock/storage/sqlite/ledger.py"),
        ("tests/conformance/test_ledger.py", f"{BEHAVIOURS}/test_python.py", f"{BEHAVIOURS}/test_task_ledger.py",
         f"{BEHAVIOURS}/test_mirror.py", f"{BEHAVIOURS}/test_ledger_identity.py",
         f"{BEHAVIOURS}/test_team_lifecycle.py"),
    ),
    "mailbox": Area(
        (f"{CORE}/mailbox.py",),
        (f"{BEHAVIOURS}/test_mailbox.py", f"{BEHAVIOURS}/test_delivery.py", f"{BEHAVIOURS}/test_sessions.py"),
    ),
    "claim": Area(
        (f"{CORE}/tasks/claim.py",),
        (f"{BEHAVIOURS}/test_claims.py", f"{BEHAVIOURS}/test_task_ledger.py", f"{BEHAVIOURS}/test_dependencies.py",
         f"{BEHAVIOURS}/test_limits.py", f"{BEHAVIOURS}/test_fairness.py", f"{BEHAVIOURS}/test_pausing.py"),
    ),
    "finish": Area(
        (f"{CORE}/tasks/finish.py", f"{CORE}/tasks/verify.py"),
        (f"{BEHAVIOURS}/test_task_ledger.py", f"{BEHAVIOURS}/test_evidence.py", f"{BEHAVIOURS}/test_review.py",
         f"{BEHAVIOURS}/test_completion_report.py", f"{BEHAVIOURS}/test_rounds.py", f"{BEHAVIOURS}/test_questions.py"),
    ),
    "fencing": Area(
        (f"{CORE}/tasks/transition.py", f"{CORE}/sessions.py"),
        (f"{BEHAVIOURS}/test_task_ledger.py", f"{BEHAVIOURS}/test_sessions.py", f"{BEHAVIOURS}/test_claims.py",
         f"{BEHAVIOURS}/test_recovery.py", f"{BEHAVIOURS}/test_dependencies.py", f"{BEHAVIOURS}/test_delivery.py"),
    ),
    "merge": Area(
        (f"{CORE}/tasks/merge.py",),
        (f"{BEHAVIOURS}/test_merging.py", f"{BEHAVIOURS}/test_merging_into.py", f"{BEHAVIOURS}/test_moved_branch.py",
         f"{BEHAVIOURS}/test_worktrees_by_hand.py"),
    ),
    "questions": Area(
        (f"{CORE}/questions.py", f"{CORE}/tasks/answer.py"),
        (f"{BEHAVIOURS}/test_questions.py", f"{BEHAVIOURS}/test_answers.py", f"{BEHAVIOURS}/test_review.py",
         f"{BEHAVIOURS}/test_front_door.py"),
    ),
    "guard": Area(("src/interlock/model/guard.py",), ("tests/unit/test_guard.py", f"{BEHAVIOURS}/test_guard.py")),
    "access": Area(
        (f"{CORE}/tasks/permission.py", "src/interlock/app/base.py"),
        (f"{BEHAVIOURS}/test_controls.py", f"{BEHAVIOURS}/test_persons.py", f"{BEHAVIOURS}/test_security.py",
         f"{BEHAVIOURS}/test_task_ledger.py", f"{BEHAVIOURS}/test_review.py", f"{BEHAVIOURS}/test_permissions.py"),
    ),
}  # fmt: skip


@dataclass(slots=True, frozen=True)
class Mutant:
    """A file with one change."""

    path: str
    code: str
    diff: str


class Workshop:
    """A copy of the repository in which changes of one area are tried, one after the other."""

    def __init__(self, directory: Path, area: Area) -> None:
        directory.mkdir()
        self._root = Copy(directory).root
        self._tests = area.tests
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "INTERLOCK_"))},
            "PYTHONPATH": str(self._root / "src"),
        }

    def seconds(self) -> float:
        """How long the tests take without a change. Raises AssertionError where one fails."""
        self._run(600.0)  # Compiles everything.
        self._environment["PYTHONDONTWRITEBYTECODE"] = "1"
        started = time.monotonic()
        assert self._run(600.0) == PASSED, f"{' '.join(self._tests)}: red without a change"
        return time.monotonic() - started

    def notices(self, mutant: Mutant, within: float) -> bool:
        """Whether a test fails with that change, or they take longer."""
        path = self._root / mutant.path
        before = path.read_text()
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
        path.write_text(mutant.code)
        try:
            return self._run(within) != PASSED
        finally:
            path.write_text(before)

    def _run(self, within: float) -> int:
        words = ["-q", "-x", "-m", "not long and not storm", "-p", "no:cacheprovider", "-p", "no:xdist", *self._tests]
        running = subprocess.Popen(
            [sys.executable, "-m", "pytest", *words], cwd=self._root, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            return running.wait(within)
        except subprocess.TimeoutExpired:
            return FAILED
        finally:
            # What a test started is not left running by a change that broke its end.
            try:
                os.killpg(running.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            running.wait()


def mutants(paths: Sequence[str], seed: int) -> Iterator[Mutant]:
    """The changes of these files, in the order of that seed: none in an annotation, and each only once."""
    from cosmic_ray.ast import ast_nodes, get_ast  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from cosmic_ray.mutating import mutate_code  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from cosmic_ray.plugins import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        get_operator,
        operator_names,
    )

    sources = {path: (ROOT / path).read_text() for path in paths}
    operators = {name: get_operator(name) for name in operator_names() if name not in LEFT_OUT}
    plain = {name: made() for name, made in operators.items() if not made.arguments()}
    places: list[tuple[str, str, int]] = []
    for path, source in sources.items():
        nodes = list(ast_nodes(get_ast(source)))
        for name, operator in plain.items():
            places += [(path, name, n) for n in range(sum(len([*operator.mutation_positions(one)]) for one in nodes))]
    random.Random(seed).shuffle(places)
    seen = {_meaning(source) for source in sources.values()}
    for path, name, number in places:
        source, code = sources[path], mutate_code(sources[path], plain[name], number)
        try:
            meaning = _meaning(code)
        except SyntaxError:
            continue
        if meaning not in seen:
            seen.add(meaning)
            lines = difflib.unified_diff(source.splitlines(), code.splitlines(), path, path, lineterm="", n=0)
            yield Mutant(path, code, "\n".join(line for line in lines if not line.startswith(("---", "+++"))))


def _meaning(code: str) -> str:
    """What the code does, as far as its syntax says: without annotations, which are text here."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def measure(area: Area, sample: int, seed: int, jobs: int) -> tuple[int, list[Mutant]]:
    """Try `sample` changes of an area, or all of them; how many, and those that no test noticed."""
    tried = list(islice(mutants(area.sources, seed), sample or None))
    with tempfile.TemporaryDirectory(prefix="il-score-") as directory:
        free: SimpleQueue[Workshop] = SimpleQueue()
        within = 0.0
        for number in range(jobs):
            workshop = Workshop(Path(directory) / str(number), area)
            within = max(within, workshop.seconds() * SLOWER)
            free.put(workshop)

        def missed(mutant: Mutant) -> bool:
            workshop = free.get()
            try:
                return not workshop.notices(mutant, within)
            finally:
                free.put(workshop)

        with ThreadPoolExecutor(jobs) as pool:
            return len(tried), [one for one, lives in zip(tried, pool.map(missed, tried), strict=True) if lives]


def main(words: Sequence[str]) -> int:
    """Print the score of each area, and what was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"of: {', '.join(AREAS)} (default: all)")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="changes of each (default: all)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="at once")
    asked = parser.parse_args(words)
    for name in asked.areas or AREAS:
        count, lives = measure(AREAS[name], asked.sample, asked.seed, asked.jobs)
        for one in lives:
            print(f"{one.path}\n{one.diff}\n", flush=True)
        print(f"{name:<10} {count - len(lives):>4} of {count:>4} noticed: {1 - len(lives) / count:.0%}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
