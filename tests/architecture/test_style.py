"""House rules that no linter knows."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.architecture.source import PACKAGE, ROOT, Function, Source, files, functions

BROAD = {"Exception", "BaseException"}
SQL = re.compile(r"\b(SELECT\s.+\sFROM\s|INSERT\s+(OR\s+\w+\s+)?INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s"
                 r"|(CREATE|DROP|ALTER)\s+(TABLE|INDEX|VIEW|TRIGGER)\s|PRAGMA\s+\w)", re.DOTALL)  # fmt: skip
# The hooks read waiting mail themselves, to start fast; the database of OpenCode's usage is its own, and only read.
SQL_MODULES = ("interlock.storage.", "interlock.storage.", "interlock.memory.", "interlock.memory.",
               "interlock.hooks_", "interlock.agents.usage")  # fmt: skip
LONGEST_FUNCTION, LARGEST_MODULE, MOST_POSITIONAL = 60, 600, 8
NAMED = re.compile(r"(?<=`)[a-z_]+(?:\.[a-z_]+)+(?=`)|[\w/]+\.py\b")
"""The name of a module in a docstring, or its file."""
SLEEPERS = {"time", "asyncio", "anyio", "trio"}


def test_whoever_catches_everything_says_why() -> None:
    silent = [
        source.at(node)
        for source in files()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ExceptHandler) and catches_everything(node) and "# boundary:" not in source.line(node)
    ]
    assert not silent, f"name the errors, or say `# boundary: why` on the line: {silent}"


def catches_everything(handler: ast.ExceptHandler) -> bool:
    if isinstance(handler.body[-1], ast.Raise):
        return False  # cleans up and passes it on
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD) for kind in kinds)


def test_sql_is_written_in_storage_and_memory_only() -> None:
    found = [
        f"{source.at(node)} {node.value[:60]!r}"
        for source in files()
        if not source.module.startswith(SQL_MODULES)
        for node in texts(source)
        if SQL.search(node.value)
    ]
    assert not found, "\n".join(found)


def texts(source: Source) -> Iterator[ast.Constant]:
    """The text constants of a file that are not docstrings or other free-standing texts."""
    free = {id(node.value) for node in ast.walk(source.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in free:
            yield node


def test_no_test_sleeps_to_wait() -> None:
    # Where nothing can be waited for (a process that another one ends), a bounded `until(condition)` looks again.
    sleeping = [
        source.at(node)
        for source in files(ROOT / "tests")
        for part in ast.iter_child_nodes(source.tree)
        if not (isinstance(part, Function) and part.name == "until")
        for node in ast.walk(part)
        if sleeps(node)
    ]
    assert not sleeping, f"wait for the thing itself: {sleeping}"


def sleeps(node: ast.AST) -> bool:
    """`time.sleep(…)` and its kin; `sleep(0)` only lets others run."""
    if isinstance(node, ast.ImportFrom):
        return node.module in SLEEPERS and any(alias.name == "sleep" for alias in node.names)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "sleep"
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in SLEEPERS
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    )


def test_every_module_says_what_it_promises() -> None:
    silent = [source.name for source in files() if source.text.strip() and not ast.get_docstring(source.tree)]
    assert not silent, f"no docstring: {silent}"


def test_a_function_has_at_most_60_lines() -> None:
    long = [
        source.at(function)
        for source in files()
        for function in functions(source.tree)
        if (function.end_lineno or 0) - function.lineno >= LONGEST_FUNCTION
    ]
    assert not long, f"more than {LONGEST_FUNCTION} lines; split by subject: {long}"


def test_a_module_has_at_most_600_lines() -> None:
    large = [source.name for source in files() if source.text.count("\n") > LARGEST_MODULE]
    assert not large, f"more than {LARGEST_MODULE} lines; split by subject: {large}"


def test_a_function_takes_at_most_8_positional_parameters() -> None:
    # Those of a command are its options, and given by name.
    many = [
        source.at(function)
        for source in files()
        for function in functions(source.tree)
        if len(function.args.args) > MOST_POSITIONAL and not function.decorator_list
    ]
    assert not many, f"more than {MOST_POSITIONAL} parameters by position: {many}"


def test_no_two_classes_have_the_same_name() -> None:
    places = defaultdict(list)
    for source in files():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(source.at(node))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not twice, f"give one of them another name: {twice}"


def test_no_class_is_compiled_before_it_is_used() -> None:
    dear = [
        source.at(node)
        for source in files()
        if source.module != "interlock.lazy_dataclass"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom)
        and node.module == "dataclasses"
        and "dataclass" in {one.name for one in node.names}
    ]
    assert not dear, f"take `dataclass` from interlock.lazy_dataclass: {dear}"


def test_a_docstring_names_no_module_that_does_not_exist() -> None:
    ours = {source.module: source for source in files()}
    rooms = {name.split(".")[1] for name in ours if "." in name}
    # An event, a setting or a file may look like a module's name; then the code has it as a text.
    known = {str(node.value) for source in files() for node in texts(source)}
    paths = [path.relative_to(ROOT).as_posix() for path in (*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"))]

    def exists(name: str) -> bool:
        if name.endswith(".py"):
            return any(f"/{path}".endswith(f"/{name}") for path in paths)
        room, _, rest = name.removeprefix("interlock.").partition(".")
        within = (one for one in ours if f"{one}.".startswith(f"interlock.{room}."))
        word = re.compile(rf"\b{rest.partition('.')[0]}\b")
        return room not in rooms or any(word.search(f"{one} {ours[one].text}") for one in within)

    missing = [
        f"{source.name}: {name}"
        for source in files()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Module | ast.ClassDef | Function)
        for name in NAMED.findall(ast.get_docstring(node) or "")
        if name not in known and not exists(name)
    ]
    assert not missing, f"name what is there: {missing}"


def test_every_verb_of_the_application_is_documented() -> None:
    silent = [
        f"{source.name}: {kind.name}.{verb.name}"
        for source in files(PACKAGE / "app")
        for kind in source.tree.body
        if isinstance(kind, ast.ClassDef) and not kind.name.startswith("_")
        for verb in kind.body
        if isinstance(verb, Function) and not verb.name.startswith("_") and not ast.get_docstring(verb)
    ]
    assert not silent, f"say what the verb does, its errors and its units: {silent}"
