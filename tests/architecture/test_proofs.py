"""The tables of failures and incidents name tests that exist, or say why there is none."""

from __future__ import annotations

import pytest

from scripts.proofs import Line, known, lines

TABLES = ("failures", "incidents")


@pytest.mark.parametrize("table", TABLES)
def test_every_line_names_tests_that_there_are_or_a_reason(table: str) -> None:
    found = lines(table)
    unknown = [f"{line.id}: {test}" for line in found for test in line.tests if test not in known()]
    assert not unknown, unknown
    assert not [line.id for line in found if not line.tests and len(line.reason) < 20]
    assert all(line.situation and "|" not in line.situation for line in found)


def test_no_line_is_there_twice() -> None:
    found = [(line.id, line.situation) for table in TABLES for line in lines(table)]
    assert len(set(found)) == len(found)


def test_all_modes_of_mast_are_there_and_have_tests() -> None:
    modes = {line.id for line in lines("failures") if line.id.startswith("FM-") and line.tests}
    assert modes == {
        *(f"FM-1.{n}" for n in range(1, 6)),
        *(f"FM-2.{n}" for n in range(1, 7)),
        "FM-3.1",
        "FM-3.2",
        "FM-3.3",
    }


def test_a_line_without_a_test_or_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="names no test"):
        Line.of(["x#1", "something happened", ""])
