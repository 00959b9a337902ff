"""`interlock story …`: the stories of a project listed, and implemented by a team of agents."""

from __future__ import annotations

import click

from interlock.errors import InvalidRequest
from interlock.model.program import program
from interlock.model.question import reply_command
from interlock.model.story import StoryList
from interlock.model.text import count, named, spent
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import DIRECTORY, Call, verb
from interlock.surfaces.cli.run import run_staged

BUDGET = click.option(
    "--budget", metavar="B", help="What the run may use: 5 (US dollars), 200 turns, 2h; several with commas."
)
PARALLEL = click.option("--parallel", type=click.IntRange(1, 100), metavar="N", help="Done at once [default: 4].")
NOTHING_LISTED = (
    "No stories here: no stories.yaml and no sprint-status.yaml has any. The package's sprint-planning writes one: "
    "interlock workflow list"
)
MARKS = {"done": "✓", "in-progress": "▶", "in-review": "▶", "blocked": "✗"}


@verb("list", reads=True, example="interlock story list --epic 1")
@DIRECTORY
@click.option("--epic", metavar="N", help="That epic, with a digest of what became of it.")
def list_(call: Call, directory: str, epic: str | None) -> None:
    """The stories of a project in the order in which they would be done, and what each waits for."""
    found = call.home.stories(directory, call.asked.team, epic=epic)
    digest = [words.clean(line) for one in found.epics for line in one.digest if epic is not None]
    call.answer(found, [*_lines(found), *digest] or NOTHING_LISTED)


@verb("show", reads=True, example="interlock story show 1.2")
@click.argument("key")
@DIRECTORY
def show(call: Call, key: str, directory: str) -> None:
    """What a story is, what it waits for and why, and what has become of it."""
    found = call.home.story(directory, key, call.asked.team)
    one, ask = found.story, None
    if one.question is not None and one.task_id is not None:
        ask = f"{words.clean(one.asks or '')}\n  {reply_command(one.question, one.task_id, found.team)}"
    used = spent(one.usage) if one.usage else ""
    waits = [f"{key} ({words.clean(one.reasons[key])})" for key in one.waits_for]
    fields = words.fields(
        [
            ("status", one.status),
            ("epic", one.epic),
            ("waits for", "; ".join(waits)),
            ("cannot be done", words.clean(found.impossible or "")),
            ("asks", ask),
            ("answers", count(one.inputs, "answer") + " by people" if one.inputs else ""),
            ("used", used),
            ("task", f"{one.task_id}: interlock task show {one.task_id} --team {found.team}" if one.task_id else ""),
            ("file", words.clean(found.file)),
        ]
    )
    text = ["", *words.block(found.text, "  ")] if found.text else []
    call.answer(found, [f"{words.strong(one.key)}  {words.clean(one.title)}", *fields, *text])


@verb("next", reads=True, example="interlock story next")
@DIRECTORY
def next_(call: Call, directory: str) -> None:
    """The stories that could be started now."""
    found = call.home.stories(directory, call.asked.team, next=True)
    call.answer(found, _lines(found) or "No story can be started now.")


