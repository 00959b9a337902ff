"""A hook of a program whose team is on another machine: one request says what happened, and brings what there is to
tell; where there is mail, a second one says that it was printed. Nothing is asked twice: what an answer that was lost
has offered is offered again.

The token is `INTERLOCK_TOKEN`, or the one that `interlock login` keeps for that address, and is sent nowhere else.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

ANSWER_BYTES = 4_000_000
LOGIN = "login.json"
News = dict[str, Any]
"""The JSON of an `core.sessions.WindowNews`."""


class ServerRefused(Exception):
    """The server does not answer as it should, or says no."""


class DistantTeam:
    """A team of the server at an address, seen by one of its members, for the length of a hook.

    Args:
        patience: seconds that a connection or an answer may take.
    """

    def __init__(self, url: str, name: str, member: str, patience: float) -> None:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(str(parts.hostname), parts.port, timeout=patience)
        self._at = f"{parts.path.rstrip('/')}/api/verbs/teams/{quote(name, safe='')}/"
        self._member = member
        self._headers = {"content-type": "application/json"}
        token = os.environ.get("INTERLOCK_TOKEN") or _token_for(url.rstrip("/"))
        if token:
            self._headers["authorization"] = f"Bearer {token}"

    def tell(self, program: str, event: str, session: str, again: bool, say: Callable[[News], None]) -> None:
        """Say what happened in a window, have `say` print what is to be told, and say that it was.

        Raises:
            OSError, http.client.HTTPException: the server cannot be reached, or the reader is gone.
            ServerRefused: it says no.
        """
        given: dict[str, Any] = {"event": event, "program": program, "session": session, "again": again}
        alive: Callable[[str], bool | None] | None = None
        if event in ("start", "prompt"):
            from interlock.processes import ancestry, ref

            alive = ref.alive
            found = ancestry.starter()
            given["process"] = found and found.as_text()
        try:
            news = self._call("window_hears", given)
            delivered = False
            try:
                say(news)
                delivered = True
            finally:
                if news["numbers"]:
                    self._call("finish_handover", {"numbers": news["numbers"], "delivered": delivered}, session)
            # The server cannot see which of the member's other windows on this machine are gone.
            gone = [process for process in news.get("beside", ()) if alive and alive(process) is False]
            if gone:
                self._call("windows_gone", {"processes": gone})
        finally:
            self._connection.close()

    def _call(self, verb: str, arguments: dict[str, Any], session: str | None = None) -> Any:
        body = json.dumps({"arguments": arguments, "name": self._member, "session": session})
        self._connection.request("POST", self._at + verb, body, self._headers)
        answer = self._connection.getresponse()
        text = answer.read(ANSWER_BYTES)
        try:
            found = json.loads(text)
        except ValueError:
            raise ServerRefused(f"the server answers {answer.status}, not as Interlock does") from None
        if answer.status >= 300:
            raise ServerRefused(str(found.get("message", found))[:1000])
        return found


def _token_for(url: str) -> str | None:
    home = os.path.expanduser(os.environ.get("INTERLOCK_HOME") or "~/.interlock")
    try:
        with open(os.path.join(home, LOGIN), encoding="utf-8") as file:
            login = json.load(file)
    except FileNotFoundError:
        return None
    return login["token"] if login["url"] == url else None
