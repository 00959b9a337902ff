"""The rules of texts, for /openapi.json. They are only shown here: the verbs enforce them, and say what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from interlock.model.message import TYPES as MESSAGE_TYPES
from interlock.model.names import ANY, FULL, RESERVED
from interlock.model.task import FRONT_DOOR, PRIORITIES, STATES, STATUS, TYPES
from interlock.settings import PERMISSIONS


def _text(**rules: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", **rules})


def _one_of(values: Iterable[str]) -> WithJsonSchema:
    return _text(enum=list(dict.fromkeys(values)))


NAME = r"^[a-z0-9][a-z0-9_-]{0,49}$"
LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*[^\s\x00-\x1f\x7f-\x9f\u2028\u2029][^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"

TeamName = Annotated[str, _text(pattern=NAME)]
NewName = Annotated[str, WithJsonSchema({"type": "string", "pattern": NAME, "not": {"enum": list(RESERVED)}})]
Text = Annotated[str, _text(pattern=ANY)]
Full = Annotated[str, _text(pattern=FULL)]
"""Text that is not blank."""
Line = Annotated[str, _text(pattern=LINE, maxLength=200)]
Body = Annotated[str, _text(pattern=ANY, maxLength=10_000)]
Saying = Annotated[str, _text(pattern=FULL, maxLength=10_000)]
Label = Annotated[str, _text(pattern=FULL, maxLength=100)]
Commands = Annotated[list[Full], Field(json_schema_extra={"minItems": 1})]

Priority = Annotated[str, _one_of(PRIORITIES)]
TaskType = Annotated[str, _one_of(TYPES)]
MemberStatus = Annotated[str, _one_of(("pending", "in_progress", "completed"))]
StateOrStatus = Annotated[str, _one_of((*STATES, *STATUS.values(), *FRONT_DOOR.values()))]
Policy = Annotated[str, _one_of(("strict", "soft"))]
Permissions = Annotated[str, _one_of(PERMISSIONS)]
MessageType = Annotated[str, _one_of(MESSAGE_TYPES)]
ChatSession = Annotated[str, _text(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$")]
Moment = Annotated[str, _text(format="date-time")]
Limit = Annotated[int, Field(ge=1, le=1000)]

# Enforced here, as printable ASCII: what else counts as printable cannot be told in a schema.
SessionKey = Annotated[str, Field(pattern=r"^[!-~]{1,200}$")]
AgentId = Annotated[str, Field(pattern=r"^[!-~]{1,100}$")]
Session = Annotated[str, Field(pattern=r"^[!-~]([ -~]{0,198}[!-~])?$")]
"""The session of a program that reads mail, as in the header Interlock-Session."""
# 2.0 is a whole number to JSON.
Whole = Annotated[
    int, BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
]
Tier = Annotated[Whole, Field(ge=0, le=4), WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 4})]
