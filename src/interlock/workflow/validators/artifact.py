"""Any artifact that a builder's workflow makes: told apart by its name and text, then checked (BMAD-6.4, FR47)."""

from __future__ import annotations

import posixpath
import re

from interlock.workflow.definition import frontmatter
from interlock.workflow.definition.step import is_step_file
from interlock.workflow.validators import agent_artifact, workflow_artifact
from interlock.workflow.validators.compliance import BLOCKING, Compliance, Issue
from interlock.workflow.validators.workflow_artifact import Exists


def check(path: str, text: str, exists: Exists = lambda reference: None) -> Compliance:
    """The compliance of the artifact with that name and text. `exists` says whether a reference in it leads somewhere.

    What it is: `*.agent.yaml` and Markdown with an `<agent>` are agents; `SKILL.md`, step files and other Markdown and
    YAML are parts of workflows.
    """
    name = posixpath.basename(path)
    settings = frontmatter.read(text, name)
    if name.endswith((".agent.yaml", ".agent.yml")) or isinstance(settings.values.get("agent"), dict):
        return agent_artifact.check(settings, compiled=False)
    if re.search(r"<agent\b[^<>]*\bid=", text):
        return agent_artifact.check(settings, compiled=True)
    if name.endswith((".yaml", ".yml")):
        return workflow_artifact.check_yaml(settings, exists)
    if name == "SKILL.md":
        return workflow_artifact.check_markdown(settings, exists, "skill")
    if is_step_file(path):
        return workflow_artifact.check_step(settings, exists)
    if name.endswith(".md"):
        return workflow_artifact.check_markdown(settings, exists)
    expected = "an agent (.agent.yaml, .md), a workflow (.yaml, .md), a step or a SKILL.md"
    return Compliance("unknown", (Issue("file", expected, name, "Name the file as the standard does.", BLOCKING),))
