"""Joining a project's agent program to a team, and leaving.

Promises: entries of others, and the form of the file, stay as they are; joining again changes nothing, or only what
differs; `leave` gives every file back as it was, byte for byte, where nobody edited it since. What is put into a file
that git tracks is said; new files of ours are ignored by way of `.git/info/exclude`, which is no file of the project.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from interlock.errors import ConfigParseError, Conflict, InvalidRequest, StorageError
from interlock.integrations import restore
from interlock.integrations.entries import PROGRAMS, Given, given
from interlock.integrations.inserting import Occupied, block, insert
from interlock.storage.files import locked_directory

GIT_SECONDS = 10
SCRIPT = "leave.py"


@dataclass(slots=True)
class Joined:
    """What `join` did: (path, what was done) of each file, and those of them that git tracks."""

    project: str
    files: list[tuple[str, str]] = field(default_factory=list)
    tracked: list[str] = field(default_factory=list)


def join_project(project: str, program: str, *, home: str | None, team: str, name: str) -> Joined:
    """Give the program that works in `project` our hooks and MCP entry. Repeated it changes nothing.

    Raises:
        InvalidRequest: the directory is the user's home, whose settings are those of all projects.
        ConfigParseError: a settings file cannot be read, or leads out of the project; nothing was changed.
        Conflict: an entry of somebody else is in the place of ours; nothing was changed.
        StorageError: the file system refuses.
    """
    project = os.path.realpath(project)
    if project == os.path.realpath(os.path.expanduser("~")):
        raise InvalidRequest(
            f"{project} is your home directory, whose settings count for every project. Change into a project first."
        )
    try:
        with _alone(project):
            return _join(project, program, given(program, home=home, team=team, name=name), (home, team, name))
    except OSError as error:
        raise StorageError(f"{project} could not be joined: {error}.", path=project) from error


def leave_project(project: str, programs: list[str] | None = None) -> list[tuple[str, str, str]]:
    """Take our entries out of the project's settings; (program, path, what was done).

    Raises:
        ConfigParseError: the record cannot be read.
        StorageError: the file system refuses.
    """
    project = os.path.realpath(project)
    try:
        with _alone(project):
            if restore.load(project):
                return restore.leave(project, programs)
            return [done for one in programs or PROGRAMS for done in _without_record(project, one)]
    except ValueError as error:
        raise ConfigParseError(f"The record in {restore.RECORD} cannot be read: {error}.", path=project) from error
    except OSError as error:
        raise StorageError(f"{project} could not be left: {error}.", path=project) from error


def joined_programs(project: str) -> dict[str, Any]:
    """The record of a project: by program, with what it was joined.

    Raises:
        ConfigParseError: it cannot be read.
    """
    try:
        return restore.load(os.path.realpath(project))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigParseError(f"The record in {restore.RECORD} cannot be read: {error}.", path=project) from error


def _join(project: str, program: str, files: list[Given], terms: tuple[str | None, str, str]) -> Joined:
    record = joined_programs(project)
    before = {file["path"]: file for file in record.get(program, {}).get("files", [])}
    joined = Joined(project)
    # Everything is worked out before anything is written, so that a refusal leaves all as it was.
    planned = [_planned(project, program, one, before.get(one.path)) for one in files]
    entries = []
    for one, (file, original, data) in zip(files, planned, strict=True):
        _write(project, file, original, data)
        known = before.get(one.path)
        what = "unchanged" if known is not None and known["sha256"] == file["sha256"] else "written"
        joined.files.append((one.path, what))
        if _git(project, "ls-files", "--error-unmatch", "--", one.path) is not None:
            joined.tracked.append(one.path)
        entries.append(file)
    excluded = _exclude(project, program, [file["path"] for file in entries if file["original"] is None], before)
    home, team, name = terms
    record[program] = {"home": home, "team": team, "name": name, "files": [*entries, *excluded]}
    with open(os.path.join(project, restore.RECORD, SCRIPT), "w", encoding="utf-8") as script:
        script.write(inspect.getsource(restore))
    restore.save(project, record)
    return joined


def _without_record(project: str, program: str) -> Iterator[tuple[str, str, str]]:
    """Somebody removed the record: our entries are known by what they call."""
    for one in given(program, home=None, team="", name=""):
        path = os.path.join(project, one.path)
        data = restore.read(path)
        text = "" if data is None else data.decode("utf-8")
        left = restore.take_block(text, one.lines) if one.lines else restore.take_out(text, one.entries) if text else ""
        if left != text:
            restore.write(path, left.encode("utf-8"), stat.S_IMODE(os.stat(path).st_mode))
            yield program, one.path, "entries taken out"


def _planned(
    project: str, program: str, one: Given, known: dict[str, Any] | None
) -> tuple[dict[str, Any], bytes | None, bytes]:
    """(the file's row of the record, its original content, its new one)."""
    path = os.path.join(project, one.path)
    if not os.path.realpath(path).startswith(project + os.sep):
        raise ConfigParseError(f"{one.path} is a link that leads out of the project; it is not written to.", path=path)
    original = restore.read(path)
    if known is not None and original is not None:
        try:
            original = restore.without(original, known, restore.original_of(project, known))
        except ValueError:
            pass  # It is said below what is wrong with it.
    file: dict[str, Any] = {"path": one.path, "original": None, "directories": _missing(project, one.path, known)}
    try:
        text = (original or b"").decode("utf-8")
        if one.lines:
            new = text + _toml(text, one.lines)
            file |= {"kind": "block", "inserted": new[len(text) :]}
        else:
            new, undo = insert(text, one.entries)
            file |= {"kind": "json", "entries": undo}
    except Occupied as error:
        raise Conflict(
            f"{one.path}: {error}. Take it out or rename it, then join again; nothing was changed.", path=path
        ) from None
    except ValueError as error:
        raise ConfigParseError(
            f"{one.path} cannot be read: {error}. Mend it first; nothing was changed.", path=path
        ) from None
    data = new.encode("utf-8")
    if original is not None:
        file["original"] = os.path.join("original", program, one.path)
    return {**file, "sha256": hashlib.sha256(data).hexdigest()}, original, data


def _toml(text: str, lines: str) -> str:
    servers = tomllib.loads(text).get("mcp_servers", {})
    if not isinstance(servers, dict) or "interlock" in servers:
        raise Occupied("`mcp_servers.interlock` is there already")
    added = block(text, lines)
    try:
        tomllib.loads(text + added)
    except tomllib.TOMLDecodeError:
        raise Occupied("`mcp_servers` is written in one line, which nothing can be added to") from None
    return added


def _missing(project: str, path: str, known: dict[str, Any] | None) -> list[str]:
    """The directories that have to be made for a file, the innermost first."""
    found = []
    directory = os.path.dirname(path)
    while directory and not os.path.isdir(os.path.join(project, directory)):
        found.append(directory)
        directory = os.path.dirname(directory)
    return found or (known["directories"] if known is not None else [])


def _write(project: str, file: dict[str, Any], original: bytes | None, data: bytes) -> None:
    path = os.path.realpath(os.path.join(project, file["path"]))
    if original is not None:
        kept = os.path.join(project, restore.RECORD, file["original"])
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        restore.write(kept, original, 0o600)
    if restore.read(path) != data:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else None
        restore.write(path, data, mode)


def _exclude(project: str, program: str, paths: list[str], before: dict[str, Any]) -> list[dict[str, Any]]:
    """Have git ignore what is new here, by a file that is not part of the project; its row of the record."""
    where = _git(project, "rev-parse", "--git-path", "info/exclude")
    prefix = _git(project, "rev-parse", "--show-prefix")
    if not where or prefix is None:
        return []
    path = os.path.join(project, where)
    if path.startswith(project + os.sep):
        place = os.path.relpath(path, project)
    else:
        place = path  # The project is a part, or a worktree, of a repository that lies elsewhere.
    known = before.get(place)
    data = restore.read(path)
    if known is not None and data is not None:
        data = restore.without(data, known, restore.original_of(project, known))
        restore.write(path, data or b"", None)
    new = [one for one in paths if not _ignored(project, one)]
    text = (data or b"").decode("utf-8", "surrogateescape")
    if not os.path.isdir(os.path.dirname(path)):
        return []
    # The record's own line stands in every program's block: each may be the last to leave.
    lines = "".join(f"/{prefix}{one}\n" for one in (f"{os.path.dirname(restore.RECORD)}/", *new))
    inserted = block(text, lines).replace(restore.MARK, f"{restore.MARK} {program}")
    written = (text + inserted).encode("utf-8", "surrogateescape")
    file: dict[str, Any] = {
        "path": place, "kind": "block", "inserted": inserted, "original": None, "directories": [],
        "sha256": hashlib.sha256(written).hexdigest(),
    }  # fmt: skip
    if data is not None:
        file["original"] = os.path.join("original", program, "exclude")
    _write(project, file, data, written)
    return [file]


def _ignored(project: str, path: str) -> bool:
    return _git(project, "check-ignore", "-q", "--", path) is not None


def _git(project: str, *words: str) -> str | None:
    """What git prints; null where it refuses, or is not there."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", project, *words], capture_output=True, text=True, timeout=GIT_SECONDS, check=False,
            env=environment,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


@contextmanager
def _alone(project: str) -> Iterator[None]:
    """Nobody else joins or leaves here meanwhile."""
    directory = os.path.join(project, restore.RECORD)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    try:
        with locked_directory(project):
            yield
    finally:
        for path in (directory, os.path.dirname(directory)):
            try:
                os.rmdir(path)  # Nothing was joined after all.
            except OSError:
                pass
