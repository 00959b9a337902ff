"""`interlock run`, `work` and `demo`: a plan, or whatever is to be done, done by a team of agents."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

import interlock
from interlock.app.demonstration import Sabotage, materialise
from interlock.app.team import Team
from interlock.errors import InvalidRequest, RunnerAlive
from interlock.model.driving import Stop, Update
from interlock.model.plan import PLAN_FILES, PlannedTask, StagedPlan
from interlock.model.report import TeamReport, as_text
from interlock.model.task import FINAL
from interlock.model.text import count, named
from interlock.surfaces.cli import words
from interlock.surfaces.cli.board import HeardLines, Lines, TaskBoard, ToldBoard, View, line_for
from interlock.surfaces.cli.call import Call, server_at, verb
from interlock.surfaces.cli.caller import choose_team
from interlock.surfaces.cli.plan import AGENT, is_goal, plan_here, propose, run_line, shown, write
from interlock.surfaces.cli.question import answer_questions

HINT = "Ctrl-C: finish current tasks and stop. Twice: stop now."
WATCHING = "already running in another process; watching (Ctrl-C detaches)"
LEFT = "no longer watching"
"""Why `drive` ended where another runner drives the team and continues."""


@verb("run", example="interlock run plan.yaml\ninterlock run plan.yaml --unattended --until 07:00")
@click.argument("plan", metavar='PLAN|"GOAL"', required=False)
@click.option("--unattended", is_flag=True, help="Never prompt; questions wait.")
@click.option("--until", metavar="HH:MM", help="Start nothing new from then on (local time).")
@click.option("--dry-run", is_flag=True, help="Show what would be created and changed; change nothing.")
@click.option("--redo", metavar="KEY", multiple=True, help="Do this finished task again; may be repeated.")
@click.option("--new", is_flag=True, help="Start the whole plan over.")
@click.option("--take-over", is_flag=True, help="Replace a runner on another machine that is gone for good.")
@click.option("--parallel", type=click.IntRange(1, 100), metavar="N", help="How many tasks may run at once.")
@AGENT
@click.option("--yes", is_flag=True, help="With a GOAL: start the proposed plan without asking.")
def run(
    call: Call,
    plan: str | None,
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

    PLAN is by default the plan.yaml, else the plan.yml, of this directory. Given a GOAL, an agent drafts a plan; it is
    shown and saved, and starts only after you confirm.

    Running a plan again continues it: done stays done, new tasks are added, changed ones that nobody started are
    updated. Exit code 0 when every task is done; 1 also where nothing was run though the files have changed since a
    command of the plan ran.
    """
    named, plan = plan is not None, plan or plan_here()
    if not named and not os.path.exists(plan):
        files = " and no ".join(PLAN_FILES)
        raise click.UsageError(f'Name a plan, or say a "GOAL": there is no {files} here. `interlock init` writes one.')
    if not os.path.exists(plan):
        found = _from_goal(call, plan, agent, ask=not (dry_run or (yes and not unattended)))
        if found is None:
            return 1
        plan = found
    ends = None if until is None else _moment(until)
    staged = call.home.stage(plan, team=call.asked.team, redo=redo, new=new, dry_run=dry_run)
    return run_staged(
        call, staged, unattended=unattended, dry_run=dry_run, until=ends, parallel=parallel, take_over=take_over,
        path=plan,
    )  # fmt: skip


