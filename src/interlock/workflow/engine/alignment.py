"""What the project's own documents disagree about, found before a workflow builds on them (FR15, story 1.3).

Nothing is held up by it: the agent is told, and it stands in the run's log.
"""

from __future__ import annotations

import glob
import os

from interlock.workflow.engine import documents
from interlock.workflow.engine.context import Draft
from interlock.workflow.entry import cross_reference_validator

NAMES = {
    "prd": ("prd.md", "PRD.md", "*-prd.md"),
    "architecture": ("architecture.md", "*-architecture.md"),
    "stories": ("epics.md", "epics-and-stories.md", "stories.md"),
}
TOLD = 10
"""Issues that the agent is told of."""


def align(run: Draft) -> None:
    """Compare those of PRD, architecture and stories that are there; noted with the run where they disagree."""
    found = run.observe(
        "planning documents", lambda: {kind: text for kind, names in NAMES.items() if (text := _document(run, names))}
    )
    if len(found) < 2:
        return
    alignment = cross_reference_validator.compare(**found)
    run.event("workflow.aligned", documents=sorted(found), **alignment.as_dict())
    run.state.misaligned = [one.message for one in alignment.issues[:TOLD]]


def _document(run: Draft, names: tuple[str, ...]) -> str:
    """The first document of those names in the folder for planning, "" where there is none."""
    config = run.package.config(run.workflow.module)
    folder = str(config.get("planning_artifacts") or config.get("output_folder") or "_bmad-output")
    folder = run.workflow.variables.resolve(folder).text
    for name in names:
        for path in sorted(glob.glob(name, root_dir=os.path.join(run.root, folder))):
            return documents.read(run.root, os.path.join(folder, path))
    return ""
