"""Story files: where the story of a run is, what stands in it, and what a review adds to it.

Found by what the run was given, by what it wrote, and last by the project's status file. What is written is what the
package's own review writes: notes, a line of the change log, the status. Everything else stays as it is.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.errors import NotFound
from interlock.storage.files import locked_directory
from interlock.workflow.engine import steps
from interlock.workflow.errors import StateConflict
from interlock.workflow.state import files, status_file
from interlock.workflow.state.document import WorkflowState

FILE = re.compile(r"^(?:story-)?\d+[-.]\d+[-.].*\.md$", re.IGNORECASE)
VARIABLES = ("story_file", "story_path", "spec_file")
NUMBER = re.compile(r"^\d+[-.]\d+[\w-]*$")
KEY = re.compile(r"^\d+-\d+[a-z]?-")
STATUS = re.compile(r"^([^\w\n]*+Status[^\w:]*+:[ *_]*)([\w-]+)", re.IGNORECASE | re.MULTILINE)
NOTES = "Senior Developer Review (AI)"
READY = ("ready-for-dev", "drafted")
AT_WORK = ("review", "in-progress")
TRIES = 3
PATH = re.compile(r"`([^`\s]+)`|^[^\S\n]*[-*][^\S\n]+([\w./-]+\.\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Story:
    """One story file. `path` is from the project's root, `key` that of the status file."""

    path: str
    text: str

    @property
    def key(self) -> str:
        """What the status file knows it by."""
        return posixpath.basename(self.path).removesuffix(".md").removeprefix("story-")

    @property
    def status(self) -> str:
        """Its status, "" where it names none."""
        found = STATUS.search(self.text)
        return found[2].lower() if found else ""

    @property
    def criteria(self) -> str:
        """Its acceptance criteria."""
        return section(self.text, "acceptance criteria")

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it says were changed."""
        listed = PATH.findall(section(self.text, "file list"))
        return tuple(dict.fromkeys(one or other for one, other in listed))


def section(text: str, name: str) -> str:
    """What stands below the heading that begins with `name`, up to the next one of its level; "" without one."""
    found = re.search(rf"^(#{{1,6}})[ \t]+\W*{re.escape(name)}\b.*$", text, re.IGNORECASE | re.MULTILINE)
    if found is None:
        return ""
    rest = text[found.end() :]
    after = re.search(rf"^#{{1,{len(found[1])}}}[ \t]", rest, re.MULTILINE)
    return (rest[: after.start()] if after else rest).strip("\n")


def find(
    root: str, named: Iterable[str], written: Iterable[str], config: Mapping[str, Any], *, guess: bool = True
) -> Story | None:
    """The story of a run: the first of the paths that were named for it, else of those it wrote, else, with `guess`,
    the one that the status file has at work. None where none of these is there."""
    named = list(named)
    paths = [steps.relative(root, one) for one in named if one.endswith(".md")]
    folders = list(dict.fromkeys(posixpath.dirname(one) for one in status_file.paths(root, config)))
    paths += [path for one in named if NUMBER.match(one) for path in _numbered(root, folders, one)]
    paths += [one for one in written if FILE.match(posixpath.basename(one))]
    key = _at_work(root, config) if guess else None
    if key is not None:
        paths += [steps.relative(root, posixpath.join(folder, f"{key}.md")) for folder in folders]
    found = next(iter(steps.existing(root, [one for one in paths if one])), None)
    return Story(found, steps.read(root, found)) if found else None


def _numbered(root: str, folders: Iterable[str], name: str) -> list[str]:
    """The story files whose key is `name`, or begins with its numbers (`1-2`, `1.2`)."""
    key = name.replace(".", "-")
    found = []
    for folder in folders:
        try:
            listed = sorted(os.listdir(folder))
        except OSError:
            continue
        found += [one for one in listed if one == f"{key}.md" or (one.startswith(f"{key}-") and one.endswith(".md"))]
        found = [steps.relative(root, posixpath.join(folder, one)) for one in found]
        if found:
            break
    return found


def of_run(state: WorkflowState, root: str, config: Mapping[str, Any], *, guess: bool = True) -> Story | None:
    """The story that a run is about: as it was named by `--set` or its arguments, else see `find`."""
    named = [state.plan.values[name] for name in VARIABLES if state.plan.values.get(name)]
    named += [word.strip("`'\"(),") for word in state.plan.arguments.split()]
    written = [path for record in state.steps.values() for path in record.files]
    return find(root, named, [*written, *state.documents, *state.written], config, guess=guess)


def _at_work(root: str, config: Mapping[str, Any]) -> str | None:
    statuses = sprint(root, config)
    at_work = [key for status in AT_WORK for key, its in statuses.items() if its == status and KEY.match(key)]
    # Two at once leave it open which one is meant.
    return at_work[0] if len(at_work) == 1 or (at_work and statuses[at_work[0]] == AT_WORK[0]) else None


def sprint(root: str, config: Mapping[str, Any]) -> dict[str, str]:
    """The statuses of the project's stories, {} where it keeps none."""
    return status_file.read(sprint_path(root, config) or "") or {}