@verb("run", example="interlock story run --epic 1 --agent claude --parallel 3 --unattended")
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@DIRECTORY
@click.option("--epic", metavar="N", help="All stories of that epic.")
@click.option("--all", "everything", is_flag=True, help="All stories.")
@PARALLEL
@click.option("--agent", metavar="A", help="An agent such as claude, or a program with its arguments.")
@click.option("--reviewer", metavar="A", help="Another agent that reviews, from now on; '' for the one that develops.")
@click.option("--reviewer-model", metavar="M", help="The model of those who review, from now on; '' for any.")
@BUDGET
@click.option("--unattended", is_flag=True, help="Never prompt; questions wait.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
def run(
    call: Call,
    keys: tuple[str, ...],
    directory: str,
    epic: str | None,
    everything: bool,
    parallel: int | None,
    agent: str | None,
    reviewer: str | None,
    reviewer_model: str | None,
    budget: str | None,
    unattended: bool,
    dry_run: bool,
) -> int:
    """Implement stories: each in a worktree of its own, reviewed, verified and merged in order.

    A story that is stopped by a question holds up only those that depend on it. Run again, it continues. Exit code 0
    when everything is done.
    """
    if sum((bool(keys), epic is not None, everything)) != 1:
        raise InvalidRequest("Name stories, or an epic with --epic N, or say --all.", field="keys")
    kind, command = program(agent) if agent else (None, None)
    try:
        staged = call.home.stage_stories(
            directory, keys, epic=epic, parallel=parallel, agent=kind, command=command or (), budget=budget,
            team=call.asked.team, dry_run=dry_run, reviewer=reviewer, reviewer_model=reviewer_model,
        )  # fmt: skip
    except InvalidRequest as error:
        if not error.details.get("all_done"):
            raise
        call.answer({"all_done": True, "message": error.message}, error.message)
        return 0
    return run_staged(call, staged, unattended=unattended, dry_run=dry_run, stories=True)


@verb("redo", example="interlock story redo 1.2 --unattended")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@DIRECTORY
@click.option("--agent", metavar="A", help="An agent such as claude, or a program with its arguments.")
@click.option("--unattended", is_flag=True, help="Never prompt; questions wait.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
def redo(call: Call, keys: tuple[str, ...], directory: str, agent: str | None, unattended: bool, dry_run: bool) -> int:
    """Implement stories that are done once more, on what there is now; their records and files stay."""
    kind, command = program(agent) if agent else (None, None)
    staged = call.home.stage_stories(
        directory, keys, agent=kind, command=command or (), team=call.asked.team, dry_run=dry_run, redo=True
    )
    return run_staged(call, staged, unattended=unattended, dry_run=dry_run, stories=True)


@verb("sweep", example="interlock story sweep --agent claude --unattended")
@click.argument("tasks", metavar="[TASK]...", nargs=-1)
@DIRECTORY
@PARALLEL
@click.option("--agent", metavar="A", help="An agent such as claude, or a program with its arguments.")
@BUDGET
@click.option("--unattended", is_flag=True, help="Never prompt; questions wait.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
def sweep(
    call: Call, tasks: tuple[str, ...], directory: str, parallel: int | None, agent: str | None, budget: str | None,
    unattended: bool, dry_run: bool,
) -> int:  # fmt: skip
    """Do what builds have found and left to others: all of it, or the tasks that are named.

    Each is built, reviewed, verified and merged like a story. `interlock story list` says how many there are.
    """
    kind, command = program(agent) if agent else (None, None)
    staged = call.home.stage_sweep(
        directory, tasks, parallel=parallel, agent=kind, command=command or (), budget=budget, team=call.asked.team,
        dry_run=dry_run,
    )  # fmt: skip
    return run_staged(call, staged, unattended=unattended, dry_run=dry_run, stories=True)


@verb("plan", example="interlock story plan --agent claude\ninterlock story plan --accept")
@DIRECTORY
@click.option("--agent", metavar="A", help="Ask this agent, such as claude, or a program with its arguments.")
@click.option("--accept", is_flag=True, help="Go by what is proposed from now on.")
@click.option("--drop", is_flag=True, help="Forget what is proposed.")
def plan(call: Call, directory: str, agent: str | None, accept: bool, drop: bool) -> None:
    """Have an agent propose what stories wait for of which nobody says it; accept or drop that.

    A proposal counts once it is accepted. What a story's list, file or text says, and `stories: dependencies:` in
    interlock.workflows.yaml, goes before it: change it there.
    """
    home, team = call.home, call.asked.team
    if sum((accept, drop, agent is not None)) > 1:
        raise click.UsageError("--agent, --accept and --drop exclude each other: look at a proposal before it counts.")
    if agent or not (accept or drop):
        kind, command = program(agent) if agent else (home.default_agent(), None)
        click.echo(f"asking {command[0] if command else kind} what the stories wait for …", err=True)
        found = home.propose_dependencies(directory, agent=kind, command=command or (), team=team)
    if accept or drop:
        found = home.answer_proposal(directory, accept=accept, team=team)
    said = [words.clean(line) for line in found.lines]
    next_ = [] if accept else ["Dropped."] if drop else ["Next: interlock story plan --accept, or --drop"]
    call.answer(found, [*said, *next_])


def _lines(found: StoryList) -> list[str]:
    lines: list[str] = []
    ends = [one.retrospective for one in found.epics if one.retrospective is not None]
    width = max((len(one.key) for one in [*found.stories, *ends]), default=0)
    for epic in found.epics:
        own = [one for one in found.stories if one.epic == epic.epic]
        own += [epic.retrospective] if epic.retrospective is not None else []
        lines += [words.strong(words.clean(f"{epic.epic}  {epic.title}"))] if own else []
        for one in own:
            waits = f"  waits for {named(one.waits_for, 3)}" if one.waits_for else ""
            waits = f"  asks {one.question}" if one.question else waits
            mark = MARKS.get(one.status, "·")
            lines.append(f"  {mark} {one.key:<{width}}  {one.status:<13} {words.clean(one.title)}{waits}")
    proposed = found.proposal.lines if found.proposal is not None and not found.proposal.accepted else ()
    left = len(found.deferred)
    return [
        *lines,
        *([f"  + {count(left, 'finding')} left by builds: interlock story sweep"] if left else []),
        *(f"  ? {words.clean(one)}" for one in proposed),
        *(f"  ! {words.clean(one)}" for one in found.faults),
    ]
