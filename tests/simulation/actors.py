"""Who acts in a simulation: workers, joined agents, people and schedulers. A step is one transaction, or nearly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from interlock.core.tasks import claim, finish, review, verify
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.runner import completion
from interlock.runner import verify as checking
from interlock.runner.executor import Result
from interlock.runner.recovery_scan import RecoveryFinding
from interlock.runner.scheduler import PollReport, Scheduler
from tests.simulation.agents import Voice
from tests.simulation.world import SimulatedEyes, World

INTERVAL = 15.0
DECIDED = ("review", "blocked", "awaiting-response", "deadletter")
"""States in which a task waits for a person."""


class Actor(Protocol):
    """Somebody with a next step."""

    def step(self) -> None:
        """Take it."""

    def crash(self) -> None:
        """Its process ends, now."""


class Ghost:
    """An agent whose run is over, for all others; it speaks a few more times."""

    def __init__(self, voice: Voice, times: int) -> None:
        self._voice = voice
        self.left = times

    def step(self) -> None:
        self.left -= 1
        self._voice.speak()

    def crash(self) -> None:
        self.left = 0


class Worker:
    """A runner's worker for one member, as `runner.worker` does it, with a scripted program."""

    def __init__(self, world: World, member: str, host: str, haunt: Callable[[Voice], None]) -> None:
        self._world = world
        self._member = member
        self._host = host
        self._haunt = haunt
        self.process = world.process(host)
        self.voice: Voice | None = None
        self._task: Task | None = None
        self._caller = Principal()
        self._stalled = 0

    def step(self) -> None:
        world = self._world
        if not world.alive[self.process]:
            if world.chance(0.3):
                self.process = world.process(self._host)
                self._task = self.voice = None
        elif world.chance(0.02):
            self.crash()
        elif self._task is None:
            self._claim()
        elif self._stalled:
            self._stalled -= 1
        elif world.ended.get(f"{self._task.id}.{self._task.run}"):
            self._settle("killed")
        elif self._task.verifying is not None:
            self._decide()
        elif world.chance(0.05):
            self._stalled = world.rng.randrange(5, 60)
        elif world.chance(0.3):
            self._beat()
        elif world.chance(0.2):
            self._settle(world.rng.choice(["ended", "ended", "ended", "failed", "timeout", "cancelled", "capacity"]))
        elif self.voice is not None:
            self.voice.speak()

    def crash(self) -> None:
        """The runner dies; its program may live on."""
        self._world.say(f"{self._member}: its runner dies")
        self._world.fault("its process dies")
        self._world.alive[self.process] = False
        if self.voice is not None:
            self._haunt(self.voice)
        self._task = self.voice = None

    def _claim(self) -> None:
        self._caller = Principal(self._member, f"run:{self._world.token()}", face="runner", process=self.process)
        task = self._world.attempt(self._member, "pulls", self._pull)
        if task is None:
            return
        self._task, self._caller.run = task, task.run
        if task.state == "in-progress":  # A reviewer says what it has to say at its end.
            self.voice = Voice(self._world, self._member, str(self._caller.session), task, self._world.process())

    def _pull(self) -> Task | None:
        workspace = self._world.workspace()
        with workspace.act(self._caller) as act:
            parallel = int(act.settings.get("parallel"))
            found = review.claim_review(act, runner=self.process, parallel=parallel) or claim.claim_next(
                act, shell=None, runner=self.process, parallel=parallel
            )
            open_runs = act.rows.runs.open_count()
            assert open_runs <= parallel, f"{open_runs} runs are open, the limit is {parallel}"
            return found

    def _beat(self) -> None:
        def beat() -> None:
            assert self._task is not None
            with self._world.workspace().act(self._caller) as act:
                claim.heartbeat(act, find(act.rows, self._task.id))

        self._world.attempt(self._member, "its worker beats", beat)

    def _settle(self, status: Any) -> None:
        task = self._task
        assert task is not None
        said = (
            self._world.rng.choice(["approve", "changes: not so", "I cannot say"])
            if task.state == "review"
            else "so far"
        )
        result = Result(status, said, None if status == "ended" else 1, None, 1.0)
        mark = f"{self.process}#{self._world.token()}"

        def settle() -> Task | None:
            return completion.settle(self._world.workspace(), task, self._caller, result, verifier=mark)

        current = self._world.attempt(self._member, f"{task.id}.{task.run} {status}", settle)
        if current is not None and current.verifying is not None:
            self._task = current
        else:
            self._leave()

    def _decide(self) -> None:
        task = self._task
        assert task is not None

        def decide() -> Task:
            with self._world.workspace().act(self._caller) as act:
                return verify.verified(
                    act, find(act.rows, task.id), self._world.evidence(), run=task.run,
                    verifier=str((task.verifying or {})["process"]),
                )  # fmt: skip

        current = self._world.attempt(self._member, f"has checked {task.id}.{task.run}", decide)
        if current is not None and current.state == "in-progress" and current.run == task.run:
            self._task = current
        else:
            self._leave()

    def _leave(self) -> None:
        caller = self._caller
        self._world.attempt(
            self._member, "its session ends", lambda: completion.end_session(self._world.workspace(), caller)
        )
        if self.voice is not None and self._world.chance(0.3):
            self._haunt(self.voice)
        self._task = self.voice = None


