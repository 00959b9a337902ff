"""Whether a team belongs to a directory: to the one that it works in, wherever that was moved, and to no other.

A name says nothing: two clones of a repository name the same team. What tells them apart is what Interlock left behind.
A team with worktrees has marked its repository with a reference (see the package's page), which moves with it and which
no clone gets. Of a team without, the plan that it carried out last is looked for, but only where the directory is gone
for certain: a drive that is not mounted takes what is around the directory away, too.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import Literal

from interlock.core.unit_of_work import Workspace
from interlock.errors import GitFailed, PlanError, TeamElsewhere
from interlock.gitwork.git import Git
from interlock.lazy_dataclass import dataclass
from interlock.model.plan import whole_digest
from interlock.plan.reading import load
from interlock.settings import Settings
from interlock.storage.ledger import Rows

Place = Literal["here", "moved", "elsewhere", "replaced"]
"""How a directory stands to a team: its own; its own, which was moved there; that of something else; its own by name,
with another repository in it than the one that the team worked in."""
OWN = ("here", "moved")
UPDATES = 1000
"""The newest changes of a team that are looked through for the one that gave it another directory."""


@dataclass(frozen=True, slots=True)
class TeamStanding:
    """What a team knows of its directory: its own `identity`, whether it `marked` a repository with that, whether it
    has ever had a task (`begun`), path and digest of the plan that it carried out last. `git_timeout` in seconds."""

    name: str
    workdir: str | None
    identity: str
    marked: bool
    begun: bool
    plan: str | None
    digest: str | None
    git_timeout: float

    def carries_another(self, plan: str, directory: str) -> bool:
        """Whether its tasks are those of another plan than the one at `plan` for `directory`."""
        if self.plan in (None, plan):
            return False
        before = os.path.relpath(str(self.plan), self.workdir or directory)
        return os.path.normpath(os.path.join(directory, before)) != os.path.normpath(plan)


def look(workspace: Workspace) -> TeamStanding:
    """What the team knows of its directory now."""
    with workspace.look() as rows:
        return standing(rows, workspace.settings(rows))


def standing(rows: Rows, settings: Settings) -> TeamStanding:
    """As `look`, within a transaction."""
    team = rows.team.get()
    marked = rows.events.latest(None, 1, ["integration.started"])
    if marked:  # Unless it was given another directory, or another identity, since.
        changes = rows.events.latest(None, UPDATES, ["team.updated"])
        if any(change.seq > marked[0].seq and "was" in change.payload for change in changes):
            marked = []
    plans = rows.events.latest(None, 1, ["plan.started"])
    plan = plans[0].payload if plans else {}
    return TeamStanding(
        team.name, team.workdir, team.id, bool(marked), bool(rows.tasks.counts()), plan.get("path"), plan.get("digest"),
        float(settings.get("git_timeout")),
    )  # fmt: skip


def place_of(team: TeamStanding, directory: str, plan: str | None = None) -> Place:
    """How `directory` stands to the team. The author of the plan that the team carries out, at `plan`, may change its
    `workdir`."""
    own = team.workdir
    if own is None:
        return "here"
    same = os.path.realpath(own) == os.path.realpath(directory)
    if same or (plan is not None and plan == team.plan):
        if team.marked and _has_mark(team, directory) is False:
            return "replaced" if same else "elsewhere"
        return "here"
    if team.marked:
        moved = _has_mark(team, directory) and not (os.path.isdir(own) and _has_mark(team, own))
    else:
        moved = not os.path.isdir(own) and _has_neighbours(own) and _has_plan(team, directory)
    return "moved" if moved else "elsewhere"


def reason(team: TeamStanding, directory: str, place: Place) -> str:
    """Why `directory`, which is at that `place`, is not the team's, in a sentence."""
    if place == "replaced":
        return f"The team {team.name} has worked in {directory}, but not in the repository that is there now."
    if os.path.isdir(str(team.workdir)):
        return f"The team {team.name} works in {team.workdir}, not in {directory}."
    return (
        f"The team {team.name} works in {team.workdir}, which is not there now, and nothing shows that {directory} is "
        "the same project."
    )


def remedy(team: TeamStanding, directory: str) -> str:
    """What to do where `directory` is the team's all the same."""
    return (
        "If the project was moved here, or this very team is meant: "
        f"`interlock team adopt {team.name} --workdir {shlex.quote(directory)}`."
    )


def refusal(team: TeamStanding, directory: str, place: Place, another: str = "NAME") -> TeamElsewhere:
    """Why the team does not carry out a plan in `directory`, with the ways out; `another` is a name that is free."""
    return TeamElsewhere(
        f"{reason(team, directory, place)} To use a team of its own here: `--team {another}`, or `team: {another}` in "
        f"the plan. {remedy(team, directory)}",
        team=team.name,
        workdir=team.workdir,
        directory=directory,
    )


def _has_mark(team: TeamStanding, directory: str) -> bool | None:
    """Whether the repository around `directory` is the one that the team has marked; None where git does not say."""
    reference = f"refs/interlock/{team.identity}"
    try:
        answer = Git(directory, timeout=team.git_timeout)("for-each-ref", "--count=1", reference, ok=(0, 128))
    except GitFailed:
        return None
    if answer.code == 0:
        return bool(answer.text)
    return False if "not a git repository" in answer.err else None


def _has_plan(team: TeamStanding, directory: str) -> bool:
    """Whether the plan that the team carried out last lies in `directory` where it lay before, and says the same."""
    if team.plan is None or team.digest is None:
        return False
    try:
        plan = load(os.path.normpath(os.path.join(directory, os.path.relpath(team.plan, team.workdir))))
    except PlanError:
        return False
    return whole_digest(replace(plan, team=team.name)) == team.digest


def _has_neighbours(path: str) -> bool:
    """Whether something lies where `path` was: the mount point of a drive that is not there is gone or empty."""
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            return next(entries, None) is not None
    except OSError:
        return False
