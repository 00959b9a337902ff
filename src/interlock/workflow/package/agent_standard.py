"""Whether an agent definition keeps to the standard: persona, critical actions, menu, metadata (BMAD-6.4.1).

Read from the source (`*.agent.yaml`) or from the compiled Markdown, in which the same things stand as tags.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from interlock.workflow.package.compliance import BLOCKING, MINOR, Compliance, Issue, shown, text_issue, unknown_fields
from interlock.workflow.package.files import FileSettings
from interlock.workflow.package.tagged_steps import attributes_of

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
