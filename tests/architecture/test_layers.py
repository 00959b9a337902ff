"""What import-linter does not say: who may name an implementation."""

from __future__ import annotations

from tests.architecture.source import Source, files, imports

IMPLEMENTATIONS = ("storage.sqlite", "wakeup.socket", "wakeup.polling", "wakeup.inprocess",
                   "ledgers", "notifiers", "executors", "memories", "clients")  # fmt: skip


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def names_implementation(source: Source) -> list[str]:
    return [
        f"{source.at(node)} imports {module}"
        for node, module in imports(source, source.tree)
        for package in (f"interlock.{name}" for name in IMPLEMENTATIONS)
        if within(module, package) and not within(source.module, package)
    ]


def test_only_the_composition_root_names_implementations() -> None:
    roots = {"interlock.app", "interlock.wiring"}
    wrong = [line for source in files() if source.module not in roots for line in names_implementation(source)]
    assert not wrong, "ask interlock.wiring for it:\n" + "\n".join(wrong)
