"""The text an agent gets for a task."""

from __future__ import annotations

import os
from collections.abc import Sequence

from interlock.model.json import Json
from interlock.model.message import Message, as_xml
from interlock.model.question import Question
from interlock.model.task import Task
from interlock.model.text import named
from interlock.model.worker import RefusedPermission

CONTEXT_CHARS = 4000
EARLIER_CHARS = 1000
FINDINGS = "## Findings of the last check"

_REPORTING = """\
## How to report

End your turn when you are finished: that reports the task as complete, and what you said last as its summary. The
command `interlock` is on your PATH for everything else:

- `interlock question ask {id} TEXT` if you need an answer from a person: ask one question, then end your turn
- `interlock task block {id} --reason TEXT` if you cannot go on without a person
- `interlock task release {id} --reason TEXT` to give the task back
- `interlock message send --to MEMBER TEXT` to tell a member, `lead` or `human` something"""


_TALKING = """\
## How to report

Report with the tools of the MCP server `interlock`. Ending your turn alone reports nothing.

- finished: `task_complete` with a `summary`
- you need an answer from a person: `ask_human`, one question; then end your turn, the answer is your next prompt
- you cannot go on: `task_update` with `block`; somebody else should do it: with `release`
- to tell a member, `lead` or `human` something: `send_message`; their mail comes as a prompt

The command `interlock` does the same, and more: `interlock task complete {id} --summary TEXT`."""

_ELSEWHERE = """\
## How to report

End your turn when you are finished: that reports the task as complete, and what you said last as its summary. If you
need an answer from a person, or cannot go on, end with one line of JSON instead, with what you ask or what is missing:

    {"status": "AWAITING_RESPONSE", "output": "TEXT"}    or    {"status": "BLOCKED", "output": "TEXT"}

To tell a member, `lead` or `human` something meanwhile, use the tool `send_message` of the MCP server `interlock`, or
`interlock message send --to MEMBER TEXT`; `read_inbox` has what came for you since. They end no task."""

NOT_PROMPTED = frozenset({"task_assignment"})
"""Types of mail that no agent reads in a prompt: the runner brings each task when it is due, and an agent that reads of
three would start three."""

RESUMED = """\
You were interrupted, and your session goes on where it was; look at what is done already. This is the whole task once
more.

"""

REMINDER = """\
You have ended your turn, but {id} is still open and you have not reported. If it is finished, report it now
(`task_complete`, or `interlock task complete {id} --summary TEXT`). If not, go on with it, ask a person (`ask_human`),
or say why you cannot go on (`task_update` with `block`). If you end this turn without a report, too, {otherwise}
"""

_REFUSED = """\
Your turn on {id} is over, and something in it was refused.

{refused}

Go on with {id} within what is allowed. If it cannot be done so, say what is missing (`task_update` with `block`, or
`interlock task block {id} --reason TEXT`); do not try what was refused again.
"""

_REFUSED_ELSEWHERE = """\
Your turn is over, and something in it was refused, since nobody is there to be asked:

{refused}

Go on within what is allowed. If the task cannot be done so, say what is missing in a last line of JSON, as you were
told; do not try what was refused again.
"""

NO_VERDICT = """\
You have ended your turn without a verdict on {id}. Give one: `approve`, or `changes: ` and what has to change, as your
last line.
"""

STUCK = """\
You have made no progress on {id} for {turns} turns: nothing was changed, and you said the same. Try another way, ask a
person (`ask_human`, or `interlock question ask {id} TEXT`), or say why you cannot go on (`task_update` with `block`).
Without progress in this turn the attempt is over.
"""

_REPEATING = """\
You were interrupted: your last {calls} tool calls on {id} repeated earlier ones with the same results ({what}). Do not
repeat them. Try another way, {otherwise}. If you repeat yourself again, the attempt is over.
"""

_WORKTREE = """\
You work in a git worktree that is yours alone, on the branch `{branch}`. Commit there or not, as you like: when you are
finished, what is left is committed for you, and Interlock checks and merges your branch. Do not push, move no other
branch, and do not work in other checkouts of the repository."""

