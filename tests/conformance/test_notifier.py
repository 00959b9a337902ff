"""What every notifier promises, whoever implements it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from interlock.wakeup.inprocess import InProcessNotifier
from interlock.wakeup.notifier import INTERVAL, woken
from interlock.wakeup.socket import SocketNotifier
from interlock.wakeup.waiters import PollingNotifier

if TYPE_CHECKING:
    from interlock.wakeup.notifier import Notifier

PATIENCE = 60.0  # seconds: long enough for any machine; only a failing test waits that long


class State:
    """What the waiters wait for: a counter, as a ledger's data version is one."""

    def __init__(self) -> None:
        self.version = 0

    def probe(self) -> Callable[[], bool]:
        """A `changed` of one waiter."""
        seen = self.version

        def changed() -> bool:
            nonlocal seen
            before, seen = seen, self.version
            return before != seen

        return changed


@pytest.fixture(params=["socket", "socket without a runtime directory", "inprocess", "polling"])
def notifier(request: pytest.FixtureRequest, tmp_path: Path) -> Notifier:
    match request.param:
        case "socket":
            return SocketNotifier(str(tmp_path))
        case "inprocess":
            return InProcessNotifier()
        case "polling":
            return PollingNotifier()
        case _:
            open_to_all = tmp_path / "runtime"
            open_to_all.mkdir()
            open_to_all.chmod(0o755)
            return SocketNotifier(str(tmp_path), str(open_to_all))


@pytest.fixture
def state() -> State:
    return State()


def never() -> bool:
    return False


def test_a_waiter_is_woken_by_a_change_while_it_sleeps(notifier: Notifier, state: State) -> None:
    with notifier.waiter("red", ["tasks"], state.probe()) as waiter, ThreadPoolExecutor() as pool:
        answer = pool.submit(waiter.wait, PATIENCE)
        state.version += 1
        notifier.notify("red", ["tasks"])
        assert answer.result() is True


def test_a_change_between_registering_and_sleeping_is_not_lost(notifier: Notifier, state: State) -> None:
    with notifier.waiter("red", ["tasks"], state.probe()) as waiter:
        state.version += 1
        notifier.notify("red", ["tasks"])
        assert waiter.wait(PATIENCE) is True


def test_a_waiter_hears_each_of_its_topics(notifier: Notifier, state: State) -> None:
    topics = ["tasks", "questions", "events", "inbox:bob", "inbox:" + "x" * 50, *(f"more:{n}" for n in range(20))]
    with notifier.waiter("red", topics, state.probe()) as waiter:
        for topic in topics:
            state.version += 1
            notifier.notify("red", [topic])
            assert waiter.wait(PATIENCE) is True


def test_a_waiter_without_topics_hears_all_of_them(notifier: Notifier, state: State) -> None:
    with notifier.waiter("red", [], state.probe()) as waiter:
        state.version += 1
        notifier.notify("red", ["inbox:bob"])
        assert waiter.wait(PATIENCE) is True


def test_a_wait_in_which_nothing_happens_ends_when_its_time_is_up(notifier: Notifier) -> None:
    with notifier.waiter("red", ["tasks"], never) as waiter:
        before = time.monotonic()
        assert waiter.wait(0.1) is False
        assert time.monotonic() - before >= 0.1


def test_a_wait_of_no_time_only_looks(notifier: Notifier, state: State) -> None:
    with notifier.waiter("red", ["tasks"], state.probe()) as waiter:
        assert waiter.wait(0) is False
        state.version += 1
        notifier.notify("red", ["tasks"])
        assert waiter.wait(0) is True


def test_a_change_that_nobody_announced_is_noticed_within_a_second(notifier: Notifier, state: State) -> None:
    looks: list[float] = []
    probe = state.probe()

    def changed() -> bool:
        looks.append(time.monotonic())
        if len(looks) == 3:
            state.version += 1  # the writer was killed between its commit and its notification
        return probe()

    with notifier.waiter("red", ["tasks"], changed) as waiter:
        assert waiter.wait(PATIENCE) is True
    assert len(looks) == 3
    assert INTERVAL < 1


def test_without_a_safety_net_each_interval_counts_as_a_change(notifier: Notifier) -> None:
    with notifier.waiter("red", ["tasks"]) as waiter:
        assert waiter.wait(PATIENCE) is True


def test_many_threads_of_one_process_wait_at_once(notifier: Notifier, state: State) -> None:
    ready = threading.Barrier(51)

    def wait() -> bool:
        with notifier.waiter("red", ["tasks"], state.probe()) as waiter:
            ready.wait()
            return waiter.wait(PATIENCE)

    with ThreadPoolExecutor(50) as pool:
        answers = [pool.submit(wait) for _ in range(50)]
        ready.wait()
        state.version += 1
        notifier.notify("red", ["tasks"])
        assert all(answer.result() for answer in answers)


def test_a_burst_of_notifications_blocks_nobody(notifier: Notifier, state: State) -> None:
    with notifier.waiter("red", ["tasks"], state.probe()) as waiter:
        state.version += 1
        for _ in range(20_000):
            notifier.notify("red", ["tasks"])
        assert waiter.wait(PATIENCE) is True


def test_notifying_where_nobody_waits_does_nothing(notifier: Notifier) -> None:
    notifier.notify("red", ["tasks"])
    notifier.notify("red", [])


def test_a_waiter_may_be_closed_twice(notifier: Notifier) -> None:
    waiter = notifier.waiter("red", ["tasks"], never)
    waiter.close()
    waiter.close()
    notifier.notify("red", ["tasks"])


def test_async_code_is_woken_too(notifier: Notifier, state: State) -> None:
    async def main() -> bool:
        answers = []
        with notifier.waiter("red", ["tasks"], state.probe()) as waiter:

            async def wait() -> None:
                answers.append(await woken(waiter, PATIENCE))

            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await anyio.lowlevel.checkpoint()
                state.version += 1
                notifier.notify("red", ["tasks"])
        return answers == [True]

    assert anyio.run(main)


def test_an_async_wait_in_which_nothing_happens_ends_when_its_time_is_up(notifier: Notifier) -> None:
    async def main() -> bool:
        with notifier.waiter("red", ["tasks"], never) as waiter:
            return await woken(waiter, 0.1)

    assert anyio.run(main) is False
