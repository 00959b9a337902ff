"""`interlock stop` and `interlock down`"""

from __future__ import annotations

import click

from interlock.errors import NotAvailable
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb


@verb("stop", example="$ interlock stop --now --member researcher")
@click.option("--now", is_flag=True, help="Without waiting for what is under way.")
@click.option("--member", metavar="M", help="Only this member.")
def stop(call: Call, now: bool, member: str | None) -> None:
    """Stop a team's runner, or one member."""
    raise NotAvailable("`interlock stop` is not part of this version yet; nothing was done.", verb="interlock stop")


@verb("down", example="$ interlock down")
def down(call: Call) -> None:
    """Stop everything that runs in this home."""
    raise NotAvailable("`interlock down` is not part of this version yet; nothing was done.", verb="interlock down")
