"""How a notification leaves: to a program of the user's, or to an address. Both get a few seconds and then end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.parse import urlsplit

from interlock.commands import words_of
from interlock.errors import InvalidRequest

SECONDS = 10.0
OWN = ("INTERLOCK_RUN_TOKEN", "INTERLOCK_RUN_WITHIN", "INTERLOCK_SESSION", "INTERLOCK_MEMBER", "INTERLOCK_RUN")
"""Variables that say who acts: a user's program is none of ours."""


@dataclass(frozen=True, slots=True)
class Way:
    """`command` or `webhook`, and the program's words or the address."""

    kind: str
    words: tuple[str, ...] = ()
    url: str = ""


def ways(command: str, webhook: str) -> list[Way]:
    """What these settings ask for; empty texts ask for nothing.

    Raises:
        InvalidRequest: the command or the address makes no sense.
    """
    found = []
    if command.strip():
        found.append(Way("command", tuple(words_of(command, "notify.command"))))
    if webhook.strip():
        parts = urlsplit(webhook.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequest(
                "notify.webhook must be an address that begins with https:// or http://.", field="notify.webhook"
            )
        found.append(Way("webhook", url=webhook.strip()))
    return found


class Sender:
    """Sends one notification after the other. `end` ends what is under way, from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def send(self, way: Way, document: Mapping[str, Any]) -> str | None:
        """Send it; what went wrong, or null. Takes at most `SECONDS`, and a little to end a program."""
        if way.kind == "command":
            return self._run(way.words, document)
        return _within(SECONDS, lambda: _post(way.url, document))

    def end(self) -> None:
        """End the program that is told just now, and begin no other."""
        with self._lock:
            self._ended = True
            if self._process is not None:
                _kill(self._process)

    def _run(self, words: tuple[str, ...], document: Mapping[str, Any]) -> str | None:
        environment = {name: value for name, value in os.environ.items() if name not in OWN}
        for name in ("title", "team", "task", "link", "count"):
            environment[f"INTERLOCK_NOTICE_{name.upper()}"] = str(document[name] if document[name] is not None else "")
        try:
            with self._lock:
                if self._ended:
                    return None
                self._process = process = subprocess.Popen(
                    words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    env=environment, start_new_session=True,
                )  # fmt: skip
        except (OSError, ValueError) as error:
            return f"{words[0]} could not be started: {getattr(error, 'strerror', None) or error}"
        try:
            process.communicate(json.dumps(document, ensure_ascii=False).encode() + b"\n", timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"{words[0]} did not end within {SECONDS:.0f} s and was ended"
        except BrokenPipeError:
            process.wait()  # It reads nothing, which is its affair.
        finally:
            with self._lock:
                _kill(process)
                self._process = None
        return None if process.returncode == 0 or self._ended else f"{words[0]} ended with {process.returncode}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program with everything in its group; it was started as the leader of one and is not yet waited for, or
    what it left behind is."""
    try:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    except (ProcessLookupError, PermissionError):
        pass


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What is for one address goes nowhere else."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """See urllib."""
        return


def _post(url: str, document: Mapping[str, Any]) -> str | None:
    # The address may hold a secret: what went wrong is told without it.
    request = urllib.request.Request(
        url,
        json.dumps(document).encode(),
        {"Content-Type": "application/json", "User-Agent": "interlock"},
        method="POST",
    )
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=SECONDS):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        return f"the address answered {error.code}"
    except urllib.error.URLError as error:
        return f"the address could not be reached: {error.reason}"
    except (OSError, HTTPException, ValueError) as error:
        return f"the address could not be reached: {type(error).__name__}"


def _within(limit: float, do: Any) -> str | None:
    """What `do` answers, or that it took too long; it is then left to itself."""
    answer: list[str | None] = []
    thread = threading.Thread(target=lambda: answer.append(do()), name="notice", daemon=True)
    thread.start()
    thread.join(limit)
    return answer[0] if answer else f"no answer within {limit:.0f} s"
