"""Memory in a Forgetful MCP server: kept, found, linked, and bearable when it is gone."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.clock import ManualClock, SystemClock
from interlock.memory import mcp_server
from interlock.memory.composite import CompositeMemory
from interlock.memory.forgetful import Forgetful
from interlock.memory.local import LocalMemory
from interlock.memory.mcp_server import McpConnection
from interlock.memory.retrying import RetryingMemory
from interlock.memory.serena import Serena
from interlock.memory.store import Memory, MemoryRefused, MemoryStore, MemoryUnavailable
from interlock.workflow.entry.context_pre_loader import ContextPreLoader
from tests.memory.servers import SERENA, Place, living

pytestmark = pytest.mark.long

PROJECT = "plan-app"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def forgetful(place: Place) -> Iterator[Forgetful]:
    found = place.memory()
    yield found
    found.close()


@pytest.fixture(params=["local", "forgetful"])
def store(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> Iterator[MemoryStore]:
    """Every implementation keeps what the port promises."""
    found: MemoryStore = LocalMemory(str(tmp_path), ManualClock()) if request.param == "local" else place.memory()
    yield found
    found.close()


def decided(title: str, content: str, importance: int = 9, project: str | None = PROJECT, **more: object) -> Memory:
    tags = ("type:architecture", "workflow_id:w1")
    return Memory(title, content, importance, ("database",), tags, project, **more)  # type: ignore[arg-type]


@pytest.mark.req("BMAD-NFR12", "BMAD-FR32")
def test_what_is_kept_is_found_by_words_project_and_tags(store: MemoryStore) -> None:
    kept = store.remember(decided("Database", "We chose PostgreSQL over MongoDB for the orders."))
    store.remember(Memory("Fix", "Add the section Goals.", 7, (), ("type:fix_pattern",), PROJECT))
    store.remember(decided("Elsewhere", "PostgreSQL for the orders of others.", project="other"))
    store.remember(decided("Everywhere", "Orders are never deleted.", project=None))
    found = store.recall("which database: PostgreSQL for the orders", project_id=PROJECT).memories
    assert found[0].id == kept.id and found[0].relevance > 0
    assert {one.title for one in found} >= {"Database", "Everywhere"} and "Elsewhere" not in {o.title for o in found}
    (fix,) = (
        store.recall("anything", project_id=PROJECT, tags=["type:fix_pattern"]).memories
        or store.recall("", project_id=PROJECT, tags=["type:fix_pattern"]).memories
    )
    assert fix.content == "Add the section Goals."
    newest = store.recall("", project_id=PROJECT).memories
    assert newest[0].title in ("Fix", "Everywhere") and newest[-1].title == "Database"
    assert store.recall("", project_id=PROJECT, tags=["type:none"]).memories == ()


@pytest.mark.req("BMAD-memory")
def test_the_same_thing_is_kept_once_and_two_can_be_linked(store: MemoryStore) -> None:
    first = store.remember(decided("Database", "PostgreSQL it is."))
    assert store.remember(decided("Database", "PostgreSQL it is.")).id == first.id
    second = store.remember(decided("Queue", "Redis it is not."))
    store.link(first.id, [second.id, "nothing", first.id])
    store.link(first.id, [second.id])
    found = {one.id: one.linked for one in store.recall("PostgreSQL Redis", project_id=PROJECT).memories}
    assert found == {first.id: (second.id,), second.id: (first.id,)}
    assert store.condition().status == "AVAILABLE" and store.flush() == 0


@pytest.mark.req("BMAD-4.1.5")
def test_a_memory_goes_to_the_server_within_its_schema(forgetful: Forgetful, place: Place) -> None:
    long = Memory("t" * 300, "One sentence. " * 400, 14, tuple(f"word{n}" for n in range(30)), ("type:x",) * 3, PROJECT)
    kept = forgetful.remember(long)
    forgetful.remember(Memory("", "A fact without a name", 7, (), (), None))
    first, second = place.memories
    assert (first["project_ids"], first["importance"], len(str(first["content"])) <= 2000) == ([1], 10, True)
    assert first["tags"] == ["type:x"] and first["encoding_agent"] == "interlock"
    assert second["project_ids"] == [] and second["title"] == "A fact without a name" and kept.id == "1"


def test_a_project_is_found_by_its_whole_name_and_made_once(place: Place) -> None:
    for name in ("plan-app-2", PROJECT, PROJECT):
        memory = place.memory()
        memory.remember(decided(name, f"{name} uses SQLite.", project=name))
        memory.close()
    assert place.calls.count("create_project") == 2
    reading = place.memory()
    assert reading.recall("SQLite", project_id="plan").memories == () and place.calls.count("create_project") == 2
    assert len(reading.recall("SQLite", project_id=PROJECT).memories) == 1
    reading.close()


@pytest.mark.req("BMAD-NFR12")
def test_a_server_that_runs_already_is_asked_over_http(place: Place) -> None:
    with place.over_http() as url:
        memory = Forgetful(McpConnection("Forgetful", url=url))
        memory.remember(decided("Database", "PostgreSQL it is."))
        assert memory.recall("PostgreSQL", project_id=PROJECT).memories[0].title == "Database"
        memory.close()
    with pytest.raises(MemoryUnavailable, match="Forgetful cannot be used"):
        memory.recall("PostgreSQL", project_id=PROJECT)
    memory.close()


def test_more_is_found_than_the_server_lists_at_once(forgetful: Forgetful, place: Place) -> None:
    forgetful.remember(decided("0", "content 0"))
    known = json.loads(place.data.read_text())
    known["memories"] = [{**known["memories"][0], "id": n, "title": str(n), "content": f"c {n}"} for n in range(1, 261)]
    place.data.write_text(json.dumps(known))
    found = forgetful.recall("", project_id=PROJECT, tags=["workflow_id:w1", "type:architecture"], limit=250).memories
    assert [one.title for one in found] == [str(n) for n in range(260, 10, -1)]


def test_nothing_of_the_program_is_left_once_it_is_closed(place: Place) -> None:
    memory = place.memory()
    memory.remember(decided("a", "b"))
    assert living(str(place.data))
    memory.close()
    assert not living(str(place.data))
    memory.remember(decided("c", "d"))  # starts again
    memory.close()


def test_a_busy_machine_gets_its_answer_within_five_seconds_and_its_start_within_sixty(place: Place) -> None:
    """B11: two seconds of a call and twenty of a start were missed, and everything went to the queue."""
    assert mcp_server.START_SECONDS == 60.0
    memory = place.memory(SLOW_AT="query_memory")
    patient = RetryingMemory(memory, str(place.data.parent), SystemClock())
    patient.remember(decided("Database", "We chose PostgreSQL over MongoDB for the orders."))
    found = patient.recall("PostgreSQL", project_id=PROJECT)
    assert [one.title for one in found.memories] == ["Database"] and found.source == "memory"
    assert patient.queued() == []
    memory.close()


def test_what_the_program_said_last_is_told_when_it_dies(place: Place) -> None:
    memory = place.memory(DIE_AT="create_memory")
    with pytest.raises(MemoryUnavailable, match=r"(?s)Work continues without it"):
        memory.remember(decided("a", "b"))
    said = Forgetful(McpConnection("Forgetful", command=["sh", "-c", "echo no such model >&2; exit 3"]))
    with pytest.raises(MemoryUnavailable, match="no such model"):
        said.remember(decided("a", "b"))
    later = " ".join(shlex.quote(word) for word in place.command(DIE_AT="create_memory"))
    dying = Forgetful(McpConnection("Forgetful", command=["sh", "-c", f"{later}; exec >&-; sleep 0.3; echo full >&2"]))
    with pytest.raises(MemoryUnavailable, match="full"):
        dying.remember(decided("a", "b"))
    gone = Forgetful(McpConnection("Forgetful", command=["/nonexistent/program"]))
    with pytest.raises(MemoryUnavailable, match="No such file"):
        gone.remember(decided("a", "b"))
    assert gone.condition().status == "UNAVAILABLE"
    memory.close()


def test_an_answer_that_never_comes_is_not_waited_for(place: Place) -> None:
    memory = place.memory(HANG_AT="query_memory")
    with pytest.raises(MemoryUnavailable, match=r"did not answer .* within 0\.5 seconds"):
        memory.recall("PostgreSQL", time_limit=0.5)
    memory.close()
    assert not living(str(place.data))


def test_a_memory_that_the_server_will_not_have_is_refused_and_blocks_nothing(tmp_path: Path, place: Place) -> None:
    class Refusing(Forgetful):
        def remember(self, memory: Memory) -> Memory:
            if memory.title == "bad":
                raise MemoryRefused("It says so.")
            return super().remember(memory)

    warned: list[tuple[str, str]] = []
    inner = Refusing(place.server())
    patient = RetryingMemory(inner, str(tmp_path), ManualClock(), lambda *said: warned.append(said))
    with pytest.raises(MemoryRefused):
        patient.remember(decided("bad", "x"))
    assert patient.queued() == []
    down = RetryingMemory(place.down(), str(tmp_path), ManualClock())
    for title in ("good", "bad", "better"):
        down.remember(decided(title, f"{title} words"))
    assert patient.flush() == 3 and [one["title"] for one in place.memories] == ["good", "better"]
    assert any("not kept: bad" in reason for reason, _ in warned)
    inner.close()
    down.close()


@pytest.mark.req("BMAD-FR34", "BMAD-NFR10", "BMAD-4.3.1", "BMAD-4.3.2", "BMAD-E4.3")
def test_a_server_that_is_killed_is_tried_three_times_more_and_then_the_queue_takes_over(
    tmp_path: Path, place: Place
) -> None:
    clock = ManualClock()
    patient = RetryingMemory(place.memory(DIE_AT="create_memory"), str(tmp_path / "_bmad-output"), clock)
    kept = patient.remember(decided("Database", "PostgreSQL it is."))
    assert place.calls.count("create_memory") == 4 and clock.monotonic() == pytest.approx(0.3)
    assert kept.id == "" and [one.title for one in patient.queued()] == ["Database"]
    assert (tmp_path / "_bmad-output" / ".memory-queue" / "pending.jsonl").exists()
    found = patient.condition()
    assert (found.kind, found.queued) == ("forgetful", 1)
    patient.close()


def test_a_server_that_was_killed_is_started_again_by_the_next_call(forgetful: Forgetful, place: Place) -> None:
    forgetful.remember(decided("a", "first words"))
    for id in living(str(place.data)):
        os.kill(id, signal.SIGKILL)
    patient = RetryingMemory(forgetful, str(place.data.parent), ManualClock())
    patient.remember(decided("b", "second words"))
    assert patient.queued() == [] and [one["title"] for one in place.memories] == ["a", "b"]


@pytest.mark.req("BMAD-4.3.3", "BMAD-4.3.5", "BMAD-E4.4")
def test_another_process_hands_over_what_this_one_queued_in_its_order(tmp_path: Path, place: Place) -> None:
    output = str(tmp_path / "_bmad-output")
    down = RetryingMemory(place.down(), output, ManualClock())
    for number in range(4):
        down.remember(decided(f"{number}", f"content {number}"))
    down.close()
    up = RetryingMemory(place.memory(), output, ManualClock(start=1_795_000_100.0))
    assert up.status == "UNAVAILABLE", "the other one has told"
    up.remember(decided("4", "content 4"))
    assert [one["title"] for one in place.memories] == list("01234") and up.queued() == []
    assert up.status == "AVAILABLE"
    up.close()


class Slow(LocalMemory):
    """A memory that needs its time."""

    def __init__(self, directory: str, clock: ManualClock, seconds: float) -> None:
        super().__init__(directory, clock)
        self.clock, self.seconds, self.down = clock, seconds, False

    def remember(self, memory: Memory) -> Memory:
        self.clock.advance(self.seconds)
        if self.down:
            raise MemoryUnavailable("no answer")
        return super().remember(memory)


def test_a_long_queue_is_handed_over_in_parts_and_nothing_overtakes(tmp_path: Path) -> None:
    clock = ManualClock()
    slow = Slow(str(tmp_path / "home"), clock, 0.0)
    patient = RetryingMemory(slow, str(tmp_path), clock)
    slow.down = True
    for number in range(20):
        patient.remember(decided(f"{number:02}", f"content {number}"))
    slow.down, slow.seconds = False, 0.3
    before = clock.monotonic()
    found = patient.recall("content", project_id=PROJECT, limit=50)
    assert clock.monotonic() - before < 2.5 and 0 < len(patient.queued()) < 20
    assert {one.title for one in found.memories} == {f"{number:02}" for number in range(20)}, "what waits is found too"
    patient.remember(decided("20", "content 20"))
    assert patient.queued()[-1].title == "20"
    while patient.flush():
        pass
    kept = [one.title for one in reversed(slow.recall("", project_id=PROJECT, limit=50).memories)]
    assert kept == [f"{number:02}" for number in range(21)]
    slow.close()


def test_a_memory_that_does_not_answer_in_time_is_left_alone_for_a_while(tmp_path: Path) -> None:
    clock = ManualClock()
    slow = Slow(str(tmp_path / "home"), clock, 5.0)
    slow.down = True
    patient = RetryingMemory(slow, str(tmp_path), clock)
    patient.remember(decided("a", "1"))
    before = clock.monotonic()
    patient.remember(decided("b", "2"))
    assert clock.monotonic() == before
    slow.down = False
    clock.advance(51)
    patient.remember(decided("c", "3"))
    while patient.flush():
        pass
    assert patient.queued() == []
    slow.close()


@pytest.mark.req("BMAD-4.3.6")
def test_four_hours_are_four_hours_for_every_process_and_one_asks_once_more(tmp_path: Path, place: Place) -> None:
    output, clock = str(tmp_path), ManualClock()
    first = RetryingMemory(place.down(), output, clock)
    first.remember(decided("a", "content a"))
    clock.advance(4 * 3600)
    found = first.condition()
    assert found.status == first.status == "PERMANENTLY_UNAVAILABLE" and found.since and found.queued == 1
    calls = len(place.calls)
    first.remember(decided("b", "content b"))
    with pytest.raises(MemoryUnavailable, match="interlock memory flush"):
        first.flush()
    assert len(place.calls) == calls, "the queue is left alone"
    other = RetryingMemory(place.down(), output, clock)
    assert other.status == "PERMANENTLY_UNAVAILABLE"
    other.recall("x", project_id=PROJECT)
    other.recall("x", project_id=PROJECT)
    assert len(place.calls) == calls + 1, "once, with a single try"
    mended = RetryingMemory(place.memory(), output, clock)
    assert mended.recall("content", project_id=PROJECT).source == "memory" and mended.status == "AVAILABLE"
    assert [one["title"] for one in place.memories] == ["a", "b"] and not mended.queued()
    for one in (first, other, mended):
        one.close()


@pytest.mark.req("BMAD-4.3.6")
def test_a_memory_that_was_given_up_is_asked_when_a_person_says_so(tmp_path: Path) -> None:
    clock = ManualClock()
    slow = Slow(str(tmp_path / "home"), clock, 0.0)
    patient = RetryingMemory(slow, str(tmp_path), clock)
    slow.down = True
    patient.remember(decided("a", "content"))
    clock.advance(4 * 3600)
    slow.down = False
    with pytest.raises(MemoryUnavailable):
        patient.flush()
    assert patient.flush(again=True) == 1 and patient.status == "AVAILABLE"
    slow.close()


@pytest.mark.req("BMAD-4.3.7", "BMAD-4.3.8", "BMAD-E4.5")
def test_another_process_finds_the_cache_for_five_minutes(tmp_path: Path, place: Place) -> None:
    output, clock = str(tmp_path), ManualClock()
    up = RetryingMemory(place.memory(), output, clock)
    up.remember(decided("Database", "PostgreSQL it is."))
    fresh = up.recall("PostgreSQL", project_id=PROJECT)
    up.close()
    down = RetryingMemory(place.down(), output, clock)
    clock.advance(299)
    found = down.recall("PostgreSQL", project_id=PROJECT)
    assert (found.memories, found.source, found.stale) == (fresh.memories, "cache", True)
    clock.advance(2)
    found = down.recall("PostgreSQL", project_id=PROJECT)
    assert (found.memories, found.source) == ((), "degraded")
    down.close()


@pytest.mark.req("BMAD-4.3.9")
def test_what_this_session_has_queued_is_told_before_the_next_workflow(tmp_path: Path, place: Place) -> None:
    patient = RetryingMemory(place.down(), str(tmp_path), ManualClock())
    patient.remember(decided("Database", "PostgreSQL it is, for the orders."))
    found = ContextPreLoader(patient).load(PROJECT, ["plan the orders"])
    assert "PostgreSQL it is" in found.context and found.source == "degraded"
    patient.close()


@pytest.mark.req("BMAD-NFR12")
def test_what_serena_knows_of_the_project_is_read_too(tmp_path: Path, place: Place) -> None:
    folder = tmp_path / ".serena" / "memories"
    (folder / "style").mkdir(parents=True)
    (folder / "style" / "python.md").write_text("# Style\nFormat with ruff.\n")
    (folder / "deploy.md").write_text("Deploys go by tag.")
    log: list[tuple[str, str]] = []
    serena = Serena(McpConnection("Serena", command=SERENA, directory=str(tmp_path)))
    memory = CompositeMemory(place.memory(), [serena], lambda *said: log.append(said))
    memory.remember(decided("Database", "PostgreSQL in python."))
    found = ContextPreLoader(memory).load(PROJECT, ["python style"])
    assert "Format with ruff." in found.context and "PostgreSQL" in found.context and "Deploys" not in found.context
    assert found.servers == ("forgetful", "serena") and log == []
    memory.close()
    gone = Serena(McpConnection("Serena", command=["/nonexistent"]))
    memory = CompositeMemory(place.memory(), [gone], lambda *said: log.append(said))
    found = ContextPreLoader(memory).load(PROJECT, ["python style"])
    assert "PostgreSQL" in found.context and [operation for _, operation in log] == ["read"]
    memory.close()


def test_the_end_of_a_process_ends_the_server(place: Place, tmp_path: Path) -> None:
    """Killed, there is nobody to end it: its input ends, and so does it."""
    program = (
        "import sys\nfrom tests.memory.servers import Place\nfrom pathlib import Path\n"
        "memory = Place(Path(sys.argv[1])).memory()\nmemory.recall('x')\nprint('up', flush=True)\nsys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert process.stdin and process.stdout and process.stdout.readline() == b"up\n"
    assert living(str(place.data))
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()
    end = time.monotonic() + 100
    while living(str(place.data)):
        assert time.monotonic() < end, "it lives on"
