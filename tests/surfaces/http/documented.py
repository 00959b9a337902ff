"""Answers are what /openapi.json says of them: every answer that a test gets is validated against its model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from fastapi.routing import APIRoute

from interlock.surfaces.http.application import ROUTERS
from interlock.surfaces.http.responses import Document, Failure, OpenDocument

ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def check(method: str, address: str, status: int, answer: Any) -> None:
    """Fail where a JSON answer is not what its endpoint documents."""
    path = unquote(urlsplit(address).path)
    for route in ROUTES:
        if method in route.methods and route.path_regex.match(path) and route.include_in_schema:
            model = route.responses.get(status, {}).get("model", Failure if status >= 400 else None)
            assert model is not None, f"{method} {route.path} documents no answer with status {status}"
            found = model.model_validate(answer, strict=True)
            extra = sorted(set(undocumented(found)))
            assert model is Failure or not extra, f"{method} {route.path} answers what it does not document: {extra}"
            return


def undocumented(found: Any) -> Iterator[str]:
    """Yield the fields of an answer that its model does not have."""
    if isinstance(found, Document):
        if not isinstance(found, OpenDocument):
            yield from (f"{type(found).__name__}.{name}" for name in found.model_extra or ())
        for name in type(found).model_fields:
            yield from undocumented(getattr(found, name))
    elif isinstance(found, list):
        for one in found:
            yield from undocumented(one)
