"""The number: how often a person is needed for a story, under agents that lie, stall, contradict themselves, crash and
review badly, and how long the stories take beside the same stories one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.conftest import Corpus
from tests.corpus.epics import PACKAGES, Night

SEEDS = {"6.12": 612, "a22": 22}
"""Fixed before the first run was looked at; every decision of every agent follows from them."""
MOST = 30  # stories at full dose
RATE = 0.3


@pytest.mark.long
def test_a_few_stories_of_agents_that_misbehave_need_no_person(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    night = Night(tmp_path, corpus, "6.12", 6, 4, seed=SEEDS["6.12"], rate=RATE, work=0.1, silence=5).run()
    with capsys.disabled():
        print(f"\n{night.report()}")
    assert not night.lacking()
    assert night.median == 0 and night.p90 <= 1, night.asked
    reviews = [one["prompt"] for one in night.turns() if "# Code review: " in one["prompt"]]
    assert reviews and not [one for one in reviews if "No story file was found" in one], "reviewers see the story"


@pytest.mark.storm
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("package", PACKAGES)
def test_thirty_stories_in_three_epics(
    corpus: Corpus, tmp_path: Path, package: str, dose: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four agents at once, then the same stories one after the other: the number, and the wall clock."""
    stories = max(3, round(MOST * dose) // 3 * 3)
    beside, linear = (
        Night(
            tmp_path / str(parallel), corpus, package, stories, parallel, seed=SEEDS[package], rate=RATE, work=2.0
        ).run()
        for parallel in (4, 1)
    )
    ratio = beside.seconds / linear.seconds
    with capsys.disabled():
        print(f"\n{beside.report()}\n{linear.report()}\n{package}: {ratio:.2f} of the linear order's time")
    assert not beside.lacking() and not linear.lacking()
    assert beside.tree() == linear.tree(), "the order of the stories changes nothing"
    for night in (beside, linear):
        assert night.median == 0 and night.p90 <= 1, night.asked
    if stories >= MOST:
        assert ratio <= 0.45


@pytest.mark.storm
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("package", PACKAGES)
def test_a_runner_that_is_killed_costs_no_person_anything(
    corpus: Corpus, tmp_path: Path, package: str, dose: float, capsys: pytest.CaptureFixture[str]
) -> None:
    stories = max(3, round(MOST * dose / 2) // 3 * 3)
    kills = tuple(3.0 + 1.7 * number for number in range(max(3, stories // 2)))
    night = Night(tmp_path, corpus, package, stories, 4, seed=SEEDS[package], rate=0.0, work=0.3, kills=kills).run()
    with capsys.disabled():
        print(f"\n{night.report()}; {len(kills)} kills of the runner")
    assert not night.lacking() and not sum(night.inputs.values()), night.asked
