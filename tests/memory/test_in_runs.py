"""Workflows as people run them leave what they taught in memory, and no trouble with memory is theirs."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.clock import SystemClock
from interlock.memory.local import LocalMemory
from interlock.memory.store import Memory
from interlock.settings import Settings
from interlock.wiring import memory_of
from interlock.workflow.memory import post_workflow_curator
from interlock.workflow.runs import knowledge, opening
from tests.command import command
from tests.memory.servers import PROGRAMS, SERENA, living
from tests.memory.servers import Place as Server
from tests.waiting import until
from tests.workflow.stage import SKILL
from tests.workflow.test_in_a_team import Place as Project

pytestmark = pytest.mark.long

ARCHITECTURE = "Chose PostgreSQL over MongoDB"


class Place(Project):
    """A project whose agent decides and learns, and whose memory can be a server."""

    def __init__(self, directory: Path, **more: Any) -> None:
        super().__init__(directory, **more)
        self.server = Server(directory)
        self.prompts = directory / "prompts"

    def agent(self, slow: float = 0.0, **more: str) -> str:
        variables = " ".join(f"{name}={value}" for name, value in {"PROMPTS": str(self.prompts), **more}.items())
        return f"env {variables} {sys.executable} {PROGRAMS / 'decider.py'}"

    def with_server(self, **more: str) -> Place:
        self.environment["INTERLOCK_MEMORY"] = "forgetful"
        self.environment["INTERLOCK_FORGETFUL_COMMAND"] = json.dumps(self.server.command(**more))
        return self

    def without_server(self) -> Place:
        self.environment["INTERLOCK_MEMORY"] = "forgetful"
        self.environment["INTERLOCK_FORGETFUL_COMMAND"] = "false"
        return self

    def run(self, **more: str) -> dict[str, Any]:
        return self("run", SKILL, "--agent", self.agent(**more), "--tier", "1")

    def cli(self, *words: str) -> dict[str, Any]:
        """`interlock memory …`"""
        return command("--json", "memory", *words, directory=self.root, environment=self.environment).told

    def events(self, type: str) -> list[dict[str, Any]]:
        return [one.payload for one in self.team.events()[0] if one.type == type]

    @property
    def queued(self) -> list[dict[str, Any]]:
        path = self.root / "_bmad-output" / ".memory-queue" / "pending.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.req("BMAD-4.1.1", "BMAD-4.2.1", "BMAD-4.1.5", "BMAD-FR33", "BMAD-memory")
def test_what_a_run_decided_and_learned_is_told_to_the_next_one(tmp_path: Path) -> None:
    place = Place(tmp_path)
    done = place.run()
    assert done["outcome"] == "COMPLETED" and [one["kind"] for one in done["learned"]] == ["architecture", "learned"]
    (curated,) = place.events("workflow.curated")
    assert curated["kinds"] == {"milestone": 1, "architecture": 1, "implementation_pattern": 1}
    kept = {one["importance"]: one for one in place.cli("list")["memories"]}
    assert sorted(kept) == [7, 10] or sorted(kept) == [7, 8, 10]
    decision = kept[10]
    assert ARCHITECTURE in decision["content"] and decision["project_id"] == "plan-app" and decision["keywords"]
    assert {"type:architecture", f"workflow_id:{done['workflow_id']}"} <= set(decision["tags"])
    assert place("status")["curated"] and place.cli("search", "where orders are kept")["memories"]
    place.prompts.unlink()
    again = place.run()
    assert again["outcome"] == "COMPLETED" and ARCHITECTURE in place.prompts.read_text()
    assert place.events("workflow.curated")[-1]["linked"] >= 2, "it was known"


@pytest.mark.req("BMAD-UO.4", "BMAD-4.1.2", "BMAD-2b.8.3")
def test_a_fix_that_helped_is_used_when_the_same_check_fails_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.run(FAIL="1")["outcome"] == "COMPLETED"
    (fix,) = (one for one in place.cli("list")["memories"] if "type:fix_pattern" in one["tags"])
    assert "there is no scope in it" in fix["content"] and "Added a section called Scope" in fix["content"]
    assert 7 <= fix["importance"] <= 8
    place.prompts.unlink()
    assert place.run(FAIL="1")["outcome"] == "COMPLETED"
    told = place.prompts.read_text()
    assert "This was solved before" in told and "Added a section called Scope" in told
    assert place.events("workflow.recovered")[-1]["recovery_method"] == "memory_patterns"


@pytest.mark.req("BMAD-E4.1", "BMAD-FR32", "BMAD-NFR12", "BMAD-FR31")
def test_with_forgetful_it_is_kept_there_and_its_program_ends_with_the_run(tmp_path: Path) -> None:
    place = Place(tmp_path).with_server()
    folder = place.root / ".serena" / "memories"
    folder.mkdir(parents=True)
    (folder / "how_to_plan.md").write_text("Each plan has a Scope.")
    place.environment["INTERLOCK_SERENA_COMMAND"] = json.dumps(SERENA)
    assert place.run()["outcome"] == "COMPLETED"
    assert {one["importance"] for one in place.server.memories} == {7, 10}
    assert all(f"workflow:{SKILL}" in one["tags"] for one in place.server.memories)  # type: ignore[operator]
    assert "Each plan has a Scope." in place.prompts.read_text()
    assert not living(str(place.server.data)) and not place.events("memory.degraded")
    found = place.cli("status")
    assert (found["kind"], found["status"], found["queued"], found["exit"]) == ("forgetful", "AVAILABLE", 0, 0)
    assert not (place.home_path / "memory.db").exists()


@pytest.mark.req("BMAD-E4.3", "BMAD-FR34", "BMAD-NFR10", "BMAD-4.3.2", "BMAD-4.3.5")
def test_a_server_that_dies_in_the_middle_costs_the_run_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path).with_server(DIE_AT="create_memory", STAYS_DEAD="1")
    done = place.run()
    assert done["outcome"] == "COMPLETED"
    assert len(place.queued) == 3 and {one["status"] for one in place.queued} == {"pending"}
    troubles = place.events("memory.degraded")
    assert troubles and troubles[0]["operation"] == "remember" and troubles[0]["workflow_id"] == done["workflow_id"]
    found = place.without_server().cli("status")
    assert (found["status"], found["queued"], found["exit"]) == ("UNAVAILABLE", 3, 1) and found["since"]
    assert ARCHITECTURE in place.cli("search", "PostgreSQL")["memories"][0]["content"], "what waits is found"
    back = place.with_server().cli("flush")
    assert (back["handed_over"], back["queued"], back["status"], back["exit"]) == (3, 0, "AVAILABLE", 0)
    assert len(place.server.memories) == 3


@pytest.mark.req("BMAD-E4.3", "BMAD-4.3.9", "BMAD-NFR9")
def test_without_a_server_a_run_is_told_what_the_run_before_it_queued(tmp_path: Path) -> None:
    place = Place(tmp_path).without_server()
    assert place.run()["outcome"] == "COMPLETED"
    place.prompts.unlink()
    assert place.run()["outcome"] == "COMPLETED" and ARCHITECTURE in place.prompts.read_text()
    assert {one["operation"] for one in place.events("memory.degraded")} >= {"recall", "remember"}


@pytest.mark.req("BMAD-E4.4", "BMAD-4.3.4")
def test_the_hundred_and_first_entry_removes_the_oldest_with_a_warning(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.run()
    workspace = place.home.workspace("plan-app")  # type: ignore[attr-defined]
    settings = Settings({"memory": "forgetful", "forgetful_command": "/nonexistent/forgetful"}, None, {})
    log = knowledge.degraded(workspace, None, "w")
    memory = memory_of(str(place.home_path))(settings, str(place.root), str(place.root / "_bmad-output"), log)
    memory.remember(Memory("0", "content 0", project_id="plan-app"))
    path = place.root / "_bmad-output" / ".memory-queue" / "pending.jsonl"
    first = path.read_text()
    path.write_text(first + "".join(first.replace("content 0", f"content {n}") for n in range(1, 100)))
    memory.remember(Memory("100", "content 100", project_id="plan-app"))
    assert [one["content"] for one in place.queued] == [f"content {n}" for n in range(1, 101)]
    assert any("full (100)" in one["reason"] for one in place.events("memory.degraded"))


def test_a_run_that_was_killed_before_it_was_curated_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path).with_server(HANG_AT="create_memory")
    process = place.start("run", SKILL, "--agent", place.agent(), "--tier", "1")
    until(lambda: "create_memory" in place.server.calls)
    assert place.team.workflow_run()["outcome"] == "COMPLETED", "memory comes after the end"
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert place.team.workflow_run()["curated"] is None
    for id in living(str(place.server.data)):
        os.kill(id, signal.SIGKILL)  # it hangs, so it does not see that its input has ended
    monkeypatch.setattr(post_workflow_curator, "AT_WORK", -1.0)
    workspace = place.home.workspace("plan-app")  # type: ignore[attr-defined]
    store = opening.store_of(workspace)
    memory = LocalMemory(str(tmp_path), SystemClock())
    with workspace.ledger.snapshot() as rows:
        (state,) = store.list(rows)
    other = type(state).from_dict({**state.as_dict(), "workflow_id": "another"})
    post_workflow_curator.let_go(workspace, store, memory, other, lambda *_: None)
    assert len(memory.recall("", project_id="plan-app").memories) == 3
    assert place.team.workflow_run()["curated"]
    post_workflow_curator.let_go(workspace, store, memory, other, lambda *_: None)
    assert len(place.events("workflow.curated")) == 1
    memory.close()


@pytest.mark.req("BMAD-NFR12")
def test_a_workflow_may_require_the_memory_server(tmp_path: Path) -> None:
    place = Place(tmp_path, workflow="required_mcp: [forgetful]\n").with_server()
    assert place.run()["outcome"] == "COMPLETED"
    (found,) = place.events("workflow.preflight")
    assert found["overall_status"] == "READY"
    without = place.without_server().run()
    assert without["state"] == "WAITING_USER" and "forgetful" in str(without["waiting"])


def test_settings_that_make_no_sense_are_said_and_cost_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path).with_server()
    place.environment["INTERLOCK_FORGETFUL_COMMAND"] = "forgetful 'without an end"
    assert place.run()["outcome"] == "COMPLETED"
    assert [one["operation"] for one in place.events("memory.degraded")] == ["open"]
    assert place.cli("status")["error"] == "invalid_request"
