"""The text an agent gets for a task."""

from __future__ import annotations

from interlock.model.message import Message, as_xml
from interlock.model.question import Question
from interlock.model.task import Task

CONTEXT_CHARS = 4000
FINDINGS = "## Findings of the last check"

_REPORTING = """\
## How to report

End your turn when you are finished: that reports the task as complete, and what you said last as its summary. The
command `interlock` is on your PATH for everything else:

- `interlock question ask {id} TEXT` if you need an answer from a person: ask one question, then end your turn
- `interlock task block {id} --reason TEXT` if you cannot go on without a person
- `interlock task release {id} --reason TEXT` to give the task back
- `interlock message send --to MEMBER TEXT` to tell a member, `lead` or `human` something"""


_WORKTREE = """\
You work in a git worktree that is yours alone, on the branch `{branch}`. Commit there or not, as you like: when you are
finished, what is left is committed for you, and Interlock merges your branch into `{integration}`. Do not push, and do
not work in other checkouts of the repository."""

_REVIEWING = """\
## How to answer

You review the work of {author}; change nothing yourself. Give one verdict:

- `interlock task approve {id}` if it is good as it is
- `interlock task reject {id} --reason TEXT` if it is not; TEXT is what {author} gets to work on

or end with a last line that says it: `approve`, or `changes: ` and what has to change. Anything else is no verdict, and
the review is done again. If you cannot judge it, say so in a message to `human` and end with `changes: ` and what you
would need to see."""


def exchange(question: Question) -> str:
    """A question with its answer, and what was said around it."""
    asked = "\n".join(f"> {line}".rstrip() for line in question.text.splitlines())
    said = f"{question.context[:CONTEXT_CHARS]}\n\n" if question.context else ""
    return f"{said}{asked}\n\n{question.answered_by} answered: {question.answer}"


def review_prompt(task: Task, mail: list[Message]) -> str:
    """What a reviewer gets: the task as its author got it, what the author says, the evidence, and how to answer."""
    parts = [f"# Review: {task.subject} ({task.id})", f"## The task of {task.owner}\n\n{task.body or task.subject}"]
    parts.append(f"## What {task.owner} says\n\n{task.output or '(nothing)'}")
    evidence = task.evidence
    if evidence:
        ended = "passed" if evidence.get("passed") else "did not pass"
        tail = str(evidence.get("tail") or "").strip() or "(no output)"
        parts.append(f"## Its check\n\n`{evidence.get('command')}` {ended}:\n\n{tail}")
    if task.worktree:
        base = str(task.worktree["base"])[:12]
        parts.append(
            f"## Its changes\n\nYou are in a checkout of what is to be merged. `git diff {base}` shows what "
            f"{task.owner} changed, `interlock diff {task.id} --stat` the files."
        )
    parts.append(_REVIEWING.format(id=task.id, author=task.owner))
    if mail:
        parts.append("## Messages for you\n\n" + "".join(as_xml(message) for message in mail).rstrip("\n"))
    return "\n\n".join(parts) + "\n"


def prompt_for(task: Task, mail: list[Message], conversation: list[Question] | None = None) -> str:
    """Subject, body, how the result is judged, how to report, what was asked and answered before, the member's mail,
    and what an earlier check found."""
    parts = [f"# {task.subject} ({task.id})"]
    if task.body:
        parts.append(task.body.strip("\n"))
    if task.verify:
        parts.append(
            f"When you are finished, Interlock itself runs `{task.verify}` in this directory; the task counts as done "
            "only if that succeeds."
        )
    if task.worktree:
        team = str(task.worktree["branch"]).split("/")[1]
        parts.append(_WORKTREE.format(branch=task.worktree["branch"], integration=f"interlock/{team}"))
    parts.append(_REPORTING.format(id=task.id))
    if conversation:
        parts.append("## What was asked, and the answers\n\n" + "\n\n".join(map(exchange, conversation)))
    if mail:
        parts.append("## Messages for you\n\n" + "".join(as_xml(message) for message in mail).rstrip("\n"))
    if task.findings:
        parts.append(f"{FINDINGS}\n\n{task.findings}")
    return "\n\n".join(parts) + "\n"
