"""The rules of a team: who acts (`unit_of_work`), tasks, mail, questions, members, shutdown, and reports of it all.

Every verb is one transaction on the team's ledger: it checks, changes and appends its events, all or nothing.

As attributes of this package, modules are loaded with their first use: a verb pays for what it needs.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name == "mailbox":
        import interlock.core.mailbox
    elif name == "questions":
        import interlock.core.questions
    elif name == "reports":
        import interlock.core.reports
    elif name == "sessions":
        import interlock.core.sessions
    elif name == "shutdown":
        import interlock.core.shutdown
    elif name == "tasks":
        import interlock.core.tasks
    elif name == "teams":
        import interlock.core.teams
    elif name == "waiting":
        import interlock.core.waiting
    elif name == "workers":
        import interlock.core.workers
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(interlock.core, name)
