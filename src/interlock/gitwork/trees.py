"""The branches and worktrees of one team: made, committed, brought up to date, removed.

A worktree counts only once the ledger has it (`tasks.worktree`): what lies in its place before that was left by a
process that died, and is made again. All of it can be repeated after a crash.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from interlock.errors import GitFailed, WorktreeRefused
from interlock.gitwork import inventory
from interlock.gitwork.git import Git
from interlock.gitwork.repository import HEADS, NONE, Repository, source_of
from interlock.gitwork.staging import (
    LOCKS,
    RESOLVED,
    administration,
    by,
    linked,
    list_files,
    restore,
    stage,
    write_rules,
)
from interlock.lazy_dataclass import dataclass
from interlock.storage.files import locked_directory

DIRECTORY = "worktrees"
MERGING, REVIEWING, DELIVERING, BEFORE = "merge-", "review-", "deliver-", "before-"
"""How the names of worktrees begin that belong to a merge, to a review, to a process that merges for a person, or to a
check of what was there before the work."""
_MARKER = re.compile(rb"^(<{7} |>{7} )", re.MULTILINE)
IGNORED = ".ignored"
"""The file beside the directory of the worktrees that says what is never committed."""


@dataclass(frozen=True, slots=True)
class WorktreeCommit:
    """What a worktree holds now: its last commit; `unmerged` files still hold conflict markers, and nothing was
    committed."""

    head: str
    unmerged: tuple[str, ...] = ()


class Landings(Protocol):
    """What the ledger knows of the integration branch, and is told of it."""

    def commits(self) -> tuple[str | None, str | None]:
        """The commit at which the branch was left last, and the one that a merge is moving it to now."""

    def begins(self, commit: str, into: str | None) -> None:
        """The branch is about to be made at `commit`, or to follow the user's branch `into`, which has all of it."""

    def moved(self, here: str | None, landed: str, lines: Sequence[str], work_of: str | None) -> str | None:
        """Somebody else has moved the branch from `landed` to `here`, where the commits `lines` are new; it is about to
        be put back. `work_of`: the branch of a task that has these commits. Answers the reference by which they are
        kept; None where there are none."""


