"""Greenfield or brownfield: whether there is a project already (BMAD-2a.3, FR4, decision 32).

Greenfield is: no `src/`, `lib/` or `app/`, no package file, and fewer than 10 source files. What the workflow
packages install, dot-directories, `docs/`, vendored and ignored directories do not count: else every project would be
brownfield as soon as a package is installed in it. Of a project's own `.gitignore` enough is understood to tell the
author's code from what tools made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import field
from fnmatch import fnmatchcase

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json

RULES = 500  # read of one file


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a `.gitignore`, for paths below the directory that holds it; `**` stands for any directories."""

    below: str
    pattern: tuple[str, ...]
    keep: bool
    directories_only: bool

    def matches(self, path: str, directory: bool) -> bool:
        """Whether it speaks about `path`, which is written from the project's root with slashes."""
        if (self.directories_only and not directory) or not path.startswith(self.below):
            return False
        parts = path[len(self.below) :].split("/")
        places = {0}  # up to which part of the path the pattern may have come
        for one in self.pattern:
            if one == "**":
                places = set(range(min(places, default=len(parts) + 1), len(parts) + 1))
            else:
                places = {at + 1 for at in places if at < len(parts) and fnmatchcase(parts[at], one)}
        return len(parts) in places


def rules(text: str, below: str = "") -> list[Rule]:
    """The rules of one file; `below` is its directory, "" or ending with a slash."""
    return [rule for line in text.splitlines()[:RULES] if (rule := _rule(line, below))]


def ignored(path: str, directory: bool, known: Sequence[Rule]) -> bool:
    """Whether `path` is left out. The last rule that matches decides."""
    return next((not rule.keep for rule in reversed(known) if rule.matches(path, directory)), False)


def _rule(line: str, below: str) -> Rule | None:
    line = line.rstrip("\r")
    line = line if line.endswith("\\ ") else line.rstrip(" ")
    if not line or line.startswith("#") or len(line) > 200:
        return None
    keep = line.startswith("!")
    directories_only = line.endswith("/")
    line = line.removeprefix("!").rstrip("/")
    if not line:
        return None
    # `fnmatch` says `[!…]` and `[x]` where `.gitignore` says `[^…]` and `\x`.
    glob = re.sub(r"\\(.)", r"[\1]", line.lstrip("/")).replace("[^", "[!")
    deep = () if "/" in line else ("**",)
    inside = ("*",) if glob.endswith("/**") else ()  # `a/**` is what lies in `a`, and not `a`
    return Rule(below, (*deep, *glob.split("/"), *inside), keep, directories_only)


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


@dataclass(frozen=True, slots=True)
class Survey:
    """What a look into a directory found. Paths are written from its root; `components` are its top-level parts."""

    directories: tuple[str, ...] = ()
    package_files: tuple[str, ...] = ()
    source_files: int = 0
    components: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class ProjectType:
    """The type, and the criteria that made it so."""

    project_type: str
    detection_signals: tuple[str, ...] = field(default=())

    def as_dict(self) -> Json:
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
    directories: list[str] = []
    packages: list[str] = []
    components: set[str] = set()
    entries = sources = 0
    for directory, below, files in os.walk(root):
        here = os.path.relpath(directory, root).replace(os.sep, "/")
        here = "" if here == "." else here + "/"
        if ".gitignore" in files:
            known += rules(_text(os.path.join(directory, ".gitignore")), here)
        below[:] = sorted(
            name
            for name in below
            if not name.startswith(".") and name not in NOT_OURS and not ignored(here + name, True, known)
        )
        files = [name for name in sorted(files) if not ignored(here + name, False, known)]
        if not here:
            directories = [name for name in SOURCE_DIRECTORIES if name in below]
            packages = [name for name in PACKAGE_FILES if name in files]
        found = sum(os.path.splitext(name)[1].lower() in EXTENSIONS for name in files)
        parts = here.rstrip("/").split("/")
        # Below `src/` the parts of the project are one level deeper.
        depth = 2 if parts[0] in (*SOURCE_DIRECTORIES, "packages", "services", "apps") else 1
        if here and found:
            components.add("/".join(parts[:depth]))
        sources += found
        entries += len(below) + len(files)
        if entries >= ENTRIES:
            break
    return Survey(tuple(directories), tuple(packages), sources, tuple(sorted(components)), entries < ENTRIES)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(100_000)
    except OSError:
        return ""
