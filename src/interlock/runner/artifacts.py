"""What a run made that is in no commit is kept with the run, and only then does its worktree go.

    runs/<task id>/worktree.json               what lay in the worktree when it was ready (`worktrees.inventory`)
    runs/<task id>/artifacts/<run>/<path>      what the run made or changed since, and no commit holds
    runs/<task id>/artifacts/<run>/changes-….patch  what a member that may only read has changed

Caches are listed, not kept. What is more than the setting `artifact_bytes` stays where it is, and its worktree with it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat

from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.errors import GitFailed
from interlock.gitwork.changes import shown, unpublished
from interlock.gitwork.inventory import Inventory, load, take, unsaved
from interlock.gitwork.staging import difference, take_back
from interlock.gitwork.trees import Trees
from interlock.lazy_dataclass import dataclass
from interlock.model.names import SYSTEM
from interlock.model.run import KEPT, Artifact
from interlock.model.task import Task

CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """What was found beside the commit: `artifacts`, and where the worktree must stay `left`, the reason; `size` is
    what all of it takes, in bytes."""

    artifacts: tuple[Artifact, ...] = ()
    left: str | None = None
    size: int = 0

    @property
    def files(self) -> tuple[Artifact, ...]:
        """Those that are kept."""
        return tuple(one for one in self.artifacts if one.kind in KEPT)


def remember(workspace: Workspace, task_id: str, path: str) -> None:
    """Write down what lies in a worktree that is ready for its task."""
    take(path).save(_baseline(workspace, task_id))


def keep(workspace: Workspace, found: Trees, task: Task, commit: str) -> KeptFiles:
    """Copy what lies in the worktree of `task`, was made or changed in it, and is not in `commit`.

    Raises:
        GitFailed: that was not possible; the worktree is as it was.
    """
    top = str((task.worktree or {})["path"])
    if os.path.islink(top):
        return KeptFiles((), "a link lies in its place")
    if not os.path.isdir(top):
        return KeptFiles()
    now, names = _outside(workspace, found, task, commit)
    before = load(_baseline(workspace, task.id), top)
    listed = [Artifact(task.id, task.run, shown(name), "cache") for name in sorted(now.caches - before.caches)]
    size = sum(now.files[name][1] for name in names)
    with workspace.ledger.snapshot() as rows:
        bound = int(workspace.settings(rows).get("artifact_bytes"))
        listed += [one for one in rows.runs.artifacts(task.id) if one.run == task.run and one.kind == "patch"]
    if now.unreadable:
        return KeptFiles(tuple(listed), f"{', '.join(map(shown, now.unreadable))} cannot be read", size)
    if size > bound:
        return KeptFiles(tuple(listed), f"{size} bytes outside git are more than artifact_bytes ({bound})", size)
    target = workspace.artifact_path(task.id, task.run)
    written = f"{target}.{os.getpid()}.tmp"
    shutil.rmtree(written, ignore_errors=True)
    try:
        for name in names:
            kind, digest = _copy(os.path.join(top, name), os.path.join(written, name), now.files[name])
            length = now.files[name][1] if digest is not None else None
            listed.append(Artifact(task.id, task.run, shown(name), kind, length, digest))
        for one in listed:
            if one.kind == "patch" and os.path.isdir(written):
                shutil.copy2(os.path.join(target, one.path), os.path.join(written, one.path))
        if os.path.isdir(written):
            shutil.rmtree(target, ignore_errors=True)
            os.rename(written, target)
            parent = os.open(os.path.dirname(target), os.O_RDONLY)
            try:
                os.fsync(parent)
            finally:
                os.close(parent)
    except OSError as error:  # No room, or another user's file: what cannot be kept stays where it is.
        return KeptFiles((), f"it could not be copied: {error.strerror or error}", size)
    finally:
        shutil.rmtree(written, ignore_errors=True)
    only_here = unpublished(found.repository.git.at(top), commit)
    left = f"no remote has the commit of a submodule: {', '.join(only_here)}" if only_here else None
    return KeptFiles(tuple(listed), left, size)


def write_down(act: UnitOfWork, task: Task, kept: KeptFiles) -> None:
    """Record what was kept, in the transaction that makes the task done or says why its worktree stays."""
    act.rows.runs.keep(task.id, task.run, kept.artifacts)
    known = {**(task.worktree or {}), "stays": kept.left, "size": kept.size}
    act.rows.tasks.update(task, worktree=known)
    if kept.artifacts or kept.left:
        act.event(
            "artifacts.kept", task.id, run=task.run_id, files=[one.path for one in kept.files][:20],
            count=len(kept.files), size=kept.size, left=kept.left,
        )  # fmt: skip


def dispose(workspace: Workspace, found: Trees, task: Task) -> str | None:
    """Remove the worktree of a task that is done, once everything in it is known to be somewhere else; the reason
    where it stays.

    Raises:
        GitFailed, OSError: it could not be removed, or what lies in it not be kept.
    """
    known = task.worktree or {}
    top = str(known["path"])
    if not os.path.lexists(top):
        found.remove(top)
        return None
    if not found.have(known):
        return "it is no worktree any more"
    commit = str(known["head"])
    _, names = _outside(workspace, found, task, commit)
    kept_at = workspace.artifact_path(task.id, task.run)
    if known.get("stays") or any(not _is_kept(os.path.join(top, one), os.path.join(kept_at, one)) for one in names):
        kept = keep(workspace, found, task, commit)
        with workspace.act(Principal(SYSTEM)) as act:
            write_down(act, find(act.rows, task.id), kept)
        if kept.left is not None:
            return kept.left
    found.remove(top)
    return None


def set_aside(workspace: Workspace, found: Trees, task: Task) -> str:
    """Take back what a member that may only read has changed in its worktree, once the patch of it is kept with the
    run; the commit that the worktree stands on then.

    Raises:
        GitFailed, OSError: that was not possible; nothing is lost.
    """
    known = task.worktree or {}
    run, base = int(known["reads"]["run"]), str(known["reads"]["commit"])
    git = found.repository.git.at(str(known["path"]))
    patch = difference(git, found.rules(), base, "--binary", "--full-index")
    if patch:
        data = os.fsencode(patch)
        digest = hashlib.sha256(data).hexdigest()
        path = workspace.artifact_path(task.id, run, f"changes-{digest[:8]}.patch")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        made = Artifact(task.id, run, os.path.basename(path), "patch", len(data), digest)
        with workspace.act(Principal(SYSTEM)) as act:
            others = [one for one in act.rows.runs.artifacts(task.id) if one.run == run and one.path != made.path]
            act.rows.runs.keep(task.id, run, [*others, made])
            act.event("changes.set_aside", task.id, run=f"{task.id}.{run}", member=task.owner, path=path)
            said = f"May only read: what it changed was undone and is kept in {path}"
            act.rows.tasks.add_log(task.id, act.at, act.name, said)
    take_back(git, found.rules(), str(known["branch"]), base)
    return base


def lay_out(workspace: Workspace, task: Task, kept: KeptFiles, top: str) -> None:
    """Put what was kept into another checkout, where it lay."""
    source = workspace.artifact_path(task.id, task.run)
    if kept.files and os.path.isdir(source):
        shutil.copytree(source, top, symlinks=True, dirs_exist_ok=True)


def _outside(workspace: Workspace, found: Trees, task: Task, commit: str) -> tuple[Inventory, list[str]]:
    top = str((task.worktree or {})["path"])
    now = take(top)
    names = unsaved(found.repository.git, load(_baseline(workspace, task.id), top), now, commit)
    return now, names


def _baseline(workspace: Workspace, task_id: str) -> str:
    return os.path.join(workspace.directory, "runs", task_id, "worktree.json")


def _is_kept(source: str, copy: str) -> bool:
    """Whether `copy` is what `source` was when it was kept."""
    here = os.lstat(source)
    if not _holds(here.st_mode):
        return True
    try:
        there = os.lstat(copy)
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(here.st_mode):
        return stat.S_ISLNK(there.st_mode) and os.readlink(source) == os.readlink(copy)
    return (here.st_size, here.st_mtime_ns) == (there.st_size, there.st_mtime_ns)


def _holds(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _copy(source: str, target: str, known: tuple[int, ...]) -> tuple[str, str | None]:
    """Copy one file or link, durably; its kind and its SHA-256, None for what holds nothing."""
    mode = known[0]
    if not _holds(mode):
        return "special", None
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    if stat.S_ISLNK(mode):
        leads = os.readlink(source)
        os.symlink(leads, target)
        return "link", hashlib.sha256(os.fsencode(leads)).hexdigest()
    digest = hashlib.sha256()
    if not mode & stat.S_IRUSR:
        os.chmod(source, stat.S_IMODE(mode) | stat.S_IRUSR)
    # A link or a pipe that was put in its place meanwhile is an error, and nothing is lost.
    with open(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        here = os.fstat(file.fileno())
        if not stat.S_ISREG(here.st_mode):
            raise GitFailed(f"{source} became something else while it was kept. Try again.", path=source)
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                copy.write(chunk)
            copy.flush()
            os.fsync(copy.fileno())
    os.chmod(target, stat.S_IMODE(mode) & 0o777 | stat.S_IRUSR | stat.S_IWUSR)
    os.utime(target, ns=(here.st_atime_ns, here.st_mtime_ns))
    return "file", digest.hexdigest()
