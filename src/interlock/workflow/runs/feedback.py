"""What a person says about a run is understood, said back, and kept: in memory for every later run of the project, and
in the session for the one that is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.clock import iso
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InvalidRequest
from interlock.memory.store import OpenMemory
from interlock.model.json import Json
from interlock.storage.ledger import Rows
from interlock.workflow.entry import workflow_entry_wrapper
from interlock.workflow.memory.memory_bridge import MemoryBridge, origin_of
from interlock.workflow.preferences import explicit
from interlock.workflow.preferences.patterns import Feedback, Forgotten, Learned
from interlock.workflow.preferences.preferences import Preferences
from interlock.workflow.runs import knowledge
from interlock.workflow.state.document import WorkflowState

KEY = "feedback"
"""Where a session's document keeps it."""
KEPT = 100
EXAMPLES = ("Don't do that again", "Good choice", "Remember this preference: always use thorough validation")


class LearnedOf:
    """What is learned of the project of a run, for the person who asks."""

    def __init__(
        self, workspace: Workspace, caller: Principal, state: WorkflowState, open_memory: OpenMemory | None
    ) -> None:
        self._workspace = workspace
        self._caller = caller
        self._state = state
        self._open_memory = open_memory
        self._problems: list[str] = []

    def give(self, text: str) -> Json:
        """Understand feedback and keep it: `{understood, feedback, stored, text}`.

        Raises:
            InvalidRequest: it is no feedback, or there is nothing yet that it could be about.
        """
        said = explicit.understood(text)
        if said is None:
            raise InvalidRequest(
                f"That is no feedback that is understood. Say one of: {'; '.join(EXAMPLES)}.", field="text",
                examples=list(EXAMPLES),
            )  # fmt: skip
        state = self._state
        given = explicit.feedback(said, state.decisions, iso(self._workspace.clock.now()))
        if given is None:
            raise InvalidRequest(
                f"{state.workflow_id} has not decided anything yet that this could be about. "
                "`interlock workflow status --decisions` shows what it has.",
                field="text",
            )
        self._note(given.as_dict(), "said", id=given.id, kind=given.kind, source=given.source, text=given.text)
        stored = self._with_memory(lambda memory: memory.keep(given) is not None)
        return {
            "understood": given.kind, "feedback": given.as_dict(), "stored": stored, "workflow_id": state.workflow_id,
            "text": explicit.noted(given) + ("" if stored else self._not_kept()),
        }  # fmt: skip

    def listed(self) -> list[Json]:
        """Everything that is in force: `{id, kind, source, at, text}`."""
        learned: list[Learned] = []
        self._with_memory(lambda memory: learned.append(memory.learned()))
        with self._workspace.look() as rows:
            document = _document(rows, self._session(rows))
        found = learned[0] if learned else Learned()
        gone = tuple(Forgotten(str(one["id"]), str(one["at"])) for one in document.get("forgotten", ()))
        said = [one for each in document.get("said", ()) if (one := Feedback.of(each)) is not None]
        whole = Learned(found.feedback, found.choices, (*found.forgotten, *gone))
        return Preferences(whole, said).listed()

    def forget(self, id: str) -> Json:
        """Let something that was learned count no more; what it was.

        Raises:
            InvalidRequest: nothing of that id is in force.
        """
        listed = self.listed()
        found = next((one for one in listed if one["id"] == id.strip()), None)
        if found is None:
            ids = ", ".join(one["id"] for one in listed) or "nothing"
            raise InvalidRequest(f"Nothing with the id {id!r} was learned; there is {ids}.", field="id")
        at = iso(self._workspace.clock.now())
        self._note({"id": found["id"], "at": at}, "forgotten", id=found["id"], kind="forgotten", text=found["text"])
        stored = self._with_memory(lambda memory: memory.keep(Forgotten(found["id"], at)) is not None)
        return {**found, "stored": stored, "said": f"Forgotten: {found['text']}" + ("" if stored else self._not_kept())}

    def _note(self, entry: Json, key: str, **payload: Any) -> None:
        """In the session, so that the run that is under way knows it at its next decision, and in the history."""
        with self._workspace.act(self._caller) as act:
            session = self._session(act.rows)
            if session is not None:
                document = act.rows.workflows.session(session)
                own = document.setdefault(KEY, {})
                own[key] = [*own.get(key, []), entry][-KEPT:]
                act.rows.workflows.keep_session(session, document, act.at)
            act.event(
                "workflow.feedback", self._state.task_id, workflow_id=self._state.workflow_id,
                **{"source": "explicit", "step": self._state.current_step, **payload},
            )  # fmt: skip

    def _session(self, rows: Rows) -> str | None:
        """The session of the run, as `opening.Prepared.context` has it: its chat, else that of its task's open run."""
        state = self._state
        if state.plan.session:
            return state.plan.session
        task = rows.tasks.get(state.task_id) if state.task_id else None
        run = rows.runs.get(task.id, task.run) if task is not None and task.run else None
        return run.session if run is not None and run.ended_at is None else None

    def _with_memory(self, do: Callable[[MemoryBridge], object]) -> bool:
        def log(reason: str, _: str) -> None:
            self._problems.append(reason)

        memory = knowledge.opened(self._open_memory, self._workspace, self._state, log)
        if memory is None:
            return False
        try:
            located = workflow_entry_wrapper.locate(self._state.skill, self._state.plan.project)
            return do(MemoryBridge(memory, origin_of(self._state, located.workflow), log)) is not False
        finally:
            memory.close()

    def _not_kept(self) -> str:
        why = self._problems[-1] if self._problems else "there is no memory here"
        return f" (It counts for this session only: {why})"


def _document(rows: Rows, session: str | None) -> Json:
    found = rows.workflows.session(session).get(KEY) if session is not None else None
    return found if isinstance(found, dict) else {}
