"""A task's `verify`, run by its runner, by a command at a terminal, or by a server.

All of them give the command the same surroundings: the team's working directory, what the task's own programs may see
of the environment, and nothing of Interlock's, since a check acts for nobody. It gets a run token of its own, never its
caller's: ending what a check left behind must not end the agent session whose work it checks. A check that failed is
not run again while nothing has changed.

Each check is also run on the tree before the work, once for every (tree, setup, command): red before and green after is
the strongest evidence there is; green before is said beside "verified".
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock import clock
from interlock.agents.session import Update, ignore
from interlock.core.tasks import finish
from interlock.core.tasks import verify as ledger
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, Workspace
from interlock.core.waiting import in_thread
from interlock.errors import (
    AgentError,
    GitFailed,
    InterlockError,
    InvalidRequest,
    StorageError,
    WorktreeRefused,
    is_short,
)
from interlock.gitwork.delivery import changed
from interlock.gitwork.isolation import Isolation, isolation_of, look, trees
from interlock.gitwork.staging import tree_of
from interlock.gitwork.trees import BEFORE, REVIEWING
from interlock.lazy_dataclass import dataclass
from interlock.model import evidence
from interlock.model.names import SYSTEM
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.model.text import plain
from interlock.plan.detecting import checkout_of, elsewhere
from interlock.processes import commands, room
from interlock.processes.ancestry import RUN_TOKEN
from interlock.processes.program import Program, ProgramEnd
from interlock.processes.ref import ProcessRef, token_of
from interlock.runner import check_files, run_processes
from interlock.runner.context import RunnerContext, setting
from interlock.runner.environment import allowed_environment, for_supervisor
from interlock.runner.run_processes import verifier
from interlock.storage.away import AWAY_SECONDS, goes_on

TAIL_CHARS = 4000
BASELINE_SECONDS = 60.0
"""How long a runner with nothing else to do waits for the checks before the work."""
REMEMBERED = 1000
"""How many checks before the work a runner remembers to have seen; the ledger has all."""
ENDED_WITH_US = 5.0
"""Seconds beyond the grace after which what ends a whole run must have ended this process, too."""
FILES_LOOKED_AT = 20_000
CACHES = frozenset({".git", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"})
INSTALLED = frozenset({"node_modules", ".venv"})


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verify command showed: the row of kind `verify` in a task's `evidence`.

    Attributes:
        exit_code: negative for a signal, None when the command could not be started.
        tail: the end of its output, about 4,000 characters, secrets blanked.
        at: when it began, ISO 8601 UTC.
        tree: the git tree that it was run on, None where that is not known.
        fingerprint: of what lay there after a failure.
        unchanged: nothing has changed since that failure, so it was not run again.
        changed_check: the files of the check itself that the work has changed, as its reviewer is told.
    """

    command: str
    exit_code: int | None
    passed: bool
    seconds: float
    tail: str
    at: str
    timed_out: bool
    tree: str | None = None
    fingerprint: str | None = None
    unchanged: bool = False
    changed_check: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


async def run_check(
    command: str,
    *,
    workdir: str,
    environment: Mapping[str, str],
    timeout: float,
    output_bytes: int,
    stop_grace: float,
    secrets: Sequence[str] = (),
    token: str | None = None,
    log: str | None = None,
    on_line: Callable[[str], None] = lambda line: None,
    on_start: Callable[[ProcessRef], None] = ignore,
    tree: str | None = None,
    top: str | None = None,
) -> Evidence:
    """Run `command` in `workdir` with exactly `environment`, for at most `timeout` seconds.

    Exit 0 within the time is a pass; anything else, also a program that is missing or a command that cannot be read,
    is not. Nothing of it is left running.

    Args:
        token: the run token by which another process could end it.
        on_line: hears the output as it comes.
        on_start: hears the process that was started.
        top: the user's own checkout, where `workdir` is in another one: a command that would look there is not run.
    """
    own = {name: value for name, value in environment.items() if name != RUN_TOKEN}
    if token is not None:
        own[RUN_TOKEN] = token
    at = clock.iso(time.time())
    if top is not None:
        find_astray = partial(elsewhere, command, workdir, top=top, search=own.get("PATH"))
        astray = await anyio.to_thread.run_sync(find_astray)
        if astray is not None:
            return Evidence(command, None, False, 0.0, f"It would not look at the work: {astray}", at, False, tree)
    try:
        program = partial(
            Program,
            commands.argv(command),
            workdir=workdir,
            environment=own,
            log=log,
            secrets=secrets,
            output_bytes=output_bytes,
            stop_grace=stop_grace,
        )
        ending = await _run_to_its_own_end(program, workdir, timeout, stop_grace + ENDED_WITH_US, on_line, on_start)
    except (AgentError, InvalidRequest, StorageError, OSError) as error:
        return Evidence(command, None, False, 0.0, str(error), at, False, tree)
    passed, timed_out = ending.stop == "end", ending.stop == "timeout"
    tail = plain(ending.output)[-TAIL_CHARS:]
    return Evidence(command, ending.exit_code, passed, round(ending.seconds, 3), tail, at, timed_out, tree)


