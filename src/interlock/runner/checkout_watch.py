"""Noticing what changes outside the worktrees of those at work: in the user's checkout, and in idle worktrees.

A cheap look (git's status, references and configuration, stat data of what is dirty) before the first run, at intervals
and after the last one. What changed something cannot be told, only which runs were at work meanwhile.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread

from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import GitFailed, InterlockError
from interlock.gitwork.changes import shown
from interlock.gitwork.git import Git
from interlock.gitwork.isolation import Isolation, trees
from interlock.gitwork.repository import Repository
from interlock.model.names import SYSTEM

INTERVAL = 5.0
"""Seconds between two looks at least; a repository where one takes long is looked at less often."""
SHARE = 20
"""A look may take this part of the time."""
ENTRIES = 5000
"""Files whose stat data are compared; beyond, only their names are."""
NAMED = 20
RESTING = ("review", "blocked", "awaiting-response", "deadletter", "cancelled")
STASHES = 100
"""Entries of the user's stash that are looked after, the oldest first."""
STASH = "refs/stash "
LONGEST = 100
OURS = ("refs/heads/interlock/", "refs/heads/interlock-work/", "refs/interlock/")

Seen = dict[str, str]


class CheckoutWatch:
    """Looks at the places of one team, and writes down what changed while a run was at work. `isolation` says how the
    team has its worktrees now."""

    def __init__(self, workspace: Workspace, isolation: Callable[[], Isolation]) -> None:
        self._isolation = isolation
        self.on = True
        """Whether there was anything to watch when it looked last: the team works in worktrees."""
        self._workspace = workspace
        self._seen: dict[str, Seen] = {}
        self._runs: dict[str, str] = {}
        self._head: int | None = None
        self._told: set[tuple[str, str, str]] = set()

    async def run(self) -> None:
        """Look at intervals, until cancelled. Who calls it has looked already, before anybody was at work."""
        pause = INTERVAL
        while True:
            await anyio.sleep(pause)
            began = time.monotonic()
            await anyio.to_thread.run_sync(self.look)
            pause = max(INTERVAL, SHARE * (time.monotonic() - began))

    def look(self) -> None:
        """Look once. What cannot be looked at now is left for the next time."""
        workspace = self._workspace
        how = self._isolation()
        self.on = how.on
        if not how.on:
            return
        try:
            with workspace.ledger.snapshot() as rows:
                runs = {run.id: run.task_id for run in rows.runs.open()}
                resting = {  # path to task of the worktrees in which nobody is at work, and was not a moment ago
                    str((task.worktree or {})["path"]): task.id
                    for task in rows.tasks.worktrees()
                    if task.state in RESTING and task.id not in runs.values() and not task.under_way
                }
                head = rows.start.head
            found = trees(workspace, how)
            top = found.repository.top
            seen = {top: observe(found.repository, top, workspace.directory)}
            for path in resting:
                if os.path.exists(os.path.join(path, ".git")):
                    seen[path] = observe(found.repository, path, "")
            # Afterwards: what a run has changed that began while we looked is in what we saw.
            with workspace.ledger.snapshot() as rows:
                news = rows.events.since(self._head) if self._head is not None else []
                open_now = {run.id: run.task_id for run in rows.runs.open()}
            begun = {str(one.payload["run"]): str(one.task_id) for one in news if one.type == "task.claimed"}
            if any(one.type == "work.merged" for one in news):
                self._seen.pop(top, None)  # What a person merged by our own command is no news.
            changed = {path: differing(self._seen.get(path, now), now) for path, now in seen.items()}
            at_work = {**self._runs, **begun, **open_now}
            for path, task_id in resting.items():
                if task_id in begun.values() or task_id in open_now.values():
                    changed.pop(path, None)  # It was taken up meanwhile.
            if at_work:
                changed[top] = _with_stashes_kept(found.repository.git.at(top), self._seen.get(top, {}), changed[top])
                # Every worktree shows the same stash: it is told once.
                changed |= {path: [one for one in what if not one.startswith(STASH)] for path, what in changed.items()}
            self._seen, self._runs, self._head = seen, runs, head
            if at_work and any(changed.values()):
                self._write({path: what for path, what in changed.items() if what}, at_work, resting)
        except (InterlockError, OSError):
            return

    def _write(self, changed: dict[str, list[str]], runs: dict[str, str], resting: dict[str, str]) -> None:
        """Write down what is news to a run: a file that changes all the time, such as a log, is told once to each."""
        told, self._told = self._told, {one for one in self._told if one[0] in runs}
        events = list[tuple[bool, str, dict[str, Any]]]()
        for path, what in changed.items():
            at_rest = resting.get(path)
            for task_id in dict.fromkeys(runs.values()) if at_rest is None else (at_rest,):
                hearing = [run for run, of in runs.items() if at_rest is not None or of == task_id]
                news = [name for name in what if any((run, path, name) not in told for run in hearing)]
                if news:
                    named = [shown(name) for name in news[:NAMED]]
                    known = {"path": path, "changed": named, "count": len(news), "runs": sorted(runs)}
                    events.append((at_rest is None, task_id, known))
            self._told |= {(run, path, name) for run in runs for name in what}
        if not events:
            return
        with self._workspace.act(Principal(SYSTEM)) as act:
            for in_checkout, task_id, known in events:
                if in_checkout:
                    act.event("checkout.changed", task_id, **known)
                else:
                    act.event("worktree.changed", task_id, **known)


