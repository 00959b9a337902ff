"""The real Forgetful and the real Serena, from PyPI, without any network: `make programs` installs them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.clock import ManualClock
from interlock.memory.forgetful import Forgetful
from interlock.memory.mcp_server import McpConnection
from interlock.memory.retrying import RetryingMemory
from interlock.memory.serena import Serena
from interlock.memory.store import MemoryRefused
from interlock.workflow.entry.context_pre_loader import ContextPreLoader
from interlock.workflow.memory.memory_bridge import MemoryBridge, Origin
from interlock.workflow.memory.post_workflow_curator import PostWorkflowCurator
from interlock.workflow.state.document import WorkflowState
from tests import pinned
from tests.memory.servers import PROGRAMS

pytestmark = pytest.mark.long  # each starts a server that loads a model of language
ORIGIN = Origin("plan-app", "w1", "/bmad:bmm:workflows:make-plan")


def program(name: str) -> str:
    return f"{pinned.programs(name)}/{name}"


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Forgetful]:
    path = program("forgetful")
    endpoint = subprocess.Popen([sys.executable, str(PROGRAMS / "embeddings.py")], stdout=subprocess.PIPE, text=True)
    assert endpoint.stdout is not None
    variables = {
        "EMBEDDING_PROVIDER": "OpenAI", "OPENAI_BASE_URL": f"http://127.0.0.1:{int(endpoint.stdout.readline())}/v1",
        "OPENAI_API_KEY": "none", "EMBEDDING_MODEL": "hashed", "EMBEDDING_DIMENSIONS": "384",
        "RERANKING_ENABLED": "false", "TIKTOKEN_CACHE_DIR": str(pinned.home("forgetful") / "tokens"),
        "HOME": str(tmp_path), "SQLITE_PATH": str(tmp_path / "forgetful.db"),
    }  # fmt: skip
    words = ["env", *(f"{name}={value}" for name, value in variables.items()), path]
    memory = Forgetful(McpConnection("Forgetful", command=words))
    try:
        yield memory
    finally:
        memory.close()
        endpoint.kill()
        endpoint.wait()
        endpoint.stdout.close()


@pytest.mark.req("BMAD-NFR12", "BMAD-FR32", "BMAD-FR33", "BMAD-FR31")
def test_the_real_forgetful_keeps_finds_and_links(forgetful: Forgetful, tmp_path: Path) -> None:
    patient = RetryingMemory(forgetful, str(tmp_path / "out"), ManualClock())
    curator = PostWorkflowCurator(MemoryBridge(patient, ORIGIN))
    said = {"kind": "architecture", "text": "Chose PostgreSQL over MongoDB for the orders", "importance": 10}
    fixed = {"kind": "fixed", "text": "section Goals missing", "solution": "Added the section Goals", "at": ""}
    session = WorkflowState(ORIGIN.workflow_id, ORIGIN.skill, learned=[said, fixed])
    first = curator.curate(session, seconds=60.0).written
    assert len(first.kept) == 3 and all(one.id for one in first.kept) and not first.queued
    again = curator.curate(session, seconds=60.0).written
    assert not again.kept and len(again.known) == 3
    told = ContextPreLoader(patient).load(ORIGIN.project_id, ["make plan"])
    assert "PostgreSQL" in told.context and told.servers == ("forgetful",) and told.relevance
    assert "Added the section" in (MemoryBridge(patient, ORIGIN).fix("section Goals missing") or "")
    found = patient.recall("orders PostgreSQL", project_id=ORIGIN.project_id).memories[0]
    assert found.importance == 10 and found.linked and found.tagged("workflow_id") == "w1"
    assert patient.recall("orders", project_id="another").memories == ()
    with pytest.raises(MemoryRefused):
        forgetful._execute("create_memory", {"title": "only"}, 60.0)
    assert patient.condition().status == "AVAILABLE"
    patient.close()


@pytest.mark.req("BMAD-NFR12")
def test_the_real_serena_tells_what_it_knows_of_the_project(tmp_path: Path) -> None:
    path = program("serena")
    project = tmp_path / "project"
    (project / ".serena" / "memories").mkdir(parents=True)
    (project / "a.py").write_text("x = 1\n")
    (project / ".serena" / "memories" / "style.md").write_text("# Style\nFormat with ruff.\n")
    words = ["env", f"HOME={tmp_path}", "SERENA_USAGE_REPORTING=false", "CI=true", path, "start-mcp-server"]
    words += ["--context", "claude-code", "--agent-interface", "tools", "--project", "."]
    words += ["--enable-web-dashboard", "false"]
    serena = Serena(McpConnection("Serena", command=words, directory=str(project)))
    (found,) = serena.recall("the style of the code", project_id="project", time_limit=60.0).memories
    assert "Format with ruff." in found.content and found.relevance > 0
    assert serena.recall("deployment", project_id="project", time_limit=60.0).memories == ()
    serena.close()
