"""One team, as one caller sees it: its members, settings, questions, events, and what pages and reports show."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any

from interlock import app, core, mirror, runner
from interlock import model as values
from interlock.app.base import calling, free_name, warned, whole_number
from interlock.app.mail import Mailing
from interlock.app.run_files import RunFileVerbs
from interlock.app.tasks import TaskVerbs
from interlock.app.windows import DistantWindowVerbs
from interlock.app.workers import WorkerVerbs
from interlock.app.workflows import WorkflowVerbs
from interlock.app.worktrees import WorktreeVerbs
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal
from interlock.errors import InterlockError, InvalidRequest
from interlock.model.json import Json
from interlock.model.names import SYSTEM
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.processes.ref import alive
from interlock.storage.ledger import Rows
from interlock.wakeup.notifier import Waiter, woken

EVENTS_AT_ONCE = 1000
LOOK_AGAIN = 1.0
"""Seconds until the next look at a busy ledger."""
LONGEST_LIST = 1000


class Team(TaskVerbs, RunFileVerbs, Mailing, WorktreeVerbs, WorkflowVerbs, WorkerVerbs, DistantWindowVerbs):
    """One team, seen by one caller. Its mail is in `Mailing`, its tasks in `TaskVerbs`, and so on."""

    def acting(
        self, name: str, *, session: str | None = None, run: int | None = None, face: str = "python",
        person: bool = False, origin: values.run.RunOrigin | None = None,
    ) -> Team:  # fmt: skip
        """Return the same team, seen by another caller.

        Args:
            person: the caller is a person, who gets a place in the team with the first act.
            origin: the run that a caller over the wire belongs to.

        Raises:
            MemberNotFound: the name stands for Interlock itself.
        """
        caller = calling(name, session, run, face, person, origin)
        return Team(self._workspace, caller, self._open_memory, self._why_idle)

    def for_machine(self) -> Team:
        """The team as a machine with a token of its own sees it, for the verbs that the table gives to its role."""
        return Team(self._workspace, Principal(SYSTEM, face="http"), self._open_memory, self._why_idle)

    def end_session(self) -> None:
        """End the caller's session; what it was given and never acknowledged is offered to the next one."""
        if self._caller.session is not None:
            with self._act() as act:
                act.rows.sessions.end(act.name, act.session, act.at)
                act.event("session.ended", member=act.name, session=act.session)

    def describe(self) -> values.team.TeamOverview:
        """The team with its members, and its tasks counted."""
        with self._workspace.look() as rows:
            return values.team.TeamOverview(rows.team.get(), core.teams.members(rows), rows.tasks.counts())

    def id(self) -> str:
        """What tells this team from another one that is later made under its name."""
        with self._workspace.ledger.snapshot() as rows:
            return rows.team.get().id

    def members(self) -> list[Member]:
        """Members, the lead first."""
        with self._workspace.look() as rows:
            return core.teams.members(rows)

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
        """Register a member. Nothing is started.

        Raises:
            MemberExists, MemberLimit: the name is taken, or the team is full.
            InvalidRequest: the name or a field makes no sense.
            Forbidden: only the lead and people may.
        """
        with self._act(by) as act:
            member = core.teams.spawn(
                act, name, agent=agent, command=list(command) if command else None, agent_id=agent_id, type=type,
                model=model, permissions=permissions,
            )  # fmt: skip
        member.status = "idle"
        return member

    def worker(
        self, agent: str | None = None, *, command: Sequence[str] | None = None, permissions: str | None = None,
        by: str | None = None,
    ) -> Member:  # fmt: skip
        """The member with that agent, which is spawned where there is none; without `agent` the first that has one.

        Args:
            agent: a member, or an agent as in `spawn`.
            permissions: what it may do without asking; one who is here already must have the same.

        Raises:
            InvalidRequest: no member has an agent, or it is here with other permissions.
        """
        everybody = self.members()
        members = [one for one in everybody if one.role == "member" and one.agent not in (None, "shell")]
        if agent is None and not members:
            raise InvalidRequest(
                "No member of this team has an agent: name one with --agent, such as --agent claude, or any program: "
                '--agent "PROGRAM ARGUMENT".',
                field="agent",
            )
        if agent is None:
            found = members[0]
        elif command is not None:
            same = [one for one in members if (one.agent, one.command) == (agent, list(command))]
            name = free_name("agent", [one.name for one in everybody])
            found = same[0] if same else self.spawn(name, agent=agent, command=command, permissions=permissions, by=by)
        else:
            same = [one for one in members if agent in (one.name, one.agent)]
            found = same[0] if same else self.spawn(agent, agent=agent, permissions=permissions, by=by)
        if permissions not in (None, found.permissions or "ask"):
            raise InvalidRequest(
                f"{found.name} is here already, with the permissions {found.permissions or 'ask'!r}. Take it out first "
                f"(`interlock member remove {found.name}`), or omit --permissions.",
                field="permissions",
            )
        return found

    def remove(self, name: str, *, by: str | None = None) -> list[str]:
        """Remove a member; returns the ids of the tasks it gave back.

        Raises:
            MemberNotFound: there is none of that name.
            MembersRunning: it is at work.
        """
        with self._act(by) as act:
            running = any(
                run.member == name and run.runner is not None and alive(run.runner) for run in act.rows.runs.open()
            )
            return core.teams.remove(act, name, running=running)

    def pause(self, member: str | None = None, *, reason: str | None = None, by: str | None = None) -> None:
        """Let runners start nothing new, in the team or of one member. What runs is finished."""
        with self._act(by) as act:
            core.teams.pause(act, member, reason=reason)

    def resume(self, member: str | None = None, *, by: str | None = None) -> None:
        """Continue after a pause; a member that was stopped is given work again."""
        with self._act(by) as act:
            core.teams.resume(act, member)

    def configure(self, changes: Mapping[str, Any], *, by: str | None = None) -> Json:
        """Set, or with None unset, the team's own settings; returns them all."""
        with self._act(by) as act:
            return core.teams.configure(act, dict(changes))

    def setting(self, name: str) -> tuple[Any, str]:
        """A setting's value for this team, and where it comes from: environment, team, home or default."""
        with self._workspace.look() as rows:
            return self._workspace.settings(rows).look_up(name)

    # Questions: what waits for a person.

    def questions(self) -> list[values.question.Question]:
        """Open questions, oldest first; of reviews, those of work that has changed its own check before others."""
        with self._workspace.look() as rows:
            return values.question.reviews_in_order(rows.questions.open())

    def reply(self, task: str, text: str, *, question: str | None = None, by: str | None = None) -> Task:
        """Answer a question about a task.

        Raises:
            QuestionNotFound: there is no open one.
            InvalidRequest: the answer is none of those that were offered.
            Forbidden: only people answer, and only from outside of a run.
        """
        face = self._caller.face
        with self._act(by, acknowledge=True) as act:
            found = find(act.rows, task)
            at_hand = face in ("page", "cli", "acp", "python") and act.origin is None
            core.tasks.answer.reply(act, found, text, question, at_hand=at_hand)
            mirror.task_view.show(act.rows, found)
            answered = [one for one in act.rows.questions.of_task(found.id) if one.answered_at == act.at]
            notes = [note for one in answered if (note := core.questions.in_own_words(one)) is not None]
        warned(act, found).warnings += notes
        return self._merged(self._checked_again(found))

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
    ) -> values.question.Question:
        """Ask a person about a task, which waits for the answer.

        Args:
            held: the caller's session lives and waits for the answer.
            reversible: a time-out may take the default.

        Raises:
            Forbidden, StaleRun, InvalidTransition: the caller does not work on the task.
            InvalidRequest: the question makes no sense.
        """
        with self._act(by, acknowledge=True) as act:
            return core.tasks.answer.ask(
                act, find(act.rows, task), kind=kind, text=text, options=tuple(options), default=default,
                context=context, held=held, reversible=reversible,
            )  # fmt: skip

    def relay_permission(
        self, request: str, *, tool: str, title: str, preview: str = ""
    ) -> values.question.Question | None:
        """Ask a person what the caller's program asks at its own prompt, too, under its id of the `request`. None where
        the caller works on no task."""
        with self._act() as act:
            return core.tasks.permission.relay(act, request, tool=tool, title=title, preview=preview)

    def relayed_verdict(self, question: str) -> str | None:
        """What a person answered to what the caller's session relayed; None where nobody did. What is asked for again
        is not noted again."""
        with self._workspace.look() as rows:
            known = self._relayed(rows, question)
        if known is None or known.state != "answered":
            return None
        with self._act() as act:
            known = self._relayed(act.rows, question) or known
            if not known.data.get("used"):
                core.tasks.permission.use(act, known, find(act.rows, known.task_id).run_id)
            return known.answer

    def withdraw_relayed(self, question: str, reason: str) -> None:
        """Ask no longer for what the caller's session relayed, since nobody waits for it any more. One that is closed
        stays as it is."""
        with self._act() as act:
            known = self._relayed(act.rows, question)
            if known is not None and known.state == "open":
                core.questions.withdraw_one(act, known, reason)

    def _relayed(self, rows: Rows, question: str) -> values.question.Question | None:
        found = rows.questions.get(question)
        return found if core.tasks.permission.relayed_by(found, self._caller.name, self._caller.session) else None

    def conversation(self, task: str) -> list[values.question.Question]:
        """Every question that was asked about the task, oldest first."""
        with self._workspace.look() as rows:
            return rows.questions.of_task(find(rows, task).id)

    # AOF/1: what agents say about their work.

    def protocol(self, message: str | Mapping[str, Any], *, by: str | None = None) -> app.speech.ProtocolAnswer:
        """Act on one AOF/1 message: an envelope, its JSON text, or that after `AOF/1 `.

        Raises:
            MemberNotFound: the caller is nobody. What is wrong with the message itself is in the answer.
        """
        mark = runner.run_processes.verifier()
        parsed = app.speech.parse(message, explicit=True)
        routed = app.speech.route(self._workspace, self._as(by), parsed, verifier=mark)
        if routed.verifying is not None:
            routed.state = self._settled(routed.verifying, mark, by).state
            routed.verifying = None
        return routed

    def session_end(self, *, by: str | None = None) -> list[app.speech.AppliedResult]:
        """Apply the results that the caller's runs have put down, of all runs for the lead and people. Without a result
        nothing happens."""
        mark = runner.run_processes.verifier()
        found = app.speech.end_session(self._workspace, self._as(by), verifier=mark)
        for one in found:
            if one.verifying is not None:
                one.state, one.verifying = self._settled(one.verifying, mark, by).state, None
        return found

    # Events.

    def events(self, since: int = 0, *, limit: int | None = None) -> tuple[list[values.event.Event], int]:
        """Events after `since`, and the sequence number to continue from."""
        whole_number(since, "since")
        whole_number(limit, "limit")
        with self._workspace.look() as rows:
            found = rows.events.since(since, limit)
            return found, found[-1].seq if found else since

    def latest(
        self, *, before: int | None = None, limit: int = 100, types: Sequence[str] = (), actor: str | None = None
    ) -> list[values.event.Event]:
        """What happened last, newest first; `before` is a `seq` to go back from, `actor` who did it."""
        with self._workspace.look() as rows:
            return rows.events.latest(before, _bounded(limit), types, actor or "")

    def head(self) -> int:
        """The number of the newest event."""
        with self._workspace.ledger.snapshot() as rows:
            return rows.start.head

    async def changes(self) -> AsyncGenerator[None]:
        """Yield at once, and whenever something of the team may have changed, for ever."""
        import anyio.to_thread  # slow to load, and needed by servers only

        waiter = await anyio.to_thread.run_sync(self._waiter)
        try:
            while True:
                yield
                try:
                    await woken(waiter, 3600.0)
                except InterlockError:  # The ledger is busy.
                    await anyio.sleep(LOOK_AGAIN)
        finally:
            waiter.close()

    def _waiter(self) -> Waiter:
        workspace = self._workspace
        return workspace.notifier.waiter(workspace.name, [], workspace.ledger.watch())

    def follow(self, since: int = 0) -> Iterator[values.event.Event]:
        """Yield events after `since` as they come, for ever."""
        with self._waiter() as waiter:
            while True:
                with self._workspace.ledger.snapshot() as rows:
                    found = rows.events.since(since, EVENTS_AT_ONCE)
                for event in found:
                    since = event.seq
                    yield event
                if not found:
                    waiter.wait(60.0)

    # Whole pictures of the team, each read at one moment; lists are cut by `limit`.

    def status(self) -> values.status.StatusReport:
        """What needs a human, what runs since when with its latest output, what is next, and counts."""
        with self._workspace.look() as rows:
            settings = self._workspace.settings(rows)
            found = core.reports.now.status(rows, self.name, self._workspace.log_path, self._now(), settings)
            found.unable = core.reports.now.unable(rows, self._why_idle)
            found.workers = [process for process in runner.registration.at_work(rows) if process != found.runner]
        found.driven = found.runner is not None and alive(found.runner) is not False
        return found

    def report(self, since: str | None = None, *, limit: int | None = None) -> values.report.TeamReport:
        """What needs you, what is done with its evidence, what failed and why, what it cost; with `limit` so many of
        each list, the newest."""
        most = None if limit is None else _bounded(limit)
        with self._workspace.look() as rows:
            settings = self._workspace.settings(rows)
            found = core.reports.night.report(rows, self.name, since, self._now(), settings, most)
        if found.integration is not None:
            app.branches.compare(self._workspace, found.integration)
        return found

    def integration(self) -> values.report.IntegrationBranch | None:
        """How much of the finished work is on the team's integration branch, and on a branch of the user's; null in a
        team that merges nothing. Git is asked."""
        with self._workspace.look() as rows:
            found = core.reports.night.integration(rows)
        if found is not None:
            app.branches.compare(self._workspace, found)
        return found

    def outdated(self) -> list[str]:
        """The finished commands that ran on other files than there are now: keys of the plan, else ids. Changes
        nothing; git is asked."""
        return app.branches.outdated(self._workspace)

    def witness(self) -> values.witness.Witness:
        """What happened in figures, each derived from rows of the ledger alone (see `model.witness`)."""
        return core.reports.witness.derive(self.account())

    def account(self) -> values.witness.Account:
        """The rows that the witness derives its figures from."""
        with self._workspace.look() as rows:
            return core.reports.witness.account(rows, self._now(), self._workspace.settings(rows))

    def board(self, sought: values.views.BoardFilter | None = None, *, limit: int = 50) -> values.views.Board:
        """The tasks that are sought by column, at most `limit` of each: the next ones in the order of the queue, those
        done the newest first, others longest there first.

        Raises:
            InvalidRequest: there is no such priority.
        """
        with self._workspace.look() as rows:
            return core.reports.now.board(rows, sought or values.views.EVERYTHING, _bounded(limit))

    def column(
        self, name: str, sought: values.views.BoardFilter | None = None, *, offset: int = 0, limit: int = 100
    ) -> list[Task]:
        """The tasks of one column of the board, or in one state, in its order.

        Raises:
            InvalidRequest: there is no such column, state or priority.
        """
        with self._workspace.look() as rows:
            return core.reports.now.column(rows, name, sought or values.views.EVERYTHING, offset, _bounded(limit))

    def story(self, task: str, *, events: int = 200) -> values.views.TaskStory:
        """Everything about one task, with its newest `events`."""
        with self._workspace.look() as rows:
            settings = self._workspace.settings(rows)
            return core.reports.now.story(rows, find(rows, task), _bounded(events), settings, self._now())

    def member_overviews(self) -> list[values.views.MemberOverview]:
        """Members, the lead first, with what each is doing."""
        with self._workspace.look() as rows:
            return core.reports.now.member_overviews(rows, self._workspace.log_path, self._now())

    # Maintenance.

    def poll(self, *, dry_run: bool = False) -> app.running.PollReport:
        """Recover, once, tasks that nobody works on any more (AOF-61); `dry_run` only says what that would be.

        Raises:
            LedgerBusy: what was done stands; the next poll does the rest.
        """
        return app.running.poll(self._workspace, dry_run=dry_run)

    def doctor(self, *, repair: bool = False, adopt: bool = False) -> app.running.DoctorReport:
        """Check ledger, files and mirror. `repair` fixes what needs no guess, `adopt` takes over edited task files."""
        return app.running.examine_team(self._workspace, repair=repair, adopt=adopt, why_idle=self._why_idle)


def _bounded(limit: int) -> int:
    return max(1, min(limit, LONGEST_LIST))
