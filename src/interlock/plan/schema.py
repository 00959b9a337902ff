"""The form of a plan file: pydantic models, from which files are checked and the JSON Schema is published.

A model says what a single place may hold. What places must agree on (names that exist, no dependency cycles, shell
members for `run`) is checked by `rules`. Every message here is the end of a sentence that `faults` begins.
"""

from __future__ import annotations

import ast
import inspect
import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from interlock.lazy_dataclass import dataclass
from interlock.model.names import LABEL, LABEL_RULE, METADATA_LIMIT, VARIABLE
from interlock.model.plan import Isolation, Priority
from interlock.model.task import TYPES
from interlock.settings import PERMISSIONS

NAME = r"[a-z0-9][a-z0-9_-]{0,49}"
"""A team's or member's name (contract, Names)."""
KEY = r"(?!TASK-)(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9._-]{0,49}"
"""A task's key. It has a letter and does not look like `TASK-...`, so it is never taken for a task's id or its end."""
DURATION = r"(?=.)([0-9]+(\.[0-9]+)?h)?([0-9]+(\.[0-9]+)?m)?([0-9]+(\.[0-9]+)?s)?"
LONGEST_DURATION = 30 * 24 * 3600.0
RESERVED = ("human", "lead")
PROGRAM_FORMS = ("command", "acp")
"""How a program that is not an agent by name takes part."""
MOST_WORDS = 1000

NAME_RULE = "1 to 50 alphanumeric characters, - or _, in lower case, starting with a letter or digit"
KEY_RULE = (
    "1 to 50 of a-z, A-Z, 0-9, - _ and ., starting with a letter or digit, with at least one letter, and no TASK-..."
)
VARIABLE_RULE = (
    "the name of an environment variable: letters, digits and _, and none of Interlock's own, which are never passed on"
)
AGENT_RULE = (
    "`shell`, the name of an agent such as claude, {command: [program, argument, ...]}, or {acp: [...]} for a program "
    "that speaks ACP"
)


def fault(message: str) -> PydanticCustomError:
    """A fault of a value; the message goes on after the name of its place."""
    return PydanticCustomError("plan", "{message}", {"message": message})


def short(text: str) -> str:
    """The text, cut for a message."""
    return text if len(text) <= 60 else text[:59] + "…"


def nearest(word: str, names: Iterable[str]) -> str:
    """` Did you mean "x"?` with a space in front, or nothing when no name is near."""
    near = get_close_matches(word, list(names), n=1)
    return f' Did you mean "{near[0]}"?' if near else ""


@dataclass(frozen=True, slots=True)
class TextRule:
    """What a text must be: `longest` in characters, `rule` the pattern in words."""

    longest: int = 10_000
    one_line: bool = False
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    rule: str = ""

    def checked(self, text: str) -> str:
        if not text.strip():
            raise fault("is blank: give it a value or remove it")
        if len(text) > self.longest:
            raise fault(f"is {len(text):,} characters long; {self.longest:,} are allowed")
        for character in text:
            if character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cs"):
                raise fault(f"contains the control character U+{ord(character):04X}; remove it")
        if self.one_line and "\n" in text:
            raise fault("must be one line")
        if self.choices and text not in self.choices:
            raise fault(f'must be one of: {", ".join(self.choices)}; not "{short(text)}".{nearest(text, self.choices)}')
        if self.pattern and not re.fullmatch(self.pattern, text):
            raise fault(f'must be {self.rule}; not "{short(text)}"')
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.checked, core_schema.str_schema())

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        if self.choices:
            return {"enum": list(self.choices)}
        pattern = {"pattern": f"^{self.pattern}$"} if self.pattern else {}
        return {"type": "string", "minLength": 1, "maxLength": self.longest, **pattern}


def _seconds(value: object) -> float:
    length: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        length = float(value)
    elif isinstance(value, str) and len(value) < 50 and re.fullmatch(DURATION, value):
        units = {"h": 3600.0, "m": 60.0, "s": 1.0}
        length = sum(float(number) * units[unit] for number, unit in re.findall(r"([0-9.]+)([hms])", value))
    if length is None:
        raise PydanticCustomError("duration", "a time such as 30s, 10m or 1h, or a number of seconds")
    if not 0 < length <= LONGEST_DURATION:
        raise fault(f"must be more than nothing and at most 720h, not {short(str(value))}")
    return length


