"""Joining a project's agent program to a team, and leaving.

Promises: entries of others, and the form of the file, stay as they are; joining again changes nothing, or only what
differs; `leave` gives every file back as it was, byte for byte, if nobody edited it since. What is put into a file
that git tracks is said; new files of ours are ignored by way of `.git/info/exclude`, which is no file of the project.

`.interlock/join` of the project holds a record of what was put where, and in `original/` the files as they were.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import NotRequired, TypedDict

from interlock.errors import ConfigParseError, Conflict, InvalidRequest, StorageError
from interlock.integrations import RECORD
from interlock.integrations.entries import PROGRAMS, SettingsAddition, additions_for
from interlock.integrations.plugin import plugin_enabled
from interlock.integrations.settings_text import (
    MARK,
    Occupied,
    SettingsEntry,
    block,
    insert,
    scan,
    take_block,
    take_out,
)
from interlock.lazy_dataclass import dataclass
from interlock.storage.files import locked_directory

GIT_SECONDS = 10


class FileRecord(TypedDict):
    """What was done to one file. `original` is its copy in the record, None if it was new; `directories` were made for
    it. `inserted` is a block of lines, `entries` and `pieces` are those of JSON, the last first."""

    path: str
    kind: str
    original: str | None
    directories: list[str]
    sha256: str
    inserted: NotRequired[str]
    entries: NotRequired[list[SettingsEntry]]
    pieces: NotRequired[list[str]]


class ProgramRecord(TypedDict):
    """What a program was joined with; `plugin` where its plugin brings hooks and tools, so that no file has them."""

    home: str | None
    team: str
    name: str
    files: list[FileRecord]
    plugin: NotRequired[bool]


@dataclass(slots=True)
class Joined:
    """What `join` did: (path, what was done) of each file, and those of them that git tracks. `plugin` says that the
    program's plugin brings hooks and tools."""

    project: str
    plugin: bool = False
    files: list[tuple[str, str]] = field(default_factory=list)
    tracked: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Edit:
    file: FileRecord
    original: bytes | None
    data: bytes


def join_project(project: str, program: str, *, home: str | None, team: str, name: str) -> Joined:
    """Give the program that works in `project` our hooks and MCP entry. Repeated it changes nothing. Where the program
    loads our plugin, which brings both, only the record says which team is meant, and the files are given back.

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
        with _locked(project):
            record = joined_programs(project)
            joined = Joined(project, plugin_enabled(program, project))
            if joined.plugin and program in record and not record[program].get("plugin"):
                joined.files += [(path, done) for _, path, done in _take_back(project, record, program)]
                if program in record:
                    raise Conflict(f"{program} has hooks here that cannot be taken out; its plugin would double them.")
            before = {file["path"]: file for file in record[program]["files"]} if program in record else {}
            # Everything is worked out before anything is written, so that a refusal leaves all as it was.
            wanted = [] if joined.plugin else additions_for(program, home=home, team=team, name=name)
            edits = [_edit(project, program, one, before.get(one.path)) for one in wanted]
            for edit in edits:
                _write(project, edit)
                path, known = edit.file["path"], before.get(edit.file["path"])
                same = known is not None and known["sha256"] == edit.file["sha256"]
                joined.files.append((path, "unchanged" if same else "written"))
                if _git(project, "ls-files", "--error-unmatch", "--", path) is not None:
                    joined.tracked.append(path)
            new = [edit.file["path"] for edit in edits if edit.file["original"] is None]
            files = [*(edit.file for edit in edits), *_exclude(project, program, new, before)]
            record[program] = {"home": home, "team": team, "name": name, "files": files, "plugin": joined.plugin}
            _save(project, record)
            return joined
    except OSError as error:
        raise StorageError(f"{project} could not be joined: {error}.", path=project) from error


def leave_project(project: str, programs: list[str] | None = None) -> list[tuple[str, str, str]]:
    """Take our entries out of the project's settings; (program, path, what was done).

    What cannot be given back stays in the record, so that it can be tried again.

    Raises:
        ConfigParseError: the record cannot be read.
        StorageError: the file system refuses.
    """
    project = os.path.realpath(project)
    try:
        with _locked(project):
            record = joined_programs(project)
            if not record:
                return [done for one in programs or PROGRAMS for done in _leave_without_record(project, one)]
            done = []
            # The last that came goes first: its files may stand on those of the one before.
            for program in [one for one in reversed(list(record)) if programs is None or one in programs]:
                done += _take_back(project, record, program) or [(program, RECORD, "removed")]
            _save(project, record)
            return done
    except OSError as error:
        raise StorageError(f"{project} could not be left: {error}.", path=project) from error


def _take_back(project: str, record: dict[str, ProgramRecord], program: str) -> list[tuple[str, str, str]]:
    """Take a program's entries out of its files, and the program out of the record, but for what has to stay."""
    done: list[tuple[str, str, str]] = []
    kept: list[FileRecord] = []
    for file in reversed(record[program]["files"] if program in record else []):
        try:
            what = _give_back(project, file)
        except ValueError as error:
            what = f"left as it is ({error}); remove the entries of interlock by hand"
            kept.insert(0, file)
        else:
            _forget_block(project, record, program, file)
        done.append((program, file["path"], what))
    if kept:
        record[program]["files"] = kept
    else:
        record.pop(program, None)
    return done


