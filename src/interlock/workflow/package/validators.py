"""Any artifact that a builder's workflow makes: told apart by its name and text, then checked (BMAD-6.4, FR47)."""

from __future__ import annotations

import posixpath
import re

from interlock.workflow.package import files
from interlock.workflow.package.agent_standard import check_agent
from interlock.workflow.package.compliance import BLOCKING, Compliance, Issue
from interlock.workflow.package.step import is_step_file
from interlock.workflow.package.workflow_standard import Exists, check_markdown, check_step, check_yaml


def check(path: str, text: str, exists: Exists = lambda reference: None) -> Compliance:
    """The compliance of the artifact with that name and text. `exists` says whether a reference in it leads somewhere.

    What it is: `*.agent.yaml` and Markdown with an `<agent>` are agents; `SKILL.md`, step files and other Markdown and
    YAML are parts of workflows.
    """
    name = posixpath.basename(path)
    settings = files.read(text, name)
    if name.endswith((".agent.yaml", ".agent.yml")) or isinstance(settings.values.get("agent"), dict):
        return check_agent(settings, compiled=False)
    if re.search(r"<agent\b[^<>]*\bid=", text):
        return check_agent(settings, compiled=True)
    if name.endswith((".yaml", ".yml")):
        return check_yaml(settings, exists)
    if name == "SKILL.md":
        return check_markdown(settings, exists, "skill")
    if is_step_file(path):
        return check_step(settings, exists)
    if name.endswith(".md"):
        return check_markdown(settings, exists)
    expected = "an agent (.agent.yaml, .md), a workflow (.yaml, .md), a step or a SKILL.md"
    return Compliance("unknown", (Issue("file", expected, name, "Name the file as the standard does.", BLOCKING),))