async def _run_to_its_own_end(
    program: Callable[[], Program],
    workdir: str,
    timeout: float,
    pause: float,
    on_line: Callable[[str], None],
    on_start: Callable[[ProcessRef], None],
) -> ProgramEnd:
    """Run it; once more, after `pause` seconds, where the system would not start it now or somebody else has ended it.

    That says nothing about the work. Mostly a whole run is being ended then, and this process with it before the pause
    is over: whoever comes after finds a check without its process, instead of one that failed. A machine that is short
    of something, also where the program itself says so, is waited for as a ledger that is away is.
    """
    last, waits, since = False, False, anyio.current_time()
    while True:
        running, over = program(), anyio.current_time() - since > AWAY_SECONDS or not goes_on.get()()
        try:
            identity = await running.start()
            on_start(identity)
            ending = await running.wait(timeout, on_line)
            failed = ending.stop in ("failed", "killed")
            short = room.FULL if failed and room.lacked(ending.output, workdir) else ""
            if (over or not short) and (last or ending.stop == "end" or not ending.interrupted):
                return ending
        except (AgentError, StorageError, OSError) as error:
            short = str(error) if is_short(error) else ""
            if (over or not short) and (last or type(error) is not AgentError):
                raise
        finally:
            await running.close()
        if short and not waits:
            on_line(f"[interlock: it waits, since this machine is short of something: {short}]")
        last, waits = last or over or not short, bool(short)
        await anyio.sleep(pause)


def variables(task: Task, member: Member | None) -> tuple[str, ...]:
    """The names of the variables that programs of that member may see at that task, beyond the allow-list."""
    own = member.env or () if member is not None else ()
    return tuple(dict.fromkeys([*(task.env or ()), *own]))


async def examine(workspace: Workspace, task: Task, *, on_line: Callable[[str], None] = lambda line: None) -> Evidence:
    """Run the verify of `task`, which is in review with `verifying` naming this process. Only a setup that was run
    again is written down.

    Raises:
        InvalidRequest: a variable that the task or its owner names is Interlock's own.
    """
    state = task.verifying or {}
    setup = await renew_setup(workspace, task, token_of(str(state.get("process") or "")), on_line)
    if setup is not None:
        why = f"the setup of its worktree, `{setup.command}`, {evidence.ended(setup.as_dict())}:\n\n{setup.tail}"
        return replace(setup, command=str(task.verify), exit_code=None, tail=why)
    if task.worktree is not None and not os.path.isdir(str(task.worktree["directory"])):
        return await _with_changed_check(workspace, task, await _on_what_was_delivered(workspace, task, on_line))
    failed = state.get("failed") or {}

    def prepare() -> tuple[str, str | None, dict[str, Any]]:
        """Where it is run, what lay there if that is as after the last failure, and the rest for `run_check`."""
        with workspace.ledger.snapshot() as rows:
            settings, team, author = workspace.settings(rows), rows.team.get(), rows.team.member(str(task.owner))
        names = variables(task, author)
        own = str((task.worktree or {}).get("directory") or "")
        place = own if own and os.path.isdir(own) else team.workdir or os.getcwd()
        # Who works by hand may have put right what lies elsewhere.
        managed = author is not None and author.agent is not None
        same = managed and failed.get("fingerprint") and failed["command"] == task.verify
        environment, secrets = allowed_environment(os.environ, names=names, extra=for_supervisor(workspace, settings))
        return place, everything(place) if same else None, {
            "environment": environment,
            "secrets": secrets,
            "timeout": float(settings.get("verify_timeout")),
            "output_bytes": int(settings.get("output_bytes")),
            "stop_grace": float(settings.get("stop_grace")),
            "tree": tree_of(place),
            "top": checkout_of(team.workdir) if team.workdir is not None and task.worktree is not None else None,
        }  # fmt: skip

    started: list[str] = []
    workdir, files, surroundings = await in_thread(prepare)
    if files is not None and files == failed["fingerprint"]:
        known = {field.name: failed[field.name] for field in fields(Evidence) if field.name in failed}
        return Evidence(**{**known, "unchanged": True})
    found = await run_check(
        str(task.verify),
        workdir=workdir,
        token=token_of(str(state.get("process") or "")),
        log=workspace.log_path(task.id, task.run, "verify"),
        on_line=on_line,
        on_start=lambda identity: started.append(identity.as_text()),
        **surroundings,
    )
    for process in started:
        note = partial(run_processes.note_left, workspace, process, task.id, set(), member=None, run=None)
        await in_thread(note)
    if found.passed or found.exit_code is None:
        return await _with_changed_check(workspace, task, found)
    # What the check itself leaves behind is no change.
    return replace(found, fingerprint=await anyio.to_thread.run_sync(everything, workdir))


