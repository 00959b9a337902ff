"""The plugin, its catalogue, the skill and server.json, judged by the validators of those who read them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import pinned

pytestmark = [pytest.mark.npm, pytest.mark.long]

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugins" / "interlock"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What is published of this repository, and nothing else that lies about in a working copy."""
    for name in (".claude-plugin", "plugins", "server.json", "README.md"):
        place = ROOT / name
        (shutil.copytree if place.is_dir() else shutil.copy)(place, tmp_path / name)
    return tmp_path


def judged(name: str, *words: str, cwd: Path) -> str:
    """What a validator from PyPI says; it has to agree."""
    program = f"{pinned.programs('validators')}/{name}"
    ran = subprocess.run([program, *words], cwd=cwd, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize(
    "words", [[".", "--strict"], ["plugins/interlock", "--strict"], ["plugins/interlock", "--profile", "directory"]]
)
def test_claude_code_accepts_the_catalogue_and_the_plugin(
    words: list[str], tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", pinned.programs("claude"), prepend=os.pathsep)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    ran = subprocess.run(["claude", "plugin", "validate", *words], cwd=tree, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "interlock" in ran.stdout and "assed" in ran.stdout


def test_the_reference_validator_of_agent_skills_accepts_the_skill(tree: Path) -> None:
    said = judged("agentskills", "validate", str(PLUGIN / "skills" / "interlock"), cwd=tree)
    assert "Valid skill" in said


def test_the_published_schemas_of_plugins_catalogues_and_the_mcp_registry_are_kept(tree: Path) -> None:
    """skillsaw has the registry's released schemas, and the rules of Claude Code's and Codex' plugins."""
    said = judged("skillsaw", "lint", "--verbose", ".", cwd=tree)
    assert "mcp-registry" in said and "codex-plugin" in said and "marketplace" in said
    assert "Errors:   0" in said and "Warnings: 0" in said
