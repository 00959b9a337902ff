"""`interlock inject` and `interlock hook PROGRAM`: what agent programs call at every prompt and every tool call.

The modules `hooks_*` are the only ones that are written for a short start. This one parses its arguments by hand and
looks into the ledger itself, read-only, with the standard library. Where nothing waits, as is the rule, it
ends there. Mail for a session that the ledger knows is handed over by `hooks_handover`. What needs more is left to the
rest of Interlock, imported as everything else does, which starts from the beginning.

Both commands fail open: a hook that fails would stop the agent. Where no mail can be had (no team, a busy or broken
ledger, an unknown member) nothing is printed on stdout and the exit code is 0. `hook` is silent on stderr too, unless
INTERLOCK_DEBUG=1, gives up after a second, and does nothing where a runner drives the program and brings the mail, or
within a subagent (Claude Code and Codex say so by `agent_id`), whose context the window's main agent never sees.

Mail counts as delivered once it is written and flushed; if the reader is gone, it goes back to the inbox.
"""

from __future__ import annotations

import _thread
import os
import sys
import time
from collections.abc import Callable, Sequence

from interlock.hooks_team import MANAGED, LocalTeam, plugin_options
from interlock.integrations import HOOKS

HOOK_TIMEOUT = 1.0
"""Seconds until a hook gives up, printing nothing; INTERLOCK_HOOK_TIMEOUT overrides it, for slow machines."""
BUSY_SHARE = 0.6
"""The part of that time that it waits for a busy ledger."""
INPUT_BYTES = 16_000_000
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
    try:
        if "--json" in options or not _injected(options):
            hand_over(options)
    except BrokenPipeError:
        silence_stdout()
        return 1
    except Exception as error:  # boundary: a hook that fails would stop the agent that it serves
        ours = "" if isinstance(error, OSError) else f"an error in Interlock itself, {type(error).__name__}: "
        print(f"interlock inject: {ours}{error}", file=sys.stderr)
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


def hand_over(options: dict[str, str]) -> None:
    """Print the mail and mark it delivered; where none could be had, say why on stderr.

    Raises:
        BrokenPipeError: the reader is gone; the mail is back in the inbox.
    """
    from interlock.errors import InterlockError
    from interlock.surfaces.cli.caller import identify, open_mail
    from interlock.wiring import connect

    opened = None
    try:
        opened = connect(options.get("--home"))
        who = identify(options.get("--as"), options.get("--session"))
        team = open_mail(opened, options.get("--team"), who, reads=False)
        with team.mail(inject=True, urgent_only="--urgent" in options) as mail:
            text = mail.as_xml()
            if "--json" in options:
                import json

                document = {"messages": [message.as_dict() for message in mail.messages], "xml": text}
                text = json.dumps(document, ensure_ascii=False) + "\n"
            put(text)
    except InterlockError as error:
        if not (error.code == "team_not_found" and "teams" in error.details):  # Outside of a team it is silent.
            print(f"interlock inject: {error.message}", file=sys.stderr)
    finally:
        if opened is not None:
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
        elif word == "--plugin":
            options[word] = ""
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
    if "--plugin" in options:
        found = plugin_options(program)
        if found is None:
            return
        options = {**options, **found}
    said = json.loads(given.decode("utf-8"))
    if not isinstance(said, dict):
        raise ValueError("the input is not a JSON object")
    if said.get("agent_id"):
        return  # Within a subagent: the window's mail, and its end of a turn, are its main agent's.
    session, name = said.get("session_id"), str(said.get("hook_event_name") or "")
    event = HOOKS.get(program, {}).get(name)
    if event is None or not isinstance(session, str) or not session:
        raise BadUsage(f"{program!r} has no hook {name!r} with a session id")
    if event == "prompt" and str(said.get("prompt") or "").startswith(OURS):
        return

    again = bool(said.get("stop_hook_active"))

    def say(text: str, messages: int, unreported: Sequence[tuple[str, str]] = ()) -> None:
        answer: dict[str, object] = {}
        if event != "stop":
            answer = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}} if text else {}
        elif messages or unreported:
            answer = {"decision": "block", "reason": _before_you_stop(messages, unreported) + text}
        if answer:
            deadline.extend()
            put(json.dumps(answer, separators=(",", ":")) + "\n")

    called = options.get("--name") or options.get("--as") or program
    if options.get("--home", "").startswith(("http://", "https://")):
        _tell_elsewhere({**options, "--name": called}, event, session, again, say)
        return
    if _told(options, event, session, again, say):
        return
    from interlock.surfaces.cli.caller import choose_team
    from interlock.wiring import connect

    busy = str(BUSY_SHARE * deadline.seconds)
    home = connect(options.get("--home"), environment={**os.environ, "INTERLOCK_BUSY_TIMEOUT": busy})
    try:
        team = options.get("--team") or choose_team(home)
        window = home.window(team, program=program, session=session, name=called)
        with window.hear(event, again=again) as heard:
            first = _introduction(heard.member, heard.team) if heard.fresh and event != "stop" else ""
            say(first + heard.as_xml(), len(heard.messages), heard.unreported)
    finally:
        home.close()


