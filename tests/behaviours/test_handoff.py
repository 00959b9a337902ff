"""Handing a part of a task to another agent (TASK-060, and what repeats)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.app.team import Team
from tests.behaviours.speech import ack, claimed, handoff, head, hops, since

NOBODY = "TASK-2026-02-09-999"
FULL: dict[str, Any] = {
    "acceptanceCriteria": ["All tests pass", "Docs updated"], "expectedOutputs": ["tests/report.md"],
    "contextRefs": ["src/a.py", "src/b.py"], "constraints": ["No new dependencies"], "budget": 3,
}  # fmt: skip


@pytest.fixture
def pair(team: Team) -> tuple[str, str]:
    """A parent that ada holds, and a child that is ready."""
    return claimed(team), team.create_task("Test the parser").id


def inputs(team: Team, task: str) -> Path:
    """The directory of a task's handoff."""
    return Path(team.directory) / "tasks" / team.task(task).state / task / "inputs"


def artifacts(team: Team) -> list[Path]:
    """All handoff files of a team."""
    return list(Path(team.directory).rglob("handoff.*"))


@pytest.mark.req("AOF-60.01", "AOF-60.02")
def test_a_request_is_laid_beside_the_child(team: Team, pair: tuple[str, str]) -> None:
    parent, child = pair
    before = head(team)
    request = handoff(parent, child, "bob", **FULL)
    assert team.protocol(request, by="ada").accepted
    written = json.loads((inputs(team, child) / "handoff.json").read_text())
    assert {name: value for name, value in written.items() if name != "digest"} == request["payload"]
    page = (inputs(team, child) / "handoff.md").read_text()
    said = ("# Handoff Request", "ada", "bob", "2026-02-11T12:00:00.000Z", "## Acceptance Criteria")
    for words in (*said, "- All tests pass", "- tests/report.md", "- src/a.py\n- src/b.py", "- No new dependencies"):
        assert words in page
    [event] = since(team, before, "delegation.requested")
    assert event.payload == {"parent_task_id": parent, "from_agent": "ada", "to_agent": "bob", "depth": 1}


def test_a_page_says_none_where_nothing_is_asked(team: Team, pair: tuple[str, str]) -> None:
    team.protocol(handoff(*pair, "bob"), by="ada")
    assert (inputs(team, pair[1]) / "handoff.md").read_text().count("\nNone\n") == 4


def test_the_handoff_moves_with_its_task_and_survives_a_rebuild(team: Team, pair: tuple[str, str]) -> None:
    parent, child = pair
    team.protocol(handoff(parent, child, "bob", **FULL), by="ada")
    (inputs(team, child) / "mine.txt").write_text("kept")
    team.claim(child, by="bob")
    assert (inputs(team, child) / "mine.txt").read_text() == "kept"
    before = {path.name: path.read_bytes() for path in artifacts(team)}
    assert {path.parent for path in artifacts(team)} == {inputs(team, child)} and len(before) == 2
    for path in artifacts(team):
        path.unlink()
    team._workspace.rebuild_mirror()  # type: ignore[attr-defined]
    assert {path.name: path.read_bytes() for path in artifacts(team)} == before


@pytest.mark.req("AOF-60.03", "AOF-60.11")
def test_the_child_is_one_level_deep(team: Team) -> None:
    parent = claimed(team, metadata={"delegationDepth": 0})
    child = team.create_task("Test it", metadata={"area": "parser"})
    team.protocol(handoff(parent, child.id, "bob"), by="ada")
    found = team.task(child.id)
    assert found.metadata == {"area": "parser", "delegationDepth": 1} and found.parent_id == parent
    assert found.updated_at >= child.updated_at
    assert '"delegationDepth": 1' in (Path(team.directory) / "tasks" / "ready" / f"{child.id}.md").read_text()


@pytest.mark.req("AOF-60.10")
def test_a_root_task_has_no_depth(team: Team) -> None:
    assert team.create_task("Write the parser").metadata.get("delegationDepth", 0) == 0


