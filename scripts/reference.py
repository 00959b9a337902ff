"""Writes docs/reference/*.md from the tables in the code. With --check: says which pages are behind, and exits 1."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PAGES = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- Written by `make reference` from {source}. Do not edit. -->\n"


def pages() -> dict[str, str]:
    """Every page that the present code has, by file name."""
    found = {"errors.md": errors(), "settings.md": settings()}
    optional: list[tuple[str, str, str, Callable[[Any], str]]] = [
        ("events.md", "interlock.model.event", "EVENT_TYPES", events),
        ("cli.md", "interlock.surfaces.cli.tree", "cli", command_line),
    ]
    for page, module, name, write in optional:
        table = look_up(module, name)
        if table is not None:
            found[page] = write(table)
    return found


def look_up(module: str, name: str) -> Any:
    """`name` of `module`; None where this version has no such module yet."""
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            return None
        raise


def errors() -> str:
    """The error codes."""
    from interlock.errors import error_codes

    return page(
        "Errors",
        "src/interlock/errors.py",
        'On every face an error is `{"error": code, "message": sentence, ...details}`, and the message says what to do '
        "next. Codes stay the same between versions.",
        table(("code", "meaning"), ((f"`{code}`", text) for code, text in sorted(error_codes().items()))),
    )


def settings() -> str:
    """The settings."""
    from interlock.settings import SETTINGS

    rows = (
        (
            f"`{one.name}`",
            f"`{str(one.default).lower() if isinstance(one.default, bool) else one.default}`",
            "team" if one.team else "home",
            f"`{one.variable}`",
            one.help,
        )
        for one in SETTINGS
    )
    return page(
        "Settings",
        "src/interlock/settings.py",
        "The strongest first: the environment variable, the team's own value (settings of scope *team* only), "
        "`<home>/settings.json`, the default. `interlock config list` shows what is in force and where it comes from.",
        table(("setting", "default", "scope", "variable", "meaning"), rows),
    )


def events(types: dict[str, str]) -> str:
    """The event types."""
    return page(
        "Events",
        "src/interlock/model/event.py",
        "Every change of a team writes its events in the same transaction. `interlock events` lists them.",
        table(("type", "written when"), ((f"`{name}`", text) for name, text in sorted(types.items()))),
    )


def command_line(root: Any) -> str:
    """The commands, as their own help shows them."""
    import click

    def sections(command: click.Command, path: str, parent: click.Context | None) -> Iterable[str]:
        context = click.Context(command, info_name=path.split()[-1], parent=parent, terminal_width=100, color=False)
        yield f"## `{path}`\n\n```\n{command.get_help(context)}\n```\n"
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                if child is not None and not child.hidden:
                    yield from sections(child, f"{path} {name}", context)

    return page(
        "Command line", "src/interlock/surfaces/cli/", "Every command, with its own help.",
        "\n".join(sections(root, "interlock", None)),
    )  # fmt: skip


def page(title: str, source: str, lead: str, body: str) -> str:
    """A page with its title, where it comes from, a leading paragraph, and the rest."""
    return f"# {title}\n\n{NOTE.format(source=source)}\n{lead}\n\n{body}"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: list[str]) -> int:
    """Write the pages, or check them."""
    behind = [
        name
        for name, text in pages().items()
        if not (PAGES / name).exists() or (PAGES / name).read_text(encoding="utf-8") != text
    ]
    if "--check" in arguments:
        for name in behind:
            print(f"docs/reference/{name} is not what the code says; run `make reference`", file=sys.stderr)
        return 1 if behind else 0
    PAGES.mkdir(parents=True, exist_ok=True)
    for name in behind:
        (PAGES / name).write_text(pages()[name], encoding="utf-8")
        print(f"wrote docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
