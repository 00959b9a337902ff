"""The sixteen components of the workflow engine: there under their names, at work, and spoken to by contract alone.

The document that holds the specification's interface contracts is not among ours, so our own typed ones stand in, one
for each component (decision 40): what it is given and what it answers are types, and nobody reaches behind them.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator
from functools import cache

import pytest

from tests.architecture.source import files, imports

WORKFLOW = "interlock.workflow"
CONTRACTS = {
    "Validation Type Detector": ("entry.validation_type_detector", "detect", "ValidationType"),
    "Pre-flight Validation Subagent": ("entry.preflight_validation", "validate", "Preflight"),
    "Cross-Reference Validator": ("entry.cross_reference_validator", "compare", "Alignment"),
    "Workflow Entry Wrapper": ("entry.workflow_entry_wrapper", "detect", "Invocation"),
    "Menu Participation Engine": ("menus.menu_participation_engine", "participate", "Participation"),
    "Context Pre-Loader": ("entry.context_pre_loader", "ContextPreLoader.load", "PreLoaded"),
    "Automation Controller": ("engine.automation_controller", "AutomationController.run", "Ending"),
    "Confidence Calculator": ("engine.confidence_calculator", "calculate", "Confidence"),
    "Tier Suggester": ("entry.tier_suggester", "suggest", "Suggestion"),
    "Party Mode Driver": ("party.party_mode_driver", "heard", "Went"),
    "Loop-Back Handler": ("engine.loop_back_handler", "validated", "Judgement"),
    "Subagent Dispatcher": ("agents.subagent_dispatcher", "SubagentDispatcher.run", "Report"),
    "Memory Bridge": ("memory.memory_bridge", "MemoryBridge.write", "WrittenLessons"),
    "Parallel BMB Validation": ("reviews.parallel_bmb_validation", "ValidationRound.judge", "Examined"),
    "Sprint Status Watcher": ("state.sprint_status_watcher", "SprintStatusWatcher.look", "StatusChange"),
    "Post-Workflow Curator": ("memory.post_workflow_curator", "PostWorkflowCurator.curate", "Curated"),
}
"""By its name in the specification: its module, its verb, and the type of what that answers."""

MODULES = {f"{WORKFLOW}.{module}" for module, _, _ in CONTRACTS.values()}


@pytest.mark.req("BMAD-components")
@pytest.mark.parametrize("name", CONTRACTS)
def test_a_component_is_there_under_its_name_and_at_work(name: str) -> None:
    module = f"{WORKFLOW}.{CONTRACTS[name][0]}"
    assert (importlib.import_module(module).__doc__ or "").startswith(f"{name}:")
    assert module in _reached("interlock.workflow.executor"), "no run of a workflow ever comes to it"


def test_the_package_says_where_each_component_stands() -> None:
    text = importlib.import_module(WORKFLOW).__doc__ or ""
    listed = dict(re.findall(r"^    (\w[\w -]+?)  +(\w+\.\w+)$", text, re.MULTILINE))
    assert listed == {name: module for name, (module, _, _) in CONTRACTS.items()}


@pytest.mark.req("BMAD-contracts")
@pytest.mark.parametrize("name", CONTRACTS)
def test_a_component_has_a_contract_of_types(name: str) -> None:
    module, verb, answer = CONTRACTS[name]
    found: object = importlib.import_module(f"{WORKFLOW}.{module}")
    for part in verb.split("."):
        found = getattr(found, part)
    assert callable(found)
    hints = typing.get_type_hints(found)
    given = [one for one in inspect.signature(found).parameters if one != "self"]
    assert {*given, "return"} <= set(hints), "everything it takes and answers has a type"
    assert typing.Any not in hints.values()
    answers = {one.__name__: one for one in _parts(hints["return"]) if isinstance(one, type)}
    assert answer in answers, sorted(answers)
    assert dataclasses.is_dataclass(answers[answer]) and answers[answer].__dataclass_params__.frozen  # type: ignore[attr-defined]


@pytest.mark.req("BMAD-contracts")
def test_nobody_reaches_behind_the_contract_of_a_component() -> None:
    wrong = []
    for source in files():
        names = {}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for one in node.names:
                    if node.module in MODULES and source.module != node.module and one.name.startswith("_"):
                        wrong.append(f"{source.at(node)} imports {one.name} of {node.module}")
                    if f"{node.module}.{one.name}" in MODULES:
                        names[one.asname or one.name] = f"{node.module}.{one.name}"
        wrong += [
            f"{source.at(node)} uses {node.value.id}.{node.attr}"
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if node.value.id in names and node.attr.startswith("_")
        ]
    assert not wrong, "\n".join(wrong)


def _parts(hint: object) -> Iterator[object]:
    """A type and all that it is made of."""
    yield hint
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is not None:
        for one in typing.get_args(hint):
            yield from _parts(one)


@cache
def _reached(start: str) -> set[str]:
    """Every module of ours that `start` imports, and what those import."""
    of = {source.module: {module for _, module in imports(source, source.tree)} for source in files()}
    found, left = {start}, [start]
    while left:
        for module in of.get(left.pop(), ()):
            for one in (module, module.rpartition(".")[0]):
                if one in of and one not in found:
                    found.add(one)
                    left.append(one)
    return found
