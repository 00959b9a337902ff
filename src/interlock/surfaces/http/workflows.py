"""Workflows of many steps. Announced; the engine that runs them is not part of this version."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from interlock.errors import NotAvailable
from interlock.surfaces.http.visitor import Operator, Reader

router = APIRouter(prefix="/api/workflows", tags=["workflows"], include_in_schema=False)


def _not_yet() -> NotAvailable:
    return NotAvailable(
        "Workflows cannot be run by this version yet; nothing was done. `interlock analyze` shows what the engine sees."
    )


@router.get("")
def workflows(visitor: Reader) -> Response:
    """The runs of workflows."""
    raise _not_yet()


@router.post("", status_code=201)
def run(visitor: Operator) -> Response:
    """Start a workflow."""
    raise _not_yet()


@router.get("/{id}")
def status(visitor: Reader, id: str) -> Response:
    """One run of a workflow."""
    raise _not_yet()
