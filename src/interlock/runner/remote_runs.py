"""Remote runs, which a worker on another machine carries out: what the home's side does for them.

    offer ──> objects ──> (the worker's agent works in a clone) ──> deliver ──> report ──> verify ──> checked
      └── a beat from time to time: it holds the leases, and answers which runs were lost ──┘

The worker has no ledger, only these verbs. What it delivers goes to a branch of the run's own, so a worker that was cut
off, suspended or killed and comes back can overwrite nothing: the ledger names the branch that counts in the same
transaction that accepts the report, and refuses the report of a run that was superseded. Its branch is kept.

Its member's mail goes with the prompt. It is handed over as to any other reader: offered with the run, delivered when
the worker shows that it has that, and seen when the run ends well; else it is offered again.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from operator import itemgetter
from typing import Any
from uuid import uuid4

from interlock.clock import iso, seconds
from interlock.core import mailbox, workers
from interlock.core.tasks import answer, claim, review, verify
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import RUN_SESSION, Principal, UnitOfWork, Workspace, acknowledged
from interlock.errors import (
    Conflict,
    Forbidden,
    GitFailed,
    InvalidRequest,
    NotFound,
    RunLimit,
    StaleRun,
    WorktreeRefused,
)
from interlock.gitwork.delivery import listed_of
from interlock.gitwork.isolation import Isolation, look, trees
from interlock.gitwork.repository import HEADS, Repository
from interlock.gitwork.trees import Trees
from interlock.model.handover import INJECT_BYTES, INJECT_COUNT
from interlock.model.json import Json
from interlock.model.message import Message
from interlock.model.names import SYSTEM
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.model.worker import PIECE_BYTES, SAID_AT_ONCE, WorkerBeat, WorkerRecord, WorkOffer, WorkStep
from interlock.processes.ref import alive
from interlock.runner import artifacts, completion, workspace_allocation
from interlock.runner.executor import Result, failed
from interlock.runner.job import TOLD, earlier_in_chat, files_of_blockers
from interlock.runner.permissions import policy_of, rules_of
from interlock.runner.prompt import NOT_PROMPTED, prompt_for, review_prompt
from interlock.runner.run_processes import new_session
from interlock.runner.usage import COUNTED, UsageMeter, ask_to_continue, excess
from interlock.runner.verify import Evidence, failed_before, variables
from interlock.settings import Settings
from interlock.storage.ledger import Rows

WRITTEN = 15.0
"""Seconds after which a beat is written down at the latest; those between only look."""
BEATS_A_SECOND = 20
"""How many the workers of a team send together; the more there are, the longer each rests."""
UNASKING = ("shell", "command")
"""Agents that ask for no permission."""
MOST_BYTES = 4 * 1024**3
"""Of one delivery."""
BUNDLES = "interlock-bundles"
"""The directory in the repository's own: all servers that give out its tasks have that, whichever a piece comes to."""
KEPT = 86_400.0
"""Seconds for which a bundle of a run that has ended is kept."""


def sign_on(workspace: Workspace, caller: Principal, **about: Any) -> WorkerRecord:
    """Enter a worker of another machine; see `core.workers.begin`.

    Raises:
        InvalidRequest: the name or a label is none, or the team does not work in worktrees.
        Forbidden: the caller is a plain member.
    """
    if not look(workspace).on:
        raise InvalidRequest(
            f"{workspace.name} works in its own directory, which a worker elsewhere does not have. Give its plan "
            "`isolation: worktree`.",
            field="isolation",
        )
    with workspace.act(caller) as act:
        _must_lead(act)
        worker = workers.begin(act, **about)
        act.event("runner.started", process=worker.process, endless=True)
        return worker


