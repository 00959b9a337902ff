"""Run one tier of the tests, and refuse only what is wrong.

    python scripts/gate.py TIER PYTEST-ARGUMENT...
    python scripts/gate.py --total TIER...

A tier with more than three red tests is refused. Up to three are run once more, each alone and in a fresh process: what
is red again is refused, what is green now is *flaky*. It is counted in the closing line, and written to `flakes.tsv`
with the output of both runs; a test that was flaky twice is fixed or deleted. Tests whose coming and going is itself
the finding are never run again: those of `ONCE`, and those marked `once`. Only where the day changed meanwhile (UTC),
all are: short names of tasks begin anew with it.

A skipped test is a proof that is missing. Where CI is set, one that `tests/skips.tsv` does not list is refused.

Everyone's tests meet the same surroundings: time zone, language, hash seed, and an empty home directory.

All records are kept in `.gate/` of the current directory: `TIER.xml` (JUnit), `TIER.jsonl` (one test a line),
`TIER.json` (the sums) and `flakes.tsv`. This module is also the pytest plug-in that writes the second.

Exit code: 0 passed; 1 refused; otherwise pytest's own, where it did not get as far as a result.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

KEPT = Path(".gate")
MOST = 3
"""The red tests of a tier that are run again; with one more, none is."""
ONCE = tuple(f"tests/{name}/" for name in ("unit", "conformance", "architecture", "simulation", "crash"))
SHOWN = 12
"""The red tests that the end of the log names, so that it stays within twenty lines."""
SKIPS = Path("tests/skips.tsv")
"""What may be skipped where CI is set: the beginning of a test's id, a tab, and why."""
SURROUNDINGS = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "LANGUAGE": "", "PYTHONHASHSEED": "0"}
OUTPUT = 20_000
"""Characters of a red test's output that are kept: the last ones."""
RECORDS = "GATE_RECORDS"
"""The environment variable that tells the plug-in where to write."""


@dataclass(slots=True)
class Result:
    """One test, over its set-up, call and tear-down. Times in seconds; `load` is that of the machine when it failed;
    `error` the first line of why it failed or was skipped."""

    id: str
    outcome: str = "passed"
    seconds: float = 0.0
    once: bool = False
    error: str = ""
    output: str = ""
    load: float = 0.0

    @property
    def red(self) -> bool:
        return self.outcome == "failed"

    @property
    def allowed(self) -> bool:
        """Whether it may be skipped."""
        lines = SKIPS.read_text(encoding="utf-8").splitlines() if SKIPS.exists() else []
        return not os.environ.get("CI") or self.id.startswith(tuple(line.split("\t")[0] for line in lines if line))

    def line(self) -> str:
        return f"  {self.id} ({self.seconds:.1f} s, load {self.load:.1f}): {self.error[:200]}"


@dataclass(slots=True)
class Sums:
    """A tier that has ended. `seconds` include what was run again."""

    tier: str
    passed: int = 0
    failed: int = 0
    flaky: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        return (
            f"{self.tier}: {self.passed:,} passed, {self.failed:,} failed, {self.flaky:,} flaky, "
            f"{self.skipped:,} skipped in {_spent(self.seconds)}"
        )


