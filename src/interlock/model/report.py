"""What a team has done: the report, as text, Markdown or one page of HTML."""

from __future__ import annotations

from dataclasses import field

from interlock.lazy_dataclass import dataclass
from interlock.model import text as words
from interlock.model.evidence import latest_check
from interlock.model.json import Json
from interlock.model.status import KeptWorktree, Need, TaskBrief, folded


@dataclass(slots=True)
class EndedTask(TaskBrief):
    """A task that is over: done, in deadletter, or cancelled."""

    completed_at: str | None


@dataclass(slots=True)
class DoneTask(EndedTask):
    """A finished task with its evidence. `files` are kept beside it; `only_files`: they are all of its result.
    `changes`: what its merge has changed, where it was merged, and `changed` its files, as of a task."""

    merged: str | None
    delivered: str | None
    files: list[str]
    only_files: bool
    evidence: list[Json]
    verified: bool
    proof: str
    by: str | None
    runs: int
    attempts: int
    failed_checks: int
    seconds: float
    spent: Json
    output: str | None
    changes: Json | None = None
    changed: list[Json] | None = None


@dataclass(slots=True)
class FailedTask(EndedTask):
    """A task in deadletter, and why. `changes`: what lies in its worktree, and `changed` its files, as of a task."""

    reason: str | None
    evidence: list[Json]
    by: str | None
    runs: int
    attempts: int
    seconds: float
    spent: Json
    changes: Json | None = None
    changed: list[Json] | None = None


@dataclass(slots=True)
class LeftTask(EndedTask):
    """A task that is not over yet, and why; `changed` are its files, as of a task."""

    blocked_by: list[str]
    why: str
    changed: list[Json] | None = None


@dataclass(slots=True)
class Incident:
    """What went otherwise than well; without a run it concerns several."""

    task_id: str
    key: str | None
    run: int | None
    member: str | None
    at: str
    outcome: str
    reason: str | None


@dataclass(slots=True)
class IntegrationBranch:
    """How many finished tasks were merged into the team's integration branch, and how many of them into one of the
    user's. What git says of it now: `missing` are tasks whose work is not on it though it was merged, `trouble` is what
    else is wrong, or why git was not asked."""

    branch: str
    tasks: int
    delivered: int
    missing: list[str] = field(default_factory=list)
    trouble: str | None = None


@dataclass(slots=True)
class RunTotals:
    """What the runs took. `seconds` is their time, checks included; `elapsed` is from the first to the last."""

    runs: int
    seconds: float
    spent: Json
    elapsed: float
    began_at: str | None
    ended_at: str | None


@dataclass(slots=True)
class TeamReport:
    """What a team has done; `since` is an ISO 8601 time.

    Attributes:
        unverified: how many done tasks nothing speaks for.
        left_out: how many more each list has, where it is cut, under its name.
    """

    team: str
    since: str | None
    needs_me: list[Need]
    done: list[DoneTask]
    failed: list[FailedTask]
    incidents: list[Incident]
    left: list[LeftTask]
    cancelled: list[EndedTask]
    integration: IntegrationBranch | None
    kept: list[KeptWorktree]
    counts: dict[str, int]
    totals: RunTotals
    unverified: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    def total(self, name: str) -> int:
        """How many there are of a list, with those that are left out of it."""
        return len(getattr(self, name)) + self.left_out.get(name, 0)


TAIL_LINES = 12
ALLOWING = (
    "What agents may do when nobody is there to be asked: `permissions` of the member in the plan, and commands that "
    'begin as a line of `interlock config set allowed_commands "pytest"`'
)

BOLD, DIM = "1", "2"
COLOURS = {"+": "32", "!": "1;31", "?": "35"}

Item = tuple[str, str, list[str], str]
"""(mark, headline, further lines, text kept as it is)"""


