"""What the workflow engine itself costs a step, its agent excluded: prompts, decisions, state, checkpoint, file.

The agent answers at once, in process; each step shows a menu and is then done, so that a step is two turns. The floor
is bare `sqlite3`: the three durable commits that a step needs (two prompts and its end). Calls are those of Interlock's
own functions, opening the run among them; a generator or a coroutine that goes on counts as one more.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import FrameType

import anyio

import interlock
from bench import homes
from bench.measure import Row, at_most, median
from interlock.agents.scripted import Say, ScriptedAgent
from interlock.agents.session import Opening
from interlock.app.home import Home
from interlock.runner.executor import Job
from interlock.wiring import connect
from interlock.workflow.executor import WorkflowExecution

STEPS = 30
ROUNDS = 3
MENU = "Here it is.\n\n**Select an Option:** [A] Advanced Elicitation [P] Party Mode [C] Continue"
SKILL = "/bmad:bmm:workflows:plan"


def run() -> list[Row]:
    """A step of a workflow of thirty: its time, and how many functions are called for it."""
    taken, bare = [], []
    for _ in range(ROUNDS):
        with homes.directory() as home:
            taken.append(one_run(home) / STEPS * 1000)
            bare.append(commits(home, 3 * STEPS) / STEPS * 1000)
    return [
        Row("workflow engine, one step of two turns", median(taken), median(bare), (at_most(25),), "ms"),
        Row("workflow engine, one step: calls", calls() / STEPS, None, (at_most(2500),), ""),
    ]


def calls() -> int:
    """Calls of functions of Interlock in one run, in all its threads."""
    ours, counted = str(Path(interlock.__file__).parent), 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal counted
        counted += event == "call" and frame.f_code.co_filename.startswith(ours)

    with homes.directory() as home:
        threading.setprofile(count)
        sys.setprofile(count)
        try:
            one_run(home)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return counted


def one_run(home: Path) -> float:
    """Seconds that all steps took."""
    root = package(home / "project")
    opened = connect(str(home / "home"))
    assert isinstance(opened, Home)
    team = opened.create_team(homes.TEAM, workdir=str(root))
    team.spawn("m0", agent="command", command=["true"])
    begun = team.start_workflow(SKILL, agent="m0", tier=1)
    session = "run:bench"
    team.acting("m0", session=session).claim(begun["task_id"])
    job = Job(
        team=homes.TEAM, task_id=begun["task_id"], run_id=f"{begun['task_id']}.1", member="m0", session_id=session,
        prompt="", command=None, workdir=str(root), environment={}, log="", time_limit=600.0, stop_grace=1.0,
        output_bytes=100_000, kind="WORKFLOW",
    )  # fmt: skip
    execution = WorkflowExecution(ScriptedAgent("m0", play), job, opened.workspace(homes.TEAM), None, None)

    async def work() -> float:
        began = time.perf_counter()
        result = await execution.run(lambda update: None)
        assert result.status == "ended", result
        return time.perf_counter() - began

    seconds = anyio.run(work)
    assert interlock.connect(str(home / "home")).team(homes.TEAM).workflow_run()["outcome"] == "COMPLETED"
    return seconds


async def play(prompt: str, say: Say, opening: Opening) -> str:
    """A menu for a step; for an answer a line of the document, and done."""
    if "# Step " in prompt and "final step" not in prompt:
        return MENU
    document = Path(opening.workdir, "_bmad-output", "plan.md")
    document.parent.mkdir(exist_ok=True)
    with document.open("a") as file:
        file.write("\nA line.\n")
    return '{"step": "completed"}'


def commits(home: Path, count: int) -> float:
    """Seconds of that many bare commits."""
    connection = homes.ledger(home / "home")
    connection.execute("CREATE TABLE bare (n INTEGER PRIMARY KEY, text TEXT)")
    began = time.perf_counter()
    for _ in range(count):
        connection.execute("INSERT INTO bare (text) VALUES ('x')")
    taken = time.perf_counter() - began
    connection.close()
    return taken


def package(root: Path) -> Path:
    """A project with a workflow of thirty steps."""
    folder = root / "_bmad/bmm/workflows/plan"
    (folder / "steps").mkdir(parents=True)
    (root / "_bmad/_config").mkdir()
    path = "_bmad/bmm/workflows/plan/workflow.md"
    (root / "_bmad/_config/workflow-manifest.csv").write_text(f"name,description,module,path\nplan,x,bmm,{path}\n")
    (root / "_bmad/bmm/config.yaml").write_text('output_folder: "{project-root}/_bmad-output"\n')
    (folder / "workflow.md").write_text("---\nname: plan\n---\n# Plan\n\nLoad and execute `steps/step-01-part.md`.\n")
    for number in range(1, STEPS + 1):
        following = f"nextStepFile: './step-{number + 1:02d}-part.md'\n" if number < STEPS else ""
        text = (
            "This is the final step." if number == STEPS else f'Display: "{MENU[13:]}"\n\n- IF C: load {{nextStepFile}}'
        )
        front = f"---\noutputFile: '{{output_folder}}/plan.md'\n{following}---\n"
        body = "Write. " * 500
        (folder / f"steps/step-{number:02d}-part.md").write_text(f"{front}# Step {number}: Part\n\n{body}\n\n{text}\n")
    return root