def sprint_path(root: str, config: Mapping[str, Any]) -> str | None:
    """The project's `sprint-status.yaml`, absolute; None where it has none."""
    paths = (one for one in status_file.paths(root, config) if one.endswith("sprint-status.yaml"))
    return next((one for one in paths if os.path.isfile(one)), None)


def next_ready(root: str, config: Mapping[str, Any], done: str = "") -> str | None:
    """The next story that is ready to be developed, in the order of the status file; None where none is."""
    return next((key for key in all_ready(root, config) if key != done), None)


def all_ready(root: str, config: Mapping[str, Any]) -> list[str]:
    """The stories that are ready to be developed, in the order of the status file."""
    return [key for key, its in sprint(root, config).items() if its in READY and KEY.match(key)]


def write(path: str, change: Callable[[str], str], *, between: Callable[[], None] = lambda: None) -> str:
    """Change a story file, absolute, as it is now; its text afterwards. `between` is called after each reading.

    Raises:
        StateConflict: it was changed by somebody else at each of three tries; nothing was written.
        NotFound, StorageError: it is gone, or cannot be written.
        UnicodeDecodeError: it is no text.
    """
    for _ in range(TRIES):
        before = files.get(path)
        if before is None:
            raise NotFound(f"{path} does not exist; nothing was written.", path=path)
        after = change(before.decode("utf-8"))
        between()
        if after.encode() == before:
            return after
        with locked_directory(os.path.dirname(path)):
            if files.get(path) == before:
                files.put(path, after.encode(), os.stat(path).st_mode & 0o7777)
                return after
    raise StateConflict(
        f"{path} was changed by somebody else at each of {TRIES} tries; nothing was written. Try again.", path=path
    )


def with_notes(text: str, title: str, notes: Sequence[str], change: str, status: str | None) -> str:
    """`text` with one round of review more. The same round is not added twice."""
    heading = f"### {title}"
    if heading in text:
        return text
    if status is not None:
        text = STATUS.sub(lambda found: f"{found[1]}{status}", text, count=1)
    text = _append(text, "Change Log", f"- {change}", level="##", only_where_there=True)
    return _append(text, NOTES, "\n".join([heading, "", *notes]), level="##")


def _append(text: str, name: str, lines: str, *, level: str, only_where_there: bool = False) -> str:
    found = re.search(rf"^(#{{1,6}})[ \t]+\W*{re.escape(name)}.*$", text, re.IGNORECASE | re.MULTILINE)
    if found is None:
        return text if only_where_there else f"{text.rstrip()}\n\n{level} {name}\n\n{lines}\n"
    rest = text[found.end() :]
    after = re.search(rf"^#{{1,{len(found[1])}}}[ \t]", rest, re.MULTILINE)
    end = found.end() + (after.start() if after else len(rest))
    head, tail = text[:end].rstrip(), text[end:]
    gap = "\n" if head.splitlines()[-1].lstrip().startswith(("-", "*")) and lines.startswith("-") else "\n\n"
    return f"{head}{gap}{lines}\n" + (f"\n{tail}" if tail.strip() else "")
