"""Who may come in, as whom, and what they may do."""

from __future__ import annotations

import json
import os
import re
import stat
from urllib.parse import urlencode

import pytest

from interlock.wiring import connect
from tests.surfaces.http.harness import Client, Server


def question(server: Server, team: str, kind: str) -> tuple[str, str]:
    """A task of the team whose agent waits for an answer: (task, question)."""
    home = connect(str(server.home))
    found = home.team(team)
    task = found.create_task("Clean up")
    bob = found.acting("bob")
    bob.claim(task.id)
    asked = bob.ask(task.id, "May I delete the build directory?", kind=kind, options=["yes", "no"])
    home.close()
    return task.id, asked.id


@pytest.mark.long
def test_only_health_is_open_to_strangers(server: Server) -> None:
    stranger = server.stranger()
    assert stranger.get("/healthz") == {"status": "ok"}
    for path in ("/healthz", "/readyz"):
        assert (stranger.call("HEAD", path).status, stranger.call("HEAD", path).body) == (200, b"")
    assert stranger.get("/readyz") == {"status": "ready"}
    for method, path in (
        ("GET", "/api/teams"), ("GET", "/api/events"), ("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/"),
        ("GET", "/nothing"), ("POST", "/api/projects"), ("DELETE", "/api/teams/x"), ("POST", "/api/sign-out"),
    ):  # fmt: skip
        assert stranger.refused(method, path) == (401, "unauthorized"), path
    assert stranger.call("GET", "/api/teams").headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("said", ["Bearer", "Bearer ", "Bearer wrong", "Basic aGk6aGk=", "Bearer é", ""])
def test_a_wrong_token_opens_nothing(server: Server, said: str) -> None:
    assert server.stranger(authorization=said).refused("GET", "/api/teams") == (401, "unauthorized")


def test_the_admin_token_is_a_file_of_its_owner_alone(server: Server) -> None:
    path = server.home / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_text().strip()) > 40
    assert server.client(path.read_text().strip()).get("/api/teams")["teams"] is not None


def test_a_token_file_that_others_can_read_is_made_private(tmp_path_factory: pytest.TempPathFactory) -> None:
    from interlock.app.tokens import Tokens

    home = tmp_path_factory.mktemp("open")
    (home / "token").write_text("ilk_mine\n")
    os.chmod(home / "token", 0o644)
    assert Tokens(str(home)).admin() == "ilk_mine"
    assert stat.S_IMODE((home / "token").stat().st_mode) == 0o600


def test_secrets_are_stored_hashed(server: Server, team: str) -> None:
    _, secret = server.tokens.create("bob", role="worker", team=team)
    code = server.tokens.new_code()
    kept = (server.home / "tokens.json").read_text()
    assert stat.S_IMODE((server.home / "tokens.json").stat().st_mode) == 0o600
    assert secret not in kept and code not in kept
    assert {token["name"] for token in json.loads(kept)["tokens"]} >= {"bob"}


