"""Step files: which step a file is, and what its frontmatter says.

A step is known by its file name. The `name` in its frontmatter is wrong in one of thirteen real files, and 62 of 244
have no frontmatter at all.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow.package.files import Fault, FileSettings

FILE = re.compile(r"^(?:step-)?(?P<path>[a-z](?=-\d))?-?(?P<number>\d{1,2})(?P<letter>[a-z])?(?:-(?P<slug>.+))?\.md$")
NAMED = re.compile(r"^step-(?P<slug>.+)\.md$")
HEADING = re.compile(r"^#\s+(.+)$", re.MULTILINE)
FOLDER = re.compile(r"(?:^|[-_])steps(?:-[a-z])?$")


@dataclass(frozen=True)
class Step:
    """One step of a workflow.

    `id` is an integer, a string where it is lettered or of a path of its own ("8a", "e3", "v2a"); `path` is that of its
    file from the project's root, `line` where it starts in it (files with several steps), `rendered` that of the file
    that a package's renderer has made of it.
    """

    id: int | str
    title: str
    path: str
    text: str = field(repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    fault: Fault | None = None
    line: int = 1
    optional: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)
    rendered: str = ""

    @property
    def order(self) -> tuple[str, int, str]:
        """By which steps of one workflow are sorted: path, number, letter; those without a number come last."""
        return order_of(self.path) or ("~", 0, str(self.id))


def is_step_file(path: str) -> bool:
    """Whether a file is a step by its name: numbered, or any other in a folder of steps."""
    folder, name = posixpath.split(path)
    if not name.endswith(".md"):
        return False
    numbered = FILE.match(name) is not None and (name[0] in "se" or name[0] == "v")
    return numbered or NAMED.match(name) is not None or FOLDER.search(posixpath.basename(folder)) is not None


def order_of(path: str) -> tuple[str, int, str] | None:
    """The sort key of a step file, or None for a file without a number."""
    found = FILE.match(posixpath.basename(path))
    return (found["path"] or "", int(found["number"]), found["letter"] or "") if found else None


def step_id(path: str) -> int | str:
    """The id that a file name gives; a file without a number is called by its name."""
    order = order_of(path)
    if order is None:
        named = NAMED.match(posixpath.basename(path))
        return named["slug"] if named else posixpath.basename(path).removesuffix(".md")
    kind, number, letter = order
    return number if not kind and not letter else f"{kind}{number}{letter}"


def of_file(path: str, settings: FileSettings) -> Step:
    """The step in a file."""
    heading = HEADING.search(settings.body)
    name = settings.values.get("name")
    title = heading[1].strip() if heading else str(name) if name else posixpath.basename(path).removesuffix(".md")
    return Step(step_id(path), title, path, settings.body, settings.values, settings.fault, settings.body_line)
