"""`interlock config …`: of the home, and with `--team` of that team."""

from __future__ import annotations

from typing import Any

import click

from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.table import table


@verb("list", reads=True, example="interlock config list --team alpha-squad")
def list_(call: Call) -> None:
    """Every setting, its value and where it comes from: of the home, or with --team as it holds for that team."""
    found = _settings(call)
    rows = [
        [
            words.strong(one["name"]),
            _shown(one["value"]),
            one["source"] if one["source"] != "default" else words.faint("default"),
            words.clean(one["help"]),
        ]
        for one in found
    ]
    call.answer({"settings": found}, table(["SETTING", "VALUE", "FROM", "MEANING"], rows))


@verb("get", reads=True, example="interlock config get message_bytes")
@click.argument("name")
def get(call: Call, name: str) -> None:
    """One setting's value; with --json also where it comes from, its default and its help."""
    found = _setting(call, name)
    call.answer(found, _shown(found["value"]))


@verb("set", example="interlock config set claim_policy soft --team alpha-squad")
@click.argument("name")
@click.argument("value", required=False)
@click.option("--unset", is_flag=True, help="Go back to what holds without it.")
def set_(call: Call, name: str, value: str | None, unset: bool) -> None:
    """Set a setting of the home, or with --team of that team."""
    if (value is None) != unset:
        raise click.UsageError("Say a value, or --unset.")
    if call.asked_team:
        call.team().configure({name: value})
    else:
        call.home.configure({name: value})
    found = _setting(call, name)
    call.answer(found, f"{words.strong(name)} = {_shown(found['value'])}  {words.faint('from: ' + found['source'])}")
    if found["source"] == "environment":
        call.warn([f"{found['variable']} in the environment is stronger."])


def _settings(call: Call) -> list[dict[str, Any]]:
    found = call.home.settings()
    if call.asked_team:
        team = call.team()
        for one in found:
            one["value"], one["source"] = team.setting(one["name"])
    return found


def _setting(call: Call, name: str) -> dict[str, Any]:
    from interlock.settings import known

    known(name)
    return next(one for one in _settings(call) if one["name"] == name)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return " ↵ ".join(words.clean(line) for line in str(value).split("\n"))
