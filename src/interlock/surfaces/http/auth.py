"""Who calls over HTTP, and the middleware that every request passes.

    Authorization: Bearer <home>/token      `human`, admin
    Authorization: Bearer ilk_…             the member or person that `interlock token create` named
    Authorization: Bearer ilr_…             the member whose run elsewhere was offered with it, in that run
    Cookie: interlock_<home>=…              `human` at the page; reads
    … and X-Interlock-Key, or a form's key  the same as admin; the only one who may answer permissions

A bearer token never counts as a person at the page: an agent program may have got hold of one. Nor does a cookie alone:
browsers send it to every port of a host, and so to what an agent serves. The key is held per origin: by the page's
script, in its `localStorage`, where it was put when the link was opened. A browser without script gets it in its forms,
at the page's own host name only, whose cookie no other server is sent.

Where the connection comes from a process of a run, none of these counts: that process is the run's member.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from http.cookies import CookieError, SimpleCookie

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.app.home import Home
from interlock.app.tokens import RUN_PREFIX
from interlock.errors import Forbidden, InterlockError, Unauthorized
from interlock.lazy_dataclass import dataclass
from interlock.model.names import HUMAN
from interlock.model.run import RunOrigin
from interlock.surfaces.http.failures import CONNECTION, refuse
from interlock.surfaces.http.security_middleware import SAFE_METHODS, without_port

OPEN = ("/healthz", "/readyz")
LINK = "/open/"
"""Where links lead; their code is what lets one in."""

PAGE = "page"
"""The face of a person at the page."""
HTTP = "http"
KEY = "x-interlock-key"
FORM_KEY = "interlock_key"
"""The hidden field by which a form of the page says that it is ours."""

REFUSED = (
    "This needs `Authorization: Bearer TOKEN` with the token of the home (its file `token`), or one that "
    "`interlock token create` made. In a browser, open the link that `interlock open` prints."
)


@dataclass(frozen=True, slots=True)
class HttpPrincipal:
    """Who is calling.

    Attributes:
        team: the only team the caller's token is valid in; a member's is.
        key: tells the caller's tokens and cookies apart.
        where: for a browser without script, where its forms count.
        origin: the run that the caller's process belongs to.
        run: the number of that run, where the caller's token is its own.
    """

    name: str
    role: str
    face: str
    team: str | None = None
    key: str = ""
    where: str = ""
    origin: RunOrigin | None = None
    run: int | None = None

    @property
    def is_member(self) -> bool:
        """Whether this is a member at work, and no person."""
        return self.role in ("worker", "run")

    def must(self, *roles: str) -> None:
        """Raise Forbidden where the role is none of these."""
        if self.role in roles:
            return
        if self.role == "run":
            raise Forbidden(
                "A run on another machine does that by ending its turn: with what was done as the last thing said, or "
                'with the line {"status": "AWAITING_RESPONSE" | "BLOCKED", "output": "TEXT"}, as its prompt says. Here '
                "it reads the team, sends and reads mail, and makes tasks.",
                role=self.role,
            )
        if self.face == PAGE:
            raise Forbidden(
                "The cookie alone reads and changes nothing: other servers of this machine are sent it, too. "
                f"Open a fresh link (`interlock open`) in this browser{self.where}."
            )
        raise Forbidden(
            f"{self.name} has the role {self.role}, and this needs {' or '.join(roles)}. "
            "`interlock token create` makes a token that may.",
            role=self.role,
        )


class Authenticator:
    """The tokens and cookies of one home, as requests bring them."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.tokens = home.tokens()
        self.cookie_name = self.tokens.cookie_name
        self._forms = self.tokens.form_secret or os.urandom(32)

    def caller(self, scope: Scope) -> HttpPrincipal:
        """Return who a request is from: a process of a run is that run's member, whatever token it carries.

        Raises:
            Unauthorized: an unknown caller.
            Forbidden: a process of a run that acts for no member.
        """
        found = self.principal(Headers(scope=scope), scope["method"])
        origin = self.origin(scope)
        if origin is None or (found.origin is not None and found.origin.session == origin.session):
            return found  # A worker for this home may be on its own machine.
        if origin.member is None or origin.team is None:
            raise origin.refusal("come in over HTTP")
        key = f"{origin.team}/{origin.member}/{origin.pid}"
        return HttpPrincipal(origin.member, "worker", HTTP, origin.team, key, origin=origin)

    def at_hand(self, scope: Scope) -> bool:
        """Whether `caller` has nothing to wait for: the connection is known, and no token has changed."""
        known = scope.get("state", {}).get(CONNECTION, {})
        secret = _bearer_of(Headers(scope=scope))
        if secret is None or secret.startswith(RUN_PREFIX):  # The ledger is asked, which may be on a server.
            return False
        return "origin" in known and self.tokens.at_hand(secret)

    def origin(self, scope: Scope) -> RunOrigin | None:
        """Return the run that the process at the other end belongs to; looked up once for each connection."""
        client, server = scope.get("client"), scope.get("server")
        if client is None or server is None or server[1] is None:
            return None  # Not a network connection.
        known: dict[str, RunOrigin | None] = scope.get("state", {}).get(CONNECTION, {})
        if "origin" not in known:
            known["origin"] = self._home.origin_of((client[0], client[1]), server[1])
        return known["origin"]

    def principal(self, headers: Headers, method: str = "GET") -> HttpPrincipal:
        """Return whom the headers of a request name.

        Raises:
            Unauthorized: an unknown caller.
        """
        authorization, secret = headers.get("authorization"), _bearer_of(headers)
        if secret is not None:
            return self._bearer(secret)
        cookie = self.cookie(headers)
        known = self.tokens.cookie(cookie) if authorization is None and cookie is not None else None
        if cookie is None or known is None:
            raise Unauthorized(REFUSED)
        acts = method in SAFE_METHODS or known.holds(headers.get(KEY))
        host = headers.get("host", "")
        own = f"http://{self.tokens.page_host}{host[len(without_port(host)) :]}"
        scripted = headers.get(KEY) is not None or "application/json" in headers.get("accept", "")
        where = "" if scripted or self.form_key(headers) else f", at {own}"
        key = hashlib.sha256(cookie.encode()).hexdigest()[:16]
        return HttpPrincipal(HUMAN, "admin" if acts else "viewer", PAGE, key=key, where=where)

    def _bearer(self, secret: str) -> HttpPrincipal:
        if self.tokens.is_admin(secret):
            # As on every other server that knows it.
            return HttpPrincipal(HUMAN, "admin", HTTP, key=hashlib.sha256(secret.encode()).hexdigest()[:8])
        if secret.startswith(RUN_PREFIX) and (known := self._home.run_elsewhere(secret)) is not None:
            team, run = known
            origin = RunOrigin(0, self._home.path, team, run.member, run.session)
            return HttpPrincipal(run.member, "run", HTTP, team, f"{team}/{run.id}", origin=origin, run=run.number)
        found = self.tokens.find(secret)
        if found is None:
            raise Unauthorized(f"That token is not valid here; perhaps it was revoked. {REFUSED}")
        return HttpPrincipal(found.name, found.role, HTTP, found.team, found.id)

    def form_key(self, headers: Headers) -> str:
        """Return what the forms of a browser without script hold, at the page's own name; empty elsewhere."""
        cookie = self.cookie(headers)
        known = self.tokens.cookie(cookie) if cookie is not None else None
        if cookie is None or known is None or known.key is not None:
            return ""
        if without_port(headers.get("host", "")) != self.tokens.page_host:
            return ""
        return hmac.new(self._forms, cookie.encode(), "sha256").hexdigest()

    def cookie(self, headers: Headers) -> str | None:
        """Return the value of our cookie."""
        for line in headers.getlist("cookie"):
            try:
                found = SimpleCookie(line).get(self.cookie_name)
            except CookieError:
                continue
            if found is not None and found.value:
                return found.value
        return None

    def set_cookie(self, scope: Scope, secret: str = "", seconds: float | None = None) -> str:
        """Return the header that gives a browser its cookie; with 0 seconds, that takes it away."""
        seconds = self.tokens.cookie_seconds if seconds is None else seconds
        secure = "; Secure" if scope["scheme"] == "https" else ""
        return f"{self.cookie_name}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds:.0f}{secure}"


def _bearer_of(headers: Headers) -> str | None:
    """The token that a request brings."""
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() or None if scheme.lower() == "bearer" else None


class AuthMiddleware:
    """ASGI middleware: no unknown caller passes. The caller is put into the request's state as `principal`."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN and not scope["path"].startswith(LINK):
            try:
                caller = self._authenticator.caller
                # Else in a thread: files of tokens may be on a slow disk, or on a server.
                at_hand = self._authenticator.at_hand(scope)
                found = caller(scope) if at_hand else await run_in_threadpool(caller, scope)
            except InterlockError as error:
                await refuse(error, scope, receive, send)
                return
            scope.setdefault("state", {})["principal"] = found
        await self._app(scope, receive, send)
