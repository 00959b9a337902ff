"""`interlock inject` and `interlock hook PROGRAM`: what agent programs call at every prompt and every tool call.

This is the only module that is written for a short start. It parses its arguments by hand and looks into the ledger
itself, read-only, with the standard library; where nothing waits, as is the rule, it ends there. Otherwise it imports
the rest of Interlock as everything else does, which repeats the look properly.

Both commands fail open: a hook that fails would stop the agent. Where no mail can be had (no team, a busy or broken
ledger, an unknown member) nothing is printed on stdout and the exit code is 0. `hook` is silent on stderr too, unless
INTERLOCK_DEBUG=1, gives up after a second, and does nothing where a runner drives the program and brings the mail.

Mail counts as delivered once it is written and flushed; if the reader is gone, it goes back to the inbox.
"""

from __future__ import annotations

import _thread
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable

from interlock.integrations.events import HOOKS

HOOK_TIMEOUT = 1.0
"""Seconds until a hook gives up, printing nothing; INTERLOCK_HOOK_TIMEOUT overrides it, for slow machines."""
BUSY_SHARE = 0.6
"""The part of that time that it waits for a busy ledger."""
INPUT_BYTES = 16_000_000
MANAGED = ("INTERLOCK_SESSION", "INTERLOCK_RUN_TOKEN")
"""Variables that a runner sets for its own programs."""
OURS = "[interlock]"
"""How our text to a program begins: if the program sends it back as a prompt, that is no new turn."""
ACTIVITY_LAG = 600
"""Seconds by which a member's `last_active_at` may be out of date: a hook with nothing to say writes nothing until
then."""
USAGE = "Usage: interlock inject [--team T] [--as M] [--session S] [--urgent] [--json] [--home DIR]"

UNSEEN = (
    "NOT EXISTS (SELECT 1 FROM messages WHERE recipient = members.name AND stage IN ('stored', 'offered')) "
    "AND NOT EXISTS (SELECT 1 FROM messages WHERE recipient = members.name AND stage = 'delivered')"
)
"""Nothing waits, and nothing that was handed over is left to be acknowledged."""
NOTHING_TO_INJECT = (
    "SELECT count(*) FROM members JOIN sessions ON member = name WHERE name = ? AND sessions.id = ? "
    f"AND role <> 'lead' AND ended_at IS NULL AND last_active_at > ? AND {UNSEEN}"
)
SEAT = "sessions WHERE sessions.id = ?1 AND program IS NOT NULL AND ended_at IS NULL"
URGENT = (
    f"SELECT count(*) FROM messages WHERE recipient IN (SELECT member FROM {SEAT}) "
    "AND stage IN ('stored', 'offered') AND urgent"
)
NOTHING_AT_PROMPT = (
    f"SELECT (SELECT count(*) FROM {SEAT}) = 1 AND EXISTS (SELECT 1 FROM members JOIN {SEAT} AND name = member "
    f"AND role <> 'lead' AND NOT sent_back AND last_active_at > ?2 AND {UNSEEN})"
)
NOTHING_AT_STOP = (
    f"SELECT (SELECT count(*) FROM {SEAT}) = 0 OR (SELECT count(*) FROM {SEAT}) = 1 AND EXISTS (SELECT 1 FROM members "
    f"JOIN {SEAT} AND name = member AND last_active_at > ?2 AND {UNSEEN} AND NOT EXISTS (SELECT 1 FROM runs "
    "WHERE runs.ended_at IS NULL AND runner IS NULL AND runs.member = name AND runs.session = sessions.id))"
)


class BadUsage(Exception):
    """The arguments cannot be understood."""


class Deadline:
    """Ends this process silently when the time is up, whatever it is waiting for in Python or in the system."""

    def __init__(self, seconds: float) -> None:
        self._lock = _thread.allocate_lock()
        self.seconds = seconds
        self._ends = time.monotonic() + seconds
        _thread.start_new_thread(self._watch, ())

    def extend(self) -> None:
        """Grant the same time again: what is being printed is printed whole, and noted as delivered."""
        with self._lock:
            self._ends = time.monotonic() + self.seconds

    def _watch(self) -> None:
        while True:
            left = self._ends - time.monotonic()
            if left > 0:
                time.sleep(left)
                continue
            with self._lock:
                if self._ends <= time.monotonic():
                    os._exit(0)


