"""`interlock report`"""

from __future__ import annotations

import time

import click

from interlock.clock import iso, seconds
from interlock.errors import InvalidRequest
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb

UNITS = {"m": 60, "h": 3_600, "d": 86_400}


@verb("report", reads=True, example="interlock report --since 12h --format md > report.md")
@click.option("--since", metavar="T", help="Only what was finished since: 12h, 2d, or an ISO 8601 time.")
@click.option("--format", "form", type=click.Choice(["text", "md", "html"]), default="text", show_default=True)
def report(call: Call, since: str | None, form: str) -> None:
    """What needs you, what is done with its evidence, what failed and why, what is left."""
    from interlock.core.reports import text as report_text

    found = call.team().report(None if since is None else moment(since))
    if call.json:
        call.document(found)
        return
    write = {"text": report_text.as_text, "md": report_text.as_markdown, "html": report_text.as_html}[form]
    call.say(write(found))


def moment(text: str) -> str:
    """A time as people give it, as ISO 8601 UTC: `90m`, `12h`, `2d` ago, or an ISO 8601 time.

    Raises:
        InvalidRequest: it is neither.
    """
    number, unit = text[:-1], text[-1:]
    if unit in UNITS and number.isascii() and number.isdigit() and len(number) < 7:
        return iso(max(0.0, time.time() - int(number) * UNITS[unit]))
    try:
        return iso(seconds(text))
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"{text!r} is no time. Use 90m, 12h, 2d, or an ISO 8601 time such as 2026-11-20T18:00:00Z.", field="since"
        ) from None
