"""What concerns a whole home: `interlock config …`, `token …`, `doctor`."""

from __future__ import annotations

import os
import sys

import click

from interlock.app.home import SettingValue
from interlock.errors import InvalidRequest
from interlock.model.names import ROLES
from interlock.settings import known
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb


@verb("list", reads=True, example="interlock config list --team alpha-squad")
def list_settings(call: Call) -> None:
    """Every setting, its value and where it comes from: of the home, or with --team as it holds for that team."""
    found = _settings(call)
    rows = [
        [
            words.strong(one.name),
            _value(one.value),
            one.source if one.source != "default" else words.faint("default"),
            words.clean(one.help),
        ]
        for one in found
    ]
    call.answer({"settings": found}, words.table(["SETTING", "VALUE", "FROM", "MEANING"], rows))


@verb("get", reads=True, example="interlock config get message_bytes")
@click.argument("name")
def get(call: Call, name: str) -> None:
    """One setting's value; with --json also where it comes from, its default and its help."""
    found = _setting(call, name)
    call.answer(found, _value(found.value))


@verb("set", example="interlock config set claim_policy soft --team alpha-squad")
@click.argument("name")
@click.argument("value", required=False)
@click.option("--unset", is_flag=True, help="Go back to what holds without it.")
def set_(call: Call, name: str, value: str | None, unset: bool) -> None:
    """Set a setting of the home, or with --team of that team.

    The value - is read from standard input, so that no list of processes shows it.
    """
    if (value is None) != unset:
        raise click.UsageError("Say a value, or --unset.")
    if value == "-":
        value = sys.stdin.readline().rstrip("\n")
    (call.team() if call.asked.team else call.home).configure({name: value})
    found = _setting(call, name)
    call.answer(found, f"{words.strong(name)} = {_value(found.value)}  {words.faint('from: ' + found.source)}")
    if found.source == "environment":
        call.warn([f"{found.variable} in the environment is stronger."])


def _settings(call: Call) -> list[SettingValue]:
    found = call.home.settings()
    if call.asked.team:
        team = call.team()
        for one in found:
            if one.scope == "team":
                one.value, one.source = team.setting(one.name)
    return found


def _setting(call: Call, name: str) -> SettingValue:
    known(name)
    return next(one for one in _settings(call) if one.name == name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return " ↵ ".join(words.clean(line) for line in str(value).split("\n"))


@verb("create", example="interlock token create --member researcher\ninterlock token create --person eva --role viewer")
@click.option("--member", metavar="M", help="A token for a member of the team: it acts as that one.")
@click.option("--person", metavar="P", help="A token for a person: in all teams, or in the one that --team names.")
@click.option("--machine", metavar="M", help="A token for a machine that does the team's tasks, and nothing else.")
@click.option("--role", type=click.Choice(list(ROLES)), help="What it allows [default: as for whom it is].")
@click.option("--expires", metavar="T", help="It is good for so long only: 90m, 12h, 30d.")
def create_token(
    call: Call, member: str | None, person: str | None, machine: str | None, role: str | None, expires: str | None
) -> None:
    """Make a token, and show it this once.

    viewer: read; operator: chat, answer and work on tasks; admin: everything; worker: a member at work; machine: one
    that does a team's tasks.
    """
    if [member, person, machine].count(None) != 2:
        raise InvalidRequest("Say whose token it is: `--member M`, `--person P` or `--machine M`.", field="member")
    call.home.need_person("make a token")
    tokens, lasting = call.home.tokens(), None if expires is None else words.seconds(expires, "expires")
    if member is not None:
        if role not in (None, "worker"):
            raise InvalidRequest("A member is always a worker; `--person P` goes with the other roles.", field="role")
        team = call.team()
        named = next((one for one in team.members() if member in (one.name, one.session_key)), None)
        if named is None:
            team.history(member=member, limit=1)  # Says who is near.
        made, secret = tokens.create(named.name if named else member, team=team.name, role="worker", lasting=lasting)
    elif machine is not None:
        if role not in (None, "machine"):
            raise InvalidRequest("A machine's role is `machine`.", field="role")
        made, secret = tokens.create(machine, team=call.team().name, role="machine", lasting=lasting)
    else:
        own = call.team().name if call.asked.team and role not in ("worker", "machine") else None
        made, secret = tokens.create(str(person), role=role or "operator", team=own, lasting=lasting)
    lines = [secret, f"{made.id}: {made.name}, {made.role}. It is shown this once; `interlock token revoke {made.id}`."]
    call.answer({**made.as_dict(), "token": secret}, lines)


@verb("list", example="interlock token list")
def list_tokens(call: Call) -> None:
    """Every token: whose it is, and what it allows. The secrets are not kept."""
    found = call.home.tokens().list()
    rows = [
        (token.id, token.name, token.team or "all teams", token.role, token.created_at, token.expires_at or "")
        for token in found
    ]
    shown = (
        words.table(["ID", "NAME", "TEAM", "ROLE", "MADE", "EXPIRES"], rows)
        if rows
        else ["There is none but the home's own."]
    )
    call.answer({"tokens": [token.as_dict() for token in found]}, shown)


@verb("revoke", example="interlock token revoke 1f2e3d4c")
@click.argument("id")
def revoke_token(call: Call, id: str) -> None:
    """Revoke a token. It is refused from now on, and streams that it opened end within seconds."""
    call.home.need_person("revoke a token")
    gone = call.home.tokens().revoke(id)
    call.answer(gone.as_dict(), f"{gone.id} of {gone.name} is revoked.")


@verb("doctor", example="interlock doctor --repair")
@click.option("--repair", is_flag=True, help="Repair what can be repaired without losing anything.")
@click.option("--adopt", is_flag=True, help="Take over subject and body from task files that were edited by hand.")
def doctor(call: Call, repair: bool, adopt: bool) -> int:
    """Check ledger, files and mirror of all teams, or of the one named. The exit code is 1 while something is wrong."""
    named = call.asked.team or os.environ.get("INTERLOCK_TEAM")
    result = call.home.doctor(named, repair=repair, adopt=adopt)
    teams = [named] if named else call.home.teams()
    lines = []
    for finding in result.findings:
        level = click.style(finding.level, fg={"error": "red", "warning": "yellow"}.get(finding.level, "cyan"))
        repaired = click.style("  repaired", fg="green") if finding.repaired else ""
        lines.append(f"{level}  {words.strong(finding.team or 'home')}  {words.clean(finding.what)}{repaired}")
        lines += [f"    {words.faint(finding.path)}"] if finding.path else []
    checked = f"{words.count(len(teams), 'team')} checked"
    if result.healthy:
        lines.append(f"{click.style('healthy', fg='green')}: {checked}")
    else:
        lines.append(checked + ("" if repair else "; `interlock doctor --repair` repairs what can be repaired"))
    call.answer({"healthy": result.healthy, "teams": teams, "findings": result.findings}, lines)
    return 0 if result.healthy else 1
