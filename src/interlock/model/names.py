"""The rules for names, ids and times that come from outside, checked before anything touches the disk."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from interlock.errors import InvalidMemberName, InvalidRequest, InvalidTeamName
from interlock.model.json import Json

LEAD = "lead"
ACP_REGISTRY_FILE = "acp-registry.json"
"""The copy of the ACP registry in a home, where a person has taken one."""
NPM = "npm:"
"""What stands before the name of a package whose program is meant, whatever that is called."""
LOGIN_FILE = "login.json"
"""In a home: the server elsewhere that is used in its place."""
RECEIPT_KEY_FILE = "receipts.key"
"""In a home: the key that signs its reports."""
WORK = "work"
"""In a home: the clones in which its workers do the tasks of homes elsewhere."""
JOINED = "joined"
"""In a home: the folder with the projects whose programs joined."""
HUMAN = "human"
SYSTEM = "interlock"
"""The actor of what Interlock does by itself (runner, scheduler, notices)."""

RESERVED = (LEAD, HUMAN, SYSTEM)
"""Names no member may have."""

PROGRAMS = ("claude", "codex", "gemini", "opencode")
"""Agent programs that people have and that can join a team, in the order in which they are proposed."""

ROLES: dict[str, str] = {
    "viewer": "reads everything, changes nothing",
    "operator": "reads, chats, answers, works on tasks and writes messages",
    "admin": "all of it, and makes and removes projects, teams and members",
    "worker": "a member at work: its tasks, its mail, its reports",
    "machine": "a machine that does a team's tasks: `interlock work --url`, nothing else",
}
"""What a token allows, with what that means."""

NAME_LIMIT = 50
SESSION_KEY_LIMIT = 200
METADATA_LIMIT = 65_536
PERSON_KEY = "person:"
"""The prefix of people's session keys; no program may use it."""

LABEL = "[a-z0-9][a-z0-9._-]{0,49}"
LABEL_RULE = "use 1 to 50 of a-z 0-9 . _ -, starting with a letter or digit"

VARIABLE = rf"(?!{''.join(f'[{letter}{letter.lower()}]' for letter in 'INTERLOCK')}_)[A-Za-z_][A-Za-z0-9_]*"
"""The name of a variable that programs may be shown: any but Interlock's own."""

_NAME = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{NAME_LIMIT - 1}}}")


def fits_name_rule(name: object) -> bool:
    """Whether `name` is 1 to 50 of `a-z 0-9 - _`, starting with a letter or digit (contract, Names)."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_team_name(name: object) -> str:
    """`name`, if it may name a team.

    Raises:
        InvalidTeamName: it may not; nothing was created.
    """
    return _check_name(name, "team", InvalidTeamName)


def check_member_name(name: object) -> str:
    """`name`, if it may name a member.

    Raises:
        InvalidMemberName: it breaks the rule or is reserved.
    """
    if name in RESERVED:
        raise InvalidMemberName(f"{name!r} is reserved; choose another alphanumeric name.", name=name)
    return _check_name(name, "member", InvalidMemberName)


def _check_name(name: object, what: str, error: type[InvalidRequest]) -> str:
    if not fits_name_rule(name):
        raise error(
            f"{_shown(name)} cannot name a {what}: use 1 to {NAME_LIMIT} lower-case alphanumeric characters, "
            "hyphens or underscores, starting with a letter or digit.",
            name=str(name)[:100].encode("utf-8", "replace").decode("utf-8"),
        )
    return str(name)


def check_session_key(key: object) -> str:
    """`key`, if it may be a session key: 1 to 200 printable characters without white space.

    A key that would stand for a person, or for Interlock itself, is refused: names and keys share one namespace.

    Raises:
        InvalidRequest: it may not.
    """
    if (
        not isinstance(key, str)
        or not 0 < len(key) <= SESSION_KEY_LIMIT
        or not key.isprintable()
        or any(character.isspace() for character in key)
    ):
        raise InvalidRequest(
            f"{_shown(key)} cannot be a session key: use 1 to {SESSION_KEY_LIMIT} printable characters "
            "without spaces, such as agent:main:main.",
            field="session_key",
        )
    if key.startswith(PERSON_KEY) or sanitized(key).lower() in (HUMAN, SYSTEM):
        raise InvalidRequest(
            f"{key!r} is reserved and cannot be a session key; use one such as agent:main:main.", field="session_key"
        )
    return key


def sanitized(session_key: str) -> str:
    """The directory name of a session key: every character outside `A-Za-z0-9-` becomes `_` (TEAM-5.2)."""
    return re.sub(r"[^A-Za-z0-9-]", "_", session_key)


def check_labels(labels: Collection[str] | None) -> list[str] | None:
    """`labels` sorted, each once; None where there are none.

    Raises:
        InvalidRequest: one is no label.
    """
    for label in labels or ():
        if not re.fullmatch(LABEL, label):
            raise InvalidRequest(f"{_shown(label)} is no label: {LABEL_RULE}.", field="labels")
    return sorted(set(labels or ())) or None


def check_variables(names: Collection[str]) -> None:
    """Check names of variables that a program is to see.

    Raises:
        InvalidRequest: one is not the name of a variable, or is one of Interlock's own.
    """
    for name in names:
        if re.fullmatch(VARIABLE, name):
            continue
        if name.upper().startswith("INTERLOCK_"):
            raise InvalidRequest(
                f"env: {_shown(name)} is Interlock's own and is never passed on; remove it from the list.", field="env"
            )
        raise InvalidRequest(
            f"env: {_shown(name)} is not the name of a variable; write names only, no values.", field="env"
        )


ANY = r"^[^\x00]*$"
"""The pattern of a text that may be stored."""
FULL = r"^[^\x00]*[^\s\x00][^\x00]*$"
"""The same, not blank."""


def check_text(value: object, field: str, *, limit: int, required: bool = False, setting: str | None = None) -> str:
    """`value` as text of at most `limit` characters, storable as UTF-8.

    Raises:
        InvalidRequest: not text, empty though required, too long, or with lone surrogates or NUL.
    """
    if not isinstance(value, str):
        raise InvalidRequest(f"{field} must be text, not {type(value).__name__}.", field=field)
    if required and not value.strip():
        raise InvalidRequest(f"{field} is required and must not be empty.", field=field)
    if len(value) > limit:
        hint = f" The setting {setting} raises the limit." if setting else ""
        raise InvalidRequest(
            f"{field} has {len(value)} characters, {limit} are allowed.{hint}",
            field=field,
            limit=limit,
            **({"setting": setting} if setting else {}),
        )
    return check_storable(value, field)


def check_storable(value: str, field: str) -> str:
    """`value`, if a file and a database can hold it.

    Raises:
        InvalidRequest: it holds NUL or half of a surrogate pair.
    """
    if "\x00" in value:
        raise InvalidRequest(f"{field} must not contain NUL characters.", field=field)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{field} is not valid Unicode text: {error.reason}.", field=field) from None
    return value


def check_metadata(value: object) -> Json:
    """`value` as a JSON object of at most 65,536 characters, exactly as it will be read back.

    Raises:
        InvalidRequest: it is not one.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode("utf-8")
        if isinstance(value, dict) and len(text) <= METADATA_LIMIT:
            found: Json = json.loads(text)
            return found
    except (TypeError, ValueError, RecursionError):
        pass
    raise InvalidRequest(
        f"metadata must be a JSON object of at most {METADATA_LIMIT} characters of Unicode text.", field="metadata"
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
