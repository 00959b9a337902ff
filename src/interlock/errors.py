"""Every refusal Interlock makes, as one tree. Each class has a stable `code` that callers may branch on.

The code is the class's name in lower case, `TeamNotFound` is `team_not_found`, unless the class names another. On every
face an error is `{"error": code, "message": sentence, ...details}`; the message says what to do next.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Any


class InterlockError(Exception):
    """Anything Interlock refuses or fails to do, with a code that stays the same between versions."""

    code = "error"
    exit_code = 1

    def __init_subclass__(cls) -> None:
        if "code" not in cls.__dict__:
            cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def as_dict(self) -> dict[str, Any]:
        """The shape every face shows: `{"error", "message", ...details}`."""
        return {"error": self.code, "message": self.message, **self.details}


class InvalidRequest(InterlockError):
    """What was asked cannot be understood or breaks a rule that needs no look at the ledger."""


class InvalidSkillPath(InvalidRequest):
    """Something that begins like the invocation of a workflow and is none; `examples` shows how one is written."""


class InvalidTeamName(InvalidRequest):
    """A team name outside the contract's rule."""


class InvalidMemberName(InvalidRequest):
    """A member name outside the contract's rule, or one that collides with another's inbox."""


class MessageTooLarge(InvalidRequest):
    """Message content above the size limit."""


class RequestTooLarge(InvalidRequest):
    """An HTTP request above a size limit; nothing of it was looked at."""


class RequestTooSlow(InvalidRequest):
    """An HTTP request whose body took too long; nothing of it was looked at."""


class MethodNotAllowed(InvalidRequest):
    """An HTTP method that this address does not know; `allowed` lists those it does."""


class PlanError(InvalidRequest):
    """A plan file with errors; `errors` lists each with its line."""

    code = "invalid_plan"


class WorktreeRefused(InvalidRequest):
    """Worktrees cannot be used there, or git's own state forbids it now; the message says why, and what to do."""


class ConfigParseError(InvalidRequest):
    """A configuration file that cannot be read."""


class NotFound(InterlockError):
    """Something named in the request does not exist."""


class TeamNotFound(NotFound):
    """No team of that name in this home, or none could be chosen."""


class MemberNotFound(NotFound):
    """No member of that name in the team."""


class WorkerNotFound(NotFound):
    """The team has no worker of that name, or it has ended."""


class TaskNotFound(NotFound):
    """No task with that id, suffix or plan key."""


class RunNotFound(NotFound):
    """The task has no run with that number."""


class ArtifactNotFound(NotFound):
    """The runs of the task have left no such file, or it is not kept."""


class QuestionNotFound(NotFound):
    """No question with that id."""


class ProjectNotFound(NotFound):
    """No project with that id in this home."""


class GroupNotFound(NotFound):
    """No task group with that id."""


class RequestNotFound(NotFound):
    """The caller has no pending shutdown request."""


class TokenNotFound(NotFound):
    """No token with that id."""


class WorkflowNotFound(NotFound):
    """No run of a workflow with that id, or no workflow of that name."""


class QueueEntryNotFound(NotFound):
    """That task does not wait in the queue of workflows."""


class CheckpointNotFound(NotFound):
    """The run has no such checkpoint; `nearest` names the one that comes closest, where there is one."""


class ServerNotFound(NotFound):
    """No `interlock up` serves this home."""


class DirectoryNotFound(NotFound):
    """A working directory that is not there."""


class RecipientNotFound(NotFound):
    """A message addressed to nobody; `suggestion` holds the nearest name."""


class Conflict(InterlockError):
    """The request is sound, but the present state does not allow it."""


class TeamExists(Conflict):
    """A team of that name exists already."""


class TeamElsewhere(TeamExists):
    """The team of that name works in another directory; `workdir` is that one, `directory` this one."""


class MemberExists(Conflict):
    """A member of that name exists already."""


class SessionInOtherProject(Conflict):
    """A chat session belongs to one project, and this one to another; `project` names it."""


class AmbiguousId(Conflict):
    """A shortened id that fits more than one thing; `candidates` lists them."""


class TaskAlreadyClaimed(Conflict):
    """Somebody else, or another session of the same member, holds the task."""


class UnmetDependencies(Conflict):
    """A strict claim of a task whose blockers are open; `blocked_by` lists them."""


class DependencyCycle(Conflict):
    """The edge would create a dependency cycle; `cycle` shows it."""


class InvalidTransition(Conflict):
    """The task's state does not allow that verb; `state` holds it."""


class StaleRun(Conflict):
    """The act belongs to a run that has been superseded."""


