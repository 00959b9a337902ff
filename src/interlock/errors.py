"""Every refusal Interlock makes, as one tree. Each class has a stable `code` that callers may branch on.

    InterlockError
    ├── InvalidRequest               invalid_request          (usage: what was asked makes no sense as asked)
    │   ├── InvalidTeamName          invalid_team_name
    │   ├── InvalidMemberName        invalid_member_name
    │   ├── MessageTooLarge          message_too_large
    │   ├── RequestTooLarge          request_too_large
    │   ├── RequestTooSlow           request_too_slow
    │   ├── MethodNotAllowed         method_not_allowed
    │   ├── InvalidSkillPath         invalid_skill_path
    │   ├── PlanError                invalid_plan
    │   ├── WorktreeRefused          worktree_refused
    │   └── ConfigParseError         config_parse_error
    ├── NotFound
    │   ├── TeamNotFound             team_not_found
    │   ├── MemberNotFound           member_not_found
    │   ├── TaskNotFound             task_not_found
    │   ├── RunNotFound              run_not_found
    │   ├── QuestionNotFound         question_not_found
    │   ├── ProjectNotFound          project_not_found
    │   ├── GroupNotFound            group_not_found
    │   ├── RequestNotFound          request_not_found
    │   ├── TokenNotFound            token_not_found
    │   ├── WorkflowNotFound         workflow_not_found
    │   ├── QueueEntryNotFound       queue_entry_not_found
    │   ├── CheckpointNotFound       checkpoint_not_found
    │   ├── ServerNotFound           server_not_found
    │   ├── DirectoryNotFound        directory_not_found
    │   └── RecipientNotFound        recipient_not_found
    ├── Conflict
    │   ├── TeamExists               team_exists
    │   ├── MemberExists             member_exists
    │   ├── SessionInOtherProject    session_in_other_project
    │   ├── AmbiguousId              ambiguous_id
    │   ├── TaskAlreadyClaimed       task_already_claimed
    │   ├── UnmetDependencies        unmet_dependencies
    │   ├── DependencyCycle          dependency_cycle
    │   ├── InvalidTransition        invalid_transition
    │   ├── StaleRun                 stale_run
    │   ├── NotAwaitingResponse      not_awaiting_response
    │   ├── MessageRefused           message_refused          (its own code is the reason of the refusal)
    │   ├── MembersRunning           members_running
    │   ├── RunnerAlive              runner_alive
    │   └── ServerAlive              server_alive
    ├── LimitReached
    │   ├── TeamLimit                team_limit
    │   ├── MemberLimit              member_limit
    │   ├── TaskLimit                task_limit
    │   ├── RunLimit                 run_limit
    │   └── InboxFull                inbox_full
    ├── Unauthorized                 unauthorized
    ├── Forbidden                    forbidden
    ├── LedgerBusy                   ledger_busy              (try again: nothing was changed)
    ├── LedgerUnusable               ledger_unusable          (damaged, too new, or on a network file system)
    ├── StorageError                 storage_error            (the file system refused; nothing was half-written)
    ├── CommitUnknown                commit_unknown           (the disk failed; look before you try again)
    ├── AgentError                   agent_error              (an agent program could not be started or spoken to)
    │   ├── CannotStart              cannot_start             (nor could it be if it were tried again)
    │   └── NoCapacity               no_capacity              (it could, but its provider gives it nothing now)
    ├── GitFailed                    git_failed               (git refused, is missing, or took too long)
    ├── NotAvailable                 not_available            (this machine, or this way of opening it, lacks it)
    └── InternalError                internal_error           (a defect of Interlock itself: please report it)

On every face an error is `{"error": code, "message": sentence, ...details}`; the message says what to do next.
This module stays free of imports: the hook command pays for every one of them at each start.
"""

from __future__ import annotations

from typing import Any


class InterlockError(Exception):
    """Anything Interlock refuses or fails to do, with a code that stays the same between versions."""

    code = "error"
    exit_code = 1

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def as_dict(self) -> dict[str, Any]:
        """The shape every face shows: `{"error", "message", ...details}`."""
        return {"error": self.code, "message": self.message, **self.details}


