"""The workflow engine as the verbs and faces use it; loaded with the first verb about workflows."""

from __future__ import annotations

import os
from typing import Self

from interlock.lazy_dataclass import dataclass
from interlock.memory.store import Condition, RecallResult
from interlock.model.json import Json
from interlock.model.story import ListedEpic, ListedStory, StoryDetail, StoryList, StoryProposal
from interlock.workflow.entry.workflow_entry_wrapper import Malformed, detect, locate
from interlock.workflow.package import packages
from interlock.workflow.package.packages import Invocation
from interlock.workflow.package.packages import Package as Package
from interlock.workflow.package.packages import find as find_package
from interlock.workflow.package.variables import is_set
from interlock.workflow.party.exits import under_way
from interlock.workflow.preferences.explicit import understood as feedback_in
from interlock.workflow.runs import chat_commands
from interlock.workflow.runs.chat_commands import ADJUST, INVALID, LEAVE, ChatCommand
from interlock.workflow.runs.commands import cancel, find, installed, led, say_turn, shown, take_up
from interlock.workflow.runs.feedback import LearnedOf
from interlock.workflow.runs.opening import store_of
from interlock.workflow.runs.override_commands import now as in_force_now
from interlock.workflow.runs.override_commands import say, session_of
from interlock.workflow.runs.starting import Wanted, decisions, preview, start
from interlock.workflow.state import files
from interlock.workflow.state.document import WorkflowState
from interlock.workflow.state.queue import add as enqueue
from interlock.workflow.state.queue import clear as clear_queue
from interlock.workflow.state.queue import position as queue_position
from interlock.workflow.state.queue import remove as dequeue
from interlock.workflow.state.queue import reprioritise
from interlock.workflow.state.queue import shown as queue_entries
from interlock.workflow.state.resume import interrupted, offer
from interlock.workflow.state.rollback import Rollback
from interlock.workflow.state.rollback_plan import available as checkpoints
from interlock.workflow.state.rollback_plan import choose as choose_checkpoint
from interlock.workflow.state.rollback_plan import preview as preview_rollback
from interlock.workflow.stories import inventory as stories
from interlock.workflow.stories import lane as lanes
from interlock.workflow.stories import proposal as proposals
from interlock.workflow.stories import settling as settling
from interlock.workflow.stories import sweep as sweep
from interlock.workflow.stories.inventory import Backlog as Backlog
from interlock.workflow.stories.inventory import PlannedStory as PlannedStory
from interlock.workflow.stories.inventory import overlay as overlay_of

__all__ = [
    "ADJUST", "INVALID", "LEAVE", "Backlog", "ChatCommand", "LearnedOf", "ListedEpic", "ListedStory",
    "MemoryPlace", "Package", "PlannedStory", "Rollback", "StoryDetail", "StoryList", "StoryProposal", "Wanted",
    "WorkflowState", "cancel", "carry_out", "checkpoints", "choose_checkpoint", "clear_queue", "command_in",
    "decisions", "dequeue", "describe", "enqueue", "feedback_in", "find", "find_package", "find_workflow",
    "in_force_now", "installed_workflows", "interrupted", "is_invocation", "lanes", "led", "locate", "offer",
    "overlay_of", "preview_rollback", "proposals", "queue_entries", "queue_position", "reprioritise", "say",
    "say_turn", "session_of", "settling", "shown", "start", "store_of", "stories", "sweep", "take_up", "under_way",
]  # fmt: skip


def installed_workflows(directory: str) -> list[Json]:
    """The workflows of the package in that directory or above, none without one: `{skill, module, name,
    description}`."""
    package = packages.find(directory)
    return installed(package) if package is not None else []


@dataclass(frozen=True, slots=True)
class InstalledWorkflow:
    """A workflow that is installed: its whole invocation, and the root of the project."""

    invocation: str
    project: str


def find_workflow(skill: str, directory: str) -> InstalledWorkflow:
    """The workflow that `skill` invokes, or is the name of, in the project at or above `directory`.

    Raises:
        InvalidRequest, InvalidSkillPath, WorkflowNotFound: there is none.
    """
    found = locate(skill, directory)
    return InstalledWorkflow(found.skill.invocation, found.package.root)


def describe(skill: str, directory: str) -> Json:
    """What a run of that workflow would need and do: `{skill, steps, preflight, validation, faults, …}`.

    Raises:
        InvalidRequest, InvalidSkillPath, WorkflowNotFound: as `find_workflow`.
    """
    return preview(locate(skill, directory))


def check_invocation(text: str) -> None:
    """Raises InvalidSkillPath: a text begins like an invocation and is none."""
    if isinstance(found := detect(text), Malformed):
        raise found.error()


def is_invocation(text: str) -> bool:
    """Whether a text starts a workflow, such as `/bmad:bmm:workflows:dev-story`."""
    return isinstance(detect(text), Invocation)


def command_in(content: str) -> tuple[ChatCommand, bool] | None:
    """The command to a workflow under way that a chat message is, and whether it is confirmed; None where it is an
    ordinary message or starts a workflow."""
    said, sure = chat_commands.confirmed(content)
    command = chat_commands.chat_command(said)
    return None if command is None or command.kind == chat_commands.RUN else (command, sure)


def carry_out(team: object, command: ChatCommand, *, run: str | None, session: str, sure: bool) -> str:
    """Carry a command out, or ask for confirmation where it needs one; what it came to, in words."""
    asks = None if sure or command.kind == chat_commands.ADJUST else chat_commands.preview(team, command, run=run)
    return asks or chat_commands.carry_out(team, command, run=run, session=session)


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """The project at a directory as memory knows it: its root, what it is called, and where its output goes."""

    root: str
    project: str
    output: str

    @classmethod
    def of(cls, directory: str | None) -> Self:
        """The project that `directory`, by default the current one, is in."""
        here = os.path.abspath(directory or os.getcwd())
        package = packages.find(here)
        root = package.root if package is not None else here
        configs = [package.config(module) for module in package.modules] if package is not None else []

        def configured(name: str, default: str) -> str:
            return next((str(config[name]) for config in configs if is_set(config.get(name))), default)

        folder = configured("output_folder", "").replace("{project-root}/", "")
        return cls(root, configured("project_name", os.path.basename(root)), files.output_folder(root, folder))


@dataclass(slots=True, frozen=True)
class MemoryStatus:
    """The state of the memory of a project when it was asked; `handed_over` memories had waited for it."""

    condition: Condition
    project: str
    handed_over: int | None = None

    def as_dict(self) -> Json:
        """The contract's shape."""
        found = {**self.condition.as_dict(), "project": self.project}
        return found if self.handed_over is None else {**found, "handed_over": self.handed_over}


@dataclass(slots=True, frozen=True)
class ProjectMemories:
    """What memory answered of a project, and what went wrong on the way."""

    project: str
    found: RecallResult
    problems: list[str]

    def as_dict(self) -> Json:
        """The contract's shape."""
        told = {"project": self.project, "source": self.found.source, "stale": self.found.stale}
        return {**told, "memories": [one.as_dict() for one in self.found.memories], "problems": self.problems}