_REVIEWING = """\
## How to answer

You review the work of {author}; change nothing yourself. Give one verdict:

- `interlock task approve {id}` if it is good
- `interlock task reject {id} --reason TEXT` if it is not; TEXT is what {author} gets to work on

or end with a last line that says it: `approve`, or `changes: ` and what has to change. Anything else is no verdict, and
the review is done again. If you cannot judge it, say so in a message to `human` and end with `changes: ` and what you
would need to see."""

_REVIEWING_ELSEWHERE = """\
## How to answer

You review the work of {author}; change nothing yourself. End with a last line that gives your verdict: `approve` if it
is good, or `changes: ` and what has to change, which is what {author} gets to work on. Anything else is no verdict, and
the review is done again. If you cannot judge it, end with `changes: ` and what you would need to see."""


def exchange(question: Question) -> str:
    """A question with its answer, and what was said around it."""
    asked = "\n".join(f"> {line}".rstrip() for line in question.text.splitlines())
    said = f"{question.context[:CONTEXT_CHARS]}\n\n" if question.context else ""
    return f"{said}{asked}\n\n{question.answered_by} answered: {question.answer}"


def letters(mail: Sequence[Message]) -> str:
    """Messages, as a part of a prompt."""
    shown = [message for message in mail if message.type not in NOT_PROMPTED]
    return "## Messages for you\n\n" + "".join(map(as_xml, shown)).rstrip("\n")


def mail_prompt(mail: list[Message], task: Task | None) -> str:
    """A prompt with nothing but mail, at a task or between two."""
    if task is None:
        said = (
            "You have no task now. Answer where an answer is wanted (`send_message`, or `interlock message send --to "
            "MEMBER TEXT`), then end your turn; change no files."
        )
    else:
        said = f"This came while you were at {task.id}. Take it into account, and go on with the task."
    return f"{letters(mail)}\n\n{said}\n"


def answer_prompt(task: Task, answered: list[Question]) -> str:
    """The answers to what the session asked; it continues its run."""
    if not answered:
        return f"{task.id} is yours again: go on with it.\n"
    head = "## Your question was answered" if len(answered) == 1 else "## Your questions were answered"
    return f"{head}\n\n" + "\n\n".join(map(exchange, answered)) + f"\n\nGo on with {task.id}.\n"


def refused_prompt(task: Task, refused: str) -> str:
    """For an agent that was refused something and has not reported: what, why, and what is allowed."""
    return _REFUSED.format(id=task.id, refused=refused)


def refused_elsewhere(refused: Sequence[RefusedPermission]) -> str:
    """For an agent on another machine that was refused these and has not said that it cannot go on."""
    return _REFUSED_ELSEWHERE.format(refused="\n".join(f"- {one.title} ({one.why})" for one in refused))


def repeating_prompt(id: str, found: Json, *, elsewhere: bool = False) -> str:
    """For an agent that only repeated itself, as `TurnProgress.repeated` found."""
    otherwise = "ask a person (`ask_human`, or `interlock question ask {id} TEXT`), or say why you cannot go on "
    otherwise += "(`task_update` with `block`)"
    if elsewhere:
        otherwise = "or end with the line of JSON that says what you need, as you were told"
    what = named(found["repeated"])
    return _REPEATING.format(id=id, calls=found["calls"], what=what, otherwise=otherwise.replace("{id}", id))


def reminder(task: Task) -> str:
    """For an agent that ended its turn without a report."""
    otherwise = "its check is run on what you left." if task.verify else "this attempt counts as failed."
    return REMINDER.format(id=task.id, otherwise=otherwise)


def findings_prompt(task: Task) -> str:
    """For an agent that reported its task as finished, and ended its turn although the check failed."""
    return (
        f"You have reported {task.id} as finished, but its check failed. Fix what it found, then report again; a "
        f"report with nothing changed fails without the check being run.\n\n{FINDINGS}\n\n{task.findings}\n"
    )


