"""The barrier holds results from tasks and from threads, and lets go of everything when its lock cannot be had."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

from interlock.workflow.barrier import BarrierResults, SynchronizationBarrier, SyncTimeout
from tests.workflow import virtual

NAMES = ("08a", "08b", "08c", "08d", "08e", "08f")
LONG = 60.0  # seconds that a real wait may take at most; none does


class Counting:
    """A real lock that counts, and tells when somebody who holds it lets go."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = self.most = self.acquired = self.refused = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        had = self.lock.acquire(blocking, timeout) if blocking else self.lock.acquire(False)
        if had:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.acquired += 1
        else:
            self.refused += 1
        return had

    def release(self) -> None:
        self.inside -= 1
        self.lock.release()


@pytest.mark.req("BMAD-6.2.2", "BMAD-FR47b", "BMAD-6.2.5")
@pytest.mark.parametrize("attempt", range(20))
def test_results_handed_in_by_threads_at_the_same_moment_all_arrive_in_their_order(attempt: int) -> None:
    lock = Counting()
    names = tuple(f"{n:03d}" for n in range(48))
    barrier: SynchronizationBarrier[str] = SynchronizationBarrier(names, lock=lock)
    start = threading.Barrier(len(names))

    def thread(name: str) -> bool:
        start.wait(LONG)
        return barrier.deliver(name, f"result of {name}")

    async def main() -> BarrierResults[str]:
        with ThreadPoolExecutor(len(names)) as threads:
            taken = [threads.submit(thread, name) for name in reversed(names)]
            found = await barrier.wait(LONG)
            assert all(one.result(LONG) for one in taken)
        return found

    found = anyio.run(main)
    assert list(found.results.items()) == [(name, f"result of {name}") for name in names]
    assert found.missing == () and found.error is None and lock.most == 1


@pytest.mark.req("BMAD-6.2.1", "BMAD-FR47a")
def test_it_waits_for_the_last_one_whoever_it_is() -> None:
    barrier: SynchronizationBarrier[str] = SynchronizationBarrier(NAMES)

    async def party(name: str, after: float) -> None:
        await virtual.passes(after)
        assert await barrier.hand_in(name, name.upper())

    async def main() -> tuple[BarrierResults[str], float]:
        async with anyio.create_task_group() as group:
            for n, name in enumerate(reversed(NAMES)):
                group.start_soon(party, name, float(n))
            return await barrier.wait(120), anyio.current_time()

    found, seconds = virtual.run(main)
    assert list(found.results) == list(NAMES) and seconds == 5.0


@pytest.mark.req("BMAD-6.2.4")
def test_after_its_wait_it_says_barrier_timeout_and_keeps_what_came() -> None:
    barrier: SynchronizationBarrier[int] = SynchronizationBarrier(NAMES)

    async def main() -> tuple[BarrierResults[int], bool, float]:
        for n, name in enumerate(NAMES[:4]):
            await barrier.hand_in(name, n)
        found = await barrier.wait(120)
        return found, await barrier.hand_in("08e", 4), anyio.current_time()

    found, late, seconds = virtual.run(main)
    assert (found.error, found.missing, list(found.results.values())) == (
        "barrier_timeout",
        ("08e", "08f"),
        [0, 1, 2, 3],
    )
    assert not late and seconds == 120, "what comes later is not taken"


