"""Step files: which step a file is, and what its frontmatter says.

A step is known by its file name. The `name` in its frontmatter is wrong in one of thirteen real files, and 62 of 244
have no frontmatter at all.

Instructions written as `<step n="1" goal="…">`, in .xml, in .md, and within newer SKILL.md files.

Only the .xml files are well-formed, so tags are found in the text; nothing here depends on their balance.

Which step follows: by frontmatter, by the step's own words, or by the order of the files.

Real references dangle in twenty files (a directory renamed, a variable never defined); the file of that name beside
the step, or in another folder of steps of the same workflow, is what was meant.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.workflow.package.files import Fault, FileSettings
from interlock.workflow.package.variables import Variables

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


STEP = re.compile(r"<step\b((?:[^<>\"']++|\"[^\"]{0,500}+\"|'[^']{0,500}+')*+)>")
ATTRIBUTE = re.compile(r"(?<![\w-])([\w-]++)\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)')")
TAG = re.compile(
    r"<(ask|template-output|check|invoke-workflow|invoke-task|goto)\b([^>]{0,2000})>(?:([^<]*)</\1>)?", re.DOTALL
)
SECTION = re.compile(
    r"^#{2,3}\s+(?:step\s+)?(\d{1,2}(?:\.\d{1,2}(?![\d.]))?)[.:)]?\s*[:\-–—]?\s*(.+)$", re.IGNORECASE | re.MULTILINE
)
CHAPTER = re.compile(r"^#{1,2}\s", re.MULTILINE)
MOST = 200


def steps_of(text: str, path: str) -> list[Step]:
    """The steps of an instructions file, in the order of their numbers. A step with `if`, `optional` or `repeat` says
    so."""
    found = list(STEP.finditer(text))[:MOST]
    if not found:
        return []
    steps = []
    seen: set[int | str] = set()
    for match, end in zip(found, [*(one.start() for one in found[1:]), len(text)], strict=True):
        attributes = attributes_of(match[1])
        # The same number stands in the branches of some files; the second is another step all the same.
        number = _identity(attributes.get("n", ""), seen)
        seen.add(number)
        title = attributes.get("goal") or attributes.get("title") or f"Step {number}"
        optional = attributes.get("optional") == "true" or "if" in attributes
        line = text.count("\n", 0, match.start()) + 1
        steps.append(Step(number, title, path, text[match.end() : end], {}, None, line, optional, attributes))
    return _in_order(steps, [one.attributes.get("n", "") for one in steps], ())


def sections_of(text: str, path: str, first_line: int = 1) -> list[Step]:
    """The numbered headings of a text, as steps, where it has no step tags: `### Step 1: Load`, `## 1. Load`."""
    found = list(SECTION.finditer(text))[:MOST]
    if not found:
        return []
    steps: list[Step] = []
    seen: set[int | str] = set()
    for match, end in zip(found, [*(one.start() for one in found[1:]), len(text)], strict=True):
        number = _identity(match[1], seen)
        seen.add(number)
        line = first_line + text.count("\n", 0, match.start())
        steps.append(Step(number, match[2].strip(" *"), path, text[match.end() : end], {}, None, line))
    # `## Activation` with steps 1 to 6 is done before `## Execution` with steps 0 to 5.
    levels = [match[0].startswith("###") for match in found]
    chapters = {
        place
        for place in range(1, len(found))
        if levels[place] and CHAPTER.search(text, found[place - 1].end(), found[place].start())
    }
    return _in_order(steps, [match[1] for match in found], chapters)


def _in_order(steps: list[Step], numbers: Sequence[str], chapters: Iterable[int]) -> list[Step]:
    """In exact numerical order (0.5 before 1), as the packages' own engine demands; within a chapter, and within a
    branch: one begins where a number comes again. What has no number stays behind its predecessor."""
    keys: list[tuple[int, tuple[int, ...]]] = []
    chapter, seen = 0, set[str]()
    last: tuple[int, ...] = ()
    for place, number in enumerate(numbers):
        if place in chapters or number in seen:
            chapter, last = chapter + 1, ()
            seen.clear()
        if re.fullmatch(r"\d{1,4}(?:\.\d{1,4})?", number):
            last = tuple(int(part) for part in number.split("."))
            seen.add(number)
        keys.append((chapter, last))
    return [step for _, step in sorted(zip(keys, steps, strict=True), key=lambda one: one[0])]


def attributes_of(text: str) -> Mapping[str, str]:
    """The attributes of a tag."""
    return {name: double or single for name, double, single in ATTRIBUTE.findall(text)}


def _identity(number: str, seen: set[int | str]) -> int | str:
    identity: int | str = int(number) if number.isdigit() else number or len(seen) + 1
    if identity not in seen:
        return identity
    return next(name for letter in range(1, MOST + 2) if (name := f"{identity}.{letter}") not in seen)


MAIN_KEY = re.compile(r"^nextStepFile$")
ANY_KEY = re.compile(r".")
BRANCH = re.compile(r"^(?:nextStep(?!File$)\w*|nextStepFile.+|alternateNextStep\w*|altStep\w*|skipToStep\w*|\w+Build)$")
RESUME = re.compile(r"^(?:continueFile|continueStepFile)$")
PROSE = re.compile(
    r"(?:\bload\b|\bexecute\b|\bproceed to\b|\bnext:?\*{0,2}|\bread fully\b|\bthen\b)[^`\n]{0,90}"
    r"[`\"'(]((?:\{[\w-]+\}/|\.{1,2}/)?[\w./{}-]*?(?:step-[\w{}-]+|[ev]-\d\d?[a-z]?-[\w-]+)\.md)[`\"')]",
    re.IGNORECASE,
)
SNAPSHOT = re.compile(r"\[\[bmad-snapshot:([\w./-]+\.md)\]\]")
"""How the sources of a skill that is rendered name its other files."""
TERMINAL = re.compile(
    r"\b(?:final step|last step|workflow (?:is )?complete|completes? the workflow"
    r"|no (?:additional|next|further|more) steps?)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Next:
    """A step that may follow. `via` is frontmatter, branch, prose, resume or order; `key` the setting that names it."""

    path: str
    via: str
    key: str = ""
    exists: bool = True


def next_steps(
    step: Step, variables: Variables, siblings: Sequence[str], exists: Callable[[str], bool], *, start: bool = False
) -> list[Next]:
    """The steps that may follow `step`, the most likely first; none after a final one.

    `siblings` are the paths of all step files of the workflow, `exists` says whether there is a file at a path (both
    from the project's root). With `start`, `step` is the workflow's own text, and any setting may name a first step.
    """
    declared = ((MAIN_KEY, "frontmatter"), (BRANCH, "branch"), (RESUME, "resume"))
    keys = ((ANY_KEY, "branch"),) if start else declared
    prose = _snapshots(step, siblings, start) if SNAPSHOT.search(step.text) else None
    found = [*_declared(step, variables, siblings, exists, keys), *(prose or _prose(step, variables, siblings, exists))]
    unique: dict[str, Next] = {}
    for one in found:
        if one.path != step.path:
            unique.setdefault(one.path, one)
    ways = sorted(unique.values(), key=lambda one: one.via == "resume")
    if start or any(one.via != "resume" for one in ways) or TERMINAL.search(step.text):
        return ways
    return ways + _by_order(step, siblings)


def _declared(
    step: Step,
    variables: Variables,
    siblings: Sequence[str],
    exists: Callable[[str], bool],
    keys: Sequence[tuple[re.Pattern[str], str]],
) -> Iterable[Next]:
    for wanted, via in keys:
        for key, value in step.settings.items():
            named = isinstance(value, str) and value.endswith(".md")
            if named and wanted.match(key) and (wanted is not ANY_KEY or is_step_file(value)):
                path, there = locate(value, step.path, variables, siblings, exists)
                yield Next(path, via, key, there)


def _prose(step: Step, variables: Variables, siblings: Sequence[str], exists: Callable[[str], bool]) -> Iterable[Next]:
    for found in PROSE.finditer(step.text):
        if "{{" in found[1]:
            continue
        path, there = locate(found[1], step.path, variables, siblings, exists)
        if there:  # what is not there was an example
            yield Next(path, "resume" if "continue" in posixpath.basename(path) else "prose")


def _snapshots(step: Step, siblings: Sequence[str], start: bool) -> list[Next]:
    """What the source of a rendered skill names: what stands in its last line follows. Everything else is a way for
    certain cases, such as the resume of a spec; the agent says when it is one of them."""
    folder = posixpath.dirname(step.path)
    last = step.text.rstrip().rpartition("\n")[2]
    ways = [posixpath.join(folder, name) for name in (*SNAPSHOT.findall(last), *SNAPSHOT.findall(step.text))]
    follows = set(ways[: len(SNAPSHOT.findall(last))])
    return [Next(path, "prose" if path in follows else "resume") for path in ways if path in siblings][
        : 1 if start else None
    ]


def _by_order(step: Step, siblings: Sequence[str]) -> list[Next]:
    """The next number in the same folder; a lettered file (1b) is a side entrance and has no follower of its own."""
    here = order_of(step.path)
    if here is None or here[2]:
        return []
    folder = posixpath.dirname(step.path)
    later = [
        (order, path)
        for path in siblings
        if posixpath.dirname(path) == folder and (order := order_of(path)) and order[0] == here[0] and order > here
    ]
    after = [(order, path) for order, path in later if order[1] == here[1] + 1]
    return [Next(min(after)[1], "order")] if after else []


def locate(
    reference: str, step_path: str, variables: Variables, siblings: Sequence[str], exists: Callable[[str], bool]
) -> tuple[str, bool]:
    """The path that a reference means, from the project's root, and whether it is there."""
    resolved = variables.resolve(reference).text
    if resolved.startswith(variables.project_root + "/"):
        resolved = resolved[len(variables.project_root) + 1 :]
        at_root = posixpath.normpath(resolved)
        if exists(at_root):
            return at_root, True
    folder = posixpath.dirname(step_path)
    tried = [posixpath.normpath(resolved)]
    if not resolved.startswith("/"):
        tried = [posixpath.normpath(posixpath.join(folder, resolved)), tried[0]]
        tried.append(posixpath.normpath(posixpath.join(posixpath.dirname(folder), resolved)))
    for path in tried:
        if exists(path):
            return path, True
    name = posixpath.basename(resolved)
    same = [path for path in siblings if posixpath.basename(path) == name]
    beside = [path for path in same if posixpath.dirname(path) == folder]
    if beside or same:
        return (beside or same)[0], True
    return tried[0], False


def chain(first: str, follow: Mapping[str, Sequence[Next]]) -> list[str]:
    """The steps from `first` along the most likely way, until one has no follower or comes again."""
    seen, path = dict[str, None](), first
    while path not in seen:
        seen[path] = None
        for one in follow.get(path, ()):
            if one.exists and one.path not in seen:
                path = one.path
                break
    return list(seen)
