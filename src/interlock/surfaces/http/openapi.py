"""/openapi.json: what FastAPI finds by itself, with our failures in place of its own, and how to authenticate."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from interlock.surfaces.http.auth import OPEN
from interlock.surfaces.http.responses import Failure

ABOUT = (
    "Teams of coding agents: their tasks, mail, questions and history. Every failure is "
    '`{"error": code, "message": sentence, …details}`; codes stay the same between versions. Beside what is listed '
    "here there are `GET /api/events`, server-sent events that never end, and `/mcp`."
)
FAILURES: dict[str, str] = {
    "400": "The request makes no sense.",
    "401": "No valid token or cookie.",
    "403": "The caller may not do that.",
    "404": "Something named in the request does not exist.",
    "409": "The present state does not allow it.",
    "413": "Too large.",
    "429": "A limit; `setting` names the setting that raises it.",
    "501": "Announced, but not in this version.",
    "502": "An agent program could not be started or spoken to.",
    "503": "Try again: nothing was changed.",
}


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the document, made once."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, routes=app.routes, description=ABOUT)
        schemas = found.setdefault("components", {}).setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas["Failure"] = Failure.model_json_schema()
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        shape = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
        for path, methods in found["paths"].items():
            for operation in methods.values():
                operation["responses"].pop("422", None)
                if path not in OPEN:
                    operation["security"] = [{"token": []}]
                    for status, words in FAILURES.items():
                        operation["responses"].setdefault(status, {"description": words, "content": shape})
        app.openapi_schema = found
    return app.openapi_schema