@pytest.mark.req("AOF-60.04", "AOF-60.12", "AOF-60.13")
def test_a_part_of_a_part_is_refused(team: Team) -> None:
    parent = claimed(team, metadata={"delegationDepth": 1})
    child = team.create_task("Test it")
    before = head(team)
    assert team.protocol(handoff(parent, child.id, "bob"), by="ada").reason == "nested_delegation"
    for type in ("protocol.message.rejected", "delegation.rejected"):
        assert [event.payload["reason"] for event in since(team, before, type)] == ["nested_delegation"]
    assert artifacts(team) == [] and team.task(child.id).metadata == {}
    assert team.task(child.id).updated_at == child.updated_at


def test_depth_is_looked_at_before_who_asks(team: Team) -> None:
    parent = claimed(team, metadata={"delegationDepth": 1})
    child = team.create_task("Test it").id
    assert team.protocol(handoff(parent, child, "ada", by="bob"), by="bob").reason == "nested_delegation"


def test_a_task_is_no_part_of_itself(team: Team, pair: tuple[str, str]) -> None:
    assert team.protocol(handoff(pair[0], pair[0], "bob"), by="ada").reason == "nested_delegation"


@pytest.mark.req("AOF-60.05")
def test_the_payload_is_about_the_task_of_the_envelope(team: Team, pair: tuple[str, str]) -> None:
    before = head(team)
    request = {**handoff(*pair, "bob"), "taskId": team.create_task("Another").id}
    assert team.protocol(request, by="ada").reason == "taskId_mismatch"
    assert [e.payload["reason"] for e in since(team, before, "protocol.message.rejected")] == ["taskId_mismatch"]
    assert artifacts(team) == []


@pytest.mark.req("AOF-60.06")
def test_without_its_parent_a_handoff_comes_to_nothing(team: Team, pair: tuple[str, str]) -> None:
    before = head(team)
    answer = team.protocol(handoff(NOBODY, pair[1], "bob"), by="ada")
    assert not answer.accepted and answer.reason == "parent_not_found"
    assert [event.payload["reason"] for event in since(team, before, "delegation.rejected")] == ["parent_not_found"]
    assert since(team, before, "protocol.message.rejected") == [] and artifacts(team) == []


@pytest.mark.req("AOF-60.07")
def test_an_accepted_handoff_moves_nothing(team: Team, pair: tuple[str, str]) -> None:
    parent, child = pair
    team.protocol(handoff(parent, child, "bob"), by="ada")
    team.claim(child, by="bob")
    team.read("ada")
    before = head(team)
    assert team.protocol(ack(child, True, by="bob"), by="bob").state == "in-progress"
    [event] = since(team, before, "delegation.accepted")
    assert (event.actor, event.payload["parent_task_id"]) == ("bob", parent)
    assert hops(team, before) == [] and len(team.read("ada")) == 1


@pytest.mark.req("AOF-60.08")
def test_a_rejected_handoff_blocks_the_child(team: Team, pair: tuple[str, str]) -> None:
    parent, child = pair
    team.protocol(handoff(parent, child, "bob"), by="ada")
    team.claim(child, by="bob")
    before = head(team)
    answer = team.protocol(ack(child, False, by="bob", reason="Insufficient context"), by="bob")
    assert answer.state == "blocked"
    [hop] = since(team, before, "task.transitioned")
    assert hop.payload["to"] == "blocked" and "Insufficient context" in hop.payload["reason"]
    assert [e.payload["reason"] for e in since(team, before, "delegation.rejected")] == ["Insufficient context"]
    again = head(team)
    assert not team.protocol(ack(child, False, by="bob", reason="Insufficient context"), by="bob").applied
    assert hops(team, again) == [] and len(since(team, again, "delegation.rejected")) == 1


@pytest.mark.req("AOF-60.09")
def test_an_acknowledgement_of_no_task_is_rejected(team: Team) -> None:
    before = head(team)
    assert team.protocol(ack(NOBODY, True, by="bob"), by="bob").reason == "task_not_found"
    assert [e.payload["reason"] for e in since(team, before, "protocol.message.rejected")] == ["task_not_found"]
    assert hops(team, before) == []