@dataclass(slots=True)
class Tier:
    """A run of pytest with these arguments, and its judgement."""

    name: str
    arguments: Sequence[str]
    began: float = field(default_factory=time.monotonic)
    day: int = field(default_factory=lambda: int(time.time() // 86400))

    def judge(self) -> int:
        """Run it; print the judgement as the last lines of the log.

        Returns: the exit code.
        """
        KEPT.mkdir(exist_ok=True)
        code, results = self._pytest(self.name, self.arguments)
        red = [result for result in results if result.red]
        if code not in (0, 1) or bool(red) != (code == 1):
            return self._unfinished(code, red)
        same_day = int(time.time() // 86400) == self.day
        again = [] if same_day and (len(red) > MOST or any(result.once for result in red)) else red
        flaky = [result for number, result in enumerate(again, 1) if self._passes_alone(result, number)]
        failed = [result for result in red if result not in flaky]
        sums = self._sum(results, failed, flaky)
        for result in flaky:
            print(f"flaky: red, and green when run again alone; fix it before it is seen twice\n{result.line()}")
        missing = [result for result in results if result.outcome == "skipped" and not result.allowed]
        if not failed and not missing:
            print(sums.line())
            return 0
        if missing:
            failed, why = failed + missing, f"a skipped test proves nothing; {SKIPS} lists those that may be"
        elif not same_day:
            why = "red again when run alone, the day having changed before"
        elif len(red) > MOST:
            why = f"more than {MOST} are red, so none was run again"
        elif not again:
            why = "among them are tests that are never run again, since a failure that comes and goes is their finding"
        else:
            why = "red again when run alone"
        self._refuse(sums.line(), failed, why)
        return 1

    def _pytest(self, name: str, arguments: Sequence[str]) -> tuple[int, list[Result]]:
        records = (KEPT / f"{name}.jsonl").absolute()
        records.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-p", "scripts.gate", f"--junitxml={KEPT / f'{name}.xml'}"]
        home = tempfile.mkdtemp(prefix="il-home-", dir="/tmp")
        surroundings = {**os.environ, **SURROUNDINGS, "HOME": home, RECORDS: str(records)}
        process = subprocess.Popen([*command, *arguments], env=surroundings)
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:  # pytest got it, too: it says what was interrupted
                continue
        shutil.rmtree(home, ignore_errors=True)
        lines = records.read_text(encoding="utf-8").splitlines() if records.exists() else []
        return code, [Result(**json.loads(line)) for line in lines]

    def _passes_alone(self, first: Result, number: int) -> bool:
        print(f"\nonce more, alone: {first.id}", flush=True)
        limits = [word for word in self.arguments if word.startswith("--timeout=")]
        # The last -m counts: whatever chose the test the first time, it is chosen now.
        code, results = self._pytest(f"{self.name}-again-{number}", [*limits, "-n", "0", "-m", "", first.id])
        passed = code == 0 and any(result.outcome == "passed" for result in results)
        if passed:
            _write_down(self.name, first, "".join(result.output for result in results))
        return passed

    def _sum(self, results: list[Result], failed: list[Result], flaky: list[Result]) -> Sums:
        skipped = sum(result.outcome == "skipped" for result in results)
        passed = len(results) - skipped - len(failed)
        sums = Sums(self.name, passed, len(failed), len(flaky), skipped, time.monotonic() - self.began)
        (KEPT / f"{self.name}.json").write_text(json.dumps(asdict(sums)) + "\n", encoding="utf-8")
        return sums

    def _unfinished(self, code: int, red: list[Result]) -> int:
        """Pytest itself failed, was interrupted, or found nothing to run."""
        why = {2: "interrupted, or a file could not be collected", 5: "no test was found"}.get(code, "see above")
        self._refuse(f"{self.name}: pytest ended with exit code {code} ({why})", red, "none was run again")
        return code or 1

    def _refuse(self, line: str, red: list[Result], why: str) -> None:
        print(f"\nREFUSED in tier {self.name}\n{line}\nred: {why}")
        for result in red[:SHOWN]:
            print(result.line())
        if len(red) > SHOWN:
            print(f"  and {len(red) - SHOWN} more")
        print(f"kept: {KEPT / self.name}.xml, {KEPT / self.name}.jsonl; load {os.getloadavg()[0]:.1f}", flush=True)


def _write_down(tier: str, first: Result, again: str) -> None:
    """Append a row to `flakes.tsv`: when, tier, id, seed, load, seconds, error, and the output of both runs as JSON."""
    path = KEPT / "flakes.tsv"
    if not path.exists():
        path.write_text("time\ttier\tid\tseed\tload\tseconds\terror\tred output\tgreen output\n", encoding="utf-8")
    seed = re.search(r"\bseed\b\W{0,3}(\w+)", first.output, re.IGNORECASE)
    row = [
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), tier, first.id, seed[1] if seed else "-",
        f"{first.load:.1f}", f"{first.seconds:.1f}", first.error.replace("\t", " "),
        json.dumps(first.output), json.dumps(again[-OUTPUT:]),
    ]  # fmt: skip
    with path.open("a", encoding="utf-8") as file:
        file.write("\t".join(row) + "\n")


def _spent(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def total(tiers: Iterable[str]) -> str:
    """Return a line for each tier that ran, and a last one with the sums of all in the form that programs read."""
    sums = [Sums(**json.loads((KEPT / f"{tier}.json").read_text(encoding="utf-8"))) for tier in tiers]
    passed, failed, skipped = (sum(getattr(one, name) for one in sums) for name in ("passed", "failed", "skipped"))
    return "\n".join([*(one.line() for one in sums), f"{passed} passed, {failed} failed, {skipped} skipped"])


class Recorder:
    """Writes one line for each test that has ended, and names a red one at once."""

    def __init__(self, config: pytest.Config, path: str) -> None:
        self._config = config
        self._path = path
        self._open: dict[str, Result] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        result = self._open.setdefault(report.nodeid, Result(report.nodeid))
        result.seconds += report.duration
        result.once = result.once or report.nodeid.startswith(ONCE) or "once" in report.keywords
        if report.failed:
            result.outcome, result.load = "failed", os.getloadavg()[0]
            result.error = result.error or _first_line(report)
            result.output += f"{report.longreprtext}\n{report.capstdout}{report.capstderr}{report.caplog}"
            result.output = result.output[-OUTPUT:]
        elif report.skipped and not result.red:
            result.outcome, result.error = "skipped", _reason(report)
        elif report.when == "call":
            result.output = (report.capstdout + report.capstderr)[-OUTPUT:]
        # A worker that died reports nothing after the call.
        if report.when == "teardown" or (report.failed and "crashed while running" in report.longreprtext):
            self._write(self._open.pop(report.nodeid))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(
                Result(report.nodeid, "failed", once=True, error=_first_line(report), output=report.longreprtext)
            )

    def pytest_sessionfinish(self) -> None:
        for result in self._open.values():
            self._write(result)

    def _write(self, result: Result) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if result.red and terminal is not None:
            terminal.write_line(f"\nRED {result.line().strip()}")


def _reason(report: pytest.TestReport) -> str:
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext)


def _first_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash is not None else report.longreprtext).strip()
    told = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]  # as pytest marks it in a file
    return (told or text.splitlines() or ["no message"])[0]


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get(RECORDS)
    if path and not hasattr(config, "workerinput"):  # of pytest-xdist's processes only the first sees all results
        config.pluginmanager.register(Recorder(config, path), "gate-recorder")


def main(words: Sequence[str]) -> int:
    if words and words[0] == "--total":
        print(total(words[1:]))
        return 0
    if not words or words[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    return Tier(words[0], words[1:]).judge()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
