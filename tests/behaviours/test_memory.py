"""Memory is looked up before work begins and when a menu is answered, and nothing stops when it cannot be asked."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.clock import ManualClock
from interlock.memory import local
from interlock.memory.local import LocalMemory
from interlock.memory.retrying import RetryingMemory
from interlock.memory.store import (
    Condition,
    Memory,
    MemoryQuery,
    MemoryStore,
    MemoryUnavailable,
    RecallResult,
    fitted,
    shortened,
)
from interlock.workflow.entry.context_pre_loader import HEAD, ContextPreLoader, prepared
from interlock.workflow.memory.memory_bridge import MemoryBridge, Origin
from interlock.workflow.menus.detection import detect
from interlock.workflow.menus.options import Option
from interlock.workflow.menus.selection import AUTOMATIC, RECOMMENDED, Situation, select
from interlock.workflow.preferences.patterns import Choice, Forgotten, Learned, menu_situation, plain
from interlock.workflow.preferences.preferences import Preferences

PROJECT = "pcmrp-migration"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(tmp_path: Path, clock: ManualClock) -> Iterator[LocalMemory]:
    found = LocalMemory(str(tmp_path / "home"), clock)
    yield found
    found.close()


class Broken(MemoryStore):
    """A memory that cannot be reached while `down`."""

    def __init__(self, inner: MemoryStore, down: bool = True) -> None:
        self.inner, self.down, self.asked = inner, down, 0

    def search(self, query: MemoryQuery) -> RecallResult:
        self._ask()
        return self.inner.search(query)

    def remember(self, memory: Memory) -> Memory:
        self._ask()
        return self.inner.remember(memory)

    def link(self, id: str, related: Sequence[str]) -> None:
        self._ask()

    def described(self) -> Condition:
        return self.inner.described()

    def close(self) -> None:
        pass

    def _ask(self) -> None:
        self.asked += 1
        if self.down:
            raise MemoryUnavailable("the server is gone")


def decided(title: str, content: str, importance: int = 9, project: str | None = PROJECT) -> Memory:
    return Memory(title, content, importance, ("database",), ("type:decision", "workflow:w1"), project)


@pytest.mark.req("BMAD-2a.5.1", "BMAD-FR31")
def test_memories_of_the_project_that_fit_the_words_are_found(memory: LocalMemory) -> None:
    memory.remember(decided("Database", "We chose PostgreSQL over MongoDB for the migration of orders."))
    memory.remember(decided("Style", "Buttons are rounded."))
    memory.remember(decided("Elsewhere", "PostgreSQL migration of another project.", project="other"))
    memory.remember(decided("Everywhere", "Migrations always need a way back.", project=None))
    found = memory.recall("plan the PostgreSQL migration", project_id=PROJECT).memories
    assert {one.title for one in found} == {"Database", "Everywhere"}
    assert found[0].title == "Database" and found[0].relevance > found[1].relevance > 0
    assert found[0].tagged("workflow") == "w1" and found[0].created_at


def test_what_was_kept_is_there_for_other_processes_and_private(memory: LocalMemory, clock: ManualClock) -> None:
    kept = memory.remember(decided("A", "first words"))
    assert memory.remember(decided("B", "first words")) == kept, "the same content is kept once"
    other = LocalMemory(os.path.dirname(memory.path), clock)
    assert other.recall("words", project_id=PROJECT).memories[0].id == kept.id
    assert stat.S_IMODE(os.stat(memory.path).st_mode) == 0o600
    other.close()


def test_looking_up_makes_no_file(memory: LocalMemory) -> None:
    assert memory.recall("anything").memories == () and not os.path.exists(memory.path)


@given(st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_no_query_is_an_error(tmp_path_factory: pytest.TempPathFactory, query: str) -> None:
    memory = LocalMemory(str(tmp_path_factory.mktemp("memory")), ManualClock())
    memory.remember(decided("A", "words that are there"))
    memory.recall(query, project_id=PROJECT)
    memory.close()


def test_a_damaged_file_is_a_memory_that_cannot_be_reached(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "memory.db").write_bytes(b"this is no database, " * 500)
    memory = LocalMemory(str(tmp_path), clock)
    with pytest.raises(MemoryUnavailable, match="continues without"):
        memory.recall("x")
    with pytest.raises(MemoryUnavailable):
        memory.remember(decided("A", "b"))


def test_a_lookup_that_takes_too_long_is_ended(memory: LocalMemory) -> None:
    memory.remember(decided("A", "word " * 300))
    connection = sqlite3.connect(memory.path)
    with connection:
        for number in range(3000):
            connection.execute(
                "INSERT INTO memory_text (title, content, keywords) VALUES ('t', 'word ' || ?, '')", (number,)
            )
    connection.close()
    with pytest.raises(MemoryUnavailable, match="interrupted"):
        memory.recall("word", project_id=PROJECT, time_limit=-1.0)
    assert memory.recall("word", project_id=PROJECT, time_limit=60).memories


def test_many_remember_at_once(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "PATIENCE", 60.0)

    def keep(number: int) -> None:
        one = LocalMemory(str(tmp_path), ManualClock(clock.now() + number * 1000))
        for turn in range(5):
            one.remember(Memory(f"{number}", f"content {number} {turn}", id=f"{number}-{turn}"))
        one.close()

    threads = [threading.Thread(target=keep, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = LocalMemory(str(tmp_path), clock)
    assert len(found.recall("content", limit=100).memories) == 30
    found.close()


@given(st.text(max_size=5000), st.integers(2, 3000))
def test_what_is_too_long_is_cut_within_the_limit(text: str, limit: int) -> None:
    cut = shortened(text, limit)
    assert len(cut) <= limit and (cut == text or len(text) > limit)


def test_a_memory_ends_at_a_sentence() -> None:
    kept = fitted(Memory("t" * 500, "One sentence. " * 300, 99, ("k",) * 3, tuple(map(str, range(30)))))
    assert len(kept.content) <= 2000 and kept.content.endswith("One sentence. …")
    assert (len(kept.title), kept.importance, kept.keywords, len(kept.tags)) == (200, 10, ("k",), 10)


@pytest.mark.req("BMAD-2a.5.2", "BMAD-2a.5.4", "BMAD-FR35")
def test_decisions_come_first_in_what_the_agent_is_told(memory: LocalMemory) -> None:
    memory.remember(decided("Milestone", "Phase 2 of the migration is complete, the migration of migrations.", 6))
    memory.remember(decided("Pattern", "Migration scripts retry with backoff.", 7))
    memory.remember(decided("Decision", "PostgreSQL it is.", 10))
    memory.remember(decided("Decision 2", "Every migration can be taken back.", 9))
    found = ContextPreLoader(memory).load(PROJECT, ["postgresql migration"])
    assert found.context.startswith(HEAD)
    assert [one.importance for one in found.memories][:2] in ([10, 9], [9, 10])
    assert {one.title for one in found.memories} == {"Milestone", "Pattern", "Decision", "Decision 2"}
    assert found.relevance and found.source == "memory" and "(decision): PostgreSQL it is." in found.context


@pytest.mark.req("BMAD-2a.5.3", "BMAD-NFR9")
def test_without_memory_the_context_is_empty_and_the_failure_logged(memory: LocalMemory) -> None:
    logged: list[tuple[str, str]] = []
    found = ContextPreLoader(Broken(memory), lambda *said: logged.append(said)).load(PROJECT, ["x"])
    assert (found.context, found.memories, found.relevance, found.source) == ("", (), None, "degraded")
    assert logged == [("the server is gone", "recall")]


@pytest.mark.req("BMAD-2a.5.5", "BMAD-NFR3")
def test_what_is_said_twice_is_told_once_and_all_fits_the_limit() -> None:
    same = "PostgreSQL was chosen over MongoDB because of its transactions"
    many = [decided(f"Choice {number}", f"{same} and joins {'.' * (number % 3)}", 9) for number in range(10)]
    many += [decided(f"Long {number}", " ".join(f"w{number}x{n}" for n in range(400)), 7) for number in range(20)]
    found = prepared(many, 3000)
    assert found.duplicates >= 9 and found.left_out > 0 and found.memories
    assert len(found.context) <= 3000
    assert sum("PostgreSQL" in line for line in found.context.splitlines()) == 1


@given(
    st.lists(st.builds(Memory, st.text(max_size=300), st.text(max_size=2500), st.integers(1, 10)), max_size=12),
    st.integers(200, 6000),
)
@settings(max_examples=60, deadline=None)
def test_the_context_never_exceeds_its_limit_and_never_loses_the_first(memories: list[Memory], limit: int) -> None:
    found = prepared(memories, limit)
    assert len(found.context) <= limit
    assert bool(found.memories) == bool(memories)


MENU = "What next?\n\n**Select an Option:**\n[D] Draft the epics\n[S] Start with the stories\n[M] Map the journeys"


def options(text: str = MENU) -> list[Option]:
    menu = detect(text).menu
    assert menu is not None
    return list(menu.options)


def chose(options: Sequence[Option], key: str, at: str, step: str = "s") -> Choice:
    labels = [one.label for one in options]
    chosen = next(plain(one.label) for one in options if one.key == key)
    return Choice("/bmad:x", step, menu_situation("/bmad:x", step, labels), chosen, tuple(map(plain, labels)), at=at)


def remembered(memory: LocalMemory, options: Sequence[Option], step: str = "s", project: str = PROJECT) -> str | None:
    return Preferences(MemoryBridge(memory, Origin(project)).learned()).at_menu("/bmad:x", step, options).remembered


def test_a_remembered_answer_raises_sixty_to_eighty_five(memory: LocalMemory, clock: ManualClock) -> None:
    menu = detect("Step done.\n\n**Select an Option:** [A] Continue with A [B] Continue with B").menu
    assert menu is not None
    assert remembered(memory, menu.options) is None
    without = select(menu, 100, Situation(remembered=None))
    assert (without.mode, without.confidence_score) == (RECOMMENDED, 60)
    assert MemoryBridge(memory, Origin(PROJECT)).keep(chose(menu.options, "B", "2026-11-21T03:00:00.000Z"))
    key = remembered(memory, menu.options)
    assert key == "B"
    found = select(menu, 100, Situation(remembered=key))
    assert (found.mode, found.confidence_score) == (AUTOMATIC, 85)
    assert found.option is not None and found.option.key == "B"


def test_an_answer_is_remembered_by_what_it_says_and_for_its_menu_only(memory: LocalMemory) -> None:
    decisions = MemoryBridge(memory, Origin(PROJECT))
    first = [Option("A", "Draft"), Option("B", "Start")]
    decisions.keep(chose(first, "A", "1"))
    decisions.keep(chose(first, "B", "2"))
    assert remembered(memory, [Option("1", "Start"), Option("2", "**Draft**")]) == "1"
    assert remembered(memory, first, "another") is None
    assert remembered(memory, [*first, Option("C", "More")]) is None, "another menu"
    assert remembered(memory, first, project="other") is None
    decisions.keep(chose(first, "A", "3"))
    assert remembered(memory, first) == "A", "the latest counts"


def test_without_memory_nothing_is_remembered_and_nothing_fails(memory: LocalMemory) -> None:
    logged: list[str] = []
    decisions = MemoryBridge(Broken(memory), Origin(PROJECT), lambda reason, operation: logged.append(operation))
    assert not decisions.keep(chose([Option("A", "x")], "A", "1"))
    assert decisions.learned() == Learned() and not decisions.keep(Forgotten("C-1", "2"))
    assert logged == ["remember", "recall", "recall", "remember"]


class Patience:
    """A patient memory around one that can be taken away."""

    def __init__(self, tmp_path: Path, clock: ManualClock) -> None:
        self.clock = clock
        self.local = LocalMemory(str(tmp_path / "home"), clock)
        self.inner = Broken(self.local)
        self.warned: list[tuple[str, str]] = []
        self.folder = tmp_path / "_bmad-output"
        self.memory = RetryingMemory(self.inner, str(self.folder), clock, lambda *said: self.warned.append(said))


@pytest.fixture
def patience(tmp_path: Path, clock: ManualClock) -> Iterator[Patience]:
    found = Patience(tmp_path, clock)
    yield found
    found.local.close()


def test_three_more_tries_a_tenth_of_a_second_apart_and_then_the_queue(patience: Patience) -> None:
    patience.memory.remember(decided("A", "kept for later"))
    assert patience.inner.asked == 4 and patience.clock.monotonic() == pytest.approx(0.3)
    [line] = (patience.folder / ".memory-queue" / "pending.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert (found["title"], found["status"]) == ("A", "pending") and found["created_at"]
    assert patience.warned == [("the server is gone", "remember")] and patience.memory.status == "UNAVAILABLE"


def test_the_queue_holds_a_hundred_and_loses_the_oldest_with_a_warning(patience: Patience) -> None:
    for number in range(101):
        patience.memory.remember(decided(f"{number}", f"content {number}"))
    assert [one.title for one in patience.memory.queued()] == [str(number) for number in range(1, 101)]
    assert any("was full" in reason for reason, _ in patience.warned)


def test_what_was_queued_is_handed_over_in_order_once_memory_answers(patience: Patience) -> None:
    for title in "abc":
        patience.memory.remember(decided(title, f"content {title}"))
    assert [one.title for one in patience.memory.recall("content", project_id=PROJECT).memories] == list("cba")
    patience.inner.down = False
    patience.memory.remember(decided("d", "content d"))
    assert patience.memory.queued() == [] and patience.memory.status == "AVAILABLE"
    newest = patience.local.recall("", project_id=PROJECT).memories
    assert [one.title for one in reversed(newest)] == list("abcd")


def test_reads_are_answered_from_the_cache_for_five_minutes(patience: Patience) -> None:
    patience.inner.down = False
    patience.memory.remember(decided("a", "content"))
    fresh = patience.memory.recall("content", project_id=PROJECT)
    patience.inner.down = True
    patience.clock.advance(299)
    cached = patience.memory.recall("content", project_id=PROJECT)
    assert (cached.memories, cached.source, cached.stale) == (fresh.memories, "cache", True)
    patience.clock.advance(2)
    assert patience.memory.recall("content", project_id=PROJECT) == RecallResult((), "degraded")


def test_after_four_hours_it_is_not_asked_again(patience: Patience) -> None:
    patience.memory.recall("x")
    patience.clock.advance(4 * 3600)
    assert patience.memory.status == "PERMANENTLY_UNAVAILABLE"
    asked = patience.inner.asked
    patience.inner.down = False
    assert patience.memory.recall("x").source == "degraded" and patience.inner.asked == asked


@pytest.mark.parametrize("damage", ["{", "[]", '{"title": 1}', ""])
def test_lines_of_the_queue_that_cannot_be_read_are_left_out(patience: Patience, damage: str) -> None:
    patience.memory.remember(decided("a", "content"))
    path = patience.folder / ".memory-queue" / "pending.jsonl"
    path.write_text(f"{damage}\n{path.read_text()}")
    assert [one.title for one in patience.memory.queued()] == ["a"]


def test_not_even_the_queue(patience: Patience) -> None:
    patience.folder.write_text("a file in the way")
    with pytest.raises(MemoryUnavailable, match="queue of memories"):
        patience.memory.remember(decided("a", "content"))