def sections(found: TeamReport, most: int | None = None) -> list[tuple[str, str, list[Item]]]:
    """(title, what is left out, items) of every part that has something to say; `most` of each at most."""
    parts: list[tuple[str, str, list[Item]]] = [
        ("Needs you", "needs_me", [("?", need.headline, [need.verb], "") for need in folded(found.needs_me)]),
        ("Done", "done", [_done(task, found.integration) for task in found.done]),
        ("Failed", "failed", [_failed(task, found.team) for task in found.failed]),
        ("What happened", "incidents", _happened(found)),
        ("Left", "left", [("-", f"{_named(task)} ({task.state})", [task.why], "") for task in found.left]),
        ("Cancelled", "cancelled", [("-", _named(task), [], "") for task in found.cancelled]),
        (_heading(found.integration), "integration", _merged(found)),
        ("Kept worktrees", "kept", [_kept(task) for task in found.kept]),
    ]
    shown = []
    for title, name, items in parts:
        over = 0 if most is None else max(0, len(items) - most)
        more = over + found.left_out.get(name, 0)
        told = f"… {more} more: interlock report --full --team {found.team}" if more else ""
        shown += [(title, told, items[over:])] if items or more else []
    return shown


def headline(found: TeamReport) -> str:
    """The report in a line."""
    since = f" since {found.since[:16].replace('T', ' ')} UTC" if found.since else ""
    parts = [
        f"{found.total('done')} done{f' ({found.unverified} unverified)' if found.unverified else ''}",
        f"{found.total('failed')} failed",
        f"{found.total('left')} left",
        f"{len(folded(found.needs_me))} for you",
    ]
    if found.totals.runs:
        parts.append(f"{words.count(found.totals.runs, 'run')} in {words.span(found.totals.elapsed)}")
    parts += [spent] if (spent := words.spent(found.totals.spent)) else []
    return f"{', '.join(parts)}{since}"


def as_text(found: TeamReport, most: int | None = None) -> list[str]:
    """For a terminal, with colours; `click.echo` takes them out where there is none. `most`: what of each part is
    shown, the newest of what is done and happened."""
    lines = [f"{_painted(found.team, BOLD)}  {headline(found)}"]
    for title, left_out, items in sections(found, most):
        lines += ["", _painted(title, BOLD)]
        lines += [f"  {_painted(left_out, DIM)}"] if left_out else []
        for mark, head, more, kept in items:
            lines.append(f"  {_painted(mark, COLOURS.get(mark, DIM))} {words.clean(head)}")
            lines += [f"      {_painted(words.clean(line), DIM)}" for line in more]
            lines += words.block(kept, "        ")
    return lines


def as_markdown(found: TeamReport) -> list[str]:
    """For a pull request or a mail."""
    lines = [f"# {_plain(found.team)}", "", f"{headline(found)}."]
    for title, left_out, items in sections(found):
        lines += ["", f"## {title}", ""]
        lines += [f"- {_plain(left_out)}"] if left_out else []
        for mark, head, more, kept in items:
            box = "- [x] " if mark == "+" else "- "
            lines.append(f"{box}{_plain(head)}")
            lines += [f"  - {_plain(line)}" for line in more]
            if kept:
                fence = "```"
                while fence in kept:
                    fence += "`"
                lines += ["", f"  {fence}", *words.block(kept, "  "), f"  {fence}", ""]
    return lines


def as_html(found: TeamReport) -> list[str]:
    """One file, without scripts, to open or send."""
    from html import escape

    team = escape(found.team)
    lines = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{team}: report</title>',
        f"<style>{CSS}</style></head><body>",
        f"<h1>{team}</h1>",
        f"<p>{escape(headline(found))}</p>",
    ]
    for title, left_out, items in sections(found):
        lines += [f"<h2>{escape(title)}</h2>", "<ul>"]
        lines += [f"<li>{escape(left_out)}</li>"] if left_out else []
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


def _heading(branch: IntegrationBranch | None) -> str:
    if branch is not None and (branch.missing or branch.trouble):
        return "Integration branch"
    return "Merged" if branch is not None and branch.delivered == branch.tasks else "Ready to merge"


def _done(task: DoneTask, branch: IntegrationBranch | None) -> Item:
    proof = task.proof
    gone = branch is not None and task.task_id in branch.missing
    found = latest_check(task.evidence)
    if task.verified and found:
        took = f" in {words.span(float(found['seconds']))}" if found.get("seconds") is not None else ""
        proof = f"{proof}{words.after_failed_checks(task.failed_checks)}: "
        proof += f"{found['command']} (exit code {found['exit_code']}{took})"
    by = f"by {task.by}" if task.by else ""
    tries = f"{task.runs} runs" if task.runs > 1 else ""
    told = (proof, by, tries, words.span(task.seconds), words.spent(task.spent))
    more = [", ".join(part for part in told if part)]
    if branch is not None and gone:
        more.append(f"its work is not on {branch.branch} any more, though it was merged there")
    more += words.changed_files(task.changes)
    if task.files:
        more.append(beside_git(task))
    if task.output:
        more.append(task.output.strip().rpartition("\n")[2])  # what was said last
    return ("!" if gone else "+", _named(task), [line for line in more if line], "")


