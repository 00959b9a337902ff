"""From an envelope to its handler: one message, one transaction, one answer.

A team has one writer at a time, so messages about one task take effect in the order in which they came. Every message
leaves its trace: *received* and what it did, or *rejected* with the reason, *unknown*, *failed*. Whatever a handler
does, the router goes on with the next message: what it had written is rolled back, and that it broke is written down.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.errors import InterlockError, LedgerBusy, LedgerUnusable, StorageError, TeamNotFound
from interlock.protocol.authority import EnvelopeRefused
from interlock.protocol.envelope import CompletionReport, Envelope, FieldError
from interlock.protocol.handlers import (
    handle_accepted,
    handle_completion,
    handle_rejected,
    handle_request,
    handle_status,
)
from interlock.protocol.message import HandlerResult, IncomingMessage, ParsedMessage, ProtocolAnswer
from interlock.storage.ledger import Rows

Handler = Callable[[UnitOfWork, IncomingMessage], HandlerResult]

HANDLERS: Mapping[str, Handler] = {
    "completion.report": handle_completion,
    "status.update": handle_status,
    "handoff.request": handle_request,
    "handoff.accepted": handle_accepted,
    "handoff.rejected": handle_rejected,
}
"""One handler a type. It raises `MessageRefused` before its first write, or not at all."""

ERRORS_KEPT = 20


class HandlerFailed(Exception):
    """A handler raised what it should not have; `cause` is what. The transaction must be rolled back."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def route(
    workspace: Workspace,
    caller: Principal,
    parsed: ParsedMessage,
    *,
    verifier: str | None = None,
    handlers: Mapping[str, Handler] = HANDLERS,
) -> ProtocolAnswer:
    """Act on what `caller` said, in a transaction of its own.

    Args:
        verifier: the process that will run the task's verify, if the message leads to one.

    Raises:
        MemberNotFound: the caller is nobody.
        LedgerBusy, LedgerUnusable, StorageError, TeamNotFound: nothing was changed; try again.
    """
    if parsed.envelope is None and not parsed.ours:
        return refusal(parsed)
    incoming = prepare(workspace, parsed, verifier)
    try:
        with workspace.act(caller, acknowledge=True) as act:
            answer = within(act, parsed, incoming, handlers)
    except HandlerFailed as failure:
        with workspace.act(caller) as act:
            answer = broken(act, parsed, failure)
    answer.warnings = list(act.warnings)
    return answer


def prepare(workspace: Workspace, parsed: ParsedMessage, verifier: str | None) -> IncomingMessage | None:
    """What must be looked at before the transaction, since it waits for a disk."""
    envelope = parsed.envelope
    if envelope is None:
        return None
    payload = envelope.payload
    reference = payload.summary_ref if isinstance(payload, CompletionReport) else None
    return IncomingMessage(envelope, verifier, missing_file(workspace, envelope.task_id, reference))


def missing_file(workspace: Workspace, task_id: str, reference: str | None) -> str | None:
    """Why a summary cannot be read, looked for in the team's working directory and beside the task's file."""
    if not reference:
        return None
    with workspace.ledger.snapshot() as rows:
        return missing_within(rows, workspace.directory, task_id, reference)


def missing_within(rows: Rows, directory: str, task_id: str, reference: str | None) -> str | None:
    """The same at one moment of the team whose own `directory` that is."""
    task = rows.tasks.get(task_id) if reference else None
    if task is None or not reference:
        return None
    companion = os.path.join(directory, "tasks", task.state, task.id)
    own = (task.worktree or {}).get("directory")
    return missing_summary([root for root in (own or rows.team.get().workdir, companion) if root], reference)


def missing_summary(roots: list[str], reference: str) -> str | None:
    """Why `reference` names no file below one of `roots`, `summary_outside_workdir` or `summary_file_not_found`."""
    inside = False
    for root in map(os.path.realpath, roots):
        try:
            path = os.path.realpath(os.path.join(root, reference))
        except ValueError:
            continue
        if os.path.commonpath([root, path]) == root:
            inside = True
            if os.path.isfile(path):
                return None
    return "summary_file_not_found" if inside else "summary_outside_workdir"