def review_prompt(task: Task, mail: Sequence[Message] = (), *, elsewhere: bool = False) -> str:
    """What a reviewer gets: the task as its author got it, what the author says, the evidence, and how to answer.
    `elsewhere`: where our command and tools do not reach the team."""
    parts = [f"# Review: {task.subject} ({task.id})", f"## The task of {task.owner}\n\n{task.body or task.subject}"]
    parts.append(f"## What {task.owner} says\n\n{task.output or '(nothing)'}")
    check = task.check
    if check:
        ended = "passed" if check.get("passed") else "did not pass"
        tail = str(check.get("tail") or "").strip() or "(no output)"
        parts.append(f"## Its check\n\n`{check['command']}` {ended}:\n\n{tail}")
    if task.worktree:
        base = str(task.worktree["base"])[:12]
        files = f"git diff {base} --stat" if elsewhere else f"interlock diff {task.id} --stat"
        parts.append(
            f"## Its changes\n\nYou are in a checkout of what is to be merged. `git diff {base}` shows what "
            f"{task.owner} changed, `{files}` the files."
        )
    parts.append((_REVIEWING_ELSEWHERE if elsewhere else _REVIEWING).format(id=task.id, author=task.owner))
    if mail:
        parts.append(letters(mail))
    return "\n\n".join(parts) + "\n"


def earlier(tasks: list[Task]) -> str:
    """What was asked for before in the same chat session, and what came of it."""
    shown = []
    for task in tasks:
        said = (task.output or "").strip()
        answer = said if len(said) <= EARLIER_CHARS else f"{said[:EARLIER_CHARS]}…"
        asked = "\n".join(f"> {line}".rstrip() for line in (task.body or task.subject)[:EARLIER_CHARS].splitlines())
        shown.append(f"{asked}\n\n{answer or f'({task.state}, no answer yet)'}")
    return "## Earlier in this conversation\n\n" + "\n\n".join(shown)


def handed_over(files: list[tuple[str, str, list[str]]], *, elsewhere: bool = False) -> str:
    """Where the files of earlier tasks are that are in no commit; `elsewhere` that is another machine."""
    shown = [(id, paths if elsewhere else [os.path.join(place, path) for path in paths]) for id, place, paths in files]
    how = "`interlock task file TASK PATH` prints one" if elsewhere else "read them where they are kept"
    lines = [f"- {id}: {named(paths)}" for id, paths in shown]
    return f"## Files of the tasks before this one\n\nThey are not in git; {how}.\n\n" + "\n".join(lines)


def prompt_for(
    task: Task,
    mail: list[Message],
    conversation: list[Question] | None = None,
    *,
    talks: bool = False,
    before: list[Task] | None = None,
    rules: str | None = None,
    files: list[tuple[str, str, list[str]]] | None = None,
    elsewhere: str | None = None,
) -> str:
    """Subject, body, how the result is judged, how to report, what was asked and answered before, the member's mail,
    and what an earlier check found. `talks`: to an agent that takes more prompts and has our tools; `before`: earlier
    tasks of the same chat session; `rules`: what it may do unasked; `files`: what the tasks it waited for made outside
    git (task, directory, paths); `elsewhere`: the branch that it works on, where our command and tools do not
    reach the team."""
    parts = [f"# {task.subject} ({task.id})"]
    if before:
        parts.insert(0, earlier(before))
    if task.body:
        parts.append(task.body.strip("\n"))
    if files:
        parts.append(handed_over(files, elsewhere=elsewhere is not None))
    if task.verify:
        parts.append(
            f"When you are finished, Interlock itself runs `{task.verify}` in this directory; the task counts as done "
            "only if that succeeds."
        )
    branch = elsewhere or (task.worktree or {}).get("branch")
    if branch:
        parts.append(_WORKTREE.format(branch=branch))
    if rules:
        parts.append(f"## What you may do\n\n{rules}")
    parts.append(_ELSEWHERE if elsewhere else (_TALKING if talks else _REPORTING).format(id=task.id))
    if conversation:
        parts.append("## What was asked, and the answers\n\n" + "\n\n".join(map(exchange, conversation)))
    if mail:
        parts.append(letters(mail))
    if task.findings:
        parts.append(f"{FINDINGS}\n\n{task.findings}")
    return "\n\n".join(parts) + "\n"
