"""Writes docs/reference/*.md, and the files of scripts/manifests.py, from the tables in the code. With --check: says
which are behind, and exits 1."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import manifests, proofs
from scripts.metrics import modules, own_imports

PAGES = Path(__file__).resolve().parent.parent / "docs" / "reference"
HOUSE = "../explanation/how-it-works.md"
"""The one written page with a part from the code: between its two comments `house`."""
NOTE = "<!-- Written by `make reference` from {source}. Do not edit. -->\n"


@cache
def pages() -> dict[str, str]:
    """Return every page that the present code has, by file name."""
    from interlock.model.event import EVENT_TYPES
    from interlock.model.task import MOVES
    from interlock.plan.schema import json_schema
    from interlock.surfaces.cli.tree import TREE
    from interlock.surfaces.mcp.team_tools import TOOLS

    return {
        "errors.md": errors(),
        "settings.md": settings(),
        "events.md": events(EVENT_TYPES),
        "cli.md": command_line(TREE),
        "mcp.md": mcp_tools(TOOLS),
        "plan.md": plan_keys(json_schema()),
        "states.md": states(MOVES),
        HOUSE: house(),
        "../failures.md": proofs.failures(),
        "../incidents.md": proofs.incidents(),
        **{f"../../{path}": text for path, text in manifests.files().items()},
    }


def house() -> str:
    """Return the page that explains the design, with its diagram and table of folders drawn from the code."""
    graph: dict[str, set[str]] = defaultdict(set)
    promises: dict[str, str] = {}
    for module in modules():
        _, folder, *rest = module.name.split(".")
        if rest == ["__init__"]:
            promises[folder] = (ast.get_docstring(module.tree) or "").split("\n")[0].strip()
        if rest:
            names = [(node.module or "", alias.name) for node in own_imports(module.nodes) for alias in node.names]
            graph[folder] |= {f"{one}.{name}".split(".")[1] for one, name in names} - {folder}
    folders = {folder: targets & promises.keys() for folder, targets in graph.items() if folder in promises}

    def reached(folder: str) -> set[str]:
        seen: set[str] = set()
        stack = [folder]
        while stack:
            further = folders[stack.pop()] - seen
            seen |= further
            stack += further
        return seen

    lines = ["```mermaid", "flowchart TD"]
    for folder in sorted(folders):
        # What one can reach through another folder needs no arrow of its own.
        further = set[str]().union(*(reached(target) for target in folders[folder]))
        lines += [f"    {folder} --> {target}" for target in sorted(folders[folder] - further)]
    lines += [
        "```",
        "",
        table(("folder", "what it holds"), ((f"`{name}`", promises[name]) for name in sorted(folders))),
    ]
    text = (PAGES / HOUSE).read_text(encoding="utf-8")
    drawn = "<!-- house -->\n" + "\n".join(lines).rstrip() + "\n<!-- /house -->"
    return re.sub(r"<!-- house -->.*?<!-- /house -->", lambda _: drawn, text, flags=re.DOTALL)


def errors() -> str:
    """The error codes."""
    # Their classes are among the subclasses then, in whatever order the pages are made.
    import interlock.memory.store
    import interlock.workflow.errors  # noqa: F401
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


def command_line(rows: dict[str, tuple[tuple[str, str, str], ...]]) -> str:
    """The commands with their arguments and options, in the order of their help."""
    from interlock.surfaces.cli.command import SHARED
    from interlock.surfaces.cli.tree import cli

    codes = {
        0: "done; of `run`: every task is done; of `doctor`: healthy",
        1: "refused or failed; of `run`: something is left",
        2: "wrong usage",
        3: "there is nothing: of `task next`, `message wait` and `question list` with `--exit-code`",
        130: "interrupted",
        141: "whoever read the output is gone",
    }
    parts = [
        "## Exit codes\n",
        table(("code", "meaning"), ((str(code), meaning) for code, meaning in codes.items())),
        "## Options of every command\n\nThey may appear anywhere on the line; the last one wins.\n",
        table(("option", "meaning"), (option_row(option) for option in SHARED)),
    ]
    for title, verbs in rows.items():
        parts.append(f"## {title}\n")
        parts += [command(cli, path) for path, _, _ in verbs]
    return page(
        "Command line",
        "src/interlock/surfaces/cli/tree.py",
        "`interlock [OPTIONS] COMMAND …`. People get tables and colour, `--json` gives one JSON document on stdout; "
        "errors go to stderr, as JSON too where that was asked for. A text argument `-` is read from standard input. "
        "`interlock COMMAND --help` shows the same.",
        "\n".join(parts),
    )


def command(root: Any, path: str) -> str:
    """One command: its usage, what it says of itself, its options, its example."""
    import click

    found, context = root, click.Context(root, info_name="interlock")
    for name in path.split():
        found = found.get_command(context, name)
    arguments = [argument_word(one) for one in found.params if isinstance(one, click.Argument)]
    options = [option_row(one) for one in found.params if isinstance(one, click.Option)]
    usage = " ".join(["interlock", path, *(["[OPTIONS]"] if options else []), *arguments])
    said = "\n\n".join(" ".join(part.split()) for part in (found.help or "").split("\n\n"))
    parts = [f"### `interlock {path}`\n", f"    {usage}\n", f"{said}\n"]
    if options:
        parts.append(table(("option", "meaning"), options))
    if isinstance(found, click.Group):
        parts += [command(root, f"{path} {name}") for name in found.list_commands(context)]
    elif found.example:
        parts.append("Example:\n\n" + "".join(f"    {line}\n" for line in found.example.splitlines()))
    return "\n".join(parts)


def argument_word(argument: Any) -> str:
    """An argument as usage lines show it."""
    word = argument.metavar or str(argument.name).upper()
    if argument.nargs == -1:
        word += " …"
    return word if argument.required else f"[{word}]"


def option_row(option: Any) -> tuple[str, str]:
    """An option and what it means."""
    import click

    value = ""
    if isinstance(option.type, click.Choice):
        value = " " + "|".join(map(str, option.type.choices))
    elif not option.is_flag:
        value = f" {option.metavar or str(option.name).upper()}"
    notes = [*(["required"] if option.required else []), *(["may be repeated"] if option.multiple else [])]
    if option.show_default and option.default is not None and not option.is_flag:
        notes.append(f"default: {option.default}")
    meaning = " ".join([*([option.help] if option.help else []), *([f"[{', '.join(notes)}]"] if notes else [])])
    return f"`{', '.join(option.opts)}{value}`", meaning


def plan_keys(schema: dict[str, Any]) -> str:
    """The keys of a plan, one table a section, from the JSON Schema that checks it."""
    sections = {"A plan": schema}
    for name, section in schema["properties"].items():
        inner = section.get("additionalProperties") or section
        if "$ref" in inner:
            sections[f"`{name}`"] = schema["$defs"][inner["$ref"].rpartition("/")[2]]
    parts = []
    for title, section in sections.items():
        rows = (
            (f"`{name}`", value_words(name, one, name in section.get("required", ())), one.get("description", ""))
            for name, one in section["properties"].items()
        )
        parts.append(f"## {title}\n\n" + table(("key", "value", "meaning"), rows))
    return page(
        "Plan keys",
        "src/interlock/plan/schema.py",
        "A plan is a YAML file. Unknown keys are refused with the nearest name and the line; `interlock plan --schema` "
        "prints the JSON Schema, for editors. [Writing a plan](../guides/plans.md) explains how to use them.",
        "\n".join(parts),
    )


def value_words(name: str, schema: dict[str, Any], required: bool) -> str:
    """What may stand behind a key, in words."""
    forms = schema.get("anyOf", [])
    if "$ref" in schema:
        words = f"the keys of [`{name}`](#{name})"
    elif isinstance(schema.get("additionalProperties"), dict):
        listed = "$ref" in schema["additionalProperties"]
        data = "names, each with a text, a number, true or false"
        words = f"names, each with the keys of [`{name}`](#{name})" if listed else data
    elif {"const": False} in forms:
        words = "text, or `false`"
    elif any(form.get("type") == "object" for form in forms):
        words = "a name, or `{command: […]}`"
    elif forms:
        words = "`90`, `30s`, `10m`, `1h30m`"
    else:
        words = schema_words({**schema, "maximum": None}, False)
    return f"{words}, **required**" if required else words


def mcp_tools(tools: dict[str, Any]) -> str:
    """The MCP tools and their arguments."""
    parts = []
    for tool in tools.values():
        parts.append(f"## `{tool.name}`\n")
        limits = [" *(for the lead only)*"] * tool.for_leads + [" *(in a workflow's run only)*"] * tool.in_workflow
        if tool.driven is not None:
            shown = ", ".join(f"`{name}`" for name in tool.driven) or "no arguments"
            limits.append(f" *(for an agent that the runner drives, with {shown})*")
        parts.append(tool.description + "".join(limits) + "\n")
        properties, required = tool.schema["properties"], tool.schema.get("required", ())
        if properties:
            rows = (
                (f"`{name}`", schema_words(schema, name in required), schema.get("description", ""))
                for name, schema in properties.items()
            )
            parts.append(table(("argument", "value", "meaning"), rows))
    return page(
        "MCP tools",
        "src/interlock/surfaces/mcp/team_tools.py",
        "`interlock mcp --team TEAM --as MEMBER` serves these over stdio for one member; a plain member does not see "
        "those for the lead. Arguments are snake_case, results camelCase. [Joining over "
        "MCP](../guides/agents-over-mcp.md) shows how to configure an agent program.",
        "\n".join(parts),
    )


def schema_words(schema: Any, required: bool) -> str:
    """What an argument may be, in words."""
    kinds = {"string": "text", "boolean": "true or false", "integer": "whole number",
             "number": "number", "array": "list of texts"}  # fmt: skip
    words = " or ".join(f"`{one}`" for one in schema.get("enum", ())) or kinds.get(schema["type"], schema["type"])
    if "minimum" in schema:
        most = schema["maximum"]
        words += f", at least {schema['minimum']}" if most is None else f", {schema['minimum']} to {most}"
    return f"{words}, **required**" if required else words


def states(moves: dict[str, frozenset[str]]) -> str:
    """Task states, the words for them, and where a task may go."""
    from interlock.model.task import FINAL, HELD, STATUS

    everywhere = {"cancelled", "deleted"}
    rows = (
        (
            f"`{state}`",
            f"`{STATUS[state]}`",
            "yes" if state in HELD else "",
            " ".join(f"`{target}`" for target in moves if target in moves[state]) or "(final)",
        )
        for state in moves
    )
    # Mermaid takes a hyphen in a name for an arrow.
    drawn = [
        f"    {state} --> {target}".replace("-progress", "_progress").replace("-response", "_response")
        for state in moves
        for target in moves
        if target in moves[state] and target not in everywhere
    ]
    diagram = [
        "stateDiagram-v2",
        *(f'    state "{one}" as {one.replace("-", "_")}' for one in moves if one not in everywhere),
        "    [*] --> ready",
        "    [*] --> backlog",
        *drawn,
        *(f"    {one} --> [*]" for one in moves if one in FINAL and one not in everywhere),
    ]
    return page(
        "Task states",
        "src/interlock/model/task.py",
        "One machine; members see `status`, files and events show `state`. Filters accept either word. Every change of "
        "state goes through this table, and writes one `task.transitioned` event per hop.",
        table(("state", "status", "held by its owner", "may go to"), rows)
        + "\nThe same as a picture. Left out: whatever is not final may also be cancelled or deleted.\n\n"
        + "\n".join(["```mermaid", *diagram, "```", ""]),
    )


def page(title: str, source: str, lead: str, body: str) -> str:
    """A page with its title, where it comes from, a leading paragraph, and the rest."""
    return f"# {title}\n\n{NOTE.format(source=source)}\n{lead}\n\n{body}"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [
        head,
        tuple("---" for _ in head),
        *(tuple(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: list[str]) -> int:
    """Write the pages, or check them."""
    behind = [
        name
        for name, text in pages().items()
        if not (PAGES / name).exists() or (PAGES / name).read_text(encoding="utf-8") != text
    ]
    places = {name: (PAGES / name).resolve() for name in behind}
    if "--check" in arguments:
        for place in places.values():
            print(
                f"{place.relative_to(manifests.ROOT)} is not what the code says; run `make reference`", file=sys.stderr
            )
        return 1 if behind else 0
    for name, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(pages()[name], encoding="utf-8")
        print(f"wrote {place.relative_to(manifests.ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
