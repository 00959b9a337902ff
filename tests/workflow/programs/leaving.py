"""What an honest agent leaves: the documents, sections and list of steps that a step's prompt names as its evidence.

Imports nothing of the engine: it reads what any agent is told.
"""

from __future__ import annotations

import re
from pathlib import Path

BEGINS = "## What this step must leave"
NAME = re.compile(r"`([^`]+)`")
WHOLE = "## What this workflow must leave"
STATUSES = "development_status:\n  epic-1: backlog\n  1-1-made: backlog\n"


def due(prompt: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """(kind, subject, paths) of each thing that the prompt says the step must leave."""
    _, begun, rest = prompt.partition(f"{BEGINS}\n\n")
    found = []
    for line in rest.split("\n\n")[0].splitlines() if begun else ():
        kind, _, said = line.removeprefix("- ").partition(": ")
        subject = where = said
        if kind == "section":
            subject, _, where = said.partition("` in ")
        elif kind == "frontmatter":
            where, _, subject = said.replace("`stepsCompleted` of ", "").partition(" lists ")
        found.append((kind, subject.strip("`"), tuple(one.replace("*", "x") for one in NAME.findall(where))))
    return found


def texts(root: Path, prompt: str) -> dict[str, str]:
    """The documents as they are when the step is told."""
    return {path: _read(root / path) for _, _, paths in due(prompt) for path in paths}


def leave(root: Path, prompt: str, before: dict[str, str], step: str) -> None:
    """Write what is still missing."""
    for kind, subject, paths in due(prompt):
        for path in paths[:1]:
            document = root / path
            text = _read(document)
            if kind in ("changed", "file") and all(_read(root / one) == before.get(one, "") for one in paths):
                text = f"{text}\nWritten for step {step}.\n"
            elif kind == "section" and f"## {subject}" not in text:
                text = f"{text}\n## {subject}\n\nContent.\n"
            elif kind == "frontmatter":
                text = _listed(text, subject)
            if text != _read(document):
                document.parent.mkdir(parents=True, exist_ok=True)
                document.write_text(text, encoding="utf-8")


def leave_all(root: Path, prompt: str) -> None:
    """Write what the prompt says that the whole workflow must leave, where it is not written yet."""
    _, begun, rest = prompt.partition(f"{WHOLE}\n\n")
    if not begun:
        return
    where, _, holds = rest.split("\n\n")[0].partition(" in it, with ")
    folder, *words = NAME.findall(where)
    status = "development_status" in holds
    document = root / folder / (words[0] if status else f"{'-'.join(words) or '1-1-made'}.md")
    text = STATUSES if status else "".join(f"\n## {one}\n\nIt is so.\n" for one in [*NAME.findall(holds), "A", "B"])
    if text not in _read(document):
        document.parent.mkdir(parents=True, exist_ok=True)
        document.write_text(text if status else _read(document) + text, encoding="utf-8")


def _listed(text: str, step: str) -> str:
    if not text.startswith("---\n"):
        return f"---\nstepsCompleted: [{step}]\n---\n\n{text}"
    found = re.search(r"^stepsCompleted: *\[(.*)\]", text, re.MULTILINE)
    if found is None:
        return text.replace("---\n", f"---\nstepsCompleted: [{step}]\n", 1)
    listed = [one.strip() for one in found[1].split(",") if one.strip()]
    listed += [] if step in listed else [step]
    return f"{text[: found.start()]}stepsCompleted: [{', '.join(listed)}]{text[found.end() :]}"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
