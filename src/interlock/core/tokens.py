"""Who may come in over HTTP: tokens of members and people, one-time codes of links, and the cookies they turn into.

    <home>/token          the admin token, made by the first `interlock up`: who can read it is this user
    <home>/tokens.json    everything else, as SHA-256 of secrets of 256 random bits, so that the file opens no door

Both are readable and writable by their owner only, and replaced as a whole. Every look reads the file again when it has
changed, so that what one process makes or revokes counts in all of them at once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from interlock.clock import Clock, SystemClock, iso
from interlock.errors import ConfigParseError, InvalidRequest, StorageError, TokenNotFound
from interlock.model.names import HUMAN, ROLES, check_member_name
from interlock.storage import files
from interlock.storage.files import locked_file

LOCK = ".tokens.lock"
PREFIX = "ilk_"
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

    def as_dict(self) -> dict[str, Any]:
        """What may be shown: all but the digest."""
        return {"id": self.id, "name": self.name, "team": self.team, "role": self.role, "created_at": self.created_at}


@dataclass(frozen=True, slots=True)
class Cookie:
    """A browser that came in by a link. `key` is the digest of what its script holds; null: it runs no script."""

    key: str | None

    def holds(self, key: str | None) -> bool:
        """Whether `key` is the one that was given to this browser's script."""
        return key is not None and self.key is not None and hmac.compare_digest(self.key, _digest(key))


class Tokens:
    """The doors of one home."""

    cookie_seconds = COOKIE_SECONDS

    def __init__(self, home: str, clock: Clock | None = None) -> None:
        self._home = home
        self._path = os.path.join(home, "tokens.json")
        self._clock = clock or SystemClock()
        self._seen: tuple[int, int, int] | None = None
        self._kept: dict[str, Any] = _empty()

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
        return f"interlock-{_digest(f'page {self.admin()}')[:20]}.localhost"

    def create(self, name: str, *, role: str, team: str | None = None) -> tuple[Token, str]:
        """A new token for a member (`team`) or a person, and its secret, which is shown this once.

        Raises:
            InvalidRequest: no such role, or not one for a member or a person.
        """
        if role not in ROLES:
            raise InvalidRequest(f"There is no role {role!r}. Use one of: {', '.join(ROLES)}.", field="role")
        if (role == "worker") is (team is None):
            kind = "A person cannot be a worker" if team is None else "A member is always a worker"
            raise InvalidRequest(
                f"{kind}: `--member M` goes with `worker`, `--person P` with the others.", field="role"
            )
        if team is None and name != HUMAN:
            check_member_name(name)
        secret = PREFIX + secrets.token_urlsafe(32)
        made = Token(secrets.token_hex(4), name, team, role, _digest(secret), iso(self._clock.now()))
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

    def find(self, secret: str) -> Token | None:
        """The token with that secret."""
        digest = _digest(secret)
        return next((token for token in self.list() if hmac.compare_digest(token.digest, digest)), None)

    def is_admin(self, secret: str) -> bool:
        """Whether that is the admin token."""
        found = _read_secret(os.path.join(self._home, "token"))
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

    def _read(self) -> dict[str, Any]:
        try:
            found = os.stat(self._path)
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen != self._seen:
                with open(self._path, encoding="utf-8") as file:
                    self._kept = {**_empty(), **json.load(file)}
                self._seen = seen
        except FileNotFoundError:
            self._kept, self._seen = _empty(), None
        except (OSError, ValueError, TypeError) as error:
            raise ConfigParseError(
                f"{self._path} cannot be read: {error}. Remove it to begin with no tokens.", path=self._path
            ) from error
        return self._kept

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The file's content, written back when the block is left without an error."""
        try:
            os.makedirs(self._home, mode=0o700, exist_ok=True)
            with locked_file(os.path.join(self._home, LOCK)):
                kept = json.loads(json.dumps(self._read()))
                yield kept
                files.replace(self._path, (json.dumps(kept, indent=1) + "\n").encode())
        except OSError as error:
            raise StorageError(f"The tokens could not be written: {error}.", path=self._path) from error


def _empty() -> dict[str, Any]:
    return {"tokens": [], "codes": [], "cookies": []}


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _read_secret(path: str) -> str | None:
    """The secret in a file of ours; one that others could read is made private first."""
    try:
        with open(path, encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                os.fchmod(file.fileno(), 0o600)
            return file.read().strip() or None
    except FileNotFoundError:
        return None
