"""How runs of workflows, and workflows themselves, read: live on a terminal while they last, else in lines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import click

from interlock.app.team import Team
from interlock.errors import InterlockError
from interlock.model.driving import Update
from interlock.model.json import Json
from interlock.model.progress import SILENT, ProgressDisplay, live, percent
from interlock.model.question import reply_command
from interlock.model.workflow import evidence_of, in_force, is_gate, place_of, spoken
from interlock.surfaces.cli import words
from interlock.surfaces.cli.board import LineView, LiveView, line_for

ALWAYS = frozenset({"question.asked", "task.failed", "task.warning", "team.paused", "member.paused"})
"""What is said in `silent` too."""
LATER = 1.0
"""Seconds after which the run is looked at again where nothing has happened."""
AROUND = 9
"""Lines of the live view that are not steps."""
MARKS = {
    "completed": ("✓", "green"),
    "in_progress": ("▶", "yellow"),
    "failed": ("✗", "red"),
    "skipped": ("–", "dim"),
    "rolled_back": ("↩", "dim"),
    "pending": ("·", "dim"),
}
FINISHING = "continuing until this workflow has ended or needs you"
"""What the first Ctrl-C comes to: a workflow is one task, and what runs is finished."""


class RunFollower:
    """A run as its events tell it: `news` are the lines since the last call, `run` the run as it is."""

    def __init__(self, team: Team, run_id: str) -> None:
        self._team = team
        self.run = team.workflow_run(run_id)
        self.display = ProgressDisplay(str(self.run["progress_mode"]))
        self._since = team.head()
        self._looked = time.time()
        self._heard: list[str] = []

    def heard(self, update: Update) -> None:
        """Something the agent said or did: a tool that has ended is told in `verbose`."""
        if update.kind == "tool" and update.data.get("status") in ("completed", "failed"):
            title = str(update.data.get("title") or update.text or update.data.get("kind") or "tool")
            self._heard.append(f"{words.clean(title)}, {update.data['status']}")

    def news(self) -> list[str]:
        now = time.time()
        events, self._since = self._team.events(self._since)
        events = [one for one in events if one.task_id == self.run["task_id"]]
        if events or now - self._looked >= LATER:
            self.run = self._team.workflow_run(self.run["workflow_id"])
            self._looked = now
            self.display.mode = str(self.run["progress_mode"])
        heard, self._heard = self._heard, []
        lines = [line for one in heard for line in self.display.heard(one)]
        for event in events:
            quiet = self.display.mode == SILENT and event.type not in ALWAYS
            told = None if quiet else line_for(event)
            lines += [told] if told else self.display.advance([event], self.run, now)
        return [words.clean(line) for line in [*lines, *self.display.tick(self.run, now)]]


class WorkflowLines(LineView):
    finishing = FINISHING

    def __init__(self, team: Team, run_id: str, say: Callable[[str], None]) -> None:
        super().__init__(say)
        self._following = RunFollower(team, run_id)

    def heard(self, update: Update) -> None:
        if update.task_id == self._following.run["task_id"]:
            self._following.heard(update)

    def print_new(self) -> None:
        for line in self._following.news():
            self._say(f"{words.clock(time.time())}  {line}")


def last_words(text: str) -> str:
    """The last line of what an agent said that is for people: neither the JSON that ends its turn nor a fence."""
    for line in reversed(text.strip().splitlines()):
        said = re.sub(r"^\[[\w-]+\] ", "", line).strip()
        if said and not said.startswith(("{", "}", "```")):
            return words.clean(line)
    return ""


class WorkflowBoard(LiveView):
    """The live view: its lines scroll by above the steps and how far it is."""

    finishing = FINISHING

    def __init__(self, team: Team, run_id: str, hint: str) -> None:
        super().__init__(team, hint)
        self._following = RunFollower(team, run_id)
        self._words = ""

    def heard(self, update: Update) -> None:
        if update.task_id != self._following.run["task_id"]:
            return
        self._following.heard(update)
        if update.kind in ("text", "tool", "notice"):
            self._words = last_words(update.text) or self._words

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        for line in self._following.news():
            self._console.print(f"  {line}", style="dim", markup=False, highlight=False)

    def draw(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        try:
            lines = self._following.news()
        except InterlockError as error:
            return Text(error.message, style="red")
        run, now = self._following.run, time.time()
        parts: list[Any] = [Text(f"  {line}", style="dim") for line in lines]
        if lines:
            # Above the live view, where they stay.
            self._live.console.print(*parts, sep="\n")
        if self._following.display.mode == SILENT:
            return Text(f" {run['skill']}  {self.note or 'silent until it has ended'}", style="dim")
        much = percent(run, now)
        head = Text.assemble(
            (f" {run['skill']} ", "bold reverse"),
            f"  {'█' * (much // 5):░<20} {much} %  ",
            (f"{run['completed_count']} of {run['completed_count'] + run['remaining_count']} steps", "dim"),
        )
        foot = live(run, now) or self._words or self._hint
        return Group(head, Text(""), *self._steps(run, now), Text(""), self.foot(foot))

    def _steps(self, run: Json, now: float) -> list[Any]:
        from rich.text import Text

        progress, steps = run["progress"], run["steps"]
        done, left = progress["completed_steps"], progress["remaining_steps"]
        room = max(3, int(self._console.size.height) - AROUND)
        before = done[-max(1, room // 2) :]
        shown = [*before, *left][:room]
        hidden = len(done) - len(before)
        lines = [Text(f"  ✓ {hidden} more", style="dim")] if hidden else []
        for one in shown:
            record = steps.get(f"step_{one['step']}", {})
            mark, style = MARKS.get(str(record.get("status")), ("·", "dim"))
            took = record.get("duration_ms")
            since = f"  {took / 1000:.1f} s" if took and record.get("status") == "completed" else ""
            name = words.clean(str(one["name"]))
            number = "" if is_gate(one["step"]) else one["step"]
            lines.append(Text.assemble((f"  {mark} ", style), f"{number!s:>3}  {name}", (since, "dim")))
        further = len(done) + len(left) - hidden - len(shown)
        return [*lines, *([Text(f"  · {further} more", style="dim")] if further > 0 else [])]


def headline(run: Json) -> str:
    state = run["outcome"] or run["state"]
    at = f" at {place(run)}" if run["state"] != "TERMINAL" and run["current_step"] is not None else ""
    return f"{words.strong(run['workflow_id'])}  {run['skill']}  {state}{at}"


def place(run: Json) -> str:
    return words.clean(place_of(run["current_step"], run.get("current_step_name")))


def whole(run: Json, team: Team) -> list[str]:
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
        estimate = "" if ended or not progress["remaining_count"] else f" (about {run['estimated_percent']} %)"
        lines.append(f"  {progress['completed_count']} of {count} steps, {progress['progress_percent']} %{estimate}")
    lines += [f"  {words.clean(line)}" for line in in_force(run)]
    for name, kept in run["examinations"].items():
        if kept.get("status") == "not reviewed":
            lines.append(f"  {name.replace('_', ' ')}: not reviewed, nobody came to a verdict")
        elif kept.get("rounds"):
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


def _steps(run: Json) -> list[str]:
    """A line for each step; what the engine adds has a title and no number."""
    lines = []
    for record in run["steps"].values():
        took = f"  {record['duration_ms'] / 1000:.1f} s" if record.get("duration_ms") else ""
        number = "" if is_gate(record["id"]) else str(record["id"])
        mark, why = MARKS.get(record["status"], "?")[0], short(record.get("error") or record.get("reason") or "", 80)
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


def waiting_turn(run: Json, team: Team) -> str | None:
    if run["state"] != "IDLE":
        return None
    position = next((one["position"] for one in team.workflow_queue() if one["task_id"] == run["task_id"]), None)
    show = f"interlock workflow queue list --team {team.name}"
    return f"It waits for its turn, at place {position}: {show}" if position else None


def _next(run: Json, team: Team) -> list[str]:
    """What makes a run continue that does not by itself."""
    resume = f"interlock workflow resume {run['workflow_id']} --team {team.name}"
    if run["waiting"]:
        asked = run["waiting"].get("question_id")
        reply = [reply_command(asked, run["task_id"], team.name)] if asked else []
        return reply if run["at_work"] else [*reply, f"{resume}     continues from there"]
    if run["state"] == "TERMINAL":
        return [f"{resume}     tries again"] if run["outcome"] == "FAILED" else []
    return [] if run["at_work"] else ["Nobody is at work on it now.", f"{resume}     continues"]


def _party(party: Json) -> list[str]:
    """The discussion under way, or what the last one came to."""
    if not party.get("purpose"):
        return []
    rounds, at = len(party.get("rounds") or []), f"Party Mode at {place_of(party['step'])}"
    if party["status"] == "running":
        return [f"  {at}: round {rounds + 1} of at most {party['max_rounds']}"]
    advice = str((party.get("summary") or {}).get("recommendation") or "")
    ended = str(party["exit_reason"]).replace("_", " ")
    return [f"  {at}, {rounds} rounds, {ended}{f': {short(advice, 100)}' if advice else ''}"]


def decision(one: Json, steps: Json) -> str:
    sure = f" ({one['confidence']:g} %)" if one.get("confidence") is not None else ""
    chosen = f"{one['kind']}: {words.clean(spoken(one['choice']))}{sure}"
    where = words.clean(place_of(one["step"], (steps.get(f"step_{one['step']}") or {}).get("name")))
    return f"{one['seq']:>4}  {where}  {chosen}  {words.faint(words.clean(spoken(one['why'])))}"


def preview(found: Json) -> list[str]:
    """A workflow: its steps, their menus, its hooks, what it needs and what of that is missing."""
    ready = found["preflight"]["overall_status"]
    lines = [words.strong(found["skill"]), short(found["description"], 100), f"pre-flight: {ready}"]
    lines += [click.style(f"  missing: {name}", fg="yellow") for name in found["preflight"]["missing"]]
    for one in found["steps"]:
        mark = " " if one["expected"] else words.faint("(another way)")
        # The menu that the step ends with is the one that continues; others are asked on the way.
        last = next((keys for keys in one["menus"] if "C" in keys), one["menus"][-1] if one["menus"] else None)
        menu = f"  [{' '.join(last)}]" if last else ""
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
    line = " ".join(words.clean(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"