async def _on_what_was_delivered(workspace: Workspace, task: Task, hear: Callable[[str], None]) -> Evidence:
    """Run the verify of a task whose worktree is on another machine, or gone, on the last commit of it that was
    delivered: anywhere else it would be about another work."""
    token, known = token_of(str((task.verifying or {}).get("process") or "")), task.worktree or {}

    def unstarted(why: str) -> Evidence:
        return Evidence(str(task.verify), None, False, 0.0, why, clock.iso(time.time()), False)

    try:
        how = await anyio.to_thread.run_sync(look, workspace)
        found = await anyio.to_thread.run_sync(partial(trees, workspace, how, token=token))
        path = found.path(task.id, REVIEWING)
        try:
            commit = str(known.get("head") or known["branch"])
            directory = await anyio.to_thread.run_sync(found.detached, path, commit)
            await anyio.to_thread.run_sync(found.copy, how.workdir, directory, how.copy)
            setup = await set_up(workspace, how, task, directory, token, hear)
            if setup is not None and not setup.passed:
                end = evidence.ended(setup.as_dict())
                return unstarted(f"the setup of its worktree, `{setup.command}`, {end}:\n\n{setup.tail}")
            return await run_in_checkout(
                workspace, how, task, str(task.verify), directory=directory, token=token, kind="verify", hear=hear
            )
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(found.remove, path)
    except (GitFailed, WorktreeRefused) as error:
        return unstarted(f"What was delivered of it cannot be looked at: {error.message}")


async def _with_changed_check(workspace: Workspace, task: Task, found: Evidence) -> Evidence:
    """The same, with the files of its own check that the work has changed, where somebody is to review it."""
    if not found.passed or task.worktree is None or task.review in (None, "none"):
        return found
    return replace(found, changed_check=await anyio.to_thread.run_sync(_changed_check, workspace, task))


def _changed_check(workspace: Workspace, task: Task) -> tuple[str, ...]:
    """The files of its own check that the work in a worktree has changed; none where git does not say."""
    try:
        how = look(workspace)
        made = trees(workspace, how)
        changes = changed(made, task.worktree or {})
        return tuple(check_files.of(str(task.verify), changes, how.check_files, made.repository.prefix).paths)
    except (GitFailed, WorktreeRefused):
        return ()


async def recheck(
    workspace: Workspace, task: Task, run: Run, author_is_gone: Callable[[], bool], hear: Callable[[Update], None]
) -> bool:
    """Take the verify of `task` over from a process that is gone, and run it; the old one's programs end first. Whether
    it passed; false where another process was faster."""

    def begin() -> Task | None:
        grace = float(setting(workspace, "stop_grace"))
        run_processes.end_verify_program(task, grace)
        if author_is_gone():
            run_processes.end_run_programs(run, grace)
        return take_over(workspace, task, verifier())

    current = await anyio.to_thread.run_sync(begin)
    if current is None:
        return False
    hear(Update("notice", f"checking again: {current.verify}"))
    found = await examine(workspace, current, on_line=lambda line: hear(Update("text", plain(line))))
    await in_thread(partial(decide, workspace, current, found.as_dict(), author_is_gone), repeatable=True)
    return found.passed


def take_over(workspace: Workspace, task: Task, mark: str) -> Task | None:
    """Become, as `mark`, the process that runs the verify of `task`; None where another one was faster."""
    with workspace.act(Principal(SYSTEM)) as act:
        current = find(act.rows, task.id)
        if current.state != "review" or current.verifying != task.verifying:
            return None
        return ledger.take_up(act, current, mark)


