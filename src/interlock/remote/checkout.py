"""Where a run works on a machine that has neither the user's repository nor the ledger: a clone of the team's, with a
worktree for each run. Commits come and go as git bundles.

Several workers may share a home, and so these directories: each holds the places of its runs locked while it lives.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
from dataclasses import asdict
from typing import BinaryIO

from interlock.gitwork.git import Git
from interlock.gitwork.repository import HEADS, Repository
from interlock.gitwork.trees import Trees
from interlock.model.worker import WorkOffer
from interlock.storage.files import locked_file

KEPT = "refs/interlock-bases/"
"""What was fetched, so that it need not be fetched again."""
OFFER = "offer.json"
LOCK = ".runs.lock"
"""Held while places are made, or looked for."""


class Checkout:
    """The place of one run below `root`, the directory of this machine's workers; held until it is removed.

    Raises:
        BlockingIOError: another living worker holds it.
    """

    def __init__(self, root: str, offer: WorkOffer) -> None:
        self.offer = offer
        self.place = place_of(root, offer)
        clone = os.path.join(root, "clones", offer.team_id)
        os.makedirs(clone, mode=0o700, exist_ok=True)
        git = Git(clone, timeout=offer.git_timeout)
        dot = os.path.join(clone, ".git")
        if not os.path.isdir(dot):
            git("init", "--quiet")
        self._git = git
        self._trees = Trees(
            Repository(git, clone, offer.prefix, dot, dot), offer.team, offer.team_id, os.path.join(self.place, "trees")
        )
        with locked_file(os.path.join(root, LOCK)):
            os.makedirs(self.place, mode=0o700, exist_ok=True)
            self._held = _hold(self.place)
        self._bundle = os.path.join(self.place, "bundle")
        self._wanted = [one for one in (offer.base, offer.onto, offer.before) if one is not None]
        self._known: dict[str, object] = {
            "path": self._trees.path("tree"), "branch": offer.branch, "base": offer.base, "head": offer.base,
        }  # fmt: skip

    @property
    def directory(self) -> str:
        """Where its programs run."""
        return self._trees.repository.within(str(self._known["path"]))

    def missing(self) -> tuple[list[str], list[str]]:
        """The commits that the run starts from and that are not here, and what is here."""
        missing = [one for one in self._wanted if self._git.commit_of(one) is None]
        return missing, self._git("for-each-ref", "--format=%(objectname)", "--count=100", KEPT).text.split()

    def receiving(self) -> BinaryIO:
        """The file for a bundle of what is missing."""
        return open(self._bundle, "wb")

    def prepare(self, missing: list[str]) -> None:
        """Have the worktree, at the commit where the run starts, with what was missing from the bundle received.

        Raises:
            GitFailed: git refused.
        """
        with open(os.path.join(self.place, OFFER), "w", encoding="utf-8") as file:
            json.dump(asdict(self.offer), file)
        if missing:
            self._git("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", self._bundle, *missing)
            os.unlink(self._bundle)
        for one in self._wanted:
            self._git("update-ref", KEPT + one, one)
        self._trees.make("tree", self._known)
        if self.offer.onto is not None:
            tree = self._git.at(str(self._known["path"]))
            tree("merge", "--no-ff", "--no-verify", "--message", f"Merge into {self.offer.branch}", self.offer.onto,
                 ok=(0, 1), variables=tree.identity())  # fmt: skip

    def before(self) -> str:
        """Make a second checkout, of what was there before the work; where its check is run there.

        Raises:
            GitFailed: git refused.
        """
        return self._trees.detached(self._trees.path("before"), str(self.offer.before))

    def commit(self) -> str:
        """Commit what lies in the worktree; the branch's last commit, or, before it was made, where the run starts.

        Raises:
            GitFailed: git refused.
        """
        if not os.path.isdir(str(self._known["path"])):
            return self.offer.base
        head = self._trees.seal(self._known, f"{self.offer.subject}\n\nInterlock-Task: {self.offer.task_id}\n").head
        if head != self.offer.base:
            known = self._git("for-each-ref", "--format=%(objectname)", KEPT).text.split()
            self._git("bundle", "create", self._bundle, HEADS + self.offer.branch, "--not", *known)
        return head

    def delivered(self, head: str) -> BinaryIO:
        """The bundle of what is new at `head`, made by `commit`; nothing where nothing is."""
        return io.BytesIO() if head == self.offer.base else open(self._bundle, "rb")

    def tree(self) -> str:
        """The git tree of the last commit."""
        return self._git("rev-parse", f"{HEADS}{self.offer.branch}^{{tree}}").text

    def remove(self) -> None:
        """Leave nothing of it but what was fetched."""
        for path in (str(self._known["path"]), self._trees.path("before")):
            self._trees.remove(path)
        self._git("update-ref", "-d", HEADS + self.offer.branch)
        shutil.rmtree(self.place, ignore_errors=True)
        os.close(self._held)


def place_of(root: str, offer: WorkOffer) -> str:
    """The directory of a run. Tasks of several teams may have one id."""
    return os.path.join(root, "runs", f"{offer.team_id}.{offer.run_id}")


def left_behind(root: str, team: str) -> list[WorkOffer]:
    """The runs for that team whose worker was killed before it had put them away."""
    found = []
    runs = os.path.join(root, "runs")
    os.makedirs(root, mode=0o700, exist_ok=True)
    with locked_file(os.path.join(root, LOCK)):
        for name in sorted(os.listdir(runs)) if os.path.isdir(runs) else ():
            place = os.path.join(runs, name)
            try:
                os.close(_hold(place))
                with open(os.path.join(place, OFFER), encoding="utf-8") as file:
                    offer = WorkOffer(**json.load(file))
                found += [offer] if offer.team == team else []
            except BlockingIOError:
                continue  # Its worker lives.
            except (OSError, ValueError, TypeError):
                shutil.rmtree(place, ignore_errors=True)  # It had not begun.
    return found


def take_place(root: str, limit: int) -> int | None:
    """One of the `limit` places for runs that the workers below `root` share, whatever their teams. It is taken until
    the descriptor is closed, or this process has ended; None where all are."""
    places = os.path.join(root, "places")
    os.makedirs(places, mode=0o700, exist_ok=True)
    for number in range(limit):
        held = os.open(os.path.join(places, str(number)), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return held
        except BlockingIOError:
            os.close(held)
    return None


def _hold(place: str) -> int:
    """Lock a directory for this process; what it is held by. Raises BlockingIOError: another living one holds it."""
    held = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise
    return held