def run_staged(
    call: Call,
    staged: StagedPlan,
    *,
    unattended: bool,
    dry_run: bool,
    until: float | None = None,
    parallel: int | None = None,
    take_over: bool = False,
    stories: bool = False,
    path: str | None = None,
) -> int:
    """Run a plan that was staged, from the file `path` or of `stories`, offer its questions, and show the report.

    Returns:
        The exit code.
    """
    left_alone, notes = _left_alone(staged), [f"  ! {words.clean(note)}" for note in staged.notes]
    if dry_run:
        call.answer(staged.as_dict(), changes(staged))
        return 0
    if left_alone or notes:
        call.note([*left_alone, *notes])
    attended = not unattended and not call.json and sys.stdin.isatty() and sys.stdout.isatty()
    if attended and staged.to_ask and not click.confirm("Continue and leave those as they are?", default=True):
        return 1
    team = call.home.team(staged.team)
    if team.setting("unattended")[0] != unattended:
        team.configure({"unattended": True if unattended else None})
    for note in _refused_unattended(team) if unattended else ():
        call.note(f"  ! {words.clean(note)}")
    if staged.time_limit is not None:
        until = min(time.time() + staged.time_limit, until or float("inf"))
    began = next((one.at for one in team.latest(limit=1)), None) if stories else None
    answered, worked_on = False, set[str]()
    with call.home.notices(team.name), call.home.telemetry(team.name):  # people who look elsewhere
        while True:
            reason = drive(
                call,
                team,
                parallel=parallel or staged.parallel,
                until=until,
                take_over=take_over,
                hear=lambda update: worked_on.add(update.task_id),
                limits=staged.limits,
                only=staged.only,
            )
            if reason != "finished" or not attended or not answer_questions(call, team):
                break
            answered = True
    if stories:
        call.home.settle_stories(team.name)
    # Whoever answered here has done something: the runner that looked once more and found nothing says nothing of it.
    path = None if answered or worked_on - {""} else path
    return finish(call, team, reason, planned=stories, only=staged.only, path=path, since=began)


def _refused_unattended(team: Team) -> Iterator[str]:
    """What agents would ask for where nobody is there, and what to set before the night so that it is not refused."""
    asking: dict[str, list[str]] = {}
    for member in team.members():
        if member.agent not in (None, "shell", "command"):
            asking.setdefault(member.permissions or str(team.setting("permissions")[0]), []).append(member.name)
    if careful := asking.get("ask"):
        yield (
            f"nobody is there to be asked: whatever {', '.join(careful)} would ask for is refused, changing files as "
            "well. `permissions: workspace` below a member in the plan allows that in its working directory"
        )
    working = [*asking.get("workspace", ()), *asking.get("unattended", ())]
    if working and not str(team.setting("allowed_commands")[0]).strip():
        yield (
            f"nobody is there to be asked: commands that {', '.join(working)} would ask for are refused. Name those "
            f'that may run: `interlock config set allowed_commands "pytest" --team {team.name}`'
        )


def changes(staged: StagedPlan) -> list[str]:
    """What is done, or would be, about each task of a plan."""
    marked = (("+", staged.new), ("~", staged.updated), ("↻", staged.redo))
    lines = [f"  {mark} {task.key:<16} {words.clean(task.subject)}" for mark, tasks in marked for task in tasks]
    lines += [f"  - {task.key:<16} {task.task_id} is cancelled" for task in staged.removed_open]
    lines += _left_alone(staged)
    same = [f"  {len(staged.unchanged)} unchanged"] if staged.unchanged else []
    return [*(lines or ["Nothing to create or change."]), *same, *(f"  ! {words.clean(note)}" for note in staged.notes)]