class NotAwaitingResponse(Conflict):
    """A reply where no question is open."""


class MessageRefused(Conflict):
    """An AOF/1 message was refused; the error's own code is the reason, such as `unauthorized_agent` or `stale_run`."""

    code = "message_refused"

    def __init__(self, reason: str, message: str, **details: Any) -> None:
        super().__init__(message, **details)
        self.code = reason


class MembersRunning(Conflict):
    """The team still has members at work; they must be asked or stopped first."""


class RunnerAlive(Conflict):
    """Another runner already runs this team."""


class ServerAlive(Conflict):
    """Another `interlock up` serves this home; `url` is its address."""


class LimitReached(InterlockError):
    """A limit; `setting` names the setting that raises it."""

    code = "limit"


class TeamLimit(LimitReached):
    """Too many active teams in this home."""


class MemberLimit(LimitReached):
    """Too many members in the team."""


class TaskLimit(LimitReached):
    """Too many open tasks in the team."""


class RunLimit(LimitReached):
    """Too many runs of the team are open at once."""


class InboxFull(LimitReached):
    """The recipient has too many unread messages; nothing was dropped and nothing was sent."""


class Unauthorized(InterlockError):
    """A request over HTTP without a token or cookie that counts."""


class Forbidden(InterlockError):
    """The caller may not do that; the message says who may."""

    noted = False
    """Whether an event already records it."""


class LedgerBusy(InterlockError):
    """The ledger stayed locked for as long as we were willing to wait. Nothing was changed."""


class LedgerUnusable(InterlockError):
    """The ledger cannot be opened safely: damaged, of a newer version, or on a network file system."""


class StorageError(InterlockError):
    """The file system refused; nothing was half-written.

    `away`: that may pass. The server of the ledger cannot be reached or takes no changes now, or its disk refuses; who
    has a result to keep tries again.
    """

    away = False

    def __init__(self, message: str, *, away: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        self.away = away


class CommitUnknown(InterlockError):
    """The disk failed at the end of a change, and whether it was made is not known yet. Look before you try again."""


class AnswerLost(Conflict):
    """The change was made when this request was sent first, and its answer is not known any more."""


class AgentError(InterlockError):
    """An agent program could not be started or spoken to."""


class CannotStart(AgentError):
    """A program is missing, not executable, not where it was said to be, or does not offer what it is asked for: tried
    again it would fail again."""


class NoCapacity(AgentError):
    """An agent cannot work now: a usage limit, an overload, an expired login, or a machine that is short of something.
    `retry_at` says until when, or null."""


class GitFailed(InterlockError):
    """Git is missing, took too long, or refused; `git` is what it said."""


class NotAvailable(InterlockError):
    """What this asks for cannot be had on this machine, or in a home that was opened this way."""


class LocalOnly(NotAvailable):
    """A verb that needs files or processes of the machine where the home is; the home is on another one."""


class ServerUnreachable(InterlockError):
    """The server of a home elsewhere does not answer; `url` is its address. Nothing was changed."""


class InternalError(InterlockError):
    """Something nobody foresaw: a defect of Interlock itself. With INTERLOCK_DEBUG set the command line shows where."""


def error_codes() -> dict[str, str]:
    """Every code with the first line of its class's description, for the reference and its test."""
    found: dict[str, str] = {}
    waiting: list[type[InterlockError]] = [InterlockError]
    while waiting:
        kind = waiting.pop(0)
        found[kind.code] = (kind.__doc__ or "").splitlines()[0]
        waiting.extend(kind.__subclasses__())
    return found


_SHORT = frozenset({errno.EAGAIN, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC})
_SAID_BY_GIT = tuple(os.strerror(number) for number in sorted(_SHORT))


def is_short(error: BaseException | None) -> bool:
    """Whether `error`, or what caused it, is this machine being short of something it may have again: space, memory,
    open files, processes. It says nothing about the work."""
    while error is not None:
        said = str(error.details.get("git") or "") if isinstance(error, GitFailed) else ""
        if (isinstance(error, OSError) and error.errno in _SHORT) or any(words in said for words in _SAID_BY_GIT):
            return True
        # Python has no number for these: it cannot begin a thread, or write into any directory for temporary files.
        words = str(error) if isinstance(error, (RuntimeError, FileNotFoundError)) else ""
        if isinstance(error, MemoryError) or "start new thread" in words or "usable temporary directory" in words:
            return True
        error = error.__cause__
    return False


def passes(error: BaseException) -> bool:
    """Whether the same may succeed later, with nothing changed: the ledger is away, or this machine short."""
    return (isinstance(error, StorageError) and error.away) or is_short(error)