def _agent(value: object) -> object:
    """A name, or how a program is spoken to with the program and its arguments."""
    if isinstance(value, str):
        if value in PROGRAM_FORMS:
            raise fault(f"must say which: {{{value}: [program, argument, ...]}}")
        if re.fullmatch(NAME, value):
            return value
    [(form, words)] = value.items() if isinstance(value, dict) and len(value) == 1 else [("", None)]
    if form not in PROGRAM_FORMS:
        raise PydanticCustomError("agent", AGENT_RULE)
    if not isinstance(words, list) or not words:
        raise fault(f"must have a list of words: {{{form}: [program, argument, ...]}}")
    if len(words) > MOST_WORDS:
        raise fault(f"has a command of more than {MOST_WORDS} words")
    for position, word in enumerate(words):
        if word is None or isinstance(word, (list, dict)):
            raise fault("must have a command that is a list of words")
        try:
            if word != "" or position == 0:
                TextRule().checked(str(word))
        except PydanticCustomError as error:
            raise fault(f"has a command in which a word {error}") from None
    return value


def _datum(value: object, text: ValidatorFunctionWrapHandler) -> object:
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, dict)):
        raise fault("must be text, a number, true or false")
    return text(value)


def _not_reserved(name: str) -> str:
    if name in RESERVED:
        raise fault("is reserved")
    return name


def _program(form: str, help: str) -> JsonSchemaValue:
    items = {"type": ["string", "number", "boolean"]}
    words = {"description": help, "type": "array", "minItems": 1, "maxItems": MOST_WORDS, "items": items}
    return {"type": "object", "additionalProperties": False, "required": [form], "properties": {form: words}}


Agent = Annotated[
    Any,
    BeforeValidator(_agent),
    WithJsonSchema({
        "anyOf": [
            {"type": "string", "pattern": f"^{NAME}$", "not": {"enum": list(PROGRAM_FORMS)}},
            _program("command", "The program and its arguments; the prompt comes on its standard input."),
            _program("acp", "A program that speaks the Agent Client Protocol on its standard input and output."),
        ]
    }),
]  # fmt: skip
Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_DURATION},
            {"type": "string", "pattern": f"^{DURATION}$"},
        ]
    }),
]  # fmt: skip
Prose = Annotated[str, TextRule()]
Line = Annotated[str, TextRule(longest=200, one_line=True)]
Kind = Annotated[str, TextRule(longest=100, one_line=True)]
Name = Annotated[str, TextRule(longest=50, one_line=True)]
Path = Annotated[str, TextRule(longest=4096, one_line=True)]
Verify = Annotated[
    str | Literal[False],
    TextRule(),
    WrapValidator(lambda value, text: False if value is False else text(value)),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1, "maxLength": 10_000}, {"const": False}]}),
]
Retries = Annotated[StrictInt, Field(ge=0, le=1000)]
Dollars = Annotated[
    float, Field(strict=True, ge=0, le=1e9), WrapValidator(lambda value, number: value if number(value) >= 0 else None)
]
"""A number that stays the integer it was written as: it is part of a task's digest."""
Datum = Annotated[str | bool | int | float, TextRule(longest=METADATA_LIMIT), WrapValidator(_datum), WithJsonSchema({
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": METADATA_LIMIT}, {"type": ["number", "boolean"]}]
})]  # fmt: skip
Variable = Annotated[str, TextRule(longest=200, one_line=True, pattern=VARIABLE, rule=VARIABLE_RULE)]
Variables = Annotated[list[Variable], Field(max_length=200)]
Label = Annotated[str, TextRule(longest=50, one_line=True, pattern=LABEL, rule=LABEL_RULE)]
MemberName = Annotated[str, TextRule(pattern=NAME, rule=NAME_RULE), AfterValidator(_not_reserved)]
TaskKey = Annotated[str, TextRule(pattern=KEY, rule=KEY_RULE)]


