"""Hooks: programs that a workflow's author, or its user, has run at certain moments of a run (FR51, BMAD-hooks).

    hooks:
      PreToolUse:
        - {matcher: "edit|Bash", command: "scripts/check.sh --fast", critical: true, timeout: 10}
      Stop:
        - hooks: [{type: command, command: ["scripts/lint", "--all"]}]      # the nested form of Claude Code

They stand in the frontmatter of a step or of the workflow, or in our overlay file (decision 34). This module turns them
into `Hook`s and never raises: what cannot be read is a `Malformed` with file and line. Running them is
`runner`'s.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from interlock.errors import InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.processes import commands
from interlock.workflow.package import files as frontmatter
from interlock.workflow.package import overlay
from interlock.workflow.package.files import Files
from interlock.workflow.package.step import Step
from interlock.workflow.package.workflow import Workflow

PRE_TOOL, POST_TOOL, STOP, SESSION_START = EVENTS = ("PreToolUse", "PostToolUse", "Stop", "SessionStart")

TIMEOUT = 5.0
"""Seconds a hook may take that does not say otherwise (decision 42)."""
LONGEST = 600.0
MOST = 100  # hooks of one place
MATCHER_CHARS = 500
COMMAND_CHARS = 10_000

KEYS = ("matcher", "command", "critical", "timeout", "shell", "once", "hooks", "type")
PASSED_OVER = frozenset({"statusMessage", "description"})  # of Claude Code's; they change nothing here

# What Claude Code calls the tools that ACP tells by their kind.
NAMES = {
    "read": ("Read", "NotebookRead"),
    "edit": ("Edit", "Write", "MultiEdit", "NotebookEdit"),
    "execute": ("Bash",),
    "search": ("Grep", "Glob"),
    "fetch": ("WebFetch", "WebSearch"),
    "think": ("Task",),
}


@dataclass(frozen=True, slots=True)
class Hook:
    """One program at one moment. `command` are its arguments, with `shell` a single text for `/bin/sh`; `timeout` is in
    seconds; `file` (from the project's root) and `line` are where it was written."""

    event: str
    command: tuple[str, ...]
    matcher: str = ""
    critical: bool = False
    timeout: float = TIMEOUT
    shell: bool = False
    once: bool = False
    file: str = ""
    line: int = 1

    @property
    def name(self) -> str:
        """How it is called where people read of it."""
        return (self.command[0] if self.shell else shlex.join(self.command))[:200]

    @property
    def key(self) -> str:
        """What makes two hooks the same one: when it runs, and what."""
        same = [self.event, self.matcher, list(self.command), self.shell]
        return hashlib.sha256(json.dumps(same).encode()).hexdigest()[:16]

    @property
    def terms(self) -> str:
        """Everything that its author said, to see whether it was changed."""
        said = [self.key, self.critical, self.timeout, self.once]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]

    def matches(self, *names: str) -> bool:
        """Whether its matcher, a regular expression in any case, is one of these names as a whole."""
        if self.matcher in ("", "*"):
            return True
        wanted = re.compile(self.matcher, re.IGNORECASE)
        return any(wanted.fullmatch(name) for name in names if name)


@dataclass(frozen=True, slots=True)
class MalformedHook:
    """An entry that is no hook, and why. With `critical` its author wanted the run to depend on it."""

    message: str
    file: str
    line: int
    critical: bool = False

    @property
    def text(self) -> str:
        """The message with its place."""
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(frozen=True, slots=True)
class Found:
    """The hooks of one place or several, in their order."""

    hooks: tuple[Hook, ...] = ()
    malformed: tuple[MalformedHook, ...] = ()

    def __add__(self, other: Found) -> Found:
        """Both; of the same hook twice, what is said of it last counts."""
        hooks = {one.key: one for one in (*self.hooks, *other.hooks)}
        return Found(tuple(hooks.values()), tuple(dict.fromkeys((*self.malformed, *other.malformed))))

    def __bool__(self) -> bool:
        return bool(self.hooks or self.malformed)

    def of(self, event: str) -> tuple[Hook, ...]:
        """Those of one event."""
        return tuple(one for one in self.hooks if one.event == event)