class Trees:
    """See the package's page. `identity` is the team's own id, `root` the directory for its worktrees; `landings` may
    be left out where there is no integration branch."""

    def __init__(
        self, repository: Repository, team: str, identity: str, root: str, landings: Landings | None = None
    ) -> None:
        self.repository = repository
        self.team = team
        self.root = root
        self.integration = f"interlock/{team}"
        self._marker = f"refs/interlock/{identity}"
        self._landings = landings
        self._git = repository.git

    def path(self, task_id: str, kind: str = "") -> str:
        """Where the worktree of a task lies; `kind`: the one of its merge or review."""
        return os.path.join(self.root, f"{kind}{task_id}")

    def head(self) -> str:
        """The commit of the integration branch, which is the one that was landed last. Where somebody else has moved or
        removed the branch, such as an agent that pushes or tidies up, it is put back: what was merged stays merged, and
        nothing else is. Commits that came with such a move are kept, and told.

        Raises:
            WorktreeRefused: there is none, it cannot be put back, or this is not the repository that it was in.
        """
        while True:
            here, (landed, fitting) = self._tip(), self.known()
            if here is not None and here in fitting:
                return here
            if landed is None:
                raise WorktreeRefused(
                    f"There is no integration branch {self.integration}. Running the team makes it from your HEAD; "
                    "if there was one, `git reflog` may still know it.",
                    branch=self.integration,
                )
            if self._tip() == here:  # It was nowhere else while the ledger was read.
                self._put_back(here, landed)

    def known(self) -> tuple[str | None, set[str | None]]:
        """The commit that was landed last, and where the branch may be: there, or at one that is being landed now. A
        ledger that is older than this knowledge leaves the first to the reference that stands beside the branch."""
        landed, landing = self._landings.commits() if self._landings is not None else (None, None)
        landed = landed or self._git.commit_of(self._marker)
        return landed, {landed, landing} - {None}

    def is_moved(self) -> str | None:
        """In words, how somebody else has moved the integration branch, or None; changes nothing."""
        here, (landed, fitting) = self._tip(), self.known()
        if landed is None or here in fitting or self._tip() != here:
            return None
        if self._git.commit_of(landed) is None:
            return f"the commit {landed[:12]}, where it was left, is not in {self.repository.top}"
        return f"it was left at {landed[:12]}, and is {'gone' if here is None else f'at {here[:12]}'} now"

    def lacking(self, commits: Sequence[str], *, inside: str | None = None) -> set[str]:
        """Those of `commits` that the integration branch, as it is now, does not have; or the commit `inside`."""
        if not commits:
            return set()
        here, asked = inside or self._tip(), "".join(f"{one}^{{commit}}\n" for one in commits)
        looked = self._git("cat-file", "--batch-check=%(objectname)", stdin=asked)
        there = [one for one, said in zip(commits, looked.text.split("\n"), strict=False) if said == one]
        if here is not None and there:
            beyond = self._git("rev-list", "--stdin", stdin="\n".join((*there, f"^{here}", ""))).text.split("\n")
            there = sorted(set(there).difference(beyond))
        return set(commits).difference(there if here is not None else ())

    def _not_ours(self, landed: str) -> WorktreeRefused:
        lacks = (
            f"{self.integration} was left at the commit {landed[:12]}, which is not in {self.repository.top}: this is "
            "another repository than the team's, or has lost objects."
            if self._git.commit_of(landed) is None
            else f"The repository in {self.repository.top} is not the one in which {self.team} has worked."
        )
        return WorktreeRefused(
            f"{lacks} Work where that is, here or on another machine, or bring it back to this place. Where this one "
            f"is to take its place: `interlock team adopt {self.team} --workdir {self.repository.top}`; or run the "
            "plan with --team NAME to begin as a new team.",
            branch=self.integration, commit=landed,
        )  # fmt: skip

    def _tip(self) -> str | None:
        return self._git.commit_of(HEADS + self.integration)

    def _put_back(self, here: str | None, landed: str) -> None:
        """Bring the branch from `here` back to what was landed, unless it has been moved meanwhile."""
        git = self._git
        if git.commit_of(landed) is None or git.commit_of(self._marker) is None:
            raise self._not_ours(landed)
        changes: list[tuple[str, str, str | None]] = [(HEADS + self.integration, landed, here or NONE)]
        if here is None or git.contains(here, landed):
            lines, work_of = [], None
        else:
            lines = git("log", "--oneline", "--no-decorate", "--max-count=20", f"{landed}..{here}").text.split("\n")
            work_of = self._work_with(here)
        self._must_be_free()
        kept = self._landings.moved(here, landed, lines, work_of) if self._landings is not None else None
        if kept is not None:
            changes.append((kept, str(here), None))
        self._move([*changes, (self._marker, landed, None)])

    def _work_with(self, commit: str) -> str | None:
        """A task's branch that has this commit, or will have, since it is checked out in that task's worktree."""
        below = f"{HEADS}interlock-work/{self.team}/"
        found = self._git("for-each-ref", f"--contains={commit}", "--count=1", "--format=%(refname:lstrip=2)", below)
        where = self.repository.checked_out().get(self.integration)
        if not found.text and where is not None and self._is_ours(where):
            return f"interlock-work/{self.team}/{os.path.basename(where)}"
        return found.text or None

    def begin(self) -> tuple[str, bool]:
        """Have the integration branch: made from the user's HEAD at first; later, where all of it is in the user's
        HEAD, moved on to that. Answers its commit, and whether that is news.

        Raises:
            WorktreeRefused: HEAD is detached, a branch is in the way, one of an older team holds work, or this is not
                the repository that the branch was in.
        """
        self._check_place()
        head, here, marker = self._git.commits_of("HEAD", HEADS + self.integration, self._marker)
        user, marked, (landed, fitting) = head or "", marker is not None, self.known()
        if landed is not None and not marked:
            if self._git.commit_of(self._marker) is None:
                raise self._not_ours(landed)
            return self.begin()  # Another runner has begun while this one looked.
        if landed is not None and here not in fitting and not self._is_in(here, landed, user):
            here = self.head()
        if here == user == landed:
            return user, False
        branch = self.repository.branch()
        follows = here is None or self._git.contains(here, user)
        if here is not None and landed is not None and (not follows or branch is None or self._release()):
            return here, False
        branch = self.repository.need_branch()
        if branch == self.integration:
            raise WorktreeRefused(
                f"{self.integration} is the team's own branch, and you have it checked out: `git switch` to yours.",
                branch=branch,
            )
        if not follows:
            raise WorktreeRefused(
                f"There is a branch {self.integration} already, of an older team, with work that is not in {branch}. "
                f"Merge it (`git merge {self.integration}`), remove it (`git branch -D {self.integration}`), or name "
                "this team otherwise.",
                branch=self.integration,
            )
        if not marked:  # Before the ledger has it: what it has is in a repository that was marked.
            self._git("update-ref", self._marker, user)
        if self._landings is not None:
            self._landings.begins(user, None if landed is None else branch)
        moved = self._move([(HEADS + self.integration, user, here or NONE), (self._marker, user, None)])
        return (user, True) if moved else self.begin()

    def _is_in(self, here: str | None, landed: str, user: str) -> bool:
        """Whether `user` has all that was landed, and all that is in the branch as somebody has left it, at `here`."""
        if self._git.commit_of(landed) is None:
            return False
        if here is None:
            return self._brings_nothing(landed, user)
        return self._git.contains(landed, user) and self._git.contains(here, user)

    def _brings_nothing(self, commit: str, user: str) -> bool:
        """Whether a merge of `commit` would leave `user` as it is: it has all of it, perhaps as a commit of its own."""
        if self._git.contains(commit, user):
            return True
        # An older git does not know the option: then nobody can tell.
        merged = self._git("merge-tree", "--write-tree", user, commit, ok=(0, 1, 128, 129))
        return merged.code == 0 and merged.text == self._git("rev-parse", f"{user}^{{tree}}").text

    def end(self) -> None:
        """Give up the integration branch: the team is gone. Where the user's `HEAD` has all of it, it goes, too."""
        self._git("update-ref", "-d", self._marker, ok=(0, 1, 128))
        here, user = self._tip(), self._git.commit_of("HEAD")
        if here and user and self._git.contains(here, user) and self._release() is None:
            self.forget(self.integration, here)

    def make(self, task_id: str, known: dict[str, object] | None) -> dict[str, object]:
        """A fresh worktree for a task: {path, directory, branch, base, tree}, the tree being that of `base`. `known`:
        the one it had, which is gone."""
        path = self.path(task_id)
        self.rules()
        self.remove(path)
        branch = str(known["branch"]) if known else self._free_branch(task_id)
        if known and self._git.commit_of(HEADS + branch) is not None:
            base = str(known["base"])
            self._add(path, branch)
        else:
            base = str(known.get("head") or self.head()) if known else self.head()
            self._add("-B", branch, path, base)
        return {"path": path, "directory": self.repository.within(path), "branch": branch, **self.start(base)}

    def have(self, known: Mapping[str, Any]) -> bool:
        """Whether that worktree is still there. Where its link to the repository or git's state of it were damaged,
        they are restored; what lies in it stays as it is.

        Raises:
            GitFailed: they cannot be.
        """
        git = self._git.at(str(known["path"]))
        if os.path.islink(git.directory) or not os.path.isdir(git.directory):
            return False  # Where a link leads is not ours.
        if not linked(git, self.repository):
            with locked_directory(git.directory):
                restore(git, self.repository, str(known["branch"]), str(known["base"]))
        return True

    def rules(self) -> str:
        """The file that says what is never committed, written once: what an agent excludes later hides nothing."""
        path = self.root + IGNORED
        if not os.path.exists(path):
            write_rules(self.repository, path)
        return path

    def detached(self, path: str, commit: str) -> str:
        """A worktree on no branch, at `commit`; the place of the team's working directory in it."""
        self.remove(path)
        self._add("--detach", path, commit)
        return self.repository.within(path)

    def copy(self, workdir: str, directory: str, paths: Sequence[str]) -> None:
        """Copy these files and directories of the user's working directory to the same place below `directory`; of a
        directory all but caches, links as they are.

        Raises:
            WorktreeRefused: one cannot be copied; see `repository.source_of`.
        """
        root = os.path.realpath(directory)
        for named in paths:
            whole = source_of(workdir, named)
            below = sorted(inventory.take(whole).files) if os.path.isdir(whole) else [""]
            for one in below:
                path, source = os.path.join(named, one) if one else named, os.path.join(whole, one) if one else whole
                target = os.path.join(root, path)
                try:
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    if os.path.commonpath([root, os.path.realpath(os.path.dirname(target))]) != root:
                        raise WorktreeRefused(f"copy: a link leads {path} out of the worktree.", path=path)
                    if os.path.islink(target):
                        os.unlink(target)
                    shutil.copy2(source, target, follow_symlinks=False)
                except OSError as error:
                    raise WorktreeRefused(f"copy: {path} could not be copied: {error.strerror}.", path=path) from error

    def seal(self, known: dict[str, object], message: str, *, by_command: bool = False) -> WorktreeCommit:
        """Commit what lies in the worktree of a task and is not committed; its branch then names what is there.
        `by_command`: a mere command made it.

        Its agent must have ended; of several that seal at once (for its review, for its merge) one does it. Files that
        still hold conflict markers are not committed.
        """
        with locked_directory(str(known["path"])):
            but = RESOLVED if by_command else frozenset[str]()
            return self._seal(self._git.at(str(known["path"])), HEADS + str(known["branch"]), message, but)

    def _seal(self, git: Git, branch: str, message: str, but: frozenset[str]) -> WorktreeCommit:
        if (known := administration(git, self.repository)) is not None:
            for name in LOCKS:  # Left by a git that was killed with its agent.
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(known, name))
        listing = list_files(git, by(self.rules()))
        unmerged = _still_marked(git, listing.conflicts)
        head, merging, tip = git.commits_of("HEAD", "MERGE_HEAD", branch)
        if unmerged:
            return WorktreeCommit(head or "", unmerged)
        stage(git, listing, but=but)
        if merging is not None or git("diff", "--cached", "--quiet", "--no-ext-diff", ok=(0, 1)).code == 1:
            git("commit", "--quiet", "--no-verify", "--message", message, variables=git.identity())
            head, tip = git.commits_of("HEAD", branch)
        if tip != head:  # The agent has left its branch, or its HEAD is detached.
            self._move([(branch, head or "", None)])
        return WorktreeCommit(head or "")

    def untouched(self, known: dict[str, object]) -> bool:
        """Whether the task has changed nothing since it began."""
        git = self._git.at(str(known["path"]))
        if git.commit_of("HEAD") != known["base"] or list_files(git, by(self.rules())).made:
            return False
        return git("status", "--porcelain", "-z", "--untracked-files=no").out == ""

    def start(self, base: str) -> dict[str, object]:
        """The commit that work starts from, with its tree."""
        return {"base": base, "tree": self._git("rev-parse", f"{base}^{{tree}}").text}

    def follow(self, known: dict[str, object]) -> dict[str, object]:
        """Put an untouched worktree on the integration branch as it is now; what it then starts from."""
        git, head = self._git.at(str(known["path"])), self.head()
        git("checkout", "--quiet", "-B", str(known["branch"]), head)
        return self.start(head)

    def update(self, known: dict[str, object]) -> list[str]:
        """Merge the integration branch into a task's branch, in its worktree; the files in conflict, which stay there
        with their markers for the author to resolve."""
        git, head = self._git.at(str(known["path"])), self.head()
        if git.commit_of("MERGE_HEAD") is None and not git.contains(head, "HEAD"):
            message = f"Merge what others have done into {known['branch']}"
            git("merge", "--no-ff", "--no-verify", "--message", message, head, ok=(0, 1), variables=git.identity())
        return git("diff", "--name-only", "--diff-filter=U", "-z", "--no-ext-diff").names

    def merge(self, path: str, commit: str, message: str) -> tuple[str | None, list[str]]:
        """Merge `commit` in the detached worktree at `path`: (the new commit, nothing), or (None, the conflicts)."""
        git = self._git.at(path)
        words = ("--no-ff", "--no-verify", "--message", message, commit)
        if git("merge", *words, ok=(0, 1), variables=git.identity()).code == 0:
            return git.commit_of("HEAD"), []
        conflicts = git("diff", "--name-only", "--diff-filter=U", "-z", "--no-ext-diff").names
        if not conflicts:
            raise GitFailed(f"git could not merge {commit[:12]} in {path}, and names no conflict.", path=path)
        return None, conflicts

    def amended(self, path: str) -> str | None:
        """Make what was changed since in the detached worktree at `path` a part of its last commit; that commit, or
        None where nothing was."""
        git = self._git.at(path)
        if git("diff", "--quiet", "HEAD", ok=(0, 1)).code == 0:
            return None
        git("commit", "--quiet", "--amend", "--all", "--no-edit", "--no-verify", variables=git.identity())
        return git.commit_of("HEAD")

    def parted(self, head: str, onto: str) -> str:
        """The last commit that both come from; "" where there is none."""
        return self._git("merge-base", head, onto, ok=(0, 1)).text

    def changed_alike(self, head: str, onto: str, parted: str) -> list[str]:
        """The files that both commits have changed since they `parted`, to the same: git takes two such changes for
        one, also where each was meant to come on top of the other."""
        if parted in ("", onto):
            return []

        def results(commit: str) -> set[tuple[str, str]]:
            said = self._git(
                "diff", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=M", "-z", parted, commit
            ).names
            return set(zip(said[0::2], said[1::2], strict=True))

        return sorted(name for _, name in results(head) & results(onto))

    def land(self, commit: str, onto: str) -> bool:
        """Move the integration branch from `onto` to `commit`; false where it is somewhere else by now.

        Raises:
            WorktreeRefused: it is checked out somewhere, whose files would no longer fit it.
        """
        self._must_be_free()
        return self._move([(HEADS + self.integration, commit, onto), (self._marker, commit, None)])

    def remove(self, path: str) -> None:
        """Remove a worktree of ours, whatever is in it; also what is left of one. Repeated it changes nothing.

        Raises:
            GitFailed: it cannot be removed.
        """
        listed = os.path.realpath(path) in self.repository.worktrees()
        if listed:
            self._git("worktree", "remove", "--force", "--force", path, ok=(0, 128, 255))
        if os.path.lexists(path):

            def make_writable(remove: Callable[[str], object], below: str, _: object) -> None:
                with suppress(OSError):  # Once more, where an agent has left a directory that is read-only.
                    os.chmod(os.path.dirname(below), stat.S_IRWXU)
                    remove(below)

            shutil.rmtree(path, onerror=make_writable)
            if os.path.lexists(path):
                raise GitFailed(f"{path} could not be removed: look at its permissions, then remove it.", path=path)
            if listed:
                self._git("worktree", "remove", "--force", "--force", path, ok=(0, 128, 255))

    def forget(self, branch: str, head: str) -> None:
        """Delete a branch that is at `head` and whose commits another branch has."""
        self._git("update-ref", "-d", HEADS + branch, head, ok=(0, 1, 128))

    def branches(self) -> set[str]:
        """The branches of the team's tasks."""
        below = f"{HEADS}interlock-work/{self.team}/"
        return set(self._git("for-each-ref", "--format=%(refname:lstrip=2)", below).text.split("\n"))

    def all(self) -> list[str]:
        """Every worktree of the repository below our root, also where its directory is gone."""
        return [path for path in self.repository.worktrees() if self._is_ours(path)]

    def _add(self, *words: str) -> None:
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        self._git("worktree", "add", "--quiet", "--force", *words)

    def _free_branch(self, task_id: str) -> str:
        """A name for the branch of a task that is taken by nothing, or by what is merged: of a try that was killed."""
        plain = f"interlock-work/{self.team}/{task_id}"
        for name in (plain, *(f"{plain}-{number}" for number in range(2, 1000))):
            held = self._git.commit_of(HEADS + name)
            if held is None or self._git.contains(held, self.head()):
                return name
        raise WorktreeRefused(f"All of {plain}-2 to -999 are taken: remove some (`git branch -D`).", branch=plain)

    def _must_be_free(self) -> None:
        where = self._release()
        if where is not None:
            raise WorktreeRefused(
                f"{self.integration} is checked out in {where}, and moving it would put that checkout out of step. "
                "`git switch` to another branch there.",
                path=where,
            )

    def _release(self) -> str | None:
        """Where the integration branch is checked out, so that it must stay as it is. A worktree of ours whose agent
        has switched to it only keeps the commit: what the agent does there goes on, and ends on the task's branch."""
        where = self.repository.checked_out().get(self.integration)
        if where is None or not self._is_ours(where):
            return where
        git = self._git.at(where)
        git("update-ref", "--no-deref", "HEAD", git.commit_of("HEAD") or "")
        return self._release()

    def _is_ours(self, path: str) -> bool:
        return os.path.dirname(os.path.realpath(path)) == os.path.realpath(self.root)

    def _move(self, changes: Sequence[tuple[str, str, str | None]]) -> bool:
        try:
            return self.repository.move(changes)
        except GitFailed as error:
            if "cannot create" in str(error):
                raise WorktreeRefused(
                    "A branch `interlock` or `interlock-work` of yours is in the way: git cannot have it and "
                    f"{self.integration} together. Rename it: `git branch -m interlock NAME`. ({error.details['git']})",
                    branch=self.integration,
                ) from error
            raise

    def _check_place(self) -> None:
        top = os.path.realpath(self.repository.top)
        root = os.path.realpath(self.root)
        if os.path.commonpath([top, root]) == top:
            if self._git("check-ignore", "--quiet", "--", root, ok=(0, 1, 128)).code == 0:
                return
            raise WorktreeRefused(
                f"Interlock's home lies in the repository {top}, so worktrees would show up in it as files of yours. "
                "Set INTERLOCK_HOME to a place outside, or add it to .gitignore.",
                path=root,
            )


def unresolved(git: Git) -> tuple[str, ...]:
    """The files of a worktree, from its top, that a merge has left in conflict and that still hold its markers."""
    return _still_marked(git, git("diff", "--name-only", "--diff-filter=U", "-z", "--no-ext-diff").names)


def _still_marked(git: Git, conflicts: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in conflicts if _marked(os.path.join(git.directory, name)))


def _marked(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return _MARKER.search(file.read()) is not None
    except OSError:
        return False
