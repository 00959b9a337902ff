"""What pages show of a team, and its report as text, Markdown or a page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from interlock.model import text as words
from interlock.model.event import Event
from interlock.model.evidence import UNVERIFIED, latest_check
from interlock.model.question import Question
from interlock.model.run import Handoff, Run
from interlock.model.task import Task
from interlock.model.team import Member


@dataclass(slots=True, frozen=True)
class Board:
    """The tasks of a team by state: how many there are, and the first of them."""

    counts: dict[str, int]
    tasks: dict[str, list[Task]]


@dataclass(slots=True, frozen=True)
class TaskStory:
    """Everything about one task. `log` is (at, author, text); `questions` are all that were asked, oldest first;
    `blockers` and `dependents` are tasks, also finished ones."""

    task: Task
    runs: list[Run]
    log: list[tuple[str, str, str]]
    events: list[Event]
    questions: list[Question]
    handoff: Handoff | None
    parent: Task | None
    blockers: list[Task]
    dependents: list[Task]


@dataclass(slots=True, frozen=True)
class Occupation:
    """A task that a member works on, or `reviews`, `since` when."""

    task_id: str
    subject: str
    state: str
    reviews: bool
    since: str | None
    run: int


@dataclass(slots=True, frozen=True)
class CrewMember:
    """A member with what it is doing."""

    member: Member
    unread: int
    tasks: list[Occupation]
    last_words: str | None


@dataclass(slots=True, frozen=True)
class OutputEnd:
    """The end of what a run printed; `size` is the whole of it in bytes."""

    run: int
    text: str
    size: int


TAIL_LINES = 12
ALLOWING = (
    "What agents may do when nobody is there to be asked: `permissions` of the member in the plan, and commands that "
    'begin as a line of `interlock config set allowed_commands "pytest"`'
)

BOLD, DIM = "1", "2"
COLOURS = {"+": "32", "!": "1;31", "?": "35"}

Item = tuple[str, str, list[str], str]
"""(mark, headline, further lines, text kept as it is)"""


def sections(found: dict[str, Any]) -> list[tuple[str, list[Item]]]:
    """(title, items) of every part that has something to say."""
    parts: list[tuple[str, list[Item]]] = [
        ("Needs you", [("?", need["text"], [need["verb"]], "") for need in folded(found["needs_me"])]),
        ("Done", [_done(task) for task in found["done"]]),
        ("Failed", [_failed(task, found["team"]) for task in found["failed"]]),
        ("What happened", _happened(found["incidents"])),
        ("Left", [_left(task) for task in found["left"]]),
        ("Cancelled", [("-", _named(task), [], "") for task in found["cancelled"]]),
        ("Merged", _merged(found)),
        ("Kept worktrees", [_kept(task) for task in found.get("kept", ())]),
    ]
    return [(title, items) for title, items in parts if items]


def folded(needs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same for people: what waits only for a task in deadletter is told there, since one answer fixes it all."""
    retries = {need["verb"] for need in needs if need["kind"] == "deadletter"}
    waiting: dict[str, set[str]] = {}
    for need in needs:
        if need["kind"] == "broken" and need["verb"] in retries:
            waiting.setdefault(need["verb"], set()).add(need["task_id"])
    found = []
    for need in needs:
        if need["kind"] == "deadletter" and (behind := len(waiting.get(need["verb"], ()))):
            wait = "1 task waits" if behind == 1 else f"{behind} tasks wait"
            need = {**need, "text": f"{need['text']} ({wait} for it)"}
        if need["kind"] != "broken" or need["verb"] not in retries:
            found.append(need)
    return found


def cannot_work(one: dict[str, Any]) -> str:
    """What one of `unable` comes to, and what to do about it."""
    return (
        f"{one['member']} cannot work here: {one['why']} The others work without it. `interlock agents list` shows "
        "what is installed."
    )


def headline(found: dict[str, Any]) -> str:
    """The report in a line."""
    since = f" since {found['since'][:16].replace('T', ' ')} UTC" if found["since"] else ""
    done, failed, waiting = len(found["done"]), len(found["failed"]), len(folded(found["needs_me"]))
    unverified = sum(task["proof"] == UNVERIFIED for task in found["done"])
    parts = [
        f"{done} done{f' ({unverified} unverified)' if unverified else ''}",
        f"{failed} failed",
        f"{len(found['left'])} left",
        f"{waiting} for you",
    ]
    if found["totals"]["runs"]:
        parts.append(f"{words.count(found['totals']['runs'], 'run')} in {words.span(found['totals']['elapsed'])}")
    parts += [spent] if (spent := words.spent(found["totals"]["spent"])) else []
    return f"{', '.join(parts)}{since}"


def as_text(found: dict[str, Any]) -> list[str]:
    """For a terminal, with colours; `click.echo` takes them out where there is none."""
    lines = [f"{_painted(found['team'], BOLD)}  {headline(found)}"]
    for title, items in sections(found):
        lines += ["", _painted(title, BOLD)]
        for mark, head, more, kept in items:
            lines.append(f"  {_painted(mark, COLOURS.get(mark, DIM))} {words.clean(head)}")
            lines += [f"      {_painted(words.clean(line), DIM)}" for line in more]
            lines += words.block(kept, "        ")
    return lines


