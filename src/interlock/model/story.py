"""The stories of a project as people see them: what became of each, what it waits for, and what an epic came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json


@dataclass(slots=True, frozen=True)
class ListedStory:
    """One story. `inputs` counts what people answered for it, `waits_for` names the stories that hold it up now,
    `reasons` says why it depends on each; `question` is the id of the one that it waits for, `asks` what that asks."""

    key: str
    epic: str
    title: str
    status: str
    depends_on: list[str]
    task_id: str | None
    inputs: int
    waits_for: list[str]
    reasons: Mapping[str, str]
    question: str | None
    asks: str | None
    usage: Json | None


@dataclass(slots=True, frozen=True)
class StoryDetail:
    """One story of `team` with the `text` that says what it is, the `file` that it stands in (its own, where it has
    one), and why it is `impossible`, if it is."""

    team: str
    story: ListedStory
    text: str
    file: str
    impossible: str | None


@dataclass(slots=True, frozen=True)
class ListedEpic:
    """One epic. Its `digest` are sentences on what is done, what is at work, what waits and why, and what it cost.
    `retrospective` is its last task, which waits for all its stories; null where its list asks for none."""

    epic: str
    title: str
    done: bool
    usage: Json
    digest: list[str]
    retrospective: ListedStory | None = None


@dataclass(slots=True, frozen=True)
class StoryProposal:
    """What an agent proposes for stories of which nobody says what they wait for: `dependencies` maps the key of each
    to those that it would wait for, with the reasons. It counts once it is `accepted`."""

    agent: str
    at: str
    accepted: bool
    dependencies: Mapping[str, Mapping[str, str]]

    @property
    def lines(self) -> list[str]:
        """It, for people: a sentence for each story."""
        said = "accepted" if self.accepted else "not accepted yet"
        return [
            f"{self.agent} proposes ({said}): {key} waits for "
            + ("; ".join(f"{one} ({why})" for one, why in found.items()) or "nothing")
            for key, found in self.dependencies.items()
        ]


@dataclass(slots=True, frozen=True)
class StoryList:
    """The stories that were asked for, in dispatch order; `team` implements them. `faults` say what in their lists
    cannot be read or makes no sense. `deferred` are the ids of the tasks for what builds found and left to others."""

    team: str
    stories: list[ListedStory]
    epics: list[ListedEpic]
    faults: list[str] = field(default_factory=list)
    proposal: StoryProposal | None = None
    deferred: list[str] = field(default_factory=list)
