"""YAML text as a tree in which every piece knows its line, and the list that faults are gathered in.

ruamel.yaml is loaded here, when a plan is really read. Aliases are shared, not copied, and their expanded size is
bounded, so a small file cannot unfold into a large one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from interlock.errors import PlanError

Kind = Literal["text", "integer", "number", "boolean", "empty", "list", "mapping", "other"]

MOST_PIECES = 100_000
MOST_SHOWN = 20
MOST_FAULTS = 500
DEEPEST = 30

_SCALARS: dict[str, Kind] = {
    "tag:yaml.org,2002:str": "text",
    "tag:yaml.org,2002:int": "integer",
    "tag:yaml.org,2002:float": "number",
    "tag:yaml.org,2002:bool": "boolean",
    "tag:yaml.org,2002:null": "empty",
}


@dataclass(frozen=True, slots=True)
class Node:
    """A piece of the file. `text` is a scalar as written; `pairs` and `items` are those of a mapping and a list."""

    kind: Kind
    line: int
    text: str = ""
    items: tuple[Node, ...] = ()
    pairs: tuple[tuple[Node, Node], ...] = ()
    pieces: int = 1

    @property
    def described(self) -> str:
        """What it is, for a message: `a list`, `the number 3`."""
        shown = self.text if len(self.text) <= 40 else self.text[:39] + "…"
        return {
            "text": f"{shown!r}",
            "integer": f"the number {shown}",
            "number": f"the number {shown}",
            "boolean": f"the truth value {shown}",
            "empty": "nothing",
            "list": "a list",
            "mapping": "a mapping",
            "other": f"{shown!r}",
        }[self.kind]


class _TooManyPieces(Exception):
    """Taking the file apart was given up."""


class Faults:
    """Everything that is wrong with one plan, in the order of its lines."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._found: list[dict[str, Any]] = []

    def add(self, line: int | None, message: str, **more: int) -> None:
        """Note one fault; the same one at the same line counts once."""
        fault = {"path": self.path, "line": line, **more, "message": message}
        if fault not in self._found[-MOST_SHOWN:] and len(self._found) < MOST_FAULTS:
            self._found.append(fault)

    def __bool__(self) -> bool:
        return bool(self._found)

    def error(self) -> PlanError:
        """All of it as one error."""
        faults = sorted(self._found, key=lambda fault: fault["line"] or 0)
        shown = [_shown(fault) for fault in faults[:MOST_SHOWN]]
        if len(faults) > MOST_SHOWN:
            shown.append(f"and {len(faults) - MOST_SHOWN} more")
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        text = "\n".join(f"  {line}" for line in shown)
        return PlanError(f"{self.path} cannot be run as it stands, {count} to mend:\n{text}", errors=faults)


def _shown(fault: dict[str, Any]) -> str:
    if fault["line"] is None:
        return str(fault["message"])
    column = f", column {fault['column']}" if "column" in fault else ""
    return f"line {fault['line']}{column}: {fault['message']}"


def compose(text: str, faults: Faults) -> Node | None:
    """The tree of `text`, or null with the reason added to `faults`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import Composer
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    class Bounded(Composer):
        """Gives up early on a file of countless small pieces, which would take long to take apart."""

        pieces = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.pieces += 1
            if self.pieces > MOST_PIECES:
                raise _TooManyPieces
            return super().compose_node(parent, index)

    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = Bounded
    try:
        root = yaml.compose(text)
    except _TooManyPieces:
        faults.add(None, f"the plan has more than {MOST_PIECES:,} pieces; divide the work into several plans")
        return None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(str(part) for part in (error.context, error.problem) if part)
        place = {"column": mark.column + 1} if mark else {}
        faults.add(mark.line + 1 if mark else None, f"this is not YAML: {said}", **place)
        return None
    except YAMLError as error:
        position = getattr(error, "position", 0)
        before = text[:position] if isinstance(position, int) else ""
        column = len(before) - (before.rfind("\n") + 1) + 1
        faults.add(before.count("\n") + 1, "this is not YAML: a character that may not stand there", column=column)
        return None
    except RecursionError:
        faults.add(1, f"lists and mappings are nested too deeply; a plan needs no more than {DEEPEST} levels")
        return None
    except (ValueError, OverflowError, AssertionError) as error:
        # ruamel.yaml lets a few malformed escapes and numbers through to Python's own conversions.
        faults.add(None, f"this is not YAML: {error}. Look for an escape such as \\U........ in a quoted text")
        return None
    return _Conversion(faults).convert(root) if root is not None else None


class _Conversion:
    """One walk over ruamel's tree. Each of its nodes is converted once, however many aliases point to it."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._known: dict[int, Node] = {}
        self._open: set[int] = set()

    def convert(self, root: Any) -> Node | None:
        node = self._node(root)
        if node.pieces > MOST_PIECES:
            self._faults.add(node.line, f"with its aliases the plan unfolds to more than {MOST_PIECES:,} pieces")
        return None if self._faults else node

    def _node(self, raw: Any) -> Node:
        known = self._known.get(id(raw))
        if known is not None:
            return known
        line = raw.start_mark.line + 1
        if id(raw) in self._open:
            self._faults.add(line, f"the alias *{raw.anchor} stands inside what it names; write it out")
            return Node("empty", line)
        if len(self._open) > DEEPEST:
            self._faults.add(line, f"nested too deeply; a plan needs no more than {DEEPEST} levels")
            return Node("empty", line)
        self._open.add(id(raw))
        self._known[id(raw)] = node = self._fresh(raw, line)
        self._open.discard(id(raw))
        return node

    def _fresh(self, raw: Any, line: int) -> Node:
        if isinstance(raw.value, str):
            return Node(_SCALARS.get(str(raw.tag), "other"), line, text=raw.value)
        if raw.value and isinstance(raw.value[0], tuple):
            pairs = tuple((self._node(key), self._node(value)) for key, value in raw.value)
            return Node("mapping", line, pairs=pairs, pieces=1 + sum(k.pieces + v.pieces for k, v in pairs))
        if str(raw.tag) == "tag:yaml.org,2002:map":
            return Node("mapping", line)
        items = tuple(self._node(item) for item in raw.value)
        return Node("list", line, items=items, pieces=1 + sum(item.pieces for item in items))
