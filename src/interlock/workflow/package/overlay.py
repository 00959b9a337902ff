"""Our own settings for workflows that must stay as they were shipped (decision 34): `interlock.workflows.yaml`.

    workflows:
      bmm/create-prd:
        oversight: required            # a human confirms after each step
        parallel_validation: false     # the builder's validation steps one after the other, as they are written
        validation: {type: custom, success_pattern: "…", failure_pattern: "…"}
        skip_review: true              # of dev-story: its work is not reviewed
        steps:
          8: {oversight: required}
          8a: {hooks: {…}}
    profiles:
      night: {tier: 1, batch_size: 10}     # for `profile: night`

The file stands in the project's root. Where an author has put a setting in the workflow itself, that one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow.package.files import Fault, Files

FILE = "interlock.workflows.yaml"
EXTENSIONS = (
    *("oversight", "hooks", "validation", "thresholds", "domain", "module"),
    *("parallel_validation", "skip_review"),
    *("requires", "required_config", "required_mcp", "required_documents"),
)


@dataclass(frozen=True)
class Overlay:
    """The settings of one workflow in that file. `raw` is all that stands there, also what is no setting."""

    workflow: Mapping[str, Any] = field(default_factory=dict)
    steps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fault: Fault | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)

    def step(self, id: int | str) -> Mapping[str, Any]:
        """The settings of one step; what it does not say about `oversight` the workflow says."""
        inherited = {"oversight": self.workflow["oversight"]} if "oversight" in self.workflow else {}
        return {**inherited, **self.steps.get(str(id), {})}


def read_overlay(files: Files, module: str, name: str) -> Overlay:
    """The overlay of a workflow; an absent file is an empty one."""
    if not files.exists(FILE):
        return Overlay()
    settings = files.settings(FILE)
    workflows = settings.values.get("workflows")
    if settings.fault is None and not isinstance(workflows, Mapping | None):
        return Overlay(fault=Fault("`workflows` maps MODULE/NAME of each workflow to its settings", 1))
    found = workflows.get(f"{module}/{name}") if isinstance(workflows, Mapping) else None
    if settings.fault is None and not isinstance(found, Mapping | None):
        return Overlay(fault=Fault(f"`{module}/{name}` below `workflows` has no settings: a mapping is wanted", 1))
    if not isinstance(found, Mapping):
        return Overlay(fault=settings.fault)
    steps = found.get("steps")
    return Overlay(
        {key: value for key, value in found.items() if key in EXTENSIONS},
        {str(id): value for id, value in steps.items() if isinstance(value, Mapping)}
        if isinstance(steps, Mapping)
        else {},
        settings.fault,
        found,
    )


def profiles(files: Files) -> object:
    """What the file says under `profiles`; null where it says nothing."""
    return files.settings(FILE).values.get("profiles") if files.exists(FILE) else None