def joined_programs(project: str) -> dict[str, ProgramRecord]:
    """The record of a project, by program; empty where none has joined.

    Raises:
        ConfigParseError: it cannot be read.
    """
    try:
        data = _read(os.path.join(os.path.realpath(project), RECORD, "record.json"))
        programs: dict[str, ProgramRecord] = {} if data is None else json.loads(data)["programs"]
        if not isinstance(programs, dict):
            raise ValueError("no programs in it")
        return programs
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigParseError(f"The record in {RECORD} cannot be read: {error}.", path=project) from error


def without_entries(data: bytes, file: FileRecord, original: bytes | None) -> bytes | None:
    """What a file is to hold once our entries are out of it; None if it is to go.

    Raises:
        ValueError: it cannot be read any more.
    """
    lost = original is None and file["original"] is not None
    if hashlib.sha256(data).hexdigest() == file["sha256"] and not lost:
        return original
    text = data.decode("utf-8")
    before = None if original is None else original.decode("utf-8")
    if file["kind"] == "json":
        left = take_out(text, file["entries"], file.get("pieces", ()))
        nothing = scan(left).value == {}
        same = before is not None and scan(left).value == (scan(before).value if before.strip() else {})
    else:
        left = take_block(text, file["inserted"])
        nothing = not left.strip()
        same = before is not None and left.rstrip() == before.rstrip()
    if nothing and file["original"] is None:
        return None
    return original if same else left.encode("utf-8")


def _edit(project: str, program: str, one: SettingsAddition, known: FileRecord | None) -> _Edit:
    path = os.path.join(project, one.path)
    if not os.path.realpath(path).startswith(project + os.sep):
        raise ConfigParseError(f"{one.path} is a link that leads out of the project; it is not written to.", path=path)
    original = _read(path)
    if known is not None and original is not None:
        with suppress(ValueError):  # What is wrong with it is said below.
            original = without_entries(original, known, _original_of(project, known))
    missing = []
    directory = os.path.dirname(one.path)
    while directory and not os.path.isdir(os.path.join(project, directory)):
        missing.append(directory)
        directory = os.path.dirname(directory)
    if known is not None and not missing:
        missing = known["directories"]
    file: FileRecord = {"path": one.path, "kind": "json", "original": None, "directories": missing, "sha256": ""}
    try:
        text = (original or b"").decode("utf-8")
        if one.lines:
            new = text + _toml_block(text, one.lines)
            file |= {"kind": "block", "inserted": new[len(text) :]}
        else:
            new, entries, pieces = insert(text, one.entries)
            file |= {"entries": entries, "pieces": pieces}
    except Occupied as error:
        raise Conflict(
            f"{one.path}: {error}. Take it out or rename it, then join again; nothing was changed.", path=path
        ) from None
    except ValueError as error:
        raise ConfigParseError(
            f"{one.path} cannot be read: {error}. Fix it first; nothing was changed.", path=path
        ) from None
    if original is not None:
        file["original"] = os.path.join("original", program, one.path)
    data = new.encode("utf-8")
    file["sha256"] = hashlib.sha256(data).hexdigest()
    return _Edit(file, original, data)


def _toml_block(text: str, lines: str) -> str:
    servers = tomllib.loads(text).get("mcp_servers", {})
    if not isinstance(servers, dict) or "interlock" in servers:
        raise Occupied("`mcp_servers.interlock` is there already")
    added = block(text, lines)
    try:
        tomllib.loads(text + added)
    except tomllib.TOMLDecodeError:
        raise Occupied("`mcp_servers` is written in one line, which nothing can be added to") from None
    return added


