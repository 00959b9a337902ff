"""A plan that an agent proposes: what it is asked, where its plan stands in what it answers, and what is wrong with it.

An agent says what is to be done; it does not say who else may work, where, or what they may see of the environment.
Those keys are refused in a proposal, whatever they say, and so is every program but `shell` and the agent itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.errors import PlanError
from interlock.plan.detecting import Findings
from interlock.plan.reading import parse

GOAL_CHARS = 10_000
ANSWER_CHARS = 1_048_576
REFUSED = ("workdir", "env", "isolation", "setup", "copy", "limits")
"""Keys of a plan that are the user's to write."""
NO_CHECK = re.compile(r"true|:|exit( 0)?|(echo|printf)( [^&|;<>`$]*)?")
"""Commands that check nothing."""

_FORMAT = """\
You are asked for a plan. Do not carry anything out and change no file: look at the project as far as you need, then
answer with one YAML document in a fenced block that begins with ```yaml, and nothing after it.

The goal:

{goal}

The project lies in {directory}.
{facts}

What a plan looks like:

```yaml
members:
  shell: {{agent: shell}}            # carries out a task's `run` command; judges nothing
  {name}: {{agent: {agent}}}         # gets subject and body of a task as its prompt
tasks:
  parser:
    subject: Write the parser        # one line; what is done when this is done
    body: |                          # all that the one who does it has to know: files, rules, what not to touch
      …
    verify: pytest -q tests/test_parser.py
  lint: {{run: ruff check src, blocked_by: [parser]}}
```

Rules:
- Keys of tasks and names of members are of a-z, 0-9, - and _, at most 50 characters.
- A task has either `run` (a command, for a shell member) or `subject` and `body` (for an agent).
- `blocked_by: [KEYS]` names the tasks that must be done first. Without it, tasks run side by side in one directory: two
  that change the same files must not.
- `verify` is a command that fails as long as the task is not done, such as a test; it is run by others than the one who
  does the task. Give one to every task of an agent where there is any way to check it.
- Optional: `assignee`, `review: human` where a person should look at the result, `priority`, `timeout: 30m`,
  `retries`.
- Members: only `agent: shell` and `agent: {agent}`, as many as can work at once. A shell member only if a task has
  `run`.
- Leave out: team, permissions, {refused}. Unknown keys are refused.
- As few tasks as make sense, each such that somebody who knows nothing but its body can do it.
"""

_AGAIN = """\
That plan cannot be used:

{faults}

Answer with the whole plan again, corrected, in one fenced block that begins with ```yaml.
"""


def request(goal: str, findings: Findings, name: str, agent: str) -> str:
    """What the agent is asked. `agent` is how a plan names it, `name` what a member with it may be called."""
    quoted = "\n".join(f"> {line}" for line in goal.strip().splitlines())
    return _FORMAT.format(
        goal=quoted, directory=findings.directory, facts="\n".join(_facts(findings)), name=name, agent=agent,
        refused=", ".join(REFUSED),
    )  # fmt: skip


def correction(faults: Sequence[Mapping[str, Any]]) -> str:
    """What it is told of a plan that cannot be used."""
    lines = [f"- line {one['line']}: {one['message']}" if one.get("line") else f"- {one['message']}" for one in faults]
    return _AGAIN.format(faults="\n".join(lines))


def extract(answer: str) -> str | None:
    """The plan in an answer: the last fenced block with tasks in it, or the answer itself where it is nothing else."""
    from markdown_it import MarkdownIt  # slow to load, and most plans are nobody's proposal

    answer = answer[-ANSWER_CHARS:]
    fenced = [token.content for token in MarkdownIt().parse(answer) if token.type == "fence"]
    for text in (*reversed(fenced), answer):
        if any(line.startswith(("tasks:", '"tasks":')) for line in text.splitlines()):
            return text if text.endswith("\n") else text + "\n"
    return None


def faults_of(text: str, path: str, agent: tuple[str, tuple[str, ...]]) -> list[dict[str, Any]]:
    """What is wrong with a proposed plan that is to stand at `path`, as `{line, message}`; empty when it can be used.

    Args:
        agent: (agent, command) of the only agent, beside `shell`, that may be in it.
    """
    try:
        plan = parse(text, path)
    except PlanError as error:
        return list(error.details["errors"])
    faults = [
        {"line": None, "message": f"leave out `{key}`: that is the user's to decide"}
        for key in REFUSED
        if any(line.startswith((f"{key}:", f'"{key}":')) for line in text.splitlines())
    ]
    for name, member in plan.members.items():
        if member.agent != "shell" and (member.agent, tuple(member.command or ())) != agent:
            allowed = json.dumps({agent[0]: list(agent[1])}) if agent[1] else agent[0]
            faults.append({"line": None, "message": f"{name}: only `agent: shell` and `agent: {allowed}` may work"})
        if member.permissions not in (None, "read-only"):
            said = f"{name}: leave out `permissions: {member.permissions}`: how much is allowed is the user's to decide"
            faults.append({"line": None, "message": said})
        if member.env:
            faults.append({"line": None, "message": f"{name}: leave out `env`: that is the user's to decide"})
    faults += [
        {"line": None, "message": f"{key}: leave out `env`: that is the user's to decide"}
        for key, task in plan.tasks.items()
        if task.env
    ]
    faults += [
        {"line": None, "message": f"{key}: `verify: {task.verify}` succeeds whatever was done: say one that can fail"}
        for key, task in plan.tasks.items()
        if task.verify is not None and NO_CHECK.fullmatch(task.verify.strip())
    ]
    return faults


def placed(text: str, path: str, directory: str) -> str:
    """The plan as it is to be written at `path`, so that its tasks work in `directory`, which its agent looked at."""
    here = os.path.dirname(os.path.abspath(path))
    if os.path.realpath(here) == os.path.realpath(directory):
        return text
    where = json.dumps(os.path.relpath(directory, here))
    if text.lstrip().startswith("{"):
        return text.replace("{", f'{{"workdir": {where}, ', 1)
    marker = "---\n" if text.startswith("---\n") else ""
    return f"{marker}workdir: {where}\n{text[len(marker) :]}"


def file_name(goal: str, directory: str, taken: Sequence[str]) -> str:
    """A path in `directory` for a plan with that goal, which is not there yet and whose team would have a new name."""
    words = "".join(character if character.isascii() and character.isalnum() else " " for character in goal.lower())
    stem = ""
    for word in words.split():
        if len(stem) + len(word) > 39:
            break
        stem = f"{stem}-{word}" if stem else word
    stem = stem or "plan"
    number = 1
    while True:
        name = stem if number == 1 else f"{stem}-{number}"
        path = os.path.join(directory, f"{name}.yaml")
        if name not in taken and not os.path.lexists(path):
            return path
        number += 1


def _facts(findings: Findings) -> list[str]:
    found = [("language", findings.language), ("lint", findings.lint_command), ("test", findings.test_command)]
    lines = [f"- {what}: {value}" for what, value in [*found, ("build", findings.build_command)] if value]
    return ["What was found there:", *lines] if lines else ["Nothing was found there that lints, tests or builds it."]