def beat(
    workspace: Workspace, name: str, process: str, load: float | None, said: Mapping[str, str], free: bool,
    spent: Mapping[str, Mapping[str, float]],
) -> WorkerBeat:  # fmt: skip
    """Show that a worker lives, and that its runs do: `said` is what each, by the id of its session, has printed since,
    `spent` what it has told so far of what it used. One that is `free` is told whether there is work for it.

    Raises:
        WorkerNotFound: it is no worker of this team any more.
    """
    with workspace.look() as rows:
        now, settings = workspace.clock.now(), workspace.settings(rows)
        worker = workers.known(rows, name, process)
        runs = {run.session: run for run in rows.runs.open() if run.runner == process}
        work = free and bool(_able(rows, worker, settings, iso(now)))
        rest = sum(workers.lives(one, settings, iso(now)) for one in rows.team.workers().values()) / BEATS_A_SECOND
    held = [runs[session] for session in said if session in runs]
    ttl = float(settings.get("heartbeat_ttl"))
    if seconds(worker.beat_at) + min(ttl / 4, WRITTEN) <= now:
        with workspace.act(Principal(SYSTEM)) as act:
            worker = workers.beat(act, name, process, load)
        for run in held:
            try:
                with workspace.act(_caller(run)) as act:
                    claim.heartbeat(act, find(act.rows, run.task_id))
                    mailbox.arrived(act)
            except (Conflict, NotFound, Forbidden):
                del runs[run.session]
    for run in held:
        _log(workspace.log_path(run.task_id, run.number), said[run.session])
    over = [run.session for run in runs.values() if _is_over(workspace, run, spent.get(run.session, {}))]
    lease = seconds(worker.beat_at) + ttl - now
    return WorkerBeat(worker.status, [one for one in said if one not in runs], lease, min(rest, ttl / 4), work, over)


def _is_over(workspace: Workspace, run: Run, told: Mapping[str, float]) -> bool:
    """Write down what a run has used in its turn so far; whether that is more than it may."""
    if not any(told.get(name) for name in COUNTED):
        return False
    meter = UsageMeter.of(told)
    if meter.lacking(run):
        with workspace.act(Principal(SYSTEM)) as act:
            run = _of_session(act.rows, run.task_id, run.session)
            meter.write(act, run.task_id, run)
    with workspace.ledger.snapshot() as rows:
        task, now = find(rows, run.task_id), iso(workspace.clock.now())
        return task.state == "in-progress" and excess(rows, task, run, workspace.settings(rows), now) is not None


def sign_off(workspace: Workspace, name: str, process: str) -> None:
    """Note that a worker has ended; runs that it still has are found by their leases."""
    with workspace.act(Principal(SYSTEM)) as act:
        workers.end(act, name, process)
        act.event("runner.stopped", reason="ended", endless=True)


def offer(workspace: Workspace, name: str, process: str, session: str | None = None) -> WorkOffer | None:
    """Begin a run of the next task for one of the worker's members; None where there is none for it now. It is offered
    again to a worker that asks again with its `session`, since the answer was lost.

    Raises:
        WorkerNotFound: it is no worker of this team any more.
        WorktreeRefused, GitFailed: git does not allow it now; the task waits again.
        InvalidRequest: `session` is none of a run.
    """
    if session is not None and not re.fullmatch(f"{RUN_SESSION}[0-9a-f]{{32}}", session):
        raise InvalidRequest("That is not how sessions of runs are called.", field="session")
    how = look(workspace)
    found = trees(workspace, how)
    found.begin()  # What the team as a whole lacks here is held against no task.
    claimed = (session and _begun(workspace, process, session)) or _claim(workspace, name, process, session)
    if claimed is None:
        return None
    task, member, caller = claimed
    try:
        return _prepared(workspace, how, found, task, member, caller)
    except BaseException as error:
        ended = failed(error) if isinstance(error, Exception) else Result("cancelled", "", None, None, 0.0)
        result = replace(ended, detail=f"it could not be given to {name}: {error}", permanent=False)
        completion.give_up(workspace, task, caller, result)
        completion.end_session(workspace, caller)
        raise
    finally:
        _sweep(found.repository)


def _begun(workspace: Workspace, process: str, session: str) -> tuple[Task, Member, Principal] | None:
    """The run of that session, where the worker has one."""
    with workspace.ledger.snapshot() as rows:
        for run in rows.runs.open():
            task, member = rows.tasks.get(run.task_id), rows.team.member(run.member)
            if (run.session, run.runner) == (session, process) and task is not None and member is not None:
                return task, member, _caller(run)
    return None


