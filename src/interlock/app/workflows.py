"""Workflows of a team: their runs, and the queue of those that wait for their turn."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from interlock import app, core, mirror, runner
from interlock.app.base import TeamBase, warned
from interlock.core.tasks.find import find
from interlock.errors import DirectoryNotFound, InvalidRequest
from interlock.model.json import Json
from interlock.model.task import Task
from interlock.storage.ledger import Rows

INVOCATION = "/"


class WorkflowVerbs(TeamBase):
    """A run is the contract's document: `{workflow_id, skill, state, outcome, current_step, steps, …}`, with `progress`
    beside it. `run` names one by its id, the end of it, its task or its skill; None is the newest.

    An entry of the queue is `{position, task_id, skill, priority, queued_by, queued_at, data}`; `position` counts from
    1.
    """

    def workflow_queue(self) -> list[Json]:
        """What waits, in the order in which it will start."""
        with self._workspace.look() as rows:
            return app.engine.queue_entries(rows)

    def queue_workflow(self, what: str, *, priority: str | None = None, by: str | None = None) -> Json:
        """Queue a workflow: its task, or an invocation such as `/bmad:bmm:workflows:dev-story`, for which a task is
        made. The entry, with `warnings`; its position is 0 where its turn came at once. A full queue loses its oldest.

        Raises:
            InvalidSkillPath: it begins like an invocation and is none.
            TaskNotFound, AmbiguousId: there is no such task, or several have that end of an id.
            InvalidRequest, InvalidTransition: the task cannot be queued.
        """
        app.engine.check_invocation(str(what))
        with self._act(by) as act:
            if isinstance(what, str) and what.strip().startswith(INVOCATION):
                text = what.strip()
                task = core.tasks.create.create(
                    act, text[:200], body=text, type="WORKFLOW", priority=priority or "normal"
                )
                placed = app.engine.enqueue(act, task, skill=text.split()[0])
            else:
                task = find(act.rows, what)
                skill = (task.body or task.subject).split()[0]
                placed = app.engine.enqueue(act, task, skill=skill, priority=priority)
        placed.warnings += act.warnings
        return placed.as_dict()

    def unqueue_workflow(self, task: str, *, by: str | None = None) -> Task:
        """Take a workflow out of the queue; its task is cancelled. Raises QueueEntryNotFound."""
        with self._act(by) as act:
            found = mirror.task_view.show(act.rows, app.engine.dequeue(act, task))
        return warned(act, found)

    def reprioritise_workflow(self, task: str, priority: str, *, by: str | None = None) -> Json:
        """Give an entry another priority: critical, high, normal or low. Raises QueueEntryNotFound."""
        with self._act(by) as act:
            entry = app.engine.reprioritise(act, task, priority)
            return entry.as_dict(app.engine.queue_position(act.rows, entry.task_id))

    def clear_workflow_queue(self, *, by: str | None = None) -> list[str]:
        """Cancel everything that waits; the ids of the tasks. For the lead and people only."""
        with self._act(by) as act:
            return app.engine.clear_queue(act)

    def installed_workflows(self, directory: str | None = None) -> list[Json]:
        """The workflows of the package in that directory, the team's own by default: `{skill, module, name,
        description}`."""
        return app.engine.installed_workflows(self._project(directory))

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
    ) -> Json:
        """Start a run: a task of type WORKFLOW for the member `agent`, or for any that takes it. The run's document.

        Args:
            profile: how careful it is.
            progress: how talkative: verbose, summary, silent or streaming.
            session: runs of one session share what is said to one of them.

        Raises:
            WorkflowNotFound, InvalidSkillPath: it is not installed.
            InvalidRequest, MemberNotFound: an argument makes no sense.
        """
        engine, where = app.engine, self._project(directory)
        found = engine.locate(skill, where)
        wanted = engine.Wanted(
            found.skill.invocation, where, brief, dict(values or {}), tier, yolo, agent=agent or "",
            arguments=found.arguments, session=session or "", profile=profile or "", progress=progress or "",
        )  # fmt: skip
        store = engine.store_of(self._workspace)
        with self._act(by) as act:
            task = engine.start(act, store, wanted, found, assignee=agent)
            state = store.load(act.rows, str(task.workflow))
            shown = self._shown(act.rows, state)
        return {**shown, "warnings": [*act.warnings, *state.warnings, *store.mirror(state)]}

    def adjust_workflow(
        self,
        said: str = "",
        run: str | None = None,
        *,
        session: str | None = None,
        clear: bool = False,
        by: str | None = None,
    ) -> Json:
        """Say how careful or talkative a run is, in the words of the chat (`use tier 3`, `profile: cautious`,
        `batch_size: 2`, `be careful`, `progress: silent`): `{workflow_id, session, said, in_force, text}`.

        It counts from the run's next decision on, for all runs of its session. With `session` it is said to that
        session, which may have no run yet. `clear` takes back what was said; without words it is only shown what is in
        force.

        Raises:
            InvalidRequest: the words are not understood, or (`safety_override_blocked`) would switch off the final
                approval or the detection of stalls.
        """
        engine = app.engine
        with self._act(by) as act:
            state = self._run(act.rows, run) if session is None or run is not None else None
            place = session if session is not None else engine.session_of(state) if state is not None else ""
            root = act.rows.team.get().workdir or ""
            if not said.strip() and not clear:
                return engine.in_force_now(act.rows, place, state, self._progress_mode(act.rows))
            return engine.say(act, said, session=place, state=state, root=root, clear=clear)

    def workflow_runs(self) -> list[Json]:
        """All runs, the newest first."""
        with self._workspace.look() as rows:
            return [self._shown(rows, state) for state in app.engine.store_of(self._workspace).list(rows)]

    def workflow_run(self, run: str | None = None) -> Json:
        """One run; `at_work`: whether a runner drives its team, which would continue it. Raises WorkflowNotFound."""
        with self._workspace.look() as rows:
            return {**self._shown(rows, self._run(rows, run)), "at_work": bool(runner.registration.at_work(rows))}

    def workflow_decisions(self, run: str | None = None) -> list[Json]:
        """Every decision of a run, whole and in order; `replayed` is what it comes to when it is made again, None where
        it asked the world."""
        with self._workspace.look() as rows:
            state = self._run(rows, run)
            events = rows.events.of_task(state.task_id) if state.task_id else []
        return app.engine.decisions(state, events)

    def resumable_workflow(self, skill: str, *, directory: str | None = None) -> Json | None:
        """The offer to continue an interrupted run of that workflow, None where there is none."""
        engine = app.engine
        found = engine.locate(skill, self._project(directory))
        with self._workspace.look() as rows:
            every = engine.store_of(self._workspace).list(rows, skill=found.skill.invocation)
            runs = [one for one in every if one.plan.project == found.package.root]
        state = engine.interrupted(runs, found.skill.invocation)
        return engine.offer(state, found.workflow.hash).as_dict() if state is not None else None

    def resume_workflow(self, run: str | None = None, *, by: str | None = None) -> Json:
        """Continue an interrupted or failed run; `resumed` says from where. Raises InvalidTransition."""
        store = app.engine.store_of(self._workspace)
        with self._act(by) as act:
            state = self._run(act.rows, run)
            said = app.engine.take_up(act, store, state)
            shown = self._shown(act.rows, state)
        return {**shown, "resumed": said, "warnings": [*act.warnings, *store.mirror(state)]}

    def cancel_workflow(self, run: str | None = None, *, by: str | None = None) -> Json:
        """Cancel a run. Raises InvalidTransition, Forbidden."""
        store = app.engine.store_of(self._workspace)
        with self._act(by) as act:
            state = app.engine.cancel(act, store, self._run(act.rows, run))
            shown = self._shown(act.rows, state)
        return {**shown, "warnings": [*act.warnings, *store.mirror(state)]}

    def workflow_checkpoints(self, run: str | None = None) -> list[Json]:
        """What a run can be rolled back to, the newest first: `{id, step_id, step_name, timestamp, …}`."""
        with self._workspace.look() as rows:
            return app.engine.checkpoints(self._run(rows, run))

    def rollback_workflow(
        self,
        run: str | None = None,
        *,
        to: str | int | None = None,
        include: Sequence[str] = (),
        dry_run: bool = False,
        by: str | None = None,
    ) -> Json:
        """Roll a run back to before a step, state and files; without `to` the last rollback is undone.

        Args:
            include: files that others have changed and that may be restored all the same, `*` for all.
            dry_run: only say what it would do. `text` says it for people.

        Raises:
            CheckpointNotFound, RollbackRefused: there is no such step to go back to, or it is not safe.
        """
        engine = app.engine
        with self._workspace.look() as rows:
            state = self._run(rows, run)
        back = engine.Rollback(self._workspace, self._as(by), engine.store_of(self._workspace))
        if to is None and dry_run:
            raise InvalidRequest("What undoing a rollback would do cannot be shown first.", field="dry_run")
        if to is None:
            done = back.undo(state, include=include)
            return {**done.as_dict(), "text": f"The rollback of {state.workflow_id} is undone."}
        checkpoint = engine.choose_checkpoint(state, to)
        planned = engine.preview_rollback(state, checkpoint, include=include)
        if dry_run:
            return {**planned.as_dict(), "text": planned.text}
        return {**back.to(state, checkpoint, include=include).as_dict(), "text": planned.text}

    def workflow_feedback(self, text: str, *, run: str | None = None, by: str | None = None) -> Json:
        """Say what you think of the last thing that a run decided ("Don't do that again", "Good choice"), or what every
        run of its project is to remember ("Remember this preference: …"): `{understood, feedback, stored, text}`, where
        `text` says back what was understood."""
        return self._learned_of(run, by).give(text)

    def tell_workflow(self, text: str, *, run: str | None = None, by: str | None = None) -> str:
        """Say something to a run: feedback (`workflow_feedback`) where it is that, else how careful or talkative it is
        to be (`adjust_workflow`). Returns what was understood."""
        if app.engine.feedback_in(text) is not None:
            return str(self.workflow_feedback(text, run=run, by=by)["text"])
        return str(self.adjust_workflow(text, run, by=by)["text"])

    def in_workflow(self) -> bool:
        """Whether the engine leads the agent of this session through a workflow now."""
        with self._workspace.look() as rows:
            return bool(app.engine.led(rows, self._caller.name, self._caller.session))

    def end_turn(self, **word: object) -> str:
        """Say how the turn of the run ends that the agent of this session is led through; the last word before its end
        counts. Returns the run's id.

        Args:
            word: the fields of the closing line (`step`, `outputs`, `evidence`, `verdict`, `issues`, `next`, `reason`,
                `unchanged`), or `question` with `options` and the `option` that the agent would choose.

        Raises:
            NotInAWorkflow: no run waits for it.
        """
        with self._act() as act:
            return app.engine.say_turn(act, app.engine.store_of(self._workspace), word)

    def learned_preferences(self, run: str | None = None) -> list[Json]:
        """What was learned of people's preferences in a run's project, and is in force: `{id, kind, source, at,
        text}`."""
        return self._learned_of(run, None).listed()

    def forget_preference(self, id: str, *, run: str | None = None, by: str | None = None) -> Json:
        """Forget something that was learned; returns what it was."""
        return self._learned_of(run, by).forget(id)

    def _run(self, rows: Rows, run: str | None) -> app.engine.WorkflowState:
        return app.engine.find(rows, app.engine.store_of(self._workspace), run)

    def _learned_of(self, run: str | None, by: str | None) -> app.engine.LearnedOf:
        with self._workspace.look() as rows:
            state = self._run(rows, run)
        return app.engine.LearnedOf(self._workspace, self._as(by), state, self._open_memory)

    def _shown(self, rows: Rows, state: app.engine.WorkflowState) -> Json:
        return app.engine.shown(state, rows, self._now(), self._progress_mode(rows))

    def _progress_mode(self, rows: Rows) -> str:
        return str(self._workspace.settings(rows).get("workflow_progress"))

    def _project(self, directory: str | None) -> str:
        if directory is None:
            with self._workspace.look() as rows:
                directory = rows.team.get().workdir
        if not directory:
            raise DirectoryNotFound("Say in which project: the team has no working directory.", field="dir")
        return os.path.abspath(directory)
