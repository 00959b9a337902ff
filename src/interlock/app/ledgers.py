"""Ledgers that move: from the files of a home to a PostgreSQL server, or back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from glob import escape, glob

from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InvalidRequest, LedgerUnusable, MembersRunning, StorageError, TeamExists
from interlock.lazy_dataclass import dataclass
from interlock.model.names import SYSTEM
from interlock.runner.registration import at_work
from interlock.settings import Settings
from interlock.storage.catalog import Catalog
from interlock.storage.ledger import Ledger

AT_ONCE = 2000
"""Rows that one transaction of a pruning looks at."""
FILES = "files"
"""What is said of the ledgers in the directories of a home, where another one would have an address."""


@dataclass(slots=True, frozen=True)
class MovedLedger:
    """A team whose ledger is somewhere else now."""

    team: str
    sha256: str
    """Of its rows, before and after."""
    archive: str
    kept: str
    """Where the ledger that was moved still is, unused."""


@dataclass(slots=True, frozen=True)
class LedgerVersion:
    """A team's ledger, and of which version its tables are."""

    team: str
    location: str
    version: int
    newest: int
    """The version that this Interlock brings it to."""


@dataclass(slots=True, frozen=True)
class PrunedLedger:
    """A team's ledger without the history from before a time."""

    team: str
    before: str
    events: int
    messages: int
    sessions: int
    logs: int
    """Files with what runs printed."""


def pruned(workspace: Workspace, before: str) -> PrunedLedger:
    """Delete what a ledger holds of what was finished before that, in short transactions, others' work between them.

    The event that says how far goes first: where this is killed, what is gone by then is accounted for.
    """
    workspace.settle()
    with workspace.act(Principal(SYSTEM)) as act:
        through = act.rows.upkeep.last_before(before)
        if through:
            act.event("ledger.pruned", before=before, through=through)
    counts = dict.fromkeys(("events", "messages", "sessions", "logs"), 0)
    for kind, part in _PARTS.items() if through else ():
        at: int | None = 0
        while at is not None:
            at, count = part(workspace, before, at, through)
            counts[kind] += count
    return PrunedLedger(workspace.name, before, **counts)


def _events(workspace: Workspace, before: str, after: int, through: int) -> tuple[int | None, int]:
    with workspace.ledger.transaction() as rows:
        at, count = rows.upkeep.prune_events(before, after, through, AT_ONCE)
    return at or None, count


def _messages(workspace: Workspace, before: str, after: int, _: int) -> tuple[int | None, int]:
    with workspace.ledger.transaction() as rows:
        at, count = rows.upkeep.prune_messages(before, after, AT_ONCE)
    return at or None, count


def _sessions(workspace: Workspace, before: str, _: int, __: int) -> tuple[int | None, int]:
    with workspace.ledger.transaction() as rows:
        count = rows.upkeep.prune_sessions(before, AT_ONCE)
    return 0 if count else None, count


def _logs(workspace: Workspace, before: str, after: int, _: int) -> tuple[int | None, int]:
    """What the runs of finished tasks printed: the largest files of a home."""
    with workspace.look() as rows:
        found = rows.upkeep.settled(before, after, AT_ONCE)
    count = 0
    for _, id in found:
        for path in glob(os.path.join(escape(workspace.directory), "runs", id, "*.log")):
            with suppress(OSError):
                os.unlink(path)
                count += 1
    return found[-1][0] if found else None, count


_PARTS = {"events": _events, "messages": _messages, "sessions": _sessions, "logs": _logs}
"""What goes, each a part at a time: how far that looked, or null at the end, and how many went."""


def another_place(settings: Settings, to: str) -> str:
    """The value of the setting `ledger` for what a person calls `to`.

    Raises:
        InvalidRequest: ledgers are there already, or the environment says where.
    """
    url = "" if to == FILES else to
    here, source = settings.look_up("ledger")
    if source == "environment":
        raise InvalidRequest("INTERLOCK_LEDGER in the environment says where ledgers are: unset it first.")
    if url == here:
        raise InvalidRequest("Ledgers are there already. Say `files`, or postgresql://…", field="to")
    return url


