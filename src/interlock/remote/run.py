"""One run that was offered to this worker, from its checkout to its last report."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from interlock.agents.session import McpServer, Permission, Update
from interlock.app.team import Team
from interlock.errors import (
    AnswerLost,
    CommitUnknown,
    Conflict,
    Forbidden,
    InterlockError,
    LedgerBusy,
    LedgerUnusable,
    NotFound,
    ServerUnreachable,
    StorageError,
)
from interlock.model.evidence import NOT_STARTED, ended
from interlock.model.json import Json
from interlock.model.team import Member
from interlock.model.text import plain, stuck
from interlock.model.worker import PIECE_BYTES, SAID_AT_ONCE, RefusedPermission, WorkOffer, WorkStep
from interlock.processes import ancestry
from interlock.remote.checkout import Checkout, place_of
from interlock.runner.completion import read_outcome
from interlock.runner.environment import allowed_environment, command_directory
from interlock.runner.executor import Execution, Executor, Job, Result, failed
from interlock.runner.job import our_server
from interlock.runner.permissions import SHOWN_CHARS, command_of, judge, pick
from interlock.runner.prompt import refused_elsewhere, repeating_prompt
from interlock.runner.run_processes import session_token
from interlock.runner.turns import REFUSALS_TOLD, TurnProgress, then
from interlock.runner.usage import UsageMeter
from interlock.runner.verify import BASELINE_SECONDS, Evidence, run_check
from interlock.storage.away import goes_on

Value = TypeVar("Value")
REFUSALS = (Conflict, NotFound, Forbidden)
"""How the home says that a run is not this worker's any more."""
UNREACHED = (LedgerBusy, LedgerUnusable, ServerUnreachable, CommitUnknown, AnswerLost, StorageError, OSError)
"""The home, or what has its ledger, could not be asked, or its answer was lost: it is asked again, and does nothing
twice. A ledger of a newer version is asked again, too: its servers are upgraded one after the other."""
PAUSE = 1.0
MOST_REFUSED = 50  # permissions that one report tells of
URL, TOKEN = "INTERLOCK_URL", "INTERLOCK_TOKEN"
"""How a run's programs reach the team; its checks act for nobody, and do not."""


