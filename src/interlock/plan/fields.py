"""The one table of what a plan may contain. The reader, the JSON Schema and the documentation are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from interlock.settings import PERMISSIONS

Kind = Literal[
    "text",  # a text of one or more lines
    "line",  # a text without line breaks
    "verify",  # a text, or false: none, in spite of the plan's default
    "truth",  # true or false
    "integer",
    "number",
    "duration",  # 90, 30s, 10m, 1h, 1h30m
    "texts",  # a list of texts
    "agent",  # a name, or {command: [program, argument, ...]}, or {acp: [program, argument, ...]}
    "mapping",  # the fields named in `fields`
    "named",  # any number of names, each with the fields named in `fields`
]

#: A team's or member's name (contract, Names).
NAME = r"[a-z0-9][a-z0-9_-]{0,49}"
#: A task's key. It has a letter and is no `TASK-...`, so it is never taken for a task's id or the end of one.
KEY = r"(?!TASK-)(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9._-]{0,49}"
#: The name of an environment variable.
VARIABLE = r"(?!INTERLOCK_)[A-Za-z_][A-Za-z0-9_]*"
#: A time in words.
DURATION = r"(?=.)([0-9]+(\.[0-9]+)?h)?([0-9]+(\.[0-9]+)?m)?([0-9]+(\.[0-9]+)?s)?"

RESERVED = ("human", "lead")
LONGEST_DURATION = 30 * 24 * 3600.0

#: How a program that is no agent by name takes part.
PROGRAM_FORMS = ("command", "acp")
AGENT_RULE = (
    "`shell`, the name of an agent such as claude, {command: [program, argument, ...]}, or {acp: [...]} for a program "
    "that speaks ACP"
)
NAME_RULE = "1 to 50 alphanumeric characters, - or _, in lower case, starting with a letter or digit"
KEY_RULE = (
    "1 to 50 letters, digits, - _ or ., starting with a letter or digit, with at least one letter, and no TASK-..."
)
VARIABLE_RULE = (
    "the name of an environment variable: letters, digits and _, and none of Interlock's own, which are never passed on"
)


@dataclass(frozen=True, slots=True)
class Field:
    """One row: a key that may stand in a plan, and what may stand behind it.

    `longest` is in characters; `least` and `most` bound numbers and, for lists and `named`, the count. `pattern` is
    held against texts, the items of `texts` and the names of `named`; `rule` says it in words. `other_names` are what
    people who come from another tool may write; they are refused, with a hint.
    """

    name: str
    kind: Kind
    help: str
    required: bool = False
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    rule: str | None = None
    longest: int = 10_000
    least: float | None = None
    most: float | None = None
    fields: tuple[Field, ...] = ()
    other_names: tuple[str, ...] = ()


LIMITS = (
    Field("turns", "integer", "Turns of all agents together.", least=1, most=1e9),
    Field("tokens", "integer", "Tokens of all agents together, as far as they report them.", least=1, most=1e15),
    Field("cost_usd", "number", "US dollars, as far as the agents report them.", least=0, most=1e9),
    Field("time", "duration", "Time since the run began.", least=0, most=LONGEST_DURATION, other_names=("timeout",)),
)

MEMBER = (
    Field("agent", "agent", f"What it is: {AGENT_RULE}.", required=True, pattern=NAME, rule=AGENT_RULE),
    Field("model", "line", "The model its agent uses, in that agent's own words.", longest=200),
    Field(
        "permissions",
        "line",
        "What it may do without asking.",
        choices=PERMISSIONS,
        other_names=("permission", "permission_mode"),
    ),
    Field("type", "line", "The kind of work it does, in your own words.", longest=100, other_names=("role",)),
    Field("limits", "mapping", "What it may use in all before a person is asked.", fields=LIMITS),
    Field(
        "env",
        "texts",
        "Names of environment variables it may see.",
        pattern=VARIABLE,
        rule=VARIABLE_RULE,
        longest=200,
        most=200,
        other_names=("environment",),
    ),
)

TASK = (
    Field(
        "subject",
        "line",
        "What is to be done, in a line; with `run` it may be left out.",
        longest=200,
        other_names=("title", "name", "summary"),
    ),
    Field(
        "body",
        "text",
        "The whole of it: what an agent gets as its prompt, after the subject.",
        other_names=("prompt", "description", "instructions", "details"),
    ),
    Field(
        "run",
        "text",
        "A command for a shell member; a task without one is done by an agent.",
        other_names=("command", "cmd", "script", "shell"),
    ),
    Field(
        "verify",
        "verify",
        "A command that must succeed before the task counts as done; false: none, whatever the plan says.",
        other_names=("check", "test"),
    ),
    Field(
        "blocked_by",
        "texts",
        "Keys of the tasks that must be done first.",
        longest=50,
        most=1000,
        other_names=("depends_on", "needs", "dependencies", "after", "requires"),
    ),
    Field(
        "assignee", "line", "The only member that may take it.", longest=50, other_names=("owner", "member", "agent")
    ),
    Field(
        "review",
        "line",
        "Who approves the result: `none` (default), `human`, or a member other than the assignee.",
        longest=50,
        other_names=("reviewer",),
    ),
    Field(
        "priority",
        "line",
        "Which of several ready tasks goes first; `normal` unless given.",
        choices=("critical", "high", "normal", "low"),
    ),
    Field("type", "line", "The kind of task, in your own words.", longest=100),
    Field("limits", "mapping", "What all its runs may use together before a person is asked.", fields=LIMITS),
    Field("retries", "integer", "Failed attempts before it is given up.", least=0, most=1000),
    Field(
        "env",
        "texts",
        "Names of environment variables its commands may see, instead of the plan's.",
        pattern=VARIABLE,
        rule=VARIABLE_RULE,
        longest=200,
        most=200,
        other_names=("environment",),
    ),
    Field(
        "timeout",
        "duration",
        "How long one attempt may take, such as 30s, 10m or 1h.",
        least=0,
        most=LONGEST_DURATION,
        other_names=("time", "time_limit"),
    ),
)

PLAN = (
    Field(
        "team", "line", "The team's name; the file's own name unless given.", pattern=NAME, rule=NAME_RULE, longest=50
    ),
    Field(
        "workdir",
        "line",
        "The directory to work in, relative to this file; its own directory unless given.",
        longest=4096,
        other_names=("cwd", "directory", "dir"),
    ),
    Field(
        "parallel",
        "integer",
        "How many tasks may be under way at once.",
        least=1,
        most=1000,
        other_names=("concurrency", "jobs", "workers"),
    ),
    Field(
        "isolation",
        "line",
        "`none`: all work in `workdir`. `worktree`: each task in a git worktree of its own, merged when it is good; "
        "the default in a git repository where two members may work at once.",
        choices=("none", "worktree"),
    ),
    Field("setup", "text", "With `isolation: worktree`: a command that prepares each fresh worktree."),
    Field(
        "copy",
        "texts",
        "With `isolation: worktree`: files ignored by git, such as .env, that each fresh worktree gets a copy of.",
        longest=4096,
        most=1000,
    ),
    Field("limits", "mapping", "What a whole run may use before no new work starts.", fields=LIMITS),
    Field("retries", "integer", "`retries` of every task that does not say otherwise.", least=0, most=1000),
    Field("verify", "text", "`verify` of every task that does not say otherwise."),
    Field(
        "check_before",
        "truth",
        "With `isolation: worktree`: whether each `verify` is also run on the tree before the work; true unless given.",
    ),
    Field(
        "env",
        "texts",
        "Names of environment variables that members and commands may see.",
        pattern=VARIABLE,
        rule=VARIABLE_RULE,
        longest=200,
        most=200,
        other_names=("environment",),
    ),
    Field(
        "members",
        "named",
        "Who takes part, by name.",
        required=True,
        pattern=NAME,
        rule=NAME_RULE,
        least=1,
        most=1000,
        fields=MEMBER,
        other_names=("agents", "team_members", "workers"),
    ),
    Field(
        "tasks",
        "named",
        "What is to be done, by key.",
        required=True,
        pattern=KEY,
        rule=KEY_RULE,
        least=1,
        most=10_000,
        fields=TASK,
        other_names=("steps", "jobs"),
    ),
)