def decide(workspace: Workspace, task: Task, evidence: dict[str, Any], author_is_gone: Callable[[], bool]) -> None:
    """Take in how the verify that was taken over as `task` has ended.

    Where nobody drives the author's program any more, a failed check gives the task back to the queue; an agent that
    lives, or a person, keeps it and gets the findings.
    """
    mark = str((task.verifying or {})["process"])
    with workspace.act(Principal(SYSTEM)) as act:
        decided = ledger.verified(act, find(act.rows, task.id), evidence, run=task.run, verifier=mark)
        if decided.run == task.run and decided.state == "in-progress" and author_is_gone():
            finish.fail(act, decided, "its check failed after its runner was gone", counts=False)


async def run_in_checkout(
    workspace: Workspace,
    how: Isolation,
    task: Task,
    command: str,
    *,
    directory: str,
    token: str | None,
    kind: str,
    hear: Callable[[str], None] = lambda line: None,
) -> Evidence:
    """Run a command that belongs to the task in one of its checkouts, with the surroundings of its verify. `kind` names
    its log; that of a setup ends in `setup`."""

    def surroundings() -> tuple[dict[str, str], tuple[str, ...]]:
        with workspace.ledger.snapshot() as rows:
            names = variables(task, rows.team.member(str(task.owner)))
            told = for_supervisor(workspace, workspace.settings(rows))
        return allowed_environment(os.environ, names=names, extra=told)

    environment, secrets = await in_thread(surroundings)
    setup = kind.endswith("setup")
    return await run_check(
        command,
        workdir=directory,
        environment=environment,
        timeout=how.setup_timeout if setup else how.verify_timeout,
        output_bytes=how.output_bytes,
        stop_grace=how.stop_grace,
        secrets=secrets,
        token=token,
        log=workspace.log_path(task.id, task.run, kind),
        on_line=hear,
        tree=None if setup else await anyio.to_thread.run_sync(tree_of, directory),
        top=None if setup else checkout_of(how.workdir),
    )


def _tell(workspace: Workspace, task: Task, setup: str) -> None:
    with workspace.act(Principal(SYSTEM)) as act:
        act.event("setup.started", task.id, run=task.run_id, command=setup)


async def set_up(
    workspace: Workspace, how: Isolation, task: Task, directory: str, token: str | None, hear: Callable[[str], None]
) -> Evidence | None:
    """Run the team's setup in a checkout of the task; None where it has none."""
    if how.setup is None:
        return None
    hear(f"preparing its worktree: {how.setup}")
    await in_thread(partial(_tell, workspace, task, how.setup))
    return await run_in_checkout(
        workspace, how, task, how.setup, directory=directory, token=token, kind="setup", hear=hear
    )


def setup_digest(how: Isolation) -> str:
    """By which a worktree knows whether the team's setup is still the one that was run in it."""
    return hashlib.sha256((how.setup or "").encode()).hexdigest()


async def renew_setup(
    workspace: Workspace, task: Task, token: str | None, hear: Callable[[str], None]
) -> Evidence | None:
    """Run the team's setup in the worktree of `task` if it is another one than was run there; how it failed, if so."""

    def look_there() -> tuple[Isolation, str] | None:
        with workspace.ledger.snapshot() as rows:
            current, how = rows.tasks.get(task.id), isolation_of(rows, workspace.settings(rows))
        known = (current.worktree if current is not None else None) or {}
        own, before = str(known.get("directory") or ""), known.get("setup")
        changed = how.on and before is not None and before != setup_digest(how) and os.path.isdir(own)
        return (how, own) if changed else None

    def write_down(how: Isolation) -> None:
        with workspace.act(Principal(SYSTEM)) as act:
            current = find(act.rows, task.id)
            known = {**(current.worktree or {}), "setup": setup_digest(how)}
            act.rows.tasks.update(current, worktree=known, updated_at=act.at)

    changed = await in_thread(look_there) if task.worktree is not None else None
    if changed is None:
        return None
    found = await set_up(workspace, changed[0], task, changed[1], token, hear)
    if found is not None and not found.passed:
        return found
    await in_thread(partial(write_down, changed[0]))
    return None


def failed_before(ended: Mapping[str, object]) -> bool | None:
    """Whether the check failed on the tree before the work; None where it could not start."""
    return None if evidence.ended(ended) == evidence.NOT_STARTED else not ended["passed"]


