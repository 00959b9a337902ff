"""How processes and what they started stand in the ledger, and whether they still live.

`<host>|<boot>|<pid>|<start>#<token>`: the process, and the run token in the environment of every program it starts
under that name (see `processes`). The token is chosen before there is a program, so that no moment is left in which a
crash could lose sight of one: for a run it is the second half of its session's id, for a verify it stands in the name
of the verifier. Kept light, for the verbs that hooks call.

Ending what a run has left behind before its task is taken up: its programs, and those of its verify.

They are found by pid, start time and boot id, and by the run token in their environment, so that nobody else's is
touched (decision 20). What is taken up, and when, is for `findings` and `scheduler` to say.
"""

from __future__ import annotations

import os

from interlock.core.unit_of_work import RUN_SESSION as SESSION
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InvalidRequest
from interlock.model.names import SYSTEM
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.model.text import programs
from interlock.processes import groups, ref


def new_session() -> tuple[str, str]:
    """(session id, run token) for a run that is to begin."""
    token = os.urandom(16).hex()
    return f"{SESSION}{token}", token


def session_token(session: str) -> str | None:
    """The run token of a session that a runner opened; null for one that only somebody else calls so."""
    token = session.removeprefix(SESSION)
    return token if session.startswith(SESSION) and len(token) >= groups.TOKEN_CHARS else None


def verifier() -> str:
    """This process as the one that is going to run a verify, with a token for the verify's program."""
    return ref.current().with_token(os.urandom(16).hex()).as_text()


def end_programs(text: str, grace: float) -> bool:
    """End the process group written down as `text`, and what carries its token; true when nothing of it is left."""
    try:
        return groups.end_group(ref.ProcessRef.parse(text), grace=grace, token=ref.token_of(text), whole=True)
    except InvalidRequest:
        token = ref.token_of(text)
        return token is None or groups.end_marked(token, grace, whole=True)


def note_left(
    workspace: Workspace, process: str, task: str | None, known: set[int], *, member: str | None, run: str | None
) -> str:
    """Write down which daemons the program written down as `process` has left behind that the user keeps, but for those
    `known`; them in words."""
    found = groups.kept_daemons(ref.ProcessRef.parse(process))
    new = {pid: name for pid, name in found.items() if pid not in known}
    known.update(new)
    left = [{"pid": pid, "name": name} for pid, name in new.items()]
    if left:
        with workspace.act(Principal(SYSTEM)) as act:
            act.event("processes.left", task, run=run, member=member, processes=left)
    return programs(left)


def end_run_programs(run: Run, grace: float) -> bool:
    """End everything that run started here; true when nothing of it is left."""
    if run.runner is not None and ref.alive(run.runner) is None:
        return True  # On another machine; whoever takes its runs over has said that it is gone.
    return end_programs(run.process or f"#{session_token(run.session) or ''}", grace)


def end_verify_program(task: Task, grace: float) -> bool:
    """End the program of a verify whose verifier is gone; true when nothing of it is left."""
    token = ref.token_of(str((task.verifying or {}).get("process") or ""))
    return token is None or groups.end_marked(token, grace)