class Joined:
    """An agent with a session and a process of its own, over MCP say. It claims by hand."""

    def __init__(self, world: World, member: str, haunt: Callable[[Voice], None]) -> None:
        self._world = world
        self._member = member
        self._haunt = haunt
        self._begin()

    def _begin(self) -> None:
        self.process = self._world.process()
        self._session = f"mcp:{self._world.token()}"
        self.voice: Voice | None = None

    def step(self) -> None:
        world = self._world
        if not world.alive[self.process]:
            if world.chance(0.1):
                self._begin()
            elif world.chance(0.1):
                self._resume()
        elif world.chance(0.02):
            self.crash()
        elif self.voice is None:
            self._take(world.chance(0.2))
        elif world.chance(0.1):
            self.voice = None  # It turns to something else, and may come back to it.
        else:
            self.voice.speak()

    def _resume(self) -> None:
        """The same agent goes on, in a process of its own again."""
        self._world.say(f"{self._member}: its program is started again, in its old session")
        self.process = self._world.process()
        if self.voice is not None:
            self.voice.process = self.process

    def crash(self) -> None:
        """Its process dies."""
        self._world.say(f"{self._member}: its program dies")
        self._world.fault("its process dies")
        self._world.alive[self.process] = False
        if self.voice is not None:
            self._haunt(self.voice)

    def _take(self, take_over: bool) -> None:
        held = [task for task in self._world.teams[0].tasks(status="in-progress") if task.owner == self._member]
        caller = Principal(self._member, self._session, face="mcp", process=self.process)

        def take() -> Task | None:
            with self._world.workspace().act(caller) as act:
                if held and take_over:
                    wanted = find(act.rows, self._world.rng.choice(held).id)
                    return claim.claim(act, wanted, take_over=True)
                return claim.claim_next(act, shell=None)

        task = self._world.attempt(self._member, "takes over" if take_over else "claims", take)
        if task is not None:
            self.voice = Voice(self._world, self._member, self._session, task, self.process)


