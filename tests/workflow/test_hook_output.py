"""Programs as hooks: what they may be, what they see, how long they may take, how much of what they print is kept."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.processes import table
from interlock.workflow.hooks.definitions import Hook
from interlock.workflow.hooks.output import STDERR, STDOUT, STEP, HookResult, Stream, pruned, size
from interlock.workflow.hooks.runner import HookRunner

DOCUMENT = {"event": "Stop", "workflow_id": "w-1", "project": "/p", "step": {"id": 3}, "tool": {"kind": "edit"}}


def script(root: Path, text: str, name: str = "hook.sh", mode: int = 0o755) -> str:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return name


def python(root: Path, text: str) -> str:
    return script(root, f"#!{sys.executable}\n{text}\n", "hook.py")


def run(root: Path, *command: str, document: Mapping[str, Any] = DOCUMENT, **more: Any) -> HookResult:
    environment = more.pop("environment", dict(os.environ))
    secrets = more.pop("secrets", ())
    runner = HookRunner(str(root), environment, "w-1", secrets=secrets)
    hook = Hook(more.pop("event", "Stop"), command, **{"timeout": 30.0, **more})
    return anyio.run(partial(runner.run, hook, document))


def test_a_hook_reads_what_happens_as_json_and_as_variables(tmp_path: Path) -> None:
    text = 'cat > in.json; echo "$INTERLOCK_HOOK_EVENT $INTERLOCK_HOOK_WORKFLOW $INTERLOCK_HOOK_STEP"; pwd; echo "$@"'
    found = run(tmp_path, script(tmp_path, text), "a b", "{project-root}/c")
    assert found.status == "ok" and found.exit_code == 0
    assert found.stdout.text == f"Stop w-1 3\n{tmp_path}\na b {tmp_path}/c\n"
    assert json.loads((tmp_path / "in.json").read_text()) == DOCUMENT


def test_a_hook_that_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    big = {**DOCUMENT, "tool": {"kind": "edit", "input": "x" * 1_000_000}}
    assert run(tmp_path, script(tmp_path, "exit 0"), document=big).status == "ok"
    found = run(tmp_path, script(tmp_path, "cat"), document=big)
    assert json.loads(found.stdout.text)["tool"] == {"kind": "edit", "input_left_out": True}


@pytest.mark.req("BMAD-7.4.1", "BMAD-7.4.4", "BMAD-FR52", "BMAD-E7.4")
def test_standard_output_is_cut_at_64_kb_and_says_how_much(tmp_path: Path) -> None:
    found = run(tmp_path, python(tmp_path, "print('x' * 99999, end='')"))
    assert found.truncated and len(found.stdout.text.encode()) == STDOUT == 65_536
    assert found.message == "stdout: 34463 bytes truncated, its original size is 99999 bytes"
    assert found.entry()["truncated"] is True
    exact = run(tmp_path, python(tmp_path, "print('x' * 65536, end='')"))
    assert not exact.truncated and exact.message == ""


@pytest.mark.req("BMAD-7.4.2", "BMAD-FR52", "BMAD-E7.4")
def test_standard_error_is_cut_at_16_kb(tmp_path: Path) -> None:
    found = run(tmp_path, python(tmp_path, "import sys; sys.stderr.write('é' * 10000); print('kept')"))
    assert found.stderr.truncated and len(found.stderr.text.encode()) == STDERR == 16_384
    assert found.stdout.text == "kept\n" and "stderr: 3616 bytes truncated" in found.message


def test_a_hook_that_prints_for_ever_neither_fills_the_memory_nor_hangs(tmp_path: Path) -> None:
    for seconds in (0.5, 5.0):  # On a busy machine it has hardly begun after the first.
        found = run(tmp_path, script(tmp_path, "exec yes x"), timeout=seconds)
        assert found.status == "failed" and f"took longer than its {seconds} s" in found.reason
        if found.stdout.printed > STDOUT:
            break
    assert found.stdout.printed > STDOUT and len(found.stdout.text) <= STDOUT


def test_a_hook_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    text = "setsid sh -c 'echo $$ > deep; exec sleep 300' & trap '' TERM; while [ ! -s deep ]; do :; done; sleep 300"
    for seconds in (2.0, 30.0):  # On a busy machine it may not have begun after the first.
        found = run(tmp_path, script(tmp_path, text), timeout=seconds)
        assert found.status == "failed" and found.exit_code is None
        if (tmp_path / "deep").exists() and (tmp_path / "deep").read_text():
            break
    row = table.row(int((tmp_path / "deep").read_text()))
    assert row is None or not row.running


def test_what_a_hook_leaves_behind_is_ended_with_it(tmp_path: Path) -> None:
    text = "sleep 300 & echo $! > left; echo done"
    found = run(tmp_path, script(tmp_path, text))
    assert (found.status, found.stdout.text) == ("ok", "done\n")
    row = table.row(int((tmp_path / "left").read_text()))
    assert row is None or not row.running


def test_a_hook_sees_nothing_of_the_users_environment_but_what_every_agents_program_may(tmp_path: Path) -> None:
    given = {**os.environ, "AWS_SECRET_ACCESS_KEY": "s3cret-of-the-user", "INTERLOCK_SESSION": "run:1", "LANG": "C"}
    found = run(tmp_path, script(tmp_path, "env"), environment=given)
    assert "s3cret" not in found.stdout.text and "INTERLOCK_SESSION" not in found.stdout.text
    assert "LANG=C" in found.stdout.text and "INTERLOCK_RUN_TOKEN=" in found.stdout.text


def test_secrets_are_blanked_in_what_it_prints(tmp_path: Path) -> None:
    found = run(tmp_path, script(tmp_path, "echo token hunter22"), secrets=("hunter22",))
    assert found.stdout.text == "token ***\n"


@pytest.mark.parametrize("place", ["absolute", "dots", "link", "linked directory", "git", "interpreter"])
def test_a_program_outside_the_project_is_not_run(tmp_path: Path, place: str) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    root.mkdir()
    script(outside, "echo ran > ../ran", "x.sh")
    if place == "link":
        (root / "x.sh").symlink_to(outside / "x.sh")
    if place == "linked directory":
        (root / "scripts").symlink_to(outside)
    if place == "git":
        script(root, "echo ran > ../ran", ".git/x.sh")
    named = {
        "absolute": str(outside / "x.sh"), "dots": "../outside/x.sh", "link": "x.sh",
        "linked directory": "scripts/x.sh", "git": ".git/x.sh", "interpreter": "python3",
    }[place]  # fmt: skip
    found = run(root, named)
    assert found.status == "failed" and found.exit_code is None
    assert "outside the project" in found.reason or "no file of the project" in found.reason
    assert not (tmp_path / "ran").exists()


def test_a_program_that_is_missing_or_cannot_be_executed_says_what_to_do(tmp_path: Path) -> None:
    assert "no file of the project" in run(tmp_path, "scripts/none.sh").reason
    script(tmp_path, "echo", "plain.sh", 0o644)
    assert "chmod +x plain.sh" in run(tmp_path, "plain.sh").reason
    script(tmp_path, "#!/no/such/interpreter\n", "broken.sh")
    assert "interpreter" in run(tmp_path, "broken.sh").reason
    (tmp_path / "folder").mkdir()
    assert "no file of the project" in run(tmp_path, "folder").reason


def test_how_it_ended_is_told(tmp_path: Path) -> None:
    failed = run(tmp_path, script(tmp_path, "echo why it was >&2; exit 3"))
    assert (failed.status, failed.exit_code, failed.reason) == ("failed", 3, "exit 3: why it was")
    assert run(tmp_path, script(tmp_path, "kill -9 $$")).reason == "signal 9"
    refused = run(tmp_path, script(tmp_path, "echo not here >&2; exit 2"), event="PreToolUse")
    assert (refused.status, refused.reason) == ("refused", "not here")
    assert run(tmp_path, script(tmp_path, "exit 2")).status == "failed", "only a tool can be refused"


def test_a_shell_is_there_for_who_asks(tmp_path: Path) -> None:
    found = run(tmp_path, "echo $((20 + 22)) | cat", shell=True)
    assert found.stdout.text == "42\n"
    assert run(tmp_path, script(tmp_path, 'echo "$1"'), "$HOME; ls").stdout.text == "$HOME; ls\n"


def test_a_program_that_was_changed_since_the_run_began_is_not_run(tmp_path: Path) -> None:
    runner = HookRunner(str(tmp_path), dict(os.environ), "w-1")
    hook = Hook("Stop", (script(tmp_path, "echo old"),), timeout=30.0)
    later = Hook("Stop", ("later.sh",), timeout=30.0)

    async def main() -> list[HookResult]:
        runner.pins = await runner.pin([hook, later])
        first = await runner.run(hook, DOCUMENT)
        script(tmp_path, "echo new")
        script(tmp_path, "echo new", "later.sh")
        critical = Hook("Stop", hook.command, critical=True)
        return [first, *[await runner.run(one, DOCUMENT) for one in (hook, later, critical)]]

    first, *others = anyio.run(main)
    assert first.status == "ok"
    assert all(one.status == "failed" and "is not what it was" in one.reason for one in others)


def entry(number: int, out: str, err: str = "") -> dict[str, Any]:
    hook = Hook("PostToolUse", ("scripts/x.sh",))
    result = HookResult(hook, "ok", "", 0, Stream(out, len(out.encode())), Stream(err, len(err.encode()), STDERR))
    return {"number": number, **result.entry()}


@pytest.mark.req("BMAD-7.4.3", "BMAD-7.4.4", "BMAD-FR52", "BMAD-E7.4")
def test_of_a_steps_output_the_oldest_goes_when_all_is_more_than_256_kb() -> None:
    kept: list[dict[str, Any]] = []
    for number in range(7):
        kept = pruned([*kept, entry(number, "x" * 60_000)])
        assert sum(map(size, kept)) <= STEP == 262_144
    assert [one["number"] for one in kept] == list(range(7))
    assert [bool(one["stdout"]) for one in kept] == [False] * 3 + [True] * 4
    assert kept[0]["message"] == "pruned: 60000 bytes truncated, its original size is 60000 bytes"


@given(st.lists(st.tuples(st.integers(0, 35_000), st.integers(0, 20_000)), max_size=30), st.integers(1_000, 300_000))
@example(sizes=[(0, 1), (1, 0)], limit=1_000)
def test_whatever_was_printed_the_newest_is_kept_within_the_limit(sizes: list[tuple[int, int]], limit: int) -> None:
    entries = [entry(number, "é" * out, "\n" * err) for number, (out, err) in enumerate(sizes)]
    kept = pruned(entries, limit)
    assert sum(map(size, kept)) <= limit
    numbers = [one["number"] for one in kept]
    assert numbers == list(range(len(entries)))[len(entries) - len(kept) :], "what goes is the oldest"
    whole = [bool(one["stdout"] or one["stderr"]) or not any(sizes[one["number"]]) for one in kept]
    assert whole == sorted(whole) or not all(any(one) for one in sizes)
