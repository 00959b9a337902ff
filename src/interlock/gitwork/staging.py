"""Committing what lies in a worktree, whatever was done to git's own state there.

An agent may have removed or overwritten `.git`, left its branch, spoiled the index or told git not to look: the link
and the state are restored, and the work is staged by rules that were written down before any agent began. So an entry
in `info/exclude`, which every worktree of a repository shares, hides no work.

The git tree of what lies in a directory now: by it, evidence says what was looked at.

Nothing is written into the repository: index and objects go to a temporary directory.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from threading import get_ident

from interlock.errors import GitFailed, WorktreeRefused
from interlock.gitwork.git import Git
from interlock.gitwork.inventory import CACHES, REPLACED
from interlock.gitwork.repository import HEADS, Repository, open_repository
from interlock.lazy_dataclass import dataclass
from interlock.plan.detecting import checkout_of

ALL_OF_IT = {"GIT_CONFIG_PARAMETERS": "'core.sparseCheckout=false'"}
"""As `-c` sets it. Otherwise git stages nothing beyond a sparse checkout, and takes what lies there for part of it."""
LOCKS = ("index.lock", "HEAD.lock")
LEAVINGS = (
    *(f"{name}/" for name in sorted(CACHES)),
    *("*.egg-info/", "*.py[co]", ".coverage", ".coverage.*", ".nyc_output/", ".DS_Store", "*.swp"),
    f"/{REPLACED}*",
)
"""What programs leave behind that nobody means to commit; a file of these that git knows already is committed."""
REPORTS = re.compile(r"(?:^|/)(?:coverage|htmlcov)/(?=(?:lcov\.info|coverage-final\.json|clover\.xml|status\.json)$)")
"""A file by which a directory is known for a report of what tests covered."""
RESOLVED = frozenset(
    "Cargo.lock package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb uv.lock poetry.lock "
    "pdm.lock Pipfile.lock Gemfile.lock composer.lock mix.lock flake.lock".split()
)
"""What package managers write wherever a project is built or tested. Where git does not track it, a mere command has
not been asked for it; one that was says `git add`."""


def write_rules(repository: Repository, path: str) -> None:
    """Write down what is never committed: what the user ignores everywhere and in this repository, and `LEAVINGS`."""
    excluded = _text(os.path.join(repository.common, "info", "exclude"))
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    # Tasks that begin at once write the same file, each from its own thread.
    written = f"{path}.{get_ident()}.{os.getpid()}.tmp"
    text = "\n".join([repository.ignored_everywhere(), excluded, *LEAVINGS, ""])
    with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(os.fsencode(text))
    os.replace(written, path)


def by(rules: str) -> tuple[str, ...]:
    """How git is told of rules that were written down, and of the .gitignore files."""
    return "--exclude-per-directory=.gitignore", f"--exclude-from={rules}"


@dataclass(frozen=True, slots=True)
class Listing:
    """What git sees below a directory: the entries of its index, each a letter as of `git ls-files -v`, a blank and the
    name, and the `made` files that it does not know."""

    entries: list[str]
    made: list[str]

    @property
    def conflicts(self) -> list[str]:
        """The files that a merge has left in conflict."""
        return list(dict.fromkeys(entry[2:] for entry in self.entries if entry[0] in "Mm"))


def list_files(git: Git, rules: Sequence[str], variables: Mapping[str, str] | None = None) -> Listing:
    """What lies below `git`'s directory, its top; of what git does not know, that which `rules` do not except, nor a
    repository inside of it: its files would be in no commit of ours. What lies in a report is none of it."""
    entries, made = list[str](), list[str]()
    everywhere = {**(variables or {}), **ALL_OF_IT}
    for entry in git("ls-files", "-v", "--cached", "--others", *rules, "-z", variables=everywhere).names:
        if entry[0] != "?":
            entries.append(entry)
        elif not entry.endswith("/"):
            made.append(entry[2:])
    reports = tuple(name[: said.end()] for name in made if (said := REPORTS.search(name)))
    return Listing(entries, [name for name in made if not name.startswith(reports)] if reports else made)


def stage(
    git: Git, listing: Listing, variables: Mapping[str, str] | None = None, *, but: Collection[str] = frozenset()
) -> None:
    """Stage all that lies below `git`'s directory, also where git was told not to look, and the files made there unless
    they are named as one of `but`."""
    there = [
        entry
        for entry in listing.entries
        if entry[0] in "Ss" and os.path.lexists(os.path.join(git.directory, entry[2:]))
    ]
    for option, chosen in (
        ("--no-assume-unchanged", [entry for entry in listing.entries if entry[0].islower()]),
        ("--no-skip-worktree", there),
    ):
        if chosen:
            names = "\0".join(entry[2:] for entry in chosen)
            git("update-index", option, "-z", "--stdin", stdin=names, variables=variables)
    everywhere = {**(variables or {}), **ALL_OF_IT}
    git("add", "--update", variables=everywhere)
    made = [name for name in listing.made if os.path.basename(name) not in but]
    if made:
        words = ("--literal-pathspecs", "add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul")
        git(*words, stdin="\0".join(made), variables=everywhere)


def difference(git: Git, rules: str, base: str, *words: str) -> str:
    """What lies in `git`'s directory, committed or not, against the commit `base`, as `git diff` says it."""
    with tempfile.TemporaryDirectory(prefix="interlock-") as place:
        index = os.path.join(place, "index")  # not the worktree's own, which its agent may be using
        shutil.copyfile(os.path.join(git.directory, git("rev-parse", "--git-path", "index").text), index)
        own = {"GIT_INDEX_FILE": index}
        stage(git, list_files(git, by(rules), own), own)
        return git("diff", "--no-ext-diff", *words, "--cached", base, variables=own).out


