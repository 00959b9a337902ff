"""A piece of work for a subagent of a run, and what comes back (epic 5)."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json

KINDS = VALIDATION, CODE_REVIEW, CREATIVE, ANALYSIS, IMPLEMENTATION = (
    "validation", "code_review", "creative", "analysis", "implementation",
)  # fmt: skip
HIGH, NORMAL, LOW = "high", "normal", "low"
PRIORITIES = (HIGH, NORMAL, LOW)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Work for one subagent, which knows nothing but `prompt`: what others found is not in it, so that it judges by
    itself.

    `label` names it among the others of its run ("08a", "reviewer-security", "winston"); `kind` is what it is routed
    and its model chosen by; `complexity` is simple, standard or complex. `writes`: whether it may change files.
    `time_limit` is for its whole work, in seconds; 0 for none but the session's own. `agent_id` resumes a subagent that
    was tracked before. `role` names who is to do it, where its kind and label do not say (see `routing`). A
    prompt that begins with "You are" says itself who is asked; before any other one the dispatcher puts who it is.
    """

    label: str
    prompt: str
    kind: str = ANALYSIS
    complexity: Literal["simple", "standard", "complex"] = "standard"
    priority: str = NORMAL
    writes: bool = False
    time_limit: float = 0.0
    model: str | None = None
    agent_id: str | None = None
    role: str | None = None
    data: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """What a subagent said. `completed` is the only status with a usable `text`; `detail` says why it is another one.
    `agent_id` is what it can be resumed by, None where its program cannot."""

    label: str
    status: Literal["completed", "failed", "timeout", "cancelled", "preempted", "capacity"]
    text: str = ""
    agent_id: str | None = None
    model: str | None = None
    detail: str | None = None
    seconds: float = 0.0
    retry_at: float | None = None