@verb("work", example="interlock work --team alpha --members ada,ben --labels gpu,linux")
@click.option(
    "--parallel", type=click.IntRange(1, 100), metavar="N", help="How many tasks of the team may run at once."
)
@click.option("--url", metavar="URL", help="The home to work for, on whatever machine [default: INTERLOCK_URL].")
@click.option("--token", metavar="TOKEN", help="For --url. INTERLOCK_TOKEN is seen by fewer.")
@click.option("--members", metavar="M,…", help="Work for these members only.")
@click.option("--labels", metavar="L,…", help="What this machine offers to tasks that ask for it, such as gpu,linux.")
@click.option("--name", metavar="NAME", help="What `interlock workers` calls it [default: the machine's name].")
def work(
    call: Call, parallel: int | None, url: str | None, token: str | None, members: str | None, labels: str | None,
    name: str | None,
) -> None:  # fmt: skip
    """Let the team's agents do its tasks, and wait for new ones until stopped.

    Abandoned tasks are resumed, also in a team of people and joined programs alone.
    Several of these may run at once in one team, beside one `interlock run`. Ctrl-C finishes current tasks and stops.
    For a home elsewhere they are done in a clone of this machine's own, and come to that home as branches.
    """
    stop = Stop()
    if url is not None or call.home.elsewhere:
        with server_at(url, token) as server, call.home_of_this_machine() as home:
            team = server.team(call.asked.team or choose_team(server, reads=True))
            said = HeardLines(lambda line: click.echo(line, err=call.json))
            with _interruptible(stop, said):
                reason = interlock.work(
                    team, home=home.path, name=name, labels=_words(labels) or (), members=_words(members),
                    parallel=parallel or 1, stop=stop, on_update=said.heard,
                )  # fmt: skip
        call.answer({"team": team.name, "ended": reason}, f"{team.name}: no longer working, {reason}.")
        return
    team = call.team()
    if not any(member.agent and member.role == "member" for member in team.members()):
        call.note(f"No member of {team.name} has an agent: only abandoned tasks are resumed.")
    with view_of(call, team, HINT) as view, _interruptible(stop, view):
        reason = call.home.drive(
            team.name, parallel=parallel, stop=stop, on_update=view.heard, endless=True, idle=True, name=name,
            labels=_words(labels), members=_words(members),
        )  # fmt: skip
    call.answer({"team": team.name, "ended": reason}, f"{team.name}: no longer working, {reason}.")


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word for word in text.replace(",", " ").split() if word]


def _files(directory: str) -> list[str]:
    try:
        return os.listdir(directory or ".")
    except OSError:
        return []


def _from_goal(call: Call, goal: str, agent: str | None, *, ask: bool) -> str | None:
    """The path of a plan that an agent proposed, checked and shown; `None` if it is not to be started."""
    if not is_goal(goal):
        from difflib import get_close_matches  # slow to load, and needed for a typing error only

        directory = os.path.dirname(goal)
        here = [one for one in _files(directory) if one.endswith((".yaml", ".yml", ".json"))]
        near = get_close_matches(os.path.basename(goal), here, n=1, cutoff=0.7)
        hint = f"Did you mean {os.path.join(directory, near[0])}?" if near else "`interlock init` writes one."
        raise InvalidRequest(f"{goal} was not found. {hint}", path=goal)
    if ask and (call.json or not (sys.stdin.isatty() and sys.stdout.isatty())):
        raise InvalidRequest(
            "A plan that an agent proposes is started when a person has seen it, and there is no terminal here. "
            f"`interlock plan {goal!r} -o PLAN.yaml` writes it to look at; --yes starts it unseen, but not unattended."
        )
    path = call.home.plan_path(goal, os.getcwd())
    text = propose(call, goal, agent, path)
    write(path, text)
    wrote = f"wrote {words.strong(os.path.relpath(path))}"
    click.echo("\n".join([*shown(call, text, path), "", wrote]), err=call.json)
    if ask and not click.confirm("Start it?", default=False):
        call.say(f"Nothing was started. `{run_line(call, path)}` does.")
        return None
    return path


def drive(
    call: Call,
    team: Team,
    *,
    view: Callable[[str], View] | None = None,
    hear: Callable[[Update], None] = lambda update: None,
    **how: Any,
) -> str:
    """Drive the team, or watch the runner that does already, behind a board; return why it ended.

    Args:
        view: makes another board than that of all tasks, with a hint at its foot.
        hear: hears what the agents say, too.
        how: passed to `Home.drive`.
    """
    stop = Stop()
    opened = view or (lambda hint: view_of(call, team, hint))
    with opened(HINT) as shows:

        def heard(update: Update) -> None:
            shows.heard(update)
            hear(update)

        with _interruptible(stop, shows):
            try:
                return call.home.drive(team.name, stop=stop, on_update=heard, **how)
            except RunnerAlive as error:
                if error.details.get("elsewhere"):
                    raise  # Nobody here can tell when that one ends.
    with opened(WATCHING) as shows, _signals(lambda number: stop.request("interrupted", now=True)):
        if not is_lively(call):
            shows.tell(WATCHING)
        while not stop.soft:
            if not call.home.driven(team.name):
                return "finished"
            time.sleep(0.25)
    return LEFT


