"""A home and its teams on another machine. Each verb is made from the signature of the local one; by hand are those
that wait, and those that open something."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import wraps
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter

from interlock import app
from interlock.app.base import calling, session_of_another
from interlock.app.home import Home
from interlock.app.mail import Mail, Mailing
from interlock.app.team import Team
from interlock.app.tokens import RUN_PREFIX, login_of
from interlock.app.verbs import VERBS, here_only, verb_of
from interlock.app.windows import TeamGlance, Window, lineage, starter
from interlock.errors import (
    AnswerLost,
    CommitUnknown,
    Forbidden,
    InterlockError,
    InvalidRequest,
    LedgerBusy,
    TeamNotFound,
)
from interlock.model.event import Event
from interlock.model.json import Json
from interlock.model.message import Message
from interlock.model.names import HUMAN, JOINED
from interlock.model.run import Artifact
from interlock.remote.connection import LOOK_AGAIN, ServerConnection

KEPT = ("plan_schema", "read")
"""Verbs that need no home, or only others of its verbs."""
AWAY = 5.0
"""Seconds until a server that was away is asked again for what has changed."""
EVENTS: TypeAdapter[list[Event]] = TypeAdapter(list[Event])
MAIL: TypeAdapter[tuple[list[Message], bool, str]] = TypeAdapter(tuple[list[Message], bool, str])


def _derived(owner: type) -> Callable[[type], type]:
    """Give a class the verbs of `owner` that it does not define itself: called there, or refused here."""

    def give(made: type) -> type:
        for name in (name for name in dir(owner) if not name.startswith("_")):
            function = getattr(owner, name)
            if callable(function) and name not in vars(made) and name not in KEPT:
                setattr(made, name, _called(owner, name) if name in VERBS[owner] else _refused(name))
        return made

    return give


def _called(owner: type, name: str) -> Callable[..., Any]:
    @wraps(getattr(owner, name))
    def verb(self: Any, *given: Any, **arguments: Any) -> Any:
        found = verb_of(owner, name)
        if len(given) > len(found.places):
            raise InvalidRequest(f"{name} takes {len(found.places)} arguments by place, not {len(given)}.")
        arguments |= dict(zip(found.places, given, strict=False))
        answer = found.read(self._call(name, arguments, changes=found.changes))
        return self._opened(answer) if found.opens else answer

    return verb


def _refused(name: str) -> Callable[..., Any]:
    def verb(self: Any, *_: Any, **__: Any) -> Any:
        raise here_only(name)

    return verb


@_derived(Team)
class RemoteTeam(Team):
    """One team on another machine, seen by one caller: by default whom the token names."""

    def __init__(
        self, home: RemoteHome, name: str, member: str | None = None, session: str | None = None, run: int | None = None
    ) -> None:
        self._home = home
        self._name = name
        self._seen_by = member, session, run

    def __repr__(self) -> str:
        return f"<Team {self._name} at {self.directory}>"

    @property
    def name(self) -> str:
        return self._name

    @property
    def url(self) -> str:
        """The address of its home."""
        return self._home.path

    @property
    def directory(self) -> str:
        """The address of the team."""
        return f"{self._home.path}/api/teams/{self._name}"

    def acting(self, name: str, *, session: str | None = None, run: int | None = None, **_: object) -> Team:
        calling(name, session, run, "http")
        # Nobody says who is meant by `human` but the token: it may be another person's, or a member's.
        return RemoteTeam(self._home, self._name, None if name == HUMAN else name, session or None, run)

    @contextmanager
    def mail(
        self, *, wait: float | None = None, urgent_only: bool = False, inject: bool = False, again: bool = False,
        only_offer: bool = False, by: str | None = None, given_up: Callable[[], bool] = lambda: False,
    ) -> Iterator[Mail]:  # fmt: skip
        if wait is not None and (not isinstance(wait, (int, float)) or isinstance(wait, bool)):
            raise InvalidRequest(f"wait must be a number of seconds, not {wait!r}.", field="wait")
        ends = None if wait is None else time.monotonic() + wait
        wanted: Json = {"urgent_only": urgent_only, "inject": inject, "again": again}
        while True:
            left = None if ends is None else max(0.0, ends - time.monotonic())
            try:
                answer = self._call("mail", {**wanted, "wait": left, "by": by}, changes=True)
                messages, timed_out, state = MAIL.validate_json(answer)
                if messages or not left or given_up():
                    break
            except (AnswerLost, CommitUnknown, LedgerBusy):
                # The server ends, or has ended. What it may have offered comes again.
                if not left:
                    raise
                time.sleep(LOOK_AGAIN)
        mail = Mail(messages, timed_out, state, lambda: self._give_back(by, messages))
        try:
            yield mail
        except BaseException:
            with suppress(InterlockError):  # They stay offered, and are offered again soon.
                mail.give_back()
            raise
        if messages and not only_offer:
            delivered = self._finish(by, messages, delivered=True)
            for message in messages:
                if message.id in delivered:
                    message.stage = "delivered"

    def _give_back(self, by: str | None, messages: list[Message]) -> None:
        self._finish(by, messages, delivered=False)

    def _finish(self, by: str | None, messages: list[Message], *, delivered: bool) -> list[str]:
        given: Json = {"numbers": [message.n for message in messages], "delivered": delivered, "by": by}
        found: list[str] = verb_of(Team, "finish_handover").read(self._call("finish_handover", given, changes=True))
        return found

    def follow(self, since: int = 0) -> Iterator[Event]:
        while True:
            for event in EVENTS.validate_json(self._call("follow", {"since": since}, changes=False)):
                since = event.seq
                yield event

    async def changes(self) -> AsyncGenerator[None]:
        import anyio.to_thread  # slow to load, and needed by few

        since: int | None = None
        while True:
            try:
                newest = await anyio.to_thread.run_sync(self._newest, since, abandon_on_cancel=True)
            except TeamNotFound:
                raise
            except InterlockError:  # The server is away, or does not let us in now.
                await anyio.sleep(AWAY)
                continue
            if newest != since:
                since = newest
                yield

    def _newest(self, since: int | None) -> int:
        """The number of the newest event; after `since` it is waited for, for a slice of the server's."""
        if since is None:
            return self.head()
        found = EVENTS.validate_json(self._call("follow", {"since": since}, changes=False))
        return found[-1].seq if found else since

    def artifacts(self, task: str) -> list[Artifact]:
        found = verb_of(Team, "artifacts").read(self._call("artifacts", {"task": task}, changes=False))
        return [replace(one, file=None) for one in found]  # No place of that machine is one of ours.

    def _call(self, verb: str, arguments: Json, *, changes: bool) -> bytes:
        member, session, run = self._seen_by
        by, sender = arguments.pop("by", None), arguments.pop("sender", None)
        by = next((one for one in (by, sender) if one is not None), member)
        if by != member and session is not None and by is not None:
            raise session_of_another(member or HUMAN, by)
        who: Json = {"name": by, "session": session, "run": run} if by == member else {"name": by}
        return self._home.at(f"teams/{quote(self._name, safe='')}/{verb}", {"arguments": arguments, **who}, changes)


