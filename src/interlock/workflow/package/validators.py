"""Whether what a file of a package names is there, as its own variables and its project's configuration resolve it.

The result of checking an artifact against the packages' standards (BMAD-6.4): issues, a score, a status.

100 less 20 for each blocking error, 10 for each major and 3 for each minor issue, never below 0; COMPLIANT is 100.
The two counts are what the builder's thresholds are about, so a caller can go on with them.

Whether an agent definition keeps to the standard: persona, critical actions, menu, metadata (BMAD-6.4.1).

Read from the source (`*.agent.yaml`) or from the compiled Markdown, in which the same things stand as tags.

Whether a workflow keeps to the standard: steps, frontmatter, template, paths (BMAD-6.4.2).

One file is checked at a time: a `workflow.yaml`, a `workflow.md`, a step, a `SKILL.md`. Whether what it names is there
is asked of `exists`, so that nothing here reads a file.

Any artifact that a builder's workflow makes: told apart by its name and text, then checked (BMAD-6.4, FR47).
"""

from __future__ import annotations

import html
import os
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.workflow.menus import menu_participation_engine
from interlock.workflow.menus.step_menus import HANDLED, menus_of
from interlock.workflow.package import files, packages, step
from interlock.workflow.package.files import FileSettings
from interlock.workflow.package.step import attributes_of, is_step_file
from interlock.workflow.package.variables import NAME, Variables

BLOCKING, MAJOR, MINOR = "blocking", "major", "minor"
COST = {BLOCKING: 20, MAJOR: 10, MINOR: 3}


@dataclass(frozen=True)
class Issue:
    """One deviation: which field, what it should be, what it is, and what to do."""

    field: str
    expected: str
    actual: str
    remediation: str
    severity: str = MAJOR

    def as_dict(self) -> dict[str, str]:
        """The shape in which it is shown."""
        return {
            "field": self.field,
            "expected": self.expected,
            "actual": self.actual,
            "remediation": self.remediation,
            "severity": self.severity,
        }


@dataclass(frozen=True)
class Compliance:
    """All deviations of one artifact of that kind (agent, workflow, step, skill)."""

    kind: str
    issues: tuple[Issue, ...] = ()

    @property
    def score(self) -> int:
        """0 to 100."""
        return max(0, 100 - sum(COST[issue.severity] for issue in self.issues))

    @property
    def status(self) -> str:
        """COMPLIANT or NON_COMPLIANT."""
        return "NON_COMPLIANT" if self.issues else "COMPLIANT"

    def result(self) -> menu_participation_engine.BmbResult:
        """The numbers that the builder's thresholds judge."""
        severities = [issue.severity for issue in self.issues]
        return menu_participation_engine.BmbResult(
            severities.count(BLOCKING), severities.count(MAJOR), float(self.score)
        )

    def as_dict(self, limits: menu_participation_engine.Thresholds | None = None) -> dict[str, Any]:
        """The shape that `interlock analyze artifact` shows; `escalation` is what those thresholds ask for."""
        result = self.result()
        return {
            "artifact_type": self.kind,
            "compliance_score": self.score,
            "status": self.status,
            "blocking_errors": result.blocking_errors,
            "major_issues": result.major_issues,
            "escalation": menu_participation_engine.escalation(result, limits),
            "issues": [issue.as_dict() for issue in self.issues],
        }


def text_issue(field: str, value: object, *, severity: str = MAJOR) -> list[Issue]:
    """The issue of a field that must hold text and does not."""
    if isinstance(value, str) and value.strip():
        return []
    actual = "absent" if value is None else "empty" if value in ("", [], {}) else shown(value)
    name = field.rpartition(".")[2]
    return [Issue(field, "a text that is not empty", actual, f"Write {name} as one text.", severity)]


