"""The race with tools of others: what is published is what was recorded, and one of them is raced for real."""

from __future__ import annotations

import pytest

from bench.peers import figures, packages, work
from bench.peers.work import CLAIM_RACE, Dose, Figure

RUNS = [figures.Run("clawteam", "0.2.0", "2026-11-23", "Linux x86_64, 2 cores", "3", "1.0")]
FIGURES = [
    Figure("clawteam", work.WORKS["claim"], "ms", 250.0, 500.0),
    Figure("backlog", CLAIM_RACE, "/s", 2.0, 5.0, "7 claimed twice of 24", "0 of 24"),
    Figure("backlog", work.WORKS["message"], "", None, None, note="Backlog.md has no messages"),
]


def test_a_record_is_read_as_it_was_written() -> None:
    assert figures.read(figures.written(RUNS, FIGURES)) == (RUNS, FIGURES)


def test_the_table_says_who_was_slower_what_went_wrong_and_why_there_is_nothing() -> None:
    slower, twice, nothing = figures.table(RUNS, FIGURES).splitlines()[-3:]
    assert "**2.0 × slower**" in slower
    assert "2.5 × as fast" in twice and "7 claimed twice of 24" in twice
    assert "– (Backlog.md has no messages)" in nothing
    assert "Interlock 1.0 beside ClawTeam 0.2.0 (3)" in figures.table(RUNS, FIGURES)


def test_the_summary_says_with_whom_what_went_wrong() -> None:
    ours = [Figure("clawteam", CLAIM_RACE, "/s", 2.0, 5.0, "0 of 24", "0 of 24"), FIGURES[1]]
    assert "tasks: Backlog.md 7 claimed twice of 24, none with ClawTeam, Interlock;" in " ".join(
        figures.summary(RUNS, [FIGURES[0], *ours]).split()
    )


def test_pages_show_what_was_recorded() -> None:
    runs, found = figures.read(figures.RECORD.read_text(encoding="utf-8"))
    for page, shown in ((figures.PAGE, figures.table(runs, found)), (figures.README, figures.summary(runs, found))):
        text = page.read_text(encoding="utf-8")
        assert figures.between(text, shown) == text, f"{page.name} does not show docs/peers.tsv"


def test_messages_that_overtake_are_counted() -> None:
    assert work.overtaken(["note-0-m0-0", "note-0-m1-0", "note-0-m0-1"]) == 0
    assert work.overtaken(["note-0-m0-1", "note-0-m0-0", "note-0-m0-2"]) == 1


def test_claims_by_two_and_by_nobody_are_counted() -> None:
    assert work.claim_errors(["a", "b", "c"], ["a", "a", "b"]) == {"claimed twice": 1, "never claimed": 1}


@pytest.mark.storm
@pytest.mark.timeout(600)
def test_a_tool_from_pypi_is_raced_for_real() -> None:
    if not packages.is_there("clawteam"):
        pytest.skip("ClawTeam is not installed: `make bench ARGS='--peers clawteam'` downloads it (63 MB)")
    found = {figure.work: figure for figure in work.race("clawteam", Dose(turns=1, rounds=1, tasks=4, messages=1))}
    assert set(found) == {*work.WORKS.values(), work.CREATE_RACE, work.CLAIM_RACE, work.SEND_RACE}
    assert all(figure.theirs and figure.ours for figure in found.values())
    assert found[CLAIM_RACE].our_wrong == "0 of 4"
    assert found[work.SEND_RACE].our_wrong == "0 of 4"
