"""Greenfield or brownfield: whether there is a project already (BMAD-2a.3, FR4, decision 32).

Greenfield is: no `src/`, `lib/` or `app/`, no package file, and fewer than 10 source files. What the workflow
packages install, dot-directories, `docs/`, vendored and ignored directories do not count: else every project would be
brownfield as soon as a package is installed in it.

What a project's own `.gitignore` leaves out: enough of its rules to tell the author's code from what tools made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

RULES = 500  # read of one file
RANGE = re.compile(r"[A-Za-z0-9]-[A-Za-z0-9]")


@dataclass(frozen=True)
class Rule:
    """One line of a `.gitignore`, for paths below the directory that holds it."""

    below: str
    pattern: re.Pattern[str]
    keep: bool
    directories_only: bool

    def matches(self, path: str, directory: bool) -> bool:
        """Whether it speaks about `path`, which is written from the project's root with slashes."""
        if self.directories_only and not directory:
            return False
        if self.below and not path.startswith(self.below):
            return False
        return self.pattern.fullmatch(path[len(self.below) :]) is not None


def rules(text: str, below: str = "") -> list[Rule]:
    """The rules of one file; `below` is its directory, "" or ending with a slash."""
    return [rule for line in text.splitlines()[:RULES] if (rule := _rule(line, below))]


def ignored(path: str, directory: bool, known: Sequence[Rule]) -> bool:
    """Whether `path` is left out. The last rule that matches decides."""
    for rule in reversed(known):
        if rule.matches(path, directory):
            return not rule.keep
    return False


def _rule(line: str, below: str) -> Rule | None:
    line = line.rstrip("\r")
    line = line if line.endswith("\\ ") else line.rstrip(" ")
    if not line or line.startswith("#") or len(line) > 200:
        return None
    keep = line.startswith("!")
    line = line[1:] if keep else line
    directories_only = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    anchored = "/" in line
    pattern = "".join(_translate(line.lstrip("/")))
    return Rule(below, re.compile(pattern if anchored else f"(?:.*/)?{pattern}"), keep, directories_only)


def _translate(glob: str) -> Iterable[str]:
    position = 0
    while position < len(glob):
        if glob.startswith("**/", position):
            yield "(?:.*/)?"
            position += 3
        elif glob.startswith("**", position):
            yield ".*"
            position += 2
        elif glob[position] == "*":
            yield "[^/]*"
            position += 1
        elif glob[position] == "?":
            yield "[^/]"
            position += 1
        elif glob[position] == "[" and (end := glob.find("]", position + 2)) > 0:
            yield _class(glob[position + 1 : end])
            position = end + 1
        else:
            yield re.escape(glob[position + 1] if glob[position] == "\\" and glob[position + 1 :] else glob[position])
            position += 2 if glob[position] == "\\" and glob[position + 1 :] else 1


def _class(inside: str) -> str:
    """A bracketed class; only ranges between letters or digits are ranges, everything else stands for itself."""
    negated = inside[0] in "!^"
    characters = inside[1:] if negated else inside
    ranges = [one for one in RANGE.findall(characters) if one[0] <= one[2]]
    literal = RANGE.sub("", characters)
    members = "".join([*ranges, *(re.escape(one) for one in literal)])
    if not members:
        return re.escape(f"[{inside}]")
    return f"[{'^' if negated else ''}{members}]"


SOURCE_DIRECTORIES = ("src", "lib", "app")
SOURCE_FILES = 10  # from here on it is brownfield
PACKAGE_FILES = (
    *("package.json", "pyproject.toml", "setup.py", "requirements.txt", "Cargo.toml", "go.mod", "pom.xml"),
    *("build.gradle", "build.gradle.kts", "Gemfile", "composer.json", "mix.exs", "pubspec.yaml", "Package.swift"),
    *("deno.json", "CMakeLists.txt", "project.clj", "build.sbt", "project.godot"),
)
NOT_OURS = {
    *("_bmad", "_bmad-output", "docs", "node_modules", "vendor", "third_party", "venv", "env", "__pycache__"),
    *("dist", "build", "target", "bower_components", "site-packages"),
}
EXTENSIONS = frozenset(
    ".py .pyi .js .mjs .cjs .jsx .ts .tsx .vue .svelte .java .kt .kts .scala .groovy .clj .go .rs .c .h .cc .cpp .cxx "
    ".hpp .hh .m .mm .cs .fs .vb .swift .rb .php .pl .pm .lua .dart .ex .exs .erl .hs .ml .r .jl .sh .sql .html .css "
    ".scss .gd .zig .nim".split()
)
ENTRIES = 50_000  # looked at; a larger project is long since brownfield


