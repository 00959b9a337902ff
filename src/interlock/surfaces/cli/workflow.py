"""`interlock workflow …`: runs of workflows, shown and steered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from interlock.model.question import reply_command
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.source import FOLDER
from interlock.workflow.state.document import place_of, spoken

if TYPE_CHECKING:
    from interlock.client import Team

MARKS = {"completed": "✓", "in_progress": "▶", "failed": "✗", "skipped": "–", "rolled_back": "↩", "pending": "·"}


@verb("list", reads=True, example="interlock workflow list --dir .")
@click.option("--dir", "directory", type=FOLDER, metavar="DIR", default=".", help="The project [default: here].")
def list_(call: Call, directory: str) -> None:
    """The workflows that are installed in a project: what `workflow run` can be given."""
    from interlock.workflow.package import packages
    from interlock.workflow.runs.commands import installed

    package = packages.find(directory)
    found = installed(package) if package is not None else []
    width = max((len(str(one["skill"])) for one in found), default=0)
    lines = [f"{words.strong(str(one['skill']).ljust(width))}  {_short(str(one['description']), 80)}" for one in found]
    nothing = "No workflow package is installed here (no `_bmad` directory here or above)."
    call.answer({"workflows": found}, lines or nothing)


@verb("show", reads=True, example="interlock workflow show /bmad:bmm:workflows:create-prd")
@click.argument("skill")
@click.option("--dir", "directory", type=FOLDER, metavar="DIR", default=".", help="The project [default: here].")
def show(call: Call, skill: str, directory: str) -> None:
    """What a workflow is made of: its steps, their menus, what it needs and what of that is missing."""
    from interlock.workflow.runs.starting import locate, preview

    found = preview(locate(skill, directory))
    call.answer(found, _preview(found))


@verb("status", reads=True, example="interlock workflow status")
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="Every run of the team.")
@click.option("--decisions", is_flag=True, help="Also every decision, with its reason.")
def status(call: Call, run: str | None, everything: bool, decisions: bool) -> None:
    """How far a run is: its steps, what it waits for, and with --decisions why it did what it did.

    RUN is a run's id, its task, or its skill; the newest open one by default.
    """
    team = call.team()
    if everything:
        runs = team.workflow_runs()
        call.answer({"workflows": runs}, [_line(one) for one in runs] or "No workflow was run here yet.")
        return
    found = team.workflow_run(run)
    decided = team.workflow_decisions(found["workflow_id"]) if decisions else []
    document = {**found, "decision_log": decided} if decisions else found
    call.answer(
        document,
        [*_run(found, team), *([""] if decided else []), *(_decision(one, found["steps"]) for one in decided)],
    )


@verb("adjust", example='interlock workflow adjust "use tier 3"')
@click.argument("said", nargs=-1, metavar="[WORDS]...")
@click.option(
    "--run", metavar="RUN", help="The run that is meant: its id, its task, or its skill [default: the newest]."
)
@click.option("--clear", is_flag=True, help="Take back what was said.")
def adjust(call: Call, said: tuple[str, ...], run: str | None, clear: bool) -> None:
    """Say how careful or talkative a run is from its next decision on; without WORDS, what is in force and why.

    The words are those of the chat: `use tier 3`, `profile: cautious`, `batch_size: 2`, `confidence: 85`, `be careful`,
    `fewer interruptions`, `[thorough]` for the step at hand, `progress: silent`. They count for all runs of a session.
    The final approval and the detection of stalls cannot be switched off. `*exit` ends a Party Mode that is under way.
    """
    found = call.team().adjust_workflow(" ".join(said), run, clear=clear)
    lines = [words.clean(found["text"])]
    if not said and not clear:
        lines += [f"  said: {words.clean(one)}" for one in found["said"]]
        lines.append(words.faint(f"  progress: {found['progress_mode']}"))
    call.answer(found, lines)


@verb("resume", example="interlock workflow resume")
@click.argument("run", required=False)
@click.option("--detach", is_flag=True, help="Leave the work to the team's runner.")
def resume(call: Call, run: str | None, detach: bool) -> int:
    """Go on with a run that was interrupted or has failed; what is done stays done."""
    from interlock.surfaces.cli.workflow_run import carry_on

    team = call.team()
    found = team.resume_workflow(run)
    if not call.json:
        call.say(f"{words.strong(found['workflow_id'])}  {found['resumed']}")
    return carry_on(call, team, found["workflow_id"], detach=detach)


@verb("cancel", example="interlock workflow cancel create-prd-20261121T081500-1a2b")
@click.argument("run", required=False)
def cancel(call: Call, run: str | None) -> None:
    """Call a run off; the documents that it wrote stay where they are."""
    found = call.team().cancel_workflow(run)
    call.answer(found, f"{words.strong(found['workflow_id'])} is cancelled {_where(found)}.")
    call.warn(found["warnings"])


def _where(found: Mapping[str, Any]) -> str:
    return "before its first step" if found["current_step"] is None else f"at {_at(found)}"


@verb("rollback", example="interlock workflow rollback --to 3 --dry-run")
@click.argument("run", required=False)
@click.option("--to", metavar="STEP", help="Back to before this step; without it the checkpoints are listed.")
@click.option(
    "--include", metavar="FILE", multiple=True, help="Restore this file too, though others changed it; * for all."
)
@click.option("--undo", is_flag=True, help="Take the last rollback back.")
@click.option("--dry-run", is_flag=True, help="Show what it would do; change nothing.")
def rollback(call: Call, run: str | None, to: str | None, include: tuple[str, ...], undo: bool, dry_run: bool) -> None:
    """Take a run back to before a step: its state, and the files that it wrote and nobody changed since.

    What is replaced is kept in `.rollback-archive` of the output folder. `workflow resume` then goes on from there.
    """
    team = call.team()
    if to is None and not undo:
        found = team.workflow_checkpoints(run)
        lines = [
            f"  step {one['step_id']:<4} {one['timestamp']}  {words.clean(str(one['step_name']))}"
            + ("" if one["can_rollback"] else f" (not available: {one['why_not']})")
            for one in found
        ]
        call.answer({"checkpoints": found}, lines or "There is no checkpoint to roll back to.")
        return
    done = team.rollback_workflow(run, to=None if undo else to, include=include, dry_run=dry_run)
    call.answer(done, [words.clean(line) for line in done["text"].splitlines()])
    call.warn(done.get("warnings", []))


def _run(found: Mapping[str, Any], team: Team) -> list[str]:
    """One run of that team for people."""
    from interlock.workflow.runs.chat_commands import in_force

    progress = found["progress"]
    whole = progress["completed_count"] + progress["remaining_count"]
    lines = [_line(found)]
    if found.get("resumed") and found["state"] != "TERMINAL":
        lines.append(f"  {found['resumed']}")
    for record in found["steps"].values():
        took = f"  {record['duration_ms'] / 1000:.1f} s" if record.get("duration_ms") else ""
        why = f"  {_short(record.get('error') or record.get('reason') or '', 80)}"
        lines.append(
            f"  {MARKS.get(record['status'], '?')} {_number(record['id']):>4}  "
            f"{words.clean(record['name'])}{took}{why}".rstrip()
        )
        lines += _examiners(found, record)
    met = {str(record["id"]) for record in found["steps"].values()}
    for one in progress["remaining_steps"]:
        if str(one["step"]) not in met:
            lines.append(words.faint(f"  · {_number(one['step']):>4}  {words.clean(one['name'])}".rstrip()))
    turn = _turn(found, team)
    lines += [f"  {turn}"] if turn else []
    estimate = f" (about {found['estimated_percent']} %)" if found["state"] != "TERMINAL" else ""
    if whole or turn is None:
        lines.append(f"  {progress['completed_count']} of {whole} steps, {progress['progress_percent']} %{estimate}")
    lines += [f"  {words.clean(line)}" for line in in_force(found)]
    for name, kept in found["examinations"].items():
        if kept.get("rounds"):
            times, last = len(kept["rounds"]), str(kept["rounds"][-1]["verdict"]).replace("_", " ")
            lines.append(f"  {name.replace('_', ' ')}: {last}, round {times}")
    for key, loop in found["loops"].items():
        if loop["current_iteration"]:
            counted = f"{loop['current_iteration']} of {loop['max_iterations']}"
            step, record = key.removeprefix("step_"), found["steps"].get(key) or {}
            called = place_of(step, record.get("name")) if key.startswith("step_") else key.replace("_", " ")
            lines.append(f"  {words.clean(called)}: iteration {counted}")
    if at_work := [one for one in found.get("subagents", []) if one["status"] == "working"]:
        named = [f"{words.clean(one['label'])} ({words.clean(one['role'])})" for one in at_work]
        lines.append(f"  subagents at work: {', '.join(named)}")
    lines += _party(found.get("party") or {})
    if found["documents"]:
        lines.append(f"  documents: {', '.join(found['documents'])}")
    hooks = (found.get("hooks") or {}).get("steps", {}).values()
    if hooks:
        failed = sum(one["failed"] for one in hooks)
        lines.append(f"  hooks: {sum(one['runs'] for one in hooks)} run, {failed} failed")
    if found["error"]:
        detail = found["error_details"].get("reason") if found["error"] == "critical_hook_failed" else None
        said = f"{found['error']}: {detail}" if detail else str(found["error"])
        lines.append(click.style(f"  {words.clean(said)}", fg="red"))
    if found["waiting"]:
        lines += ["", click.style("It waits for you:", bold=True), *words.block(found["waiting"]["text"])]
    if following := _next(found, team):
        lines += [*([] if found["waiting"] else [""]), *(words.faint(f"  {line}") for line in following)]
    return lines


def _turn(found: Mapping[str, Any], team: Team) -> str | None:
    """That a run waits for its turn, and at which place."""
    if found["state"] != "IDLE":
        return None
    place = next((one["position"] for one in team.workflow_queue() if one["task_id"] == found["task_id"]), None)
    return (
        f"It waits for its turn, at place {place}: interlock workflow queue list --team {team.name}" if place else None
    )


def _next(found: Mapping[str, Any], team: Team) -> list[str]:
    """What makes a run go on that does not by itself."""
    resume = f"interlock workflow resume {found['workflow_id']} --team {team.name}"
    if found["waiting"]:
        asked = found["waiting"].get("question_id")
        reply = [reply_command(asked, found["task_id"], team.name)] if asked else []
        return reply if found["at_work"] else [*reply, f"{resume}     goes on from there"]
    if found["state"] == "TERMINAL":
        return [f"{resume}     tries again"] if found["outcome"] == "FAILED" else []
    return [] if found["at_work"] else ["Nobody is at work on it now.", f"{resume}     goes on"]


def _number(id: object) -> str:
    """A step's id as people know it: what the engine adds is known by its title alone."""
    from interlock.workflow.preferences.progress_display import is_gate

    return "" if is_gate(id) else str(id)


