"""The stories of a project: what there is to implement, in which order, and what each waits for. Pure reads.

Two inventories are known, and a project may have both:

    stories.yaml          of a spec folder (6.12): `SPEC.md`, the list, and one record a story in `stories/<id>-*.md`
    sprint-status.yaml    of the implementation artifacts, with the stories' texts in the epics files

What a story waits for is said by an explicit key (`depends_on` in the list, in the frontmatter of a story's file, or
under `stories: dependencies:` in `interlock.workflows.yaml`); else by the story's own text ("depends on", "after
story"); else by what an agent has proposed and somebody accepted (`proposal`); else it is the order of the list. An
epic waits for the one before it in the same list, unless it says that it is independent or what it depends on; spec
folders are lists of their own.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from interlock.errors import ConfigParseError, InvalidRequest, NotFound
from interlock.workflow.package import files as package_files
from interlock.workflow.package.files import Files
from interlock.workflow.package.packages import Package
from interlock.workflow.package.variables import DEFAULT_OUTPUT
from interlock.workflow.package.workflow import FILE as OVERLAY
from interlock.workflow.state import status_file

BACKLOG, DONE, BLOCKED = "backlog", "done", "blocked"
SPRINT = "sprint-status.yaml"
LISTED = "stories.yaml"
KEY = re.compile(r"^(\d+)-(\d+[a-z]?)-[\w.-]+$")
HEADING = re.compile(
    r"^(#{2,4})[ \t]+(Epic|Story)[ \t]+(\d+)(?:[.-](\d+[a-z]?))?\b[ \t]*[:.\-–—]?[ \t]*(.*)$", re.M | re.I
)
NUMBER = r"(?:\d+[.-]\d+[a-z]?(?:-[\w-]*[a-z0-9])?|\d+)"
NAMED = rf"[`\"'(]?{NUMBER}[`\"')]?"
KIND = r"(?:stor(?:y|ies)|epics?)"
MANY = rf"(?:{KIND}[ \t#]*)?{NAMED}(?:[ \t]*(?:,|;|&|\band\b)+[ \t]*(?:(?:and|{KIND})[ \t#]*)*{NAMED})*"
SAID = re.compile(
    rf"(?:\bdepend(?:s|ent|encies|ency)?\b(?:[ \t]+(?:on|upon))?|\bblocked[ \t]+by\b|\bprerequisites?\b|"
    rf"\brequires?\b(?=[ \t*:]+(?:stor|epic))|\bafter\b(?=[ \t]+(?:stor|epic)))[ \t*_:]*({MANY})",
    re.I,
)
EPIC_NAMED = re.compile(r"\bepics?\b", re.I)
INDEPENDENT = re.compile(
    r"\bdependenc(?:y|ies)[ \t*_]*:[ \t*_]*none\b|\bno dependenc(?:y|ies)\b"
    r"|\bdepends?[ \t]+on[ \t]+(?:nothing|no other)\b"
    r"|\bindependent(?:ly)?[ \t]+of\b|\bis independent\b|\bcan be (?:done|implemented|built) in parallel\b",
    re.I,
)
ID = re.compile(r"^[A-Za-z0-9-]+$")
MOST = 2000


@dataclass(frozen=True, slots=True)
class PlannedStory:
    """One story. `key` is unique in the project, `id` what its own list calls it; `folder` is that of its
    `stories.yaml` and `file` its record or story file (both from the project's root, "" without one); `depends_on` maps
    each key that it waits for to the reason; `said`: somebody says what it waits for, or that it waits for nothing;
    `pauses` says that its list wants a person to look at it."""

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
    said: bool = False

    @property
    def done(self) -> bool:
        """Whether its list says so."""
        return self.status == DONE


@dataclass(frozen=True, slots=True)
class Backlog:
    """The stories in the order in which they may be dispatched. `epics` maps each epic to its title; `retrospectives`
    are the epics whose list asks for one that is not done; `faults` say what could not be read or makes no sense."""

    root: str
    stories: tuple[PlannedStory, ...] = ()
    epics: Mapping[str, str] = field(default_factory=dict)
    retrospectives: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    def chosen(self, keys: Sequence[str] = (), epic: str | None = None) -> tuple[PlannedStory, ...]:
        """The stories with those keys, or of that epic, or all, without what is done; in dispatch order, and with
        whatever they wait for.

        Raises:
            NotFound: there is no such story or epic, or several are meant.
        """
        if epic is not None and epic not in self.epics:
            raise NotFound(f"There is no epic {epic} here; there are {', '.join(self.epics) or 'none'}.", epic=epic)
        wanted = {self.find(key).key for key in keys}
        wanted |= {one.key for one in self.stories if not keys and epic in (None, one.epic)}
        known = {one.key: one for one in self.stories}
        waiting = [known[key] for key in wanted]
        while waiting:
            for key in waiting.pop().depends_on:
                if key not in wanted and not known[key].done:
                    wanted.add(key)
                    waiting.append(known[key])
        return tuple(one for one in self.stories if one.key in wanted and not one.done)

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
        listed = ", ".join(one.key for one in found or self.stories[:20]) or "none"
        raise NotFound(f"{'Several stories are' if found else 'No story is'} called {name}: {listed}.", story=name)


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
    known = {one.key: one for one in stories}
    given = {one.key: (proposed or {}).get(one.key) for one in stories if not one.said}
    given |= {key: dict.fromkeys(others, "interlock.workflows.yaml says so") for key, others in explicit.items()}
    for place, one in enumerate(stories := stories[:MOST]):
        if (waits := given.get(one.key)) is not None:
            waits = {key: why for key, why in waits.items() if key in known}
            stories[place] = replace(one, depends_on=waits, said=one.said or one.key in explicit)
    faults += [
        f"{key} depends on {other}, which is no story here" for key, others in explicit.items() for other in others
        if key in known and other not in known
    ]  # fmt: skip
    return Backlog(root, _ordered(stories, faults), epics, tuple(retrospectives), tuple(faults))


def of_sprint(root: str, config: Mapping[str, object], path: str) -> Backlog:
    """The stories of one `sprint-status.yaml` alone, which needs no package."""
    faults: list[str] = []
    stories, epics, retrospectives = _of_sprint(root, config, path, faults)
    return Backlog(root, _ordered(stories[:MOST], faults), epics, tuple(retrospectives), tuple(faults))


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
        faults.append(f"{name} cannot be read: {str(error).splitlines()[0]}")
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
            bool(entry.get("spec_checkpoint") or entry.get("done_checkpoint")),
        ))  # fmt: skip
    if not isinstance(entries, list):
        faults.append(f"{name} is not a list of stories")
    return _with_dependencies(made, {slug: ""}, faults)


def _of_sprint(
    root: str, config: Mapping[str, object], path: str, faults: list[str]
) -> tuple[list[PlannedStory], dict[str, str], list[str]]:
    try:
        with open(path, encoding="utf-8") as file:
            statuses = status_file.statuses(file.read(package_files.SETTINGS_LIMIT))
    except (OSError, UnicodeDecodeError, ConfigParseError) as error:
        faults.append(f"{os.path.relpath(path, root)} cannot be read: {error}")
        return [], {}, []
    texts = _epic_texts(root, config)
    folder = os.path.relpath(os.path.dirname(path), root)
    made: list[PlannedStory] = []
    epics: dict[str, str] = {}
    for key, status in statuses.items():
        named = KEY.match(key)
        if named is None:
            if (epic := re.fullmatch(r"epic-(\d+)", key)) is not None:
                epics[epic[1]] = texts.get((epic[1], ""), ("", ""))[0] or f"Epic {epic[1]}"
            continue
        epics.setdefault(named[1], f"Epic {named[1]}")
        title, text = texts.get((named[1], named[2].lower()), ("", ""))
        own = os.path.join(folder, f"{key}.md")
        settings = _front(os.path.join(root, own))
        there = os.path.isfile(os.path.join(root, own))
        title = title or key.partition("-")[2].partition("-")[2].replace("-", " ").capitalize()
        depends = dict.fromkeys(_texts(settings.get("depends_on")), "its file says so")
        status = {"drafted": "ready-for-dev", "contexted": BACKLOG}.get(status, status)
        made.append(PlannedStory(
            key, f"{named[1]}-{named[2]}", named[1], title[:200], status, text, "", own if there else "", "", depends
        ))  # fmt: skip
    retrospectives = [epic for epic in epics if statuses.get(f"epic-{epic}-retrospective", "") not in ("", DONE)]
    said = {epic: texts.get((epic, ""), ("", ""))[1] for epic in epics}
    return _with_dependencies(made, said, faults), epics, retrospectives


def _epic_texts(root: str, config: Mapping[str, object]) -> dict[tuple[str, str], tuple[str, str]]:
    """(epic, story; "" for the epic itself) to (title, text), out of the epics files, whole or sharded."""
    place = glob.escape(folders(root, config, "planning_artifacts"))
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for path in sorted({*glob.glob(f"{place}/*epic*.md"), *glob.glob(f"{place}/*epic*/*.md")}):
        text = Files(root).text(path) or ""
        marks = list(HEADING.finditer(text))
        for mark, end in zip(marks, [*(one.start() for one in marks[1:]), len(text)], strict=True) if marks else ():
            is_story = mark[2].lower() == "story"
            if is_story == (mark[4] is not None):
                body = text[mark.end() : end]
                found.setdefault((mark[3], (mark[4] or "").lower()), (mark[5].strip(" *"), body))
    return found


def _with_dependencies(stories: list[PlannedStory], epics: Mapping[str, str], faults: list[str]) -> list[PlannedStory]:
    """With what each story waits for, in one list."""
    by_id = {one.id: one.key for one in stories} | {one.key: one.key for one in stories}
    of_epic: dict[str, list[PlannedStory]] = {}
    for one in stories:
        of_epic.setdefault(one.epic, []).append(one)
    names = list(of_epic)
    found: dict[str, dict[str, str]] = {}
    clear: set[str] = set()
    for epic, its in of_epic.items():
        for place, one in enumerate(its):
            said = dict(one.depends_on) or _said(one.text, by_id, of_epic, one.epic)
            faults += [f"{one.key} depends on {key}, which is no story here" for key in said if key not in by_id]
            said = {by_id[key]: why for key, why in said.items() if key in by_id and by_id[key] != one.key}
            if said or INDEPENDENT.search(one.text):
                found[one.key] = said
                clear.add(one.key)
                continue
            found[one.key] = {its[place - 1].key: "it comes before it in the list"} if place else {}
            if not place:
                found[one.key] |= _of_epic(epic, epics.get(epic, ""), names, of_epic)
    return [replace(one, depends_on=found[one.key], said=one.key in clear) for one in stories]


def _of_epic(
    epic: str, text: str, names: Sequence[str], of_epic: Mapping[str, Sequence[PlannedStory]]
) -> dict[str, str]:
    """What the first story of an epic waits for: the last of those that the epic waits for."""
    said = [one for found in SAID.finditer(text) if EPIC_NAMED.search(found[0]) for one in re.findall(r"\d+", found[1])]
    if said:
        return {
            of_epic[one][-1].key: f"epic {epic} says that it depends on epic {one}" for one in said if one in of_epic
        }
    place = names.index(epic)
    if INDEPENDENT.search(text) or place == 0:
        return {}
    return {of_epic[names[place - 1]][-1].key: "its epic comes before in the list"}


def _said(
    text: str, known: Mapping[str, str], of_epic: Mapping[str, Sequence[PlannedStory]], own: str
) -> dict[str, str]:
    """The stories that a text says it depends on; a bare number is one of the same list's ids, or an epic's."""
    found: dict[str, str] = {}
    for match in SAID.finditer(text):
        why = f"its text says “{' '.join(match[0].split())}”"
        epics = bool(EPIC_NAMED.search(match[0]))
        for name in re.findall(NUMBER, match[1]):
            name = name.replace(".", "-").lower()
            if epics and name in of_epic and name != own:
                found[of_epic[name][-1].key] = why
                continue
            key = known.get(name) or known.get(f"{own}-{name}")
            if key is not None:
                found[key] = why
    return found


def _ordered(stories: Sequence[PlannedStory], faults: list[str]) -> tuple[PlannedStory, ...]:
    """In dispatch order: that of the lists, each story after all that it waits for."""
    known = {one.key: one for one in stories}
    placed: dict[str, PlannedStory] = {}

    def place(one: PlannedStory, above: tuple[str, ...]) -> None:
        for key in one.depends_on:
            if key in above:
                faults.append(f"dependency cycle: {' -> '.join([*above[above.index(key) :], key])}")
            elif key in known and key not in placed:
                place(known[key], (*above, key))
        placed.setdefault(one.key, one)

    for one in stories:
        if one.key not in placed:
            place(one, (one.key,))
    return tuple(placed.values())


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
