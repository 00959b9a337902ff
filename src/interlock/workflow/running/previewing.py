"""A workflow before it is run, and a run's decisions after it: what `--dry-run` and `show` tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from interlock.errors import InterlockError
from interlock.model.event import Event
from interlock.workflow.control import decision_log, documents, stepping
from interlock.workflow.entry import preflight_validation, validation_type_detector
from interlock.workflow.menu import step_menus
from interlock.workflow.personal import hook_programs, hooks
from interlock.workflow.running.starting import Located, locate
from interlock.workflow.state.document import WorkflowState


def preview(found: Located) -> dict[str, Any]:
    """What a run would need and do; nothing is begun and no file is written."""
    workflow = found.workflow
    state = WorkflowState("preview", found.skill.invocation)
    first = stepping.entry(workflow)
    likely = {str(one) for one in stepping.expected(workflow, state, first)}
    programs = hooks.everywhere(found.package.files, workflow)
    validation = validation_type_detector.detect(workflow.settings, workflow.text)
    return {
        "skill": found.skill.invocation,
        "module": workflow.module,
        "description": found.skill.description,
        "kind": workflow.kind,
        "workflow_hash": workflow.hash,
        "package": {"generation": found.package.generation, "version": found.package.version},
        "preflight": preflight_validation.validate(
            found.package, workflow, preflight_validation.project_servers(found.package)
        ).as_dict(),
        "validation": validation.as_dict(),
        "steps": [
            {
                "step": one.id,
                "name": one.title,
                "path": one.path,
                "expected": str(stepping.identify(state, one)) in likely,
                "optional": one.optional,
                "menus": [list(menu.keys) for menu in step_menus.menus_of(one.text)],
                "outputs": documents.outputs(workflow, one),
                "next": [way.path for way in workflow.after(one)],
            }
            for one in workflow.steps
        ],
        "hooks": [
            {**asdict(one), "command": one.name, "fault": hook_programs.fault(one, found.package.root)}
            for one in programs.hooks
        ],
        "hook_faults": [{"path": one.file, "line": one.line, "message": one.message} for one in programs.malformed],
        "faults": [{"path": path, **fault.as_error()} for path, fault in workflow.faults],
    }


def decisions(state: WorkflowState, events: Iterable[Event]) -> list[dict[str, Any]]:
    """Every decision of a run, with what it comes to when it is made again."""
    try:
        workflow = locate(state.skill, state.plan.project).workflow
    except InterlockError:
        workflow = None
    found = []
    for event in events:
        if event.type == decision_log.EVENT and event.payload.get("workflow_id") == state.workflow_id:
            again = decision_log.replay(event.payload, workflow) if workflow is not None else None
            found.append({**event.payload, "replayed": again})
    return found