def test_a_link_lets_one_browser_in_once_and_leaves_no_secret_in_its_address(server: Server) -> None:
    code = server.tokens.new_code()
    first = server.stranger().call("POST", f"/open/{code}")
    assert (first.status, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and code not in cookie
    assert server.stranger(cookie=cookie.split(";")[0]).get("/api/teams")["teams"] is not None
    for method in ("GET", "POST"):
        assert server.stranger().refused(method, f"/open/{code}") == (401, "unauthorized")
    assert server.stranger().refused("GET", "/open/guessed") == (401, "unauthorized")


def test_a_browser_is_told_in_words_how_to_come_in(server: Server) -> None:
    answer = server.stranger(accept="text/html").call("GET", "/")
    assert answer.status == 401 and b"interlock open" in answer.body and b"<script" not in answer.body


def test_a_browser_that_another_site_led_here_comes_again_with_its_cookie(server: Server) -> None:
    # It keeps a strict cookie to itself on the first request; the page it gets makes it come again, once.
    led = server.stranger(accept="text/html", **{"sec-fetch-site": "cross-site"}).call("GET", "/tasks/x")
    assert led.status == 401 and b'http-equiv="refresh"' in led.body
    again = server.stranger(accept="text/html", **{"sec-fetch-site": "same-origin"}).call("GET", "/tasks/x")
    assert again.status == 401 and b"refresh" not in again.body


def test_signing_out_takes_the_cookie_back(server: Server) -> None:
    browser = server.browser()
    assert browser.get("/api/teams")["teams"] is not None
    assert browser.post("/api/sign-out") == {"signed_out": True}
    assert browser.refused("GET", "/api/teams") == (401, "unauthorized")


def test_a_member_acts_as_itself_in_its_own_team_only(server: Server, team: str, admin: Client) -> None:
    admin.post("/api/teams", {"name": f"{team}-other"})
    bob = server.member("bob", team)
    assert bob.get("/api/teams") == {"teams": [team], "next": None}
    assert bob.refused("GET", f"/api/teams/{team}-other") == (404, "team_not_found")
    sent = bob.post(f"/api/teams/{team}/messages", {"to": "lead", "content": "started"})
    assert sent["sender"] == "bob"
    assert bob.refused("POST", f"/api/teams/{team}/messages", {"to": "lead", "content": "x", "by": "lead"}) == (
        403, "forbidden",
    )  # fmt: skip
    assert bob.refused("GET", f"/api/teams/{team}/inbox/lead") == (403, "forbidden")
    assert bob.refused("GET", f"/api/teams/{team}/messages?member=lead") == (403, "forbidden")
    assert bob.refused("POST", f"/api/teams/{team}/members", {"name": "eva"}) == (403, "forbidden")
    assert bob.refused("POST", f"/api/projects/{team}/chat", {"content": "hi"}) == (403, "forbidden")


def test_a_person_acts_under_their_own_name_from_the_first_act(server: Server, team: str, admin: Client) -> None:
    eva = server.person("eva")
    eva.post(f"/api/teams/{team}/messages", {"to": "bob", "content": "hello"})
    actors = {e["actor"] for e in admin.get(f"/api/teams/{team}/events")["events"] if e["type"] == "message.sent"}
    assert actors == {"eva"}
    assert eva.post(f"/api/teams/{team}/inbox/eva/receive", {"session": "s"})["messages"] == []
    assert eva.refused("POST", "/api/teams", {"name": "another"}) == (403, "forbidden")


def test_a_person_with_a_members_name_does_not_become_that_member(server: Server, team: str) -> None:
    impostor = server.person("bob")
    refused = impostor.refused("POST", f"/api/teams/{team}/messages", {"to": "lead", "content": "I am bob"})
    assert refused == (403, "forbidden")


def test_a_viewer_looks_and_changes_nothing(server: Server, team: str, admin: Client) -> None:
    vic = server.person("vic", "viewer")
    before = admin.get(f"/api/teams/{team}/events")["next"]
    assert vic.get(f"/api/teams/{team}")["name"] == team
    for path in ("tasks", "messages", "broadcast", "protocol", "members", "pause"):
        assert vic.refused("POST", f"/api/teams/{team}/{path}", {}) == (403, "forbidden"), path
    assert vic.get(f"/api/teams/{team}/inbox/vic") == {"messages": [], "next": None}
    for verb in ("receive", "ack"):
        body = {"session": "s", **({"ids": []} if verb == "ack" else {})}
        assert vic.refused("POST", f"/api/teams/{team}/inbox/vic/{verb}", body) == (403, "forbidden")
    assert admin.get(f"/api/teams/{team}/events")["next"] == before


def test_a_token_that_was_revoked_opens_nothing_from_that_moment(server: Server) -> None:
    token, secret = server.tokens.create("tim", role="operator")
    tim = server.client(secret)
    assert tim.call("GET", "/api/teams").status == 200
    server.tokens.revoke(token.id)
    assert tim.refused("GET", "/api/teams") == (401, "unauthorized")


def test_a_members_token_does_not_open_a_team_made_anew_under_the_name(
    server: Server, team: str, admin: Client
) -> None:
    bob = server.member("bob", team)
    assert bob.call("GET", f"/api/teams/{team}").status == 200
    assert admin.call("DELETE", f"/api/teams/{team}").status == 200
    admin.post("/api/teams", {"name": team})
    assert bob.refused("GET", f"/api/teams/{team}") == (401, "unauthorized")


@pytest.mark.parametrize("kind", ["permission", "checkpoint", "limit", "merge"])
def test_what_guards_the_workspace_is_answered_at_the_page_only(
    server: Server, team: str, admin: Client, kind: str
) -> None:
    task, asked = question(server, team, kind)
    path, answer = f"/api/projects/{team}/tasks/{task}/reply", {"reply": "yes", "question_id": asked}
    assert admin.refused("POST", path, answer) == (403, "forbidden")
    assert server.person("otto").refused("POST", path, answer) == (403, "forbidden")
    assert server.member("bob", team).refused("POST", path, answer) == (403, "forbidden")
    assert server.browser().call("POST", path, answer).status == 200


def test_a_cookie_beside_a_bearer_token_does_not_make_a_page_of_it(server: Server, team: str) -> None:
    task, asked = question(server, team, "permission")
    browser = server.browser()
    both = server.client(cookie=browser.headers["cookie"])
    path = f"/api/projects/{team}/tasks/{task}/reply"
    assert both.refused("POST", path, {"reply": "yes", "question_id": asked}) == (403, "forbidden")


def test_secrets_stand_in_no_log(server: Server) -> None:
    # Everything the server says goes to the pipes of its process; the module's fixture checks them for faults, this
    # one asks with secrets in every place and lets a fault be logged.
    code = server.tokens.new_code()
    server.stranger().call("POST", f"/open/{code}")
    server.stranger().call("POST", f"/open/{code}")
    assert code not in (server.home / "server.json").read_text()


def test_a_get_of_a_link_does_not_use_it_up(server: Server) -> None:
    code = server.tokens.new_code()
    for more in ({}, {"sec-fetch-dest": "image", "sec-fetch-site": "cross-site"}, {"accept": "text/html"}):
        seen = server.stranger(**more).call("GET", f"/open/{code}")
        assert seen.status == 200 and "set-cookie" not in seen.headers and b'<form method="post">' in seen.body
    assert server.stranger(origin="http://127.0.0.1:1").refused("POST", f"/open/{code}") == (403, "forbidden")
    assert server.stranger(origin=server.url).call("POST", f"/open/{code}").status == 303


def test_the_cookie_alone_reads_and_changes_nothing(server: Server, team: str, admin: Client) -> None:
    cookie, key = server.come_in()
    thief = server.stranger(cookie=cookie)
    page = thief.call("GET", f"/projects/{team}/board").body.decode()
    assert "<form" in page and key not in page and "interlock_key" not in page
    form = {"content-type": "application/x-www-form-urlencoded"}
    guesses = [
        {},
        {"x-interlock-key": ""},
        {"x-interlock-key": cookie.partition("=")[2]},
        {"x-interlock-key": key[:-1]},
    ]
    for guess in guesses:
        for kind in (guess, {**guess, **form}):
            caller = server.stranger(cookie=cookie, origin=server.url, **kind)
            assert caller.refused("POST", f"/api/teams/{team}/tasks", {"subject": "Mine"}) == (403, "forbidden")
            assert caller.refused("POST", f"/projects/{team}/tasks", {"subject": "Mine"})[0] == 403
            assert caller.refused("POST", "/mcp", {})[0] == 403
    assert admin.get(f"/api/teams/{team}/tasks")["tasks"] == []
    assert (
        "interlock open" in json.loads(thief.call("POST", f"/api/teams/{team}/tasks", {"subject": "x"}).body)["message"]
    )
    mine = server.stranger(cookie=cookie, origin=server.url, **{"x-interlock-key": key})
    assert mine.call("POST", f"/api/teams/{team}/tasks", {"subject": "A person's"}).status == 201


def test_without_script_forms_count_at_the_name_of_the_page_only(server: Server, team: str, admin: Client) -> None:
    link = f"/open/{server.tokens.new_code()}"
    cookie = server.stranger(origin=server.url).call("POST", link).headers["set-cookie"].split(";")[0]
    own = f"{server.tokens.page_host}:{server.port}"
    at_loopback = server.stranger(cookie=cookie).call("GET", f"/projects/{team}/board").body.decode()
    at_page = server.stranger(cookie=cookie, host=own).call("GET", f"/projects/{team}/board").body.decode()
    found = re.findall(r'name="interlock_key" value="([0-9a-f]{64})"', at_page)
    assert found and "interlock_key" not in at_loopback
    assert len(found) == at_page.count('<form method="post"'), "every form has it"

    def send(host: str, key: str) -> int:
        headers = {"cookie": cookie, "host": host, "origin": f"http://{host}"}
        headers["content-type"] = "application/x-www-form-urlencoded"
        body = urlencode({"subject": "By hand", "interlock_key": key}).encode()
        return server.stranger(**headers).call("POST", f"/projects/{team}/tasks", body).status

    other = f"{server.host}:{server.port}"
    assert (send(own, ""), send(own, "0" * 64), send(other, found[0])) == (403, 403, 403)
    assert admin.get(f"/api/teams/{team}/tasks")["tasks"] == []
    assert send(own, found[0]) == 303
    assert [task["subject"] for task in admin.get(f"/api/teams/{team}/tasks")["tasks"]] == ["By hand"]
    assert server.stranger(host=f"x{own}").refused("GET", "/api/teams") == (403, "forbidden")
