"""The reducer: what has happened decides alone, nothing is touched meanwhile, and whatever happens a run ends or waits.

That the log of a run leads to the same state once more is checked for every run of these tests (`stage.replays`).
"""

from __future__ import annotations

import ast
import copy
import inspect
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from interlock.agents.session import Turn
from interlock.workflow.agents.watch import AGENT_TIMEOUT, NESTED_TIMEOUT, WORKFLOW_TIMEOUT, Heard, Limits
from interlock.workflow.engine import effects as of
from interlock.workflow.engine import (
    evidence,
    initialization,
    menus,
    questions,
    recovery,
    reducer,
    replies,
    reviews,
    transitions,
)
from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.effects import Act, Signal
from interlock.workflow.engine.reducer import Log, reduce, replay
from interlock.workflow.entry.workflow_entry_wrapper import detect
from interlock.workflow.package import packages
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.packages import Invocation
from interlock.workflow.party import in_a_step
from interlock.workflow.preferences import application
from interlock.workflow.state.document import OUTCOMES, TERMINAL, WAITING_USER, Proof, RunPlan, WorkflowState
from tests.workflow.stage import APC, DONE, SKILL, MemoryDesk, Player, play, project, script, writes

DECIDES = (initialization, menus, questions, recovery, reducer, replies, reviews, transitions)
NOW = "2026-11-22T12:00:00.000Z"

SAID = some.sampled_from([
    f"Here is my draft.\n\n{APC}\n" + '{"step": "waiting"}',
    "Which colour should it have?",
    "Shall I go on?",
    f"Saved.\n{DONE}",
    "",
    "I have thought about it.",
    'It is wrong.\n{"step": "completed", "verdict": "FAILED", "issues": ["no title"]}',
    '{"step": "blocked", "reason": "no network"}',
    '{"step": "failed", "reason": "it broke"}',
    '{"step": "skipped", "reason": "optional"}',
    '{"step": "finished"}',
    "[D] Delete everything\n[O] Overwrite\n\nWhich one?",
])  # fmt: skip
REPLIED = some.sampled_from(["C", "retry", "skip", "stop", "blue", "continue", "use tier 3", "confirm", "reject", "P"])
TURN = some.builds(
    of.TurnEnded,
    some.builds(Heard, some.sampled_from(["end", "end", "end", "end", "failed", "silent", "cancelled"]), SAID),
    some.sampled_from([None, None, None, None, None, AGENT_TIMEOUT, NESTED_TIMEOUT, WORKFLOW_TIMEOUT]),
)


def context(root: Path, state: WorkflowState) -> Draft:
    """A run without an agent, a desk or a clock."""
    package = packages.load(str(root))
    asked = detect(SKILL, [one.key for one in package.skills])
    assert isinstance(asked, Invocation)
    skill = package.find(asked)
    assert skill is not None
    workflow = workflows.read(package, skill)
    return Draft(workflow=workflow, package=package, state=state, limits=Limits(), party=in_a_step, wishes=application)


@pytest.mark.req("BMAD-FR18", "BMAD-states")
def test_what_decides_waits_for_nothing_and_touches_nothing() -> None:
    for module in DECIDES:
        tree = ast.parse(inspect.getsource(module))
        waits = [one for one in ast.walk(tree) if isinstance(one, (ast.Await, ast.AsyncFunctionDef))]
        # A draft has no agent, no desk and no checkpoints: that none of them is touched, the type checker sees.
        assert not waits, module.__name__


