"""The aggregates of one connection, made when first asked for: a hook that only reads mail loads only mail."""

from __future__ import annotations

import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.ledger import (
        EventRows,
        GroupRows,
        HandoffRows,
        MessageRows,
        QuestionRows,
        RequestRows,
        TeamRows,
    )
    from interlock.ledger_work import GraphRows, RunRows, TaskRows
    from interlock.ledger_workflow import QueueRows, WorkflowRows
    from interlock.ledgers.sqlite.events import Stamp
    from interlock.model.team import Team


class SqliteRows:
    """See `ledger.Rows`. Attributes become real at first use."""

    team: TeamRows
    tasks: TaskRows
    graph: GraphRows
    runs: RunRows
    messages: MessageRows
    questions: QuestionRows
    requests: RequestRows
    events: EventRows
    handoffs: HandoffRows
    groups: GroupRows
    workflows: WorkflowRows
    queue: QueueRows

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __getattr__(self, name: str) -> object:
        # Only reached while the attribute is missing: from then on it is an ordinary one.
        if name == "messages":
            from interlock.ledgers.sqlite.messages import SqliteMessages

            made: object = SqliteMessages(self.connection)
        elif name == "events":
            from interlock.ledgers.sqlite.events import SqliteEvents

            made = SqliteEvents(self.connection)
        elif name == "team":
            from interlock.ledgers.sqlite.team import SqliteTeam

            made = SqliteTeam(self.connection)
        elif name in ("tasks", "graph", "runs"):
            from interlock.ledgers.sqlite import tasks

            kinds = {"tasks": tasks.SqliteTasks, "graph": tasks.SqliteGraph, "runs": tasks.SqliteRuns}
            made = kinds[name](self.connection)
        elif name == "handoffs":
            from interlock.ledgers.sqlite.handoffs import SqliteHandoffs

            made = SqliteHandoffs(self.connection)
        elif name == "groups":
            from interlock.ledgers.sqlite.groups import SqliteGroups

            made = SqliteGroups(self.connection)
        elif name in ("questions", "requests"):
            from interlock.ledgers.sqlite import questions

            made = (questions.SqliteQuestions if name == "questions" else questions.SqliteRequests)(self.connection)
        elif name in ("workflows", "queue"):
            from interlock.ledgers.sqlite import workflows

            made = (workflows.SqliteWorkflows if name == "workflows" else workflows.SqliteQueue)(self.connection)
        else:
            raise AttributeError(name)
        setattr(self, name, made)
        return made

    def begin(self) -> None:
        """Note that a transaction begins, which has written no event yet."""
        if "events" in self.__dict__:
            self.events.last = None  # type: ignore[attr-defined]

    @property
    def last_event(self) -> Stamp | None:
        """The last event of this transaction, by which it is known again; None where it wrote none."""
        return self.events.last if "events" in self.__dict__ else None  # type: ignore[attr-defined]

    def set_back(self, seconds: float) -> list[str]:
        """See `ledger.Rows.set_back`."""
        from interlock.ledgers.sqlite.set_back import set_back

        return set_back(self.connection, seconds)

    def team_is_deleted(self) -> bool:
        """Whether the team's last act was its own deletion."""
        return bool(self.connection.execute("SELECT status = 'deleted' FROM team").fetchone()[0])

    def insert_team(self, team: Team) -> None:
        """Store the one row of a new team."""
        self.connection.execute(
            "INSERT INTO team (id, name, lead_session_key, status, workdir, created_at, updated_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (team.id, team.name, team.lead_session_key, team.status, team.workdir, team.created_at, team.updated_at),
        )
        self.team.update(team, settings=team.settings)
