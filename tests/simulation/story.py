"""One seed from its beginning to the verdict.

First everybody acts at once, in an order that the seed decides. Then whoever was at work dies, only schedulers are
left, and nothing may stay in anybody's hands. At last honest workers and a patient person come, and everything ends.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial

from interlock.core.tasks import claim, finish
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal
from interlock.doctor.invariants import faults
from interlock.model.names import HUMAN, LEAD
from interlock.model.task import FINAL
from interlock.runner.scheduler import PollReport
from tests.simulation.actors import INTERVAL, Actor, Ghost, Janitor, Joined, Person, Worker
from tests.simulation.agents import Voice
from tests.simulation.world import MEMORY, Died, World

STEPS = 220
CHECK_EVERY = 40
PATIENCE = 400
"""Rounds of honest work in which everything has to come to its end."""


def play(
    seed: int, say: Callable[[str], None] = lambda line: None, steps: int = STEPS, *, postgres: bool = False,
    disks: bool = True,
) -> Counter[tuple[str, str]]:  # fmt: skip
    """Play one seed; what it reached. `disks`: whether they fill up, which those of a server never do here.

    Raises:
        AssertionError: something that must always hold did not.
    """
    with tempfile.TemporaryDirectory(prefix="interlock-sim-", dir=MEMORY) as home:
        world = World(seed, home, say, postgres=postgres, disks=disks)
        try:
            _tell(world, steps)
            return world.reached
        finally:
            world.close()


def _tell(world: World, steps: int) -> None:
    ghosts: list[Ghost] = []

    def haunt(voice: Voice) -> None:
        ghosts.append(Ghost(voice, world.rng.randrange(1, 8)))

    workers = [
        Worker(world, "m0", "here", haunt),
        Worker(world, "m1", "far", haunt),
        Worker(world, "m2", "here", haunt),
    ]
    joined = [Joined(world, "j0", haunt), Joined(world, "j1", haunt)]
    janitors = [Janitor(world, f"scheduler {number}") for number in range(2)]
    person = Person(world)
    for number in range(steps):
        world.pass_time()
        ghosts[:] = [ghost for ghost in ghosts if ghost.left > 0]
        actor: Actor = world.rng.choice([*workers, *workers, *joined, *janitors, person, *ghosts])
        try:
            actor.step()
        except Died:
            actor.crash()
        if number % CHECK_EVERY == 0:
            check(world)
    world.safe()
    check(world)
    for one in (*workers, *joined):
        if world.alive[one.process]:
            one.crash()
    for process in world.alive:
        world.alive[process] = False
    _aftermath(world, ghosts)
    _end(world)
    check(world)
    check_results(world)
    world.look_back()


def check(world: World) -> None:
    """What holds between the rows of the ledger, whatever has happened."""
    with world.teams[0]._workspace.ledger.snapshot() as rows:  # type: ignore[attr-defined]
        found = [fault.what for fault in faults(rows)]
    assert not found, "\n".join(found)


def _aftermath(world: World, ghosts: list[Ghost]) -> None:
    """Everybody is dead, some still speak; schedulers are enough to take everything from their hands."""
    janitors = [Janitor(world, "scheduler 3"), Janitor(world, "scheduler 4")]
    for number in range(int(400 / INTERVAL)):
        world.attempt("scheduler", "polls", janitors[number % 2].poll)
        for ghost in ghosts:
            if ghost.left > 0:
                ghost.step()
        world.clock.advance(INTERVAL)
    with world.teams[0]._workspace.ledger.snapshot() as rows:  # type: ignore[attr-defined]
        for run in rows.runs.open():
            task = rows.tasks.get(run.task_id)
            assert task is not None
            # What was answered is kept for the session that asked, until somebody claims it.
            answered = task.state in ("ready", "backlog") and task.run == run.number
            held = answered or run.session.startswith("cli:") or task.state in ("blocked", "awaiting-response")
            assert held, f"{run.id} is open for ever: the task is {task.state}, run {run}"
        for task in rows.tasks.select(states=["in-progress"]):
            assert str(task.session).startswith("cli:"), f"{task.id} is held for ever by {task.session}"
        asked = {question.task_id for question in rows.questions.open()}
        for task in rows.tasks.select(states=["review"]):
            assert task.verifying is None, f"the check of {task.id} is never run"
            named = task.review not in (None, "none", HUMAN) and rows.team.member(str(task.review)) is not None
            assert named or task.id in asked, f"{task.id} is in review, and nobody knows"
    quiet = [janitor.poll() for janitor in janitors]
    assert quiet == [PollReport([], 0)] * 2, f"schedulers find no rest: {quiet}"


def _end(world: World) -> None:
    """Honest work and a patient person bring every task to its end."""
    person, janitor, team = Person(world), Janitor(world, "scheduler 5"), world.teams[0]
    for _ in range(PATIENCE):
        left = [task for task in team.tasks() if task.state not in FINAL]
        if not left:
            return
        for task in left:
            if task.state == "in-progress":
                world.attempt("human", f"takes {task.id} back", partial(team.release, task.id))
            for blocker in task.blocked_by:
                if team.task(blocker).state in ("cancelled", "deleted"):
                    free = partial(team.depend, task.id, on=blocker, remove=True)
                    world.attempt("human", f"frees {task.id}", free)
        person.answer(favour=0.9)
        _honest_work(world)
        world.attempt("scheduler", "polls", janitor.poll)
        world.clock.advance(INTERVAL)
    raise AssertionError(f"these never end: {[(task.id, task.state, task.blocked_by) for task in left]}")


def _honest_work(world: World) -> None:
    for name in ("m0", "m1", "m2", "j0", "j1", LEAD):
        world.attempt(name, "works honestly", partial(_work, world, Principal(name, f"honest:{name}")))
        world.attempt(name, "reviews honestly", partial(_review, world, Principal(name, f"honest:{name}")))


def _work(world: World, caller: Principal) -> None:
    with world.workspace().act(caller) as act:
        task = claim.claim_next(act, shell=None)
        if task is not None:
            finish.complete(act, task, verifier="nobody")


def _review(world: World, caller: Principal) -> None:
    for task in world.teams[0].tasks(status="review"):
        if task.review == caller.name and task.verifying is None and task.owner != caller.name:
            with world.workspace().act(caller) as act:
                finish.approve(act, find(act.rows, task.id))


def check_results(world: World) -> None:
    """Every result that was acknowledged has moved its task once, and none that was laid down in time was lost."""
    moves = [event for event in world.teams[0].events()[0] if event.type == "task.transitioned"]
    reasons = [str(event.payload["reason"]) for event in moves]
    for number in range(1, world.notes + 1):
        note = f"note-{number:04d}."
        hops = [reason for reason in reasons if note in reason]
        assert len(hops) <= 1, f"{note} has moved its task {len(hops)} times: {hops}"
        assert world.effects.get(note, 0) <= 1, f"{note} was acknowledged as applied {world.effects[note]} times"
    newest = {(task, run): (note, at) for task, run, note, at in world.dropped}
    for (task, run), (note, at) in newest.items():
        ended = next(one for one in world.teams[0].runs(task) if one.number == run)
        gone = ended.outcome == "reclaimed" and str(ended.reason).endswith("is gone")
        if (gone or ended.outcome == "expired") and str(ended.ended_at) >= at:
            # The last of several counts.
            said = (ended.result or {}).get("notes")
            counted = said is not None and (said != note or ended.applied is not None)
            assert counted, f"{note} was laid down for {task}.{run}, and lost: {ended}"
