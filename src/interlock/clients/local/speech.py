"""AOF/1 on a local team: the explicit door, mail that turns out to be AOF/1, and the end of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from interlock.clients.local.base import LocalBase
from interlock.clients.local.tasks import LocalTasks
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import UnitOfWork
from interlock.protocol import routing
from interlock.protocol.dropped import end_session
from interlock.protocol.message import parse
from interlock.runner.run_processes import verifier

T = TypeVar("T")


def protocol(team: LocalTasks, message: str | Mapping[str, Any], by: str | None) -> dict[str, Any]:
    """See `client.Speech.protocol`."""
    mark = verifier()
    answer = routing.route(team._workspace, team._as(by), parse(message, explicit=True), verifier=mark)
    if answer.verifying is not None:
        answer.state = team.verify_now(answer.verifying, mark, by).state
    return answer.as_dict()


def session_end(team: LocalTasks, by: str | None) -> list[dict[str, Any]]:
    """See `client.Speech.session_end`."""
    mark = verifier()
    found = []
    for ended in end_session(team._workspace, team._as(by), verifier=mark):
        task = team.verify_now(ended.task, mark, by) if ended.verifying else ended.task
        found.append({**ended.as_dict(), "state": task.state})
    return found


def run_result(team: LocalTasks, reference: str) -> dict[str, Any] | None:
    """See `client.Speech.run_result`."""
    with team._workspace.look() as rows:
        task = find(rows, reference)
        run = rows.runs.get(task.id, task.run) if task.run else None
        return None if run is None else run.result


def heard(
    team: LocalBase,
    by: str | None,
    content: str,
    store: Callable[[UnitOfWork], T],
    repeated: Callable[[UnitOfWork], bool],
) -> T:
    """Store mail whose content may be AOF/1, and act on it.

    One transaction for both: mail and what it reports stand or fall together, so that no crash leaves a report that
    was delivered as text and never took effect, and a repeated send (`repeated`) is not acted on twice. Only a handler
    that breaks is undone, and the mail then stored without it.
    """
    parsed = parse(content)
    mark = verifier()
    if not parsed.ours:
        with team._act(by) as act:
            return store(act)
    incoming = routing.prepare(team._workspace, parsed, mark)
    try:
        with team._act(by) as act:
            again = repeated(act)
            stored = store(act)
            answer = None if again else routing.within(act, parsed, incoming)
    except routing.HandlerFailed as failure:
        with team._act(by) as act:
            stored = store(act)
            answer = routing.broken(act, parsed, failure)
    if answer is not None and answer.verifying is not None:
        team.verify_now(answer.verifying, mark, by)
    return stored