class OfferedRun:
    """A run under way. `lost`: it counts no more; `over`: the home has, or is being told, its end."""

    def __init__(
        self, team: Team, offer: WorkOffer, root: str, hear: Callable[[Update], None], url: str | None = None
    ) -> None:
        self.offer = offer
        self._said: list[str] = []
        self._meter = UsageMeter()
        self._refused: list[RefusedPermission] = []
        self._told_refused = 0
        self._stuck: list[Json] = []
        self._warned = False
        self._progress: TurnProgress | None = None
        self._repeats = anyio.Event()
        self._before: Evidence | None = None
        self._looked_before = anyio.Event()
        self.lost = False
        self.over = False
        self.stopped = False
        self._team = team
        self._hear = hear
        self._root = root
        self._url = url
        self._execution: Execution | None = None
        self._scope = anyio.CancelScope()

    async def lose(self) -> None:
        """It was taken from this worker: end its programs; what it has done is delivered, and not reported."""
        self.lost = True
        await self._end()

    async def stop(self) -> None:
        """End it and give it back."""
        self.stopped = True
        await self._end()

    async def pause(self) -> None:
        """End its turn, which is over a limit, and report; the home says what follows."""
        if self._execution is not None:
            await self._execution.cancel()

    async def _end(self) -> None:
        if self._execution is not None:
            await self._execution.cancel()
        else:
            self._scope.cancel()

    async def carry_out(self, executor_for: Callable[[Member], Executor]) -> None:
        """Work until the home says that the run has ended, or is lost. Raises nothing but cancellation."""
        offer = self.offer
        place: Checkout | None = None
        goes_on.set(lambda: not (self.lost or self.stopped))
        try:
            place = await anyio.to_thread.run_sync(Checkout, self._root, offer)
            with self._scope:
                await self._carry_out(place, executor_for)
        except REFUSALS as error:
            self.lost = True
            self._say(f"not taken: {error.message}")
        except Exception as error:  # boundary: whatever goes wrong in here concerns this one run
            await self._failed(error)
        if place is None:
            return
        try:
            if self.lost or self._scope.cancelled_caught:
                await self._deliver(place)
            await anyio.to_thread.run_sync(place.remove)
        except (InterlockError, OSError) as error:  # It stays, and is delivered by the next start.
            self._say(f"its branch could not be delivered: {error}")

    async def _carry_out(self, place: Checkout, executor_for: Callable[[Member], Executor]) -> None:
        offer = self.offer
        missing, have = await anyio.to_thread.run_sync(place.missing)
        if missing:
            ask = partial(self._team.work_objects, offer.task_id, offer.session, missing, have)
            with place.receiving() as file:
                while piece := await self._patiently(partial(ask, start=file.tell())):
                    file.write(piece)
        await anyio.to_thread.run_sync(place.prepare, missing)
        executor = executor_for(hired(offer))
        if executor.lasts(offer.kind):
            self._progress = TurnProgress(place.directory, offer.repeated_calls)
        job = self._job(place, executor.variables)
        if offer.setup is not None:
            setup = await self._check(job, offer.setup, offer.setup_timeout)
            if not setup.passed:
                permanent = ended(setup.as_dict()) == NOT_STARTED
                said = f"the setup of its worktree, `{offer.setup}`, {ended(setup.as_dict())}:\n\n{setup.tail}"
                await self._report(Result("failed", "", None, said, setup.seconds, permanent=permanent))
                return
        failure: Exception | None = None
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._look_before, place, job)
            try:
                await self._turns(place, executor, job)
            except Exception as error:  # boundary: raised as it is, not as a group
                failure = error
            beside.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _turns(self, place: Checkout, executor: Executor, job: Job) -> None:
        offer = self.offer
        while True:
            result = await self._prompt(executor, job)
            if self.lost:
                return
            await self._deliver(place)
            step = await self._report(replace(result, output=result.output[-offer.output_bytes :]))
            while step.kind == "verify":
                self._say(f"checking: {step.text}")
                tree = await anyio.to_thread.run_sync(place.tree)
                found = await self._check(job, step.text, offer.verify_timeout, tree)
                with anyio.move_on_after(BASELINE_SECONDS):  # Where it hangs, that is not known of this run.
                    await self._looked_before.wait()
                tell = partial(self._team.work_checked, offer.task_id, offer.session, found, self._before)
                step = await self._told(tell)
            if step.kind == "end" or self.stopped:
                return
            job = replace(job, prompt=step.text)

    async def _look_before(self, place: Checkout, job: Job) -> None:
        """Run the check on what was there before the work, beside it."""
        offer = self.offer
        try:
            if offer.before is not None:
                job = replace(job, workdir=await anyio.to_thread.run_sync(place.before))
                run = partial(self._check, job, quiet=True)
                if offer.setup is None or (await run(offer.setup, offer.setup_timeout)).passed:
                    self._before = await run(str(offer.verify), offer.verify_timeout)
        except (InterlockError, OSError) as error:
            self._say(f"its check was not run on the tree before: {error}")
        finally:
            self._looked_before.set()

    async def _prompt(self, executor: Executor, job: Job) -> Result:
        self._execution = execution = executor.start(job)
        try:
            if self.lost or self.stopped:
                await execution.cancel()
            result = await self._turn(execution, partial(execution.run, self._updated))
            assert result is not None
            while not (self.lost or self.stopped):
                result, text = self._following(result)
                again = await self._turn(execution, partial(execution.again, text, self._updated)) if text else None
                if again is None:
                    break
                result = again
            return result
        finally:
            self._execution = None
            with anyio.CancelScope(shield=True):
                await execution.close()

    async def _turn(self, execution: Execution, turn: Callable[[], Awaitable[Result | None]]) -> Result | None:
        """A turn, which is interrupted where it only repeats itself."""
        self._repeats, result = anyio.Event(), None

        async def interrupt() -> None:
            await self._repeats.wait()
            await execution.interrupt()

        async with anyio.create_task_group() as beside:
            beside.start_soon(interrupt)
            result = await turn()
            beside.cancel_scope.cancel()
        if result is not None and self.offer.agent != "shell" and not result.permanent:
            self._meter.turn_ended(whole=result.status == "ended")  # What never started has spent nothing.
        return result

    def _following(self, result: Result) -> tuple[Result, str]:
        """How the run has ended with that turn, and what is put to the same session all the same, if anything."""
        if self._progress is not None and self._progress.repeating:
            return self._repeating(result, self._progress.repeated())
        told = self._told_refused
        # Most programs tell their model no more than that it was refused, and some end the turn for it.
        if told < min(len(self._refused), REFUSALS_TOLD) and self._says_nothing(result):
            self._told_refused = len(self._refused)
            return result, refused_elsewhere(self._refused[told:])
        return result, ""

    def _repeating(self, result: Result, found: Json) -> tuple[Result, str]:
        action = then(self.offer.when_repeating, warned=self._warned)
        self._stuck.append({"action": action, "evidence": found})
        if action == "reminded":
            self._warned = True
            return result, repeating_prompt(self.offer.task_id, found, elsewhere=True)
        said = f"repeats itself: {stuck(found)}"
        if action == "ended":
            return replace(result, status="failed", detail=said), ""
        asked = {"status": "AWAITING_RESPONSE", "output": f"{self.offer.member} {said}. What should it do?"}
        return replace(result, status="ended", output=json.dumps(asked)), ""

    def _says_nothing(self, result: Result) -> bool:
        """Whether a turn has ended well without a word on how the task stands; a reviewer is asked for its verdict."""
        return result.status == "ended" and not self.offer.review and read_outcome(plain(result.output)) is None

    async def _report(self, result: Result) -> WorkStep:
        offer = self.offer
        result = replace(result, spent=self.spent(), refused=self._refused, stuck=self._stuck)
        self._refused, self._stuck, self._told_refused = [], [], 0
        return await self._told(
            partial(self._team.work_reported, offer.task_id, offer.session, offer.base, result, self.unsaid())
        )

    async def _told(self, verb: Callable[[], WorkStep]) -> WorkStep:
        """Tell the home how something has ended. It may take the run from its list before we hear its answer."""
        self.over = True
        step = await self._patiently(verb)
        self.over = step.kind == "end"
        return step

    async def _failed(self, error: Exception) -> None:
        try:
            await self._report(failed(error))
        except InterlockError as again:
            self._say(f"its end could not be reported: {again.message}")

    async def _deliver(self, place: Checkout) -> None:
        if self.offer.review:
            return
        head = await anyio.to_thread.run_sync(place.commit)
        if self.lost and head == self.offer.base:
            return  # There is nothing to keep.
        for piece in deliveries(self._team, place, head):
            await self._patiently(piece)

    async def _check(
        self, job: Job, command: str, timeout: float, tree: str | None = None, *, quiet: bool = False
    ) -> Evidence:
        own, beside = tokens(self.offer)
        environment = {name: value for name, value in job.environment.items() if name not in (URL, TOKEN)}
        return await run_check(
            command, workdir=job.workdir, environment=environment, timeout=timeout,
            output_bytes=job.output_bytes, stop_grace=job.stop_grace, secrets=job.secrets,
            token=beside if quiet else own, on_line=(lambda line: None) if quiet else self._checking, tree=tree,
        )  # fmt: skip

    async def _patiently(self, verb: Callable[[], Value]) -> Value:
        """The answer of the home, which is asked again while it cannot be reached, or is busy."""
        away = ""
        while True:
            try:
                return await anyio.to_thread.run_sync(verb)
            except UNREACHED as error:
                if self.stopped:
                    raise
                if str(error) != away:
                    away = str(error)
                    self._say(f"asking again: {away}")
            await anyio.sleep(PAUSE)

    def _job(self, place: Checkout, needed: tuple[str, ...]) -> Job:
        offer, (token, _) = self.offer, tokens(self.offer)
        own = {
            "INTERLOCK_TEAM": offer.team, "INTERLOCK_MEMBER": offer.member, "INTERLOCK_TASK": offer.task_id,
            "INTERLOCK_RUN": str(offer.number), ancestry.RUN_TOKEN: token,
        }  # fmt: skip
        mcp: tuple[McpServer, ...] = ()
        if self._url is not None and offer.token is not None:
            own |= {URL: self._url, TOKEN: offer.token, "INTERLOCK_SESSION": offer.session}
        environment, hidden = allowed_environment(os.environ, names=[*offer.env, *needed], extra=own)
        if TOKEN in own:
            bin = command_directory(self._root)
            environment["PATH"] = os.pathsep.join([bin, environment.get("PATH", os.defpath)])
            mcp = () if offer.agent == "shell" else (our_server(offer.team, offer.member, bin, own),)
        return Job(
            team=offer.team, task_id=offer.task_id, run_id=offer.run_id, member=offer.member,
            session_id=offer.session, prompt=offer.prompt, command=offer.run, workdir=place.directory,
            environment=environment, log=os.path.join(place.place, "output.log"), time_limit=offer.time_limit,
            stop_grace=offer.stop_grace, output_bytes=offer.output_bytes, secrets=hidden, model=offer.model,
            permit=self._permit, kind=offer.kind, mcp=mcp,
        )  # fmt: skip

    async def _permit(self, permission: Permission) -> str | None:
        """Nobody is here to be asked: what the member's policy does not allow is refused."""
        offer = self.offer
        decided = judge(offer.permissions, permission, place_of(self._root, offer), offer.commands.splitlines())
        if decided.verdict != "allow" and len(self._refused) < MOST_REFUSED:
            why = decided.why if decided.verdict == "refuse" else f"{decided.why}, and nobody is there to be asked"
            title = plain(command_of(permission) or permission.title)[:SHOWN_CHARS]
            self._say(f"was refused: {title} ({why})")
            paths = [one[:SHOWN_CHARS] for one in permission.paths[:MOST_REFUSED]]
            self._refused.append(RefusedPermission(permission.kind, title, paths, why))
        return pick(permission.choices, allow=decided.verdict == "allow")

    def _updated(self, update: Update) -> None:
        if update.kind == "text":
            self._said.append(update.text if update.text.endswith("\n") else f"{update.text}\n")
        self._meter.hear(update)
        if self._progress is not None:
            self._progress.hear(update)
            if self._progress.repeating:
                self._repeats.set()
        self._hear(replace(update, text=plain(update.text), member=self.offer.member, task_id=self.offer.task_id))

    def _checking(self, line: str) -> None:
        self._hear(Update("text", plain(line), member=self.offer.member, task_id=self.offer.task_id))

    def unsaid(self, most: int = SAID_AT_ONCE) -> str:
        """What it has printed since the last call, the end of it."""
        said, self._said = "".join(self._said), []
        return said[-most:]

    def spent(self) -> dict[str, float] | None:
        """What it has used so far; None of a command, which uses nothing."""
        return self._meter.told() if self.offer.agent != "shell" else None

    def unheard(self, said: str) -> None:
        """Take back what the home was not told after all."""
        self._said.insert(0, said)

    def _say(self, text: str) -> None:
        self._hear(Update("notice", text, member=self.offer.member, task_id=self.offer.task_id))


def deliveries(team: Team, place: Checkout, head: str) -> Iterator[Callable[[], str]]:
    """The calls that deliver a run's commits up to `head`, one for each piece of the bundle."""
    offer = place.offer
    with place.delivered(head) as file:
        piece, following = file.read(PIECE_BYTES), file.read(PIECE_BYTES)
        start = 0
        while True:
            yield partial(team.work_delivered, offer.task_id, offer.session, head, piece, start, not following)
            if not following:
                return
            start += len(piece)
            piece, following = following, file.read(PIECE_BYTES)


def tokens(offer: WorkOffer) -> tuple[str, str]:
    """The run tokens of its programs, and of those that look at what was there before, which outlive the agent."""
    own = str(session_token(offer.session))
    return own, f"{own}-before"


def hired(offer: WorkOffer) -> Member:
    """The member of that run, for who makes its executor."""
    about: dict[str, Any] = {"agent": offer.agent, "command": offer.command, "model": offer.model}
    return Member(
        name=offer.member, session_key="", inbox=offer.member, role="member", type=None, status="active", unread=0,
        permissions=offer.permissions, session=None, joined_at="", last_active_at=None, **about,
    )  # fmt: skip
