"""A window of a joined program, on a local team. Loaded by every hook."""

from __future__ import annotations

from contextlib import contextmanager

from interlock.clients.local.mail import LocalMailing
from interlock.core import mailbox, sessions
from interlock.core.unit_of_work import Principal, acknowledged
from interlock.model.message import as_xml
from interlock.model.names import SYSTEM
from interlock.processes import ancestry, ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from interlock.core.unit_of_work import UnitOfWork, Workspace
    from interlock.model.message import Message

HOOK_COUNT = 50
HOOK_BYTES = 9_000
"""What one hook hands over at most; one message, whatever its length, always. Programs cut what is longer: the rest
comes with the next event."""


class LocalHeard:
    """See `joined.Heard`."""

    __slots__ = ("_state", "fresh", "member", "messages", "team", "unreported")

    def __init__(
        self,
        member: str = "",
        team: str = "",
        messages: Sequence[Message] = (),
        unreported: Sequence[tuple[str, str]] = (),
        *,
        fresh: bool = False,
        state: str = "",
    ) -> None:
        self.member = member
        self.team = team
        self.messages = messages
        self.unreported = unreported
        self.fresh = fresh
        self._state = state

    def as_xml(self) -> str:
        return self._state + "".join(as_xml(message) for message in self.messages)


class LocalWindow(LocalMailing):
    """See `joined.Window`."""

    def __init__(self, workspace: Workspace, program: str, session: str, name: str, process: str | None) -> None:
        super().__init__(workspace, Principal(SYSTEM))
        self._program = program
        self._session = session
        self._called = name
        self._process = process

    def sit(self) -> str:
        with self._act() as act:
            return sessions.take(
                act, program=self._program, session=self._session, process=self._lives_in(), name=self._called,
                alive=ref.alive,
            ).name  # fmt: skip

    @contextmanager
    def hear(self, event: str, *, again: bool = False) -> Iterator[LocalHeard]:
        if event == "tool" and not self._urgent_waits():
            yield LocalHeard()
            return
        member = None if event == "start" else self._member()
        seated = member is None and event in ("start", "prompt") and not self._managed()
        if seated:
            member = self.sit()
        if member is None:
            yield LocalHeard()
            return
        self._caller = Principal(member, self._session, face=sessions.FACE)
        if event == "end":
            with self._act() as act:
                sessions.leave(act)
            yield LocalHeard()
            return
        with self._act() as act:
            heard = self._stop(act, again) if event == "stop" else self._mail(act, event, seated)
        with self._handing_over(list(heard.messages)):
            yield heard

    def _mail(self, act: UnitOfWork, event: str, fresh: bool) -> LocalHeard:
        urgent = event == "tool"
        if not urgent:
            act.rows.sessions.note_sent_back(act.name, act.session, False)
        messages = self._offered(act, urgent_only=urgent, earlier="unknown" if urgent else "seen")
        state = ""
        if act.role == "lead" and not urgent:
            from interlock.core.teams import state_block

            state = state_block(act)
        return LocalHeard(act.name, self.name, messages, fresh=fresh, state=state)

    def _stop(self, act: UnitOfWork, again: bool) -> LocalHeard:
        """Send the window back for its mail, and for a task that it has not reported on; the second time it may go."""
        acknowledged(act)
        open_tasks = sessions.unreported(act)
        if again or act.rows.sessions.sent_back(act.name, act.session):
            sessions.idle(act, [id for id, _ in open_tasks])
            return LocalHeard(act.name, self.name)
        messages = self._offered(act, urgent_only=False, earlier="seen")
        if messages or open_tasks:
            act.rows.sessions.note_sent_back(act.name, act.session, True)
        return LocalHeard(act.name, self.name, messages, open_tasks)

    def _offered(self, act: UnitOfWork, *, urgent_only: bool, earlier: str) -> list[Message]:
        return mailbox.offer(
            act, ref.current().as_text(), ref.alive, count=HOOK_COUNT, size=HOOK_BYTES, urgent_only=urgent_only,
            earlier=earlier,
        )  # fmt: skip

    def _urgent_waits(self) -> bool:
        """Whether there is urgent mail: a look, no transaction, since this is asked at every tool call."""
        with self._workspace.ledger.snapshot() as rows:
            member = sessions.of_window(rows, self._session, ())
            return member is not None and mailbox.waits(rows, member, self._workspace.clock.now(), ref.alive, True)

    def _member(self) -> str | None:
        with self._workspace.ledger.snapshot() as rows:
            return sessions.of_window(rows, self._session, lineage())

    def _managed(self) -> bool:
        return ancestry.origin(self._workspace.home) is not None

    def _lives_in(self) -> str:
        if self._process is not None:
            return self._process
        starter = ancestry.starter()
        return (starter or ref.current()).as_text()


def lineage() -> list[str]:
    """The processes that this one descends from, the nearest first."""
    return [identity.as_text() for identity in ancestry.ancestors()]
