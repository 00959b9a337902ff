"""Pages and forms over plain HTTP: what is where, for whom, and what it costs to look again."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from scripts.seeded_home import fill
from tests.behaviours.repository import Repository
from tests.surfaces.http.harness import Answer, Client, Server
from tests.workflow.stage import SKILL, project

BASE = "/projects/harbour-api"
AUTHOR = Path(__file__).parents[2] / "workflow" / "programs" / "author.py"
PLACES = ("", "/board", "/board/ready", "/graph", "/members", "/members/ada", "/messages", "/timeline", "/workflows",
          "/stories", "/report", "/sessions/double-sessions")  # fmt: skip


@pytest.fixture(scope="module")
def team(home: Home, server: Server) -> Team:
    fill(home, str(server.home))
    return home.team("harbour-api")


def post(browser: Client, path: str, **form: str) -> Answer:
    body = urlencode(form).encode()
    return browser.call("POST", path, body, {"content-type": "application/x-www-form-urlencoded"})


@pytest.mark.long
def test_every_page_is_whole_without_anything_from_elsewhere(browser: Client, team: Team) -> None:
    tasks = [f"{BASE}/tasks/{task.id}" for task in team.tasks()]
    for path in ["/", "/report", *(BASE + place for place in PLACES), *tasks]:
        answer = browser.call("GET", path)
        html = answer.body.decode()
        assert answer.status == 200, (path, html)
        assert html.startswith("<!doctype html>") and html.count("<h1") == 1, path
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//(?!www\.rfc-editor\.org)', html), path
        assert not re.search(r"<script(?!(?: type=\"module\")? src=\"/static/)|<style|\sstyle=|\son\w+=\"", html), path
        ids = re.findall(r'\sid="([^"]+)"', html)
        assert len(ids) == len(set(ids)), (path, sorted(one for one in ids if ids.count(one) > 1))
        awaited = re.findall(r'<link rel="expect" href="#([^"]+)" blocking="render">', html)
        assert len(awaited) == 1 and html.index(f'id="{awaited[0]}"') > html.index("</main>"), "nothing moves meanwhile"
        for name in re.findall(r'(?:src|href)="/static/([^"]+)"', html):
            assert browser.call("GET", f"/static/{name}").status == 200, name


def test_a_merged_task_lists_what_it_changed_and_how_its_check_fared(
    browser: Client, home: Home, tmp_path: Path
) -> None:
    Repository(tmp_path / "work").commit("a check", **{"check.sh": "test -s made.txt\n"})
    task = {"run": "ln -s /etc/hosts far; echo exit 0 > check.sh", "verify": "sh check.sh"}
    plan = {"team": "changed", "workdir": "work", "isolation": "worktree", "members": {"ada": {"agent": "shell"}}}
    much = {"run": "seq 400000 > much"}
    (tmp_path / "plan.yaml").write_text(json.dumps({**plan, "tasks": {"one": task, "two": much}}))
    home.stage(str(tmp_path / "plan.yaml"))
    home.drive("changed")
    id = home.team("changed").task("one").id
    for place in (f"tasks/{id}", "report"):
        page = browser.call("GET", f"/projects/changed/{place}").body.decode()
        assert "verified only by tests it changed, namely check.sh" in page, place
        assert "changed check.sh, far (new)" in page and "links out of the repository: far -&gt; /etc/hosts" in page
    page = browser.call("GET", f"/projects/changed/tasks/{home.team('changed').task('two').id}/changes").body.decode()
    assert "This is not all of it" in page and len(page) < 10**6
    assert "the earlier one fails: check.sh" in browser.call("GET", f"/projects/changed/tasks/{id}").body.decode()


def test_a_page_says_why_its_task_waits_and_no_longer_when_it_does_not(browser: Client, team: Team) -> None:
    first = team.create_task("Write the parser")
    second = team.create_task("Test it", blocked_by=[first.id])
    page = f"/projects/{team.name}/tasks/{second.id}"
    assert f'data-role="why">blocked by {first.id} (ready)<' in browser.call("GET", page).body.decode()
    team.cancel(first.id)
    team.depend(second.id, on=first.id, remove=True)
    assert 'data-role="why"' not in browser.call("GET", page).body.decode(), "whoever likes may claim it"


def test_the_policy_allows_scripts_and_styles_of_the_server_alone(browser: Client, team: Team) -> None:
    policy = browser.call("GET", BASE).headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy


def test_a_region_is_fetched_alone_and_costs_nothing_where_it_is_the_same(browser: Client, team: Team) -> None:
    answer = browser.call("GET", f"{BASE}/board?region=board")
    assert answer.body.startswith(b'<div class="region') and b"<html" not in answer.body
    again = browser.call("GET", f"{BASE}/board?region=board", headers={"if-none-match": answer.headers["etag"]})
    # Ages are told in seconds at first, so a moment may have changed the words.
    assert again.status in (200, 304)
    static = browser.call("GET", "/static/app.js")
    assert browser.call("GET", "/static/app.js", headers={"if-none-match": static.headers["etag"]}).status == 304
    assert browser.call("GET", f"{BASE}/board?region=nonsense").status == 404


def test_what_pages_are_made_of_is_packed_and_kept(browser: Client, team: Team) -> None:
    page = browser.call("GET", BASE)
    packed = browser.call("GET", BASE, headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and len(packed.body) * 3 < len(page.body)
    assert gzip.decompress(packed.body).startswith(b"<!doctype html>")
    address = re.findall(r'src="(/static/[^"]+/app.js)"', page.body.decode())[0]
    kept = browser.call("GET", address)
    assert "immutable" in kept.headers["cache-control"]
    assert browser.call("GET", "/static/another/app.js").headers["cache-control"] == "no-cache"


def test_a_board_shows_what_its_address_looks_for_and_keeps_looking_for_it(browser: Client, team: Team) -> None:
    wanted = "/board?q=sign-in&member=&priority="
    whole = browser.call("GET", BASE + wanted).body.decode()
    assert "Limit sign-in attempts" in whole and "Rotate refresh tokens" not in whole
    assert 'value="sign-in"' in whole and "q=sign-in" in re.findall(r'data-src="([^"]+region=board)"', whole)[0]
    column = browser.call("GET", f"{BASE}/board/next?q=sign-in").body.decode()
    assert "Load-test the sign-in" in column and "Tag and publish" not in column
    assert browser.call("GET", f"{BASE}/board?priority=soon").status == 400
    assert browser.call("GET", f"{BASE}/board/nonsense").status == 400


def test_every_module_that_a_module_imports_is_there(browser: Client, team: Team) -> None:
    seen, names = set(), ["app.js"]
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            answer = browser.call("GET", f"/static/{name}")
            assert answer.status == 200 and answer.headers["content-type"].startswith("text/javascript")
            names += re.findall(r'from "\./([^"]+)"', answer.body.decode())
    assert len(seen) > 5


def test_short_addresses_show_the_same_where_they_are_unique_and_link_to_the_canonical_ones(
    browser: Client, home: Home, team: Team
) -> None:
    unique = team.tasks()[-1].id
    answer = browser.call("GET", f"/tasks/{unique}")
    assert answer.status == 200 and f'data-src="{BASE}/tasks/{unique}?region=head"'.encode() in answer.body
    answer = browser.call("GET", "/sessions/double-sessions")
    assert answer.status == 200 and f'data-src="{BASE}/sessions/double-sessions?region=thread"'.encode() in answer.body
    shared = home.team("atlas-docs").tasks()[0].id
    answer = browser.call("GET", f"/tasks/{shared}")
    assert answer.status == 409 and b"atlas-docs" in answer.body
    assert browser.call("GET", "/tasks/TASK-2020-01-01-001").status == 404
    assert browser.call("GET", "/sessions/nobody").status == 404
    assert browser.call("GET", "/static/..%2f..%2fpages.py").status == 404


def test_who_may_only_look_sees_no_buttons_and_can_press_none(server: Server, team: Team) -> None:
    viewer = server.person("vera", role="viewer")
    viewer.headers["accept"] = "text/html"
    task = team.questions()[0].task_id
    for path in ("/", BASE, f"{BASE}/board", f"{BASE}/tasks/{task}", f"{BASE}/messages"):
        answer = viewer.call("GET", path)
        assert answer.status == 200 and b'<form method="post"' not in answer.body, path
    assert post(viewer, f"{BASE}/tasks/{task}/move", verb="cancel").status == 403
    assert team.task(task).state != "cancelled"


def test_strangers_see_nothing(server: Server, team: Team) -> None:
    stranger = server.stranger(accept="text/html")
    for path in ("/", BASE, "/static/app.js"):
        answer = stranger.call("GET", path)
        assert answer.status == 401 and b"harbour" not in answer.body


def test_a_form_from_another_site_is_refused(server: Server, team: Team) -> None:
    browser = server.browser()
    task = team.create_task("Keep me").id
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{server.port + 1}"):
        browser.headers["origin"] = origin
        assert post(browser, f"{BASE}/tasks/{task}/move", verb="delete").status == 403
    assert team.task(task).state == "ready"


def test_a_form_leads_back_to_where_one_was_and_never_elsewhere(browser: Client, team: Team) -> None:
    task = team.create_task("Move me").id
    for referer, leads in (
        (f"http://127.0.0.1{BASE}/board?x=1", f"{BASE}/board?x=1"),
        ("https://evil.example//evil.example/x", BASE),
        ("", BASE),
    ):
        browser.headers["referer"] = referer
        answer = post(browser, f"{BASE}/tasks/{task}/move", verb="assign", member="ada")
        assert (answer.status, answer.headers["location"]) == (303, leads)
    del browser.headers["referer"]


def test_a_review_is_answered_in_words(browser: Client, team: Team) -> None:
    question = next(one for one in team.questions() if one.kind == "review")
    path = f"{BASE}/tasks/{question.task_id}/reply"
    answer = post(browser, path, reply="Name the three that were kept", question_id=question.id)
    assert answer.status == 303
    assert team.task(question.task_id).findings == "Name the three that were kept"


def test_where_changes_are_offered_words_ask_for_them_and_an_answer_offered_is_taken(
    browser: Client, home: Home
) -> None:
    home.create_project("words", None)
    team = home.team("words")
    asked = team.create_task("Count").id
    question = team.ask(asked, "Merge it?", options=["retry", "changes: …", "drop"]).id
    shown = browser.call("GET", f"/projects/words/tasks/{asked}").body.decode()
    assert "Ask for changes" in shown and ">Drop<" in shown and "Or in your own words" not in shown
    post(browser, f"/projects/words/tasks/{asked}/reply", reply="Drop the second column", question_id=question)
    again = team.ask(asked, "And now?", options=["retry", "changes: …", "drop"]).id
    post(browser, f"/projects/words/tasks/{asked}/reply", reply="Drop", question_id=again)
    last = team.ask(asked, "And now?", options=["changes: ...", "drop"]).id  # As agents write it.
    post(browser, f"/projects/words/tasks/{asked}/reply", reply="Count the rows", question_id=last)
    answers = [one.answer for one in team.story(asked).questions]
    assert answers == ["changes: Drop the second column", "drop", "changes: Count the rows"]


def test_a_project_is_made_and_a_task_put_on_its_board(browser: Client, home: Home, server: Server) -> None:
    answer = post(browser, "/projects", id="from-the-page", workdir=str(server.home))
    assert (answer.status, answer.headers["location"]) == (303, "/projects/from-the-page")
    made = "/projects/from-the-page/tasks"
    post(browser, made, subject="First")
    post(browser, made, subject="Second", blocked_by="001", priority="high", body="More")
    team = home.team("from-the-page")
    assert [(one.subject, one.state, one.priority) for one in team.tasks()] == [
        ("First", "ready", "normal"),
        ("Second", "backlog", "high"),
    ]
    refused = post(browser, made, subject="", body="what I had written")
    assert refused.status == 400 and b"what I had written" in refused.body


def test_whatever_needs_a_person_can_be_ended_from_the_page(browser: Client, home: Home, server: Server) -> None:
    home.create_project("mixed", str(server.home))
    team = home.team("mixed")
    team.spawn("ada", agent="shell")
    idea = team.create_task("Old idea").id
    later = team.create_task("Later", blocked_by=[idea]).id
    team.cancel(idea)
    held = team.create_task("Held", run="true").id
    team.claim(held)
    shown = browser.call("GET", "/projects/mixed").body.decode()
    assert "No longer wait for it" in shown and "You hold it." in shown and "Mark as done" in shown
    shown = browser.call("GET", f"/projects/mixed/tasks/{held}").body.decode()
    assert "printed nothing yet" not in shown and "<td>you</td>" in shown, "it is done by hand"
    assert post(browser, f"/projects/mixed/tasks/{later}/move", verb="undepend", on=idea).status == 303
    assert post(browser, f"/projects/mixed/tasks/{later}/move", verb="claim").status == 303
    for task in (later, held):
        assert post(browser, f"/projects/mixed/tasks/{task}/move", verb="complete").status == 303
    assert [one.state for one in team.tasks()] == ["cancelled", "done", "done"]
    assert "Nothing needs you" in browser.call("GET", "/projects/mixed").body.decode()


def test_all_that_needs_a_person_can_be_reached_and_told_apart(browser: Client, home: Home) -> None:
    home.create_project("morning", None)
    team = home.team("morning")
    team.spawn("ada")
    for number in range(44):
        id = team.create_task(f"Ask {number:02}").id
        team.claim(id, by="ada")
        team.ask(id, f"Red or blue for {number:02}?", by="ada")
    assert "<td>asks you <" in browser.call("GET", f"/projects/morning/tasks/{id}").body.decode(), "how its run ended"
    for number in range(3):
        id = team.create_task(f"Read {number}", review="human").id
        team.claim(id, by="ada")
        team.complete(id, by="ada")

    def shown(query: str = "", path: str = "/projects/morning") -> tuple[set[str], str]:
        html = browser.call("GET", path + query).body.decode()
        return set(re.findall(r">((?:Ask|Read) \d+)</a> ·", html)), html

    first, html = shown()
    assert len(first) == 40 and "47 open items" in html and 'href="/projects/morning?offset=40">7 more</a>' in html
    second, html = shown("?offset=40")
    assert len(second) == 7 and not first & second and ">First</a>" in html
    reviews, html = shown("?kind=reviews")
    assert reviews == {"Read 0", "Read 1", "Read 2"} and "more</a>" not in html
    assert re.search(r'href="/projects/morning\?kind=questions">Questions <span class="quiet">44</span>', html)
    assert shown("?kind=failed&offset=900")[0] == first, "an address that leads nowhere shows all, from the beginning"
    everywhere, html = shown(path="/")
    assert len(everywhere) >= 40 and 'href="/projects/morning?offset=40">7 more</a>' in html


def test_a_person_reads_letters_on_the_page_and_says_so(browser: Client, team: Team) -> None:
    assert "unread message" in browser.call("GET", BASE).body.decode()
    assert "not marked as read" in browser.call("GET", f"{BASE}/messages").body.decode()
    assert team.status().unread["human"] > 0, "to look is not to say that one has read it"
    assert post(browser, f"{BASE}/messages/read").status == 303
    assert "human" not in team.status().unread
    assert "not marked as read" not in browser.call("GET", f"{BASE}/messages").body.decode()


def test_a_report_says_first_what_to_decide_and_on_what_grounds_and_is_cut(browser: Client, home: Home) -> None:
    home.create_project("long-night", None)
    team = home.team("long-night")
    team.spawn("ada")
    task = team.create_task("Write `it`", verify="true", review="human").id
    for number in range(40):
        team.create_task(f"Read load_user_by_id in __init__{number}.py")
    team.claim(task, by="ada")
    team.complete(task, by="ada")
    for path, shown in (("/projects/long-night/report", 30), ("/report", 10)):
        html = browser.call("GET", path).body.decode()
        assert (
            "Check passed · ada" in html.replace("\n", "") and html.count("Read load_user_by_id in __init__") == shown
        )
        assert f"{41 - shown} more" in html


def test_what_a_filter_finds_is_changed_at_once_and_what_does_not_take_it_is_left(browser: Client, home: Home) -> None:
    home.create_project("many", None)
    team = home.team("many")
    team.spawn("ada")
    ids = [team.create_task(f"Paint wall {number}").id for number in range(3)]
    other = team.create_task("Sweep").id
    team.claim(ids[0], by="ada")
    team.complete(ids[0], by="ada")
    shown = browser.call("GET", "/projects/many/board?q=wall").body.decode()
    assert "Change all 3" in shown and '<option value="Paint wall 1">' in shown and "Sweep" not in shown
    assert "Change all" not in browser.call("GET", "/projects/many/board").body.decode(), "nothing was looked for"
    sought = {"q": "wall", "found": "3"}
    assert post(browser, "/projects/many/board", **sought, verb="prioritise", level="high").status == 303
    assert post(browser, "/projects/many/board", **sought, verb="assign", member="ada").status == 303
    assert [(one.priority, one.assignee) for one in map(team.task, (*ids[1:], other))] == [("high", "ada")] * 2 + [
        ("normal", None)
    ]
    told = browser.call(
        "POST", "/projects/many/board", urlencode({**sought, "verb": "cancel"}).encode(),
        {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"},
    ).json["told"]  # fmt: skip
    assert told == "Cancel: 2 tasks. Left as they are: 1."
    assert [team.task(id).state for id in (*ids, other)] == ["done", "cancelled", "cancelled", "ready"]
    assert post(browser, "/projects/many/board", **sought, verb="cancel").status == 400, "none takes it"
    team.create_task("Paint wall 3")
    assert post(browser, "/projects/many/board", **sought, verb="delete").status == 409, "nobody has seen the fourth"
    assert post(browser, "/projects/many/board", **sought, verb="approve").status == 400, "each is looked at"


def test_a_timeline_is_narrowed_to_a_kind_and_to_who_did_it(browser: Client, home: Home) -> None:
    home.create_project("busy", None)
    team = home.team("busy")
    for name in ("ada", "ben"):
        team.spawn(name)
        task = team.create_task(f"Task of {name}").id
        team.claim(task, by=name)
        team.complete(task, by=name)
    team.broadcast("ada", content="Done!")

    def shown(query: str) -> str:
        html = browser.call("GET", f"/projects/busy/timeline?{query}").body.decode()
        return html[html.index('<ol class="events">') :] if '<ol class="events">' in html else ""

    assert "wrote to" in shown("") and re.search(r"done</span> <span class=.quiet.>after \d", shown(""))
    assert "wrote to" in shown("kind=messages&who=ada") and "Task of" not in shown("kind=messages")
    assert "Task of ada" in shown("kind=tasks&who=ada") and "Task of ben" not in shown("kind=tasks&who=ada")
    assert shown("kind=messages&who=ben") == "" == shown("kind=trouble")


def test_usage_is_told_by_member_and_agent_with_its_limits_and_when_there_is_more(
    browser: Client, home: Home, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "team: spender\nmembers:\n  ada: {agent: shell, limits: {time: 90}}\n  ben: {agent: shell}\n"
        "tasks:\n  a: {subject: A, run: echo one, assignee: ada}\n  b: {subject: B, run: echo two, assignee: ben}\n"
    )
    command = [sys.executable, "-m", "interlock.surfaces.cli", "--home", home.path, "run", str(plan)]
    subprocess.run(command, check=True, timeout=200, capture_output=True)
    html = browser.call("GET", "/projects/spender/members").body.decode()
    usage = re.sub(r"<[^>]+>|\s+", " ", html[html.index(">Usage<") :])
    assert re.search(r"ada +shell .*of 1m .* 2 members +shell", usage), usage


def test_a_workflow_shows_its_steps_and_what_was_decided_and_why(browser: Client, home: Home, server: Server) -> None:
    root = project(server.home / "planning", steps=2)
    home.create_project("planning", str(root))
    team = home.team("planning")
    team.spawn("ada", agent="command", command=[sys.executable, str(AUTHOR)])
    run = team.start_workflow(SKILL, agent="ada", brief="A page for a small museum.")
    next(event for event in team.follow() if event.type == "workflow.ended")
    pages = ("workflows", f"tasks/{run['task_id']}", f"workflows/{run['workflow_id']}")
    for path in (f"/projects/planning/{page}" for page in pages):
        shown = browser.call("GET", path).body.decode()
        assert SKILL in shown and "2 of 2 steps" in shown and "Step 1: Part 1" in shown
        assert "Decisions, and why" in shown and "the step marks C as the way on" in shown


def test_an_agent_that_cannot_be_had_is_said_where_one_looks_for_what_needs_one(browser: Client, home: Home) -> None:
    home.create_project("idle-crew", None)
    home.team("idle-crew").spawn("cyd", agent="<b>cluade")
    for path in ("/", "/projects/idle-crew"):
        html = browser.call("GET", path).body.decode()
        assert "cyd cannot work here" in html and "interlock agents list" in html
        assert "<b>cluade" not in html
    home.delete_team("idle-crew", force=True)


def test_tasks_that_failed_for_one_cause_are_one_card_with_one_answer(browser: Client, home: Home) -> None:
    home.create_project("missing", None)
    team = home.team("missing")
    team.spawn("ada")
    team.configure({"verify_rounds": 1})
    checks = ["exit 3"] * 3 + ["exit 4"]
    ids = [team.create_task(f"Part {number}", verify=check).id for number, check in enumerate(checks)]
    later = team.create_task("Later", blocked_by=[ids[2]]).id
    for id in ids:
        team.claim(id, by="ada")
        assert team.complete(id, by="ada").state == "deadletter"
    shown = browser.call("GET", "/projects/missing").body.decode()
    assert "Retry all 3" in shown and "(2 more tasks failed for the same reason; 1 task waits for them)" in shown
    told = browser.call("GET", "/projects/missing/report").body.decode()
    assert "Retry all 3" in told
    assert told.index('class="decide"') < told.index('class="part"'), "what to decide is first"
    status = team.status()
    assert len([need for need in status.needs_me if need.kind == "deadletter"]) == 4
    assert post(browser, f"/projects/missing/tasks/{ids[0]}/move", verb="retry_alike").status == 303
    assert [team.task(id).state for id in (*ids, later)] == ["ready"] * 3 + ["deadletter", "backlog"]
    assert "Retry all" not in browser.call("GET", "/projects/missing").body.decode()


def test_a_card_of_the_board_names_what_it_waits_for_as_that_is_named_there(browser: Client, home: Home) -> None:
    plan = {"team": "keyed", "workdir": home.path, "members": {"ada": {"agent": "shell"}}}
    plan["tasks"] = {"base": {"run": "true"}, "roof": {"run": "true", "blocked_by": ["base"]}}
    path = Path(home.path) / "plan.yaml"
    path.write_text(json.dumps(plan))
    home.stage(str(path))
    shown = browser.call("GET", "/projects/keyed/board").body.decode()
    assert re.search(r"waits for <a [^>]*>base</a>", shown)


def test_a_session_says_why_its_task_waits(browser: Client, home: Home) -> None:
    home.create_project("alone", home.path)
    to = post(browser, "/projects/alone/chat", content="Rewrite the README").headers["location"]
    assert "nobody can take this: the team has no agent" in browser.call("GET", to).body.decode()


def test_the_page_of_a_review_offers_each_answer_once(browser: Client, home: Home) -> None:
    task = asked(home, "once")
    shown = browser.call("GET", f"/projects/once/tasks/{task}").body.decode()
    assert len(re.findall(r">\s*Approve\s*<", shown)) == 1


def asked(home: Home, project: str) -> str:
    """A task of a project of its own that a person is asked to review."""
    home.create_project(project, home.path)
    team = home.team(project)
    team.spawn("ada")
    task = team.create_task("Paint it", review="human").id
    team.claim(task, by="ada")
    team.complete(task, by="ada")
    return task


def test_a_form_that_is_refused_says_where_it_counts_and_keeps_what_was_written(browser: Client, home: Home) -> None:
    task = asked(home, "kept")
    del browser.headers["x-interlock-key"]  # As in a browser whose scripts were switched off after it had signed in.
    answer = post(browser, f"/projects/kept/tasks/{task}/reply", reply="Red, with a white stripe")
    shown = answer.body.decode()
    assert answer.status == 403 and "Red, with a white stripe" in shown
    assert re.search(r"in this browser, at http://[^ ]+\.localhost:\d+", shown)
    assert home.team("kept").task(task).state == "review", "nothing was done"


def test_who_looks_for_a_page_that_is_not_there_is_told_in_plain_words(browser: Client, server: Server) -> None:
    shown = browser.call("GET", "/epics").body.decode()
    assert "There is nothing at /epics." in shown and "openapi" not in shown
    assert "openapi" in server.client().call("GET", "/epics").json["message"]