class InvalidRequest(InterlockError):
    """What was asked cannot be understood or breaks a rule that needs no look at the ledger."""

    code = "invalid_request"


class InvalidSkillPath(InvalidRequest):
    """Something that begins like the invocation of a workflow and is none; `examples` shows how one is written."""

    code = "invalid_skill_path"


class InvalidTeamName(InvalidRequest):
    """A team name outside the contract's rule."""

    code = "invalid_team_name"


class InvalidMemberName(InvalidRequest):
    """A member name outside the contract's rule, or one that collides with another's inbox."""

    code = "invalid_member_name"


class MessageTooLarge(InvalidRequest):
    """Message content above the size limit."""

    code = "message_too_large"


class RequestTooLarge(InvalidRequest):
    """An HTTP request above a size limit; nothing of it was looked at."""

    code = "request_too_large"


class RequestTooSlow(InvalidRequest):
    """An HTTP request whose body took too long; nothing of it was looked at."""

    code = "request_too_slow"


class MethodNotAllowed(InvalidRequest):
    """An HTTP method that this address does not know; `allowed` lists those it does."""

    code = "method_not_allowed"


class PlanError(InvalidRequest):
    """A plan file that cannot be run as it stands; `errors` lists every fault with its line."""

    code = "invalid_plan"


class WorktreeRefused(InvalidRequest):
    """Worktrees cannot be used there, or git's own state forbids it now; the message says why, and what to do."""

    code = "worktree_refused"


class ConfigParseError(InvalidRequest):
    """A configuration file that cannot be read."""

    code = "config_parse_error"


class NotFound(InterlockError):
    """Something named in the request does not exist."""

    code = "not_found"


class TeamNotFound(NotFound):
    """No team of that name in this home, or none could be chosen."""

    code = "team_not_found"


class MemberNotFound(NotFound):
    """No member of that name in the team."""

    code = "member_not_found"


class TaskNotFound(NotFound):
    """No task with that id, suffix or plan key."""

    code = "task_not_found"


class RunNotFound(NotFound):
    """The task has no run with that number."""

    code = "run_not_found"


class QuestionNotFound(NotFound):
    """No question with that id."""

    code = "question_not_found"


class ProjectNotFound(NotFound):
    """No project with that id in this home."""

    code = "project_not_found"


class GroupNotFound(NotFound):
    """No task group with that id."""

    code = "group_not_found"


class RequestNotFound(NotFound):
    """No open shutdown request that the caller could answer."""

    code = "request_not_found"


class TokenNotFound(NotFound):
    """No token with that id."""

    code = "token_not_found"


class WorkflowNotFound(NotFound):
    """No run of a workflow with that id, or no workflow of that name."""

    code = "workflow_not_found"


class QueueEntryNotFound(NotFound):
    """That task does not wait in the queue of workflows."""

    code = "queue_entry_not_found"


class CheckpointNotFound(NotFound):
    """The run has no such checkpoint; `nearest` names the one that comes closest, where there is one."""

    code = "checkpoint_not_found"


class ServerNotFound(NotFound):
    """No `interlock up` serves this home."""

    code = "server_not_found"


class DirectoryNotFound(NotFound):
    """A working directory that is not there."""

    code = "directory_not_found"


class RecipientNotFound(NotFound):
    """A message addressed to nobody; `suggestion` holds the nearest name."""

    code = "recipient_not_found"


class Conflict(InterlockError):
    """The request is sound, but the present state does not allow it."""

    code = "conflict"


class TeamExists(Conflict):
    """A team of that name exists already."""

    code = "team_exists"


class MemberExists(Conflict):
    """A member of that name exists already."""

    code = "member_exists"


class SessionInOtherProject(Conflict):
    """A chat session belongs to one project, and this one to another; `project` names it."""

    code = "session_in_other_project"


class AmbiguousId(Conflict):
    """A shortened id that fits more than one thing; `candidates` lists them."""

    code = "ambiguous_id"


