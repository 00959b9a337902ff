"""Which tools agents see, what they weigh, and how arguments are checked: no server needed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.errors import InvalidRequest
from interlock.surfaces.mcp.server import listed
from interlock.surfaces.mcp.team_tools import TOOLS, visible
from interlock.surfaces.mcp.tool import McpTool, camel

CONTRACT = (
    "team_create team_status team_shutdown teammate_spawn task_create task_list task_claim task_update task_complete "
    "send_message read_inbox poll_inbox report handoff ask_human run_workflow"
).split()
FOR_LEADS = {"team_create", "team_shutdown", "teammate_spawn", "run_workflow"}


def test_the_tools_are_those_of_the_contract() -> None:
    assert [tool.name for tool in visible(True)] == CONTRACT
    assert {tool.name for tool in visible(True)} - {tool.name for tool in visible(False)} == FOR_LEADS


def test_an_agent_that_is_led_through_a_workflow_has_its_tools_instead_of_those_that_end_a_task() -> None:
    ends = {"task_update", "task_complete", "ask_human"}
    steps = {"step_done", "ask", "choose"}
    for driven in (False, True):
        plain, led = ({tool.name for tool in visible(False, in_workflow, driven)} for in_workflow in (False, True))
        assert led == plain - ends | steps


def test_what_travels_with_every_request_of_a_driven_agent_is_small() -> None:
    shown = [listed(tool, driven=True) for tool in visible(False, driven=True)]
    assert {tool.name for tool in shown} == {"task_update", "task_complete", "send_message", "read_inbox", "ask_human"}
    told = [tool.model_dump(by_alias=True, exclude_none=True) for tool in shown]
    # That a program is to show it at once is told to the program, and not to its model.
    assert [tool.pop("_meta") for tool in told] == [{"anthropic/alwaysLoad": True}] * len(told)
    assert len(json.dumps(told).encode()) <= 1200
    for tool in shown:
        whole = TOOLS[tool.name].schema["properties"]
        for name, schema in tool.input_schema["properties"].items():
            assert schema == {key: value for key, value in whole[name].items() if key != "description"}


def test_all_tools_together_weigh_at_most_twelve_kilobytes() -> None:
    shown = [listed(tool).model_dump(by_alias=True, mode="json", exclude_none=True) for tool in visible(True)]
    assert len(json.dumps(shown, ensure_ascii=False).encode()) <= 12 * 1024


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_a_schema_is_valid_and_says_the_same_as_our_own_check(tool: McpTool) -> None:
    validators = pytest.importorskip("jsonschema")
    schema = tool.schema
    validators.Draft202012Validator.check_schema(schema)
    theirs = validators.Draft202012Validator(schema)
    good = {name: _example(schema["properties"][name]) for name in schema.get("required", ())}
    cases: list[dict[str, Any]] = [good, {}, {**good, "nonsense": 1}]
    for name, value in schema["properties"].items():
        cases.append({**good, name: _example(value)})
        cases += [{**good, name: wrong} for wrong in (True, 1, -1, 1.5, "", "x", [], ["x"], [1], {}, {"x": 1})]
    for case in cases:
        assert _accepts(tool, case) == theirs.is_valid(case), case


def _example(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    return {"string": "text", "boolean": True, "integer": schema.get("minimum"), "array": ["a"], "object": {}}[
        schema["type"]
    ]


def _accepts(tool: McpTool, arguments: dict[str, Any]) -> bool:
    try:
        tool.checked(arguments)
    except InvalidRequest:
        return False
    return True


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("task_claim", {"task": "003"}, "Did you mean task_id?"),
        ("task_create", {"subject": "x", "colour": ["1"]}, "It takes: subject, body"),
        ("team_status", {"team": "x"}, "It takes none"),
        ("task_create", {}, "needs the argument subject"),
        ("task_create", {"subject": None}, "needs the argument subject"),
        ("task_create", {"subject": 7}, "subject must be text, not 7"),
        ("task_create", {"subject": "x", "blocked_by": ["1", 2]}, "blocked_by[1] must be text"),
        ("task_create", {"subject": "x", "priority": "urgent"}, "must be one of: critical, high, normal, low"),
        ("task_claim", {"force": "true"}, "force must be true or false"),
        ("poll_inbox", {"timeout_ms": True}, "must be a whole number"),
        ("poll_inbox", {"timeout_ms": -1}, "at least 0"),
        ("report", {"task_id": "1", "tests": {"failing": 1}}, "tests has no field 'failing'"),
        ("report", {"task_id": "1", "tests": {"failed": "1"}}, "tests.failed must be a whole number"),
    ],
)
def test_a_wrong_argument_is_refused_in_words_one_can_act_on(tool: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        TOOLS[tool].checked(arguments)
    assert words in refusal.value.message
    assert refusal.value.details["field"]


def test_null_stands_for_an_argument_that_is_not_given() -> None:
    assert TOOLS["task_claim"].checked({"task_id": None, "force": True}) == {"force": True}


def test_results_are_in_camel_case_but_keys_that_are_data_stay() -> None:
    given = {
        "blocked_by": [{"task_id": "1"}],
        "metadata": {"own_key": {"deep_key": 1}},
        "settings": {"claim_policy": "soft"},
        "answers": {"ada_1": {"approve": True}},
    }
    assert camel(given) == {
        "blockedBy": [{"taskId": "1"}],
        "metadata": {"own_key": {"deep_key": 1}},
        "settings": {"claim_policy": "soft"},
        "answers": {"ada_1": {"approve": True}},
    }
