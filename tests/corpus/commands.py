"""Every command and skill that an installer lays down for an agent program: how it is written, and what it names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from interlock.workflow.package.packages import Package

TARGET = re.compile(r"(?:@|\{project-root\}/|\bat: ?)(_bmad/[^\s`'\",]+(?: [^\s`'\",]+)*?\.(?:yaml|md|xml))\b")
ENGINE = "_bmad/core/tasks/workflow.xml"


@dataclass(frozen=True)
class Command:
    """An installed command: its file, how it is written, and the definition its body names (from the root)."""

    path: str
    invocation: str
    target: str | None


def commands(package: Package) -> Iterator[Command]:
    root = package.root
    nested, flat = os.path.join(root, ".claude/commands/bmad"), os.path.join(root, ".claude/commands")
    for directory, below, names in os.walk(nested):
        below.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(directory, name), root).replace(os.sep, "/")
            parts = path.removesuffix(".md").split("/")[3:]
            if name.endswith(".md") and len(parts) == 3:
                yield Command(path, "/bmad:" + ":".join(parts), target(package.files.text(path) or ""))
    for name in sorted(os.listdir(flat)) if os.path.isdir(flat) else ():
        if name.startswith("bmad-") and name.endswith(".md"):
            path = f".claude/commands/{name}"
            yield Command(path, "/" + name.removesuffix(".md"), target(package.files.text(path) or ""))
    for skill in package.skills if package.generation == 3 else ():
        if package.files.exists(skill.path):
            yield Command(skill.path, skill.invocation, skill.path)


def target(body: str) -> str | None:
    """The definition that a command's text names, from the root; the engine only where nothing else is named."""
    named = TARGET.findall(body)
    named += re.findall(r"(?<![\w/@}])(_bmad/[^\s`'\",]+\.(?:yaml|md|xml))\b", body) if not named else []
    others = [one for one in named if one != ENGINE]
    return others[0] if others else named[0] if named else None