class RemoteWindow(Window):
    """A window of a program on this machine, as the connection that the program opens sees it; what its hooks are told
    is `hooks_remote`'s."""

    def __init__(self, team: RemoteTeam, program: str, session: str, process: str | None) -> None:
        self._team = team
        self._program = program
        self._session = session
        self._process = process

    def sit(self) -> str:
        return self._team.window_sits(self._program, self._session, self._process or starter())


@_derived(Home)
class RemoteHome(Home):
    """A home on another machine. `path` is its address."""

    elsewhere = True

    def __init__(self, url: str, token: str | None, local_path: str) -> None:
        self._connection = ServerConnection(url, token)
        self._token = token
        self.path = self._connection.url
        self._local_path = local_path

    @property
    def local_path(self) -> str:
        return self._local_path

    def close(self) -> None:
        self._connection.close()

    def warnings(self, team: str | None = None) -> list[str]:
        found, self._connection.warnings = self._connection.warnings, {}
        return list(found)

    def read_plan(self, text: str, path: str, *, team: str | None = None) -> app.planning.Plan:
        found = app.planning.parse(text, path)
        return replace(found, team=team or found.team)

    def check_plan(self, plan: str, *, team: str | None = None) -> tuple[str, ...]:
        app.planning.load(plan)
        return (f"whether its agents, commands and directory are there is for the machine of {self.path} to say",)

    def back_up_ledger(self, team: str, path: str | None = None) -> str:
        if path is not None:  # that machine would write it
            self.need_here("back_up_ledger")
        found: str = verb_of(Home, "back_up_ledger").read(self._call("back_up_ledger", {"team": team}, changes=True))
        return found

    def need_person(self, what: str) -> None:
        """The token says who this is, and the server what that one may."""

    def need_here(self, what: str) -> None:
        raise here_only(what)

    def team(self, name: str) -> Team:
        return self._opened(verb_of(Home, "team").read(self._call("team", {"name": name}, changes=False)))

    def mailing(
        self, name: str, member: str, *, session: str | None = None, run: int | None = None, face: str = "python"
    ) -> Mailing:
        return RemoteTeam(self, name).acting(member, session=session, run=run)

    def managed(self, team: str) -> tuple[str, str] | None:
        """The run of the team that this process belongs to is the one whose token it was given."""
        if not (self._token or "").startswith(RUN_PREFIX):
            return None
        caller = json.loads(self._connection.get("/api/verbs"))
        return (caller["name"], caller["session"]) if caller["team"] == team else None

    def glance(self, team: str, *, here: bool = True) -> TeamGlance:
        found: TeamGlance = verb_of(Home, "glance").read(self._call("glance", {"team": team}, changes=False))
        # Processes are looked at where a program has joined from this machine.
        if os.path.isdir(os.path.join(self.local_path, JOINED)):
            with suppress(Forbidden):  # A machine's token is no window's.
                return replace(found, seat=self.seated(team))
        return found

    def seated(self, team: str) -> tuple[str, str] | None:
        return RemoteTeam(self, team).window_seat(lineage())

    def window(self, team: str, *, program: str, session: str, name: str, process: str | None = None) -> Window:
        return RemoteWindow(RemoteTeam(self, team, name), program, session, process)

    def seat_name(self, name: str | None, program: str) -> str:
        login = login_of(self.local_path)
        if login is None or login.url != self.path:
            raise InvalidRequest(
                f"The hooks of {program} find their token where `interlock login` keeps it: `interlock login "
                f"{self.path}` first, with the token of a member.",
                field="url",
            )
        caller = json.loads(self._connection.get("/api/verbs"))
        own = caller["name"] if caller["role"] == "worker" else None
        if (caller["role"] != "admin" and own is None) or (own is not None and name not in (None, own)):
            raise Forbidden(
                f"This token is that of {caller['name']} ({caller['role']}); a window acts as whom its token names. "
                f"Make one there, `interlock token create --member {name or program}`, and log in with it.",
                member=name,
            )
        return own or name or program

    def at(self, path: str, body: Json, changes: bool) -> bytes:
        """The answer to one call of a verb. Raises as `ServerConnection.call`."""
        return self._connection.call(f"/api/verbs/{path}", body, changes=changes)

    def _call(self, verb: str, arguments: Json, *, changes: bool) -> bytes:
        by, _ = arguments.pop("by", None), arguments.pop("face", None)  # To that home, every face here is HTTP.
        return self.at(f"home/{verb}", {"arguments": arguments, "name": None if by == HUMAN else by}, changes)

    def _opened(self, name: str) -> Team:
        return RemoteTeam(self, name)
