"""What import-linter does not say: who may name an implementation, and who may import late."""

from __future__ import annotations

from tests.architecture.source import Source, files, functions, imports

IMPLEMENTATIONS = ("ledgers", "notifiers", "agents", "executors", "memories", "clients")

# Where imports of our own modules within functions are allowed, and why. Anywhere else they only hide a circle.
LATE_IMPORTS = {
    "interlock": "`import interlock` must cost nothing; connect() loads the rest",
    "interlock.app": "composes lazily: a verb loads only the parts it uses",
    "interlock.client": "the hot verbs must not load the rest",
    "interlock.clients": "the hot verbs must not load the rest",
    "interlock.clock": "loaded by every hook",
    "interlock.settings": "loaded by every hook",
    "interlock.ledgers": "loaded by every hook, which reads messages only",
    "interlock.mailbox": "loaded by every hook",
    "interlock.mirror": "loaded by every hook, which writes inboxes only",
    "interlock.seats": "loaded by every hook",
    "interlock.sessions": "loaded by every hook",
    "interlock.supervisor": "started for each run, and needs the rest only where a runner has died",
    "interlock.surfaces": "a command loads only what it needs",
}


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
    wrong = [line for source in files() if source.module != "interlock.app" for line in names_implementation(source)]
    assert not wrong, "ask interlock.app for it:\n" + "\n".join(wrong)


def test_our_own_modules_are_imported_at_the_top() -> None:
    wrong = [
        f"{source.at(node)} imports {module} within {function.name}"
        for source in files()
        if not any(within(source.module, one) and (one != "interlock" or source.module == one) for one in LATE_IMPORTS)
        for function in functions(source.tree)
        for node, module in imports(source, function)
    ]
    assert not wrong, "\n".join(wrong)
