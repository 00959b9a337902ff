"""Whether a workflow keeps to the standard: steps, frontmatter, template, paths (BMAD-6.4.2).

One file is checked at a time: a `workflow.yaml`, a `workflow.md`, a step, a `SKILL.md`. Whether what it names is there
is asked of `exists`, so that nothing here reads a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from interlock.workflow.menus.step_menus import HANDLED, menus_of
from interlock.workflow.package import tagged_steps
from interlock.workflow.package.compliance import BLOCKING, MAJOR, MINOR, Compliance, Issue, shown, text_issue
from interlock.workflow.package.files import FileSettings

REFERENCE = re.compile(r"\.(?:md|yaml|yml|xml|csv|toml)$")
UNFILLED = re.compile(r"\b(?:TODO|FIXME|TBD)\b|\[(?:Insert|Add|Your)\b[^\]]*\]")
ARTIFACT_NAME = re.compile(r"[a-z0-9][a-z0-9 &._-]*", re.IGNORECASE)

Exists = Callable[[str], bool | None]
"""Whether a reference leads to a file; None when that depends on the run (an output, an unknown variable)."""


def check_yaml(settings: FileSettings, exists: Exists) -> Compliance:
    """A `workflow.yaml`."""
    fault = _fault(settings)
    if fault:
        return Compliance("workflow", (fault,))
    values = settings.values
    issues = _named(values)
    issues += text_issue("installed_path", values.get("installed_path"), severity=MINOR)
    issues += text_issue("instructions", values.get("instructions"), severity=BLOCKING)
    issues += _template(values)
    issues += _references(values, exists, ("instructions", "template", "validation"))
    return Compliance("workflow", tuple(issues))


def check_markdown(settings: FileSettings, exists: Exists, kind: str = "workflow") -> Compliance:
    """A `workflow.md` or `SKILL.md`: named, with a text that says what to do first."""
    fault = _fault(settings)
    if fault:
        return Compliance(kind, (fault,))
    issues = _unnamed_file(settings) or _named(settings.values)
    if not re.search(r"^#+\s", settings.body, re.MULTILINE):
        issues.append(Issue("structure", "a heading", "none", "Give the text a title: `# …`.", MINOR))
    steps = tagged_steps.steps_of(settings.body, "") or tagged_steps.sections_of(settings.body, "")
    named = re.search(r"(?:step-|[ev]-\d)[\w-]*\.md|\bsteps?\b", settings.body, re.IGNORECASE)
    if kind == "workflow" and not steps and not named:
        fix = "Say which step file is loaded first, or number the steps."
        issues.append(Issue("structure", "steps, or the name of the first step file", "none", fix, BLOCKING))
    issues += _references(settings.values, exists)
    return Compliance(kind, tuple(issues))


def check_step(settings: FileSettings, exists: Exists) -> Compliance:
    """A step file: named, with a goal, and with a rule for every option of its menus."""
    fault = _fault(settings)
    if fault:
        return Compliance("step", (fault,))
    issues = _unnamed_file(settings) or _named(settings.values)
    if not re.search(r"^#\s", settings.body, re.MULTILINE):
        issues.append(Issue("structure.title", "a first heading `# Step …`", "none", "Add it.", MINOR))
    if not re.search(r"\bgoal\b|\btask\b|\bobjective\b|\bpurpose\b", settings.body, re.IGNORECASE):
        issues.append(Issue("structure.goal", "a section with the step's goal", "none", "Add `## STEP GOAL:`.", MINOR))
    issues += _handled(settings.body)
    issues += _references(settings.values, exists)
    return Compliance("step", tuple(issues))


def _fault(settings: FileSettings) -> Issue | None:
    if settings.fault is None:
        return None
    fault = settings.fault
    return Issue("frontmatter", "valid YAML", fault.message, f"Correct line {fault.line}.", BLOCKING)


def _unnamed_file(settings: FileSettings) -> list[Issue]:
    if settings.present:
        return []
    fix = "Begin the file with `---`, name, description and `---`."
    return [Issue("frontmatter", "name and description between two lines of `---`", "none", fix, MAJOR)]


def _named(values: Mapping[str, Any]) -> list[Issue]:
    issues = text_issue("name", values.get("name"))
    if not issues and not ARTIFACT_NAME.fullmatch(str(values["name"])):
        issues.append(Issue("name", "letters, digits and dashes", shown(values["name"]), "Rename it.", MINOR))
    return issues + text_issue("description", values.get("description"), severity=MINOR)


def _template(values: Mapping[str, Any]) -> list[Issue]:
    template = values.get("template")
    if template in (None, False):
        return []
    issues = text_issue("template", template)
    if not issues and not values.get("default_output_file"):
        fix = "Say where the document is written: `default_output_file`."
        issues.append(Issue("default_output_file", "a path, since there is a template", "absent", fix))
    return issues


def _references(values: Mapping[str, Any], exists: Exists, keys: tuple[str, ...] = ()) -> list[Issue]:
    issues = []
    for key, value in values.items():
        if not isinstance(value, str) or not REFERENCE.search(value) or (keys and key not in keys):
            continue
        if exists(value) is False:
            fix = f"Correct the path, or add the file that {key} names."
            issues.append(Issue(key, "a file that exists", shown(value), fix))
    return issues


def _handled(body: str) -> list[Issue]:
    """Where a step says what some options of a menu do, it must say it of each."""
    handled = {found[1].lower() for line in body.splitlines() if (found := HANDLED.match(line))}
    if not handled:
        return []
    issues = []
    for menu in menus_of(body):
        keys = {key.lower() for key in menu.keys}
        # A menu of another place (an example, a nested one) shares no handled option.
        for key in sorted(keys - handled) if keys & handled else ():
            fix = f"Add a line `- IF {key.upper()}: …` to the rules of the menu."
            issues.append(Issue(f"menu.{key.upper()}", "a rule for the option", "none", fix, MINOR))
    unfilled = UNFILLED.search(body)
    if unfilled:
        issues.append(Issue("template", "no placeholder left", unfilled[0], "Write what belongs there.", MINOR))
    return issues