def beside_git(task: DoneTask) -> str:
    """What a finished task made that is in no commit."""
    what = "nothing that it made is in git" if task.only_files else "not in git"
    files = [path for path in task.files if "/.git/" not in path]
    apart = [path.removesuffix("/.git/HEAD") for path in task.files if path.endswith("/.git/HEAD")]
    told = f"; with a git repository of its own: {words.named(apart)}" if apart else ""
    return f"{what}, kept with its run: {words.named(files or apart)}{told}"


def _kept(task: KeptWorktree) -> Item:
    why = f"{task.why}; {words.size(task.size or 0)}" if task.why else ""
    return ("-", _named(task), [line for line in (task.path, task.branch, why) if line], "")


def _merged(found: TeamReport) -> list[Item]:
    branch = found.integration
    if branch is None:
        return []
    left = branch.tasks - branch.delivered
    items: list[Item] = []
    if branch.trouble:
        items.append(("!", f"{branch.branch}: {branch.trouble}", [], ""))
    if branch.missing:
        gone = (
            f"the work of {words.count(len(branch.missing), 'task')} was merged into {branch.branch} and is not on it"
        )
        items.append(("!", f"{gone}: {words.named(branch.missing, 5)}", [f"interlock doctor --team {found.team}"], ""))
    if waiting := to_merge(branch, found.team):
        items.append(("+", waiting[0], waiting[1:], ""))
    elif not left:
        items.append(("+", f"the work of {words.count(branch.tasks, 'task')}, all of it in your branch", [], ""))
    return items


def to_merge(branch: IntegrationBranch, team: str) -> list[str]:
    """The line that says how much finished work is on no branch of the user's yet, and the command that brings it
    there; nothing where all of it is."""
    present = branch.tasks - branch.delivered - len(branch.missing)
    if not present:
        return []
    head = f"{branch.branch} has the work of {words.count(present, 'task')}, not yet on any branch of yours"
    return [head, f"interlock merge --all --team {team}"]


def _failed(task: FailedTask, team: str) -> Item:
    first, *rest = (task.reason or "no reason was given").strip().splitlines() or [""]
    took = f"{words.count(task.runs, 'run')}, {words.span(task.seconds)}"
    more = [
        first.rstrip(":"),
        *words.changed_files(task.changes),
        f"{took}; interlock task retry {task.task_id} --team {team}",
    ]
    return ("!", _named(task), more, "\n".join(rest[-TAIL_LINES:]).strip("\n"))


def _happened(found: TeamReport) -> list[Item]:
    """The incidents, but for the last failure of tasks that failed: that is their reason, told with them."""
    last = {task.task_id: (task.reason or "").strip() for task in found.failed}
    incidents = [
        one for one in found.incidents
        if not (one.outcome == "failed" and one.reason and last.get(one.task_id, "").startswith(one.reason.strip()))
    ]  # fmt: skip
    told = [_incident(one) for one in incidents]
    if any(one.outcome == "was refused" for one in incidents):
        told.append(("-", ALLOWING, [], ""))
    return told


def _incident(one: Incident) -> Item:
    at = one.at[:16].replace("T", " ")
    first = (one.reason or "").strip().splitlines()
    reason = f": {first[0]}" if first else ""
    key = f" [{one.key}]" if one.key else ""
    who = f"{one.task_id}{key} run {one.run} ({one.member}) " if one.run else ""
    head = f"{at} UTC  {who}{one.outcome}{reason}"
    return ("-", head, [], "")


def _named(task: TaskBrief | KeptWorktree) -> str:
    key = f" [{task.key}]" if task.key else ""
    return f"{task.task_id}{key} {task.subject}"


def _plain(text: object) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|" else c for c in words.clean(text))