def _claim(workspace: Workspace, name: str, process: str, session: str | None) -> tuple[Task, Member, Principal] | None:
    with workspace.ledger.snapshot() as rows:
        worker = workers.known(rows, name, process)
        able = _able(rows, worker, workspace.settings(rows), iso(workspace.clock.now()))
        # A session is of one run: where that has ended already, the next one gets a session of its own.
        over = {one.name for one in able if session and rows.sessions.get(one.name, session)}
    for member in able:
        own = new_session() if session is None or member.name in over else session
        taken, caller = None, Principal(member.name, own, face="runner", process=process)
        with suppress(RunLimit, _NothingForIt), workspace.act(caller) as act:
            if any(run.session == own for run in act.rows.runs.open()):
                raise _NothingForIt  # It was asked for twice at once.
            limit = worker.parallel or int(act.settings.get("parallel"))
            # What waits for a verdict comes first: the work itself is done already.
            taken = review.claim_review(act, runner=process, parallel=limit) or claim.claim_next(
                act, shell=member.agent == "shell", runner=process, parallel=limit, labels=worker.labels
            )
            if taken is None or taken.type == "WORKFLOW":
                raise _NothingForIt
            caller.run = taken.run
            run = claim.heartbeat(act, taken)
            if member.agent != "shell":
                act.rows.runs.update(run, unmetered=1)  # until its account is closed
        if taken is not None and caller.run is not None:
            return taken, member, caller
    return None


def _able(rows: Rows, worker: WorkerRecord, settings: Settings, now: str) -> list[Member]:
    """The members for whom the worker could begin a task now, in the order in which those tasks are to be begun."""
    able, ageing = list[tuple[tuple[float, int], Member]](), float(settings.get("ageing"))
    in_review = rows.tasks.select(states=["review"])
    for member in rows.team.members() if worker.status == "active" else ():
        if member.role != "member" or not member.agent:
            continue
        if worker.members is not None and member.name not in worker.members:
            continue
        reviews = review.waiting_for(rows, member.name, in_review)
        if reviews := [one for one in reviews if one.not_before is None or one.not_before <= now]:
            turn = -math.inf, reviews[0].n
        else:
            shell = member.agent == "shell"
            task = rows.tasks.next_ready(member.name, shell=shell, now=now, labels=worker.labels, ageing=ageing)
            # A workflow asks and answers all the time: it is carried out beside the ledger.
            if task is None or task.type == "WORKFLOW":
                continue
            turn = claim.turn(task, ageing)
        if claim.may_be_given_work(rows, member.name, settings):
            able.append((turn, member))
    return [member for _, member in sorted(able, key=itemgetter(0))]


class _NothingForIt(Exception):
    """It was taken at the same moment; the transaction, with the session it began, is rolled back."""


def _prepared(
    workspace: Workspace, how: Isolation, found: Trees, task: Task, member: Member, caller: Principal
) -> WorkOffer:
    reviews = task.state == "review"
    base, onto = (_sealed(workspace, found, task), None) if reviews else _start(workspace, found, task)
    first = _before(found, task, base)
    mail = _mail(workspace, caller, member.agent)
    with workspace.ledger.snapshot() as rows:
        settings, names = workspace.settings(rows), variables(task, member)
        looks = (
            settings.get("check_before")
            and not reviews
            and verify.baseline(rows, settings, task, first["tree"]) is None
        )
        asked = [one for one in rows.questions.of_task(task.id) if one.state == "answered" and one.kind in TOLD]
        before, files = earlier_in_chat(rows, task), files_of_blockers(workspace, rows, task)
        rules = None if member.agent in UNASKING else rules_of(member, settings, elsewhere=True)
    branch = f"interlock-work/{workspace.name}/{task.id}.{task.run}"
    return WorkOffer(
        team=workspace.name, team_id=how.identity, task_id=task.id, number=task.run, subject=task.subject,
        member=member.name, session=str(caller.session), agent=str(member.agent), command=member.command,
        model=member.model, permissions=policy_of(member, settings), kind=task.type,
        prompt=(
            review_prompt(task, mail, elsewhere=True) if reviews
            else prompt_for(task, mail, asked, before=before, rules=rules, files=files, elsewhere=branch)
        ),
        run=None if reviews else task.command, verify=None if reviews else task.verify, setup=how.setup,
        env=list(names), base=base, onto=onto, branch=branch, prefix=found.repository.prefix, review=reviews,
        lease=float(settings.get("heartbeat_ttl")),
        time_limit=float(settings.get("task_timeout") if task.timeout is None else task.timeout),
        setup_timeout=how.setup_timeout, verify_timeout=how.verify_timeout, git_timeout=how.git_timeout,
        stop_grace=how.stop_grace, output_bytes=how.output_bytes,
        before=str(first["base"]) if looks and task.verify is not None else None,
        commands=str(settings.get("allowed_commands")), repeated_calls=int(settings.get("repeated_calls")),
        when_repeating=str(settings.get("when_repeating")),
    )  # fmt: skip


