"""Going back to a checkpoint of a workflow's run, in a local team."""

from __future__ import annotations

from interlock.clients.local.base import LocalBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from interlock.workflow.state.document import StepId, WorkflowState
    from interlock.workflow.state.rollback import Outcome, Rollback


class LocalWorkflowRollbacks(LocalBase):
    """See `client_workflow.WorkflowRollbacks`."""

    def workflow_checkpoints(self, run: str | None = None) -> dict[str, Any]:
        from interlock.workflow.state import rollback_plan

        state = self._rolling_state(run)
        return {
            "workflow_id": state.workflow_id,
            "checkpoints": rollback_plan.available(state),
            "text": rollback_plan.listed(state),
        }

    def preview_rollback(self, run: str | None = None, *, to: str, include: Collection[str] = ()) -> dict[str, Any]:
        from interlock.workflow.state import rollback_plan

        state = self._rolling_state(run)
        found = rollback_plan.preview(state, rollback_plan.choose(state, _step(to)), include=include)
        return {**found.as_dict(), "text": found.text}

    def roll_back_workflow(
        self, run: str | None = None, *, to: str, include: Collection[str] = (), by: str | None = None
    ) -> dict[str, Any]:
        from interlock.workflow.state import rollback_plan

        state = self._rolling_state(run)
        rolling = self._rolling(by)
        rolling.finish(state)
        return _shown(rolling.to(state, rollback_plan.choose(state, _step(to)), include=include))

    def undo_rollback(
        self, run: str | None = None, *, include: Collection[str] = (), by: str | None = None
    ) -> dict[str, Any]:
        return _shown(self._rolling(by).undo(self._rolling_state(run), include=include))

    def _rolling(self, by: str | None) -> Rollback:
        from interlock.workflow.running.opening import store_of
        from interlock.workflow.state.rollback import Rollback

        return Rollback(self._workspace, self._as(by), store_of(self._workspace))

    def _rolling_state(self, run: str | None) -> WorkflowState:
        from interlock.workflow.running import verbs
        from interlock.workflow.running.opening import store_of

        with self._workspace.look() as rows:
            return verbs.find(rows, store_of(self._workspace), run)


def _step(to: str) -> StepId:
    return int(to) if to.isdigit() else to


def _shown(outcome: Outcome) -> dict[str, Any]:
    from interlock.workflow.state import step_tracking

    state = outcome.state
    shown = {"current_step": state.current_step, "task_id": state.task_id, "state": state.state}
    return {**outcome.as_dict(), **shown, "progress": step_tracking.progress(state).as_dict()}
