"""What keeps ledgers: `interlock ledger …`."""

from __future__ import annotations

from dataclasses import asdict

import click

from interlock.errors import InvalidRequest
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb


@verb("version", reads=True, example="interlock ledger version")
def show_versions(call: Call) -> None:
    """The version of each team's tables, and where they are. Nothing is migrated by it."""
    _show_versions(call, dry=True)


@verb("init", example="interlock ledger init\ninterlock ledger init --dump-sql > schema.sql")
@click.option("--dump-sql", is_flag=True, help="Only print the SQL; nothing is reached or changed.")
def prepare_ledgers(call: Call, dump_sql: bool) -> None:
    """Make what the ledgers of all teams share, where the setting ledger says. The first team makes it as well."""
    if dump_sql:
        call.answer({"sql": (script := call.home.ledger_script())}, script)
        return
    place = call.home.prepare_ledgers()
    call.answer({"place": place}, f"Ledgers can be made: {words.clean(place)}")


@verb("migrate", example="interlock ledger migrate --dry-run")
@click.option("--dry-run", is_flag=True, help="Only show what would be migrated.")
@click.option("--to", type=int, metavar="N", help="The version wanted; only this Interlock's own, without --dump-sql.")
@click.option("--dump-sql", is_flag=True, help="Only print the SQL; nothing is reached or changed.")
def migrate_ledgers(call: Call, dry_run: bool, to: int | None, dump_sql: bool) -> None:
    """Bring the tables of all teams, or of the one named, to this version of Interlock, one transaction each.

    The first command that opens a team does it as well.
    """
    if dump_sql:
        call.answer({"sql": (script := call.home.ledger_script(migrates=True, to=to))}, script)
        return
    for one in call.home.migrate_ledgers(call.asked.team, dry_run=True) if to is not None else ():
        if one.newest != to:
            raise InvalidRequest(
                f"This version of Interlock works with tables of version {one.newest} only. Use the one that knows "
                f"{to} to stay there; `--dump-sql --to {to}` prints the way.",
                field="to",
            )
    _show_versions(call, dry=dry_run)


def _show_versions(call: Call, *, dry: bool) -> None:
    found = call.home.migrate_ledgers(call.asked.team, dry_run=dry)
    moved = f"{'to be ' if dry else ''}migrated to "
    rows = [
        (one.team, str(one.version), "" if one.version >= one.newest else f"{moved}{one.newest}", one.location)
        for one in found
    ]
    shown = words.table(["TEAM", "VERSION", "", "WHERE"], rows) if rows else ["There is no team."]
    call.answer({"ledgers": [asdict(one) for one in found]}, shown)


@verb("prune", example="interlock ledger prune --older-than 90d")
@click.option("--older-than", "age", required=True, metavar="T", help="Finished so long ago: 12h, 90d.")
def prune_ledgers(call: Call, age: str) -> None:
    """Delete history of what was finished long ago, in all teams or the one named, while others work.

    Tasks stay, with their evidence, runs and Work Log, and so does all about those that are open. What goes: events of
    finished tasks (not that they were made and moved), what their runs printed, mail that was acknowledged, and
    sessions that are over.
    """
    found = call.home.prune_ledgers(words.seconds(age, "older_than"), call.asked.team)
    rows = [
        (one.team, str(one.events), str(one.messages), str(one.sessions), str(one.logs), one.before) for one in found
    ]
    shown = (
        words.table(["TEAM", "EVENTS", "MESSAGES", "SESSIONS", "LOGS", "BEFORE"], rows)
        if rows
        else ["There is no team."]
    )
    call.answer({"pruned": [asdict(one) for one in found]}, shown)


@verb("check", reads=True, example="interlock ledger check")
def check_ledgers(call: Call) -> int:
    """Whether the ledgers of all teams, or that of the one named, are whole. The exit code is 1 where one is not.

    `interlock doctor` examines files and work as well.
    """
    found = call.home.check_ledgers(call.asked.team)
    lines = [f"{team}: {words.clean(fault)}" for team, faults in found.items() for fault in faults or ["sound"]]
    call.answer({"ledgers": found}, lines or ["There is no team."])
    return int(any(found.values()))


@verb("backup", example="interlock ledger backup --team alpha-squad\ninterlock ledger backup /backups/alpha-squad.gz")
@click.argument("file", type=click.Path(), required=False)
def back_up_ledger(call: Call, file: str | None) -> None:
    """Copy a team's ledger into the team's directory on this machine, from where `doctor` offers it.

    With FILE it is written there, as `interlock ledger export` does; `interlock ledger import` brings it back.
    """
    team = call.team().name
    path = call.home.back_up_ledger(team, file)
    call.answer({"team": team, "path": path}, words.clean(path))


@verb("export", reads=True, example="interlock ledger export alpha-squad.ledger.gz --team alpha-squad")
@click.argument("file", type=click.Path())
def export_ledger(call: Call, file: str) -> None:
    """Write everything in a team's ledger to a new file, wherever the ledger is kept."""
    team = call.team().name
    digest = call.home.export_ledger(team, file)
    call.answer({"team": team, "path": file, "sha256": digest}, f"{team} is in {words.clean(file)}; rows: {digest}")


@verb("import", example="interlock ledger import alpha-squad.ledger.gz")
@click.argument("file", type=click.Path())
@click.option("--name", help="What the team is called here; what it was called by default.")
def import_ledger(call: Call, file: str, name: str | None) -> None:
    """Make a team from such a file, with all its ids and events. Its logs and worktrees are not in it."""
    name = call.home.import_ledger(file, name).name
    call.answer({"team": name}, f"{name} is in {words.clean(call.home.path)}.")


@verb("move", example="interlock ledger move postgresql://interlock@db.example/work\ninterlock ledger move files")
@click.argument("to")
def move_ledgers(call: Call, to: str) -> None:
    """Move all teams to a PostgreSQL server, or with `files` back into this home, with all ids and events."""
    moved = call.home.move_ledgers(to)
    lines = [f"{one.team} moved; rows: {one.sha256}  {words.faint('before: ' + one.kept)}" for one in moved]
    call.answer({"moved": [asdict(one) for one in moved]}, lines or ["There is no team; new ones are made there."])
