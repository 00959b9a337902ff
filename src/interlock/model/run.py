"""What a run made that is in no commit, and where it is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.model.names import SYSTEM

KEPT = frozenset({"file", "link", "patch"})
"""The kinds that are kept with the run; a `cache` or a `special` file (a socket, a pipe) is only listed."""


@dataclass(slots=True, frozen=True)
class Artifact:
    """One of the files of a run outside git. `path` is where it lay below the top of the worktree, with bytes that are
    no UTF-8 written out; `size` in bytes and `sha256` are null where nothing is kept."""

    task_id: str
    run: int
    path: str
    kind: str
    size: int | None = None
    sha256: str | None = None

    def as_dict(self, where: str) -> dict[str, Any]:
        """All of it; `file` is where it is kept, null where it is not."""
        file = where if self.kind in KEPT else None
        return {
            "run": self.run, "path": self.path, "kind": self.kind, "size": self.size, "sha256": self.sha256,
            "file": file,
        }  # fmt: skip


UNVERIFIED = "unverified"
NOT_STARTED = "could not start"
GREEN_BEFORE = "verified (green before the work, too)"


def row(kind: str, at: str, by: str | None, **known: Any) -> dict[str, Any]:
    """A row of that kind, with null for what is not known."""
    head: dict[str, Any] = {"kind": kind, "command": None, "exit_code": None, "tree": None, "at": at, "by": by}
    return {**head, "red_before": None, **known}


def check(found: Mapping[str, Any], at: str) -> dict[str, Any]:
    """The row of a check that Interlock ran, which ended as `found` says."""
    return {**row("verify", at, SYSTEM), **found}


def ended(found: Mapping[str, Any]) -> str:
    """How a check ended, in words."""
    if found.get("ended"):
        return str(found["ended"])
    if found.get("timed_out"):
        return "took too long"
    if "exit_code" in found and found["exit_code"] is None:
        return NOT_STARTED
    return f"ended with exit code {found.get('exit_code')}"


def latest_check(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The newest check; it is the one that counts."""
    return next((one for one in reversed(rows) if one["kind"] == "verify"), None)


def is_verified(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a check passed, and none has failed since."""
    found = latest_check(rows)
    return bool(found and found.get("passed"))


def in_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """What these rows show of finished work, neither more nor less."""
    told = []
    if is_verified(rows):
        told.append(GREEN_BEFORE if (latest_check(rows) or {}).get("red_before") is False else "verified")
    elif any(one["kind"] == "exit_code" and one["exit_code"] == 0 for one in rows):
        told.append("exit code 0")
    told += [f"approved by {one['by']}" for one in rows if one["kind"] == "approval"]
    return ", ".join(dict.fromkeys(told)) or UNVERIFIED


@dataclass(slots=True)
class Handoff:
    """The newest handoff of one task. Agents are member names where the team knows them, else as they were written.

    `payload` is the request as it came, camelCase; `state` is requested, accepted or rejected.
    """

    task_id: str
    parent_id: str
    from_agent: str
    to_agent: str
    payload: dict[str, Any]
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
    ended_at: str | None
    outcome: str | None
    reason: str | None
    runner: str | None
    process: str | None
    heartbeat_at: str | None
    expires_at: str | None
    beats: int
    result: dict[str, Any] | None = None
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

    def as_dict(self) -> dict[str, Any]:
        """All fields, for the runs of a task."""
        return {
            "run_id": self.id,
            "task_id": self.task_id,
            "number": self.number,
            "member": self.member,
            "session": self.session,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "outcome": self.outcome,
            "reason": self.reason,
            "heartbeat_at": self.heartbeat_at,
            "expires_at": self.expires_at,
            "result": self.result,
            "agent_session": self.agent_session,
            "spent": self.spent,
        }

    @property
    def tokens(self) -> tuple[int, int]:
        """Those that were sent and those that were got."""
        return self.input_tokens, self.output_tokens

    @property
    def spent(self) -> dict[str, Any]:
        """What it took, as `spent_together` says."""
        return spent_together([self])


def spent_together(runs: Sequence[Run]) -> dict[str, Any]:
    """What these runs took, as far as that was measured: sums, null where nothing is known. `unknown`, where it is
    there, names the members of whose tokens something is missing, `cost_partial` says that some runs told no cost; the
    sum is then the least that was used."""
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
