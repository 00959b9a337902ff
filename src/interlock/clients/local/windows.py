"""The windows of a home's teams. Loaded by every hook."""

from __future__ import annotations

from contextlib import suppress

from interlock.processes import ancestry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.clients.local.window import LocalWindow
    from interlock.core.unit_of_work import Workspace
    from interlock.errors import Forbidden
    from interlock.processes.ancestry import RunOrigin


class LocalWindows:
    """See `joined.Windows`."""

    path: str

    def workspace(self, name: str) -> Workspace:
        """Open a team for work."""
        raise NotImplementedError

    def teams(self) -> list[str]:
        """The names of all teams."""
        raise NotImplementedError

    def window(self, team: str, *, program: str, session: str, name: str, process: str | None = None) -> LocalWindow:
        from interlock.clients.local.window import LocalWindow

        return LocalWindow(self.workspace(team), program, session, name, process)

    def joined(self) -> list[str]:
        from interlock.clients.local import projects

        return projects.listed(self.path)

    def note_joined(self, project: str) -> None:
        from interlock.clients.local import projects

        projects.note(self.path, project)

    def note_left(self, project: str) -> None:
        from interlock.clients.local import projects

        projects.forget(self.path, project)

    def need_person(self, what: str) -> None:
        found = ancestry.origin(self.path)
        if found is None and not ancestry.SUBREAPED:
            found = next((one for team in self.teams() if (one := self.workspace(team).adrift())), None)
        if found is not None:
            error = found.refusal(what)
            self.note_refusal(found, error)
            raise error

    def note_refusal(self, origin: RunOrigin, error: Forbidden, face: str = "python") -> None:
        from interlock.core.unit_of_work import Principal
        from interlock.errors import InterlockError

        with suppress(InterlockError):  # Its team may be gone.
            self.workspace(str(origin.team)).note_refusal(origin, Principal(face=face), error)

    def managed(self, team: str) -> tuple[str, str] | None:
        found = ancestry.origin(self.path)
        self.workspace(team)
        if found is None or found.team != team or found.member is None or found.session is None:
            return None
        return found.member, found.session

    def seated(self, team: str) -> tuple[str, str] | None:
        from interlock.clients.local.window import lineage
        from interlock.core import sessions

        with self.workspace(team).ledger.snapshot() as rows:
            return sessions.around(rows, lineage)
