"""Ending what a run has left behind before its task is taken up: its programs, and those of its verify.

They are found by pid, start time and boot id, and by the run token in their environment, so that nobody else's is
touched (decision 20). What is taken up, and when, is for `findings` and `scheduler` to say.
"""

from __future__ import annotations

from interlock import processes
from interlock.errors import InvalidRequest
from interlock.model.names import SYSTEM
from interlock.model.task import Run, Task
from interlock.runner.lifesigns import lives, session_token, token_of
from interlock.sessions import Caller
from interlock.words import programs
from interlock.workspace import Workspace


def end(text: str, grace: float) -> bool:
    """End the process group written down as `text`, and what carries its token; true when nothing of it is left."""
    try:
        return processes.end_group(
            processes.Identity.parse(text.partition("#")[0]), grace=grace, token=token_of(text), whole=True
        )
    except InvalidRequest:
        token = token_of(text)
        return token is None or processes.end_marked(token, grace, whole=True)


def note_left(
    workspace: Workspace, process: str, task: str | None, known: set[int], *, member: str | None, run: str | None
) -> str:
    """Write down which daemons the program written down as `process` has left behind that the user keeps, but for those
    `known`; them in words."""
    found = processes.kept(processes.Identity.parse(process.partition("#")[0]))
    new = {pid: name for pid, name in found.items() if pid not in known}
    known.update(new)
    left = [{"pid": pid, "name": name} for pid, name in new.items()]
    if left:
        with workspace.act(Caller(SYSTEM)) as act:
            act.event("processes.left", task, run=run, member=member, processes=left)
    return programs(left)


def end_run_programs(run: Run, grace: float) -> bool:
    """End everything that run started here; true when nothing of it is left."""
    if run.runner is not None and lives(run.runner) is None:
        return True  # On another machine; whoever takes its runs over has said that it is gone.
    return end(run.process or f"#{session_token(run.session) or ''}", grace)


def end_verify_program(task: Task, grace: float) -> bool:
    """End the program of a verify whose verifier is gone; true when nothing of it is left."""
    token = token_of(str((task.verifying or {}).get("process") or ""))
    return token is None or processes.end_marked(token, grace)