@dataclass(frozen=True)
class Survey:
    """What a look into a directory found. Paths are written from its root; `components` are its top-level parts."""

    directories: tuple[str, ...] = ()
    package_files: tuple[str, ...] = ()
    source_files: int = 0
    components: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True)
class ProjectType:
    """The type, and the criteria that made it so."""

    project_type: str
    detection_signals: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """The shape that `interlock analyze project` shows."""
        return {"project_type": self.project_type, "detection_signals": list(self.detection_signals)}


def classify(survey: Survey) -> ProjectType:
    """The type that a survey shows."""
    signals = [f"directory {name}/" for name in survey.directories]
    signals += [f"package file {name}" for name in survey.package_files]
    more = "" if survey.complete else "at least "
    if survey.source_files >= SOURCE_FILES:
        signals.append(f"{more}{survey.source_files} source files")
    if signals:
        return ProjectType("brownfield", tuple(signals))
    count = f"{survey.source_files} source file{'' if survey.source_files == 1 else 's'}"
    none = f"no {'/, '.join(SOURCE_DIRECTORIES[:-1])}/ or {SOURCE_DIRECTORIES[-1]}/ directory"
    return ProjectType("greenfield", (none, "no package file", f"{count}, fewer than {SOURCE_FILES}"))


def survey(root: str) -> Survey:
    """Look through the directory `root`. Links are not followed; a directory that cannot be read counts as empty."""
    known: list[Rule] = []
    found = _Counter()
    for directory, below, files in os.walk(root):
        here = os.path.relpath(directory, root).replace(os.sep, "/")
        here = "" if here == "." else here + "/"
        if ".gitignore" in files:
            known += rules(_text(os.path.join(directory, ".gitignore")), here)
        below[:] = sorted(name for name in below if _ours(name, here, known))
        found.add(here, below, [name for name in sorted(files) if not ignored(here + name, False, known)])
        if found.entries >= ENTRIES:
            break
    return found.survey()


def _ours(name: str, here: str, known: list[Rule]) -> bool:
    return not name.startswith(".") and name not in NOT_OURS and not ignored(here + name, True, known)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(100_000)
    except OSError:
        return ""


class _Counter:
    """What the walk has seen so far."""

    def __init__(self) -> None:
        self.entries = 0
        self.sources = 0
        self.directories: list[str] = []
        self.packages: list[str] = []
        self.components: dict[str, int] = {}

    def add(self, here: str, below: list[str], files: list[str]) -> None:
        """One directory, with what is in it and counts."""
        self.entries += len(below) + len(files)
        if not here:
            self.directories = [name for name in SOURCE_DIRECTORIES if name in below]
            self.packages = [name for name in PACKAGE_FILES if name in files]
        sources = sum(os.path.splitext(name)[1].lower() in EXTENSIONS for name in files)
        self.sources += sources
        parts = here.rstrip("/").split("/")
        # Below `src/` the parts of the project are one level deeper.
        depth = 2 if parts[0] in (*SOURCE_DIRECTORIES, "packages", "services", "apps") else 1
        component = "/".join(parts[:depth])
        if component and sources:
            self.components[component] = self.components.get(component, 0) + sources

    def survey(self) -> Survey:
        """All of it."""
        return Survey(
            tuple(self.directories),
            tuple(self.packages),
            self.sources,
            tuple(sorted(self.components)),
            self.entries < ENTRIES,
        )
