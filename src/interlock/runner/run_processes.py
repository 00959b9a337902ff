"""The processes of runs: the tokens by which their programs are known, and ending what a run left behind.

Programs are found by the reference of their process and by the run token in their environment (see `processes.ref`), so
that no others are touched (decision 20). The token of a run is the second half of its session's id; for a verify it
is part of the name of the verifier.
"""

from __future__ import annotations

import os
from contextlib import suppress

from interlock import model
from interlock.core.unit_of_work import RUN_SESSION as SESSION
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InvalidRequest
from interlock.model.names import SYSTEM
from interlock.model.task import Task
from interlock.model.text import programs
from interlock.processes import groups, ref


def new_session() -> str:
    """An id for the session of a run that is to begin."""
    return SESSION + os.urandom(16).hex()


def session_token(session: str) -> str | None:
    """The run token of a session that a runner opened; None for one that only looks like it."""
    token = session.removeprefix(SESSION)
    return token if session.startswith(SESSION) and len(token) >= groups.TOKEN_CHARS else None


def verifier() -> str:
    """This process as the one that is going to run a verify, with a token for the verify's program."""
    return ref.current().with_token(os.urandom(16).hex()).as_text()


def end_programs(text: str, grace: float) -> bool:
    """End the process group written down as `text`, and what carries its token; True when nothing of it is left. Where
    `text` is this very process, its group is ours with all that is in it, and only what carries the token ends."""
    token = ref.token_of(text)
    with suppress(InvalidRequest):
        process = ref.ProcessRef.parse(text)
        if process != ref.current():
            return groups.end_group(process, grace=grace, token=token, whole=True)
    return token is None or groups.end_marked(token, grace, whole=True)


def end_run_programs(run: model.run.Run, grace: float) -> bool:
    """End everything that run started here; True when nothing of it is left."""
    if run.runner is not None and ref.alive(run.runner) is None:
        return True  # On another machine; it was taken over because that is gone.
    return end_programs(run.process or f"#{session_token(run.session) or ''}", grace)


def end_verify_program(task: Task, grace: float) -> bool:
    """End the program of a verify whose verifier is gone; True when nothing of it is left."""
    token = ref.token_of(str((task.verifying or {}).get("process") or ""))
    return token is None or groups.end_marked(token, grace)


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
