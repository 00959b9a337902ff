"""The beginning of a run: what it needs, what kind of project this is, and where it starts (epics 1 and 2a).

A missing setting is looked for before anybody is asked (BMAD-2b.8.1): in what was given with `--set`, then in the
configuration of the package's other modules. A human's answer to the question for it is kept with the run.
"""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workflow.engine import recovery, steps
from interlock.workflow.engine.alignment import align
from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.effects import Act, Save
from interlock.workflow.entry import preflight_validation, project_type, tier_suggester
from interlock.workflow.package.packages import FOLDER
from interlock.workflow.package.variables import is_set
from interlock.workflow.state.document import INITIALIZING, RUNNING

LEVELS = (
    f"{FOLDER}/bmm/workflows/workflow-status/project-levels.yaml",
    f"{FOLDER}/bmgd/workflows/workflow-status/project-levels.yaml",
)
STORY = "story_path"
DOMAINS = ("healthcare", "medical", "finance", "fintech", "banking")


def initialize(run: Draft) -> None:
    """From IDLE to RUNNING, or to a question for what is missing."""
    run.move(INITIALIZING)
    state = run.state
    state.workflow_hash = run.workflow.hash
    state.module = run.workflow.module
    state.created_at = state.created_at or run.now
    servers = [*preflight_validation.project_servers(run.package), *run.knowledge.servers]
    found = run.observe("preflight", lambda: preflight_validation.validate(run.package, run.workflow, servers))
    run.event("workflow.preflight", **found.as_dict())
    left = []
    for name in found.missing:
        if name in run.state.plan.values:
            continue
        value = _elsewhere(run, name)
        if value is None:
            left.append(name)
            continue
        run.state.plan.values[name] = value
        why = "it is set in the configuration of another module"
        run.decide(Decision("configuration", f"{name}={value}", why))
        run.event("workflow.recovered", recovery_method="located_configuration", attempts_count=1, what=name)
    missing = left
    if missing:
        advice = " ".join(check.remediation for check in found.checks if not set(missing).isdisjoint(check.missing))
        why = f"{state.skill} needs {', '.join(missing)}, which this project does not have"
        _ask_for(run, missing, ". ".join(part for part in (why, advice.removesuffix(".")) if part))
    else:
        run.effect(Act.BIND)


def bound(run: Draft, missing: str | None) -> None:
    """The examinations know what they will look at; `missing` is what one of them lacks: then a human is asked."""
    state = run.state
    if missing is not None:
        before = {name: value for name, value in state.plan.values.items() if name == STORY}
        state.plan.values.pop(STORY, None)
        _ask_for(run, [STORY], missing, before)
        return
    plan = run.state.plan
    survey = run.observe("survey", lambda: project_type.survey(run.root))
    if plan.project_type is None:
        found = project_type.classify(survey)
        plan.project_type = found.project_type
        signals = ", ".join(found.detection_signals[:6]) or "nothing of a project"
        run.decide(Decision("project_type", found.project_type, f"found: {signals}"))
    text = f"{plan.brief}\n{plan.arguments}".strip()
    files = run.package.files
    levels = next((files.settings(path).values for path in LEVELS if files.exists(path)), {})
    brown = survey if plan.project_type == "brownfield" else None
    tier = tier_suggester.suggest(text, brown, tier_suggester.from_levels(levels))
    plan.own_tier = tier.tier if tier.confidence == "high" else None
    if plan.tier is None:
        plan.tier, plan.tier_by_default = tier.tier, True
        words = ", ".join(tier.matched_keywords) or "no word of any tier"
        run.decide(Decision("tier", str(tier.tier), f"{tier.confidence} confidence: {words}"))
    if plan.domain is None:
        named = run.workflow.settings.get("domain")
        plan.domain = named if isinstance(named, str) else _domain(run)
    align(run)
    first = steps.entry(run.workflow)
    record = steps.record_of(state, first)
    state.current_step = record.id
    state.plan_of_steps = steps.expected(run.workflow, state, first, run.gates)
    state.step_names = steps.names(run.workflow, state, state.plan_of_steps, run.titles)
    run.decide(Decision("first_step", str(record.id), f"the workflow begins with {first.path or first.title}"))
    if run.knowledge.context:
        run.event("workflow.context_loaded", characters=len(run.knowledge.context), relevance=run.knowledge.relevance)
    run.move(RUNNING)
    run.effect(Save())


def _elsewhere(run: Draft, name: str) -> str | None:
    for module in run.package.modules:
        value = run.package.config(module).get(name)
        if is_set(value):
            return str(value)
    return None


def _ask_for(run: Draft, missing: list[str], why: str, before: Mapping[str, str] | None = None) -> None:
    """Ask a human for what is missing; `before` is what could not be used, and is tried again with `retry`."""
    state = run.state
    listed = ", ".join(missing)
    values = "value" if len(missing) == 1 else "values, one `name=value` a line"
    text = f"{why}. Answer with the {values}, `retry` to look again, or `stop`."
    run.decide(Decision("ask", listed, "the pre-flight validation misses it, and no configuration has it"))
    run.ask("preflight", "clarification", text, known_by=text, data={"missing": missing, "before": dict(before or {})})
    if state.waiting is not None:
        state.waiting.options = ["retry", "stop"]


def take_values(run: Draft, missing: list[str], reply: str) -> bool:
    """Put a human's values where the run finds them; whether there was one for each."""
    pairs = (line.partition("=") for line in reply.splitlines())
    given = {name.strip(): value.strip() for name, _, value in pairs if value}
    if len(missing) == 1 and not given:
        given = {missing[0]: reply.strip()}
    run.state.plan.values |= {name: value for name, value in given.items() if value}
    return all(run.state.plan.values.get(name) for name in missing)


def _domain(run: Draft) -> str | None:
    """The domain that the project's configuration names; text alone does not make a project regulated."""
    value = run.package.config(run.workflow.module).get("domain")
    return str(value) if is_set(value) else None


def fresh(run: Draft) -> None:
    """A step's visit begins: nothing of an earlier one is left over."""
    run.state.transcript, run.state.menu_stack, run.state.sent = [], [], None
    if run.state.recovery.get("kind") not in (None, recovery.VALIDATION, recovery.EVIDENCE):
        run.state.recovery = {}
    elif run.state.recovery.get("kind") == recovery.VALIDATION:
        run.state.recovery |= {"attempts": 0, "tried": []}