def _exclude(project: str, program: str, paths: list[str], before: dict[str, FileRecord]) -> list[FileRecord]:
    """Have git ignore what is new here, by a file that is not part of the project; its row of the record."""
    where = _git(project, "rev-parse", "--git-path", "info/exclude")
    prefix = _git(project, "rev-parse", "--show-prefix")
    path = os.path.join(project, where or "")
    if not where or prefix is None or not os.path.isdir(os.path.dirname(path)):
        return []
    # The project may be a part, or a worktree, of a repository that is elsewhere.
    place = os.path.relpath(path, project) if path.startswith(project + os.sep) else path
    known, data = before.get(place), _read(path)
    if known is not None and data is not None:
        data = without_entries(data, known, _original_of(project, known))
        _replace(path, data or b"", None)
    new = [one for one in paths if _git(project, "check-ignore", "-q", "--", one) is None]
    text = (data or b"").decode("utf-8", "surrogateescape")
    # The record's own line is in every program's block: each may be the last to leave.
    lines = "".join(f"/{prefix}{one}\n" for one in (f"{os.path.dirname(RECORD)}/", *new))
    inserted = block(text, lines).replace(MARK, f"{MARK} {program}")
    written = (text + inserted).encode("utf-8", "surrogateescape")
    file: FileRecord = {
        "path": place, "kind": "block", "inserted": inserted, "directories": [],
        "original": None if data is None else os.path.join("original", program, "exclude"),
        "sha256": hashlib.sha256(written).hexdigest(),
    }  # fmt: skip
    _write(project, _Edit(file, data, written))
    return [file]


def _give_back(project: str, file: FileRecord) -> str:
    """Take our entries out of one file of the record; what was done, in a word."""
    path = os.path.realpath(os.path.join(project, file["path"]))  # `join` wrote to where a link leads.
    data = _read(path)
    if data is None:
        return "gone"
    original = _original_of(project, file)
    left = without_entries(data, file, original)
    if left is None:
        os.unlink(path)
        for directory in file["directories"]:
            with suppress(OSError):
                os.rmdir(os.path.join(project, directory))
        return "removed"
    if left != data:
        _replace(path, left, stat.S_IMODE(os.stat(path).st_mode))
    return "restored" if left == original else "entries taken out" if left != data else "nothing of ours in it"


def _leave_without_record(project: str, program: str) -> Iterator[tuple[str, str, str]]:
    """Somebody removed the record: our entries are known by what they call."""
    for one in additions_for(program, home=None, team="", name=""):
        path = os.path.realpath(os.path.join(project, one.path))
        try:
            text = (_read(path) or b"").decode("utf-8")
            left = take_block(text, one.lines) if one.lines else take_out(text, one.entries) if text else ""
        except ValueError as error:
            yield program, one.path, f"left as it is ({error}); if interlock has entries there, remove them by hand"
            continue
        if left != text:
            _replace(path, left.encode("utf-8"), stat.S_IMODE(os.stat(path).st_mode))
            yield program, one.path, "entries taken out"


def _forget_block(project: str, record: dict[str, ProgramRecord], program: str, file: FileRecord) -> None:
    """What another program found in the same file is not the file as it was: it held our block."""
    for other in record:
        for one in record[other]["files"]:
            if other != program and one["path"] == file["path"] and file["kind"] == "block" and one["original"]:
                kept = os.path.join(project, RECORD, one["original"])
                data = _read(kept)
                if data is not None:
                    _replace(kept, data.replace(file["inserted"].encode("utf-8"), b"", 1), None)


def _save(project: str, record: dict[str, ProgramRecord]) -> None:
    """Write the record; without a program in it, remove it with all that belongs to it."""
    directory = os.path.join(project, RECORD)
    if record:
        text = json.dumps({"version": 1, "programs": record}, indent=2, ensure_ascii=False) + "\n"
        _replace(os.path.join(directory, "record.json"), text.encode("utf-8"), 0o600)
    else:
        shutil.rmtree(directory)


def _original_of(project: str, file: FileRecord) -> bytes | None:
    return None if file["original"] is None else _read(os.path.join(project, RECORD, file["original"]))


def _write(project: str, edit: _Edit) -> None:
    path = os.path.realpath(os.path.join(project, edit.file["path"]))
    if edit.original is not None and edit.file["original"] is not None:
        kept = os.path.join(project, RECORD, edit.file["original"])
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        _replace(kept, edit.original, 0o600)
    if _read(path) != edit.data:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _replace(path, edit.data, stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else None)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _replace(path: str, data: bytes, mode: int | None) -> None:
    """Put `data` at `path` in one step; the file is as it was where the file system refuses."""
    unfinished = f"{path}.{os.getpid()}.tmp"
    try:
        with open(unfinished, "wb") as file:
            file.write(data)
        if mode is not None:
            os.chmod(unfinished, mode)
        os.replace(unfinished, path)
    except OSError:
        with suppress(OSError):
            os.unlink(unfinished)
        raise


def _git(project: str, *words: str) -> str | None:
    """What git prints; None where it refuses, or is not there."""
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
def _locked(project: str) -> Iterator[None]:
    """Keep others from joining or leaving here meanwhile."""
    directory = os.path.join(project, RECORD)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    try:
        with locked_directory(project):
            yield
    finally:
        for path in (directory, os.path.dirname(directory)):
            with suppress(OSError):
                os.rmdir(path)  # Nothing was joined after all.