@contextmanager
def copied(
    workspaces: Sequence[Workspace], there: Catalog, members_at_work: Callable[[Workspace], list[str]]
) -> Iterator[Callable[[], list[MovedLedger]]]:
    """Copy all ledgers there and let nobody change them; what is given puts those here aside.

    Raises:
        MembersRunning: somebody works.
        StorageError, TeamExists: a ledger cannot be made there.
    """
    with ExitStack() as held:
        rows = [held.enter_context(_at_rest(one, members_at_work(one)).ledger.transaction()) for one in workspaces]
        found = [_copied(one, there) for one in workspaces]
        yield lambda: [
            MovedLedger(one.name, digest, archive, one.ledger.retire(theirs))
            for one, theirs, (digest, archive) in zip(workspaces, rows, found, strict=True)
        ]


def _at_rest(workspace: Workspace, members: Sequence[str]) -> Workspace:
    with workspace.look() as rows:
        working = {*members, *(run.member for run in rows.runs.open() if run.runner)}
        if working or at_work(rows):
            raise MembersRunning(
                f"{', '.join(sorted(working)) or 'A runner'} is at work in {workspace.name!r}: stop it first.",
                members=sorted(working),
            )
    return workspace


def _copied(workspace: Workspace, there: Catalog) -> tuple[str, str]:
    """Copy a ledger that nobody can change meanwhile: (digest, archive)."""
    name = workspace.name
    archive = os.path.join(workspace.directory, "backups", f"moved-{workspace.clock.new_id()}.ledger.gz")
    os.makedirs(os.path.dirname(archive), mode=0o700, exist_ok=True)
    digest = workspace.ledger.export(archive)
    try:
        if name not in there.names():
            there.take_in(archive, name)
        elif not _is_copy(_opened(there, workspace), archive, digest):
            _retire_earlier(_opened(there, workspace), workspace)
            there.take_in(archive, name)
        if not _is_copy(there.open(name), archive, digest):
            raise StorageError(f"The copy of {name!r} at {there.location(name)} differs. Nothing was moved.")
    except BaseException:
        with suppress(OSError):
            os.unlink(archive)
        raise
    return digest, archive


def _is_copy(ledger: Ledger, archive: str, digest: str) -> bool:
    again = f"{archive}.again"
    try:
        return ledger.export(again) == digest
    finally:
        with suppress(OSError):
            os.unlink(again)


def _opened(there: Catalog, workspace: Workspace) -> Ledger:
    """What is there under that name.

    Raises:
        TeamExists: another team, to which the directory here does not belong.
    """
    try:
        return there.open(workspace.name)
    except LedgerUnusable as error:
        if error.details.get("path") == workspace.directory:
            raise _another(there.location(workspace.name), workspace.name) from error
        raise


def _retire_earlier(theirs: Ledger, workspace: Workspace) -> None:
    """Put an earlier state of the same team aside, as a move leaves it that was killed.

    Raises:
        TeamExists: it is another team, or has gone on by itself.
    """
    with workspace.ledger.snapshot() as ours, theirs.transaction() as rows:
        if rows.team.get().id != ours.team.get().id:
            raise _another(theirs.location, workspace.name)
        if rows.events.latest(None, 1) != ours.events.latest(rows.start.head + 1, 1):
            raise TeamExists(
                f"{theirs.location} has changes of team {workspace.name!r} that are not here: both were worked on. "
                "Nothing was moved.",
                team=workspace.name,
            )
        theirs.retire(rows)


def _another(location: str, name: str) -> TeamExists:
    return TeamExists(
        f"There is another team {name!r}: {location}. Nothing was moved. To have both there, export the one that is "
        "here, import it under another name (`interlock ledger import FILE --name NAME`), and delete it.",
        team=name,
    )