def tool_names(kind: str, title: str) -> tuple[str, ...]:
    """What a matcher may call a tool: by its kind, by Claude Code's names for that, by its title or the first word."""
    return (kind, *NAMES.get(kind, ()), title, title.partition(" ")[0])


def of_step(files: Files, workflow: Workflow, step: Step) -> Found:
    """What runs during a step: the workflow's hooks, then its own."""
    return of_workflow(files, workflow) + _own(files, workflow, step)


def of_workflow(files: Files, workflow: Workflow) -> Found:
    """The hooks that all steps inherit."""
    return _read(files, workflow.skill.path, _overlaid(workflow), workflow.settings.get("hooks"))


def everywhere(files: Files, workflow: Workflow) -> Found:
    """All hooks of a workflow, also the same one with other terms in another step."""
    found = [of_workflow(files, workflow), *(_own(files, workflow, step) for step in workflow.steps)]
    hooks = {hook.terms: hook for one in found for hook in one.hooks}
    return Found(tuple(hooks.values()), tuple(dict.fromkeys(wrong for one in found for wrong in one.malformed)))


def discover(value: object, place: _Place | None = None) -> Found:
    """The hooks in the value of a `hooks` setting that stands in `place`."""
    place = place or _Place("")
    if value is None:
        return Found()
    if not isinstance(value, Mapping):
        return Found((), (place.wrong(f"`hooks` names events ({', '.join(EVENTS)}), each with a list of hooks"),))
    hooks: list[Hook] = []
    malformed: list[MalformedHook] = []
    for event, entries in value.items():
        for one in _of_event(str(event), entries, place.at(event)):
            (hooks if isinstance(one, Hook) else malformed).append(one)  # type: ignore[arg-type]
    if len(hooks) > MOST:
        malformed.append(place.wrong(f"more than {MOST} hooks; the others are left out", critical=True))
    return Found(tuple(hooks[:MOST]), tuple(malformed))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a file a value stands; `text` is that of the file, to count its lines when somebody asks."""

    file: str
    text: str = field(default="", repr=False)
    keys: tuple[str | int, ...] = ()

    def at(self, *keys: Any) -> _Place:
        return _Place(self.file, self.text, (*self.keys, *keys))

    @property
    def line(self) -> int:
        return frontmatter.line_of(self.text, self.keys, self.file)

    def wrong(self, message: str, *, critical: bool = False) -> MalformedHook:
        return MalformedHook(message, self.file, self.line, critical)


def _own(files: Files, workflow: Workflow, step: Step) -> Found:
    value = step.settings.get("hooks")
    if value is None or value is workflow.settings.get("hooks"):
        return Found()
    return _read(files, step.path, (*_overlaid(workflow), "steps", str(step.id)), value)


def _read(files: Files, path: str, overlaid: tuple[str, ...], value: object) -> Found:
    if value is None:
        return Found()
    if files.settings(path).values.get("hooks") is value:
        return discover(value, _Place(path, files.text(path) or "", ("hooks",)))
    return discover(value, _Place(overlay.FILE, files.text(overlay.FILE) or "", (*overlaid, "hooks")))


def _overlaid(workflow: Workflow) -> tuple[str, ...]:
    return ("workflows", f"{workflow.skill.module}/{workflow.skill.name}")


def _of_event(event: str, entries: object, place: _Place) -> Iterator[Hook | MalformedHook]:
    if event not in EVENTS:
        near = difflib.get_close_matches(event, EVENTS, 1, 0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield place.wrong(
            f"there is no event {event!r} (known: {', '.join(EVENTS)}){hint}", critical=_any_critical(entries)
        )
        return
    if isinstance(entries, (str, Mapping)):
        yield from _entry(event, entries, {}, place)
    elif isinstance(entries, Sequence):
        for number, entry in enumerate(entries):
            yield from _entry(event, entry, {}, place.at(number))
    elif entries is not None:
        yield place.wrong(f"{event} has a list of hooks, each with a `command`")


def _entry(
    event: str, entry: object, above: Mapping[str, Any], place: _Place, *, nested: bool = False
) -> Iterator[Hook | MalformedHook]:
    """One hook, or a group of them that share a matcher."""
    if isinstance(entry, str):
        entry = {"command": entry}
    if not isinstance(entry, Mapping):
        yield place.wrong(f"a hook of {event} is `command: …` with its settings, not {str(entry)[:40]!r}")
        return
    own = {str(key): value for key, value in entry.items() if key not in PASSED_OVER}
    said = own.get("critical", above.get("critical"))
    critical = said is not None and not _is_no(said)  # what cannot be read is not taken for the weaker one
    unknown = [key for key in own if key not in KEYS]
    if unknown:
        near = difflib.get_close_matches(unknown[0], KEYS, 1, 0.6)
        hint = f"; did you mean `{near[0]}`?" if near else f" (known: {', '.join(KEYS)})"
        yield place.at(unknown[0]).wrong(f"a hook has no setting `{unknown[0]}`{hint}", critical=critical)
        return
    inner = own.pop("hooks", None)
    if inner is None:
        yield _hook(event, {**above, **own}, critical, place)
        return
    if "command" in own or nested or not isinstance(inner, Sequence) or isinstance(inner, str):
        yield place.wrong(
            "`hooks` within a hook is a list of `{type: command, command: …}`, one level deep", critical=critical
        )
        return
    for number, one in enumerate(inner):
        yield from _entry(event, one, own, place.at("hooks", number), nested=True)


def _expression(text: str) -> str:
    re.compile("" if text == "*" else text)
    return text


class WrittenHook(BaseModel):
    """What the author of a hook may say beside its command."""

    type: Literal["command"] = "command"
    critical: bool = False
    shell: bool = False
    once: bool = False
    timeout: Annotated[float, Field(strict=True, gt=0, le=LONGEST)] = TIMEOUT
    matcher: Annotated[str, Field(strict=True, max_length=MATCHER_CHARS), AfterValidator(_expression)] = ""


SAYS = {
    "type": "only hooks of the type `command` are run here",
    "timeout": f"`timeout` is seconds, more than 0 and at most {LONGEST:g}",
    "matcher": "`matcher` is a regular expression for names of tools, such as `edit|Bash`",
}


def _hook(event: str, given: Mapping[str, Any], critical: bool, place: _Place) -> Hook | MalformedHook:
    try:
        said = WrittenHook.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        why = f"{SAYS.get(name, f'`{name}` is true or false')}, not {given[name]!r}"
        return place.at(name).wrong(why, critical=critical)
    except re.error as error:
        return place.at("matcher").wrong(f"`matcher` is no regular expression: {error}", critical=critical)
    command = _command(given.get("command"), said.shell)
    if isinstance(command, str):
        return (place.at("command") if "command" in given else place).wrong(command, critical=critical)
    return Hook(event, command, said.matcher, critical, said.timeout, said.shell, said.once, place.file, place.line)


def _command(given: object, shell: bool) -> tuple[str, ...] | str:
    """The arguments, or what is wrong with them."""
    if isinstance(given, str) and given.strip() and len(given) <= COMMAND_CHARS and "\0" not in given:
        if shell:
            return (given,)
        if commands.needs_shell(given):
            return f"{given[:100]!r} is in the shell's language; say `shell: true`, or write the arguments as a list"
        try:
            return tuple(commands.argv(given))
        except InvalidRequest as error:
            return error.message
    if isinstance(given, Sequence) and not isinstance(given, str) and given and not shell:
        words = tuple(str(one) for one in given if isinstance(one, (str, int, float)) and not isinstance(one, bool))
        whole = len(words) == len(given) and sum(map(len, words)) <= COMMAND_CHARS
        if whole and words[0] and not any("\0" in one for one in words):
            return words
    return "`command` names a program of the project with its arguments; with `shell: true` it is a text for /bin/sh"


def _is_no(value: object) -> bool:
    return str(value).strip().lower() in ("false", "no", "off", "0")


def _any_critical(entries: object) -> bool:
    listed = entries if isinstance(entries, Sequence) and not isinstance(entries, str) else [entries]
    said = (one.get("critical") for one in listed if isinstance(one, Mapping))
    return any(one is not None and not _is_no(one) for one in said)