def _mail(workspace: Workspace, caller: Principal, agent: str | None) -> list[Message]:
    """What the next prompt of a run tells of its member's mail. Each prompt goes to a new program, which knows nothing
    of an earlier one; and the answer with it may have been lost. So what was offered to the run before is, again."""
    if agent == "shell":
        return []
    with workspace.act(caller) as act:
        offered = mailbox.offer(act, str(act.process), alive, count=INJECT_COUNT, size=INJECT_BYTES, earlier="again")
    return [message for message in offered if message.type not in NOT_PROMPTED]


def _before(found: Trees, task: Task, base: str) -> dict[str, object]:
    """The commit that the work began from, with its tree: a run that goes on from what an earlier one did has begun
    where that did."""
    known = task.worktree or {}
    with suppress(GitFailed):  # Somebody has deleted that work.
        if known.get("head") and known.get("tree") and found.repository.git.contains(str(known["head"]), base):
            return {name: known[name] for name in ("base", "tree")}
    return found.start(base)


def _start(workspace: Workspace, found: Trees, task: Task) -> tuple[str, str | None]:
    """The commit that the run starts from, and one to merge into it. A worktree that the task has here is committed
    and, once everything in it is somewhere else, removed: its work goes on elsewhere."""
    known = task.worktree
    if known is None:
        return found.head(), None
    if found.have(known):
        sealed = workspace_allocation.seal(workspace, task, found)
        kept = artifacts.keep(workspace, found, task, sealed.head) if sealed is not None else None
        if sealed is None or kept is None or sealed.unmerged or kept.left:
            raise WorktreeRefused(f"The worktree of {task.id} holds what cannot be given to another machine.")
        with workspace.act(Principal(SYSTEM)) as act:
            current = find(act.rows, task.id)
            act.rows.tasks.update(current, worktree={**known, "head": sealed.head})
        found.remove(str(known["path"]))
    if task.command is not None and known.get("update"):  # A command resolves no conflict: it begins again.
        return found.head(), None
    git = found.repository.git
    head = git.commit_of(HEADS + str(known["branch"])) or str(known.get("head") or known["base"])
    return head, None if git.contains(found.head(), head) else found.head()


def _sealed(workspace: Workspace, found: Trees, task: Task) -> str:
    """The commit that a reviewer is to judge."""
    known = task.worktree
    if known is None:
        return found.head()
    sealed = workspace_allocation.seal(workspace, task, found)
    return sealed.head if sealed is not None else str(known.get("head") or known["branch"])


def objects(
    workspace: Workspace, task_id: str, session: str, commits: Sequence[str], have: Sequence[str], start: int
) -> bytes:
    """A piece, from byte `start`, of the history of `commits` as a git bundle, without what the worker has.

    Raises:
        StaleRun: there is no such run.
        GitFailed: git refused.
    """
    run = _run(workspace, task_id, session)
    _must_be_commits(*commits, *have)
    asked = hashlib.sha256(" ".join([*commits, "-", *have]).encode()).hexdigest()
    repository = trees(workspace, look(workspace)).repository
    path, git = os.path.join(_place(repository, run), f"{asked[:16]}.objects"), repository.git
    if not os.path.exists(path):
        known = [one for one in have[:100] if git.commit_of(one) is not None]
        own = uuid4().hex
        refs = [f"refs/interlock-offers/{run.id}/{own}/{number}" for number in range(len(commits))]
        try:
            for ref, commit in zip(refs, commits, strict=True):
                git("update-ref", ref, commit)
            git("bundle", "create", path + own, *refs, *(["--not", *known] if known else []))
            with suppress(FileExistsError):  # asked twice: all pieces are of one file
                os.link(path + own, path)
        finally:
            for ref in refs:
                git("update-ref", "-d", ref)
            with suppress(FileNotFoundError):
                os.unlink(path + own)
    with open(path, "rb") as file:
        file.seek(start)
        return file.read(PIECE_BYTES)


