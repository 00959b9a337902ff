"""The benchmark's own arithmetic, and that every scenario is found."""

from __future__ import annotations

import pytest

from bench.__main__ import main, scenarios, table
from bench.measure import Row, at_least_times, at_most, median, quantile


def test_a_quantile_is_a_value_that_was_measured() -> None:
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert quantile([float(n) for n in range(1, 101)], 0.99) == 99.0
    assert quantile([7.0], 0.99) == 7.0


def test_a_row_stands_beside_its_floor() -> None:
    assert Row("claim", 4.0, 2.0).ratio == 2.0
    assert "2.00x" in table([Row("claim", 4.0, 2.0)])
    assert Row("start", 4.0).as_dict()["ratio"] is None


def test_a_row_says_whether_its_goals_are_kept() -> None:
    assert Row("wake", 4.0, goals=(at_most(5.0),)).met is True
    assert Row("claim", 4.0, 8.0, (at_most(5.0), at_least_times(0.6))).met is False
    assert "✗" in table([Row("claim", 4.0, 8.0, (at_least_times(0.6),))])
    assert Row("start", 4.0).met is None


def test_every_scenario_has_a_name() -> None:
    assert {"floors", "wake"} <= set(scenarios())


def test_an_unknown_scenario_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nonsense"])
    assert "wake" in capsys.readouterr().err
