"""Puts runs of workflows into a seeded home: one whose story is reviewed and discussed, one that the builder's
validators look at. Their documents are made of the engine's own values, as if it had come this far."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interlock.app.home import Home
from interlock.clock import iso
from interlock.core.unit_of_work import Principal
from interlock.model.names import SYSTEM
from interlock.workflow.agents.records import SubagentRecord
from interlock.workflow.engine import loop_back_handler, recovery
from interlock.workflow.engine.closing_line import Closing
from interlock.workflow.engine.examination import APPROVE, BLOCKING, CHANGES, MAJOR, MINOR, Examined, Finding
from interlock.workflow.engine.loop_back_handler import Loop
from interlock.workflow.party import party_mode_driver
from interlock.workflow.party.contributions import Contribution
from interlock.workflow.party.party_mode_driver import SIMULATED, Party
from interlock.workflow.preferences import menu_rate
from interlock.workflow.state import step_tracking
from interlock.workflow.state.checkpoint_keeper import CheckpointKeeper
from interlock.workflow.state.document import RUNNING, RunPlan, StepId, WorkflowState
from interlock.workflow.state.workflow_state_manager import WorkflowStateManager

STORY, BUILT = "dev-story-20261121T081500-1a2b", "create-agent-20261121T083000-3c4d"


class Seeding:
    """Runs of one team, in a directory that they write to."""

    def __init__(self, home: Home, team: str, directory: Path) -> None:
        self.team = home.team(team)
        self.directory = directory
        self.workspace = self.team._workspace
        self.states = WorkflowStateManager(self.workspace.ledger, self.workspace.clock)
        self.keeper = CheckpointKeeper()

    def now(self, ago: float = 0) -> str:
        return iso(self.workspace.clock.now() - ago)

    def begun(self, id: str, skill: str, names: dict[StepId, str], done: int, brief: str) -> WorkflowState:
        """A run with its first steps done, each with a checkpoint and a part of its document."""
        plan = RunPlan(project=str(self.directory), brief=brief, tier=2)
        state = WorkflowState(id, skill, module="bmm", state=RUNNING, plan=plan, created_at=self.now(3000))
        state.plan_of_steps = [one for one in names if not str(one).startswith("gate-")]
        state.step_names = {str(key): name for key, name in names.items()}
        task = self.team.create_task(skill, type="WORKFLOW")
        state.task_id = task.id
        document = self.directory / "_bmad-output" / f"{id}.md"
        document.parent.mkdir(parents=True, exist_ok=True)
        for number, (step, name) in enumerate(list(names.items())[: done + 1]):
            began, ended = self.now(2800 - 300 * number), self.now(2640 - 290 * number)
            step_tracking.begin(state, step, name, began if number < done else self.now(20))
            self.keeper.create(state, step=step, reason=f"before step {step} begins", at=began)
            if number < done:
                document.write_text(f"# {name}\n\nAs of step {step}.\n", encoding="utf-8")
                state.documents = [f"_bmad-output/{document.name}"]
                self.keeper.wrote(state, state.documents)
                step_tracking.complete(state, step, ended, files=state.documents)
        return state

    def save(self, state: WorkflowState, session: dict[str, Any] | None = None) -> str:
        """Keep it; `session` is what its session knows beside."""
        with self.workspace.act(Principal(SYSTEM)) as act:
            self.states.save(act, state)
            if session:
                document = act.rows.workflows.session(state.workflow_id)
                act.rows.workflows.keep_session(state.workflow_id, {**document, **session}, act.at)
        return state.workflow_id


def add(home: Home, team: str, directory: Path) -> tuple[str, str]:
    """Both runs; their ids."""
    _install(directory)
    seeding = Seeding(home, team, directory)
    return _story(seeding), _built(seeding)


def _install(directory: Path) -> None:
    """A package that has the workflows of both."""
    config = directory / "_bmad" / "_config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "manifest.yaml").write_text("installation:\n  version: 6.0.0\nmodules:\n  - core\n  - bmm\n  - bmb\n")
    lines = ["name,description,module,path"]
    for module, name in (("bmm", "dev-story"), ("bmb", "create-agent")):
        path = f"_bmad/{module}/workflows/{name}/workflow.md"
        lines.append(f'"{name}","","{module}","{path}"')
        whole = directory / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(f"---\nname: {name}\n---\n# {name}\n\nDo it.\n", encoding="utf-8")
        (directory / "_bmad" / module / "config.yaml").write_text('output_folder: "{project-root}/_bmad-output"\n')
    (config / "workflow-manifest.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _story(seeding: Seeding) -> str:
    names: dict[StepId, str] = {
        1: "Load the story", 2: "Write the failing tests", 3: "Implement", 4: "Run all tests and fix",
        "gate-code_review": "Code review", "gate-pre_final_review": "Pre-final review",
    }  # fmt: skip
    state = seeding.begun(STORY, "/bmad:bmm:workflows:dev-story", names, 4, "Rotate refresh tokens; one use each.")
    state.steps["step_4"].attempts = 3
    loop = _looped(Loop(), ["rotate_test.py::test_family ends early", "2 tests fail in lookup"],
                   ["rotate_test.py::test_family ends early"], [])  # fmt: skip
    reviews = [_examined(CHANGES, REVIEW, FIRST), _examined(CHANGES, "One is left, and one is new", FIRST[1:3])]
    state.loops = {"step_4": loop.as_dict(), "step_gate-code_review": _looped(Loop(), ["Race"], ["Race"]).as_dict()}
    state.examinations = {"code_review": {"rounds": [
        {**one.as_dict(), "checklist": CHECKLIST, "at": seeding.now(600 - 300 * n)} for n, one in enumerate(reviews)
    ], "mend": "Fix it."}}  # fmt: skip
    state.party = party().as_dict()
    state.subagents = [
        _subagent(seeding, n, *one) for n, one in enumerate((
            ("winston", "analysis", "architect", "opus", "completed"),
            ("amelia", "analysis", "developer", "sonnet", "completed"),
            ("murat", "analysis", "tester", "sonnet", "completed"),
            ("reviewer-senior", "code_review", "reviewer", "opus", "completed"),
            ("reviewer-security", "code_review", "security reviewer", "opus", "working"),
            ("reviewer-tests", "code_review", "test reviewer", "sonnet", "working"),
        ), 1)
    ]  # fmt: skip
    state.hooks = {"steps": {
        "step_2": {"runs": 1, "failed": 0, "last": [_hook("Stop", "ruff check src", "ok", 1.4)]},
        "step_4": {"runs": 4, "failed": 1, "last": [
            _hook("PreToolUse", "scripts/no-force-push.sh", "refused", 0.1, reason="it would push with --force"),
            _hook("Stop", "pytest -q tests/tokens", "failed", 12.2, reason="exit code 1: 2 failed, 18 passed"),
        ]},
    }}  # fmt: skip
    told = {"decided": "A used token ends its whole family", "learned": "expires_at is naive in tokens/lookup.py"}
    closing = Closing("done", learned=tuple({"kind": kind, "text": text} for kind, text in told.items()))
    recovery.collect(state, closing, seeding.now())
    recovery.fixed(state, "The family ended before its last token was used", "Both in one transaction", seeding.now())
    for at, choice, kind, why in DECIDED:
        entry = {"kind": kind, "choice": choice, "why": why, "by": "engine", "step": at, "at": seeding.now(400)}
        state.decisions.append({**entry, "confidence": 88.0, "seq": len(state.decisions) + 1})
    found = seeding.save(state)
    seeding.team.adjust_workflow("use tier 3", found)
    seeding.team.adjust_workflow("confidence: 85", found)
    return found


def _built(seeding: Seeding) -> str:
    names: dict[StepId, str] = {
        1: "Discover the agent's purpose", 2: "Write its persona", 3: "Build its menu",
        "gate-parallel_bmb_validation": "Parallel validation",
    }  # fmt: skip
    state = seeding.begun(BUILT, "/bmad:bmb:workflows:create-agent", names, 3, "An agent that keeps the changelog.")
    result = {"label": "08a", "name": "Frontmatter", "status": "issues", "summary": "1 major issue", "detail": None,
              "findings": [{"severity": "major", "title": "The icon is missing"}]}  # fmt: skip
    passed = {**result, "label": "08b", "name": "Persona", "status": "passed", "summary": "nothing", "findings": []}
    state.examinations = {"parallel_bmb_validation": {"rounds": [], "now": {"round": 1, "digest": "d", "validators": {
        "08a": {"name": "Frontmatter", "status": "completed", "attempts": 1, "result": result},
        "08b": {"name": "Persona", "status": "completed", "attempts": 1, "result": passed},
        "08c": {"name": "Menu", "status": "in_progress", "attempts": 2},
        "08d": {"name": "Structure", "status": "in_progress", "attempts": 1},
        "08e": {"name": "Sidecar", "status": "pending"},
        "08f": {"name": "Cross-references", "status": "pending"},
    }}}}  # fmt: skip
    return seeding.save(state, {menu_rate.KEY: {"paused_at": seeding.now(30), "count": 5}})


def _looped(loop: Loop, *found: Sequence[str]) -> Loop:
    for errors in found:
        loop, _ = loop_back_handler.validated(loop, errors)
    return loop


def _examined(verdict: str, summary: str, findings: Sequence[Finding]) -> Examined:
    return Examined(verdict if findings else APPROVE, summary, tuple(findings))


def party() -> Party:
    """A discussion of three rounds that ends in consensus."""
    held = Party(
        "stall", SIMULATED, "The same race is found in each review. How is it to be fixed?", step="gate-code_review",
        why="The same finding came back in two rounds of the review", voices=("Winston", "Amelia", "Murat"),
    )  # fmt: skip
    for said in SAID:
        went = party_mode_driver.heard(held, [Contribution(who, text, what, position, sure)
                                               for who, text, what, position, sure in said])  # fmt: skip
        held = went.party
    return held


def _subagent(seeding: Seeding, n: int, label: str, kind: str, role: str, model: str, status: str) -> dict[str, Any]:
    ended = None if status == "working" else seeding.now(200)
    return SubagentRecord(label, kind, role, model, f"s-{n}", status, seeding.now(300 - n), ended, 1, n=n).as_dict()


def _hook(event: str, command: str, status: str, seconds: float, **more: Any) -> dict[str, Any]:
    return {"event": event, "command": command, "status": status, "seconds": seconds, "critical": False, **more}


REVIEW = "2 reviewers: the rotation works, but two requests at once can both be given a successor"
FIRST = (
    Finding(BLOCKING, "A token that was used ends nothing when the cache is down", "src/tokens/lookup.py:88",
            "Read the family from the table where the cache does not answer", ("senior", "security")),
    Finding(MAJOR, "Two requests at once both rotate the same token", "src/tokens/rotate.py:41",
            "Take the row with SELECT … FOR UPDATE before it is replaced", ("senior",)),
    Finding(MINOR, "The log line holds the first half of the token", "src/tokens/issue.py:17",
            "Log its id", ("security",)),
)  # fmt: skip
CHECKLIST = [
    {"number": 1, "text": "Each acceptance criterion has a test", "result": "pass", "note": "", "by": ["senior"]},
    {"number": 2, "text": "The security of the changed code was judged", "result": "pass", "note": "", "by": []},
    {"number": 3, "text": "Errors and edge cases are handled, or named as missing", "result": "fail", "note": "",
     "by": ["security"]},
]  # fmt: skip
SAID = (
    (("Winston", "The table is the truth, the cache is not. **Lock the row.**", "Lock the row while it is rotated",
      "Lock the row", 80.0),
     ("Amelia", "A lock serialises all devices of a person. A unique index is enough.",
      "A unique index on the successor", "Unique index", 70.0),
     ("Murat", "Whatever it is, I want a test that loses the race on purpose.", "", "", None)),
    (("Winston", "The index also catches what forgets the lock. I could live with it.",
      "A unique index on the successor", "B", 75.0),
     ("Amelia", "And the loser is told to ask again.", "A unique index on the successor", "B", 90.0),
     ("Murat", "With the index the race can be lost in one process: that is testable.",
      "Lock the row while it is rotated", "A", 60.0)),
    (("Winston", "Agreed.", "A unique index on the successor; the loser reads it again", "B", 85.0),
     ("Amelia", "Agreed.", "A unique index on the successor; the loser reads it again", "B", 95.0),
     ("Murat", "Agreed: the test holds two sessions and lets both rotate.",
      "A unique index on the successor; the loser reads it again", "B", 90.0)),
)  # fmt: skip
DECIDED = (
    (1, "C", "menu", "the step marks C as the way on"),
    (3, "fix", "fix", "2 tests fail; the maker fixes them before others look at it"),
    ("gate-code_review", "changes_requested", "examination", REVIEW),
)
