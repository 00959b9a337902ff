"""What the package imports is what it says that it needs."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

from tests.architecture.source import files

DISTRIBUTIONS = {
    "markdown_it": "markdown-it-py",
    "a2a": "a2a-sdk",
    "acp": "agent-client-protocol",
    "ruamel": "ruamel.yaml",
    "opentelemetry": "opentelemetry-sdk",
}
"""Distributions whose name says little of what they bring."""
WITHOUT_IMPORT = {"python-multipart", "opentelemetry-exporter-otlp-proto-http"}
"""What FastAPI needs of us for forms, and a second distribution of a name that others share."""
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_everything_that_is_imported_is_declared_and_nothing_else() -> None:
    tops = set()
    for source in files():
        if "demo/project" not in source.path.as_posix():
            for node in ast.walk(source.tree):
                if isinstance(node, ast.Import):
                    tops |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    tops.add(str(node.module).partition(".")[0])
    wanted = {
        DISTRIBUTIONS.get(name, name.replace("_", "-")) for name in tops - sys.stdlib_module_names - {"interlock", ""}
    }
    project = tomllib.loads(PROJECT.read_text())["project"]
    declared = project["dependencies"] + [
        one for extra in ("a2a", "postgres", "otel") for one in project["optional-dependencies"][extra]
    ]
    assert {re.split(r"[<>=\[]", one)[0] for one in declared} == wanted | WITHOUT_IMPORT
