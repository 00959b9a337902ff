"""What a session has used, from the files in which each program keeps account, with lines as those programs write."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from typing import Any

import pytest

from tests.agents.conftest import Stage

pytestmark = pytest.mark.long


def codex(total: int) -> str:
    usage = {
        "input_tokens": 12 * total,
        "cached_input_tokens": 4,
        "output_tokens": 5 * total,
        "total_tokens": 17 * total,
    }
    return json.dumps({"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": usage}}})


def claude(id: str, output: int = 5) -> str:
    usage = {"input_tokens": 2, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 6, "output_tokens": output}
    return json.dumps({"type": "assistant", "isSidechain": False, "message": {"id": id, "usage": usage}})


def gemini(id: str) -> dict[str, Any]:
    tokens = {"input": 12, "output": 3, "cached": 0, "thoughts": 2, "tool": 0, "total": 17}
    return {"id": id, "type": "gemini", "content": "", "tokens": tokens}


FILES = {
    "codex": (".codex/sessions/2026/11/22/rollout-2026-11-22T02-50-06-{session}.jsonl", [codex(1), codex(2), codex(2)]),
    "claude": (".claude/projects/-a-b/{session}.jsonl", [claude("m1", 1), claude("m1"), '{"type": 1}', claude("m2")]),
    "gemini": (
        ".gemini/tmp/work/chats/session-2026-11-22T02-50-{session8}.jsonl",
        ['{"sessionId": "{session}", "kind": "main"}', json.dumps(gemini("g1")),
         json.dumps({"$set": {"messages": [gemini("g1"), gemini("g2")]}})],
    ),
}  # fmt: skip
WRITE = (
    "import os, sys; session, path, lines = sys.argv[1:];"
    "path = os.path.expanduser('~/' + path.replace('{session8}', session[:8]).replace('{session}', session));"
    "os.makedirs(os.path.dirname(path), exist_ok=True);"
    "open(path, 'a').write(lines.replace('{session}', session) + '\\n')"
)


def total(stage: Stage) -> tuple[int, int] | None:
    told = [update.data for update in stage.updates if update.kind == "usage" and "input_tokens" in update.data]
    if not told:
        return None
    return sum(int(str(one["input_tokens"])) for one in told), sum(int(str(one["output_tokens"])) for one in told)


def home(stage: Stage) -> dict[str, Any]:
    (stage.path / "home").mkdir(exist_ok=True)
    return {"environment": {**os.environ, "HOME": str(stage.path / "home"), "INTERLOCK_RUN_TOKEN": stage.token}}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("ending", ["well", "cancelled", "killed"])
def test_what_its_files_say_counts_however_the_turn_ended(stage: Stage, kind: str, ending: str) -> None:
    path, lines = FILES[kind]
    writes = {"run": [sys.executable, "-c", WRITE, "{session}", path, "\n".join(lines)]}
    ends = {"well": {"say": "done"}, "cancelled": {"stop": "cancelled"}, "killed": {"crash": "kill"}}[ending]
    agent = stage.agent({"usage": kind}, turns=[[writes, ends]])
    stage.prompt("go", agent=agent, **home(stage))
    assert total(stage) == (24, 10), stage.updates


def test_the_user_s_other_sessions_and_what_was_before_do_not_count(stage: Stage) -> None:
    path, lines = FILES["codex"]
    folder = stage.path / "home" / ".codex" / "sessions" / "2026" / "11" / "22"
    folder.mkdir(parents=True)
    (folder / "rollout-2026-11-22T01-00-00-other-session.jsonl").write_text(codex(1000) + "\n")
    script: dict[str, Any] = {"state": str(stage.path / "state"), "can": ["load"]}
    writes = [{"run": [sys.executable, "-c", WRITE, "{session}", path, lines[0]]}]
    more = [{"run": [sys.executable, "-c", WRITE, "{session}", path, codex(4)]}]
    agent = stage.agent({"usage": "codex"}, turns=[writes, more], **script)
    stage.prompt("go", agent=agent, **home(stage))
    assert total(stage) == (12, 5)
    (session,) = {one["session"] for one in stage.got("new")}
    stage.updates.clear()
    stage.prompt("on", agent=agent, resume=session, **home(stage))
    assert total(stage) == (36, 15)


def test_opencode_keeps_account_in_a_database_also_of_its_subagents(stage: Stage) -> None:
    file = stage.path / "home" / ".local" / "share" / "opencode" / "opencode.db"
    file.parent.mkdir(parents=True)
    names = ("input", "output", "reasoning", "cache_read", "cache_write")
    columns = ", ".join(f"tokens_{name} INTEGER" for name in names)
    database = sqlite3.connect(file)
    database.execute(f"CREATE TABLE session (id TEXT, parent_id TEXT, {columns})")
    database.execute("INSERT INTO session VALUES ('ses_another', NULL, 900, 900, 900, 900, 900)")
    database.commit()
    write = (
        "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]);"
        "d.execute('INSERT INTO session VALUES (?, NULL, 10, 4, 1, 2, 0)', (sys.argv[2],));"
        "d.execute('INSERT INTO session VALUES (?, ?, 12, 5, 0, 0, 0)', ('child', sys.argv[2])); d.commit()"
    )
    agent = stage.agent(
        {"usage": "opencode"},
        turns=[[{"run": [sys.executable, "-c", write, str(file), "{session}"]}, {"usage": {"input": 12, "output": 5}}]],
    )
    stage.prompt("go", agent=agent, **home(stage))
    assert total(stage) == (24, 10)
    database.close()


@pytest.mark.parametrize("kind", ["codex", "opencode", "", "claude"])
def test_without_a_file_or_a_word_it_is_unknown(stage: Stage, kind: str) -> None:
    stage.prompt("go", agent=stage.agent({"usage": kind}), **home(stage))
    assert total(stage) is None
    assert [dict(update.data) for update in stage.updates if update.kind == "usage"] == [{"turns": 1}]


def test_what_is_told_at_the_end_of_a_turn_counts_where_the_files_lag_behind(stage: Stage) -> None:
    path, lines = FILES["codex"]
    first = [
        {"run": [sys.executable, "-c", WRITE, "{session}", path, lines[0]]},
        {"usage": {"input": 24, "output": 10}},
    ]
    second = [{"run": [sys.executable, "-c", WRITE, "{session}", path, codex(3)]}]
    agent = stage.agent({"usage": "codex"}, turns=[first, second])
    stage.prompt("go", "on", agent=agent, **home(stage))
    assert total(stage) == (36, 15)


def test_damaged_lines_are_passed_over(stage: Stage) -> None:
    path, lines = FILES["codex"]
    text = "\n".join(
        ["{", "[1]", '{"payload": 1}', '{"payload": {"info": {"total_token_usage": {"input_tokens": "x"}}}}', *lines]
    )
    agent = stage.agent({"usage": "codex"}, turns=[[{"run": [sys.executable, "-c", WRITE, "{session}", path, text]}]])
    stage.prompt("go", agent=agent, **home(stage))
    assert total(stage) == (24, 10)