class Section(BaseModel):
    """A mapping of a plan file."""

    # A file is checked by the model of the whole, which brings the others in: on their own they are rarely needed.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    OTHER_NAMES: ClassVar[dict[str, str]] = {}
    """What people who come from another tool may write; it is refused, with a hint."""


class LimitsSection(Section):
    OTHER_NAMES = {"timeout": "time"}

    turns: Annotated[StrictInt, Field(ge=1, le=10**9)] | None = None
    """Turns of all agents together."""
    tokens: Annotated[StrictInt, Field(ge=1, le=10**15)] | None = None
    """Tokens of all agents together, as far as they report them."""
    cost_usd: Dollars | None = None
    """US dollars, as far as the agents report them."""
    time: Seconds | None = None
    """Time since the run began."""


class MemberSection(Section):
    OTHER_NAMES = {
        "permission": "permissions", "permission_mode": "permissions", "role": "type", "environment": "env",
    }  # fmt: skip

    agent: Agent = Field(description=f"What it is: {AGENT_RULE}.")
    model: Line | None = None
    """The model its agent uses, in that agent's own words."""
    permissions: Annotated[str, TextRule(choices=PERMISSIONS)] | None = None
    """What it may do without asking."""
    type: Kind | None = None
    """The kind of work it does, in your own words."""
    limits: LimitsSection | None = None
    """What it may use in all before a person is asked."""
    env: Variables | None = None
    """Names of environment variables it may see."""


class TaskSection(Section):
    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["subject"]}, {"required": ["run"]}]})
    OTHER_NAMES = {
        "title": "subject", "name": "subject", "summary": "subject",
        "prompt": "body", "description": "body", "instructions": "body", "details": "body",
        "command": "run", "cmd": "run", "script": "run", "shell": "run", "check": "verify", "test": "verify",
        "depends_on": "blocked_by", "needs": "blocked_by", "dependencies": "blocked_by", "after": "blocked_by",
        "requires": "blocked_by", "owner": "assignee", "member": "assignee", "agent": "assignee",
        "reviewer": "review", "environment": "env", "time": "timeout", "time_limit": "timeout",
    }  # fmt: skip

    subject: Line | None = None
    """What is to be done, in a line; with `run` it may be left out."""
    body: Prose | None = None
    """The whole of it: what an agent gets as its prompt, after the subject."""
    run: Prose | None = None
    """A command for a shell member; a task without one is done by an agent."""
    verify: Verify | None = None
    """A command that must succeed before the task counts as done; false: none, whatever the plan says."""
    blocked_by: Annotated[list[Name], Field(max_length=1000)] | None = None
    """Keys of the tasks that must be done first."""
    assignee: Name | None = None
    """The only member that may take it."""
    review: Name | None = None
    """Who approves the result: `none` (default), `human`, or a member other than the assignee."""
    priority: Annotated[Priority, TextRule(choices=get_args(Priority))] | None = None
    """Which of several ready tasks goes first; `normal` unless given."""
    type: Annotated[str, TextRule(choices=TYPES)] | None = None
    """What kind of work it is; other kinds are `labels`."""
    limits: LimitsSection | None = None
    """What all its runs may use together before a person is asked."""
    retries: Retries | None = None
    """Failed attempts before it is given up."""
    env: Variables | None = None
    """Names of environment variables its commands may see, instead of the plan's."""
    labels: Annotated[list[Label], Field(max_length=20)] | None = None
    """Labels that a worker must offer to be given it, such as gpu; any worker will do unless given."""
    timeout: Seconds | None = None
    """How long one attempt may take, such as 30s, 10m or 1h."""
    metadata: Annotated[dict[Line, Datum], Field(min_length=1, max_length=50)] | None = None
    """Your own data about it, such as its id elsewhere; nothing is done because of it, but for `reviewRequired` and
    `delegationDepth`, by which the protocol goes."""


