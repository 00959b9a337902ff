"""The plugin, its catalogue, the skill and server.json, judged by the validators of those who read them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.real import installed

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


def judged(*words: str, tool: str, cwd: Path) -> str:
    """What a validator from PyPI says; it has to agree."""
    uv = os.path.join(os.path.dirname(sys.executable), "uv")
    ran = subprocess.run(
        [uv, "tool", "run", "--quiet", "--from", tool, words[0], "--version"], capture_output=True, text=True
    )
    if ran.returncode:
        pytest.skip(f"{tool} cannot be had here: {ran.stderr.strip()[-200:]}")
    ran = subprocess.run([uv, "tool", "run", "--from", tool, *words], cwd=cwd, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize(
    "words", [[".", "--strict"], ["plugins/interlock", "--strict"], ["plugins/interlock", "--profile", "directory"]]
)
def test_claude_code_accepts_the_catalogue_and_the_plugin(
    words: list[str], tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", installed("claude"), prepend=os.pathsep)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    ran = subprocess.run(["claude", "plugin", "validate", *words], cwd=tree, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "interlock" in ran.stdout and "assed" in ran.stdout


def test_the_reference_validator_of_agent_skills_accepts_the_skill(tree: Path) -> None:
    said = judged("agentskills", "validate", str(PLUGIN / "skills" / "interlock"), tool="skills-ref==0.1.1", cwd=tree)
    assert "Valid skill" in said


def test_the_published_schemas_of_plugins_catalogues_and_the_mcp_registry_are_kept(tree: Path) -> None:
    """skillsaw has the registry's released schemas, and the rules of Claude Code's and Codex' plugins."""
    said = judged("skillsaw", "lint", "--verbose", ".", tool="skillsaw==0.22.0", cwd=tree)
    assert "mcp-registry" in said and "codex-plugin" in said and "marketplace" in said
    assert "Errors:   0" in said and "Warnings: 0" in said
