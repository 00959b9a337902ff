"""A stage for workflow runs: a project with a small workflow package, agents that play a part, a desk in memory."""

from __future__ import annotations

import copy
import json
import os
import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio

from interlock.agents.session import Agent, Opening, Permission, Turn, Update, refuse
from interlock.clock import iso
from interlock.workflow.agents.pool import AgentPool
from interlock.workflow.agents.subagent import Staffing
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.agents.watch import Limits
from interlock.workflow.engine.automation_controller import AutomationController
from interlock.workflow.engine.context import Draft, Examination
from interlock.workflow.engine.effects import Ending
from interlock.workflow.engine.machine import MOVES
from interlock.workflow.engine.ports import Asking, Events, Knowledge, Superseded
from interlock.workflow.engine.reducer import Log, replay
from interlock.workflow.engine.runtime import Runtime
from interlock.workflow.entry.workflow_entry_wrapper import detect
from interlock.workflow.hooks.definitions import everywhere
from interlock.workflow.hooks.moments import Hooking
from interlock.workflow.hooks.runner import HookRunner
from interlock.workflow.package import packages, rendering
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.packages import Invocation
from interlock.workflow.party import in_a_step
from interlock.workflow.preferences import application
from interlock.workflow.preferences.profiles import Profile
from interlock.workflow.state.document import TERMINAL, RunPlan, StepId, WorkflowState
from tests.workflow import virtual
from tests.workflow.programs import leaving

APC = "**Select an Option:** [A] Advanced Elicitation [P] Party Mode [C] Continue"
DONE = '{"step": "completed"}'
SKILL = "/bmad:bmm:workflows:make-plan"
START = 1_795_000_000.0

T = TypeVar("T")


def project(
    root: Path,
    steps: int = 3,
    *,
    module: str = "bmm",
    front: str = "",
    workflow: str = "",
    body: str = "",
    output: str = "{output_folder}/plan.md",
) -> Path:
    """A project with one workflow of `steps` step files, each with the usual menu. `front` is added to the frontmatter
    of each step, `workflow` to that of the workflow; `output` is the document that each step names, "" for none."""
    named = f"outputFile: '{output}'\n" if output else ""
    config = root / "_bmad" / "_config"
    config.mkdir(parents=True)
    folder = root / "_bmad" / module / "workflows" / "make-plan"
    (folder / "steps").mkdir(parents=True)
    path = f"_bmad/{module}/workflows/make-plan/workflow.md"
    (config / "manifest.yaml").write_text(f"installation:\n  version: 6.0.0\nmodules:\n  - core\n  - {module}\n")
    (config / "workflow-manifest.csv").write_text(
        f'name,description,module,path\n"make-plan","x","{module}","{path}"\n'
    )
    (root / "_bmad" / module / "config.yaml").write_text(
        'output_folder: "{project-root}/_bmad-output"\nuser_name: Ada\n'
    )
    (folder / "workflow.md").write_text(
        f"---\nname: make-plan\n{workflow}---\n# Plan\n\nLoad, read and execute `steps/step-01-part.md`.\n"
    )
    for number in range(1, steps + 1):
        onward = f"nextStepFile: './step-{number + 1:02d}-part.md'\n" if number < steps else ""
        last = "This is the final step." if number == steps else "- IF C: save, then load {nextStepFile}"
        menu = f'Display: "{APC}"\n\n' if number < steps else ""
        (folder / "steps" / f"step-{number:02d}-part.md").write_text(
            f"---\nname: 'step-{number:02d}-part'\n{named}{onward}{front}---\n"
            f"# Step {number}: Part {number}\n\nWrite part {number}.\n{body}\n\n{menu}{last}\n"
        )
    return root


@dataclass
class Part:
    """What an agent is given to play with in one turn: the prompt, and ways to be heard."""

    prompt: str
    opening: Opening
    on_update: Callable[[Update], None]
    turn: int

    def say(self, text: str) -> None:
        self.on_update(Update("text", text))

    def tool(self, status: str, *paths: str, id: str = "t1", kind: str = "edit") -> None:
        self.on_update(Update("tool", "a tool", {"id": id, "kind": kind, "status": status, "paths": list(paths)}))

    @property
    def step(self) -> str:
        """The id of the step that the prompt is about; "" where it is an answer."""
        found = re.search(r"^# Step ([\w.-]+): ", self.prompt, re.MULTILINE)
        return found[1] if found else ""

    @property
    def answer(self) -> str:
        """The first line: the answer alone, where the prompt is one."""
        return self.prompt.splitlines()[0] if self.prompt else ""