class Person:
    """The human, who makes work, decides, and meddles; without `meddles` it only answers."""

    def __init__(self, world: World, meddles: bool = True) -> None:
        self._world = world
        self._meddles = meddles

    def step(self) -> None:
        world, team = self._world, self._world.team()
        tasks = team.tasks()
        some = world.rng.choice(tasks).id if tasks else None
        dice = world.rng.random()
        if dice < 0.35 or some is None:
            world.attempt("human", "makes work", lambda: self._create([task.id for task in tasks]))
        elif dice < 0.7:
            self.answer()
        else:
            name, verb = world.rng.choice([
                ("assigns", lambda: team.assign(some, to=world.rng.choice([None, "m0", "m1", "m2", "j0"]))),
                ("blocks", lambda: team.block(some, reason="wait")),
                ("releases", lambda: team.release(some)),
                ("cancels", lambda: team.cancel(some, cascade=world.chance(0.3)) if world.chance(0.3) else None),
                ("ends all sessions of", lambda: team.session_end() if _unverified(team) else None),
                ("deletes", lambda: team.delete(some) if world.chance(0.3) else None),
                ("pauses everything, not", lambda: team.pause(reason="lunch")),
                ("resumes everything, not", team.resume),
                ("asks to stop, not", lambda: team.request_shutdown("j0", reason="enough")),
                ("reads mail, not", lambda: [team.read(name) for name in ("m0", "j0", "lead")]),
                ("lets wait", lambda: team.depend(some, on=world.rng.choice(tasks).id)),
            ])  # fmt: skip
            world.attempt("human", f"{name} {some}", verb)

    def crash(self) -> None:
        """The command dies; the person is not told how it went."""

    def answer(self, favour: float = 0.6) -> None:
        """Decide one thing that waits for somebody."""
        world, team = self._world, self._world.team()
        waiting = [t for t in team.tasks() if t.state in DECIDED and t.verifying is None]
        if not waiting:
            return
        task = world.rng.choice(waiting)
        if task.state == "blocked":
            world.attempt("human", f"unblocks {task.id}", lambda: team.unblock(task.id))
        elif task.state == "awaiting-response":
            world.attempt("human", f"replies about {task.id}", lambda: team.reply(task.id, "the first"))
        elif task.state == "deadletter":
            world.attempt("human", f"retries {task.id}", lambda: team.retry(task.id))
        elif world.chance(favour):
            world.attempt("human", f"approves {task.id}", lambda: team.approve(task.id))
        else:
            world.attempt("human", f"rejects {task.id}", lambda: self._reject(task.id))

    def _reject(self, task_id: str) -> None:
        eyes = SimulatedEyes(self._world)
        with self._world.workspace().act(Principal()) as act:
            task = find(act.rows, task_id)
            sessions = dict(act.rows.sessions.living(str(task.owner)))
            process = sessions.get(str(task.session))
            finish.reject(act, task, "not so", author_lives=process is not None and bool(eyes.alive(process)))

    def _create(self, known: list[str]) -> Task:
        rng = self._world.rng
        return self._world.team().create_task(
            f"Task {len(known)}",
            blocked_by=rng.sample(known, min(len(known), rng.choice([0, 0, 1, 2]))),
            review=rng.choice([None, "none", "none", "human", "m1", "m2"]),
            verify=rng.choice([None, None, "check"]),
            priority=rng.choice(["critical", "high", "normal", "low"]),
        )


class Janitor:
    """A scheduler that goes on running: looks, and some time later acts on what it saw."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._eyes = SimulatedEyes(self._world)
        self._workspace = self._world.workspace()
        self._scheduler = Scheduler(self._workspace, interval=INTERVAL, probe=self._eyes, run_verify=self._take_over)
        self._process = self._world.process()
        self._found: list[RecoveryFinding] = []
        self._checking: list[tuple[Task, Run]] = []

    def step(self) -> None:
        world = self._world
        if world.chance(0.03):
            self.crash()
        elif self._checking:
            task, run = self._checking.pop()
            world.attempt(self._name, f"has checked {task.id}.{task.run}", lambda: self._decide(task, run))
        elif self._found:
            found, self._found = self._found, []
            world.attempt(self._name, f"acts on {[(one.type, one.task_id) for one in found]}", lambda: self._act(found))
        elif world.chance(0.3):
            answer = world.attempt(self._name, "polls", self._scheduler.poll)
            world.say(f"    {answer}")
        else:
            found = world.attempt(self._name, "looks", self._scheduler.look)
            self._found = found or []

    def crash(self) -> None:
        """Its process dies, and another one takes its place."""
        self._world.say(f"{self._name}: starts again")
        self._world.alive[self._process] = False
        self._begin()

    def poll(self) -> PollReport:
        """A whole poll at once, with what it has to check."""
        answer = self._scheduler.poll()
        for task, run in self._checking:
            self._decide(task, run)
        self._checking = []
        return answer

    def _act(self, found: list[RecoveryFinding]) -> None:
        self._scheduler.written_down(self._scheduler.carry_out(found))

    def _take_over(self, task: Task, run: Run) -> None:
        taken = checking.take_over(self._workspace, task, f"{self._process}#{self._world.token()}")
        if taken is not None:
            self._checking.append((taken, run))

    def _decide(self, task: Task, run: Run) -> None:
        checking.decide(self._workspace, task, self._world.evidence(), lambda: self._eyes.gone(run))


def _unverified(team: Any) -> bool:
    """Whether nothing in progress has a check, which the end of a session would run, in a real process."""
    return not any(task.verify for task in team.tasks(status="in-progress"))
