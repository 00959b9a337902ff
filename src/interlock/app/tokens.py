"""Who may come in over HTTP: tokens of members and people, one-time codes of links, and the cookies they turn into.

    <home>/token          the admin token, made by the first `interlock up`: who can read it is this user
    <home>/tokens.json    everything else, as SHA-256 of secrets of 256 random bits, so that the file opens no door
    <home>/login.json     the address and token of the server elsewhere that `interlock login` has put in its place

All are readable and writable by their owner only, and replaced as a whole. Every look reads a file again when it has
changed, so that what one process makes or revokes counts in all of them at once.

Where ledgers are on a database server, what would be in tokens.json is there, shared by all homes and servers of these
ledgers, and so are the home's own tokens, by their hashes, once it was served: links, cookies and tokens of one are
valid on all.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any, Generic, TypeVar

from interlock.clock import Clock, SystemClock, iso
from interlock.errors import ConfigParseError, InvalidRequest, StorageError, TokenNotFound
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.model.names import HUMAN, LOGIN_FILE, ROLES, check_member_name
from interlock.storage import files
from interlock.storage.catalog import SharedDocument
from interlock.storage.files import locked_file

Value = TypeVar("Value")

LOCK = ".tokens.lock"
PREFIX = "ilk_"
RUN_PREFIX = "ilr_"
"""How the token of the agent of a run elsewhere begins: `ilr_TEAM.RUN.PROOF`."""
CODE_SECONDS = 3600.0
COOKIE_SECONDS = 30 * 86_400.0
MOST_COOKIES = 100
MOST_CODES = 20


@dataclass(frozen=True, slots=True)
class Token:
    """One token: who it speaks for, and what it allows. A member's token holds in its team only."""

    id: str
    name: str
    team: str | None
    role: str
    digest: str
    created_at: str
    expires_at: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """What may be shown: all but the digest."""
        return {name: value for name, value in asdict(self).items() if name != "digest"}


@dataclass(frozen=True, slots=True)
class Cookie:
    """A browser that came in by a link. `key` is the digest of what its script holds; null: it runs no script."""

    key: str | None

    def holds(self, key: str | None) -> bool:
        """Whether `key` is the one that was given to this browser's script."""
        return key is not None and self.key is not None and hmac.compare_digest(self.key, _digest(key))


