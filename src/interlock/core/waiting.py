"""The one wait for a person's answer, or for mail.

    register ──> look ──something──────────> that is the result
                  ^ └──nothing──> time left? ──yes──> sleep until a commit of the team, or `again` seconds
                  └───────────────────────────┘
                                             └─no───> give up: park the wait, unless the answer came at this moment

Registering comes before the first look, so that a commit between looking and sleeping wakes the waiter all the same
(see `wakeup`). `Wait.blocking` is for threads, `Wait.held` for an event loop, with a session kept open meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

from interlock.core.unit_of_work import Workspace
from interlock.errors import CommitUnknown, LedgerBusy, StorageError, is_short
from interlock.storage import away
from interlock.wakeup.notifier import Waiter, woken

BUSY_TRIES = 30
"""How often a verb is offered to a ledger that stays locked; each time waits for `busy_timeout`."""

T = TypeVar("T")


class StillWaiting(NamedTuple):
    """Nothing is there yet: look again after a change, or after `seconds`, the time left to wait."""

    seconds: float


def unanswered(patience: float) -> str:
    """Why it is waited for a person no longer, after `patience` seconds."""
    return f"nobody answered within {patience:g} s" if patience else "its session is not held open for an answer"


class HumanWait:
    """How a run waits for a person with its session open: it says so, and its runner may end the wait.

    `waits` is called with True when a wait begins and with False when it ends.
    """

    def __init__(self, waits: Callable[[bool], None] = lambda begins: None) -> None:
        self.over: str | None = None
        """Why nobody is waited for any longer, once that is so."""
        self._held = 0
        self._waits = waits
        self._ended: list[Callable[[], object]] = []

    @property
    def waiting(self) -> bool:
        return self._held > 0

    def end(self, reason: str) -> None:
        """Wait for a person no longer, now and for the rest of the run. Call it from the event loop."""
        self.over = self.over or reason
        for rouse in self._ended:
            rouse()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the session open and waiting for the length of the block."""
        self._held += 1
        self._waits(True)
        try:
            yield
        finally:
            self._held -= 1
            self._waits(False)

    async def pause(self, waiter: Waiter, seconds: float) -> None:
        """Sleep until `waiter` is woken, the wait is over, or the time has passed."""
        import anyio

        with anyio.CancelScope() as scope:
            self._ended.append(scope.cancel)
            try:
                if self.over is None:
                    await woken(waiter, seconds)
            finally:
                self._ended.remove(scope.cancel)


class Wait(Generic[T]):
    """A wait for a change of the team's `topics`.

    Args:
        look: what there is, or `StillWaiting`. It is called in a worker thread where the wait is `held`, and reads the
            ledger itself: in a transaction where it acts on what it finds.
        changed: a further sign of a change, beside commits of the ledger, such as the home being closed.
        again: seconds between two looks, however quiet it is: not all that is waited for is a commit.
    """

    def __init__(
        self,
        workspace: Workspace,
        topics: Collection[str],
        look: Callable[[], T | StillWaiting],
        *,
        changed: Callable[[], bool] | None = None,
        again: float = 30.0,
    ) -> None:
        self._workspace = workspace
        self._topics = topics
        self._look = look
        self._changed = changed
        self._again = again

    def blocking(self) -> T | None:
        """Wait in this thread; None when the time is up."""
        with self._registered() as waiter:
            while isinstance(found := self._look(), StillWaiting):
                if found.seconds <= 0:
                    return None
                waiter.wait(min(found.seconds, self._again))
            return found

    async def held(self, patience: HumanWait, give_up: Callable[[str | None], T]) -> T:
        """Wait on the event loop while the session is held open, for as long as `patience` allows.

        `give_up` parks the wait when its time is up, or for the reason that `patience` names. It looks once more, in
        its transaction, since the answer may have come at this very moment.
        """
        with patience.held(), self._registered() as waiter:
            while isinstance(found := await in_thread(self._look), StillWaiting):
                if patience.over is not None or found.seconds <= 0:
                    return await in_thread(lambda: give_up(patience.over))
                await patience.pause(waiter, min(found.seconds, self._again))
            return found

    def _registered(self) -> Waiter:
        committed, changed = self._workspace.ledger.watch(), self._changed
        watch = committed if changed is None else lambda: changed() or committed()
        return self._workspace.notifier.waiter(self._workspace.name, self._topics, watch)


async def in_thread(
    verb: Callable[[], T], *, on_away: Callable[[Exception], bool] = lambda away: True, repeatable: bool = False
) -> T:
    """Run `verb` in a worker thread, again while the ledger is locked, and for a runner while it is away (`goes_on`):
    a result must not get lost.

    Args:
        on_away: hears of each try at a ledger that is away; whether that is still waited for.
        repeatable: done twice, it does no more than once; it is done again where nobody can tell whether it was.

    Raises:
        LedgerBusy, StorageError, CommitUnknown: it stayed so; and whatever `verb` raises.
    """
    import anyio.to_thread

    locked, since = 0, anyio.current_time()
    while True:
        try:
            return await anyio.to_thread.run_sync(verb)
        except LedgerBusy:
            locked += 1
            if locked == BUSY_TRIES:
                raise
        except Exception as error:  # boundary: raised again, unless it may pass
            over = anyio.current_time() - since > away.AWAY_SECONDS
            again = (isinstance(error, StorageError) and error.away) or (
                repeatable and (isinstance(error, CommitUnknown) or is_short(error))
            )
            if over or not again or not on_away(error) or not away.goes_on.get()():
                raise
            await anyio.sleep(away.LOOK_AGAIN)
