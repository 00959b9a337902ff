"""`interlock login` and `logout`: a home elsewhere in place of the one on this machine."""

from __future__ import annotations

import os
import sys

import click

from interlock.app import tokens
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, server_at, verb


@verb("login", example="interlock login http://127.0.0.1:8420")
@click.argument("url")
def login(call: Call, url: str) -> None:
    """Use the home of the server at URL from now on, with every command.

    The token comes from INTERLOCK_TOKEN, standard input or a prompt; `interlock token create` makes one there.
    It is kept in this home, readable by you alone. INTERLOCK_URL and `--home` are stronger.
    """
    with call.home_of_this_machine() as home:
        home.need_person("log in elsewhere")
        token = os.environ.get("INTERLOCK_TOKEN") or ""
        if not token and sys.stdin.isatty():
            token = click.prompt("Token", hide_input=True, err=True)
        token = (token or sys.stdin.readline()).strip()
        with server_at(url, token) as there:
            teams = there.teams()
        tokens.log_in(home.path, tokens.Login(there.path, token))
    found = f"{words.count(len(teams), 'team')} there. `interlock logout` returns to this machine."
    call.answer({"url": there.path, "teams": teams}, f"Logged in at {there.path}: {found}")


@verb("logout", example="interlock logout")
def logout(call: Call) -> None:
    """Forget the server of `interlock login`; commands use the home on this machine again."""
    with call.home_of_this_machine() as home:
        home.need_person("log out")
        was = tokens.log_out(home.path)
    call.answer({"logged_out": was}, "Logged out." if was else "Nobody was logged in here.")