@pytest.mark.req("BMAD-FR12")
def test_a_log_leads_to_the_same_state_and_another_log_to_another(tmp_path: Path) -> None:
    root = project(tmp_path / "p", 2)
    desk = MemoryDesk(answers=lambda asking: "C")
    outcome = play(root, Player(script(Turn("failed", "no network"), APC, f"Saved.\n{DONE}", DONE)), desk=desk)
    log, again = outcome.log, WorkflowState("bmm-make-plan-x", SKILL, plan=RunPlan(project=str(root), tier=1))
    run = context(root, copy.deepcopy(again))
    seen = [event for event, _ in replay(run, log)]
    assert run.state.as_dict() == outcome.state.as_dict() and outcome.state.outcome == "COMPLETED"
    turns = [place for place, event in enumerate(seen) if isinstance(event, of.TurnEnded)]
    assert len(turns) >= 4
    event, *facts = log.entries[turns[0]]
    other = Log([*log.entries[: turns[0]], (of.TurnEnded(Heard("end", "", detail="")), *facts)])
    run = context(root, again)
    effects = [effects for _, effects in replay(run, other)]
    assert event != of.TurnEnded(Heard("end", "", detail="")) and effects[-1] == () and run.state.sent is not None


@pytest.mark.req("BMAD-2b.10.4", "BMAD-FR18")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(some.data())
def test_whatever_comes_in_a_run_ends_or_waits_for_a_human(data: some.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = project(Path(directory) / "p", 3)
        tier, yolo = data.draw(some.integers(0, 4)), data.draw(some.booleans())
        plan = RunPlan(project=str(root), tier=tier, yolo=yolo, brief=data.draw(some.sampled_from(["", "A plan."])))
        run = context(root, WorkflowState("x", SKILL, plan=plan))
        ending = driven(run, data)
        assert (run.state.state, run.state.outcome) in [(TERMINAL, one) for one in OUTCOMES] or (
            (run.state.state == WAITING_USER and ending.kind == "parked") or ending.kind == "stopped"
        ), (run.state.state, ending)


def driven(run: Draft, data: some.DataObject) -> of.Ending:
    """Carry nothing out, and have anything come of it, until the run leaves its process."""
    run.at = NOW
    proven = [Proof(evidence.CHANGED, "plan.md", evidence.SEEN)]
    lacking = [Proof(evidence.CHANGED, "plan.md", evidence.MISSING, "plan.md does not exist")]
    run.observing = lambda what, look: data.draw(some.sampled_from([proven, lacking])) if what == "proofs" else look()
    todo: list[of.Event] = [Signal.TAKEN_UP]
    replies_left = 12
    for _ in range(3000):
        event = todo.pop(0) if todo else Signal.DUE
        for effect in reduce(run, event):
            match effect:
                case of.LetGo(ending):
                    return ending
                case of.SendPrompt():
                    todo.append(data.draw(TURN))
                case of.KeepCheckpoint(_, then) | of.EndStep(_, then):
                    todo.append(then)
                case of.FindFix():
                    todo.append(of.FixKnown(data.draw(some.sampled_from([None, "turn it off and on again"]))))
                case of.AdmitMenu(menu):
                    todo.append(of.MenuAdmitted(menu, data.draw(some.sampled_from([None, None, "Take your time."]))))
                case Act.AWAIT_REPLY if replies_left and data.draw(some.integers(0, 9)):
                    replies_left -= 1
                    todo.append(of.Replied(data.draw(REPLIED), "ada"))
                case Act.AWAIT_REPLY:
                    todo.append(Signal.UNANSWERED)
                case of.ChangeSession(change, after):
                    change(run.session)
                    todo += [after] if after is not None else []
                case Act.BIND:
                    todo.append(of.Bound())
                case Act.REATTACH:
                    todo.append(of.Reattached(data.draw(some.booleans())))
                case Act.OPEN_SESSION:
                    todo.append(of.SessionReady(data.draw(some.booleans()), None))
                case Act.DISCUSS:
                    party = in_a_step.rounds.of(run)
                    assert party is not None
                    todo.append(of.DiscussionEnded(replace(party, status="ended", exit_reason="error")))
                case _:
                    pass
    raise AssertionError(f"it goes on for ever: {run.state.state}")


@pytest.mark.req("BMAD-FR2")
def test_a_whole_run_is_its_events(tmp_path: Path) -> None:
    root = project(tmp_path / "p", 3)
    log = play(root, Player(writes(root))).log
    kinds = [type(event).__name__ for event, *_ in log.entries]
    assert kinds.count("TurnEnded") == 5 and kinds.count("StepOver") == 3 and log.entries[0][0] == Signal.TAKEN_UP
