"""What programs of the tests' own import before a library that brings hundreds of pydantic models, such as `acp` and
`mcp`: models are built when they are first used, and the texts below their fields, which only a published schema shows,
are not looked for in the source. Such a program speaks the same, and starts in half the time."""

from __future__ import annotations

import pydantic
from pydantic._internal import _fields

pydantic.BaseModel.model_config["defer_build"] = True
_fields._update_fields_from_docstrings = lambda *_, **__: None  # type: ignore[assignment]
