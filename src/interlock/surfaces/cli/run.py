"""`interlock run`: a plan, done by a team of agents."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import click

from interlock.client import Team
from interlock.errors import InterlockError, InvalidRequest, RunnerAlive
from interlock.runner.stop import Stop
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.plan import AGENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.agents.session import Update
    from interlock.plan.comparing import Changes
    from interlock.runner.plan_apply import StagedPlan

HINT = "Ctrl-C finishes what runs and stops; twice ends it at once"
WATCHING = "another runner drives this team; Ctrl-C stops watching, the run goes on"
LEFT = "no longer watching"
"""Why `drive` ended where another runner drives the team and goes on."""


class View(Protocol):
    """What shows a run while it lasts."""

    def heard(self, member: str, task_id: str, update: Update) -> None:
        """Something an agent said or did."""


@verb("run", example="interlock run plan.yaml\ninterlock run plan.yaml --unattended --until 07:00")
@click.argument("plan", metavar='PLAN.yaml|"GOAL"')
@click.option("--unattended", is_flag=True, help="Nobody is awake: what needs a person waits for one.")
@click.option("--until", metavar="HH:MM", help="Start nothing new from then on (local time).")
@click.option("--dry-run", is_flag=True, help="Show what would be created and changed; change nothing.")
@click.option("--redo", metavar="KEY", multiple=True, help="Do this finished task again; may be repeated.")
@click.option("--new", is_flag=True, help="Begin the whole plan again.")
@click.option("--take-over", is_flag=True, help="Take the place of a runner on another machine that is gone for good.")
@click.option("--parallel", type=click.IntRange(1, 100), metavar="N", help="Runs open at once.")
@AGENT
@click.option("--yes", is_flag=True, help="Of a GOAL: start what was proposed without asking.")
def run(
    call: Call,
    plan: str,
    unattended: bool,
    until: str | None,
    dry_run: bool,
    redo: tuple[str, ...],
    new: bool,
    take_over: bool,
    parallel: int | None,
    agent: str | None,
    yes: bool,
) -> int:
    """Run a plan with its team: members claim tasks, work, and what they did is verified.

    Of a GOAL in words an agent makes a plan first, which is shown, written, and started only when you say so.

    Running a plan again continues it: done stays done, new tasks are added, changed ones that nobody began are updated.
    Exit code 0 when every task is done.
    """
    attended = not unattended and not call.json and sys.stdin.isatty() and sys.stdout.isatty()
    if not os.path.exists(plan):
        found = _from_goal(call, plan, agent, ask=not (dry_run or (yes and not unattended)))
        if found is None:
            return 1
        plan = found
    ends = None if until is None else _moment(until)
    staged = call.home.stage(plan, redo=redo, new=new, dry_run=dry_run)
    if dry_run:
        document = {**_as_document(staged.team, staged.changes), "notes": list(staged.notes)}
        call.answer(document, [*_as_lines(staged.changes), *_noted(staged)])
        return 0
    untouched = [*_untouched(staged.changes), *_noted(staged)]
    if untouched and not call.json:
        call.say(untouched)
    if attended and staged.changes.to_ask and not click.confirm("Go on and leave those as they are?", default=True):
        return 1
    team = call.home.team(staged.team)
    if team.setting("unattended")[0] != unattended:
        team.configure({"unattended": True if unattended else None})
    if unattended and not call.json:
        call.say(_refused_tonight(team))
    limit = staged.time_limit
    if limit is not None:
        ends = min(time.time() + limit, ends or float("inf"))
    with _told(call, team.name):
        while True:
            reason = drive(
                call, team, parallel=parallel or staged.parallel, until=ends, take_over=take_over, limits=staged.limits
            )
            if reason != "finished" or not attended or not answer_questions(call, team):
                break
    return finish(call, team, reason)


def _from_goal(call: Call, goal: str, agent: str | None, *, ask: bool) -> str | None:
    """The path of a plan that an agent proposed, checked and shown; null where it is not to be started.

    Raises:
        InvalidRequest: it names a file that is not there; or nobody could be asked whether to start.
    """
    from interlock.plan.proposal import file_name
    from interlock.surfaces.cli import goal as goals

    if not goals.is_goal(goal):
        raise InvalidRequest(f"There is no plan {goal}. `interlock init` writes one.", path=goal)
    if ask and (call.json or not (sys.stdin.isatty() and sys.stdout.isatty())):
        raise InvalidRequest(
            "A plan that an agent proposes is started when a person has seen it, and there is no terminal here. "
            f"`interlock plan {goal!r} -o PLAN.yaml` writes it to look at; --yes starts it unseen, but not unattended."
        )
    path = file_name(goal, os.getcwd(), call.home.teams())
    text = goals.propose(call, goal, agent, path)
    goals.write(path, text)
    name = os.path.relpath(path)
    lines = [*goals.shown(call, text, path), "", f"wrote {click.style(name, bold=True)}"]
    click.echo("\n".join(lines), err=call.json)
    if ask and not click.confirm("Start it?", default=False):
        call.say(f"Nothing was started. `interlock run {name}` does.")
        return None
    return path


@contextmanager
def _told(call: Call, team: str) -> Iterator[None]:
    """People who look elsewhere are told what needs them."""
    from interlock.core.tokens import Tokens
    from interlock.serve.place import find, page_at

    def link() -> str | None:
        place = find(call.home.path)
        return None if place is None else page_at(place.url, Tokens(call.home.path))

    notices = call.home.notices(team, link=link)
    notices.start()
    try:
        yield
    finally:
        notices.stop(last=True)


def drive(
    call: Call,
    team: Team,
    *,
    parallel: int | None,
    until: float | None,
    hear: Callable[[str, str, Update], None] | None = None,
    take_over: bool = False,
    limits: dict[str, float] | None = None,
    hold: float | None = None,
    view: Callable[[str], AbstractContextManager[View]] | None = None,
) -> str:
    """Drive the team, or watch the runner that does already, behind a board; answers why it ended. `view` makes another
    one than that of all tasks, with a hint at its foot; `hold` is as in `Home.drive`."""
    stop = Stop()
    behind = view or (lambda hint: shown(call, team, hint))
    with behind(HINT) as view_:

        def heard(member: str, task_id: str, update: Update) -> None:
            view_.heard(member, task_id, update)
            if hear is not None:
                hear(member, task_id, update)

        with interrupted_by_signals(stop, view_):
            try:
                return call.home.drive(
                    team.name, parallel=parallel, until=until, stop=stop, on_update=heard, take_over=take_over,
                    limits=limits, hold=hold,
                )  # fmt: skip
            except RunnerAlive as error:
                if error.details.get("elsewhere"):
                    raise  # Nobody here can tell when that one ends.
    return _watch(call, team, behind)


def finish(call: Call, team: Team, reason: str) -> int:
    """Show the report; 0 when everything is done."""
    report = team.report()
    counts = report["counts"]
    all_done = all(state in ("done", "cancelled", "deleted") for state, count in counts.items() if count)
    if call.json:
        call.document({"team": team.name, "ended": reason, "all_done": all_done, "report": report})
    else:
        from interlock.core.reports.text import as_text

        call.say(as_text(report))
        if reason == LEFT:
            call.say(
                f"No longer watching: the run goes on. `interlock run PLAN` watches it again, `interlock stop --team "
                f"{team.name}` stops it."
            )
        elif reason != "finished":
            call.say(click.style(f"The run ended early: {reason}. Run the plan again to go on.", fg="yellow"))
    return 0 if all_done else 1


def lively(call: Call) -> bool:
    """Whether there is a terminal that shows something live."""
    return sys.stdout.isatty() and not call.json and os.environ.get("TERM") != "dumb"


@contextmanager
def shown(call: Call, team: Team, hint: str) -> Iterator[View]:
    """The live board on a terminal, plain lines elsewhere; with --json the lines go to stderr."""
    from interlock.surfaces.cli.board import Board, Lines

    if lively(call):
        with Board(team, hint) as board:
            yield board
    else:
        with Lines(team, lambda line: click.echo(line, err=call.json)) as lines:
            yield lines


@contextmanager
def interrupted_by_signals(stop: Stop, view: Any) -> Iterator[None]:
    """The first Ctrl-C stops softly, the second, or being terminated, at once."""

    def asked(number: int) -> None:
        stop.request("interrupted", now=number != signal.SIGINT)
        finishing = getattr(view, "finishing", "finishing what runs")
        if hasattr(view, "note"):
            view.note = "ending everything now" if stop.hard else f"{finishing}; Ctrl-C again ends it at once"
        else:
            click.echo("ending everything now" if stop.hard else f"stopping: {finishing}", err=True)

    with _signals(asked):
        yield


@contextmanager
def _signals(handle: Callable[[int], object]) -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, frame: handle(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(call: Call, team: Team, behind: Callable[[str], AbstractContextManager[View]]) -> str:
    """Another process runs this plan: show its board until it ends or we are asked to leave it alone."""
    stop = Stop()
    with behind(WATCHING) as view, _signals(lambda number: stop.request("interrupted", now=True)):
        if not hasattr(view, "note"):
            click.echo(WATCHING, err=True)
        while not stop.soft:
            if not call.home.driven(team.name):
                return "finished"
            time.sleep(0.25)
    return LEFT


APPROVALS = ("approve", "approved", "y", "yes", "ok", "lgtm")
"""What people type at the prompt for a review that they approve of."""


def answer_questions(call: Call, team: Team) -> bool:
    """Offer the open questions; whether any was answered, so that the run can go on."""
    answered = False
    for question in team.questions():
        # A checkpoint that shows everything has its details in its text.
        further = [question.context] if question.context and question.context not in question.text else []
        call.say(["", click.style(question.text, bold=True), *further])
        options = f" [{' / '.join(question.options)}]" if question.options else ""
        while True:
            text = click.prompt(f"Answer{options}, or Enter to leave it", default="", show_default=False)
            if not text.strip():
                break
            if question.kind == "review" and text.strip().lower().rstrip(".!") in APPROVALS:
                text = "approve"
            try:
                call.warn(team.reply(question.task_id, text, question=question.id).warnings)
                answered = True
                break
            except InterlockError as error:
                click.secho(error.message, fg="red", err=True)
                if not isinstance(error, InvalidRequest):
                    break  # Else it is asked again: a slip of the hand must not end the run.
    return answered


def _moment(text: str) -> float:
    """The next time the local clock shows `HH:MM`, in seconds since the epoch."""
    try:
        wanted = time.strptime(text, "%H:%M")
    except ValueError:
        raise InvalidRequest(f"--until takes a time of day such as 07:00, not {text!r}.", field="until") from None
    now = time.localtime()
    today = time.mktime((*now[:3], wanted.tm_hour, wanted.tm_min, 0, *now[6:8], -1))
    return today if today > time.time() else today + 86_400


def _as_document(team: str, changes: Changes) -> dict[str, Any]:
    return {
        "team": team,
        "new": [task.key for task in changes.new],
        "updated": [change.task.key for change in changes.updated],
        "redo": [change.task.key for change in changes.redo],
        "unchanged": [change.task.key for change in changes.unchanged],
        "changed_started": [change.task.key for change in changes.changed_started],
        "removed_started": [task.key for task in changes.removed_started],
        "removed_open": [task.key for task in changes.removed_open],
    }


def _as_lines(changes: Changes) -> list[str]:
    lines = [f"  + {task.key:<16} {task.subject}" for task in changes.new]
    lines += [f"  ~ {change.task.key:<16} {change.task.subject}" for change in changes.updated]
    lines += [f"  ↻ {change.task.key:<16} {change.task.subject}" for change in changes.redo]
    lines += [f"  - {task.key:<16} {task.task_id} is called off" for task in changes.removed_open]
    lines += _untouched(changes)
    same = len(changes.unchanged)
    return [*(lines or ["Nothing to create or change."]), *([f"  {same} unchanged"] if same else [])]


def _noted(staged: StagedPlan) -> list[str]:
    return [f"  ! {words.clean(note)}" for note in staged.notes]


def _refused_tonight(team: Team) -> list[str]:
    """Told while there is still somebody who can change it."""
    asking = [one.name for one in team.members() if one.agent not in (None, "shell", "command")]
    if not asking or str(team.setting("allowed_commands")[0]).strip():
        return []
    note = (
        f"nobody is there to be asked: commands that {', '.join(asking)} would ask for are refused. Name those that "
        f'may run: `interlock config set allowed_commands "pytest" --team {team.name}`'
    )
    return [f"  ! {words.clean(note)}"]


def _untouched(changes: Changes) -> list[str]:
    lines = [
        f"  ! {change.task.key} changed in the plan, but {change.existing.task_id} is {change.existing.state} already; "
        f"`--redo {change.task.key}` does it again once it is over"
        for change in changes.changed_started
    ]
    lines += [
        f"  ! {task.key} is no longer in the plan, but {task.task_id} is {task.state}; it is left as it is"
        for task in changes.removed_started
    ]
    return lines
