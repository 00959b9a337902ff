"""PORT: which agent programs are known and installed here. The implementation, `agents/roster.py`, reads profiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from interlock.agent import Agent
from interlock.model.team import Member


@dataclass(frozen=True, slots=True)
class Offer:
    """One kind of agent. `how` is null where nothing of it is installed, `path` what is started; `version` its own
    program's, null where that does not say. `own` is true for a profile of the user's. `proven` is what Interlock's own
    tests show with the real program. `lacks` says what does not work here for want of a helper."""

    name: str
    title: str
    how: Literal["acp", "headless"] | None
    path: str | None
    version: str | None
    install: str
    own: bool
    proven: tuple[str, ...]
    lacks: str | None = None


@dataclass(frozen=True, slots=True)
class Hire:
    """An agent, and the names of the user's variables that it needs."""

    agent: Agent
    variables: tuple[str, ...]
    offer: Offer


class Roster(Protocol):
    """All kinds of agents."""

    def offers(self) -> list[Offer]:
        """Every one, installed or not; their programs are asked for their version, which takes seconds for some.

        Raises:
            ConfigParseError: the user's profiles cannot be read.
        """

    def hire(self, name: str) -> Hire:
        """The agent of that name.

        Raises:
            AgentError: it is unknown, or not installed.
            ConfigParseError: the user's profiles cannot be read.
        """


class WhyIdle(Protocol):
    """Why the agent of a member cannot be had on this machine, and what to do; null where it can. With `wholly`, also
    why not all of it works."""

    def __call__(self, member: Member, *, wholly: bool = False) -> str | None: ...


Roll = Callable[[], Roster]
