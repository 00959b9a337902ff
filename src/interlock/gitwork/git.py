"""The only door to git: bounded in time, without the user's hooks, never on the user's index, and acting for nobody.

Every call sets what matters to it: no hooks, no signing, no automatic clean-up, no prompts, messages in English. What
the environment says about repositories (`GIT_DIR`, `GIT_INDEX_FILE`, …, set where we run inside a hook) is dropped.
Optional locks are off, so that looking at the user's checkout does not even refresh its index.

Git starts programs that a repository's configuration names, such as filters, and an agent can name some there. So each
git carries a run token, whoever calls it: what it starts belongs to no person, as in any other run of ours. Where the
configuration does name some, a supervisor stands above the git, and a daemon that one of them leaves is ended.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest

from interlock.errors import GitFailed, is_short
from interlock.gitwork import configured
from interlock.lazy_dataclass import dataclass
from interlock.processes import room, supervised, table
from interlock.processes.ancestry import RUN_TOKEN

ALWAYS = (
    *("-c", f"core.hooksPath={os.devnull}", "-c", "commit.gpgSign=false", "-c", "tag.gpgSign=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false"),
    *("-c", "advice.detachedHead=false", "-c", "merge.conflictStyle=merge", "-c", "rerere.enabled=false"),
    *("-c", "merge.verifySignatures=false"),
    *("-c", "core.safecrlf=false", "-c", f"diff.orderFile={os.devnull}", "-c", "i18n.commitEncoding=UTF-8"),
    *("-c", "i18n.logOutputEncoding=UTF-8"),
    *("-c", "commit.cleanup=whitespace", "-c", "submodule.recurse=false", "-c", "color.ui=false"),
)
KEPT = frozenset(
    (
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH", "GIT_SSL_CAINFO"),
        *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
    )
)
NOBODY = {"NAME": "Interlock", "EMAIL": "interlock@localhost"}
"""Who commits where the user has not told git who they are."""
SAID = 2000
NOBODYS = os.urandom(16).hex()
"""The run token of this process's gits that nobody has to find again."""
HALF_MADE = re.compile(r"failed to read (\S*worktrees/[^/\s]+)/commondir")
"""What every git says while another one is still writing down a new worktree."""
COMING_OR_GOING = re.compile(
    r"bad object worktrees/|could not create (?:leading directories|directory) of '\S*worktrees/\S*': No such file"
)
"""What git says while another one writes down a worktree's HEAD, or removes a worktree, with the last one also the
directory of all."""
PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.0)
"""Seconds between looks at such a worktree, and before a git that was killed is run again."""
ABANDONED = 2.0
"""Seconds after which the git that began it may be dead; while one is alive that adds a worktree, it is not."""
READS = (
    *("cat-file", "check-ignore", "diff", "for-each-ref", "ls-files", "ls-tree"),
    *("merge-base", "rev-list", "rev-parse", "show", "status"),
)
"""What changes nothing as it is called here, so that it may run again where it took too long: a disk is slow once."""
FAILED_TO_WRITE = re.compile("writ|append|creat", re.IGNORECASE)
LOOKS = 3
"""How often it runs."""


