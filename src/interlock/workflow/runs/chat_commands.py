"""What a chat message says about workflows: begin one, how far is it, undo, roll back, cancel, go on, be careful.

`chat_command` only understands; `carry_out` does it with the verbs of a team and answers in words. Anything else than
such a command is None, and is no business of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.model.progress import summary
from interlock.model.question import reply_command
from interlock.model.workflow import in_force, place_of
from interlock.workflow.entry.workflow_entry_wrapper import Malformed, detect
from interlock.workflow.package.packages import Invocation
from interlock.workflow.party import exits
from interlock.workflow.preferences import explicit, wishes
from interlock.workflow.preferences.hints import progress_mode
from interlock.workflow.preferences.wishes import Blocked
from interlock.workflow.state import rollback_plan

RUN, STATUS, CANCEL, RESUME, ROLLBACK, CHECKPOINTS, UNDO, FEEDBACK, ADJUST, LEAVE, INVALID = (
    *("run", "status", "cancel", "resume", "rollback", "checkpoints", "undo", "feedback", "adjust", "leave", "invalid"),
)
LONGEST = 60  # characters of a message that is a command and nothing else

WORDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"(?:please\s+)?(?:{pattern})\W*", re.IGNORECASE))
    for kind, pattern in (
        (STATUS, r"status|progress|(?:workflow\s+status)|how far (?:is it|are you|are we)|where are (?:you|we)"),
        (CANCEL, r"(?:cancel|abort|stop)(?:\s+(?:it|this|that|the (?:run|workflow)|workflow))?"),
        (RESUME, r"(?:resume|go on|carry on|continue)(?:\s+(?:it|with it|the (?:run|workflow)|workflow))?"),
    )
)

CONFIRMED = re.compile(r"[,;:.]\s*(?:yes|confirmed?|do it)\W*$", re.IGNORECASE)


@dataclass(frozen=True)
class ChatCommand:
    """One command. `text` is the invocation for `run`, the step for `rollback`, what was said for `feedback`, `adjust`
    and `leave` (an exit word, meant where Party Mode is under way), and what is wrong for `invalid`. `modifier` is an
    inline one beside `resume`. `precise`: it can hardly mean anything else, also where no workflow has begun yet."""

    kind: str
    text: str = ""
    arguments: str = ""
    modifier: str = ""
    precise: bool = True


def chat_command(text: str) -> ChatCommand | None:
    """The command in a message, if it is one: `/bmad:…` anywhere in it, the others alone."""
    message = text.strip()
    invoked = detect(message)
    if isinstance(invoked, Invocation):
        refused = wishes.understood(wishes.inline(invoked.arguments)[1])
        if isinstance(refused, Blocked):
            return ChatCommand(INVALID, f"{refused.error.message} ({refused.code})")
        return ChatCommand(RUN, invoked.text, invoked.arguments)
    if isinstance(invoked, Malformed):
        return ChatCommand(INVALID, str(invoked.as_dict()["message"]))
    if explicit.understood(message) is not None:
        return ChatCommand(FEEDBACK, message)
    modifier, left = wishes.inline(message)
    if modifier is not None and left:
        found = _short(left)
        return replace(found, modifier=modifier) if found is not None and found.kind == RESUME else None
    if exits.exit_alone(message) is not None:
        return ChatCommand(LEAVE, message)
    found = _short(message)
    if found is not None or progress_mode(message) is not None:
        return found or ChatCommand(ADJUST, message)
    # A wish that is refused is a command too, so that it is explained.
    said = wishes.understood(message)
    if said is None:
        return None
    precise = not isinstance(said, Blocked) and all(one.precise and one.kind != wishes.INLINE for one in said)
    return ChatCommand(ADJUST, message, precise=precise)


def _short(message: str) -> ChatCommand | None:
    if len(message) > LONGEST:
        return None
    wish = rollback_plan.understood(message)
    if wish is not None:
        kinds = {"list": CHECKPOINTS, "to": ROLLBACK, "undo": UNDO}
        return ChatCommand(kinds[wish.kind], "" if wish.step is None else str(wish.step))
    return next((ChatCommand(kind) for kind, pattern in WORDS if pattern.fullmatch(message)), None)


def _begun(team: Any, command: ChatCommand, run: str | None, session: str | None) -> str:
    begun = team.start_workflow(f"{command.text} {command.arguments}".strip())
    return f"{begun['workflow_id']} begins: {begun['skill']}, as {begun['task_id']}."


def _resumed(team: Any, command: ChatCommand, run: str | None, session: str | None) -> str:
    if command.modifier:
        team.adjust_workflow(f"[{command.modifier}]", run, session=session)
    found = team.resume_workflow(run)
    return f"{found['workflow_id']}: {found['resumed']}."


def _adjusted(team: Any, command: ChatCommand, run: str | None, session: str | None) -> str:
    return str(team.adjust_workflow(command.text, run, session=session)["text"])


Doing = Callable[[Any, ChatCommand, "str | None", "str | None"], str]
DOES: Mapping[str, Doing] = {
    INVALID: lambda team, command, run, session: command.text,
    RUN: _begun,
    STATUS: lambda team, command, run, session: status(team.workflow_run(run)),
    CANCEL: lambda team, command, run, session: (
        f"{team.cancel_workflow(run)['workflow_id']} is cancelled. What it wrote stays where it is."
    ),
    ADJUST: _adjusted,
    LEAVE: _adjusted,
    RESUME: _resumed,
    FEEDBACK: lambda team, command, run, session: str(team.workflow_feedback(command.text, run=run)["text"]),
    CHECKPOINTS: lambda team, command, run, session: checkpoints(team.workflow_checkpoints(run)),
    UNDO: lambda team, command, run, session: str(team.rollback_workflow(run)["text"]),
    ROLLBACK: lambda team, command, run, session: (
        f"{team.rollback_workflow(run, to=command.text)['text']}\n\nSay `resume` to go on from there."
    ),
}
"""What each kind of command does with the verbs of a team (`app.workflows.WorkflowVerbs`), and answers."""


def carry_out(team: Any, command: ChatCommand, *, run: str | None = None, session: str | None = None) -> str:
    """Do what a command says to the run that is meant (the newest by default); the answer, in words. `session` is the
    chat's, where there is one: what is said about care counts for all of its workflows.

    Raises:
        InterlockError: it cannot be done; the message says why and what can.
    """
    return DOES[command.kind](team, command, run, session)


def preview(team: Any, command: ChatCommand, *, run: str | None = None) -> str | None:
    """What has to be confirmed before a command is carried out: a rollback says first what it would do."""
    if command.kind != ROLLBACK:
        return None
    text = team.rollback_workflow(run, to=command.text, dry_run=True)["text"]
    return f"{text}\n\nSay `rollback to step {command.text}, yes` and it is done."


def confirmed(text: str) -> tuple[str, bool]:
    """A message without the word that confirms it, and whether there was one."""
    bare = CONFIRMED.sub("", text.strip())
    return bare, bare != text.strip()


def status(found: Json) -> str:
    """How far a run is: in a line, its steps by name, what it waits for and what was said about it."""
    progress = found["progress"]
    whole = progress["completed_count"] + progress["remaining_count"]
    said = f"{found['skill']}: {progress['completed_count']} of {whole} steps ({progress['progress_percent']} %)"
    steps = "\n".join(f"  {line}" for line in summary(found))
    if found["outcome"]:
        error = f" {found['error']}" if found["error"] else ""
        return f"{said}, {str(found['outcome']).lower()}.{error}\n{steps}"
    at, name = "", found["current_step_name"]
    if found["current_step"] is not None:
        called = place_of(found["current_step"], name)
        at = f", at {called}" if called == name else f", at {called} ({name})"
    waits = f"\nIt waits for you: {found['waiting']['text']}" if found["waiting"] else ""
    if waits and found["waiting"].get("question_id"):
        command = reply_command(found["waiting"]["question_id"], found["task_id"])
        waits += f"\nAnswer it on the page, or with `{command}`."
    return "\n".join([f"{said}{at}.", steps, *in_force(found)]) + waits


def checkpoints(found: list[Json]) -> str:
    """What can be rolled back to (BMAD-3.7.1)."""
    if not found:
        return "There is no checkpoint yet: nothing to roll back to."
    lines = ["Say `rollback to step N`; there are checkpoints of:"]
    for one in found:
        no = "" if one["can_rollback"] else f" (not available: {one['why_not']})"
        lines.append(f"  step {one['step_id']}  {one['step_name']}  {one['timestamp']}{no}")
    return "\n".join(lines)
