"""What authors write as hooks, and what is made of it: every form, every mistake, with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.hooks import definitions
from interlock.workflow.hooks.definitions import EVENTS, Found, Hook, discover, tool_names
from interlock.workflow.package import packages
from interlock.workflow.package import workflow as workflows
from tests.workflow.stage import project

SIMPLE = {"matcher": "edit|Bash", "command": "scripts/check.sh --fast 'a b'", "critical": True, "timeout": 10}


def of(root: Path, step: int = 0) -> Found:
    package = packages.load(str(root))
    workflow = workflows.read(package, package.skills[0])
    if step == 0:
        return definitions.everywhere(package.files, workflow)
    return definitions.of_step(package.files, workflow, workflow.steps[step - 1])


@pytest.mark.req("BMAD-FR51", "BMAD-hooks")
def test_the_simple_form_and_that_of_claude_code_say_the_same() -> None:
    nested = {"matcher": "edit|Bash", "hooks": [{**SIMPLE, "type": "command"}]}
    del nested["hooks"][0]["matcher"]  # type: ignore[index, arg-type]
    simple, claude = discover({"PreToolUse": [SIMPLE]}), discover({"PreToolUse": [nested]})
    assert simple == claude and not simple.malformed
    (hook,) = simple.hooks
    assert hook.command == ("scripts/check.sh", "--fast", "a b")
    assert (hook.critical, hook.timeout, hook.shell, hook.once) == (True, 10.0, False, False)


@pytest.mark.parametrize("written", ["scripts/x.sh", {"command": ["scripts/x.sh"]}, ["scripts/x.sh"]])
def test_a_hook_may_be_a_word_a_mapping_or_a_list(written: object) -> None:
    (hook,) = discover({"Stop": written}).hooks
    assert (hook.event, hook.command, hook.timeout) == ("Stop", ("scripts/x.sh",), 5.0)


def test_a_shell_is_used_only_where_the_hook_asks_for_one() -> None:
    found = discover({"Stop": [{"command": "scripts/x.sh && rm y"}]})
    assert not found.hooks and "shell: true" in found.malformed[0].message
    (hook,) = discover({"Stop": [{"command": "scripts/x.sh && rm y", "shell": True}]}).hooks
    assert hook.shell and hook.command == ("scripts/x.sh && rm y",)


@pytest.mark.parametrize(
    ("hooks_", "said"),
    [
        ("scripts/x.sh", "names events"),
        ({"PreToolUs": []}, "did you mean PreToolUse"),
        ({"UserPromptSubmit": [{"command": "x"}]}, "no event 'UserPromptSubmit'"),
        ({"Stop": 5}, "a list of hooks"),
        ({"Stop": [5]}, "is `command: …`"),
        ({"Stop": [{}]}, "names a program"),
        ({"Stop": [{"command": []}]}, "names a program"),
        ({"Stop": [{"command": ["a", {"b": 1}]}]}, "names a program"),
        ({"Stop": [{"command": ["a"], "shell": True}]}, "names a program"),
        ({"Stop": [{"command": "a 'b"}]}, "without its end"),
        ({"Stop": [{"command": "a\0b"}]}, "names a program"),
        ({"Stop": [{"command": "x", "citical": True}]}, "did you mean `critical`"),
        ({"Stop": [{"command": "x", "critical": "perhaps"}]}, "true or false"),
        ({"Stop": [{"command": "x", "timeout": 0}]}, "at most 600"),
        ({"Stop": [{"command": "x", "timeout": True}]}, "at most 600"),
        ({"Stop": [{"command": "x", "timeout": "soon"}]}, "at most 600"),
        ({"Stop": [{"command": "x", "timeout": 601}]}, "at most 600"),
        ({"PreToolUse": [{"command": "x", "matcher": "("}]}, "no regular expression"),
        ({"PreToolUse": [{"command": "x", "matcher": 5}]}, "regular expression"),
        ({"Stop": [{"hooks": [{"type": "prompt", "prompt": "x"}]}]}, "no setting `prompt`"),
        ({"Stop": [{"hooks": [{"type": "prompt", "command": "x"}]}]}, "the type `command`"),
        ({"Stop": [{"hooks": [{"hooks": []}]}]}, "one level deep"),
        ({"Stop": [{"hooks": "x"}]}, "one level deep"),
        ({"Stop": ["x"] * 101}, "more than 100"),
    ],
)
def test_what_is_no_hook_is_said_and_never_raised(hooks_: object, said: str) -> None:
    found = discover(hooks_)
    assert said in found.malformed[0].message, found


def test_a_critical_hook_that_cannot_be_read_is_still_critical() -> None:
    (wrong,) = discover({"Stop": [{"command": "", "critical": True}]}).malformed
    assert wrong.critical
    (wrong,) = discover({"Stop": [{"command": "x", "critical": "yess"}]}).malformed
    assert wrong.critical, "nobody knows what it should be: the stronger one"
    (wrong,) = discover({"Sop": [{"command": "x", "critical": True}]}).malformed
    assert wrong.critical


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*EVENTS, *definitions.KEYS]) | st.text(max_size=5), inner, max_size=4)
    ),
)


@given(JSON)
def test_whatever_stands_there_it_is_hooks_or_a_message(value: object) -> None:
    found = discover(value)
    assert all(isinstance(one, Hook) and one.command and 0 < one.timeout <= 600 for one in found.hooks)
    assert all(one.message and one.line >= 1 for one in found.malformed)


@pytest.mark.req("BMAD-FR51")
def test_a_step_has_its_own_hooks_after_those_of_the_workflow(tmp_path: Path) -> None:
    root = project(
        tmp_path, front="hooks:\n  Stop: [scripts/step.sh, scripts/both.sh]\n",
        workflow="hooks:\n  Stop:\n    - scripts/flow.sh\n    - {command: scripts/both.sh, critical: true}\n",
    )  # fmt: skip
    found = of(root, 2).of("Stop")
    assert [one.name for one in found] == ["scripts/flow.sh", "scripts/both.sh", "scripts/step.sh"]
    assert not found[1].critical, "of the same hook, what the step says counts"
    assert (found[0].file, found[0].line) == ("_bmad/bmm/workflows/make-plan/workflow.md", 5)
    assert found[2].file == "_bmad/bmm/workflows/make-plan/steps/step-02-part.md"


def test_our_overlay_file_gives_hooks_to_sources_that_stay_as_they_are(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "interlock.workflows.yaml").write_text(
        "workflows:\n  bmm/make-plan:\n    hooks:\n      SessionStart: scripts/a.sh\n"
        "    steps:\n      2:\n        hooks:\n          Stop:\n            - scripts/b.sh\n            - {comand: x}\n"
    )
    assert [one.name for one in of(root, 1).hooks] == ["scripts/a.sh"]
    second = of(root, 2)
    assert [(one.name, one.line) for one in second.hooks] == [("scripts/a.sh", 4), ("scripts/b.sh", 9)]
    (wrong,) = second.malformed
    assert wrong.text.startswith("interlock.workflows.yaml:10: a hook has no setting `comand`; did you mean `command`?")


def test_a_mistake_is_shown_with_file_and_line(tmp_path: Path) -> None:
    root = project(tmp_path, 1, front="hooks:\n  PreToolUse:\n    - command: scripts/a.sh\n      timeout: never\n")
    (wrong,) = of(root).malformed
    path = root / wrong.file
    assert path.read_text().splitlines()[wrong.line - 1] == "      timeout: never"


@pytest.mark.parametrize(
    ("matcher", "kind", "title", "expected"),
    [
        ("", "edit", "Write x", True),
        ("*", "other", "", True),
        ("edit|Bash", "edit", "Write plan.md", True),
        ("edit|Bash", "execute", "git status", True),
        ("Edit", "edit", "", True),
        ("Read", "edit", "", False),
        ("Write", "other", "Write plan.md", True),
        ("mcp__memory__.*", "other", "mcp__memory__store", True),
        ("ed", "edit", "", False),
    ],
)
def test_a_matcher_names_a_tool_by_its_kind_title_or_claude_codes_name(
    matcher: str, kind: str, title: str, expected: bool
) -> None:
    assert Hook("PreToolUse", ("x",), matcher).matches(*tool_names(kind, title)) is expected
