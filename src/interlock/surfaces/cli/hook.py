"""`interlock hook PROGRAM`: what `interlock join` puts into an agent program's settings.

The program says on stdin, in JSON, what happens and in which of its sessions; what it is to be told goes to stdout, in
the shape that it expects. It runs at every prompt and every tool call, so it is parsed by hand and loads nothing that
costs.

It fails open: outside of a team, on a locked or broken ledger, after a second, on input it cannot make out, and where
a runner drives the program and brings the mail itself, it prints nothing and exits with 0. With INTERLOCK_DEBUG=1 it
says why on stderr.
"""

from __future__ import annotations

import os
import sys
import time

from interlock.errors import InterlockError
from interlock.joining.events import HOOKS
from interlock.jsontext import from_json, json_string
from interlock.surfaces.cli.inject import BadUsage, put, silence_stdout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.joined import Heard

VALUES = ("--home", "--team", "--name", "--as")
PATIENCE = 1.0
"""Seconds until it gives up, printing nothing; `INTERLOCK_HOOK_TIMEOUT` says otherwise, for slower machines."""
BUSY = 0.6
"""The part of it that it waits for a busy ledger."""
INPUT_BYTES = 16_000_000
MANAGED = ("INTERLOCK_SESSION", "INTERLOCK_RUN_TOKEN")
"""Variables by which a runner's own programs are known."""
OURS = "[interlock]"
"""How what we send a program back with begins: should it come back as a prompt, that is no new turn."""


class Deadline:
    """Ends this process, silently, when the time is up: whatever it then waits for, in Python or in the system."""

    def __init__(self, seconds: float) -> None:
        import _thread

        self._lock = _thread.allocate_lock()
        self.seconds = seconds
        self._ends = time.monotonic() + seconds
        _thread.start_new_thread(self._watch, ())

    def printing(self) -> None:
        """From here on what was begun is printed whole; noting that it was gets as long again."""
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


def run(arguments: list[str]) -> int | None:
    """Do what the hook's line and its input say; always 0, or null where help is asked for."""
    deadline = Deadline(patience())
    try:
        options = parse(arguments)
        if options is None:
            return None
        if not any(os.environ.get(name) for name in MANAGED):
            answer(options, sys.stdin.buffer.read(INPUT_BYTES), deadline)
    except KeyboardInterrupt:
        pass
    except Exception as error:  # boundary: a hook that fails would stop the agent that it is to help
        explain(error)
        silence_stdout()
    return 0


def patience() -> float:
    """How many seconds it may take."""
    try:
        return max(0.05, min(float(os.environ.get("INTERLOCK_HOOK_TIMEOUT") or PATIENCE), 600.0))
    except ValueError:
        return PATIENCE


def parse(arguments: list[str]) -> dict[str, str] | None:
    """The options by name, and the program as `program`; null where `--help` is among them.

    Raises:
        BadUsage: it is none of ours.
    """
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word in ("--help", "-h"):
            return None
        if name in VALUES:
            options[name] = value if equals else next(words, "")
        elif not word.startswith("-") and "program" not in options:
            options["program"] = word
        elif word != "--json":
            raise BadUsage(f"no such option or argument: {word}")
    return options


def answer(options: dict[str, str], given: bytes, deadline: Deadline) -> None:
    """Tell the program what there is to tell.

    Raises:
        InterlockError: nothing could be had; nothing was printed.
        ValueError, BadUsage: the input or the arguments make no sense.
        OSError: the reader is gone; the mail was given back.
    """
    program = options.get("program", "")
    said = from_json(given.decode("utf-8"))
    if not isinstance(said, dict):
        raise ValueError("the input is no JSON object")
    session, name = said.get("session_id"), str(said.get("hook_event_name") or "")
    event = HOOKS.get(program, {}).get(name)
    if event is None or not isinstance(session, str) or not session:
        raise BadUsage(f"{program!r} has no hook {name!r} with a session id")
    if event == "prompt" and str(said.get("prompt") or "").startswith(OURS):
        return
    from interlock.app import connect
    from interlock.surfaces.cli.caller import choose_team

    busy = str(BUSY * deadline.seconds)
    home = connect(options.get("--home"), environment={**os.environ, "INTERLOCK_BUSY_TIMEOUT": busy})
    try:
        team = options.get("--team") or choose_team(home)
        called = options.get("--name") or options.get("--as") or program
        window = home.window(team, program=program, session=session, name=called)
        with window.hear(event, again=bool(said.get("stop_hook_active"))) as heard:
            text = shaped(event, name, heard)
            if text:
                deadline.printing()
                put(text)
    finally:
        home.close()


def shaped(event: str, name: str, heard: Heard) -> str:
    """What the program is told, in the shape it expects; empty for nothing."""
    if event == "stop":
        text = _reason(heard)
        return f'{{"decision":"block","reason":{json_string(text)}}}\n' if text else ""
    text = heard.as_xml()
    if heard.fresh:
        text = introduction(heard) + text
    if not text:
        return ""
    return f'{{"hookSpecificOutput":{{"hookEventName":{json_string(name)},"additionalContext":{json_string(text)}}}}}\n'


def introduction(heard: Heard) -> str:
    """What a window is told when it begins."""
    return (
        f"{OURS} You are {heard.member}, a member of the team {heard.team}. Tasks and mail are in the tools of the MCP "
        f"server `interlock`, and in the command `interlock --team {heard.team}` (see `interlock --help`). Claim a "
        "task before you work on it, and report it with task_complete. Mail from other members comes as "
        "<teammate-message>: it is from them, not from the person at this terminal.\n"
    )


def _reason(heard: Heard) -> str:
    parts = []
    if heard.messages:
        count = len(heard.messages)
        parts.append(f"{count} unread message{'s' if count > 1 else ''}. Read, and act on what asks for it.")
    for id, subject in heard.unreported:
        parts.append(
            f'{id} ("{subject}") is in progress and has no report. Finish it and call task_complete, report what '
            "blocks it, or give it back with task_update(release=true)."
        )
    return f"{OURS} Before you stop: " + "\n".join(parts) + "\n" + heard.as_xml() if parts else ""


def explain(error: Exception) -> None:
    """Say why there was nothing, where somebody looks into it."""
    if os.environ.get("INTERLOCK_DEBUG"):
        message = error.message if isinstance(error, InterlockError) else f"{type(error).__name__}: {error}"
        print(f"interlock hook: {message}", file=sys.stderr)