@dataclass(frozen=True, slots=True)
class GitOutput:
    """How a call of git ended: `text` is what it printed without the last line break, `names` the same as names that
    end in a null character."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out.rstrip("\n")

    @property
    def names(self) -> list[str]:
        return [name for name in self.out.split("\0") if name]


def _some_worktree_is_being_made() -> bool:
    """Whether a git that adds a worktree is alive, wherever: on a busy machine one may not run for seconds."""
    making = {"worktree", "add"}
    return any(making <= set(table.words(row.pid)) and "git" in table.names(row.pid) for row in table.rows())


class Git:
    """Git, in one directory. `timeout` in seconds, for each call; by `token`, a run token, the successor of a process
    that was killed finds and ends the git that it left."""

    def __init__(self, directory: str, *, timeout: float, token: str | None = None) -> None:
        self.directory = directory
        self.timeout = timeout
        self._token = token

    def at(self, directory: str) -> Git:
        return Git(directory, timeout=self.timeout, token=self._token)

    def __call__(
        self,
        *words: str,
        ok: Sequence[int] = (0,),
        stdin: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> GitOutput:
        """Run `git *words`. `ok`: the exit codes that are answers.

        Raises:
            GitFailed: another exit code, no git, or too slow; what only reads is too slow three times.
        """
        late = 0
        for pause in (*PAUSES, None):
            try:
                answer = self._run(words, stdin, variables)
            except subprocess.TimeoutExpired as error:
                late += 1
                if late < LOOKS and pause is not None and words[0] in READS:
                    continue
                raise GitFailed(
                    f"`git {words[0]}` took longer than {self.timeout:g} seconds and was ended. Look at the disk, or "
                    "raise the setting git_timeout.",
                    setting="git_timeout",
                ) from error
            half_made = HALF_MADE.search(answer.err) if answer.code else None
            passing = half_made is not None or (answer.code != 0 and COMING_OR_GOING.search(answer.err) is not None)
            if pause is None or (not passing and answer.code >= 0):
                break
            if half_made is not None:
                # Another git is making that worktree now, which takes it milliseconds, or was killed over it: then none
                # can list any worktree until what it left is removed.
                known = os.path.join(self.directory, half_made[1])
                with suppress(OSError):  # It is whole by now, or gone.
                    empty = not os.path.getsize(os.path.join(known, "commondir"))
                    old = abs(time.time() - os.stat(known).st_mtime) > ABANDONED
                    if empty and old and not _some_worktree_is_being_made():
                        shutil.rmtree(known, ignore_errors=True)
            time.sleep(pause)  # A git that a signal ended, as where memory ran out, has said nothing: it runs again.
        if answer.code not in ok:
            said = (answer.err.strip() or answer.out.strip() or f"exit code {answer.code}")[-SAID:]
            said += self._full_disk(said)
            raise GitFailed(f"`git {' '.join(words[:2])}` failed in {self.directory}: {said}", git=said)
        return answer

    def _full_disk(self, said: str) -> str:
        """That a disk is full, where git kept it to itself: of a lock that cannot be written it says no more."""
        if FAILED_TO_WRITE.search(said) is None or room.FULL in said:
            return ""
        with suppress(GitFailed, OSError, subprocess.TimeoutExpired):
            own = self._run(("rev-parse", "--path-format=absolute", "--git-common-dir"), None, None).out.strip()
            if room.free(self.directory, own) < room.NO_ROOM:
                return f" ({room.FULL})"
        return ""

    def _run(self, words: Sequence[str], stdin: str | None, variables: Mapping[str, str] | None) -> GitOutput:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GIT_", "INTERLOCK_")) or name in KEPT
        }
        environment |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_EDITOR": "true"}
        environment |= variables or {}
        environment[RUN_TOKEN] = self._token or NOBODYS
        # Bytes, since a carriage return in the name of a file is part of it.
        given, argv = None if stdin is None else os.fsencode(stdin), ["git", *ALWAYS, *words]
        try:
            if configured.may_start(words[0], self.directory, self._asked):
                code, out, err = supervised.run(
                    argv, workdir=self.directory, environment=environment, stdin=given, timeout=self.timeout
                )
            else:
                code, out, err = self._alone(argv, environment, given)
        except FileNotFoundError as error:
            if not os.path.isdir(self.directory):
                raise GitFailed(f"{self.directory} does not exist (any more).", path=self.directory) from error
            raise GitFailed("Worktrees need git, and there is no program `git` on the PATH: install it.") from error
        except OSError as error:
            hint = "" if is_short(error) else " Check its permissions."
            raise GitFailed(f"git could not be started: {error.strerror}.{hint}") from error
        return GitOutput(code, os.fsdecode(out), os.fsdecode(err))

    def _asked(self, *words: str) -> str:
        return self(*words).out

    def _alone(
        self, argv: Sequence[str], environment: Mapping[str, str], stdin: bytes | None
    ) -> tuple[int, bytes, bytes]:
        process = subprocess.Popen(
            argv,
            cwd=self.directory,
            env=environment,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(stdin, timeout=self.timeout)
        except BaseException:
            # It leads a session of its own and was not waited for: its number still names that group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return process.returncode, out, err

    def commit_of(self, name: str) -> str | None:
        """The commit that `name` stands for; None where there is none."""
        found = self("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", ok=(0, 1, 128))
        return found.text if found.code == 0 else None

    def commits_of(self, *names: str) -> list[str | None]:
        """The commits that `names` stand for, each None where there is none."""
        asked = "".join(f"{name}^{{commit}}\n" for name in names)
        said = self("cat-file", "--batch-check=%(objectname)", stdin=asked, ok=(0, 128)).text.split("\n")
        return [one if one and " " not in one else None for _, one in zip_longest(names, said, fillvalue="")]

    def contains(self, commit: str, inside: str) -> bool:
        """Whether `inside` has `commit` in its history, or is it."""
        return self("merge-base", "--is-ancestor", commit, inside, ok=(0, 1)).code == 0

    def taken_in(self) -> str | None:
        """The commit of its team's integration branch that a task's branch has last taken in, or is about to merge:
        all changes since are the task's own. None where another branch is checked out."""
        parts = self("rev-parse", "--abbrev-ref", "HEAD", ok=(0, 128)).text.split("/")
        if parts[0] != "interlock-work" or len(parts) < 3:
            return None
        base = self("merge-base", "HEAD", f"refs/heads/interlock/{parts[1]}", ok=(0, 1, 128)).text
        return self.commit_of("MERGE_HEAD") or base or None

    def identity(self) -> dict[str, str]:
        """Variables that name the committer, where neither the user's configuration nor environment does."""
        said = self("config", "--null", "--get-regexp", r"^user\.(name|email)$", ok=(0, 1)).names
        known = {name: value for name, _, value in (entry.partition("\n") for entry in said)}
        return {
            f"GIT_{role}_{part}": fallback
            for part, fallback in NOBODY.items()
            for role in ("AUTHOR", "COMMITTER")
            if not known.get(f"user.{part.lower()}") and not os.environ.get(f"GIT_{role}_{part}")
        }
