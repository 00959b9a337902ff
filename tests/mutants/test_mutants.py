"""Planted bugs are found: some of them in each storm, all of them with `make mutants`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.planted import ROOT, Copy, apply, planted, todays

AT_LEAST = 20


def test_there_are_twenty_whose_patches_apply_and_whose_tests_are_there() -> None:
    bugs = planted()
    assert len(bugs) >= AT_LEAST and len({bug.why for bug in bugs}) == len(bugs)
    assert {bug.name: wrong for bug in bugs if (wrong := apply(ROOT, bug, "--check"))} == {}
    for bug in bugs:
        file, _, test = bug.test.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(), bug


@pytest.mark.storm
def test_planted_bugs_are_found(tmp_path: Path, dose: float) -> None:
    copy = Copy(tmp_path)
    for bug in todays(max(2, round(AT_LEAST * dose))):
        copy.prove(bug)