def finish(
    call: Call, team: Team, reason: str, *, planned: bool = False, only: Sequence[str] | None = None,
    brief: bool = False, path: str | None = None, since: str | None = None,
) -> int:  # fmt: skip
    """Show the report of what was done `since`, with `brief` only where something is not done; 0 when all, or all that
    is `planned`, is done, of which `only` those keys may count. Of a plan from the file `path` that had been done
    before, say that; 1 where what it shows is out of date."""
    most = None if call.json else words.on_screen()
    report = team.report(since, limit=most)
    states = [state for state, count in report.counts.items() if count]
    if planned:
        states = [one.state for one in team.tasks() if one.plan_key and (only is None or one.plan_key in only)]
    all_done = all(state in ("done", "cancelled", "deleted") for state in states)
    answered = [] if all_done or reason != "finished" else _answered_since(team)
    idle = path is not None and all_done and reason == "finished" and _nothing_was_run(team)
    outdated = team.outdated() if idle else []
    if call.json:
        ended = {"team": team.name, "ended": reason, "all_done": all_done, "answered_since": answered}
        call.document({**ended, "nothing_run": idle, "outdated": outdated, "report": report})
        return 0 if all_done and not outdated else 1
    if not (brief and all_done):
        call.say(as_text(report, most))
    if earlier := report.counts.get("done", 0) - report.total("done") if since else 0:
        call.say(f"{count(earlier, 'task')} had been done before: interlock report --team {team.name}")
    if reason == LEFT:
        call.say(
            f"No longer watching: the run continues. `interlock run PLAN` watches it again, `interlock stop --team "
            f"{team.name}` stops it."
        )
    elif answered:
        these = f"An answer about {', '.join(answered)} came after the run had ended. Run it again to continue."
        call.say(click.style(these, fg="yellow"))
    elif reason != "finished":
        call.say(click.style(f"The run ended early: {reason}. Run the plan again to continue.", fg="yellow"))
    elif idle:
        call.say(click.style("\n".join(_done_before(team, report, str(path), outdated)), fg="yellow"))
    return 0 if all_done and not outdated else 1


def _nothing_was_run(team: Team) -> bool:
    """Whether nobody took a task, and nothing was checked or merged, since the team's last run began."""
    found = team.latest(types=("runner.started", "task.claimed", "verify.finished", "merge.finished"), limit=1)
    return bool(found) and found[0].type == "runner.started"


def _done_before(team: Team, report: TeamReport, path: str, outdated: list[str]) -> list[str]:
    """What to know of a run in which there was nothing to do."""
    when = [f"{one.key or one.task_id} {words.ago(one.completed_at)}" for one in report.done if one.completed_at]
    plan = f"interlock run {shlex.quote(path)} --team {team.name}"
    lines = [f"Nothing was run: all of it had been done before ({named(when, 5)}). `{plan} --new` does it again."]
    if outdated:
        redo = " ".join(f"--redo {shlex.quote(key)}" for key in outdated)
        lines.append(f"The files have changed since these ran: {named(outdated, 5)}. `{plan} {redo}` runs them again.")
    return lines


def _answered_since(team: Team) -> list[str]:
    """The tasks that somebody answered a question about since the run ended, and that nobody has taken up since."""
    found: list[str] = []
    for event in team.latest(types=("runner.stopped", "question.answered")):
        if event.type == "question.answered":
            found.append(str(event.task_id))
        elif not event.payload.get("endless"):
            break
    return [id for id in dict.fromkeys(reversed(found)) if team.task(id).state == "ready"]


def is_lively(call: Call) -> bool:
    return sys.stdout.isatty() and not call.json and os.environ.get("TERM") != "dumb"