class TaskAlreadyClaimed(Conflict):
    """Somebody else, or another session of the same member, holds the task."""

    code = "task_already_claimed"


class UnmetDependencies(Conflict):
    """A strict claim of a task whose blockers are open; `blocked_by` lists them."""

    code = "unmet_dependencies"


class DependencyCycle(Conflict):
    """The edge would close a circle; `cycle` shows it."""

    code = "dependency_cycle"


class InvalidTransition(Conflict):
    """The task's state does not allow that verb; `state` holds it."""

    code = "invalid_transition"


class StaleRun(Conflict):
    """The act belongs to a run that has been superseded."""

    code = "stale_run"


class NotAwaitingResponse(Conflict):
    """A reply where no question is open."""

    code = "not_awaiting_response"


class MessageRefused(Conflict):
    """An AOF/1 message was refused; the error's own code is the reason, such as `unauthorized_agent` or `stale_run`."""

    code = "message_refused"

    def __init__(self, reason: str, message: str, **details: Any) -> None:
        super().__init__(message, **details)
        self.code = reason


class MembersRunning(Conflict):
    """The team still has members at work; they must be asked or stopped first."""

    code = "members_running"


class RunnerAlive(Conflict):
    """Another runner already drives this team."""

    code = "runner_alive"


class ServerAlive(Conflict):
    """Another `interlock up` serves this home; `url` is its address."""

    code = "server_alive"


class LimitReached(InterlockError):
    """A limit; `setting` names the setting that raises it."""

    code = "limit"


class TeamLimit(LimitReached):
    """Too many active teams in this home."""

    code = "team_limit"


class MemberLimit(LimitReached):
    """Too many members in the team."""

    code = "member_limit"


class TaskLimit(LimitReached):
    """Too many open tasks in the team."""

    code = "task_limit"


class RunLimit(LimitReached):
    """Too many runs of the team are open at once."""

    code = "run_limit"


class InboxFull(LimitReached):
    """The recipient has too many unread messages; nothing was dropped and nothing was sent."""

    code = "inbox_full"


class Unauthorized(InterlockError):
    """A request over HTTP without a token or cookie that counts."""

    code = "unauthorized"


class Forbidden(InterlockError):
    """The caller may not do that; the message says who may."""

    code = "forbidden"
    noted = False
    """Whether it is an event already."""


class LedgerBusy(InterlockError):
    """The ledger stayed locked for as long as we were willing to wait. Nothing was changed."""

    code = "ledger_busy"


class LedgerUnusable(InterlockError):
    """The ledger cannot be opened safely: damaged, of a newer version, or on a network file system."""

    code = "ledger_unusable"


class StorageError(InterlockError):
    """The file system refused; nothing was half-written."""

    code = "storage_error"


class CommitUnknown(InterlockError):
    """The disk failed at the end of a change, and whether it was made is not known yet. Look before you try again."""

    code = "commit_unknown"


class AgentError(InterlockError):
    """An agent program could not be started or spoken to."""

    code = "agent_error"


class CannotStart(AgentError):
    """A program is missing, not executable, or not where it was said to be: tried again it would fail again."""

    code = "cannot_start"


class NoCapacity(AgentError):
    """An agent cannot work now: a usage limit, an overload, an expired login. `retry_at` says until when, or null."""

    code = "no_capacity"


class GitFailed(InterlockError):
    """Git is missing, took too long, or refused; `git` is what it said."""

    code = "git_failed"


class NotAvailable(InterlockError):
    """What this asks for cannot be had on this machine, or in a home that was opened this way."""

    code = "not_available"


def error_codes() -> dict[str, str]:
    """Every code with the first line of its class's description, for the reference and its test."""
    found: dict[str, str] = {}
    waiting: list[type[InterlockError]] = [InterlockError]
    while waiting:
        kind = waiting.pop(0)
        found[kind.code] = (kind.__doc__ or "").splitlines()[0]
        waiting.extend(kind.__subclasses__())
    return found


class InternalError(InterlockError):
    """Something nobody foresaw: a defect of Interlock itself. With INTERLOCK_DEBUG set the command line shows where."""

    code = "internal_error"
