"""PORT, the part of `client` that is about workflows: their runs, and the queue of those that wait for their turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from interlock.model.task import Task


class WorkflowQueue(Protocol):
    """Workflows that wait for their turn. An entry is `{position, task_id, skill, priority, queued_by, queued_at,
    data}`; `position` counts from 1."""

    def workflow_queue(self) -> list[dict[str, Any]]:
        """What waits, in the order in which it will start."""

    def queue_workflow(self, what: str, *, priority: str | None = None, by: str | None = None) -> dict[str, Any]:
        """Queue a workflow: its task, or an invocation such as `/bmad:bmm:workflows:dev-story`, for which a task is
        made. The entry, with `warnings`; its position is 0 where its turn came at once. A full queue loses its oldest.
        """

    def unqueue_workflow(self, task: str, *, by: str | None = None) -> Task:
        """Take a workflow out of the queue; its task is cancelled."""

    def reprioritise_workflow(self, task: str, priority: str, *, by: str | None = None) -> dict[str, Any]:
        """Give an entry another priority: critical, high, normal or low."""

    def clear_workflow_queue(self, *, by: str | None = None) -> list[str]:
        """Cancel everything that waits; the ids of the tasks. For the lead and people only."""


class WorkflowRuns(Protocol):
    """Runs of workflows. A run is the contract's document: `{workflow_id, skill, state, outcome, current_step, steps,
    …}`, with `progress` beside it. `run` names one by its id, the end of it, its task or its skill; null is the newest.
    """

    def installed_workflows(self, directory: str | None = None) -> list[dict[str, Any]]:
        """The workflows of the package in that directory, the team's own by default: `{skill, module, name,
        description}`."""

    def start_workflow(
        self,
        skill: str,
        *,
        directory: str | None = None,
        agent: str | None = None,
        brief: str = "",
        values: Mapping[str, str] | None = None,
        tier: int | None = None,
        yolo: bool = False,
        profile: str | None = None,
        progress: str | None = None,
        session: str | None = None,
        by: str | None = None,
    ) -> dict[str, Any]:
        """Begin a run: a task of type WORKFLOW for the member `agent`, or for whoever takes it. The run's document.

        `profile` says how careful it is, `progress` how talkative (verbose, summary, silent, streaming); runs of one
        `session` share what is said to one of them."""

    def adjust_workflow(
        self,
        said: str = "",
        run: str | None = None,
        *,
        session: str | None = None,
        clear: bool = False,
        by: str | None = None,
    ) -> dict[str, Any]:
        """Say how careful or talkative a run is, in the words of the chat (`use tier 3`, `profile: cautious`,
        `batch_size: 2`, `be careful`, `progress: silent`): `{workflow_id, session, said, in_force, text}`. It counts
        from the run's next decision on, for all runs of its session. With `session` it is said to that session, which
        may have no run yet. `clear` takes back what was said; without words it is only shown what is in force.
        `safety_override_blocked` where it would switch off the final approval or the detection of stalls."""

    def preview_workflow(self, skill: str, *, directory: str | None = None) -> dict[str, Any]:
        """What a run would need and do: `{skill, steps, preflight, validation, faults, …}`; nothing is begun."""

    def workflow_runs(self) -> list[dict[str, Any]]:
        """All runs, the newest first."""

    def workflow_run(self, run: str | None = None) -> dict[str, Any]:
        """One run; `at_work`: whether anybody drives its team, who would go on with it."""

    def workflow_decisions(self, run: str | None = None) -> list[dict[str, Any]]:
        """Every decision of a run, whole and in order; `replayed` is what it comes to when it is made again, null where
        it asked the world."""

    def resumable_workflow(self, skill: str, *, directory: str | None = None) -> dict[str, Any] | None:
        """The offer to go on with an interrupted run of that workflow, null where there is none."""

    def resume_workflow(self, run: str | None = None, *, by: str | None = None) -> dict[str, Any]:
        """Take an interrupted or failed run up again; `resumed` says from where."""

    def cancel_workflow(self, run: str | None = None, *, by: str | None = None) -> dict[str, Any]:
        """Call a run off."""

    def workflow_checkpoints(self, run: str | None = None) -> list[dict[str, Any]]:
        """What a run can be rolled back to, the newest first: `{id, step_id, step_name, timestamp, …}`."""

    def rollback_workflow(
        self,
        run: str | None = None,
        *,
        to: str | int | None = None,
        include: Sequence[str] = (),
        dry_run: bool = False,
        by: str | None = None,
    ) -> dict[str, Any]:
        """Roll a run back to before a step, state and files; without `to` the last rollback is undone. `include` are
        files that others have changed and that may be restored all the same, `*` for all. With `dry_run` only what it
        would do. `text` says it for people."""

    def workflow_feedback(self, text: str, *, run: str | None = None, by: str | None = None) -> dict[str, Any]:
        """Say what you think of the last thing that a run decided ("Don't do that again", "Good choice"), or what every
        run of its project is to remember ("Remember this preference: …"): `{understood, feedback, stored, text}`, where
        `text` says back what was understood."""

    def learned_preferences(self, run: str | None = None) -> list[dict[str, Any]]:
        """What was learned of people's wishes in a run's project, and is in force: `{id, kind, source, at, text}`."""

    def forget_preference(self, id: str, *, run: str | None = None, by: str | None = None) -> dict[str, Any]:
        """Let something that was learned count no more; what it was."""