class BaselineChecks:
    """The checks of one team before the work, one at a time, beside everything else."""

    def __init__(self, context: RunnerContext) -> None:
        self._context = context
        self._workspace = context.workspace
        self._wanted: dict[tuple[str, str], Task] = {}
        self._seen: dict[tuple[str, str], None] = {}
        self._scope: anyio.CancelScope | None = None
        self._alone_since: float | None = None

    @property
    def ending(self) -> bool:
        """Whether the one under way was cancelled, and is being put away."""
        return self._scope is not None and self._scope.cancel_called

    def want(self, task: Task | None) -> None:
        """Plan the check of a task that has a worktree, if that was not done yet."""
        tree = str((task.worktree or {}).get("tree") or "") if task is not None else ""
        if task is None or not tree or task.verify is None or (tree, task.verify) in self._seen:
            return
        self._seen[tree, task.verify] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._wanted[tree, task.verify] = task

    def begin_next(self, group: TaskGroup, at_work: Iterable[Task], *, over: bool) -> None:
        """Begin the next one, if none is under way; end it where the run is `over`."""
        if over:
            self.cancel()
            return
        for task in at_work:
            self.want(task)
        if self._scope is None and self._wanted:
            task = self._wanted.pop(next(iter(self._wanted)))
            self._scope = anyio.CancelScope()
            group.start_soon(self._carry_out, task, self._scope)

    def outstanding(self) -> bool:
        """Whether there is something to wait for, for a runner that has nothing else to do."""
        if self._scope is None and not self._wanted:
            return False
        now = anyio.current_time()
        self._alone_since = now if self._alone_since is None else self._alone_since
        if now - self._alone_since < BASELINE_SECONDS:
            return True
        self.cancel()
        return False

    def cancel(self) -> None:
        """End the one that runs, and begin no other."""
        self._wanted.clear()
        if self._scope is not None:
            self._scope.cancel()

    async def _carry_out(self, task: Task, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await look_before(self._workspace, task)
        except InterlockError as error:
            self._context.notice(f"its check was not run on the tree before: {error.message}", task_id=task.id)
        finally:
            self._scope = self._alone_since = None
            self._context.wake()


async def look_before(workspace: Workspace, task: Task) -> None:
    """Run the check of a task that has a worktree on the tree before its work, if that is wanted and was not done yet.

    Raises:
        GitFailed, WorktreeRefused: there is no such tree any more.
    """
    if task.verify is None or not (task.worktree or {}).get("tree"):
        return

    def needed() -> Isolation | None:
        with workspace.ledger.snapshot() as rows:
            settings = workspace.settings(rows)
            wanted = settings.get("check_before") and ledger.baseline(rows, settings, task) is None
            return isolation_of(rows, settings) if wanted else None

    how = await in_thread(needed)
    if how is None:
        return
    token = token_of(verifier())
    found = await anyio.to_thread.run_sync(partial(trees, workspace, how, token=token))
    path = found.path(task.id, BEFORE)

    def place() -> str:
        directory = found.detached(path, str((task.worktree or {})["base"]))
        found.copy(how.workdir, directory, how.copy)
        return directory

    def write_down(ended: dict[str, object]) -> None:
        with workspace.act(Principal(SYSTEM)) as act:
            ledger.baselined(act, task, failed_before(ended), str(ended["tail"]))

    try:
        directory = await anyio.to_thread.run_sync(place)
        run = partial(run_in_checkout, workspace, how, task, directory=directory, token=token)
        ready = how.setup is None or (await run(how.setup, kind="before-setup")).passed
        if not ready:
            return  # Why may be over when the next runner asks.
        ended = (await run(str(task.verify), kind="before")).as_dict()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(found.remove, path)
    await in_thread(partial(write_down, ended))


def everything(directory: str) -> str | None:
    """`fingerprint`, also of what programs install for themselves; None where that is too much to look at."""
    return fingerprint(directory, CACHES, whole=True)


def fingerprint(directory: str, but: frozenset[str] = CACHES | INSTALLED, *, whole: bool = False) -> str | None:
    """A hash of names, sizes and times of what lies below `directory`, of so many files at most; None where there are
    more and it is to be `whole`."""
    found = hashlib.sha256()
    count = 0
    for where, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if name not in but)
        for name in sorted(files):
            count += 1
            if count > FILES_LOOKED_AT:
                return None if whole else found.hexdigest()[:16]
            try:
                about = os.lstat(os.path.join(where, name))
            except OSError:
                continue
            line = f"{os.path.relpath(where, directory)}/{name} {about.st_size} {about.st_mtime_ns}\n"
            found.update(line.encode("utf-8", "replace"))
    return found.hexdigest()[:16]