def deliver(workspace: Workspace, task_id: str, session: str, head: str, piece: bytes, start: int, last: bool) -> str:
    """Take in a piece of what a run has committed, and with the `last` one the commits, on the run's own branch,
    whether or not the run still counts; the branch.

    Raises:
        StaleRun: there never was such a run.
        InvalidRequest: the bundle does not hold that commit, or a piece is missing.
        GitFailed: git refused.
    """
    run = _run(workspace, task_id, session)
    _must_be_commits(head)
    repository = trees(workspace, look(workspace)).repository
    git, ref = repository.git, f"{HEADS}interlock-work/{workspace.name}/{run.id}"
    if git.commit_of(ref) == head:
        return ref.removeprefix(HEADS)  # An answer was lost.
    path = os.path.join(_place(repository, run), f"{head}.delivered")
    if piece:
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            if not 0 <= start <= min(file.seek(0, os.SEEK_END), MOST_BYTES - len(piece)):
                raise InvalidRequest(f"Byte {start} does not follow what is here of {head[:12]}.", field="start")
            file.seek(start)
            file.write(piece)
            file.truncate()
    if last:
        if os.path.exists(path):
            git("-c", "transfer.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", path, head)
        if git.commit_of(head) != head:
            raise InvalidRequest(f"What was delivered for {run.id} does not hold {head[:12]}.", field="head")
        git("update-ref", ref, head)
        with suppress(FileNotFoundError):
            os.unlink(path)
    return ref.removeprefix(HEADS)


def report(workspace: Workspace, task_id: str, session: str, base: str, result: Result, said: str = "") -> WorkStep:
    """Take in how a run ended, with what it delivered, and say what it is to do next.

    Raises:
        StaleRun, Forbidden: the run was superseded; nothing was changed.
        InvalidRequest: `base` is no commit.
    """
    _must_be_commits(base)
    run, found = _run(workspace, task_id, session), trees(workspace, look(workspace))
    caller, branch = _caller(run), f"interlock-work/{workspace.name}/{run.id}"
    head = found.repository.git.commit_of(HEADS + branch)
    with workspace.ledger.snapshot() as rows:
        task = find(rows, task_id)
    start, path = _before(found, task, base), found.path(task.id)
    known: Json = {"path": path, "directory": found.repository.within(path), "branch": branch, "head": head, **start}
    if head is not None:
        known["changes"] = listed_of(found, known)
    if result.spent is not None:
        with workspace.act(Principal(SYSTEM)) as act:
            run = _of_session(act.rows, task_id, session)
            UsageMeter.of(result.spent).write(act, task_id, run, closes=True)
    with workspace.act(caller) as act:
        task = find(act.rows, task_id)
        if _verifies(task, run):
            return WorkStep("verify", str(task.verify))  # It was reported, and the answer was lost.
        under = review.under_review(act.rows, task)
        reviews = under is not None and (under.number, under.member) == (run.number, run.member)
        before = task.worktree or {}
        if not reviews:
            claim.must_hold(act, task)
        for one in result.refused:
            act.event("permission.answered", task.id, answer="refuse", run=run.id, by="policy", **asdict(one))
        for told in result.stuck:
            act.event("run.stuck", task.id, run=run.id, action=told["action"], evidence=told["evidence"])
        if head is not None and not reviews:
            act.rows.tasks.update(task, worktree={**before, **known, "update": False})
        if result.status == "cancelled" and not reviews:
            _asks_beyond_limit(act, task, run, unmetered=False)  # Its turn was ended for that, most likely.
    _forget_earlier(found, before, task.worktree or {})
    _log(workspace.log_path(task.id, run.number), said)
    shutil.rmtree(_place(found.repository, run), ignore_errors=True)
    tree = found.repository.git("rev-parse", f"{head}^{{tree}}").text if head is not None else None
    proof = tree if task.command is not None and result.status == "ended" else None
    left = completion.settle(workspace, task, caller, result, verifier=str(run.runner), tree=proof)
    if left is not None and left.verifying is not None:
        return WorkStep("verify", str(left.verify))
    return _end(workspace, caller, seen=result.status == "ended")