class WatchedFile(Generic[Value]):
    """What `read` makes of a file of ours, or of none, read again whenever that has changed."""

    def __init__(self, path: str, read: Callable[[str], Value]) -> None:
        self._path = path
        self._read = read
        self._known: tuple[tuple[int, int, int] | None, Value] | None = None

    @property
    def unchanged(self) -> bool:
        """Whether `value` has nothing to read."""
        known = self._known
        return known is not None and known[0] == self._seen()

    @property
    def value(self) -> Value:
        """What it holds now."""
        known, seen = self._known, self._seen()
        if known is None or known[0] != seen:
            known = self._known = seen, self._read(self._path)
        return known[1]

    def _seen(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_ctime_ns, found.st_size


class TokenFile:
    """A `SharedDocument` in a file of one home."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._path = os.path.join(home, "tokens.json")
        self._file = WatchedFile(self._path, _document)

    @property
    def unchanged(self) -> bool:
        """Whether `read` has no file to read."""
        return self._file.unchanged

    def read(self) -> Json:
        """What the file holds; nothing where there is none. Raises ConfigParseError."""
        try:
            return self._file.value
        except (OSError, ValueError, TypeError) as error:
            raise ConfigParseError(
                f"{self._path} cannot be read: {error}. Remove it to begin with no tokens.", path=self._path
            ) from error

    @contextmanager
    def changing(self) -> Iterator[Json]:
        """What the file holds, to be changed by one process at a time. Raises StorageError: nothing was written."""
        try:
            os.makedirs(self._home, mode=0o700, exist_ok=True)
            with locked_file(os.path.join(self._home, LOCK)):
                kept = json.loads(json.dumps(self.read()))
                yield kept
                files.replace(self._path, (json.dumps(kept, indent=1) + "\n").encode())
        except OSError as error:
            raise StorageError(f"The tokens could not be written: {error}.", path=self._path) from error


class Tokens:
    """Who may come in to one home, or to all homes that share a `document`."""

    cookie_seconds = COOKIE_SECONDS

    def __init__(self, home: str, clock: Clock | None = None, document: SharedDocument | None = None) -> None:
        self._home = home
        self._clock = clock or SystemClock()
        self._shared = document is not None
        self._document = document or TokenFile(home)
        self._admin = WatchedFile(os.path.join(home, "token"), _read_secret)

    def share(self, earlier: Tokens | None = None) -> None:
        """Make what this home is served with valid at all that share the document: its admin token, the name of its
        cookies and of its page, and, where ledgers have just moved here, all that was valid `earlier`."""
        digest = _digest(self.admin())
        if not self._shared and earlier is None:
            return
        with self._changing() as kept:
            for kind, rows in earlier._read().items() if earlier is not None else ():
                if not isinstance(rows, list):
                    kept.setdefault(kind, rows)
                else:
                    known = {row["digest"] for row in kept[kind]}
                    kept[kind] += [row for row in rows if row["digest"] not in known]
            kept.setdefault("id", secrets.token_hex(10))
            kept.setdefault("forms", secrets.token_hex(32))
            if not any(row["digest"] == digest for row in kept["tokens"]):
                own = Token(digest[:8], HUMAN, None, "admin", digest, iso(self._clock.now()))
                kept["tokens"].append(asdict(own))

    def at_hand(self, secret: str) -> bool:
        """Whether a look at that token has to read no file and to ask no server: none has changed since the last one,
        or only the list that the admin token is not in."""
        if not self._admin.unchanged:
            return False
        return (isinstance(self._document, TokenFile) and self._document.unchanged) or self.is_admin(secret)

    @property
    def cookie_name(self) -> str:
        """What our cookies are called. All ports of a host share its cookies, and so the servers of a machine."""
        return f"interlock_{self._read().get('id') or _digest(self._home)[:12]}"

    @property
    def form_secret(self) -> bytes | None:
        """What the keys in forms are made with by every server; None where each has its own."""
        found = self._read().get("forms")
        return None if found is None else bytes.fromhex(found)

    def admin(self) -> str:
        """The admin token, made where there is none yet.

        Raises:
            StorageError: the file cannot be read or written.
        """
        path = os.path.join(self._home, "token")
        try:
            os.makedirs(self._home, mode=0o700, exist_ok=True)
            with locked_file(os.path.join(self._home, LOCK)):
                found = _read_secret(path)
                if found is None:
                    found = PREFIX + secrets.token_urlsafe(32)
                    files.replace(path, f"{found}\n".encode())
                return found
        except OSError as error:
            raise StorageError(f"The admin token could not be written: {error}.", path=path) from error

    @property
    def page_host(self) -> str:
        """A host name of the page alone, the same for a home at all times: no other server is sent its cookie."""
        return f"interlock-{self._read().get('id') or _digest(f'page {self.admin()}')[:20]}.localhost"

    def create(
        self, name: str, *, role: str, team: str | None = None, lasting: float | None = None
    ) -> tuple[Token, str]:
        """A new token and its secret, which is shown this once.

        Args:
            role: `worker` for a member and `machine` for a machine of `team`; the others are for people, in all teams
                or in `team` alone.
            lasting: seconds after which it opens nothing any more.

        Raises:
            InvalidRequest: no such role, or not one for a person; it would open nothing from the start.
        """
        if role not in ROLES:
            raise InvalidRequest(f"There is no role {role!r}. Use one of: {', '.join(ROLES)}.", field="role")
        if role in ("worker", "machine") and team is None:
            raise InvalidRequest(
                f"A person cannot be a {role}: `--member M` goes with `worker`, `--machine M` with `machine`, "
                "`--person P` with the others.",
                field="role",
            )
        if role != "worker" and name != HUMAN:
            check_member_name(name)
        if lasting is not None and not lasting > 0:
            raise InvalidRequest(
                "Such a token opens nothing. Say how long it is good for: 90m, 12h, 30d.", field="expires"
            )
        secret, now = PREFIX + secrets.token_urlsafe(32), self._clock.now()
        until = None if lasting is None else iso(now + lasting)
        made = Token(secrets.token_hex(4), name, team, role, _digest(secret), iso(now), until)
        with self._changing() as kept:
            kept["tokens"].append(asdict(made))
        return made, secret

    def list(self) -> list[Token]:
        """All tokens, oldest first."""
        return [Token(**row) for row in self._read()["tokens"]]

    def revoke(self, id: str) -> Token:
        """Take a token back; it opens nothing from now on.

        Raises:
            TokenNotFound: there is none with that id.
        """
        with self._changing() as kept:
            for row in kept["tokens"]:
                if row["id"] == id:
                    kept["tokens"].remove(row)
                    return Token(**row)
        raise TokenNotFound(f"There is no token {id!r}. `interlock token list` shows all.", token=id)

    def forget_team(self, team: str) -> None:
        """A team is gone: tokens of its members must not open one that is made again under its name."""
        if any(token.team == team for token in self.list()):
            with self._changing() as kept:
                kept["tokens"] = [row for row in kept["tokens"] if row["team"] != team]

    def of_run(self, team: str, run: str, session: str) -> str:
        """The token of the programs of a run elsewhere. It is kept nowhere: only who can read the key here, and the
        run's session in the ledger, can make it.

        Raises:
            StorageError: the key cannot be read or written.
        """
        if "runs" not in self._read():
            with self._changing() as kept:
                kept.setdefault("runs", secrets.token_hex(32))
        proof = hmac.new(bytes.fromhex(self._read()["runs"]), f"{team}.{run}.{session}".encode(), "sha256")
        return f"{RUN_PREFIX}{team}.{run}.{proof.hexdigest()}"

    def is_of_run(self, secret: str, team: str, run: str, session: str) -> bool:
        """Whether that is the token of that run."""
        return hmac.compare_digest(self.of_run(team, run, session).encode(), secret.encode())

    def find(self, secret: str) -> Token | None:
        """The token with that secret, until it expires."""
        digest, now = _digest(secret), iso(self._clock.now())
        row = next((row for row in self._read()["tokens"] if hmac.compare_digest(row["digest"], digest)), None)
        found = None if row is None else Token(**row)
        return None if found is None or (found.expires_at is not None and found.expires_at <= now) else found

    def is_admin(self, secret: str) -> bool:
        """Whether that is the admin token."""
        found = self._admin.value
        return found is not None and hmac.compare_digest(found.encode(), secret.encode())

    def new_code(self) -> str:
        """A code for one link, good for one visit within the hour."""
        return self._add("codes", MOST_CODES, CODE_SECONDS)

    def is_code(self, code: str) -> bool:
        """Whether a link with that code lets somebody in; it stays good."""
        return self._living("codes", code) is not None

    def redeem(self, code: str, *, scripted: bool) -> tuple[str, str | None] | None:
        """The cookie for a code, which is used up by that, and the key that goes with it where the page's script keeps
        one; null where it is no code, was used, or is too old."""
        if not self.is_code(code):
            return None
        digest = _digest(code)
        with self._changing() as kept:
            found = [row for row in kept["codes"] if row["digest"] == digest]
            kept["codes"] = [row for row in kept["codes"] if row["digest"] != digest]
        if not found:
            return None
        key = secrets.token_urlsafe(32) if scripted else None
        return self._add("cookies", MOST_COOKIES, COOKIE_SECONDS, key=None if key is None else _digest(key)), key

    def cookie(self, secret: str) -> Cookie | None:
        """What is known of the browser with that cookie; null where it may not come in."""
        row = self._living("cookies", secret)
        return None if row is None else Cookie(row.get("key"))

    def forget_cookie(self, secret: str) -> None:
        """The browser with that cookie signs out."""
        digest = _digest(secret)
        with self._changing() as kept:
            kept["cookies"] = [row for row in kept["cookies"] if row["digest"] != digest]

    def _living(self, kind: str, secret: str) -> dict[str, Any] | None:
        digest, now = _digest(secret), self._clock.now()
        rows = (row for row in self._read()[kind] if hmac.compare_digest(row["digest"], digest) and row["until"] > now)
        return next(rows, None)

    def _add(self, kind: str, most: int, lasting: float, **more: str | None) -> str:
        secret = secrets.token_urlsafe(32)
        now = self._clock.now()
        with self._changing() as kept:
            living = [row for row in kept[kind] if row["until"] > now]
            kept[kind] = [*living, {"digest": _digest(secret), "until": now + lasting, **more}][-most:]
        return secret

    def _read(self) -> Json:
        return {**_empty(), **self._document.read()}

    @contextmanager
    def _changing(self) -> Iterator[Json]:
        """The document, written back when the block is left without an error."""
        with self._document.changing() as kept:
            for kind, none in _empty().items():
                kept.setdefault(kind, none)
            yield kept


def _empty() -> Json:
    return {"tokens": [], "codes": [], "cookies": []}


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _document(path: str) -> Json:
    """What tokens.json holds; nothing where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return {}


def _read_secret(path: str) -> str | None:
    """The secret in a file of ours; one that others could read is made private first."""
    try:
        with open(path, encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                os.fchmod(file.fileno(), 0o600)
            return file.read().strip() or None
    except FileNotFoundError:
        return None


@dataclass(slots=True, frozen=True)
class Login:
    """A home elsewhere, and who we are there."""

    url: str
    token: str


def login_of(home: str) -> Login | None:
    """Return what `interlock login` kept in that home. Raises StorageError: it cannot be read."""
    path = os.path.join(home, LOGIN_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            return Login(**json.load(file))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError) as error:
        raise StorageError(f"{path} cannot be read: {error}. `interlock logout` removes it.", path=path) from error


def log_in(home: str, login: Login) -> None:
    """Keep a login, in place of an earlier one. Raises StorageError: it cannot be written."""
    path = os.path.join(home, LOGIN_FILE)
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        files.replace(path, json.dumps(asdict(login)).encode())
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error}.", path=path) from error


def log_out(home: str) -> bool:
    """Forget the login; whether there was one."""
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(os.path.join(home, LOGIN_FILE))
        return True
    return False
