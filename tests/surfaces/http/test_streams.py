"""Server-sent events: nothing twice, nothing missing, also over kill -9."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.wiring import connect
from tests.surfaces.http.harness import Client, Server


def test_from_now_only_what_comes_is_told_and_from_zero_everything(server: Server, team: str, admin: Client) -> None:
    now, everything = admin.stream(), admin.stream("0")
    everything.has("member.spawned", team)
    assert now.events == []
    admin.post(f"/api/teams/{team}/tasks", {"subject": "x"})
    for stream in (now, everything):
        stream.has("task.created", team)
    mine = [event["seq"] for event in everything.events if event["team"] == team]
    assert mine == list(range(1, len(mine) + 1))
    assert [event["team"] for event in now.events] == [team]
    now.close()
    everything.close()


def test_a_reader_goes_on_where_it_was_and_last_event_id_wins(server: Server, team: str, admin: Client) -> None:
    first = admin.stream()
    admin.post(f"/api/teams/{team}/tasks", {"subject": "one"})
    first.has("task.created", team)
    first.close()
    admin.post(f"/api/teams/{team}/broadcast", {"content": "two"})
    head = admin.get(f"/api/teams/{team}/events")["next"]
    again = admin.stream(after="0", last=first.cursor)
    again.until(lambda: any(event["seq"] == head for event in again.events if event["team"] == team))
    known = [event["seq"] for event in first.events if event["team"] == team]
    got = [event["seq"] for event in again.events if event["team"] == team]
    assert got == list(range(known[-1] + 1, head + 1))
    again.close()


def test_a_reader_without_a_single_event_can_go_on_too(server: Server, team: str, admin: Client) -> None:
    quiet = admin.stream()
    quiet.close()
    admin.post(f"/api/teams/{team}/tasks", {"subject": "meanwhile"})
    again = admin.stream(last=quiet.cursor)
    again.has("task.created", team)
    assert [event["team"] for event in again.events] == [team]
    again.close()


def test_new_teams_appear_and_a_team_made_anew_begins_at_its_beginning(admin: Client, team: str) -> None:
    stream = admin.stream()
    for _ in range(2):
        admin.post("/api/teams", {"name": f"{team}-new"})
        stream.until(lambda: [e["seq"] for e in stream.events if e["team"] == f"{team}-new"].count(1) >= 1)
        assert admin.call("DELETE", f"/api/teams/{team}-new").status == 200
    stream.until(lambda: [e["seq"] for e in stream.events if e["team"] == f"{team}-new"].count(1) >= 1)
    stream.close()


def test_what_another_process_does_is_told_too(server: Server, team: str, admin: Client) -> None:
    stream = admin.stream()
    home = connect(str(server.home))
    home.team(team).create_task("by hand")
    home.close()
    stream.has("task.created", team)
    stream.close()


def test_a_member_hears_of_its_own_team_only(server: Server, team: str, admin: Client) -> None:
    admin.post("/api/teams", {"name": f"{team}-other"})
    bob = server.member("bob", team).stream("0")
    admin.post(f"/api/teams/{team}-other/tasks", {"subject": "not yours"})
    admin.post(f"/api/teams/{team}/tasks", {"subject": "yours"})
    bob.has("task.created", team)
    assert {event["team"] for event in bob.events} == {team}
    bob.close()


def test_a_stream_ends_when_its_token_is_revoked(server: Server, team: str, admin: Client) -> None:
    token, secret = server.tokens.create("tom", role="viewer")
    stream = server.client(secret).stream()
    server.tokens.revoke(token.id)
    admin.post(f"/api/teams/{team}/tasks", {"subject": "after"})
    assert stream.ended.wait(60)


@pytest.mark.long
def test_no_gap_and_nothing_twice_over_kill_and_restart(start: Callable[..., Server], tmp_path: Path) -> None:
    server = start()
    admin = server.client()
    admin.post("/api/teams", {"name": "alpha"})
    stream = admin.stream("0")
    stream.has("member.spawned", "alpha")
    for number in range(5):
        admin.post("/api/teams/alpha/tasks", {"subject": f"before {number}"})
    stream.until(lambda: len(stream.events) >= 3)
    server.kill()
    assert stream.ended.wait(60)
    home = connect(str(server.home))
    home.team("alpha").create_task("while it was down")
    home.close()
    again = start(server.home, port=server.port)
    resumed: Client = again.client()
    second = resumed.stream(last=stream.cursor)
    resumed.post("/api/teams/alpha/tasks", {"subject": "after"})
    head = resumed.get("/api/teams/alpha/events")["next"]
    second.until(lambda: bool(second.events) and second.events[-1]["seq"] >= head)
    numbers = [event["seq"] for event in [*stream.events, *second.events]]
    assert numbers == list(range(1, numbers[-1] + 1))
    second.close()


@pytest.mark.storm
def test_a_comment_keeps_a_quiet_line_open(start: Callable[..., Server]) -> None:
    stream = start().client().stream()
    stream.until(lambda: "heartbeat" in stream.comments)
    stream.close()