def _end(workspace: Workspace, caller: Principal, *, seen: bool) -> WorkStep:
    """The run is over; `seen`: an agent has read its prompt, and ended its turn well."""
    if seen:
        with workspace.act(caller) as act:
            mailbox.arrived(act)
            acknowledged(act)
    completion.end_session(workspace, caller)
    return WorkStep("end")


def _asks_beyond_limit(act: UnitOfWork, task: Task, run: Run, *, unmetered: bool) -> bool:
    """Whether a limit is reached, so that a person is asked before the task goes on."""
    over = excess(act.rows, task, run, act.settings, act.at, unmetered=unmetered)
    if over is not None:
        ask_to_continue(act, task, over, held=False)
    return over is not None


def _forget_earlier(found: Trees, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Remove the branch of the run before this one, which went on from what that had delivered."""
    branch, head = before.get("branch"), before.get("head")
    with suppress(GitFailed):  # It stays then; the report counts.
        if branch and head and branch != now.get("branch") and found.repository.git.contains(str(head), now["head"]):
            found.forget(str(branch), str(head))


def checked(workspace: Workspace, task_id: str, session: str, evidence: Evidence, before: Evidence | None) -> WorkStep:
    """Take in how the check of a run ended, and how it ended on what was there `before` the work, where it was run on
    that, and say what it is to do next.

    Raises:
        StaleRun: the run was superseded; nothing was changed.
    """
    run = _run(workspace, task_id, session)
    caller = _caller(run)
    _log(workspace.log_path(task_id, run.number, "verify"), evidence.tail)
    with workspace.act(caller) as act:
        task = find(act.rows, task_id)
        if _verifies(task, run):
            if before is not None and verify.baseline(act.rows, act.settings, task) is None:
                verify.baselined(act, task, failed_before(before.as_dict()), before.tail)
            verify.verified(act, task, asdict(evidence), run=run.number, verifier=run.runner)
        elif task.run != run.number or task.state != "in-progress":  # else the answer was lost
            raise StaleRun(f"The check of {run.id} is not this worker's any more.", task_id=task_id)
        goes_on = task.state == "in-progress" and task.run == run.number
        if goes_on and _asks_beyond_limit(act, task, run, unmetered=bool(run.unmetered)):
            answer.park(act, task, "its program has ended")
            goes_on = False
    if goes_on:
        mail = _mail(workspace, caller, "shell" if task.command is not None else None)
        return WorkStep("again", prompt_for(task, mail, elsewhere=str((task.worktree or {}).get("branch"))))
    return _end(workspace, caller, seen=True)


def _verifies(task: Task, run: Run) -> bool:
    return task.run == run.number and (task.verifying or {}).get("process") == run.runner


def _caller(run: Run) -> Principal:
    return Principal(run.member, run.session, run.number, face="runner", process=run.runner)


def _run(workspace: Workspace, task_id: str, session: str) -> Run:
    with workspace.ledger.snapshot() as rows:
        return _of_session(rows, task_id, session)


def _of_session(rows: Rows, task_id: str, session: str) -> Run:
    run = rows.runs.of_session(task_id, session)
    if run is None or run.runner is None:
        raise StaleRun(f"No run of {task_id} has that session.", task_id=task_id)
    return run


def _must_be_commits(*names: str) -> None:
    for one in names:
        if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", one):
            raise InvalidRequest(f"{one[:80]!r} is no commit.", field="commit")


def _must_lead(act: UnitOfWork) -> None:
    if not act.leads:
        raise Forbidden("Only the lead, a person or a worker's token may do the work of a team.")


def _log(path: str, text: str) -> None:
    if not text:
        return
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="utf-8") as file:
            file.write(text[-SAID_AT_ONCE:])


def _place(repository: Repository, run: Run) -> str:
    """The directory for bundles of a run."""
    bundles = os.path.join(repository.common, BUNDLES)
    for place in (bundles, os.path.join(bundles, run.id)):  # `makedirs` would give the first to all.
        os.makedirs(place, mode=0o700, exist_ok=True)
    return place


def _sweep(repository: Repository) -> None:
    """Remove the bundles of runs that ended long ago."""
    with suppress(OSError), os.scandir(os.path.join(repository.common, BUNDLES)) as found:
        for one in found:
            if one.stat().st_mtime + KEPT < time.time():
                shutil.rmtree(one.path, ignore_errors=True)
