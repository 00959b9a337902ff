"""The real dev-story, with the real code review of its package after it; a scripted model plays both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.workflow.package import packages
from interlock.workflow.package import workflow as workflows
from interlock.workflow.reviews import review_brief
from interlock.workflow.reviews.code_review import CodeReview, implements
from interlock.workflow.state.document import RunPlan
from scripts.pinned import FIRST, SECOND, THIRD
from tests.corpus.acting import Model
from tests.corpus.conftest import Corpus
from tests.corpus.test_runs import OUT, installed, sources
from tests.workflow.reviewed import SMALL, STORY_TEXT, issue, looking_back, said
from tests.workflow.stage import MemoryDesk, Outcome, Player, play, script

STORY = f"{OUT}/1-2-user-auth.md"
SKILLS = {
    FIRST: "/bmad:bmm:workflows:dev-story",
    SECOND: "/bmad-bmm-dev-story",
    THIRD: "/bmad-dev-story",
}
REVIEWS = {
    FIRST: "/bmad:bmm:workflows:code-review",
    SECOND: "/bmad-bmm-code-review",
    THIRD: "/bmad-code-review",
}
TELLS = {
    FIRST: "Acceptance Criteria not implemented = HIGH severity finding",
    SECOND: "Acceptance Criteria not implemented = HIGH severity finding",
    THIRD: "Review code changes adversarially",
}


def review(root: Path, skill: str, name: str, reviewers: Player, *, tier: int = 1) -> Outcome:
    model = Model(root, name, STORY)
    desk = MemoryDesk(answers=lambda asking: "1" if asking.kind == "menu" else "As you think best.")
    plan = RunPlan(project=str(root), tier=tier, values={"story_file": STORY})
    (root / OUT).mkdir(parents=True, exist_ok=True)
    (root / STORY).write_text(STORY_TEXT)
    return play(
        root, Player(model), skill=skill, desk=desk, plan=plan, examinations=(CodeReview(),), subagents=reviewers
    )  # fmt: skip


@pytest.mark.req("BMAD-5.12.1", "BMAD-FR42", "BMAD-FR44a", "BMAD-E5.12", "BMAD-NFR14")
@pytest.mark.parametrize("version", list(SKILLS))
def test_each_generations_story_is_reviewed_by_its_own_review(corpus: Corpus, tmp_path: Path, version: str) -> None:
    root = installed(corpus, version, tmp_path)
    before = sources(root)
    wrong = said(issue("Five wrong passwords do not lock", "high"), *SMALL)
    reviewers = Player(looking_back(script(wrong, said(*SMALL))))
    outcome = review(root, SKILLS[version], "dev-story", reviewers)
    assert outcome.state.outcome == "COMPLETED", outcome.state.error
    asked = [one for one in outcome.state.asked if str(one["step"]).startswith("gate-")]
    assert not asked, "nobody is asked more than without a review"
    rounds = outcome.state.examinations["code_review"]["rounds"]
    assert [one["verdict"] for one in rounds] == ["changes_requested", "approve"]
    assert TELLS[version] in reviewers.prompts[0] and "Five wrong ones lock the account" in reviewers.prompts[0]
    assert len(rounds[0]["checklist"]) == 19
    assert not [one for one in rounds[0]["checklist"] if one["result"] == "not evaluated"]
    assert "Status: done" in (root / STORY).read_text() and sources(root) == before


WRITE_CODE = {
    FIRST: {"dev-story", "quick-dev"},
    SECOND: {"dev-story", "quick-dev"},
    THIRD: {"dev-story", "quick-dev", "build", "build-auto", "dev-auto"},
}


@pytest.mark.req("BMAD-FR42")
@pytest.mark.parametrize("version", list(WRITE_CODE))
def test_every_workflow_that_writes_code_is_reviewed_and_no_other(corpus: Corpus, version: str) -> None:
    package = packages.load(str(corpus.project(version)))
    found = {one.name for one in package.of_type("workflows") if implements(package, workflows.read(package, one))}
    assert found == WRITE_CODE[version]


@pytest.mark.req("BMAD-FR44a")
def test_the_first_generations_checklist_has_exactly_nineteen_items(corpus: Corpus) -> None:
    for version in (FIRST, SECOND):
        package = packages.load(str(corpus.project(version)))
        own = review_brief.installed(package, "bmm")
        assert len(own.items) == 19 and own.items[15].startswith("Change Log updated"), version
    assert len(review_brief.installed(packages.load(str(corpus.project(THIRD))), "bmm").items) == 19


@pytest.mark.long
@pytest.mark.parametrize("version", list(REVIEWS))
def test_a_review_that_a_person_runs_asks_no_more_than_before(corpus: Corpus, tmp_path: Path, version: str) -> None:
    root = installed(corpus, version, tmp_path)
    reviewers = Player(looking_back(script(said(*SMALL))))
    outcome = review(root, REVIEWS[version], "code-review", reviewers)
    assert outcome.state.outcome == "COMPLETED" and outcome.state.examinations["code_review"] is not None
    assert len(outcome.desk.asked) <= 1