def within(
    act: UnitOfWork, parsed: ParsedMessage, incoming: IncomingMessage | None, handlers: Mapping[str, Handler] = HANDLERS
) -> ProtocolAnswer:
    """The same inside a transaction that is under way.

    Raises:
        HandlerFailed: roll back, then write it down with `broken`.
    """
    envelope = parsed.envelope
    if envelope is None or incoming is None:
        return _refused_text(act, parsed)
    handler = handlers.get(envelope.type)
    if handler is None:
        act.event("protocol.message.unknown", _task(act, envelope), **_shown(envelope))
        return ProtocolAnswer(False, envelope.type, envelope.task_id, "unknown_type", [
            FieldError("type", f"no handler for type {envelope.type!r}; known are: {', '.join(handlers)}")
        ])  # fmt: skip
    act.event("protocol.message.received", _task(act, envelope), **_shown(envelope))
    try:
        handled = handler(act, incoming)
    except EnvelopeRefused as refused:
        return _refused(act, envelope, refused)
    except (LedgerBusy, LedgerUnusable, StorageError, TeamNotFound):
        raise
    except Exception as error:  # boundary: whatever a handler does, the router goes on
        raise HandlerFailed(error) from error
    task = handled.task
    waits = task.verifying is not None and task.verifying["process"] == incoming.verifier
    return ProtocolAnswer(
        True, envelope.type, envelope.task_id, applied=handled.applied, state=task.state,
        verifying=task if waits and incoming.verifier is not None else None,
    )  # fmt: skip


def broken(act: UnitOfWork, parsed: ParsedMessage, failure: HandlerFailed) -> ProtocolAnswer:
    """Write down that a handler failed; its transaction was rolled back."""
    envelope, cause = parsed.envelope, failure.cause
    if envelope is None:
        return refusal(parsed)
    if isinstance(cause, InterlockError):
        act.event("protocol.message.received", _task(act, envelope), **_shown(envelope))
        return _refused(act, envelope, EnvelopeRefused(cause.code, cause.message))
    text = f"{type(cause).__name__}: {cause}"[:500]
    act.event("protocol.message.failed", _task(act, envelope), error=text, **_shown(envelope))
    return ProtocolAnswer(False, envelope.type, envelope.task_id, "handler_failed", [
        FieldError("", f"the handler failed, and nothing was changed: {text}")
    ])  # fmt: skip


def refusal(parsed: ParsedMessage) -> ProtocolAnswer:
    """The answer to what cannot be routed."""
    return ProtocolAnswer(False, parsed.type, parsed.task_id, parsed.reason, list(parsed.errors))


def _refused_text(act: UnitOfWork, parsed: ParsedMessage) -> ProtocolAnswer:
    if parsed.ours:
        act.event(
            "protocol.message.rejected", reason=parsed.reason, type=parsed.type, task_id=parsed.task_id,
            errors=[error.as_dict() for error in parsed.errors[:ERRORS_KEPT]],
        )  # fmt: skip
    return refusal(parsed)


def _refused(act: UnitOfWork, envelope: Envelope, refused: EnvelopeRefused) -> ProtocolAnswer:
    task = _task(act, envelope)
    errors = [error.as_dict() for error in refused.errors]
    if refused.rejected:
        act.event("protocol.message.rejected", task, reason=refused.reason, errors=errors, **_shown(envelope))
    if refused.delegation:
        act.event("delegation.rejected", task, reason=refused.reason, **_shown(envelope))
    return ProtocolAnswer(False, envelope.type, envelope.task_id, refused.reason, refused.errors)


def _task(act: UnitOfWork, envelope: Envelope) -> str | None:
    """The task that an event is about: one that exists."""
    return envelope.task_id if act.rows.tasks.get(envelope.task_id) is not None else None


def _shown(envelope: Envelope) -> dict[str, str | None]:
    return {
        "type": envelope.type,
        "task_id": envelope.task_id,
        "from_agent": envelope.from_agent,
        "to_agent": envelope.to_agent,
        "run": envelope.run_id,
    }