def take_back(git: Git, rules: str, branch: str, base: str) -> None:
    """Put `git`'s directory back to the commit `base`, on `branch`; what git ignores stays."""
    for name in list_files(git, by(rules)).made:
        os.unlink(os.path.join(git.directory, name))
    git("checkout", "--quiet", "--force", "-B", branch, base)


def linked(git: Git, repository: Repository) -> bool:
    """Whether `git`'s directory is the top of a worktree of this repository, with a commit and an index that can be
    read."""
    if not os.path.isfile(os.path.join(git.directory, ".git")):
        return False  # Git would look further up, and may find another repository.
    said = git("rev-parse", "--absolute-git-dir", "HEAD^{commit}", ok=(0, 128))
    if said.code or said.out.split("\n")[0] != administration(git, repository):
        return False
    return git("ls-files", "--", ".git", ok=(0, 128)).code == 0


def restore(git: Git, repository: Repository, branch: str, base: str) -> None:
    """Make the directory of `git` a worktree of this repository again, on what it had last; no file in it changes.
    What replaced its `.git` is kept beside it. `branch` and `base`: where nothing else is known.

    Raises:
        GitFailed: that is not possible.
    """
    top, known = git.directory, administration(git, repository)
    dot = os.path.join(top, ".git")
    if known is None:  # Pruned, by this agent or by any git that found the link broken.
        known = _made_again(git, repository)
    elif _text(dot).strip() != f"gitdir: {known}":
        _set_aside(dot)
        _write(dot, f"gitdir: {known}\n")
    _write(os.path.join(known, "commondir"), "../..\n")
    for name in LOCKS:
        if os.path.lexists(os.path.join(known, name)):
            os.unlink(os.path.join(known, name))
    if git.commit_of("HEAD") is None:
        last = _text(os.path.join(known, "logs", "HEAD")).rstrip("\n").rpartition("\n")[2].split(" ")
        tip = repository.git.commit_of(HEADS + branch) or next(
            (one for one in (*last[1:2], base) if repository.git.commit_of(one)), base
        )
        repository.git("update-ref", HEADS + branch, tip)
        _write(os.path.join(known, "HEAD"), f"ref: {HEADS}{branch}\n")
    index = os.path.join(known, "index")
    if not os.path.exists(index) or git("ls-files", "--", ".git", ok=(0, 128)).code:
        if os.path.lexists(index):
            os.unlink(index)
        git("read-tree", "HEAD")
    if not linked(git, repository):
        raise GitFailed(
            f"{top} could not be made a worktree of {repository.top} again; what lies there is kept.", path=top
        )


def administration(git: Git, repository: Repository) -> str | None:
    """Where the repository keeps what it knows of the worktree at `git`'s directory."""
    return repository.worktrees().get(os.path.realpath(git.directory))


def _made_again(git: Git, repository: Repository) -> str:
    beside = f"{git.directory}.link"
    repository.git("worktree", "add", "--quiet", "--force", "--force", "--no-checkout", "--detach", beside, "HEAD")
    dot = os.path.join(git.directory, ".git")
    _set_aside(dot)
    os.replace(os.path.join(beside, ".git"), dot)
    os.rmdir(beside)
    known = _text(dot).strip().removeprefix("gitdir: ")
    _write(os.path.join(known, "gitdir"), dot + "\n")
    os.unlink(os.path.join(known, "HEAD"))  # That commit means nothing here.
    for name in ("logs/HEAD", "index"):
        if os.path.lexists(os.path.join(known, name)):
            os.unlink(os.path.join(known, name))
    return known


def _set_aside(path: str) -> None:
    if os.path.lexists(path):
        target = os.path.join(os.path.dirname(path), REPLACED)
        numbered = (f"{target}.{number}" for number in range(2, 1000))
        os.rename(path, target if not os.path.lexists(target) else next(n for n in numbered if not os.path.lexists(n)))


def _write(path: str, text: str) -> None:
    with open(path, "wb") as file:
        file.write(os.fsencode(text))


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read())
    except OSError:
        return ""


PATIENCE = 20.0
"""Seconds for each call of git: what takes longer is not known."""


def tree_of(directory: str) -> str | None:
    """The tree that a commit of everything in `directory`'s repository would have now, what git ignores and what
    programs leave behind left out; None outside git, or where it cannot be told in good time."""
    if checkout_of(directory) is None:  # Asking git costs a process.
        return None
    try:
        repository = open_repository(directory, timeout=PATIENCE)
        git = repository.git.at(repository.top)
        index = os.path.join(repository.own, "index")
        with tempfile.TemporaryDirectory(prefix="interlock-tree-") as scratch:
            leavings = os.path.join(scratch, "leavings")
            _write(leavings, "\n".join([*LEAVINGS, ""]))
            own = {
                "GIT_INDEX_FILE": os.path.join(scratch, "index"),
                "GIT_OBJECT_DIRECTORY": os.path.join(scratch, "objects"),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(repository.common, "objects"),
            }
            os.mkdir(own["GIT_OBJECT_DIRECTORY"])
            if os.path.exists(index):
                shutil.copy2(index, own["GIT_INDEX_FILE"])  # Whatever it knows need not be read again.
            stage(git, list_files(git, ("--exclude-standard", f"--exclude-from={leavings}"), own), own)
            return git("write-tree", variables=own).text
    except (GitFailed, WorktreeRefused, OSError):
        return None
