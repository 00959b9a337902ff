"""What the ledger writes down about itself. An event is appended in the transaction that makes the change."""

from __future__ import annotations

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of

EVENT_TYPES: dict[str, str] = {
    "team.created": "A team was created; payload: name, lead.",
    "team.updated": "Settings, claim policy or working directory of the team changed; payload: the changed values.",
    "team.shutdown": "The team was shut down; its ledger stays readable.",
    "team.paused": "Runners start nothing new in the team until it resumes; payload: reason.",
    "team.resumed": "Runners start work again; payload: none.",
    "member.paused": "Runners start nothing new for a member; payload: name, status (paused or stopped), reason.",
    "member.resumed": "Runners start work for the member again; payload: name.",
    "member.spawned": "A member was registered; payload: name, session_key, agent.",
    "member.updated": "A member's agent, model or permissions changed; payload: name and the changed values.",
    "member.removed": "A member left the team; payload: name, reason.",
    "access.refused": "A process of a run tried something its member may not do; payload: member, team, by (as whom it "
    "tried), face, run, process, reason.",
    "session.began": "A session of a member acted for the first time; payload: member, session, redelivered.",
    "session.ended": "A session of a member ended; payload: member, session.",
    "session.lost": "The process of a session that holds tasks is gone; payload: member, session, process.",
    "group.created": "A chat session began; payload: group, project.",
    "task.created": "A task was created; payload: state, blocked_by.",
    "task.updated": "Fields of a task changed; payload: fields.",
    "task.transitioned": "A task changed state, one event per hop; payload: from, to, reason.",
    "task.claimed": "A run of a task began; payload: owner, run, session, forced.",
    "task.assigned": "A task was reserved for a member, or freed; payload: assignee.",
    "task.completed": "A run reported its task as complete; payload: outcome, run, summary, session.",
    "task.released": "An owner gave a task back; payload: run.",
    "task.reclaimed": "A task was taken from a run that is gone; payload: run, reason.",
    "task.recovered": "A scheduler recovered a task that nobody was working on any more; payload: action, run, reason, "
    "evidence.",
    "task.failed": "An attempt failed; payload: run, attempt, reason, retry_at.",
    "task.retried": "A person or the lead took a task out of deadletter.",
    "task.rejected": "A review asked for changes; payload: reason.",
    "task.approved": "A review approved; payload: by, session.",
    "task.blocked": "A task stopped for a reason that is not a dependency; payload: reason.",
    "task.unblocked": "That reason went away.",
    "task.cancelled": "A task was cancelled; payload: reason.",
    "task.deleted": "A task was deleted.",
    "task.logged": "A line was added to a task's Work Log; payload: text.",
    "task.warning": "Something about a task needs attention; payload: reason, task.",
    "dependency.added": "A task now depends on another; payload: on.",
    "dependency.removed": "A task no longer depends on another; payload: on.",
    "dependency.met": "A task that this one depends on is done; payload: on.",
    "run.heartbeat": "A run showed that it is alive; payload: run, expires_at.",
    "run.started": "The process of a run exists; payload: run, process.",
    "run.spent": "What a run used since the last report; payload: run, turns, input_tokens, output_tokens, cost_usd.",
    "run.stuck": "An agent made no progress for several turns, or repeated its tool calls; payload: run, action "
    "(reminded, ended or asked), evidence.",
    "run.reminded": "An agent ended its turn without a report, and was asked for one; payload: run, member.",
    "run.capacity": "A run's provider, or its machine, has no capacity left; payload: run, reason, retry_at, login.",
    "run.waiting": "A run's program is waiting for its provider; payload: run, reason, retry_at (or null).",
    "limit.reached": "A task, a member or the whole run reached its limit; payload: of, measure, limit, spent.",
    "session.prompted": "An agent without a task got its messages; payload: member, session, ids, stop, and what it "
    "spent.",
    "permission.asked": "An agent asked for a permission that only a person can give; payload: id, run, tool, title, "
    "paths.",
    "permission.answered": "An agent's permission request was answered; payload: answer, by (policy or who), face, "
    "run, tool, paths, and why or id.",
    "run.parked": "A run ended while its task waits for a person, whose answer begins a new run; payload: run, reason.",
    "run.reported": "A run's result was recorded; payload: run, outcome, agent, applied, and source: message, file, "
    "session_end, or worker (nobody else reported).",
    "run.refused": "A file of a run was refused; payload: run, path, reason, errors. It stays where it is.",
    "protocol.message.received": "An AOF/1 message arrived; payload: type, task_id, from_agent, to_agent, run.",
    "protocol.message.rejected": "A message that claimed to be AOF/1 was refused; payload: reason, type, task_id, "
    "errors.",
    "protocol.message.unknown": "An AOF/1 message of a type that nothing handles; payload: type, from_agent.",
    "protocol.message.warning": "An AOF/1 message was accepted with a warning; payload: reason, and details.",
    "protocol.message.failed": "The handler of an AOF/1 message failed, and nothing was changed; payload: type, error.",
    "delegation.requested": "A task was handed over; payload: parent_task_id, from_agent, to_agent, depth.",
    "delegation.accepted": "The other agent accepted it; payload: from_agent, parent_task_id.",
    "delegation.rejected": "A handoff was rejected; payload: reason, from_agent, parent_task_id.",
    "agent.idle_without_report": "An agent stopped with its task open and reported nothing; payload: run, member.",
    "review.started": "A member began a review that a runner assigned to it; payload: run, member.",
    "review.failed": "That review ended without a verdict; payload: run, reason, retry_at (null: a human is asked).",
    "verify.started": "Interlock started a task's verify command; payload: run, round, command.",
    "verify.before": "A check was run on the tree before the work; payload: tree, command, red (null: it did not "
    "finish), tail (the end of what it printed; with the task that it was run for).",
    "verify.finished": "A verify command ended; payload: run, round, passed, exit_code, seconds.",
    "setup.started": "A worktree of a task is being prepared with the team's setup; payload: run, command.",
    "worktree.made": "A task got a worktree of its own; payload: path, branch, base (the commit it starts from).",
    "integration.started": "A team's integration branch was made, or followed the user's; payload: branch, commit.",
    "integration.moved": "Somebody else moved that branch, and it is put back; payload: branch, commit (where it "
    "belongs), found (where it was; null: nowhere), kept (the reference that keeps what came with it, or null).",
    "merge.queued": "A task's branch waits to be merged into the integration branch; payload: branch, run.",
    "merge.started": "Interlock began to merge it and to verify the merged tree; payload: branch, process.",
    "merge.finished": "That ended; payload: outcome (merged, conflict, red, doubtful, failed, postponed), commit, "
    "files, reason.",
    "artifacts.kept": "What a run made that is in no commit is kept with it; payload: run, files (the first), count, "
    "size (bytes), left (null, or why its worktree is kept).",
    "processes.left": "Daemons named by `keep_processes` keep running after the run, or the check (run: null), that "
    "started them; payload: run, member, processes (pid, name).",
    "changes.set_aside": "A read-only member had changed files, which are reverted and kept with its run as a patch; "
    "payload: run, member, path.",
    "checkout.changed": "The user's checkout changed while this task's run was working; who changed it is not known; "
    "payload: path, changed (the first names), count, runs.",
    "worktree.changed": "A task's worktree changed while no run of it was working; payload as checkout.changed.",
    "work.merged": "A person merged work of the team into a branch of theirs; payload: into, commit, tasks.",
    "message.sent": "A message was stored for a recipient; payload: id, n, to, type.",
    "message.offered": "Messages are being handed to a session; payload: to, session, ids, again.",
    "message.delivered": "Messages were handed over; payload: to, session, ids.",
    "message.acknowledged": "A turn boundary or the reader confirmed that messages were seen; payload: to, session, "
    "ids.",
    "message.requeued": "Messages will be offered again; payload: to, ids, reason.",
    "question.asked": "A human was asked; payload: id, kind, text, held.",
    "question.answered": "A question was answered; payload: id, kind, answer, face.",
    "question.reminded": "A question has been open for a long time; payload: id, kind, asked_at.",
    "question.withdrawn": "A question is no longer open; payload: id, reason.",
    "shutdown.requested": "A member was asked to stop, or asked to; payload: request, subject, to.",
    "shutdown.answered": "One of those asked answered; payload: request, by, approve, reason.",
    "shutdown.granted": "Everyone who was asked agreed; payload: request.",
    "shutdown.rejected": "Someone who was asked refused; payload: request, reason.",
    "shutdown.expired": "Not everyone answered in time; payload: request, waiting_for.",
    "workflow.started": "A workflow run was requested; payload: workflow_id, skill, by.",
    "workflow.state": "A run took another of the nine states; payload: workflow_id, from, to, step.",
    "workflow.preflight": "The requirements of a run were checked; payload: workflow_id, overall_status, missing, "
    "checks.",
    "workflow.aligned": "PRD, architecture and stories were compared; payload: workflow_id, documents, "
    "alignment_status, issues, orphaned_requirements, unaddressed_decisions.",
    "workflow.context_loaded": "Earlier work was put into the agent's context; payload: workflow_id, characters, "
    "relevance.",
    "workflow.step_started": "A step began; payload: workflow_id, step, name, visit.",
    "workflow.step_completed": "A step was completed or skipped; payload: workflow_id, step, name, status, verdict.",
    "workflow.step_failed": "A step's validation failed; payload: workflow_id, step, reason, attempts.",
    "workflow.decided": "The engine decided something; payload: workflow_id, seq, kind, choice, why, by, confidence, "
    "basis (what it was decided from, to decide it again).",
    "workflow.subagent_unrouted": "Warning: no subagent is specialised in a kind of work; payload: workflow_id, label, "
    "kind, warning.",
    "workflow.subagent_ended": "A subagent finished its assignment; payload: workflow_id, label, role, model, "
    "agent_id, status, attempts.",
    "workflow.turn_failed": "An agent's turn failed; payload: workflow_id, step, reason.",
    "workflow.hook_failed": "A hook failed, could not be run, or is not valid; payload: workflow_id, step, event, "
    "command, reason, exit_code, stderr, critical.",
    "workflow.hook_truncated": "Warning: the output of a hook was cut; payload: workflow_id, step, event, command, "
    "message.",
    "workflow.timeout": "A time limit ended an agent's turn; payload: workflow_id, step, timeout_error.",
    "workflow.recovered": "A workflow recovered from a failure; payload: workflow_id, recovery_method, attempts_count, "
    "step.",
    "workflow.escalated": "Recovery failed, and a person was asked; payload: workflow_id, step, reason, tried, error "
    "(its code, where it has one).",
    "workflow.evidence_missing": "A step was said to be completed and has not left what it must; payload: workflow_id, "
    "step, missing (a sentence each), attempts.",
    "workflow.story": "A run was bound to the story that it implements; payload: workflow_id, story, path, why.",
    "workflow.iterated": "A step was fixed and validated again; payload: workflow_id, step, of (which loop), "
    "iteration, max_iterations, errors (those left), same_error_count.",
    "workflow.examined": "Finished work was reviewed by other agents than its author; payload: workflow_id, step, of, "
    "round, verdict, findings (how many), and what that examination adds.",
    "workflow.warning": "A warning, also sent to people before it takes effect; payload: workflow_id, what, text, "
    "step.",
    "workflow.triggered": "Party Mode or elicitation was triggered; payload: workflow_id, what, step, why, hash.",
    "workflow.party_round": "A round of Party Mode ended; payload: workflow_id, step, purpose, round_number, "
    "agents_responded, consensus_level (0 to 100).",
    "workflow.party_ended": "Party Mode ended; payload: workflow_id, step, purpose, exit_reason, rounds, "
    "recommendation, confidence (0 to 100), error.",
    "workflow.feedback": "A person gave feedback, explicit or implied, on a choice; payload: workflow_id, id, kind, "
    "source, text, step.",
    "workflow.answered": "A person answered a run; payload: workflow_id, purpose, answer, by.",
    "workflow.adjusted": "A person's instruction about caution took effect or was withdrawn; payload: workflow_id, "
    "in_force, said.",
    "workflow.rate_limited": "A menu waited before it was shown to a person; payload: workflow_id, reason: interval or "
    "pause, seconds, menus.",
    "workflow.said": "Someone set how careful or verbose workflows are; payload: workflow_id, session, said.",
    "workflow.override_blocked": "Warning: an attempt to switch off a safeguard was refused; payload: workflow_id, "
    "what, error, message.",
    "workflow.resumed": "A run resumed after an interruption; payload: workflow_id, from_step, text.",
    "workflow.ended": "A run ended; payload: workflow_id, outcome, error, and what it left.",
    "workflow.queued": "A workflow waits for its turn; payload: skill, priority, queued_by.",
    "workflow.dequeued": "A workflow left the queue; payload: reason: started, or cancelled, deleted.",
    "workflow.reprioritised": "An entry of the queue got another priority; payload: priority, before.",
    "workflow.queue_overflow": "Warning: the queue was full, so its oldest entry was removed and its task cancelled; "
    "payload: skill, queued_by, queued_at, limit.",
    "workflow.rolled_back": "A workflow went back to a checkpoint, or a rollback was undone; payload: workflow_id, "
    "step, checkpoint, files, archive, undo.",
    "workflow.status_changed": "A status file of a project changed; payload: path, changes [{key, before, after}].",
    "workflow.status_cycling": "Warning: a status goes to and fro; payload: path, key, statuses, count.",
    "workflow.state_rebuilt": "The file of a workflow's state was written again from the ledger; payload: workflow_id, "
    "reason.",
    "workflow.curated": "What a completed run taught was taken over into memory; payload: workflow_id, kept, linked "
    "(was known already), queued, left, kinds.",
    "memory.degraded": "Memory could not be reached, and the work went on without; payload: workflow_id, reason, "
    "operation (open, recall, read, remember, link, flush or curate).",
    "notice.failed": "People could not be notified; payload: via (command, webhook, slack, discord, ntfy, email "
    "or push), id, attempt, error, retry_at (null: given up).",
    "scheduler.poll": "A poll of the scheduler did something; payload: actions (how many of each type), executed.",
    "plan.started": "A plan was begun or continued; payload: path, new, updated, digest (of the whole plan).",
    "runner.started": "A runner drives the team; payload: process, endless (it waits for work: `interlock work`).",
    "worker.status": "A worker was paused, drained or told to work again; payload: worker, status.",
    "runner.stopped": "That runner ended; payload: reason, endless.",
    "mirror.conflict": "A file that someone edited was moved aside before it was rewritten; payload: path, kept.",
    "mirror.adopted": "An edited file was taken over into the ledger; payload: path, fields.",
    "ledger.repaired": "`interlock doctor --repair` fixed inconsistencies; payload: what.",
    "clock.set_back": "The clock was set back before the newest event, and everything that waits for a time is moved "
    "earlier by as much: once for the team, and once for each affected task; payload: seconds.",
    "ledger.restored": "The files showed events that the ledger does not have: an older state of it was restored; "
    "payload: head, the newest event then.",
    "ledger.pruned": "Old history was deleted; payload: before (a time), through (the last event that may be gone).",
    "ledger.migrated": "The ledger was migrated to a newer schema; payload: from, to.",
}
"""Every type with what it means and what its payload holds. `docs/reference/events.md` is made from this table."""


@dataclass(slots=True, frozen=True)
class Event:
    """One line of a team's history. `seq` has no gaps and grows in commit order."""

    seq: int
    type: str
    at: str
    actor: str
    task_id: str | None
    payload: Json

    def as_dict(self) -> Json:
        """The contract's shape."""
        return fields_of(self, ("seq", "type", "at", "actor", "task_id", "payload"))


@dataclass(slots=True, frozen=True)
class KeyedChange:
    """A change that was asked for with a key. `first` and `last` are the events that it wrote; what was answered is
    None until it is known."""

    id: str
    digest: str
    at: str
    first: int
    last: int
    status: int | None = None
    answer: str | None = None
