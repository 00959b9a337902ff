"""Story files: where the story of a run is, what stands in it, and what a review adds to it.

Found by what the run was given, by what it wrote, and last by the project's status file. What is written is what the
package's own review writes: notes, a line of the change log, the status. Everything else stays as it is.
"""

from __future__ import annotations

import glob
import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow.engine import documents
from interlock.workflow.state import status_file
from interlock.workflow.state.document import WorkflowState

FILE = re.compile(r"^(?:story-)?\d+[-.]\d+[-.].*\.md$", re.IGNORECASE)
VARIABLES = ("story_file", "story_path", "spec_file")
NUMBER = re.compile(r"^\d+[-.]\d+[\w-]*$")
KEY = re.compile(r"^\d+-\d+[a-z]?-")
STATUS = re.compile(r"^([^\w\n]*+Status[^\w:]*+:[ *_]*)([\w-]+)", re.IGNORECASE | re.MULTILINE)
NOTES = "Senior Developer Review (AI)"
READY = ("ready-for-dev", "drafted")
AT_WORK = ("review", "in-progress")
PATH = re.compile(r"`([^`\s]+)`|^[^\S\n]*[-*][^\S\n]+([\w./-]+\.\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
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
    start, end = _below(text, rf"\W*{re.escape(name)}\b") or (0, 0)
    return text[start:end].strip("\n")


def _below(text: str, heading: str) -> tuple[int, int] | None:
    """Where what stands below a heading begins, and where it ends; None without such a heading."""
    found = re.search(rf"^(#{{1,6}})[ \t]+{heading}.*$", text, re.IGNORECASE | re.MULTILINE)
    if found is None:
        return None
    after = re.compile(rf"^#{{1,{len(found[1])}}}[ \t]", re.MULTILINE).search(text, found.end())
    return found.end(), after.start() if after else len(text)


def find(
    root: str, named: Iterable[str], written: Iterable[str], config: Mapping[str, Any], *, guess: bool = True
) -> Story | None:
    """The story of a run: the first of the paths that were named for it, else of those it wrote, else, with `guess`,
    the one that the status file has at work. None where none of these is there."""
    named = list(named)
    paths = [documents.relative(root, one) for one in named if one.endswith(".md")]
    folders = list(dict.fromkeys(posixpath.dirname(one) for one in status_file.paths(root, config)))
    paths += [path for one in named if NUMBER.match(one) for path in _numbered(root, folders, one)]
    paths += [one for one in written if FILE.match(posixpath.basename(one))]
    statuses = sprint(root, config) if guess else {}
    at_work = [key for status in AT_WORK for key, its in statuses.items() if its == status and KEY.match(key)]
    # Two at once leave it open which one is meant.
    if at_work and (len(at_work) == 1 or statuses[at_work[0]] == AT_WORK[0]):
        key = at_work[0]
        paths += [documents.relative(root, posixpath.join(folder, f"{key}.md")) for folder in folders]
    found = next(iter(documents.existing(root, [one for one in paths if one])), None)
    return Story(found, documents.read(root, found)) if found else None


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
        found = [documents.relative(root, posixpath.join(folder, one)) for one in found]
        if found:
            break
    return found


def of_run(state: WorkflowState, root: str, config: Mapping[str, Any], *, guess: bool = True) -> Story | None:
    """The story that a run is about: as it was named by `--set` or its arguments, else see `find`."""
    named = [state.plan.values[name] for name in VARIABLES if state.plan.values.get(name)]
    named += [word.strip("`'\"(),") for word in state.plan.arguments.split()]
    written = [path for record in state.steps.values() for path in record.files]
    return find(root, named, [*written, *state.documents, *state.written], config, guess=guess)


def records(root: str, values: Mapping[str, str]) -> list[str]:
    """The records of a story of a spec (6.12), from the project's root; none where the run names no such story."""
    folder, id = values.get("spec_folder"), values.get("story_id")
    if not folder or not id:
        return []
    pattern = os.path.join(glob.escape(os.path.join(root, folder)), "stories", f"{glob.escape(id)}-*.md")
    return sorted(os.path.relpath(one, root) for one in glob.glob(pattern))


def sprint(root: str, config: Mapping[str, Any]) -> dict[str, str]:
    """The statuses of the project's stories, {} where it keeps none."""
    return status_file.read(sprint_path(root, config) or "") or {}


def sprint_path(root: str, config: Mapping[str, Any]) -> str | None:
    """The project's `sprint-status.yaml`, absolute; None where it has none."""
    paths = (one for one in status_file.paths(root, config) if one.endswith("sprint-status.yaml"))
    return next((one for one in paths if os.path.isfile(one)), None)


def all_ready(root: str, config: Mapping[str, Any]) -> list[str]:
    """The stories that are ready to be developed, in the order of the status file."""
    return [key for key, its in sprint(root, config).items() if its in READY and KEY.match(key)]


def with_notes(text: str, title: str, notes: Sequence[str], change: str, status: str | None) -> str:
    """`text` with one round of review more. The same round is not added twice."""
    heading = f"### {title}"
    if heading in text:
        return text
    if status is not None:
        text = STATUS.sub(lambda found: f"{found[1]}{status}", text, count=1)
    text = _append(text, "Change Log", f"- {change}", made=False)
    return _append(text, NOTES, "\n".join([heading, "", *notes]))


def _append(text: str, name: str, lines: str, *, made: bool = True) -> str:
    """`text` with lines more below a heading, which is made where there is none."""
    place = _below(text, rf"\W*{re.escape(name)}")
    if place is None:
        return f"{text.rstrip()}\n\n## {name}\n\n{lines}\n" if made else text
    head, tail = text[: place[1]].rstrip(), text[place[1] :]
    gap = "\n" if head.splitlines()[-1].lstrip().startswith(("-", "*")) and lines.startswith("-") else "\n\n"
    return f"{head}{gap}{lines}\n" + (f"\n{tail}" if tail.strip() else "")
