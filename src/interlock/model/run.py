"""An attempt at a task, what it made outside git, and the handing over of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

from interlock.errors import Forbidden
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of

SHOWN = (
    "run_id=id task_id number member session started_at ended_at outcome reason heartbeat_at expires_at result "
    "agent_session spent"
).split()
ARTIFACT = ("run", "path", "kind", "size", "sha256", "file")
KEPT = frozenset({"file", "link", "patch"})
"""The kinds that are kept with the run; a `cache` or a `special` file (a socket, a pipe) is only listed."""


class RunOrigin(NamedTuple):
    """The run that a process belongs to: the member that it acts as, and no other. A check acts for nobody: `member`
    is None. With a `doubt`, a sentence, the process may belong to some run; which one is not known."""

    pid: int
    home: str | None = None
    team: str | None = None
    member: str | None = None
    session: str | None = None
    doubt: str = ""

    def must_be(self, team: str, member: str) -> None:
        """Refuse to act as another member.

        Raises:
            Forbidden: that is another member.
        """
        if self.doubt:
            raise self.refusal(f"act as {member} in {team}")
        if (team, member) != (self.team, self.member):
            raise Forbidden(
                f"{self} It cannot act as {member} in {team}, whatever its environment says. Leave out --as, or act "
                f"as {member} from a terminal outside of the run.",
                member=member,
            )

    def refusal(self, what: str) -> Forbidden:
        """The error for what only a person may do."""
        where = (
            "an ordinary terminal of the machine, or the container, of the run"
            if self.doubt
            else ("a terminal outside of every run")
        )
        return Forbidden(f"{self} It cannot {what}: a person does that, at {where}.", member=self.member)

    def __str__(self) -> str:
        if self.doubt:
            return self.doubt
        if self.member is None:
            return "This runs within what Interlock itself runs (a check, a setup or a hook), which acts for nobody."
        return f"This runs within a run of {self.member} in {self.team}, and acts as {self.member} only."


@dataclass(slots=True, frozen=True)
class Artifact:
    """A file of a run that is in no commit. `path` is relative to the top of the worktree, with bytes that are
    not UTF-8 escaped. `size` in bytes, `sha256` and `file`, where it is kept, are None where nothing is kept."""

    task_id: str
    run: int
    path: str
    kind: str
    size: int | None = None
    sha256: str | None = None
    file: str | None = None

    def as_dict(self) -> Json:
        """The contract's shape."""
        return fields_of(self, ARTIFACT)


@dataclass(slots=True)
class Handoff:
    """The newest handoff of one task. Agents are member names where the team knows them, else as they were written.

    `payload` is the request as it came, camelCase; `state` is requested, accepted or rejected.
    """

    task_id: str
    parent_id: str
    from_agent: str
    to_agent: str
    payload: Json
    state: str
    reason: str | None
    requested_at: str
    answered_at: str | None


@dataclass(slots=True)
class Run:
    """One attempt at one task (decision 4). `process` is the runner or agent process it hangs on, as text."""

    task_id: str
    number: int
    member: str
    session: str
    started_at: str
    ended_at: str | None = None
    outcome: str | None = None
    reason: str | None = None
    runner: str | None = None
    process: str | None = None
    heartbeat_at: str | None = None
    expires_at: str | None = None
    beats: int = 0
    result: Json | None = None
    """What it reported, as in `run_result.json`."""
    applied: str | None = None
    """The digest of the result that has moved the task."""
    seen: dict[str, list[str]] = field(default_factory=dict)
    """Digests of the files that were looked at, by kind: each content counts once."""
    agent_session: str | None = None
    """The agent's own id of its session, to resume it by."""
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    unmetered: int = 0
    """How many of its prompts have tokens that nobody could measure."""

    @property
    def id(self) -> str:
        """`<task id>.<number>`."""
        return f"{self.task_id}.{self.number}"

    def as_dict(self) -> Json:
        """What the runs of a task are listed with."""
        return fields_of(self, SHOWN)

    @property
    def tokens(self) -> tuple[int, int]:
        """Sent and received."""
        return self.input_tokens, self.output_tokens

    @property
    def spent(self) -> Json:
        """What it used (see `spent_together`)."""
        return spent_together([self])


def spent_together(runs: Sequence[Run]) -> Json:
    """What these runs used, as far as it was measured: sums, None where nothing is known.

    `unknown`, where present, names the members whose tokens were not all measured; `cost_partial` says that some runs
    reported no cost. The sums are then lower bounds."""
    tokens = [run.tokens for run in runs]
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    unknown = sorted({run.member for run in runs if run.unmetered and (run.ended_at or not any(run.tokens))})
    known = not unknown or any(map(any, tokens))
    return {
        "turns": sum(run.turns for run in runs),
        "input_tokens": sum(sent for sent, _ in tokens) if known else None,
        "output_tokens": sum(got for _, got in tokens) if known else None,
        "cost_usd": round(sum(costs), 6) if costs else None,
        **({"unknown": unknown} if unknown else {}),
        **({"cost_partial": True} if costs and any(run.turns and run.cost_usd is None for run in runs) else {}),
    }
