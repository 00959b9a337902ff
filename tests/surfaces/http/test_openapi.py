"""The OpenAPI document is true: schemathesis asks a real server by it and finds no fault."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from tests.surfaces.http.harness import Client, Server

CONFIG = Path(__file__).with_name("schemathesis.toml")
RUN = "from schemathesis.cli import schemathesis; schemathesis()"

ADDRESSES = """
GET /api/projects|POST /api/projects|POST /api/projects/{project}/chat|GET /api/task-groups
GET /api/task-groups/{group}/tasks|GET /api/tasks/{id}|POST /api/tasks/{id}/reply
GET /api/projects/{project}/tasks/{id}|POST /api/projects/{project}/tasks/{id}/reply
GET /api/projects/{project}/task-groups|GET /api/projects/{project}/task-groups/{group}/tasks
POST /api/teams/{team}/protocol|GET /api/teams/{team}/members|GET /api/teams/{team}/tasks
POST /api/teams/{team}/tasks/{id}/claim|POST /api/teams/{team}/tasks/{id}/complete|GET /api/teams/{team}/messages
POST /api/teams/{team}/messages|GET /api/teams/{team}/inbox/{member}|GET /api/teams/{team}/questions
POST /api/teams/{team}/inbox/{member}/receive|POST /api/teams/{team}/inbox/{member}/ack
GET /api/teams/{team}/events|GET /api/workflows|GET /healthz|GET /readyz|GET /metrics
"""


def prepared(server: Server) -> Client:
    """A home in which there is something of everything, under names that the tool can guess."""
    admin = server.client()
    admin.post("/api/projects", {"id": "0"})
    admin.post("/api/teams/0/members", {"name": "0"})
    admin.post("/api/projects/0/chat", {"content": "What is here?", "session_id": "0"})
    admin.post("/api/teams/0/tasks", {"subject": "Look", "verify": "true"})
    return admin


def ask(server: Server, *options: str) -> str:
    """Let schemathesis ask the server; what it says."""
    admin = prepared(server)
    words = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        RUN,
        "--config-file",
        str(CONFIG),
        "run",
        f"{server.url}/openapi.json",
        "--no-color",
        *options,
    ]
    words += ["--header", f"Authorization: {admin.headers['authorization']}", "--request-timeout", "60"]
    run = subprocess.run(words, capture_output=True, text=True, timeout=1200, check=False, cwd=server.home)
    assert run.returncode == 0, f"{run.stdout[-12000:]}\n{run.stderr[-2000:]}"
    return run.stdout


def test_it_lists_the_addresses_of_the_contract(admin: Client) -> None:
    paths = admin.get("/openapi.json")["paths"]
    listed = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    wanted = {line for row in ADDRESSES.strip().splitlines() for line in row.split("|")}
    assert not wanted - listed


def test_it_knows_no_failure_but_ours(admin: Client) -> None:
    document = admin.get("/openapi.json")
    assert "HTTPValidationError" not in document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert "422" not in operation["responses"]
            assert operation["security"] == ([] if path in ("/healthz", "/readyz") else [{"token": []}])


def test_linters_find_where_it_is_served_its_tags_and_an_example_that_fits_for_each_body(admin: Client) -> None:
    document = admin.get("/openapi.json")
    assert document["servers"] == [{"url": "/"}] and document["info"]["license"]["identifier"] == "MIT"
    tags, named = {one["name"] for one in document["tags"]}, set()
    for methods in document["paths"].values():
        for operation in methods.values():
            assert set(operation["tags"]) <= tags and any(status.startswith("4") for status in operation["responses"])
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            named |= {str(body["$ref"]).rpartition("/")[2]} if "$ref" in body else set()
    for name in named:
        schema = document["components"]["schemas"][name]
        validator = Draft202012Validator({**schema, "components": document["components"]})
        assert schema["examples"] and all(validator.is_valid(one) for one in schema["examples"]), name


def test_it_says_which_labels_are_refused(admin: Client) -> None:
    admin.post("/api/projects", {"id": "labels"})
    document = admin.get("/openapi.json")
    body = document["paths"]["/api/teams/{team}/tasks"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    validator = Draft202012Validator({**body, "components": document["components"]})
    for label in ["gpu", "a.b_c-1", "x" * 50, "x" * 51, "GPU", "a b", "-a", "", "é"]:
        task = {"subject": "Train", "labels": [label]}
        answer = admin.call("POST", "/api/teams/labels/tasks", task)
        assert (answer.status < 400) == validator.is_valid(task), (label, answer.body)


@pytest.mark.storm
@pytest.mark.dosed
@pytest.mark.timeout(1800)
def test_schemathesis_finds_no_fault(start: Callable[..., Server], dose: float) -> None:
    server = start()
    # A small dose looks at the same requests each time; a whole one goes on searching.
    phases = "examples,coverage,fuzzing,stateful" if dose >= 0.1 else "examples,fuzzing"
    more = ["--generation-deterministic"] if dose < 1 else []
    ask(server, "--phases", phases, "--max-examples", str(max(2, int(60 * dose))), *more)
    said = server.close()
    assert "Traceback" not in said, said
