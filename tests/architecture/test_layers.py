"""What import-linter does not say: who may name an implementation."""

from __future__ import annotations

import ast

from tests.architecture.source import Source, files, imports

IMPLEMENTATIONS = ("storage.sqlite", "storage.postgres", "wakeup.socket", "wakeup.relay", "wakeup.inprocess",
                   "agents.acp", "agents.command",
                   "memory.local", "memory.forgetful", "memory.serena")  # fmt: skip


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def names_implementation(source: Source) -> list[str]:
    return [
        f"{source.at(node)} imports {module}"
        for node, module in imports(source, source.tree)
        for package in (f"interlock.{name}" for name in IMPLEMENTATIONS)
        # What shares a folder with a port may know its implementations, as the registry of agents does.
        if within(module, package) and not within(source.module, ".".join(package.split(".")[:2]))
    ]


def test_only_the_composition_root_names_implementations() -> None:
    modules = {source.module for source in files()}
    assert modules >= {f"interlock.{name}" for name in IMPLEMENTATIONS}, "a name that is gone would hold nothing"
    # The hooks' short start does without it: it speaks to a ledger of SQLite itself, or leaves the matter.
    roots = ("interlock.wiring", "interlock.hooks_handover", "interlock.hooks_team")
    wrong = [line for source in files() if source.module not in roots for line in names_implementation(source)]
    assert not wrong, "ask interlock.wiring for it:\n" + "\n".join(wrong)


def test_only_the_ledger_of_sqlite_names_its_files() -> None:
    wrong = [
        f"{source.at(node)} says {node.value!r}"
        for source in files()
        if not within(source.module, "interlock.storage.sqlite")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and node.value in ("ledger.db", "-wal", "-shm")
    ]
    assert not wrong, "ask the catalog:\n" + "\n".join(wrong)
