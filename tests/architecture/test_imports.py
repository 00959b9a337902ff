"""The modules that a hook loads at each turn of an agent stay light."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.architecture.source import SRC

LIGHT = (
    "interlock",
    "interlock.errors",
    "interlock.jsontext",
    "interlock.settings",
    "interlock.clock",
    "interlock.ledgers.sqlite",
    "interlock.notifier",
    "interlock.notifiers.socket",
    "interlock.mirror",
    "interlock.mailbox",
    "interlock.sessions",
    "interlock.workspace",
    "interlock.model.message",
)

HEAVY = {
    *("anyio", "asyncio", "click", "concurrent.futures", "dataclasses", "hashlib", "inspect", "json", "logging", "mcp"),
    *("pathlib", "pydantic", "rich", "ruamel", "socket", "subprocess", "tempfile", "typing", "uuid"),
}


def exists(module: str) -> bool:
    path = SRC.joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


@pytest.mark.parametrize("module", [name for name in LIGHT if exists(name)])
def test_a_module_of_the_hook_loads_nothing_heavy(module: str) -> None:
    # -I -S: what an editable installation's own start-up hooks load is not ours.
    code = f"import sys; sys.path.insert(0, {str(SRC)!r}); import {module}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY.intersection(ran.stdout.split())