def as_markdown(found: dict[str, Any]) -> list[str]:
    """For a pull request or a mail."""
    lines = [f"# {_plain(found['team'])}", "", f"{headline(found)}."]
    for title, items in sections(found):
        lines += ["", f"## {title}", ""]
        for mark, head, more, kept in items:
            box = "- [x] " if mark == "+" else "- "
            lines.append(f"{box}{_plain(head)}")
            lines += [f"  - {_plain(line)}" for line in more]
            if kept:
                fence = _fence(kept)
                lines += ["", f"  {fence}", *words.block(kept, "  "), f"  {fence}", ""]
    return lines


def as_html(found: dict[str, Any]) -> list[str]:
    """One file, without scripts, to open or send."""
    from html import escape

    team = escape(str(found["team"]))
    lines = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{team}: report</title>',
        f"<style>{CSS}</style></head><body>",
        f"<h1>{team}</h1>",
        f"<p>{escape(headline(found))}</p>",
    ]
    for title, items in sections(found):
        lines += [f"<h2>{escape(title)}</h2>", "<ul>"]
        for mark, head, more, kept in items:
            kind = {"+": "done", "!": "failed", "?": "open"}.get(mark, "other")
            lines.append(f'<li class="{kind}"><strong>{escape(words.clean(head))}</strong>')
            lines += [f"<br><small>{escape(words.clean(line))}</small>" for line in more]
            lines += [f"<pre>{escape(chr(10).join(words.block(kept, '')))}</pre>"] if kept else []
            lines.append("</li>")
        lines.append("</ul>")
    return [*lines, "</body></html>"]


CSS = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}"
    "body{color:#222;background:#fff}"
    "li{margin:.5rem 0}.done::marker{content:'✓ '}.failed::marker{content:'✗ '}.open::marker{content:'? '}"
    "small{color:#555}pre{background:#f5f5f5;padding:.5rem;overflow:auto}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}small{color:#aaa}pre{background:#252525}}"
)


def _painted(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


def _done(task: dict[str, Any]) -> Item:
    proof = str(task["proof"])
    found = latest_check(task["evidence"])
    if task["verified"] and found:
        took = f" in {words.span(float(found['seconds']))}" if found.get("seconds") is not None else ""
        proof = f"{proof}{words.after_failed_checks(task['failed_checks'])}: "
        proof += f"{found['command']} (exit code {found['exit_code']}{took})"
    by = f"by {task['by']}" if task["by"] else ""
    tries = f"{task['runs']} runs" if task["runs"] > 1 else ""
    told = (proof, by, tries, words.span(task["seconds"]), words.spent(task["spent"]))
    more = [", ".join(part for part in told if part)]
    if task.get("files"):
        more.append(beside_git(task))
    if task["output"]:
        more.append(str(task["output"]).strip().rpartition("\n")[2])  # what was said last
    return ("+", _named(task), [line for line in more if line], "")


def beside_git(task: dict[str, Any]) -> str:
    """What a finished task made that is in no commit."""
    what = "git ignores its whole result" if task["only_files"] else "not in git"
    return f"{what}, kept with its run: {words.named(task['files'])}"


def _kept(task: dict[str, Any]) -> Item:
    why = f"{task['why']}; {words.size(task['size'] or 0)}" if task.get("why") else ""
    return ("-", _named(task), [line for line in (task["path"], task["branch"], why) if line], "")


def _merged(found: dict[str, Any]) -> list[Item]:
    branch = found.get("integration")
    if branch is None:
        return []
    left = branch["tasks"] - branch["delivered"]
    head = f"{branch['branch']} has the work of {words.count(branch['tasks'], 'task')}"
    how = f"interlock merge --all --team {found['team']}" if left else "all of it is merged"
    return [("+", head, [how], "")]


def _failed(task: dict[str, Any], team: str) -> Item:
    first, *rest = str(task["reason"] or "no reason was given").strip().splitlines() or [""]
    took = f"{words.count(task['runs'], 'run')}, {words.span(task['seconds'])}"
    more = [first, f"{took}; interlock task retry {task['task_id']} --team {team}"]
    return ("!", _named(task), more, "\n".join(rest[-TAIL_LINES:]).strip("\n"))


def _happened(incidents: list[dict[str, Any]]) -> list[Item]:
    told = [_incident(one) for one in incidents]
    if any(one["outcome"] == "was refused" for one in incidents):
        told.append(("-", ALLOWING, [], ""))
    return told


def _incident(one: dict[str, Any]) -> Item:
    at = str(one["at"])[:16].replace("T", " ")
    first = str(one["reason"] or "").strip().splitlines()
    reason = f": {first[0]}" if first else ""
    key = f" [{one['key']}]" if one["key"] else ""
    who = f"{one['task_id']}{key} run {one['run']} ({one['member']}) " if one["run"] else ""
    head = f"{at} UTC  {who}{one['outcome']}{reason}"
    return ("-", head, [], "")


def _left(task: dict[str, Any]) -> Item:
    return ("-", f"{_named(task)} ({task['state']})", [task["why"]], "")


def _named(task: dict[str, Any]) -> str:
    key = f" [{task['key']}]" if task["key"] else ""
    return f"{task['task_id']}{key} {task['subject']}"


def _plain(text: object) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|" else c for c in words.clean(text))


def _fence(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return fence