def shown(value: object) -> str:
    """A value as it stands in an issue."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def unknown_fields(field: str, value: object, known: Sequence[str]) -> list[Issue]:
    """An issue for each field that the standard does not have."""
    names = [str(name) for name in value if name not in known] if isinstance(value, dict) else []
    allowed = ", ".join(known)
    return [
        Issue(f"{field}.{name}", f"one of {allowed}", "an unknown field", f"Remove {name}, or correct its name.", MINOR)
        for name in names
    ]


AGENT = (
    *(
        "metadata",
        "persona",
        "critical_actions",
        "menu",
        "prompts",
        "discussion",
        "conversational_knowledge",
        "webskip",
    ),
)
METADATA = ("id", "name", "title", "icon", "module", "hasSidecar", "type", "version", "author", "capabilities")
PERSONA = ("role", "identity", "communication_style", "principles")
TARGETS = ("workflow", "validate-workflow", "exec", "action", "tmpl", "data", "multi", "ide-only", "web-only")
KEBAB = r"[a-z0-9]+(?:-[a-z0-9]+)*"
TRIGGER = re.compile(rf"{KEBAB}|[A-Z][A-Z0-9]{{0,2}} or fuzzy match on {KEBAB}")
INJECTED = re.compile(r"^(?:MH|CH|PM|DA|AE) or fuzzy match on ")
TAG = re.compile(r"<(role|identity|communication_style|principles)>(.*?)</\1>", re.DOTALL)
ITEM = re.compile(r"<item\b([^<>]*)>(.*?)</item>", re.DOTALL)
OPEN = re.compile(r"<agent\b([^<>]*)>")


def check_agent(settings: FileSettings, *, compiled: bool) -> Compliance:
    """What is wrong with an agent; `compiled` says that it is the Markdown that an installer made."""
    if settings.fault:
        fault = settings.fault
        fix = f"Correct line {fault.line}."
        return Compliance("agent", (Issue("frontmatter", "valid YAML", fault.message, fix, BLOCKING),))
    agent = _compiled(settings.body) if compiled else settings.values.get("agent")
    if not isinstance(agent, Mapping):
        return Compliance(
            "agent",
            (Issue("agent", "a mapping with metadata, persona and menu", "absent", "Add `agent:`.", BLOCKING),),
        )
    issues = [] if compiled else unknown_fields("file", dict(settings.values), ("agent",))
    issues += unknown_fields("agent", dict(agent), AGENT)
    issues += _metadata(agent.get("metadata"))
    issues += _persona(agent.get("persona"))
    issues += _critical_actions(agent)
    issues += _menu(agent.get("menu"), compiled)
    issues += _prompts(agent.get("prompts"))
    return Compliance("agent", tuple(issues))


def _metadata(value: object) -> list[Issue]:
    if not isinstance(value, Mapping):
        return [_absent("agent.metadata", "a mapping with id, name, title and icon")]
    issues = [
        issue
        for name in ("id", "name", "title", "icon")
        for issue in text_issue(f"agent.metadata.{name}", value.get(name))
    ]
    if "module" in value:
        issues += text_issue("agent.metadata.module", value["module"])
    return issues + unknown_fields("agent.metadata", dict(value), METADATA)


def _persona(value: object) -> list[Issue]:
    if not isinstance(value, Mapping):
        return [_absent("agent.persona", "a mapping with role, identity, communication_style and principles")]
    issues = [
        issue
        for name in ("role", "identity", "communication_style")
        for issue in text_issue(f"agent.persona.{name}", value.get(name))
    ]
    principles = value.get("principles")
    issues += (
        _texts("agent.persona.principles", principles)
        if isinstance(principles, list)
        else text_issue("agent.persona.principles", principles)
    )
    return issues + unknown_fields("agent.persona", dict(value), PERSONA)


def _critical_actions(agent: Mapping[str, Any]) -> list[Issue]:
    """Optional, but an agent with a sidecar must say that it loads it."""
    metadata = agent.get("metadata")
    sidecar = isinstance(metadata, Mapping) and metadata.get("hasSidecar") is True
    value = agent.get("critical_actions")
    if value is None:
        return [_absent("agent.critical_actions", "the actions that load the sidecar")] if sidecar else []
    if not isinstance(value, list):
        fix = "Write each action as a list item."
        return [Issue("agent.critical_actions", "a list of texts", shown(value), fix)]
    if not value and sidecar:
        return [_absent("agent.critical_actions", "the actions that load the sidecar")]
    return _texts("agent.critical_actions", value) if value else []


def _menu(value: object, compiled: bool) -> list[Issue]:
    if not isinstance(value, list) or not value:
        return [_absent("agent.menu", "a list of at least one item")]
    issues: list[Issue] = []
    triggers: dict[str, int] = {}
    for number, item in enumerate(value):
        field = f"agent.menu[{number}]"
        if not isinstance(item, Mapping):
            issues.append(Issue(field, "an item with trigger and description", shown(item), "Write it as a mapping."))
            continue
        issues += _item(field, item, compiled)
        trigger = str(item.get("trigger"))
        if trigger in triggers:
            fix = "Give one of the two another trigger."
            issues.append(Issue(f"{field}.trigger", "a trigger of its own", f"that of item {triggers[trigger]}", fix))
        triggers.setdefault(trigger, number)
    return issues


def _item(field: str, item: Mapping[str, Any], compiled: bool) -> list[Issue]:
    if "multi" in item:  # one line with several commands, each with triggers of its own
        return text_issue(f"{field}.multi", item["multi"])
    trigger = item.get("trigger")
    issues = text_issue(f"{field}.trigger", trigger)
    if not issues and not TRIGGER.fullmatch(str(trigger)) and not (compiled and INJECTED.match(str(trigger))):
        fix = "Write it in kebab-case, or as `XX or fuzzy match on kebab-name`."
        issues.append(Issue(f"{field}.trigger", "kebab-case, or XX or fuzzy match on …", shown(trigger), fix))
    issues += text_issue(f"{field}.description", item.get("description"), severity=MINOR)
    targets = [name for name in TARGETS if name in item]
    if not targets and not (compiled and INJECTED.match(str(trigger))):
        fix = "Say what the item does: a workflow, exec or action."
        issues.append(Issue(field, f"one of {', '.join(TARGETS[:6])}", "no target", fix))
    for name in targets:
        if not isinstance(item[name], bool):
            issues += text_issue(f"{field}.{name}", item[name])
    return issues


def _prompts(value: object) -> list[Issue]:
    issues: list[Issue] = []
    for number, prompt in enumerate(value if isinstance(value, list) else ()):
        field = f"agent.prompts[{number}]"
        for name in ("id", "content"):
            issues += text_issue(f"{field}.{name}", prompt.get(name) if isinstance(prompt, Mapping) else None)
        if isinstance(prompt, Mapping):
            issues += unknown_fields(field, dict(prompt), ("id", "content", "description"))
    return issues


def _texts(field: str, value: list[Any]) -> list[Issue]:
    if not value:
        return [Issue(field, "a list that is not empty", "empty", f"Add an item to {field.rpartition('.')[2]}.")]
    return [issue for number, one in enumerate(value) for issue in text_issue(f"{field}[{number}]", one)]


def _absent(field: str, expected: str) -> Issue:
    return Issue(field, expected, "absent", f"Add {field.rpartition('.')[2]}.", BLOCKING)


def _compiled(body: str) -> dict[str, Any] | None:
    """The same structure from the tags of a compiled agent. Its critical actions are merged into its activation."""
    opened = OPEN.search(body)
    if not opened:
        return None
    return {
        "metadata": {name: html.unescape(text) for name, text in attributes_of(opened[1]).items() if name in METADATA},
        "persona": {found[1]: html.unescape(found[2]).strip() for found in TAG.finditer(body)},
        "menu": [
            _compiled_item(found[1], found[2])
            for found in ITEM.finditer(body, 0, body.rfind("</item>") + len("</item>"))
        ],
    }


def _compiled_item(attributes: str, text: str) -> dict[str, Any]:
    known = {name: html.unescape(value) for name, value in attributes_of(attributes).items()}
    return {**known, "trigger": known.get("cmd"), "description": html.unescape(text).strip()}


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
    steps = step.steps_of(settings.body, "") or step.sections_of(settings.body, "")
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


def leads_somewhere(path: str, reference: str, text: str) -> bool | None:
    """Whether `reference`, in the file at `path` with that text, leads to a file; None where the run decides that: a
    variable has no value, or it is an output."""
    if "{{" in reference or "*" in reference:
        return None
    values = files.read(text, os.path.basename(path)).values
    places = places_of(path, reference, values)
    if not places:
        return None
    beside = os.path.join(os.path.dirname(path), os.path.basename(reference))
    return any(os.path.isfile(place) for place in (*places, beside))


def places_of(path: str, reference: str, values: Mapping[str, Any]) -> list[str]:
    """Where it may lead; empty when a variable in it has no value or it is an output."""
    folder = os.path.dirname(os.path.abspath(path))
    package = packages.find(folder)
    root = package.root if package else folder
    module = os.path.relpath(folder, root).split(os.sep)[1:2] if package else []
    config = package.config(module[0]) if package and module else {}
    variables = Variables(values, project_root=root, installed_path=folder, config={})
    # A path that begins with a name of the configuration is one that the workflow writes.
    if "{" in variables.resolve(reference).text or (set(config) & set(NAME.findall(reference))):
        return []
    return [os.path.join(folder, resolved.text) for resolved in variables.alternatives(reference)]
