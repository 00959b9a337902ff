"""What answers about workflows hold, for /openapi.json; see `documents`."""

from __future__ import annotations

from typing import Any

from interlock.surfaces.http.documents import Document


class Workflow(Document):
    """A run of a workflow."""

    workflow_id: str
    skill: str
    state: str


class Workflows(Document):
    """Runs of workflows."""

    workflows: list[Workflow]


class Adjusted(Document):
    """What was said about how careful or talkative a run is, and what is in force."""

    workflow_id: str | None
    session: str
    said: list[str]
    text: str


class Checkpoints(Document):
    """What a run can be rolled back to."""

    checkpoints: list[dict[str, Any]]


class RolledBack(Document):
    """What a rollback has done, or would do."""

    workflow_id: str
    text: str
    restored: list[str]
    removed: list[str]


class Preference(Document):
    """One thing that was learned of people."""

    id: str
    kind: str
    text: str


class Preferences(Document):
    """All that is heeded."""

    preferences: list[Preference]


class FeedbackGiven(Document):
    """How feedback was understood, and whether it is kept for later runs."""

    understood: str
    stored: bool
    text: str


class WorkflowEntry(Document):
    """A workflow that waits for its turn."""

    position: int
    task_id: str
    skill: str
    priority: str


class WorkflowQueue(Document):
    """Those that wait, in order."""

    queue: list[WorkflowEntry]
