"""Real checklists and artifacts, against what is known of them."""

from __future__ import annotations

import pytest

from interlock.workflow.entry import validation_type_detector as detector
from interlock.workflow.package import validators
from interlock.workflow.package.workflow import Workflow
from scripts.pinned import FIRST
from tests.corpus.conftest import Corpus


def test_the_review_checklist_has_its_19_items(corpus: Corpus) -> None:
    for module, phase in (("bmm", "4-implementation"), ("bmgd", "4-production")):
        path = corpus.project(FIRST) / "_bmad" / module / "workflows" / phase / "code-review" / "checklist.md"
        assert len(detector.checkboxes(path.read_text(encoding="utf-8"))) == 19


def test_a_validation_path_is_a_checklist_and_never_an_invalid_pattern(definitions: list[Workflow]) -> None:
    named = [one for one in definitions if isinstance(one.settings.get("validation"), str)]
    assert len(named) > 30
    for one in named:
        found = detector.detect(one.settings, one.text)
        assert isinstance(found, detector.ValidationType) and found.validation_type == detector.CHECKLIST


def test_500_errors_is_not_0_errors_in_any_file(corpus: Corpus) -> None:
    for path in (corpus.project(FIRST) / "_bmad").rglob("*.md"):
        for found in detector.NO_ERRORS.finditer(path.read_text(encoding="utf-8")):
            assert not found[0].startswith("0"), (path, found[0])


@pytest.mark.req("BMAD-6.4.1", "BMAD-6.4.5")
def test_the_packages_own_samples_of_good_and_bad_agents_are_told_apart(corpus: Corpus) -> None:
    samples = corpus.source(FIRST) / "test" / "fixtures" / "agent-schema"
    for kind, status in (("valid", "COMPLIANT"), ("invalid", "NON_COMPLIANT")):
        paths = sorted((samples / kind).rglob("*.agent.yaml"))
        assert len(paths) > 20
        for path in paths:
            found = validators.check(path.as_posix(), path.read_text(encoding="utf-8"))
            assert found.status == status, (path.name, found.issues)
            assert (found.score == 100) == (status == "COMPLIANT")


def test_the_agents_that_are_shipped_are_compliant_but_one(corpus: Corpus) -> None:
    root = corpus.source(FIRST) / "src"
    paths = [*root.rglob("*.agent.yaml"), *(corpus.project(FIRST) / "_bmad").glob("*/agents/*.md")]
    wrong = {
        path.name: [issue.field for issue in found.issues]
        for path in paths
        if (found := validators.check(path.as_posix(), path.read_text(encoding="utf-8"))).issues
    }
    # The compiler left out the target of one item.
    assert len(paths) > 50 and wrong == {"game-scrum-master.md": ["agent.menu[6]"]}