Play = Callable[[Part], Awaitable["str | Turn"]]


class Player:
    """An agent that plays `play`; `sessions` are all that were opened. An honest one leaves what the step asks for
    where `play` says that it is completed and has not written it. One that `forgets` opens a new session where an
    earlier one is to be resumed."""

    name = "player"

    def __init__(
        self, play: Play, *, lasting: bool = True, resumes: bool = False, honest: bool = True,
        forgets: bool = False,
    ) -> None:  # fmt: skip
        self.play = play
        self.forgets = forgets
        self.honest = honest
        self.step = ""
        self.before: dict[str, str] = {}
        self.lasting = lasting
        self.resumes = resumes
        self.sessions: list[PlayerSession] = []
        self.prompts: list[str] = []

    async def open(self, opening: Opening) -> PlayerSession:
        self.sessions.append(PlayerSession(self, opening, len(self.sessions) + 1))
        return self.sessions[-1]


class PlayerSession:
    """One life of a `Player`."""

    identity = None

    def __init__(self, player: Player, opening: Opening, number: int) -> None:
        self._player = player
        self._opening = opening
        self.lasting = player.lasting
        name = f"s{number}{player.forgets or ''}"
        self.agent_session = (name if player.forgets else opening.resume or name) if player.resumes else None
        self.closed = False
        self._scope: anyio.CancelScope | None = None
        self._over: anyio.Event | None = None

    async def prompt(self, text: str, on_update: Callable[[Update], None], log: str | None = None) -> Turn:
        assert not self.closed
        self._player.prompts.append(text)
        self._scope, self._over = anyio.CancelScope(), anyio.Event()
        turn = Turn("cancelled")
        player, root = self._player, Path(self._opening.workdir)
        if leaving.BEGINS in text or leaving.WHOLE in text or re.search(r"^# Step [\w.-]+: ", text, re.MULTILINE):
            player.step, player.before = text, leaving.texts(root, text)
        try:
            with self._scope:
                said = await self._player.play(Part(text, self._opening, on_update, len(self._player.prompts)))
                turn = said if isinstance(said, Turn) else Turn("end", said)
                if player.honest and turn.stop == "end" and (over := COMPLETED.search(turn.output)):
                    found = re.search(r"^# Step ([\w.-]+): ", player.step, re.MULTILINE)
                    leaving.leave(root, player.step, player.before, found[1] if found else "")
                    leaving.leave_all(root, player.step)
                    kinds = {kind for kind, _, _ in leaving.due(player.step)}
                    said = {
                        name: value for kind, (name, value) in SAID.items() if kind in kinds and name not in turn.output
                    }
                    line = json.dumps({"step": over[1], **said}).removesuffix("}")
                    turn = replace(turn, output=COMPLETED.sub(line.replace("\\", r"\\"), turn.output))
        finally:
            self._over.set()
        return turn

    async def cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    async def close(self) -> None:
        self.closed = True
        await self.cancel()
        if self._over is not None:
            await self._over.wait()


SAID = {"command": ("evidence", ["it ran: passed"]), "verdict": ("verdict", "PASSED")}
COMPLETED = re.compile(r'\{"step": "(completed|finished)"')
Answers = Callable[[Asking], "str | None"]


