"""Runs of workflows of a local team."""

from __future__ import annotations

import os

from interlock.clients.local.base import LocalBase
from interlock.errors import DirectoryNotFound, InvalidRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from interlock.storage.ledger import Rows
    from interlock.workflow.runs.feedback import LearnedOf
    from interlock.workflow.state.document import WorkflowState
    from interlock.workflow.state.workflow_state_manager import Store


class LocalWorkflowRuns(LocalBase):
    """See `client_workflow.WorkflowRuns`."""

    def installed_workflows(self, directory: str | None = None) -> list[dict[str, Any]]:
        from interlock.workflow.package import packages
        from interlock.workflow.runs import commands

        where = self._directory_of(directory)
        package = packages.find(where)
        return commands.installed(package) if package is not None else []

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
        from interlock.workflow.runs import starting

        where = self._directory_of(directory)
        found = starting.locate(skill, where)
        wanted = starting.Wanted(
            found.skill.invocation, where, brief, dict(values or {}), tier, yolo, agent=agent or "",
            arguments=found.arguments, session=session or "", profile=profile or "", progress=progress or "",
        )  # fmt: skip
        store = self._run_states
        with self._act(by) as act:
            task = starting.start(act, store, wanted, found, assignee=agent)
            state = store.load(act.rows, str(task.workflow))
            shown = self._shown(act.rows, state)
        return {**shown, "warnings": [*act.warnings, *store.mirror(state)]}

    def preview_workflow(self, skill: str, *, directory: str | None = None) -> dict[str, Any]:
        from interlock.workflow.runs import starting
        from interlock.workflow.runs import starting as previewing

        return previewing.preview(starting.locate(skill, self._directory_of(directory)))

    def workflow_runs(self) -> list[dict[str, Any]]:
        with self._workspace.look() as rows:
            return [self._shown(rows, state) for state in self._run_states.list(rows)]

    def workflow_run(self, run: str | None = None) -> dict[str, Any]:
        from interlock.runner import registration
        from interlock.workflow.runs import commands

        with self._workspace.look() as rows:
            shown = self._shown(rows, commands.find(rows, self._run_states, run))
            return {**shown, "at_work": bool(registration.at_work(rows))}

    def workflow_decisions(self, run: str | None = None) -> list[dict[str, Any]]:
        from interlock.workflow.runs import commands
        from interlock.workflow.runs import starting as previewing

        with self._workspace.look() as rows:
            state = commands.find(rows, self._run_states, run)
            events = rows.events.of_task(state.task_id) if state.task_id else []
        return previewing.decisions(state, events)

    def resumable_workflow(self, skill: str, *, directory: str | None = None) -> dict[str, Any] | None:
        from interlock.workflow.runs import starting
        from interlock.workflow.state import resume

        found = starting.locate(skill, self._directory_of(directory))
        with self._workspace.look() as rows:
            runs = [one for one in self._run_states.list(rows) if one.plan.project == found.package.root]
        state = resume.interrupted(runs, found.skill.invocation)
        return resume.offer(state, found.workflow.hash).as_dict() if state is not None else None

    def resume_workflow(self, run: str | None = None, *, by: str | None = None) -> dict[str, Any]:
        from interlock.workflow.runs import commands

        store = self._run_states
        with self._act(by) as act:
            state = commands.find(act.rows, store, run)
            said = commands.take_up(act, store, state)
            shown = self._shown(act.rows, state)
        return {**shown, "resumed": said, "warnings": [*act.warnings, *store.mirror(state)]}

    def cancel_workflow(self, run: str | None = None, *, by: str | None = None) -> dict[str, Any]:
        from interlock.workflow.runs import commands

        store = self._run_states
        with self._act(by) as act:
            state = commands.cancel(act, store, commands.find(act.rows, store, run))
            shown = self._shown(act.rows, state)
        return {**shown, "warnings": [*act.warnings, *store.mirror(state)]}

    def adjust_workflow(
        self,
        said: str = "",
        run: str | None = None,
        *,
        session: str | None = None,
        clear: bool = False,
        by: str | None = None,
    ) -> dict[str, Any]:
        from interlock.workflow.runs import commands, override_commands

        store = self._run_states
        with self._act(by) as act:
            state = commands.find(act.rows, store, run) if session is None or run is not None else None
            place = session if session is not None else override_commands.session_of(state) if state is not None else ""
            root = act.rows.team.get().workdir or ""
            if not said.strip() and not clear:
                return override_commands.now(act.rows, place, state, self._mode(act.rows))
            return override_commands.say(act, said, session=place, state=state, root=root, clear=clear)

    def workflow_checkpoints(self, run: str | None = None) -> list[dict[str, Any]]:
        from interlock.workflow.runs import commands
        from interlock.workflow.state import rollback_plan

        with self._workspace.look() as rows:
            return rollback_plan.available(commands.find(rows, self._run_states, run))

    def rollback_workflow(
        self,
        run: str | None = None,
        *,
        to: str | int | None = None,
        include: Sequence[str] = (),
        dry_run: bool = False,
        by: str | None = None,
    ) -> dict[str, Any]:
        from interlock.workflow.runs import commands
        from interlock.workflow.state import rollback_plan
        from interlock.workflow.state.rollback import Rollback

        store = self._run_states
        with self._workspace.look() as rows:
            state = commands.find(rows, store, run)
        back = Rollback(self._workspace, self._as(by), store)
        if to is None and dry_run:
            raise InvalidRequest("What taking a rollback back would do cannot be shown first.", field="dry_run")
        if to is None:
            done = back.undo(state, include=include)
            return {**done.as_dict(), "text": f"The rollback of {state.workflow_id} is undone."}
        checkpoint = rollback_plan.choose(state, to)
        planned = rollback_plan.preview(state, checkpoint, include=include)
        if dry_run:
            return {**planned.as_dict(), "text": planned.text}
        return {**back.to(state, checkpoint, include=include).as_dict(), "text": planned.text}

    def workflow_feedback(self, text: str, *, run: str | None = None, by: str | None = None) -> dict[str, Any]:
        return self._learned_of(run, by).give(text)

    def learned_preferences(self, run: str | None = None) -> list[dict[str, Any]]:
        return self._learned_of(run, None).listed()

    def forget_preference(self, id: str, *, run: str | None = None, by: str | None = None) -> dict[str, Any]:
        return self._learned_of(run, by).forget(id)

    def _learned_of(self, run: str | None, by: str | None) -> LearnedOf:
        from interlock.workflow.runs import commands
        from interlock.workflow.runs.feedback import LearnedOf

        with self._workspace.look() as rows:
            state = commands.find(rows, self._run_states, run)
        return LearnedOf(self._workspace, self._as(by), state, self._open_memory)

    def _shown(self, rows: Rows, state: WorkflowState) -> dict[str, Any]:
        from interlock.clock import iso
        from interlock.workflow.runs import commands

        return commands.shown(state, rows, iso(self._workspace.clock.now()), self._mode(rows))

    def _mode(self, rows: Rows) -> str:
        return str(self._workspace.settings(rows).get("workflow_progress"))

    @property
    def _run_states(self) -> Store:
        from interlock.workflow.runs.opening import store_of

        return store_of(self._workspace)

    def _directory_of(self, directory: str | None) -> str:
        if directory is None:
            with self._workspace.look() as rows:
                directory = rows.team.get().workdir
        if not directory:
            raise DirectoryNotFound("Say in which project: the team has no working directory.", field="dir")
        return os.path.abspath(directory)