def test_a_child_that_nobody_holds_is_reserved(team: Team, pair: tuple[str, str]) -> None:
    team.protocol(handoff(*pair, "bob"), by="ada")
    child = team.task(pair[1])
    assert (child.owner, child.assignee, child.state) == (None, "bob", "ready")
    assert [message.type for message in team.read("bob")] == ["task_assignment"]
    assert team.next_task(by="ada") is None and team.claim(child.id, by="bob").owner == "bob"


def test_a_child_that_was_not_taken_is_free_again(team: Team, pair: tuple[str, str]) -> None:
    team.protocol(handoff(*pair, "bob"), by="ada")
    team.protocol(ack(pair[1], False, by="bob", reason="no time"), by="bob")
    child = team.task(pair[1])
    assert (child.state, child.assignee) == ("blocked", None)
    assert team.unblock(child.id).state == "ready"
    assert team.protocol(handoff(*pair, "bob"), by="ada").applied and team.task(child.id).assignee == "bob"


def test_nobody_is_waited_for_who_is_not_here(team: Team, pair: tuple[str, str]) -> None:
    before = head(team)
    assert team.protocol(handoff(*pair, "somebody-else"), by="ada").accepted
    assert team.task(pair[1]).assignee is None and len(artifacts(team)) == 2
    assert [e.payload["reason"] for e in since(team, before, "protocol.message.warning")] == ["unknown_agent"]
    team.protocol(handoff(*pair, "bob"), by="ada")
    assert team.protocol(handoff(*pair, "somebody-else"), by="ada").accepted
    assert team.task(pair[1]).assignee is None and team.claim(pair[1], by="ada").owner == "ada", "bob is not meant now"


def test_a_child_that_somebody_holds_stays_theirs(team: Team) -> None:
    parent, child = claimed(team), claimed(team, "bob")
    team.protocol(handoff(parent, child, "ada"), by="ada")
    assert (team.task(child).owner, team.task(child).assignee) == ("bob", None)


@pytest.mark.parametrize(("by", "reason"), [("ada", None), ("lead", None), ("bob", "unauthorized_agent")])
def test_the_owner_of_the_parent_or_the_lead_hands_over(
    team: Team, pair: tuple[str, str], by: str, reason: str | None
) -> None:
    assert team.protocol(handoff(*pair, "ada", by=by), by=by).reason == reason


@pytest.mark.parametrize(("by", "reason"), [("bob", None), ("ada", "unauthorized_agent")])
def test_whom_it_was_meant_for_answers(team: Team, pair: tuple[str, str], by: str, reason: str | None) -> None:
    team.protocol(handoff(*pair, "bob"), by="ada")
    assert team.protocol(ack(pair[1], True, by=by), by=by).reason == reason


@pytest.mark.req("AOF-X.02")
def test_a_repeated_request_changes_nothing_more(team: Team, pair: tuple[str, str]) -> None:
    parent, child = pair
    team.protocol(handoff(parent, child, "bob", **FULL), by="ada")
    files = {path.name: path.read_bytes() for path in artifacts(team)}
    team.read("bob")
    before = head(team)
    answer = team.protocol(handoff(parent, child, "bob", **FULL), by="ada")
    assert answer.accepted and not answer.applied
    assert {path.name: path.read_bytes() for path in artifacts(team)} == files
    assert team.task(child).metadata["delegationDepth"] == 1 and len(since(team, before, "delegation.requested")) == 1
    assert team.read("bob") == [] and hops(team, before) == []


def test_a_changed_request_takes_the_place_of_the_first(team: Team, pair: tuple[str, str]) -> None:
    team.protocol(handoff(*pair, "bob", constraints=["old"]), by="ada")
    before = head(team)
    assert team.protocol(handoff(*pair, "bob", constraints=["new"]), by="ada").applied
    assert [path.name for path in sorted(artifacts(team))] == ["handoff.json", "handoff.md"]
    assert all("new" in path.read_text() and "old" not in path.read_text() for path in artifacts(team))
    assert since(team, before, "mirror.conflict") == []


def test_a_finished_child_is_not_handed_over(team: Team, pair: tuple[str, str]) -> None:
    team.cancel(pair[1])
    assert team.protocol(handoff(*pair, "bob"), by="ada").reason == "invalid_transition"
