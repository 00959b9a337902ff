"""Answers as JSON. Verbs answer plain values, so nothing is validated a second time on its way out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

MEDIA_TYPE = "application/json"


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as the body of an answer."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    # Half of a surrogate pair cannot be sent, but may stand in what an agent wrote.
    return Response(body.encode("utf-8", "replace"), status, headers, MEDIA_TYPE)
