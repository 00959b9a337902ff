"""`interlock story …`: the stories of a project listed, and implemented by a team of agents."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from interlock.errors import InvalidRequest
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import DIRECTORY, Call, verb
from interlock.surfaces.cli.question import answer_questions
from interlock.surfaces.cli.run import _as_lines, _warn_of_refusals, drive, finish
from interlock.surfaces.cli.team import program

MARKS = {"done": "✓", "in-progress": "▶", "in-review": "▶", "blocked": "✗"}


@verb("list", reads=True, example="interlock story list")
@DIRECTORY
def list_(call: Call, directory: str) -> None:
    """The stories of a project in the order in which they would be done, and what each waits for."""
    found = call.home.stories(directory, call.asked.team)
    call.answer(found, _lines(found) or "No stories here: there is no stories.yaml and no sprint-status.yaml.")


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
@click.option("--parallel", type=click.IntRange(1, 100), metavar="N", help="Stories implemented at once [default: 4].")
@click.option("--agent", metavar="A", help="An agent such as claude, or a program with its arguments.")
@click.option("--budget", metavar="B", help="What the run may use: 5 (US dollars), 200 turns, 2h; several with commas.")
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
    staged = call.home.stage_stories(
        directory, keys, epic=epic, parallel=parallel, agent=kind, command=command or (), budget=budget,
        team=call.asked.team, dry_run=dry_run,
    )  # fmt: skip
    notes = [f"  ! {words.clean(note)}" for note in staged.notes]
    if dry_run:
        call.answer(staged.as_dict(), [*_as_lines(staged), *notes])
        return 0
    if notes:
        call.note(notes)
    attended = not unattended and not call.json and sys.stdin.isatty() and sys.stdout.isatty()
    team = call.home.team(staged.team)
    if team.setting("unattended")[0] != unattended:
        team.configure({"unattended": True if unattended else None})
    if unattended:
        _warn_of_refusals(call, team)
    until = None if staged.time_limit is None else time.time() + staged.time_limit
    with call.home.notices(team.name):  # people who look elsewhere
        while True:
            reason = drive(call, team, parallel=staged.parallel, until=until, limits=staged.limits)
            if reason != "finished" or not attended or not answer_questions(call, team):
                break
    call.home.settle_stories(team.name)
    return finish(call, team, reason, planned=True)


def _lines(found: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    width = max((len(one["key"]) for one in found["stories"]), default=0)
    for epic in found["epics"]:
        own = [one for one in found["stories"] if one["epic"] == epic["epic"]]
        lines += [words.strong(words.clean(f"{epic['epic']}  {epic['title']}"))] if own else []
        for one in own:
            waits = f"  waits for {', '.join(one['waits_for'])}" if one["waits_for"] else ""
            waits = f"  asks {one['question']}" if one["question"] else waits
            mark = MARKS.get(one["status"], "·")
            lines.append(f"  {mark} {one['key']:<{width}}  {one['status']:<13} {words.clean(one['title'])}{waits}")
    return [*lines, *(f"  ! {words.clean(fault)}" for fault in found["faults"])]