@pytest.mark.req("BMAD-6.2.2", "BMAD-6.2.3", "BMAD-FR47b", "BMAD-E6.2")
def test_a_task_waits_5_seconds_for_the_lock_twice_and_then_breaks_the_barrier_for_all() -> None:
    lock = Counting()
    lock.lock.acquire()  # held for ever
    barrier: SynchronizationBarrier[int] = SynchronizationBarrier(NAMES, lock=lock)

    async def main() -> tuple[BarrierResults[int], list[float]]:
        ended = []

        async def party(name: str) -> None:
            await virtual.passes(1)
            with pytest.raises(SyncTimeout, match="sync_timeout"):
                await barrier.hand_in(name, 1)
            ended.append(anyio.current_time())

        async with anyio.create_task_group() as group:
            group.start_soon(party, "08a")
            found = await barrier.wait(120)
            ended.append(anyio.current_time())
        return found, ended

    found, ended = virtual.run(main)
    assert (found.error, found.missing, found.results) == ("sync_timeout", NAMES, {})
    assert ended == pytest.approx([11, 11], abs=0.1), "one second of work, and five seconds twice"
    assert lock.inside == 0 and lock.acquired == 0


@pytest.mark.req("BMAD-6.2.3")
def test_a_lock_that_is_free_again_for_the_retry_is_enough() -> None:
    lock = Counting()
    lock.lock.acquire()
    barrier: SynchronizationBarrier[int] = SynchronizationBarrier(("08a",), lock=lock)

    async def let_go() -> None:
        await virtual.passes(7)
        lock.lock.release()

    async def main() -> BarrierResults[int]:
        async with anyio.create_task_group() as group:
            group.start_soon(let_go)
            assert await barrier.hand_in("08a", 1)
            return await barrier.wait(120)

    found = virtual.run(main)
    assert found.error is None and found.results == {"08a": 1} and not lock.lock.locked()


@pytest.mark.req("BMAD-6.2.3", "BMAD-FR47b")
def test_a_lock_held_for_ever_by_a_thread_breaks_it_for_the_threads_and_the_task_that_wait() -> None:
    lock = Counting()
    held, over = threading.Event(), threading.Event()

    def holder() -> None:
        with lock.lock:
            held.set()
            over.wait(LONG)

    keeper = threading.Thread(target=holder)
    keeper.start()
    held.wait(LONG)
    barrier: SynchronizationBarrier[str] = SynchronizationBarrier(NAMES, lock_wait=0.05, lock=lock)
    refused: list[str] = []

    def thread(name: str) -> None:
        try:
            barrier.deliver(name, name)
        except SyncTimeout:
            refused.append(name)

    async def main() -> BarrierResults[str]:
        with ThreadPoolExecutor(len(NAMES)) as threads:
            waiting = [threads.submit(thread, name) for name in NAMES]
            found = await barrier.wait(LONG)
            for one in waiting:
                one.result(LONG)
        return found

    found = anyio.run(main)
    assert found.error == "sync_timeout" and found.results == {} and sorted(refused) == list(NAMES)
    assert lock.refused == 2 * len(NAMES), "the first acquisition and exactly one retry for each"
    assert lock.inside == 0
    over.set()
    keeper.join(LONG)
    assert not lock.lock.locked()


def test_what_came_before_it_broke_is_kept() -> None:
    lock = Counting()
    barrier: SynchronizationBarrier[int] = SynchronizationBarrier(NAMES, lock_wait=0.02, lock=lock)
    assert barrier.deliver("08b", 2)
    with lock.lock, pytest.raises(SyncTimeout):
        barrier.deliver("08c", 3)
    found = anyio.run(barrier.wait, LONG)
    assert (found.results, found.error) == ({"08b": 2}, "sync_timeout")
    assert not barrier.deliver("08d", 4), "a broken one takes nothing more"


def test_a_second_result_of_the_same_party_is_not_taken_and_a_stranger_is_refused() -> None:
    barrier: SynchronizationBarrier[int] = SynchronizationBarrier(("08a",))
    assert barrier.deliver("08a", 1) and not barrier.deliver("08a", 2)
    with pytest.raises(ValueError, match="not for 08x"):
        barrier.deliver("08x", 1)
    assert anyio.run(barrier.wait, LONG).results == {"08a": 1}


def test_it_is_over_at_once_where_it_waits_for_nobody() -> None:
    assert anyio.run(SynchronizationBarrier[int](()).wait, LONG) == BarrierResults({})
