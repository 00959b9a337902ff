"""The figures as they are kept (docs/peers.tsv), and what docs/peers.md and the README show of them."""

from __future__ import annotations

import os
import platform
import textwrap
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench.peers.packages import PACKAGES
from bench.peers.work import CLAIM_RACE, SEND_RACE, WORKS, Figure

ROOT = Path(__file__).resolve().parent.parent.parent
RECORD, PAGE, README = ROOT / "docs" / "peers.tsv", ROOT / "docs" / "peers.md", ROOT / "README.md"
CLAIM = WORKS["claim"]
QUOTED = (CLAIM, CLAIM_RACE, SEND_RACE)
BEGIN, END = "<!-- written by `make bench ARGS=--peers` -->", "<!-- until here -->"


@dataclass(frozen=True, slots=True)
class Run:
    """When, where and on what one peer was raced. `load` is the machine's load average at the end."""

    peer: str
    version: str
    date: str
    machine: str
    load: str
    interlock: str


def now(peer: str) -> Run:
    """A race that has just ended on this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
    machine += f"Python {platform.python_version()}"
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    load = f"{os.getloadavg()[0]:.0f}"
    return Run(peer, PACKAGES[peer].version, today, machine, load, version("interlock-agents"))


def written(runs: Sequence[Run], figures: Sequence[Figure]) -> str:
    """The record: a line that begins with `#` for each run, then a line for each figure."""
    lines = ["\t".join(("#", *astuple(run))) for run in runs]
    lines.append("\t".join(field.name for field in fields(Figure)))
    for figure in figures:
        cells = ("" if one is None else f"{one:.4g}" if isinstance(one, float) else one for one in astuple(figure))
        lines.append("\t".join(cells))
    return "\n".join(lines) + "\n"


def read(text: str) -> tuple[list[Run], list[Figure]]:
    """What `written` wrote."""
    rows = [line.split("\t") for line in text.splitlines()]
    runs = [Run(*row[1:]) for row in rows if row[0] == "#"]
    figures = []
    for peer, work, unit, theirs, ours, *said in rows[len(runs) + 1 :]:
        figures.append(Figure(peer, work, unit, _number(theirs), _number(ours), *said))
    return runs, figures


def table(runs: Sequence[Run], figures: Sequence[Figure]) -> str:
    """The table of the page, in Markdown."""
    machines = dict.fromkeys((run.date, run.machine, run.interlock) for run in runs)
    lines = []
    for date, machine, ours in machines:
        there = [run for run in runs if (run.date, run.machine, run.interlock) == (date, machine, ours)]
        peers = ", ".join(f"{PACKAGES[run.peer].title} {run.version} ({run.load})" for run in there)
        lines.append(f"{date}, {machine}. Interlock {ours} beside {peers}; in brackets the load average at the end.")
    lines += [
        "Other programs slow both of a pair: read the ratio, not the times.",
        "",
        "| | work | peer | Interlock | Interlock is | went wrong: peer | went wrong: Interlock |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        cells = [PACKAGES[figure.peer].title, figure.work]
        if figure.theirs is None or figure.ours is None:
            cells += [f"– ({figure.note})", "", "", "", ""]
        else:
            cells += [_shown(figure.theirs, figure.unit), _shown(figure.ours, figure.unit), compared(figure)]
            cells += [figure.their_wrong, figure.our_wrong]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def compared(figure: Figure) -> str:
    """How Interlock stands beside the peer, in words."""
    assert figure.theirs is not None and figure.ours is not None
    times = figure.ours / figure.theirs if figure.unit == "/s" else figure.theirs / figure.ours
    if 0.91 < times < 1.1:
        return "as fast"
    return f"{times:.1f} × as fast" if times > 1 else f"**{1 / times:.1f} × slower**"


def summary(runs: Sequence[Run], figures: Sequence[Figure]) -> str:
    """What the README quotes."""
    done = {work: [one for one in figures if one.work == work and one.ours is not None] for work in QUOTED}
    beside = ", ".join(f"{compared(one).replace('**', '')} ({PACKAGES[one.peer].title})" for one in done[CLAIM])
    loads = sorted(int(run.load) for run in runs)
    text = f"Raced side by side at a load average of {loads[0]} to {loads[-1]}. Errors when four processes claim one "
    text += f"list of tasks: {_wrong(done[CLAIM_RACE])}; when four write to one inbox: {_wrong(done[SEND_RACE])}. "
    text += f"One claim of Interlock's, beside theirs: {beside}. "
    text += "How each was called, and what else was slower: [raced side by side](docs/peers.md)."
    return textwrap.fill(text, 118, break_on_hyphens=False, break_long_words=False)


def between(text: str, shown: str) -> str:
    """A page with `shown` between its two marks."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{shown}\n{END}{after}"


def publish(run: Run, figures: Sequence[Figure]) -> None:
    """Record what one peer's race found in place of its last one, and write both pages."""
    runs, kept = read(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else ([], [])
    runs = [*(one for one in runs if one.peer != run.peer), run]
    kept = [*(one for one in kept if one.peer != run.peer), *figures]
    order = list(PACKAGES)
    runs.sort(key=lambda one: order.index(one.peer))
    kept.sort(key=lambda one: order.index(one.peer))
    RECORD.write_text(written(runs, kept), encoding="utf-8")
    show()


def show() -> None:
    """Write both pages from the record."""
    runs, figures = read(RECORD.read_text(encoding="utf-8"))
    for page, shown in ((PAGE, table(runs, figures)), (README, summary(runs, figures))):
        page.write_text(between(page.read_text(encoding="utf-8"), shown), encoding="utf-8")


def _wrong(figures: Sequence[Figure]) -> str:
    """What went wrong in one race, with whom."""
    said = [(PACKAGES[one.peer].title, one.their_wrong) for one in figures]
    said += [("Interlock", one.our_wrong) for one in figures if not one.our_wrong.startswith("0 ")]
    clean = [title for title, wrong in said if wrong.startswith("0 ")]
    if all(one.our_wrong.startswith("0 ") for one in figures):
        clean.append("Interlock")
    found = [f"{title} {wrong}" for title, wrong in said if not wrong.startswith("0 ")]
    return ", ".join([*found, *([f"none with {', '.join(clean)}"] if clean else [])])


def _number(text: str) -> float | None:
    return float(text) if text else None


def _shown(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
