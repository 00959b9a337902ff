"""One team on this machine."""

from __future__ import annotations

from interlock.clients.local.base import calling, whole_number
from interlock.clients.local.mail import LocalMailing
from interlock.clients.local.tasks import LocalTasks
from interlock.clients.local.views import LocalViews
from interlock.clients.local.workflow_queue import LocalWorkflowQueue
from interlock.clients.local.workflow_runs import LocalWorkflowRuns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from interlock.core.unit_of_work import UnitOfWork
    from interlock.model.event import Event
    from interlock.model.question import Question
    from interlock.model.task import Task
    from interlock.model.team import Member
    from interlock.processes.ancestry import RunOrigin
    from interlock.storage.ledger import Rows
    from interlock.wakeup.notifier import Waiter

FOLLOW_AT_ONCE = 1000


class LocalTeam(LocalTasks, LocalMailing, LocalViews, LocalWorkflowQueue, LocalWorkflowRuns):
    """See `client.Team`."""

    def looks(self) -> AbstractContextManager[Rows]:
        """One consistent moment of the team's ledger."""
        return self._workspace.look()

    def acts(self) -> AbstractContextManager[UnitOfWork]:
        """One verb of the caller."""
        return self._act(acknowledge=True)

    def acting(
        self, name: str, *, session: str | None = None, run: int | None = None, face: str = "python",
        person: bool = False, origin: RunOrigin | None = None,
    ) -> LocalTeam:  # fmt: skip
        caller = calling(name, session, run, face, person, origin)
        return LocalTeam(self._workspace, caller, self._open_memory, self._why_idle)

    def end_session(self) -> None:
        """The caller's session is over; what it was given and never acknowledged will be offered to the next."""
        caller = self._caller
        if caller.session is not None:
            with self._act() as act:
                act.rows.sessions.end(act.name, act.session, act.at)
                act.event("session.ended", member=act.name, session=act.session)

    def protocol(self, message: str | Mapping[str, Any], *, by: str | None = None) -> dict[str, Any]:
        from interlock.clients.local import speech

        return speech.protocol(self, message, by)

    def session_end(self, *, by: str | None = None) -> list[dict[str, Any]]:
        from interlock.clients.local import speech

        return speech.session_end(self, by)

    def run_result(self, task: str) -> dict[str, Any] | None:
        from interlock.clients.local import speech

        return speech.run_result(self, task)

    def poll(self, *, dry_run: bool = False) -> dict[str, Any]:
        from interlock.runner.scheduler import poll

        return poll(self._workspace, dry_run=dry_run)

    def describe(self) -> dict[str, Any]:
        from interlock.core import teams

        with self._workspace.look() as rows:
            shown = rows.team.get().as_dict([member.as_dict() for member in teams.members(rows)])
            shown["task_counts"] = rows.tasks.counts()
            return shown

    def members(self) -> list[Member]:
        from interlock.core import teams

        with self._workspace.look() as rows:
            return teams.members(rows)

    def spawn(
        self,
        name: str,
        *,
        agent: str | None = None,
        command: Sequence[str] | None = None,
        agent_id: str | None = None,
        type: str | None = None,
        model: str | None = None,
        permissions: str | None = None,
        by: str | None = None,
    ) -> Member:
        from interlock.core import teams

        with self._act(by) as act:
            member = teams.spawn(
                act, name, agent=agent, command=list(command) if command else None, agent_id=agent_id, type=type,
                model=model, permissions=permissions,
            )  # fmt: skip
        member.status = "idle"
        return member

    def remove(self, name: str, *, by: str | None = None) -> list[str]:
        from interlock.core import teams
        from interlock.processes.ref import alive

        with self._act(by) as act:
            running = any(
                run.member == name and run.runner is not None and alive(run.runner) for run in act.rows.runs.open()
            )
            return teams.remove(act, name, running=running)

    def pause(self, member: str | None = None, *, reason: str | None = None, by: str | None = None) -> None:
        from interlock.core import teams

        with self._act(by) as act:
            teams.pause(act, member, reason=reason)

    def resume(self, member: str | None = None, *, by: str | None = None) -> None:
        from interlock.core import teams

        with self._act(by) as act:
            teams.resume(act, member)

    def configure(self, changes: Mapping[str, Any], *, by: str | None = None) -> dict[str, Any]:
        from interlock.core import teams

        with self._act(by) as act:
            return teams.configure(act, dict(changes))

    def setting(self, name: str) -> tuple[Any, str]:
        with self._workspace.look() as rows:
            return self._workspace.settings(rows).look_up(name)

    def questions(self) -> list[Question]:
        with self._workspace.look() as rows:
            return rows.questions.open()

    def reply(self, task: str, text: str, *, question: str | None = None, by: str | None = None) -> Task:
        from interlock.clients.local.base import warned, whole
        from interlock.core.questions import in_own_words
        from interlock.core.tasks import answer
        from interlock.core.tasks.find import find
        from interlock.runner import registration

        face = self._caller.face
        with self._act(by, acknowledge=True) as act:
            found = find(act.rows, task)
            at_hand = face in ("page", "cli", "python") and act.origin is None
            answer.reply(act, found, text, question, at_hand=at_hand)
            whole(act, found)
            answered = [one for one in act.rows.questions.of_task(found.id) if one.answered_at == act.at]
            notes = [note for one in answered if (note := in_own_words(one)) is not None]
            driven = bool(registration.at_work(act.rows))
        if found.verifying is not None and not driven:  # Nobody else would run the check again.
            self.verify_pending()
            return self.task(found.id)
        warned(act, found).warnings += notes
        return self.merge_now(found)

    def ask(
        self,
        task: str,
        text: str,
        *,
        kind: str = "clarification",
        options: Sequence[str] = (),
        default: str | None = None,
        context: str | None = None,
        held: bool = False,
        reversible: bool = False,
        by: str | None = None,
    ) -> Question:
        from interlock.core.tasks import answer
        from interlock.core.tasks.find import find

        with self._act(by, acknowledge=True) as act:
            return answer.ask(
                act, find(act.rows, task), kind=kind, text=text, options=tuple(options), default=default,
                context=context, held=held, reversible=reversible,
            )  # fmt: skip

    def conversation(self, task: str) -> list[dict[str, Any]]:
        from interlock.core.tasks.find import find

        with self._workspace.look() as rows:
            return [question.exchange() for question in rows.questions.of_task(find(rows, task).id)]

    def events(self, since: int = 0, *, limit: int | None = None) -> tuple[list[Event], int]:
        whole_number(since, "since")
        whole_number(limit, "limit")
        with self._workspace.look() as rows:
            found = rows.events.since(since, limit)
            return found, found[-1].seq if found else since

    def head(self) -> int:
        with self._workspace.ledger.snapshot() as rows:
            return rows.events.head()

    def waiter(self) -> Waiter:
        workspace = self._workspace
        return workspace.notifier.waiter(workspace.name, [], workspace.ledger.watch())

    def follow(self, since: int = 0) -> Iterator[Event]:
        with self.waiter() as waiter:
            while True:
                with self._workspace.ledger.snapshot() as rows:
                    found = rows.events.since(since, FOLLOW_AT_ONCE)
                for event in found:
                    since = event.seq
                    yield event
                if not found:
                    waiter.wait(60.0)

    def status(self) -> dict[str, Any]:
        from interlock.core.reports.now import status, unable
        from interlock.processes.ref import alive
        from interlock.runner import registration

        with self._workspace.look() as rows:
            found = status(rows, self.name, self._workspace.log_path, self._now())
            found["unable"] = unable(rows, self._why_idle)
            workers = [process for process in registration.at_work(rows) if process != found["runner"]]
        driven = found["runner"] is not None and alive(found["runner"]) is not False
        return {**found, "driven": driven, "workers": workers}

    def report(self, since: str | None = None) -> dict[str, Any]:
        from interlock.core.reports.night import report

        with self._workspace.look() as rows:
            return report(rows, self.name, since, self._now())

    def _now(self) -> str:
        from interlock.clock import iso

        return iso(self._workspace.clock.now())

    def worktree(self, task: str, *, hear: Callable[[str], None] | None = None, by: str | None = None) -> Task:
        from interlock.clients.local import copies

        copies.worktree(self._workspace, self._as(by), task, hear=hear or (lambda line: None))
        return self.task(task)

    def diff(self, task: str, *, stat: bool = False, color: bool = False) -> dict[str, Any]:
        from interlock.clients.local import copies

        return copies.diff(self._workspace, task, stat=stat, color=color)

    def merge(
        self,
        tasks: Sequence[str] = (),
        *,
        everything: bool = False,
        into: str | None = None,
        dry_run: bool = False,
        by: str | None = None,
    ) -> dict[str, Any]:
        from interlock.clients.local import copies

        return copies.merge(
            self._workspace, self._as(by), list(tasks), everything=everything, into=into, dry_run=dry_run
        )

    def doctor(self, *, repair: bool = False, adopt: bool = False) -> dict[str, Any]:
        from interlock.doctor.team import examine

        return examine(self._workspace, repair=repair, adopt=adopt, why_idle=self._why_idle)