def observe(repository: Repository, checkout: str, but: str) -> Seen:
    """What can be told cheaply of a checkout, as words to compare; `but` is a directory that does not count."""
    git, common = repository.git.at(checkout), repository.common
    seen = {"HEAD": git("rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD", ok=(0, 128)).text}
    for line in git("for-each-ref", "--format=%(refname) %(objectname)").out.splitlines():
        name, _, commit = line.partition(" ")
        if not name.startswith(OURS):
            seen[name.removeprefix("refs/heads/")] = commit
    hooks = os.path.join(common, "hooks")
    names = (
        [f"hooks/{name}" for name in sorted(os.listdir(hooks)) if not name.endswith(".sample")]
        if os.path.isdir(hooks)
        else []
    )
    for line in _lines(os.path.join(common, "logs", "HEAD"), 1):
        seen[".git/logs/HEAD (its oldest entries)"] = line  # a new one changes nothing of it
    for line in _lines(os.path.join(common, "logs", "refs", "stash"), STASHES):
        about, _, message = line.partition("\t")
        seen[f"{STASH}{about.split()[1]}"] = message
    for name in ("config", "config.worktree", "info/attributes", "info/exclude", "hooks", *names[:ENTRIES]):
        seen[f".git/{name}"] = _stat(os.path.join(common, name))
    entries = git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignored").names
    for number, entry in enumerate(entries):
        path = os.path.join(git.directory, entry[3:])
        if not (but and (but + os.sep).startswith(path.rstrip(os.sep) + os.sep)):
            seen[entry[3:]] = f"{entry[:2]} {_stat(path) if number < ENTRIES else ''}"
    return seen


def _with_stashes_kept(git: Git, before: Seen, changed: list[str]) -> list[str]:
    """What changed, in words; what is gone from the user's stash is kept. Every worktree shows it to its `git stash`,
    and `pop` in one takes the user's changes for the task's."""
    told = []
    for name in changed:
        commit = name.removeprefix(STASH)
        if commit == name:
            told.append(name)
        elif name in before:
            kept = f"refs/interlock/stash/{commit[:16]}"
            what = f"gone from your stash: {before[name][:LONGEST]}"
            try:
                git("update-ref", kept, commit)
                told.append(f"{what} (kept; `git stash store {kept}` puts it back)")
            except GitFailed:
                told.append(f"{what} (its commit {commit} is gone, too)")
    return told


def _lines(path: str, most: int) -> list[str]:
    """The first lines of a log of references, which may be long; none where there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in itertools.islice(file, most) if line.count(" ") > 1]
    except OSError:
        return []


def differing(before: Seen, now: Seen) -> list[str]:
    """The names of what is not as it was."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _stat(path: str) -> str:
    try:
        said = os.lstat(path)
    except OSError:
        return ""
    return f"{said.st_mode} {said.st_size} {said.st_mtime_ns} {said.st_ino}"