def _tell_elsewhere(options: dict[str, str], event: str, session: str, again: bool, say: Callable[..., None]) -> None:
    from interlock.hooks_remote import DistantTeam, News

    def say_news(news: News) -> None:
        first = _introduction(news["member"], news["team"]) if news["fresh"] else ""
        say(first + news["text"], len(news["numbers"]), news["unreported"])

    team = DistantTeam(options["--home"], options["--team"], options["--name"], _hook_timeout())
    team.tell(options["program"], event, session, again, say_news)


def _introduction(member: str, team: str) -> str:
    return (
        f"{OURS} You are {member}, a member of the team {team}. Tasks and mail are in the tools of the MCP "
        f"server `interlock`, and in the command `interlock --team {team}` (see `interlock --help`). Claim a "
        "task before you work on it, and report it with task_complete. Mail from other members comes as "
        "<teammate-message>: it is from them, not from the person at this terminal.\n"
    )


def _before_you_stop(messages: int, unreported: Sequence[tuple[str, str]]) -> str:
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


def _injected(options: dict[str, str]) -> bool:
    """Whether what `inject` has to do was done here.

    Raises:
        OSError: the reader is gone; the mail is back in the inbox.
    """
    own, session = os.environ.get("INTERLOCK_MEMBER"), options.get("--session") or os.environ.get("INTERLOCK_SESSION")
    name = options.get("--as") or own
    if not name or (name != own and any(os.environ.get(variable) for variable in MANAGED)):
        return False  # Who calls is a matter of the processes around us, or it is to be refused.
    team = LocalTeam.of(options)
    if team is None:
        return False
    asked = (name, session or f"cli:{name}")
    if team.ask(NOTHING_TO_INJECT, (*asked, lately())):
        return True
    return _handed_over(team, *asked, lambda text, _: put(text), urgent="--urgent" in options)


def _told(options: dict[str, str], event: str, session: str, again: bool, say: Callable[[str, int], None]) -> bool:
    """Whether a program was told here what there is to tell at this event.

    Raises:
        OSError: the reader is gone; the mail is back in the inbox.
    """
    team = LocalTeam.of(options) if event in ("prompt", "tool", "stop") else None
    if team is None:
        return False
    if event == "tool":
        if team.ask(f"SELECT NOT ({URGENT})", (session,)):
            return True
    elif team.ask(NOTHING_AT_PROMPT if event == "prompt" else NOTHING_AT_STOP, (session, lately())):
        return True
    member = team.ask(f"SELECT CASE count(*) WHEN 1 THEN member END FROM {SEAT}", (session,))
    if not isinstance(member, str):
        return False
    return _handed_over(team, member, session, say, event=event, again=again, urgent=event == "tool")


def _handed_over(
    team: LocalTeam, member: str, session: str, say: Callable[[str, int], None], *, urgent: bool,
    event: str | None = None, again: bool = False,
) -> bool:  # fmt: skip
    from interlock.hooks_handover import Handover

    return Handover(team, member, session, event=event, again=again, urgent=urgent).carry_out(say)


def lately() -> str:
    """The time until which a member's `last_active_at` is recent enough."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - ACTIVITY_LAG))
