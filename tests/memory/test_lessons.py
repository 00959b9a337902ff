"""What a run has decided and learned becomes memories of one concept each, as important as it is, and none twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.clock import ManualClock
from interlock.memory.local import LocalMemory
from interlock.memory.store import Memory, MemoryStore, MemoryUnavailable
from interlock.workflow.memory.lesson import IMPORTANCE, condensed, lesson, problem_solution
from interlock.workflow.memory.memory_bridge import MemoryBridge, Origin, memory_of
from interlock.workflow.memory.post_workflow_curator import MOST, PostWorkflowCurator, analyze
from interlock.workflow.state.document import WorkflowState

ORIGIN = Origin("plan-app", "bmm-make-plan-1", "/bmad:bmm:workflows:make-plan")
SKILL = ORIGIN.skill


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[LocalMemory]:
    found = LocalMemory(str(tmp_path), ManualClock())
    yield found
    found.close()


def learned(kind: str, *texts: str) -> tuple[dict[str, Any], ...]:
    return tuple({"kind": kind, "text": text, "step": 1, "at": "2026-11-21T10:00:00.000Z"} for text in texts)


@pytest.mark.req("BMAD-4.2.2", "BMAD-4.2.3", "BMAD-4.2.4", "BMAD-FR33", "BMAD-memory", "BMAD-E4.2")
@pytest.mark.parametrize(
    ("kind", "text", "said", "importance"),
    [
        ("architecture", "chose PostgreSQL over MongoDB", 10, 10),
        ("architecture", "Offline-first, mit CRDT", 9, 9),
        ("architecture", "The API is REST", 3, 9),
        ("implementation_pattern", "used retry with exponential backoff", 8, 8),
        ("implementation_pattern", "Added an API key to the README", None, 7),
        ("milestone", "Phase 2 complete", 10, 7),
        ("milestone", "Delivered epic 3", 6, 6),
        ("decision", "We closed the window before release", None, 8),
        ("problem_solution", "The build failed on Macs", 7, 7),
    ],
)
def test_the_agent_says_what_a_lesson_is_worth_within_the_range_of_its_kind(
    kind: str, text: str, said: int | None, importance: int
) -> None:
    found = lesson({"kind": kind, "text": text, "importance": said})
    assert found is not None and (found.kind, found.text, found.importance) == (kind, text, importance)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"kind": "decided", "text": "Reports are mailed on Mondays"}, "decision"),
        ({"kind": "learned", "text": "Backoff helps"}, "implementation_pattern"),
        ({"kind": "gossip", "text": "Backoff helps"}, "implementation_pattern"),
    ],
)
def test_what_is_said_without_a_kind_of_ours_is_an_ordinary_one(said: dict[str, object], kind: str) -> None:
    found = lesson(said)
    assert found is not None and (found.kind, found.importance) == (kind, IMPORTANCE[kind][0])


@pytest.mark.parametrize(
    "said", [{}, {"kind": "decision"}, {"kind": "decision", "text": "no"}, {"kind": 7, "text": []}]
)
def test_what_does_not_fit_the_schema_is_no_lesson(said: dict[str, object]) -> None:
    assert lesson(said) is None


@pytest.mark.req("BMAD-4.2.5", "BMAD-4.1.2")
def test_a_solved_problem_has_its_signature_and_its_solution() -> None:
    text, solution = "The import of orders times out", "batching the rows in transactions of 500"
    one = lesson({"kind": "problem_solution", "text": text, "solution": solution, "importance": 8})
    assert one is not None and one.signature == text and one.importance == 8
    kept = memory_of(one, ORIGIN)
    assert f"Problem: {text}" in kept.content and f"What helped: {solution}" in kept.content
    fix = memory_of(problem_solution("section Goals missing", "Add the section.", kind="fix_pattern"), ORIGIN)
    assert fix.tagged("type") == "fix_pattern" and fix.tagged("failure") and 7 <= fix.importance <= 8
    assert "section Goals missing" in fix.content and "Add the section." in fix.content


@pytest.mark.req("BMAD-4.1.5")
def test_a_memory_says_where_it_comes_from() -> None:
    text = "Chose PostgreSQL over MongoDB for the orders because of its transactions"
    one = lesson({"kind": "architecture", "text": text, "importance": 10})
    assert one is not None
    kept = memory_of(one, ORIGIN)
    assert (kept.project_id, kept.tagged("workflow_id")) == ("plan-app", "bmm-make-plan-1")
    assert kept.tagged("workflow") == SKILL and kept.tagged("type") == "architecture" and kept.importance == 10
    assert {"postgresql", "mongodb", "orders"} <= set(kept.keywords) and "because" not in kept.keywords


@pytest.mark.req("BMAD-4.1.4")
def test_what_is_too_long_keeps_whole_sentences_and_the_decisions_among_them() -> None:
    filler = [
        f"This is sentence {word} of a long and even discussion about nothing." for word in "abcdefghijklmnop" * 4
    ]
    key = "We chose PostgreSQL over MongoDB because orders need transactions."
    text = " ".join([*filler[:50], key, *filler[50:]])
    cut = condensed(text, 2000)
    assert len(cut) <= 2000 < len(text) and key in cut and cut.startswith(filler[0]) and "…" in cut
    assert all(part.strip().endswith((".", "…")) for part in cut.split("…") if part.strip())
    kept = memory_of(problem_solution(text, text), ORIGIN)
    assert len(kept.content) <= 2000 and kept.content.count(key) == 2


@given(st.text(max_size=5000), st.integers(50, 2500))
def test_condensing_never_exceeds_its_limit(text: str, limit: int) -> None:
    cut = condensed(text, limit)
    assert len(cut) <= limit and (len(text.strip()) > limit or cut == text.strip())


def ended(**more: Any) -> WorkflowState:
    return WorkflowState("w", SKILL, **{"completed_steps": [1, 2, 3], **more})


@pytest.mark.req("BMAD-4.2.1", "BMAD-E4.2")
def test_decisions_patterns_and_milestones_of_a_run_are_found() -> None:
    answers = [
        {"purpose": "question", "text": "Which region?", "answer": "Frankfurt only, for the law", "step": 1},
        {"purpose": "question", "text": "Go on?", "answer": "yes", "step": 1},
        {"purpose": "menu", "text": "[A] Draft [B] Start", "answer": "B", "step": 2, "at": ""},
    ]
    found = analyze(
        ended(
            learned=[
                *learned("architecture", "Chose PostgreSQL over MongoDB", "chose postgresql over mongodb!"),
                *learned("implementation_pattern", "Used retry with exponential backoff"),
                *learned("milestone", "Phase 2 complete"),
                {"kind": "fixed", "text": "no scope", "solution": "added a section", "at": ""},
                {"kind": "decision"},
            ],
            documents=["_bmad-output/plan.md"],
            asked=[{**one, "by": "human"} for one in answers]
            + [{"text": "Mine?", "answer": "engine it", "by": "brief"}],
        )
    )
    kinds = [one.kind for one in found]
    assert kinds[0] == "milestone" and "make-plan is complete" in found[0].heading and "plan.md" in found[0].text
    texts = " | ".join(one.content for one in found)
    for said in ("MongoDB", "backoff", "Phase 2", "no scope", "Frankfurt", "chose B"):
        assert said in texts, said
    assert "engine it" not in texts and "Go on?" not in texts
    assert texts.lower().count("chose postgresql over mongodb") == 1
    assert len(found) <= MOST and [one.importance for one in found[1:]] == sorted(
        (one.importance for one in found[1:]), reverse=True
    )


def test_a_run_says_a_bounded_number_of_things() -> None:
    many = learned("decided", *(f"Chose database number {number}x{number} over {number}y" for number in range(50)))
    assert len(analyze(ended(learned=list(many)))) == MOST


@pytest.mark.req("BMAD-4.2.6", "BMAD-FR33")
def test_what_is_known_already_is_linked_and_not_kept_again(memory: LocalMemory) -> None:
    first = PostWorkflowCurator(MemoryBridge(memory, ORIGIN))
    said = learned("decided", "We chose PostgreSQL over MongoDB for the orders")
    assert len(first.curate(ended(learned=said)).written.kept) == 2
    other = Origin("plan-app", "bmm-other-2", "/bmad:bmm:workflows:other")
    again = (
        *learned("decided", "We chose PostgreSQL over MongoDB for the orders!"),
        *learned("learned", "Ruff is fast"),
    )
    found = PostWorkflowCurator(MemoryBridge(memory, other)).curate(
        WorkflowState("w2", other.skill, learned=list(again))
    )
    (known,) = found.written.known
    assert "PostgreSQL" in known.content and len(found.written.kept) == 2 and found.complete
    every = {one.id: one for one in memory.recall("", project_id="plan-app", limit=99).memories}
    assert sum("PostgreSQL" in one.content for one in every.values()) == 1
    milestone = next(one for one in found.written.kept if one.tagged("type") == "milestone")
    assert milestone.id in every[known.id].linked
    assert found.as_dict()["linked"] == 1


@pytest.mark.req("BMAD-4.1.2", "BMAD-FR19d")
def test_a_fix_is_found_for_the_same_failure_in_another_place(memory: LocalMemory) -> None:
    bridge = MemoryBridge(memory, ORIGIN)
    bridge.fixed("line 12: section 'Goals' missing in /tmp/a/prd.md", "Add the section and list three goals.")
    known = bridge.fix("line 99: section 'Users' missing in /home/b/prd.md")
    assert known is not None and "list three goals" in known
    assert bridge.fix("something else entirely") is None


@pytest.mark.req("BMAD-4.2.6", "BMAD-4.1.2")
def test_a_fix_that_helps_in_one_run_after_the_other_is_one_memory(memory: LocalMemory) -> None:
    failure, helped = "section 'Goals' missing in /tmp/a/prd.md", "heuristic fixes: added a section with three goals"
    first = MemoryBridge(memory, ORIGIN).fixed(failure, helped)
    again = MemoryBridge(memory, Origin("plan-app", "bmm-make-plan-2", SKILL)).fixed(failure, helped)
    assert first is not None and again is not None and again.id == first.id
    assert len(memory.recall("", project_id="plan-app", tags=["type:fix_pattern"]).memories) == 1


def test_what_there_is_no_time_for_is_left_for_later(memory: LocalMemory) -> None:
    moments = iter(range(100))
    lessons = [
        one for one in map(lesson, learned("learned", "Ruff is fast", "Mypy is strict", "Tests are quick")) if one
    ]
    found = MemoryBridge(memory, ORIGIN).write(lessons, seconds=2.5, now=lambda: float(next(moments)))
    assert len(found.kept) == 2 and found.left == 1


@pytest.mark.req("BMAD-FR34")
def test_the_bridge_never_raises(tmp_path: Path) -> None:
    class Gone:
        def __getattr__(self, name: str) -> object:
            def ask(*_: object, **__: object) -> None:
                raise MemoryUnavailable(f"no {name}")

            return ask

    log: list[str] = []
    gone: MemoryStore = Gone()  # type: ignore[assignment]
    bridge = MemoryBridge(gone, ORIGIN, lambda reason, operation: log.append(operation))
    assert bridge.fix("x") is None and bridge.fixed("x", "y") is None
    assert bridge.write([problem_solution("a", "b")]).left == 1
    assert log == ["recall", "recall", "remember", "recall", "remember"]
    assert isinstance(memory_of(problem_solution("a", "b"), ORIGIN), Memory)
