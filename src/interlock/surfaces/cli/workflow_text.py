"""How runs of workflows, and workflows themselves, read to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from interlock.model.question import reply_command
from interlock.model.workflow import evidence_of, is_gate, place_of, spoken
from interlock.surfaces.cli import words
from interlock.workflow.runs.chat_commands import in_force

if TYPE_CHECKING:
    from interlock.app.team import Team

MARKS = {"completed": "✓", "in_progress": "▶", "failed": "✗", "skipped": "–", "rolled_back": "↩", "pending": "·"}


def headline(run: Mapping[str, Any]) -> str:
    """A run in a line."""
    state = run["outcome"] or run["state"]
    at = f" at {place(run)}" if run["state"] != "TERMINAL" and run["current_step"] is not None else ""
    return f"{words.strong(run['workflow_id'])}  {run['skill']}  {state}{at}"


def place(run: Mapping[str, Any]) -> str:
    """The step that a run is at."""
    return words.clean(place_of(run["current_step"], run.get("current_step_name")))


def whole(run: Mapping[str, Any], team: Team) -> list[str]:
    """One run of that team: its steps, what is in force, what it has come to, what it waits for."""
    progress, ended = run["progress"], run["state"] == "TERMINAL"
    count = progress["completed_count"] + progress["remaining_count"]
    lines = [headline(run)]
    if run.get("resumed") and not ended:
        lines.append(f"  {run['resumed']}")
    lines += _steps(run)
    turn = waiting_turn(run, team)
    lines += [f"  {turn}"] if turn else []
    if count or turn is None:
        estimate = "" if ended else f" (about {run['estimated_percent']} %)"
        lines.append(f"  {progress['completed_count']} of {count} steps, {progress['progress_percent']} %{estimate}")
    lines += [f"  {words.clean(line)}" for line in in_force(run)]
    for name, kept in run["examinations"].items():
        if kept.get("rounds"):
            last = str(kept["rounds"][-1]["verdict"]).replace("_", " ")
            lines.append(f"  {name.replace('_', ' ')}: {last}, round {len(kept['rounds'])}")
    for key, loop in run["loops"].items():
        if loop["current_iteration"]:
            counted = f"{loop['current_iteration']} of {loop['max_iterations']}"
            step, record = key.removeprefix("step_"), run["steps"].get(key) or {}
            called = place_of(step, record.get("name")) if key.startswith("step_") else key.replace("_", " ")
            lines.append(f"  {words.clean(called)}: iteration {counted}")
    if at_work := [one for one in run.get("subagents", []) if one["status"] == "working"]:
        named = [f"{words.clean(one['label'])} ({words.clean(one['role'])})" for one in at_work]
        lines.append(f"  subagents at work: {', '.join(named)}")
    lines += _party(run.get("party") or {})
    if run["documents"]:
        lines.append(f"  documents: {', '.join(run['documents'])}")
    if hooks := (run.get("hooks") or {}).get("steps", {}).values():
        lines.append(f"  hooks: {sum(one['runs'] for one in hooks)} run, {sum(one['failed'] for one in hooks)} failed")
    if run["error"]:
        detail = run["error_details"].get("reason") if run["error"] == "critical_hook_failed" else None
        said = f"{run['error']}: {detail}" if detail else run["error"]
        lines.append(click.style(f"  {words.clean(said)}", fg="red"))
    if run["waiting"]:
        lines += ["", words.strong("It waits for you:"), *words.block(run["waiting"]["text"])]
    if following := _next(run, team):
        lines += [*([] if run["waiting"] else [""]), *(words.faint(f"  {line}") for line in following)]
    return lines


def _steps(run: Mapping[str, Any]) -> list[str]:
    """A line for each step; what the engine adds has a title and no number."""
    lines = []
    for record in run["steps"].values():
        took = f"  {record['duration_ms'] / 1000:.1f} s" if record.get("duration_ms") else ""
        number = "" if is_gate(record["id"]) else str(record["id"])
        mark, why = MARKS.get(record["status"], "?"), short(record.get("error") or record.get("reason") or "", 80)
        lines.append(f"  {mark} {number:>4}  {words.clean(record['name'])}{took}  {why}".rstrip())
        if rests_on := evidence_of(record):
            lines.append(words.faint(f"            evidence: {words.clean(short(rests_on, 160))}"))
        if record["status"] == "in_progress":
            kept = run.get("examinations", {}).get(str(record["id"]).removeprefix("gate-"), {})
            for label, one in (kept.get("now") or {}).get("validators", {}).items():
                lines.append(f"        {label}  {words.clean(one['name'])}: {one['status'].replace('_', ' ')}")
    met = {str(record["id"]) for record in run["steps"].values()}
    for one in run["progress"]["remaining_steps"]:
        if str(one["step"]) not in met:
            number = "" if is_gate(one["step"]) else str(one["step"])
            lines.append(words.faint(f"  · {number:>4}  {words.clean(one['name'])}".rstrip()))
    return lines


def waiting_turn(run: Mapping[str, Any], team: Team) -> str | None:
    """That a run waits for its turn, and at which place."""
    if run["state"] != "IDLE":
        return None
    position = next((one["position"] for one in team.workflow_queue() if one["task_id"] == run["task_id"]), None)
    show = f"interlock workflow queue list --team {team.name}"
    return f"It waits for its turn, at place {position}: {show}" if position else None


def _next(run: Mapping[str, Any], team: Team) -> list[str]:
    """What makes a run continue that does not by itself."""
    resume = f"interlock workflow resume {run['workflow_id']} --team {team.name}"
    if run["waiting"]:
        asked = run["waiting"].get("question_id")
        reply = [reply_command(asked, run["task_id"], team.name)] if asked else []
        return reply if run["at_work"] else [*reply, f"{resume}     continues from there"]
    if run["state"] == "TERMINAL":
        return [f"{resume}     tries again"] if run["outcome"] == "FAILED" else []
    return [] if run["at_work"] else ["Nobody is at work on it now.", f"{resume}     continues"]


def _party(party: Mapping[str, Any]) -> list[str]:
    """The discussion under way, or what the last one came to."""
    if not party.get("purpose"):
        return []
    rounds, at = len(party.get("rounds") or []), f"Party Mode at {place_of(party['step'])}"
    if party["status"] == "running":
        return [f"  {at}: round {rounds + 1} of at most {party['max_rounds']}"]
    advice = str((party.get("summary") or {}).get("recommendation") or "")
    ended = str(party["exit_reason"]).replace("_", " ")
    return [f"  {at}, {rounds} rounds, {ended}{f': {short(advice, 100)}' if advice else ''}"]


def decision(one: Mapping[str, Any], steps: Mapping[str, Any]) -> str:
    """A decision of a run, with its reason."""
    sure = f" ({one['confidence']:g} %)" if one.get("confidence") is not None else ""
    chosen = f"{one['kind']}: {words.clean(spoken(one['choice']))}{sure}"
    where = words.clean(place_of(one["step"], (steps.get(f"step_{one['step']}") or {}).get("name")))
    return f"{one['seq']:>4}  {where}  {chosen}  {words.faint(words.clean(spoken(one['why'])))}"


def preview(found: Mapping[str, Any]) -> list[str]:
    """A workflow: its steps, their menus, its hooks, what it needs and what of that is missing."""
    ready = found["preflight"]["overall_status"]
    lines = [words.strong(found["skill"]), short(found["description"], 100), f"pre-flight: {ready}"]
    lines += [click.style(f"  missing: {name}", fg="yellow") for name in found["preflight"]["missing"]]
    for one in found["steps"]:
        mark = " " if one["expected"] else words.faint("(another way)")
        menu = f"  [{' '.join(one['menus'][-1])}]" if one["menus"] else ""
        lines.append(f"  {one['step']:>4}  {words.clean(str(one['name']))}{menu} {mark}".rstrip())
    for one in found["hooks"]:
        how = [word for word in (one["matcher"], "critical" * one["critical"], "once" * one["once"]) if word]
        about = f"  ({', '.join(how)})" if how else ""
        lines.append(f"  {words.clean(one['event'])}: {words.clean(one['command'])}{about}")
        if one["fault"]:
            lines.append(click.style(f"    will not run: {words.clean(one['fault'])}", fg="yellow"))
    for fault in (*found["faults"], *found["hook_faults"]):
        lines.append(click.style(f"  {fault['path']}: {fault['message']}", fg="yellow"))
    return lines


def short(text: str, most: int) -> str:
    """A text on one line of at most so many characters."""
    line = " ".join(words.clean(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"