@dataclass
class MemoryDesk:
    """A desk in memory. `answers` plays the human; a question it answers with None stays open.

    `die_at`: the save at which the process dies, from 1; what was saved before stays.
    """

    answers: Answers = lambda asking: None
    die_at: int | None = None
    saved: WorkflowState | None = None
    saves: int = 0
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: dict[str, Asking] = field(default_factory=dict)
    replies: dict[str, str] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)
    life: dict[str, Any] = field(default_factory=dict)

    def now(self) -> str:
        return iso(START + anyio.current_time())

    async def save(self, state: WorkflowState, events: Events = (), asking: Asking | None = None) -> str | None:
        self.saves += 1
        if self.die_at is not None and self.saves >= self.die_at:
            raise Superseded("the process was killed")
        state.version, state.updated_at = state.version + 1, self.now()
        copied = WorkflowState.from_dict(json.loads(json.dumps(state.as_dict())))
        if asking is not None and copied.waiting is not None:
            copied.waiting.question_id = asking.key
        self.saved = copied
        self.events += [(kind, dict(payload)) for kind, payload in events]
        if asking is None:
            return None
        known = self.asked.setdefault(asking.key, asking)
        if asking.key not in self.replies and (reply := self.answers(known)) is not None:
            self.replies[asking.key] = reply
        return asking.key

    async def reply(self, question: str) -> tuple[str, str] | None:
        return (self.replies[question], "ada") if question in self.replies else None

    async def wait(self, question: str, seconds: float) -> tuple[str, str] | None:
        await virtual.passes(seconds)
        return await self.reply(question)

    async def session(self) -> dict[str, Any]:
        return copy.deepcopy(self.shared)

    async def apart(self, work: Callable[[], T]) -> tuple[T, dict[str, Any]]:
        return work(), copy.deepcopy(self.shared)

    async def change_session(self, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        change(self.shared)
        return copy.deepcopy(self.shared)

    async def change_life(self, change: Callable[[dict[str, Any]], None]) -> None:
        change(self.life)

    def of(self, type: str) -> list[dict[str, Any]]:
        """The payloads of the events of one type."""
        return [payload for kind, payload in self.events if kind == type]


class NoCheckpoints:
    """For runs whose files nobody keeps."""

    def create(self, state: WorkflowState, *, step: StepId, reason: str, at: str) -> None:
        """Nothing."""

    def restore(self, state: WorkflowState) -> Sequence[str] | None:
        """Nothing was kept."""
        return None

    def wrote(self, state: WorkflowState, paths: Sequence[str]) -> None:
        """Nothing."""

    def finished(self, state: WorkflowState) -> None:
        """Nothing."""


@dataclass
class Outcome:
    """What became of a run."""

    ending: Ending
    state: WorkflowState
    desk: MemoryDesk
    seconds: float
    log: Log


def play(
    root: Path,
    player: Player,
    *,
    skill: str = SKILL,
    desk: MemoryDesk | None = None,
    plan: RunPlan | None = None,
    state: WorkflowState | None = None,
    limits: Limits | None = None,
    knowledge: Knowledge | None = None,
    checkpoints: Any = None,
    thresholds: Callable[[], dict[str, Any]] = dict,
    permit: Callable[[Permission], Awaitable[str | None]] = refuse,
    examinations: tuple[Examination, ...] = (),
    subagents: Player | None = None,
    profiles: Callable[[], dict[str, Profile]] = dict,
    models: Mapping[str, str] | None = None,
    meanwhile: Callable[[AutomationController], Awaitable[None]] | None = None,
    hooks: Path | None = None,
) -> Outcome:
    """Run a workflow with that player until the controller lets go of it, in virtual time. `subagents` plays those that
    are given a part of the work, by default the same player; `meanwhile` runs beside. With `hooks`, the directory where
    their output is kept, the project's hooks are run, in real time: they are programs."""
    package = packages.load(str(root))
    asked = detect(skill, [one.key for one in package.skills])
    assert isinstance(asked, Invocation)
    found = package.find(asked)
    assert found is not None, skill
    workflow = rendering.rendered(package, workflows.read(package, found))
    desk = desk or MemoryDesk()
    state = state or WorkflowState("bmm-make-plan-x", skill, plan=plan or RunPlan(project=str(root), tier=1))
    limits = limits or Limits()

    log = Log()

    async def main() -> tuple[Ending, float]:
        opening = Opening(
            session_id="s", member="ada", workdir=str(root), environment={}, log="", time_limit=86_400.0,
            stop_grace=1.0, output_bytes=1_000_000, permit=permit,
        )  # fmt: skip
        hooking = None
        agent: Agent = player
        helpers: Agent = subagents or player
        if hooks is not None and everywhere(package.files, workflow):
            runner = HookRunner(str(root), dict(os.environ), f"{root} {state.workflow_id}")
            hooking = Hooking(package, workflow, runner, str(hooks))
        if hooking is not None:
            agent, helpers = hooking.tools.watched(agent), hooking.tools.watched(helpers)
            opening = replace(opening, permit=hooking.tools.guarded(permit))
        pool = AgentPool(agent, opening, limits, resume=state.agent_session)
        run = Draft(
            workflow=workflow, package=package, state=state, limits=limits, party=in_a_step, wishes=application,
            knowledge=knowledge or Knowledge(), thresholds=thresholds, examinations=examinations, profiles=profiles,
            staffed=True,
        )  # fmt: skip
        dispatcher = SubagentDispatcher(Staffing(helpers, opening, models or {}), limits=limits)
        runtime = Runtime(pool, desk, checkpoints or NoCheckpoints(), dispatcher, hooking)
        controller = AutomationController(run, runtime, log)
        began = copy.deepcopy(state)
        async with anyio.create_task_group() as group:
            if meanwhile is not None:
                group.start_soon(meanwhile, controller)
            ending = await controller.run()
            group.cancel_scope.cancel()
        replays(run, began, log)
        return ending, anyio.current_time()

    ending, seconds = virtual.run(main) if hooks is None else anyio.run(main)
    return Outcome(ending, state, desk, seconds, log)


def ways_to_end(start: str) -> list[str]:
    """The shortest way from a state to TERMINAL, both included; empty where there is none."""
    ways, seen = [[start]], {start}
    while ways:
        way = ways.pop(0)
        if way[-1] == TERMINAL:
            return way
        for onward in sorted(MOVES[way[-1]] - seen):
            seen.add(onward)
            ways.append([*way, onward])
    return []


def replays(run: Draft, began: WorkflowState, log: Log) -> None:
    """What the run has met leads to the same state once more, without an agent, a desk or the project's files."""
    again = Draft(
        workflow=run.workflow, package=run.package, state=began, limits=run.limits, party=run.party, wishes=run.wishes,
        knowledge=Knowledge(run.knowledge.context, run.knowledge.relevance, servers=run.knowledge.servers),
        examinations=run.examinations, staffed=run.staffed,
    )  # fmt: skip
    for _ in replay(again, log):
        pass
    assert again.state.as_dict() == run.state.as_dict()


def knows(
    fix: Callable[[str], str | None] = lambda failure: None,
    learn: Callable[[str, str], None] = lambda failure, fix: None,
) -> Knowledge:
    """Knowledge that answers at once."""

    async def fixed(failure: str) -> str | None:
        return fix(failure)

    async def learned(failure: str, helped: str) -> None:
        learn(failure, helped)

    return Knowledge(fix=fixed, learn=learned)


def writes(root: Path, *, menu: str = APC, path: str = "_bmad-output/plan.md") -> Play:
    """A well-behaved agent: it shows the menu of each step, saves on C, and says so."""
    at = {"step": ""}

    async def part(part: Part) -> str:
        if part.step and not part.answer.startswith("C"):
            at["step"] = part.step
            if int(part.step) >= 3 and "final step" in part.prompt:
                _append(root / path, part.step)
                return f"All parts are written.\n{DONE}"
            return f"Here is part {part.step}.\n\n{menu}\n" + '{"step": "waiting"}'
        if part.answer.startswith("C"):
            _append(root / path, at["step"])
            return f"Saved.\n{DONE}"
        return f"I do not understand {part.answer!r}.\n" + '{"step": "waiting"}'

    return part


def _append(path: Path, step: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(f"## Part {step}\n")


def script(*turns: str | Turn | Callable[[Part], Awaitable[str | Turn]]) -> Play:
    """These turns in their order; the last one again and again."""

    async def part(part: Part) -> str | Turn:
        turn = turns[min(part.turn, len(turns)) - 1]
        return turn if isinstance(turn, (str, Turn)) else await turn(part)

    return part


def step_files(root: Path) -> Sequence[str]:
    return sorted(posixpath.basename(str(one)) for one in root.rglob("step-*.md"))