class PlanFile(Section):
    """A team of agents and the tasks it is to carry out, run by `interlock run PLAN.yaml`."""

    model_config = ConfigDict(title="Interlock plan", defer_build=False)
    OTHER_NAMES = {
        "cwd": "workdir", "directory": "workdir", "dir": "workdir", "concurrency": "parallel", "environment": "env",
        "agents": "members", "team_members": "members", "workers": "members", "steps": "tasks", "jobs": "tasks",
    }  # fmt: skip

    team: Annotated[str, TextRule(pattern=NAME, rule=NAME_RULE)] | None = None
    """The team's name. Unless given it is the file's own name, or for a `plan.yaml` what `interlock.toml` beside it
    says, with a number where that is the name of a team in another directory."""
    workdir: Path | None = None
    """The directory to work in, relative to this file; its own directory unless given."""
    parallel: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    """How many tasks may be under way at once."""
    isolation: Annotated[Isolation, TextRule(choices=get_args(Isolation))] | None = None
    """`none`: all work in `workdir`. `worktree`: each task in a git worktree of its own, merged when it is good; the
    default in a git repository where two members may work at once."""
    setup: Prose | None = None
    """With `isolation: worktree`: a command that prepares each fresh worktree."""
    copy_: Annotated[list[Path], Field(max_length=1000)] | None = Field(None, alias="copy")
    """With `isolation: worktree`: files and directories ignored by git, such as .env, that each fresh worktree gets a
    copy of."""
    limits: LimitsSection | None = None
    """What a whole run may use before no new work starts."""
    retries: Retries | None = None
    """`retries` of every task that does not say otherwise."""
    verify: Prose | None = None
    """`verify` of every task that does not say otherwise."""
    check_before: StrictBool | None = None
    """With `isolation: worktree`: whether each `verify` is also run on the tree before the work; true unless given."""
    protect: Annotated[list[Path], Field(max_length=1000)] | None = None
    """With `isolation: worktree`: patterns of further files that checks read as their own, relative to `workdir`,
    beside those known for the usual runners."""
    strict: StrictBool | None = None
    """With `isolation: worktree`: whether work that is verified only by tests it changed waits for a person; false
    unless given."""
    env: Variables | None = None
    """Names of environment variables that members and commands may see."""
    members: Annotated[dict[MemberName, MemberSection], Field(min_length=1, max_length=1000)]
    """Who does the tasks, by name."""
    tasks: Annotated[dict[TaskKey, TaskSection], Field(min_length=1, max_length=10_000)]
    """What is to be done, by key."""


@cache
def descriptions(section: type[Section]) -> dict[str, str]:
    """What the fields of a section are for, by name: the text below each.

    It is read from the source where it is shown. Pydantic would read it for every plan, which takes a third of the time
    that all of these models take.
    """
    found = {name: field.description for name, field in section.model_fields.items() if field.description}
    try:
        [made] = ast.parse(inspect.getsource(section)).body
    except OSError:  # Python was given no source
        return found
    for field, text in pairwise(made.body if isinstance(made, ast.ClassDef) else ()):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                found.setdefault(name, inspect.cleandoc(said))
    return found


class _PlanSchema(GenerateJsonSchema):
    """Names are keys of any text that `propertyNames` checks, and nothing may be null."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        found = super().model_schema(schema)
        section: type[Section] = schema["cls"]
        for name, text in descriptions(section).items():
            found["properties"][section.model_fields[name].alias or name].setdefault("description", text)
        return found

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        names = self.generate_inner(schema["keys_schema"])
        if names.get("pattern") == f"^{NAME}$":
            names["not"] = {"enum": list(RESERVED)}
        return {
            "type": "object", "propertyNames": names,
            "additionalProperties": self.generate_inner(schema["values_schema"]),
            "minProperties": schema["min_length"], "maxProperties": schema["max_length"],
        }  # fmt: skip


def json_schema() -> dict[str, Any]:
    """The published schema, draft 2020-12; a new dict at each call."""
    schema = PlanFile.model_json_schema(schema_generator=_PlanSchema)
    return {"$schema": _PlanSchema.schema_dialect, **schema}
