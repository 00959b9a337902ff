"""Which step follows: by frontmatter, by the step's own words, or by the order of the files.

Real references dangle in twenty files (a directory renamed, a variable never defined); the file of that name beside
the step, or in another folder of steps of the same workflow, is what was meant.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from interlock.lazy_dataclass import dataclass
from interlock.workflow.package.step import Step, is_step_file, order_of
from interlock.workflow.package.variables import Variables

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
    main = [one for one in unique.values() if one.via != "resume"]
    ways = [*main, *[one for one in unique.values() if one.via == "resume"]]
    return ways if start or main or TERMINAL.search(step.text) else ways + _by_order(step, siblings)


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