def run_inject(arguments: list[str]) -> int | None:
    """Carry out `interlock inject` with these arguments; the exit code, or None where help is asked for."""
    try:
        options = parse_inject(arguments)
    except BadUsage as error:
        if "--json" in arguments:
            import json

            print(json.dumps({"error": "invalid_request", "message": f"{error} {USAGE}"}), file=sys.stderr)
        else:
            print(f"{USAGE}\n\nError: {error}", file=sys.stderr)
        return 2
    if options is None:
        return None
    if "--json" not in options and _nothing_to_inject(options):
        return 0
    from interlock.errors import InterlockError

    try:
        hand_over(
            options.get("--home"),
            options.get("--team"),
            options.get("--as"),
            options.get("--session"),
            urgent="--urgent" in options,
            as_json="--json" in options,
        )
    except InterlockError as error:
        if not (error.code == "team_not_found" and "teams" in error.details):  # Outside of a team it is silent.
            print(f"interlock inject: {error.message}", file=sys.stderr)
    except BrokenPipeError:
        silence_stdout()
        return 1
    except OSError as error:
        print(f"interlock inject: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 0


def parse_inject(arguments: list[str]) -> dict[str, str] | None:
    """The options by name, flags with an empty value; None where `--help` is among them.

    Raises:
        BadUsage: an unknown option, a missing value, or an argument too many.
    """
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word in ("--help", "-h"):
            return None
        if name in ("--home", "--team", "--as", "--session"):
            value = value if equals else next(words, "")
            if not value:
                raise BadUsage(f"Option {name} needs a value.")
            options[name] = value
        elif word in ("--json", "--urgent"):
            options[word] = ""
        else:
            raise BadUsage(f"No such option or argument: {word}")
    return options


def hand_over(
    home: str | None, team: str | None, member: str | None, session: str | None, *, urgent: bool, as_json: bool
) -> None:
    """Print the mail and mark it delivered.

    Raises:
        InterlockError: no mail could be had; nothing was printed.
        BrokenPipeError: the reader is gone; the mail is back in the inbox.
    """
    from interlock.surfaces.cli.caller import identify, open_mail
    from interlock.wiring import connect

    opened = connect(home)
    try:
        who = identify(member, session)
        with open_mail(opened, team, who, reads=False).mail(inject=True, urgent_only=urgent) as mail:
            text = mail.as_xml()
            if as_json:
                import json

                document = {"messages": [message.as_dict() for message in mail.messages], "xml": text}
                text = json.dumps(document, ensure_ascii=False) + "\n"
            put(text)
    finally:
        opened.close()


def run_hook(arguments: list[str]) -> int | None:
    """Carry out `interlock hook` with these arguments and the event on stdin; 0, or None where help is asked for."""
    deadline = Deadline(_hook_timeout())
    try:
        options = _parse_hook(arguments)
        if options is None:
            return None
        if not any(os.environ.get(name) for name in MANAGED):
            _answer_hook(options, sys.stdin.buffer.read(INPUT_BYTES), deadline)
    except KeyboardInterrupt:
        pass
    except Exception as error:  # boundary: a hook that fails would stop the agent that it serves
        if os.environ.get("INTERLOCK_DEBUG"):
            print(f"interlock hook: {getattr(error, 'message', f'{type(error).__name__}: {error}')}", file=sys.stderr)
        silence_stdout()
    return 0


def _hook_timeout() -> float:
    try:
        return max(0.05, min(float(os.environ.get("INTERLOCK_HOOK_TIMEOUT") or HOOK_TIMEOUT), 600.0))
    except ValueError:
        return HOOK_TIMEOUT


def _parse_hook(arguments: list[str]) -> dict[str, str] | None:
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word in ("--help", "-h"):
            return None
        if name in ("--home", "--team", "--name", "--as"):
            options[name] = value if equals else next(words, "")
        elif not word.startswith("-") and "program" not in options:
            options["program"] = word
        elif word != "--json":
            raise BadUsage(f"no such option or argument: {word}")
    return options


def _answer_hook(options: dict[str, str], given: bytes, deadline: Deadline) -> None:
    """Tell the program what there is to tell, in the form it expects.

    Raises:
        InterlockError: there is no team, no seat or no way to read; nothing was printed.
        ValueError, BadUsage: the input or the arguments make no sense.
        OSError: the reader is gone; the mail is back in the inbox.
    """
    import json

    program = options.get("program", "")
    said = json.loads(given.decode("utf-8"))
    if not isinstance(said, dict):
        raise ValueError("the input is not a JSON object")
    session, name = said.get("session_id"), str(said.get("hook_event_name") or "")
    event = HOOKS.get(program, {}).get(name)
    if event is None or not isinstance(session, str) or not session:
        raise BadUsage(f"{program!r} has no hook {name!r} with a session id")
    if event == "prompt" and str(said.get("prompt") or "").startswith(OURS):
        return
    if _nothing_to_tell(options, event, session):
        return
    from interlock.surfaces.cli.caller import choose_team
    from interlock.wiring import connect

    busy = str(BUSY_SHARE * deadline.seconds)
    home = connect(options.get("--home"), environment={**os.environ, "INTERLOCK_BUSY_TIMEOUT": busy})
    try:
        team = options.get("--team") or choose_team(home)
        called = options.get("--name") or options.get("--as") or program
        window = home.window(team, program=program, session=session, name=called)
        with window.hear(event, again=bool(said.get("stop_hook_active"))) as heard:
            text = heard.as_xml()
            answer: dict[str, object] = {}
            if event == "stop":
                if heard.messages or heard.unreported:
                    answer = {
                        "decision": "block",
                        "reason": _before_you_stop(len(heard.messages), heard.unreported) + text,
                    }
            else:
                text = (_introduction(heard.member, heard.team) if heard.fresh else "") + text
                if text:
                    answer = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}
            if answer:
                deadline.extend()
                put(json.dumps(answer, separators=(",", ":")) + "\n")
    finally:
        home.close()