def view_of(call: Call, team: Team, hint: str) -> View:
    """The live board on a terminal, plain lines elsewhere; with --json the lines go to stderr."""
    if is_lively(call):
        return TaskBoard(team, hint)
    return Lines(team, lambda line: click.echo(line, err=call.json))


@contextmanager
def _interruptible(stop: Stop, view: View) -> Iterator[None]:
    """The first Ctrl-C stops softly, the second, or being terminated, at once."""

    def asked(number: int) -> None:
        stop.request("interrupted", now=number != signal.SIGINT)
        view.tell("stopping everything now" if stop.hard else f"stopping: {view.finishing}; Ctrl-C again stops now")

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


def _moment(text: str) -> float:
    """The next time the local clock shows `HH:MM`, in seconds since the epoch."""
    try:
        wanted = time.strptime(text, "%H:%M")
    except ValueError:
        raise InvalidRequest(f"--until takes a time of day such as 07:00, not {text!r}.", field="until") from None
    now = time.localtime()
    today = time.mktime((*now[:3], wanted.tm_hour, wanted.tm_min, 0, *now[6:8], -1))
    return today if today > time.time() else today + 86_400


def _changed(task: PlannedTask) -> str:
    """What to know of a task that is no longer as its plan has it."""
    redo = f"`--redo {task.key}`"
    if task.state in (*FINAL, "deadletter"):
        return f"{task.key} changed in the plan after {task.task_id} had ended ({task.state}); {redo} runs it again"
    return f"{task.key} changed in the plan, but {task.task_id} goes on as it began; {redo} runs it again afterwards"


def _left_alone(staged: StagedPlan) -> list[str]:
    lines = [f"  ! {_changed(task)}" for task in staged.changed_started]
    lines += [
        f"  ! {task.key} is no longer in the plan, but {task.task_id} is {task.state}; it is left as it is"
        for task in staged.removed_started
    ]
    return lines


ABOUT = """Three agents release a small project: ten tasks that depend on each other.
The agents are scripts, so no model is needed. All else is real.
  ada   runs commands: lint, tests, package
  ben   fixes a bug; halfway through we kill him, with SIGKILL
  cleo  writes the changelog, and says she is done when she is not
"""


@verb("demo", example="interlock demo\ninterlock demo --keep ./demo   # to look around afterwards")
@click.option("--keep", metavar="DIR", help="Work in this new directory and leave it there.")
def demo(call: Call, keep: str | None) -> int:
    """See the main job at work in under a minute: no keys, no server, nothing left behind.

    The agents are scripts. One is killed with SIGKILL in the middle of its task, which starts again. One lies about its
    result; `verify` catches it, and it has to do the work after all. Both are told while they happen.
    """
    directory = os.path.abspath(keep) if keep else tempfile.mkdtemp(prefix="interlock-demo-")
    started = time.monotonic()
    try:
        plan = materialise(directory)
        # A home of its own: the demo leaves no trace among the user's teams.
        call.asked.home = os.path.join(directory, "home")
        staged = call.home.stage(plan)
        call.note(ABOUT)
        team = call.home.team(staged.team)
        sabotage = Sabotage(team)

        def view(hint: str) -> View:
            if is_lively(call):
                return ToldBoard(team, hint, sabotage.line)
            return Lines(team, partial(click.echo, err=call.json), lambda one: sabotage.line(one) or line_for(one))

        reason = drive(call, team, view=view, parallel=staged.parallel, hear=sabotage.heard)
        code = finish(call, team, reason, brief=is_lively(call))
        where = "on the right" if is_lively(call) else "above"
        call.note(
            f"\nThat took {time.monotonic() - started:.1f} s; each result {where} is backed by a command that ran."
        )
        if keep:
            call.note(f"Look around: {directory}/project\n             interlock --home {directory}/home report")
        else:
            call.note("Next: `interlock init` in a project of yours, then `interlock run plan.yaml`.")
        return code if sabotage.killed else 1
    finally:
        call.close()
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
