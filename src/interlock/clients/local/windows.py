"""The windows of a home's teams. Loaded by every hook."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.clients.local.window import LocalWindow
    from interlock.workspace import Workspace


class LocalWindows:
    """See `joined.Windows`."""

    path: str

    def workspace(self, name: str) -> Workspace:
        """Open a team for work."""
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

    def managed(self, team: str) -> tuple[str, str] | None:
        from interlock import seats
        from interlock.clients.local.window import lineage

        with self.workspace(team).ledger.snapshot() as rows:
            return seats.managed(rows, lineage)

    def seated(self, team: str) -> tuple[str, str] | None:
        from interlock import seats
        from interlock.clients.local.window import lineage

        with self.workspace(team).ledger.snapshot() as rows:
            return seats.around(rows, lineage)