def _introduction(member: str, team: str) -> str:
    return (
        f"{OURS} You are {member}, a member of the team {team}. Tasks and mail are in the tools of the MCP "
        f"server `interlock`, and in the command `interlock --team {team}` (see `interlock --help`). Claim a "
        "task before you work on it, and report it with task_complete. Mail from other members comes as "
        "<teammate-message>: it is from them, not from the person at this terminal.\n"
    )


def _before_you_stop(messages: int, unreported: Iterable[tuple[str, str]]) -> str:
    parts = []
    if messages:
        parts.append(f"{messages} unread message{'s' if messages > 1 else ''}. Read, and act on what asks for it.")
    for id, subject in unreported:
        parts.append(
            f'{id} ("{subject}") is in progress and has no report. Finish it and call task_complete, report what '
            "blocks it, or give it back with task_update(release=true)."
        )
    return f"{OURS} Before you stop: " + "\n".join(parts) + "\n"


def put(text: str) -> None:
    """Write all of `text` to stdout, or raise.

    Where Python does not buffer (PYTHONUNBUFFERED), its own `write` silently drops what does not fit into the pipe at
    once, and mail that nobody got would count as delivered.

    Raises:
        OSError: the reader is gone.
    """
    data = text.encode(sys.stdout.encoding or "utf-8", "replace")
    while data:
        data = data[sys.stdout.buffer.write(data) :]
    sys.stdout.flush()


def silence_stdout() -> None:
    """Send the interpreter's last flush nowhere: whoever read our output is gone."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass


def _nothing_to_inject(options: dict[str, str]) -> bool:
    """Whether it is certain that `inject` would print nothing and have nothing to record."""
    own, session = os.environ.get("INTERLOCK_MEMBER"), os.environ.get("INTERLOCK_SESSION")
    name = options.get("--as") or own
    if not name or (name != own and any(os.environ.get(variable) for variable in MANAGED)):
        return False  # Who calls is a matter of the processes around us, or it is to be refused.
    return _ask(
        options,
        lambda ledger, lately: bool(
            ledger.execute(
                NOTHING_TO_INJECT, (name, options.get("--session") or session or f"cli:{name}", lately)
            ).fetchone()[0]
        ),
    )


def _nothing_to_tell(options: dict[str, str], event: str, session: str) -> bool:
    """Whether it is certain that a program would be told nothing at this event, and that there is nothing to record."""
    if event == "tool":
        return _ask(options, lambda ledger, _: not ledger.execute(URGENT, (session,)).fetchone()[0])
    if event not in ("prompt", "stop"):
        return False
    query = NOTHING_AT_PROMPT if event == "prompt" else NOTHING_AT_STOP
    return _ask(options, lambda ledger, lately: bool(ledger.execute(query, (session, lately)).fetchone()[0]))


def _ask(options: dict[str, str], question: Callable[[sqlite3.Connection, str], bool]) -> bool:
    """What the ledger answers; false where it cannot be asked this way, which the slow path deals with."""
    team = options.get("--team") or os.environ.get("INTERLOCK_TEAM") or _team_of_file()
    if not team or "/" in team or team.startswith("."):
        return False
    home = os.path.expanduser(options.get("--home") or os.environ.get("INTERLOCK_HOME") or "~/.interlock")
    path = os.path.join(os.path.abspath(home), "teams", team, "ledger.db")
    for character in "%?#":
        path = path.replace(character, f"%{ord(character):02x}")
    lately = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - ACTIVITY_LAG))
    try:
        ledger = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0.1, isolation_level=None)
        try:
            return question(ledger, lately)
        finally:
            ledger.close()
    except (sqlite3.Error, ValueError):  # ValueError: a name that no query can carry
        return False


def _team_of_file() -> str:
    """The team that the nearest `interlock.toml` names in a plain line; what is not that plain is left to a parser."""
    try:
        directory = os.path.realpath(os.getcwd())
        while not os.path.exists(path := os.path.join(directory, "interlock.toml")):
            if directory == (directory := os.path.dirname(directory)):
                return ""
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except (OSError, ValueError):
        return ""
    found = [line for line in lines if line.startswith("team")]
    key, _, value = found[0].partition("=") if len(found) == 1 else ("", "", "")
    name = value.strip()[1:-1]
    plain = key.strip() == "team" and value.strip() == f'"{name}"' and name.replace("-", "").replace("_", "").isalnum()
    only_keys = all(not line.strip() or line.lstrip()[0] == "#" or "=" in line for line in lines)
    return name if plain and only_keys and '"""' not in "".join(lines) else ""