def _examiners(found: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    """How those stand who look at the work at the same time, while they do."""
    name = str(record["id"]).removeprefix("gate-")
    now = found.get("examinations", {}).get(name, {}).get("now") or {}
    if record["status"] != "in_progress":
        return []
    return [
        f"        {label}  {words.clean(one['name'])}: {one['status'].replace('_', ' ')}"
        for label, one in now.get("validators", {}).items()
    ]


def _party(party: Mapping[str, Any]) -> list[str]:
    """The discussion under way, or what the last one came to."""
    rounds = party.get("rounds") or []
    if not party.get("purpose"):
        return []
    if party["status"] == "running":
        return [f"  Party Mode at {place_of(party['step'])}: round {len(rounds) + 1} of at most {party['max_rounds']}"]
    came_to = party.get("summary") or {}
    advice = f": {_short(str(came_to['recommendation']), 100)}" if came_to.get("recommendation") else ""
    ended = str(party["exit_reason"]).replace("_", " ")
    return [f"  Party Mode at {place_of(party['step'])}, {len(rounds)} rounds, {ended}{advice}"]


def _line(found: Mapping[str, Any]) -> str:
    state = found["outcome"] or found["state"]
    at = f" at {_at(found)}" if found["state"] != "TERMINAL" and found["current_step"] is not None else ""
    return f"{words.strong(found['workflow_id'])}  {found['skill']}  {state}{at}"


def _at(found: Mapping[str, Any]) -> str:
    return words.clean(place_of(found["current_step"], found.get("current_step_name")))


def _decision(one: Mapping[str, Any], steps: Mapping[str, Any]) -> str:
    sure = f" ({one['confidence']:g} %)" if one.get("confidence") is not None else ""
    chosen = f"{one['kind']}: {words.clean(spoken(one['choice']))}{sure}"
    where = words.clean(place_of(one["step"], (steps.get(f"step_{one['step']}") or {}).get("name")))
    return f"{one['seq']:>4}  {where}  {chosen}  {words.faint(words.clean(spoken(one['why'])))}"


def _preview(found: Mapping[str, Any]) -> list[str]:
    ready = found["preflight"]["overall_status"]
    lines = [words.strong(found["skill"]), _short(found["description"], 100), f"pre-flight: {ready}"]
    for name in found["preflight"]["missing"]:
        lines.append(click.style(f"  missing: {name}", fg="yellow"))
    for one in found["steps"]:
        mark = " " if one["expected"] else words.faint("(another way)")
        menu = f"  [{' '.join(one['menus'][-1])}]" if one["menus"] else ""
        lines.append(f"  {one['step']:>4}  {words.clean(str(one['name']))}{menu} {mark}".rstrip())
    for one in found["hooks"]:
        how = [word for word in (one["matcher"], "critical" * one["critical"], "once" * one["once"]) if word]
        lines.append(
            f"  {words.clean(one['event'])}: {words.clean(one['command'])}" + (f"  ({', '.join(how)})" if how else "")
        )
        if one["fault"]:
            lines.append(click.style(f"    will not run: {words.clean(one['fault'])}", fg="yellow"))
    for fault in (*found["faults"], *found["hook_faults"]):
        lines.append(click.style(f"  {fault['path']}: {fault['message']}", fg="yellow"))
    return lines


def _short(text: str, most: int) -> str:
    line = " ".join(words.clean(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"
