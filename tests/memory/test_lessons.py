"""What a run has decided and learned becomes memories of one concept each, as important as it is, and none twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.clock import ManualClock
from interlock.memory.local import LocalMemory
from interlock.memory.store import Memory, MemoryStore, MemoryUnavailable
from interlock.workflow.memory.lesson import condensed, lesson, problem_solution
from interlock.workflow.memory.memory_bridge import MemoryBridge, Origin, memory_of
from interlock.workflow.memory.post_workflow_curator import MOST, PostWorkflowCurator, Session, analyze

ORIGIN = Origin("plan-app", "bmm-make-plan-1", "/bmad:bmm:workflows:make-plan")
SKILL = ORIGIN.skill


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[LocalMemory]:
    found = LocalMemory(str(tmp_path), ManualClock())
    yield found
    found.close()


def learned(kind: str, *texts: str) -> tuple[dict[str, object], ...]:
    return tuple({"kind": kind, "text": text, "step": 1, "at": "2026-11-21T10:00:00.000Z"} for text in texts)


@pytest.mark.req("BMAD-4.2.2", "BMAD-4.2.3", "BMAD-4.2.4", "BMAD-FR33", "BMAD-memory", "BMAD-E4.2")
@pytest.mark.parametrize(
    ("said", "decided", "kind", "importance"),
    [
        ("chose PostgreSQL over MongoDB", True, "architecture", 10),
        ("We went with event sourcing for the ledger.", False, "architecture", 9),
        ("The API is REST", True, "architecture", 9),
        ("used retry with exponential backoff", False, "implementation_pattern", 7),
        ("Used retry with exponential backoff because the provider is flaky", False, "implementation_pattern", 8),
        ("Phase 2 complete", False, "milestone", 6),
        ("Delivered epic 3, since the last story is closed", True, "milestone", 7),
        ("Reports are mailed on Mondays", True, "decision", 8),
        ("The build failed on Macs; fixed by pinning the SDK", False, "problem_solution", 7),
        ("Problem: tests hang. Solution: close the pool", False, "problem_solution", 7),
    ],
)
def test_a_sentence_is_worth_what_it_says(said: str, decided: bool, kind: str, importance: int) -> None:
    found = lesson(said, decided=decided)
    assert found is not None and (found.kind, found.importance) == (kind, importance)


@pytest.mark.parametrize("said", ["Here is the draft of the introduction.", "All parts are written.", "Saved."])
def test_what_nobody_calls_a_lesson_must_be_one_clearly(said: str) -> None:
    assert lesson(said, certain=False) is None


@pytest.mark.req("BMAD-4.2.5", "BMAD-4.1.2")
def test_a_solved_problem_has_its_signature_and_its_solution() -> None:
    one = lesson("The import of orders times out, fixed by batching the rows in transactions of 500")
    assert one is not None and one.signature.startswith("The import of orders times out")
    kept = memory_of(one, ORIGIN)
    assert (
        "Problem: The import of orders times out" in kept.content and "What helped: batching the rows" in kept.content
    )
    fix = memory_of(problem_solution("section Goals missing", "Add the section.", kind="fix_pattern"), ORIGIN)
    assert fix.tagged("type") == "fix_pattern" and fix.tagged("failure") and 7 <= fix.importance <= 8
    assert "section Goals missing" in fix.content and "Add the section." in fix.content


@pytest.mark.req("BMAD-4.1.5")
def test_a_memory_says_where_it_comes_from() -> None:
    one = lesson("Chose PostgreSQL over MongoDB for the orders because of its transactions", decided=True)
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


def session(**more: object) -> Session:
    return Session(**{"skill": SKILL, "workflow_id": "w", "steps": 3, **more})  # type: ignore[arg-type]


@pytest.mark.req("BMAD-4.2.1", "BMAD-E4.2")
def test_decisions_patterns_and_milestones_of_a_run_are_found() -> None:
    found = analyze(
        session(
            learned=(
                *learned("decided", "Chose PostgreSQL over MongoDB", "chose postgresql over mongodb!"),
                *learned("learned", "Used retry with exponential backoff", "Phase 2 complete"),
                {"kind": "fixed", "text": "no scope", "solution": "added a section", "at": ""},
            ),
            documents={"_bmad-output/plan.md": DOCUMENT},
            answers=[
                {"purpose": "question", "text": "Which region?", "answer": "Frankfurt only, for the law", "step": 1},
                {"purpose": "question", "text": "Go on?", "answer": "yes", "step": 1},
                {"purpose": "menu", "text": "[A] Draft [B] Start", "answer": "B", "step": 2, "at": ""},
            ],
            summaries=["Here is my draft", "Adopted hexagonal architecture rather than layers for the core"],
        )
    )
    kinds = [one.kind for one in found]
    assert kinds[0] == "milestone" and "make-plan is complete" in found[0].heading
    texts = " | ".join(one.content for one in found)
    for said in ("MongoDB", "backoff", "Phase 2", "no scope", "Frankfurt", "chose B", "hexagonal", "Redis", "fixtures"):
        assert said in texts, said
    assert "drawn" not in texts and "Go on?" not in texts and texts.lower().count("chose postgresql over mongodb") == 1
    assert len(found) <= MOST and [one.importance for one in found[1:]] == sorted(
        (one.importance for one in found[1:]), reverse=True
    )


DOCUMENT = """# Plan

## Key Decisions

- **Queue:** Redis rather than RabbitMQ, because it is there already.
```
- chose nothing, it is drawn in a fence of decisions
```

## Steps

- this item is drawn from no list of decisions

## Lessons learned

1. Tests use fixtures with a real database through a template
- [ ] an open item that is drawn
"""


def test_a_run_says_a_bounded_number_of_things() -> None:
    many = learned("decided", *(f"Chose database number {number}x{number} over {number}y" for number in range(50)))
    assert len(analyze(session(learned=many))) == MOST


@pytest.mark.req("BMAD-4.2.6", "BMAD-FR33")
def test_what_is_known_already_is_linked_and_not_kept_again(memory: LocalMemory) -> None:
    first = PostWorkflowCurator(MemoryBridge(memory, ORIGIN))
    said = learned("decided", "We chose PostgreSQL over MongoDB for the orders")
    assert len(first.curate(session(learned=said)).written.kept) == 2
    other = Origin("plan-app", "bmm-other-2", "/bmad:bmm:workflows:other")
    again = (
        *learned("decided", "We chose PostgreSQL over MongoDB for the orders!"),
        *learned("learned", "Ruff is fast"),
    )
    found = PostWorkflowCurator(MemoryBridge(memory, other)).curate(session(skill=other.skill, learned=again))
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
    lessons = [one for one in map(lesson, ("Ruff is fast", "Mypy is strict", "Tests are quick")) if one]
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
