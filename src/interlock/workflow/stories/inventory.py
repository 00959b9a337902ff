"""The stories of a project: what there is to implement, in which order, and what each waits for. Pure reads.

Two inventories are known, and a project may have both:

    stories.yaml          of a spec folder (6.12): `SPEC.md`, the list, and one record a story in `stories/<id>-*.md`
    sprint-status.yaml    of the implementation artifacts, with the stories' texts in the epics files

What a story waits for is said by an explicit key (`depends_on` in the list, in the frontmatter of a story's file, or
under `stories: dependencies:` in `interlock.workflows.yaml`); else by a labelled line of its own text ("Depends on:
1.1", "Dependencies: none"); else by what an agent has proposed and somebody accepted (`proposal`); else it is the order
of the list. Who does not say otherwise waits for the whole epic before its own in the same list, unless that epic's
text has such a line; spec folders are lists of their own.

What waits for itself in the end, or for what is no story, cannot be done, and neither can what waits for that. The rest
of the project can.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import takewhile
from typing import NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from interlock.errors import ConfigParseError, InvalidRequest, NotFound
from interlock.lazy_dataclass import dataclass
from interlock.workflow.package import files as package_files
from interlock.workflow.package.files import Files
from interlock.workflow.package.overlay import FILE as OVERLAY
from interlock.workflow.package.packages import Package
from interlock.workflow.package.variables import DEFAULT_OUTPUT
from interlock.workflow.state import status_file

BACKLOG, DONE, BLOCKED = "backlog", "done", "blocked"
STATUSES = (BACKLOG, "ready-for-dev", "in-progress", "review", DONE)
"""Those of a story in `sprint-status.yaml`. Those of a record are judged by the skill that resumes it."""
SPRINT = "sprint-status.yaml"
LISTED = "stories.yaml"
KEY = re.compile(r"^(\d+)-(\d+[a-z]?)-[\w.-]+$")
HEADING = re.compile(
    r"^(#{2,4})[ \t]+(Epic|Story)[ \t]+(\d+)(?:[.-](\d+[a-z]?))?\b[ \t]*[:.\-–—]?[ \t]*(.*)$", re.M | re.I
)
LABEL = re.compile(
    r"^[ \t>*_+-]*(?:dependenc(?:y|ies)|depends[ \t]+on|blocked[ \t]+by|prerequisites?)[ \t*_]*:[ \t*_]*(.*)$",
    re.M | re.I,
)
"""A line that says what something waits for. Prose does not: "the price depends on 3 factors"."""
ITEM = re.compile(r"\A[ \t]*[-*+][ \t]+(.*)")
NOTHING = re.compile(r"(?:none|nothing|n/?a|[-–—]+)(?![\w/])\D*", re.I)
NUMBER = re.compile(r"(?<!\d)\d+[.-]\d")
PART = re.compile(
    r"(?:(stor(?:y|ies)|epics?)[ \t#]*)?"
    r"[`\"']?(\d+[.-]\d+[a-z]?(?:-[\w-]*[a-z0-9])?|\d+)[`\"']?(?=$|[\s:]|\.(?!\d))(.*)",
    re.I,
)
ID = re.compile(r"^[A-Za-z0-9-]+$")
MOST = 2000


@dataclass(frozen=True, slots=True)
class PlannedStory:
    """One story. `key` is unique in the project, `id` what its own list calls it; `folder` is that of its
    `stories.yaml` and `file` its record or story file (both from the project's root, "" without one); `depends_on` maps
    each key that it waits for to the reason; `said`: somebody says what it waits for, or that it waits for nothing;
    `pauses` says that its list wants a person to look at it, `plans_first` at its plan. `source` and `line` are where
    its text begins, from the project's root; line 0: it is not known."""

    key: str
    id: str
    epic: str
    title: str
    status: str
    text: str = ""
    folder: str = ""
    file: str = ""
    guidance: str = ""
    depends_on: Mapping[str, str] = field(default_factory=dict)
    condition: str = ""
    pauses: bool = False
    plans_first: bool = False
    said: bool = False
    source: str = ""
    line: int = 0

    @property
    def done(self) -> bool:
        """Whether its list says so."""
        return self.status == DONE


@dataclass(frozen=True, slots=True)
class Backlog:
    """The stories in the order in which they may be dispatched. `epics` maps each epic to its title; `retrospectives`
    are the epics whose list asks for one that is not done; `faults` say what could not be read or makes no sense.
    `impossible` maps the stories that cannot be done, because of what they wait for, to the reason."""

    root: str
    stories: tuple[PlannedStory, ...] = ()
    epics: Mapping[str, str] = field(default_factory=dict)
    retrospectives: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    impossible: Mapping[str, str] = field(default_factory=dict)

    def chosen(self, keys: Sequence[str] = (), epic: str | None = None) -> tuple[PlannedStory, ...]:
        """The stories with those keys, or of that epic, or all, without what is done and what is impossible; in
        dispatch order, and with whatever they wait for.

        Raises:
            NotFound: there is no such story or epic, or several are meant.
            InvalidRequest: one of `keys` is impossible.
        """
        if epic is not None and epic not in self.epics:
            raise NotFound(f"There is no epic {epic} here; there are {', '.join(self.epics) or 'none'}.", epic=epic)
        wanted = {self.find(key).key for key in keys}
        if refused := [self.impossible[key] for key in sorted(wanted & self.impossible.keys())]:
            raise InvalidRequest(f"This cannot be run: {'; '.join(refused)}.", field="stories", faults=refused)
        wanted |= {one.key for one in self.stories if not keys and epic in (None, one.epic)}
        known = {one.key: one for one in self.stories}
        waiting = [known[key] for key in wanted]
        while waiting:
            for key in waiting.pop().depends_on:
                if key in known and key not in wanted and not known[key].done:
                    wanted.add(key)
                    waiting.append(known[key])
        return tuple(one for one in self.stories if one.key in wanted - self.impossible.keys() and not one.done)

    def left_out(self, epic: str | None = None) -> list[str]:
        """Why stories of that epic, or of all, cannot be done; each reason once."""
        own = (one.key for one in self.stories if epic in (None, one.epic))
        return list(dict.fromkeys(self.impossible[key] for key in own if key in self.impossible))

    def find(self, name: str) -> PlannedStory:
        """The story of that key, or that its list calls so (`1.2` for `1-2-user-auth`).

        Raises:
            NotFound: there is none, or there are several.
        """
        number = name.replace(".", "-")
        found = [one for one in self.stories if one.key == name] or [
            one for one in self.stories if number == one.id or (not one.folder and one.key.startswith(f"{number}-"))
        ]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(one.key for one in found or self.stories[:20])
        said = f" called {name}: {listed}" if listed else f" called {name}: no story is listed here"
        raise NotFound(f"{'Several stories are' if found else 'No story is'}{said}.", story=name)


def read(package: Package, proposed: Mapping[str, Mapping[str, str]] | None = None) -> Backlog:
    """The stories of the project that the package is installed in. `proposed` maps the keys of stories to what they
    wait for, with the reasons, where nobody says it."""
    root, config = package.root, dict(package.config("bmm"))
    faults: list[str] = []
    stories: list[PlannedStory] = []
    epics: dict[str, str] = {}
    sprint = next(
        (one for one in status_file.paths(root, config) if one.endswith(SPRINT) and os.path.isfile(one)), None
    )
    listed = list(_spec_folders(root, config))
    retrospectives: list[str] = []
    for folder in listed:
        found = _of_folder(root, folder, faults)
        if found:
            stories += found
            epics[found[0].epic] = _title(os.path.join(root, folder, "SPEC.md")) or found[0].epic
    if sprint is not None:
        found, titles, retrospectives = _of_sprint(root, config, sprint, faults)
        stories += found
        epics |= titles
    explicit = _explicit(package.files, faults)
    known = {one.key for one in stories}
    given = {one.key: (proposed or {}).get(one.key) for one in stories if not one.said}
    given |= {key: dict.fromkeys(others, "interlock.workflows.yaml says so") for key, others in explicit.items()}
    for place, one in enumerate(stories := stories[:MOST]):
        if (waits := given.get(one.key)) is not None:
            if one.key not in explicit:  # A story may be gone since somebody accepted the proposal.
                waits = {key: why for key, why in waits.items() if key in known}
            stories[place] = replace(one, depends_on=waits, said=one.said or one.key in explicit)
    return _backlog(root, _behind_checkpoints(stories), epics, retrospectives, faults)


def of_sprint(root: str, config: Mapping[str, object], path: str) -> Backlog:
    """The stories of one `sprint-status.yaml` alone, which needs no package."""
    faults: list[str] = []
    stories, epics, retrospectives = _of_sprint(root, config, path, faults)
    return _backlog(root, stories[:MOST], epics, retrospectives, faults)


def sprint_path(root: str, config: Mapping[str, object]) -> str | None:
    """The project's `sprint-status.yaml`, absolute; None where it has none."""
    paths = (one for one in status_file.paths(root, config) if one.endswith(SPRINT))
    return next((one for one in paths if os.path.isfile(one)), None)


def folders(root: str, config: Mapping[str, object], name: str) -> str:
    """A folder of the configuration, absolute; that of all output where it is not set."""
    output = str(config.get("output_folder") or DEFAULT_OUTPUT)
    value = str(config.get(name) or output).replace("{output_folder}", output)
    return os.path.normpath(os.path.join(root, value.replace("{project-root}", root)))


def _spec_folders(root: str, config: Mapping[str, object]) -> Iterator[str]:
    places = (
        os.path.join(folders(root, config, "output_folder"), "specs"),
        folders(root, config, "planning_artifacts"),
        folders(root, config, "implementation_artifacts"),
    )
    seen = set()
    for place in places:
        inside = glob.escape(place)
        for path in sorted(glob.glob(os.path.join(inside, LISTED)) + glob.glob(os.path.join(inside, "*", LISTED))):
            folder = os.path.relpath(os.path.dirname(path), root).replace(os.sep, "/")
            if folder not in seen and not folder.startswith(".."):
                seen.add(folder)
                yield folder


def _of_folder(root: str, folder: str, faults: list[str]) -> list[PlannedStory]:
    """The stories of one spec folder, as upstream's schema has them; an unsound list is a fault and has none."""
    name = os.path.join(folder, LISTED)
    try:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            entries = YAML(typ="safe", pure=True).load(file.read(package_files.SETTINGS_LIMIT))
    except (OSError, UnicodeDecodeError, YAMLError, ValueError, RecursionError) as error:
        faults.append(f"{name} cannot be read: {package_files.told(error)}")
        return []
    slug = os.path.basename(folder).removeprefix("spec-") or "spec"
    made: list[PlannedStory] = []
    ids: list[str] = []
    for number, entry in enumerate(entries if isinstance(entries, list) else [], 1):
        id = entry.get("id") if isinstance(entry, dict) else None
        title = entry.get("title") if isinstance(entry, dict) else None
        if not isinstance(id, str) or not ID.match(id) or not isinstance(title, str):
            faults.append(f"{name}: entry {number} needs a quoted id of letters, digits and dashes, and a title")
            return []
        clash = next((one for one in ids if f"{id}-".startswith(f"{one}-") or one.startswith(f"{id}-")), None)
        if clash is not None:
            faults.append(f"{name}: the ids {clash!r} and {id!r} cannot be told apart in file names")
            return []
        ids.append(id)
        records = sorted(glob.glob(os.path.join(glob.escape(os.path.join(root, folder, "stories")), f"{id}-*.md")))
        status = _status(records[0]) if len(records) == 1 else BACKLOG
        condition = "ambiguous story file match" if len(records) > 1 else ""
        text = f"{title}\n{entry.get('description') or ''}"
        made.append(PlannedStory(
            f"{slug}-{id}", id, slug, " ".join(title.split())[:200], BLOCKED if condition else status, text, folder,
            os.path.relpath(records[0], root) if len(records) == 1 else "", str(entry.get("invoke_dev_with") or ""),
            {f"{slug}-{one}": "its list says so" for one in _texts(entry.get("depends_on"))}, condition,
            entry.get("done_checkpoint") is True, entry.get("spec_checkpoint") is True, source=name,
        ))  # fmt: skip
    if not isinstance(entries, list):
        faults.append(f"{name} is not a list of stories")
    return _with_dependencies(made, {})


def _behind_checkpoints(stories: Sequence[PlannedStory]) -> list[PlannedStory]:
    """With what comes after a story in its list waiting for it where a person is to look at it, as upstream has it,
    whatever else says what it waits for; but for what that story waits for itself."""
    found: list[PlannedStory] = []
    known = {one.key: one for one in stories}
    held: dict[str, str] = {}
    needed: set[str] = set()
    for before, one in zip((None, *stories), stories, strict=False):
        if before is None or before.folder != one.folder:
            held, needed = {}, set()
        more = {} if one.key in needed else {key: why for key, why in held.items() if key not in one.depends_on}
        found.append(replace(one, depends_on={**one.depends_on, **more}))
        if one.pauses:
            held = {one.key: "a person looks at it before anything after it in the list"}
            needed, todo = set(), [one.key]
            while todo:
                waits = [key for key in known[todo.pop()].depends_on if key in known and key not in needed]
                needed.update(waits)
                todo += waits
    return found


def _of_sprint(
    root: str, config: Mapping[str, object], path: str, faults: list[str]
) -> tuple[list[PlannedStory], dict[str, str], list[str]]:
    try:
        with open(path, encoding="utf-8") as file:
            statuses = status_file.statuses(file.read(package_files.SETTINGS_LIMIT), unset=True)
    except (OSError, UnicodeDecodeError, ConfigParseError) as error:
        faults.append(f"{os.path.relpath(path, root)} cannot be read: {package_files.told(error)}")
        return [], {}, []
    texts = _epic_texts(root, config)
    folder = os.path.relpath(os.path.dirname(path), root)
    made: list[PlannedStory] = []
    epics: dict[str, str] = {}
    for key, status in statuses.items():
        named = KEY.match(key)
        if named is None:
            if (epic := re.fullmatch(r"epic-(\d+)", key)) is not None:
                epics[epic[1]] = texts.get((epic[1], ""), EpicText()).title or f"Epic {epic[1]}"
            continue
        epics.setdefault(named[1], f"Epic {named[1]}")
        told = texts.get((named[1], named[2].lower()), EpicText())
        own = os.path.join(folder, f"{key}.md")
        settings = _front(os.path.join(root, own))
        there = os.path.isfile(os.path.join(root, own))
        title = told.title or key.partition("-")[2].partition("-")[2].replace("-", " ").capitalize()
        depends = dict.fromkeys(_texts(settings.get("depends_on")), "its file says so")
        made.append(PlannedStory(
            key, f"{named[1]}-{named[2]}", named[1], title[:200], meant(status), told.text, "", own if there else "",
            "", depends, source=told.source, line=told.line,
        ))  # fmt: skip
    retrospectives = [epic for epic in epics if statuses.get(f"epic-{epic}-retrospective", "") not in ("", DONE)]
    said = {epic: texts.get((epic, ""), EpicText()) for epic in epics}
    return _with_dependencies(made, said), epics, retrospectives


def meant(status: str) -> str:
    """The status that one in `sprint-status.yaml` stands for, however it is spelled; itself where it is not known."""
    same = "-".join(status.lower().replace("_", " ").split())
    same = {"drafted": "ready-for-dev", "contexted": BACKLOG}.get(same, same)
    return same if same in STATUSES else status


@dataclass(frozen=True, slots=True)
class EpicText:
    """What an epics file says of an epic or a story, and where that begins."""

    title: str = ""
    text: str = ""
    source: str = ""
    line: int = 0


def _epic_texts(root: str, config: Mapping[str, object]) -> dict[tuple[str, str], EpicText]:
    """(epic, story; "" for the epic itself) to what is said of it, out of the epics files, whole or sharded."""
    place = glob.escape(folders(root, config, "planning_artifacts"))
    found: dict[tuple[str, str], EpicText] = {}
    for path in sorted({*glob.glob(f"{place}/*epic*.md"), *glob.glob(f"{place}/*epic*/*.md")}):
        text = Files(root).text(path) or ""
        marks = list(HEADING.finditer(text))
        for mark, end in zip(marks, [*(one.start() for one in marks[1:]), len(text)], strict=True) if marks else ():
            is_story = mark[2].lower() == "story"
            if is_story == (mark[4] is not None):
                body = text[mark.end() : end]
                told = EpicText(
                    mark[5].strip(" *"), body, os.path.relpath(path, root), text.count("\n", 0, mark.end()) + 1
                )
                found.setdefault((mark[3], (mark[4] or "").lower()), told)
    return found


class NamedDependency(NamedTuple):
    """What a labelled line names: a story, or with `epic` a whole one; and the reason that people read."""

    name: str
    epic: bool
    why: str


def _labelled(told: EpicText, known: Container[str], *, epics: bool = False) -> list[NamedDependency] | None:
    """What the labelled lines of a text name, nothing where they say so; None where there is none, or one that cannot
    be read whole. `epics`: a bare number is that of an epic."""
    found: list[NamedDependency] = []
    none = False
    for mark in LABEL.finditer(told.text):
        at = f":{told.line + told.text.count(chr(10), 0, mark.start())}" if told.line else ""
        line = " ".join(re.sub(r"[*`]|^[ \t>_+-]+", "", mark[0]).split())
        why = f"{f'{told.source}{at}' if told.source else 'its text'} says “{line}”"
        values = [mark[1].strip(" \t*_")]
        if not values[0]:  # It is a list, then.
            below = told.text[mark.end() :].strip("\n").split("\n")
            values = [item[1] for item in takewhile(bool, map(ITEM.match, below)) if item]
        for value in values:
            none = none or NOTHING.fullmatch(value) is not None
            read = _named(re.sub(r"\([^()]*\)", "", value), why, known, epics)
            if read is None:
                return None
            found += read
    return found if found or none else None


def _named(value: str, why: str, known: Container[str], epics: bool) -> list[NamedDependency] | None:
    found = []
    for part in map(str.strip, re.split(r"[,;&/]|->|\band\b|\bor\b", value)):
        word, match = part.strip("`\"' .").lower(), PART.fullmatch(part)
        if word in known:
            found.append(NamedDependency(word, epics, why))
        elif match is not None and (match[1] or not match[2].isdigit() or not match[3].strip(" .")):
            epics = match[1].lower().startswith("epic") if match[1] else epics
            found.append(NamedDependency(match[2].replace(".", "-").lower(), epics, why))
        if word not in known and NUMBER.search(match[3] if match else part):
            return None  # As in "1.1 to 1.3": one of those would be lost.
    return found


def _with_dependencies(stories: list[PlannedStory], epics: Mapping[str, EpicText]) -> list[PlannedStory]:
    """With what each story waits for, in one list. `epics`: what is said of them."""
    by_id = {name.lower(): one.key for one in stories for name in (one.id, one.key)}
    of_epic: dict[str, list[PlannedStory]] = {}
    for one in stories:
        of_epic.setdefault(one.epic, []).append(one)
    found: dict[str, dict[str, str]] = {one.key: dict(one.depends_on) for one in stories}
    clear: set[str] = set()
    before = None
    for epic, its in of_epic.items():
        for place, one in enumerate(its):
            said = [] if one.depends_on else _labelled(EpicText("", one.text, one.source, one.line), by_id)
            if said is not None:
                clear.add(one.key)
            elif place:
                found[one.key][its[place - 1].key] = "it comes before it in the list"
            if said is None and (not place or its[place - 1].key in clear):
                said = _labelled(epics.get(epic, EpicText()), by_id, epics=True)
                if said is None and before is not None:
                    said = [NamedDependency(before, True, "its epic comes before in the list")]
            for each in said or ():
                key = by_id.get(each.name) or by_id.get(f"{epic}-{each.name}") or each.name
                if each.epic and not NUMBER.match(each.name):
                    keys = [other.key for other in of_epic.get(each.name, ())] or [f"epic {each.name}"]
                    found[one.key] |= dict.fromkeys(keys, each.why)
                else:
                    found[one.key][key] = each.why
                found[one.key].pop(one.key, None)
        before = epic
    return [replace(one, depends_on=found[one.key], said=one.key in clear) for one in stories]


def _backlog(
    root: str, stories: Sequence[PlannedStory], epics: Mapping[str, str], retrospectives: Sequence[str],
    faults: Sequence[str],
) -> Backlog:  # fmt: skip
    """In dispatch order: that of the lists, each story after all that it waits for."""
    known = {one.key: one for one in stories}
    placed: dict[str, PlannedStory] = {}
    impossible = {
        one.key: f"{one.key} has {f'the status {one.status!r}' if one.status else 'no status'}; it must be one of "
        f"{', '.join(STATUSES)}"
        for one in stories
        if not one.folder and one.status not in STATUSES
    }

    def place(one: PlannedStory, above: tuple[str, ...]) -> None:
        for key, why in one.depends_on.items():
            if key not in known:
                impossible.setdefault(one.key, f"{one.key} depends on {key}, which is not here: {why}")
            elif key in above:
                circle = [*above[above.index(key) :], key]
                if not any(known[each].done for each in circle):
                    pairs = zip(circle, circle[1:], strict=False)
                    whys = "; ".join(f"{a} waits for {b}, {known[a].depends_on[b]}" for a, b in pairs)
                    impossible.update(dict.fromkeys(circle, f"dependency cycle: {' -> '.join(circle)}: {whys}"))
            elif key not in placed:
                place(known[key], (*above, key))
        placed.setdefault(one.key, one)

    for one in stories:
        if one.key not in placed:
            place(one, (one.key,))
    todo = list(impossible)
    while todo:
        name = todo.pop()
        for one in stories:
            if name in one.depends_on and one.key not in impossible and not known[name].done:
                impossible[one.key] = f"{one.key} waits for {name}, which cannot be done"
                todo.append(one.key)
    impossible = {one.key: impossible[one.key] for one in stories if one.key in impossible and not one.done}
    return Backlog(root, tuple(placed.values()), epics, tuple(retrospectives), tuple(faults), impossible)


def sound(inventory: Backlog) -> Backlog:
    """The inventory, if it can be carried out.

    Raises:
        InvalidRequest: it has faults.
    """
    if inventory.faults:
        raise InvalidRequest(
            f"The stories cannot be run: {'; '.join(inventory.faults[:10])}.",
            field="stories",
            faults=[*inventory.faults],
        )
    return inventory


def overlay(texts: Files) -> Mapping[str, object]:
    """What `interlock.workflows.yaml` says under `stories`: `dependencies`, and `verify` and `setup` of their plan."""
    settings = texts.settings(OVERLAY).values.get("stories") if texts.exists(OVERLAY) else None
    return settings if isinstance(settings, Mapping) else {}


def _explicit(texts: Files, faults: list[str]) -> dict[str, list[str]]:
    found = overlay(texts).get("dependencies")
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        faults.append(f"{OVERLAY}: `stories: dependencies:` maps a story's key to the keys of others")
        return {}
    return {str(key): _texts(value) for key, value in found.items()}


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, Iterable) and not isinstance(value, (str, Mapping)) else [value]
    return [str(one).strip() for one in values if one is not None and str(one).strip()]


def _front(path: str) -> Mapping[str, object]:
    return Files(os.path.dirname(path)).settings(path).values


def _status(path: str) -> str:
    status = _front(path).get("status")
    return str(status) if isinstance(status, str) and status else BACKLOG


def _title(path: str) -> str:
    found = re.search(r"^#[ \t]+(.+)$", Files(os.path.dirname(path)).settings(path).body, re.M)
    return found[1].strip() if found else ""
