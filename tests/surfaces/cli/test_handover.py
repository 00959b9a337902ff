"""Mail that hooks hand over by themselves leaves what every other way of handing it over leaves."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock import hooks_handover
from interlock.app.team import Team
from interlock.processes.ref import ProcessRef, current

Told = Callable[..., tuple[str, set[str]]]
ROUTES = ("fast", "slow")


@pytest.fixture
def teams(tmp_path: Path) -> dict[str, Team]:
    """A team for each way, all with the same past."""
    home = interlock.connect(str(tmp_path / "home"))
    made = {}
    for route in ROUTES:
        made[route] = home.create_team(route, lead="agent:main:main")
        made[route].spawn("ada")
        made[route].spawn("bob")
    return made


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Run a hook's command of `route`, the slow one without its short start: what it printed, and which modules of ours
    it had loaded."""
    monkeypatch.setenv("INTERLOCK_HOOK_TIMEOUT", "60")

    def run(
        route: str, *arguments: str, given: dict[str, Any] | None = None, **environment: str
    ) -> tuple[str, set[str]]:
        code = (
            "import sys, os; os._exit = sys.exit\n"
            "from interlock.surfaces.cli import main\n"
            "from interlock import hooks_handover\n"
            f"if {route!r} == 'slow': hooks_handover.this_process = lambda: None\n"
            "try: main()\nfinally: print(*sys.modules, file=sys.stderr)"
        )
        line = [sys.executable, "-c", code, "--home", str(tmp_path / "home"), "--team", route, *arguments]
        ran = subprocess.run(
            line, input=json.dumps(given or {}).encode(), capture_output=True, env={**os.environ, **environment}
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.decode(), set(ran.stderr.decode().splitlines()[-1].split())

    return run


def left(team: Team) -> dict[str, Any]:
    """What a team's ledger and files say, without the times and ids that differ between two."""
    rows = sqlite3.connect(Path(team.directory) / "ledger.db")
    ids = {id: f"m{n}" for n, id in rows.execute("SELECT n, id FROM messages")}

    def plain(payload: str) -> Any:
        found = json.loads(payload)
        return {key: [ids[id] for id in value] if key in ("ids", "again") else value for key, value in found.items()}

    events = rows.execute(
        "SELECT type, actor, payload FROM events WHERE type LIKE 'message.%' AND type <> 'message.sent'"
    )
    inboxes = sorted(Path(team.directory).glob("inbox/*/messages.jsonl"))
    shown = {
        "events": [(type, actor, plain(payload)) for type, actor, payload in events],
        "messages": rows.execute(
            "SELECT recipient, stage, attempt, session, offered_at IS NULL, delivered_at IS NULL, "
            "acknowledged_at IS NULL, process IS NULL FROM messages ORDER BY n"
        ).fetchall(),
        "members": rows.execute("SELECT name, unread, session, last_active_at IS NULL FROM members").fetchall(),
        "sessions": rows.execute(
            "SELECT member, id, sent_back, ended_at, gone_at FROM sessions ORDER BY 1, 2"
        ).fetchall(),
        "inboxes": [(path.parent.name, len(path.read_text().splitlines())) for path in inboxes],
        "behind": rows.execute("SELECT max(seq) FROM events").fetchone()[0]
        - int((Path(team.directory) / ".mirror.position").read_text().split()[1]),
    }
    rows.close()
    return shown


def send_all(teams: dict[str, Team], to: str, *contents: str, **fields: Any) -> None:
    for team in teams.values():
        for content in contents:
            team.send(to=to, content=content, **fields)


def fast_is_taken(modules: set[str]) -> bool:
    return "interlock.wiring" not in modules


@pytest.mark.req("TEAM-3.4", "TEAM-3.5", "TEAM-3.xml")
def test_injected_mail_is_the_same_either_way(teams: dict[str, Team], told: Told) -> None:
    """Text, ledger, and files."""
    for route in ROUTES:
        told(route, "inject", "--as", "ada")
    send_all(teams, "ada", "first", '<&"\u00e9\x01', summary="a\nb")
    send_all(teams, "ada", "now", urgent=True)
    send_all(teams, "bob", "not yours")
    answers = {route: told(route, "inject", "--as", "ada") for route in ROUTES}
    assert answers["fast"][0] == answers["slow"][0] and answers["fast"][0].index("now") < answers["fast"][0].index(
        "first"
    )
    assert fast_is_taken(answers["fast"][1]) and not fast_is_taken(answers["slow"][1])
    assert left(teams["fast"]) == left(teams["slow"])
    assert left(teams["fast"])["behind"] == 0
    for route in ROUTES:
        assert told(route, "inject", "--as", "ada")[0] == ""
    assert left(teams["fast"]) == left(teams["slow"])
    assert [stage for _, stage, *_ in left(teams["fast"])["messages"][:3]] == ["acknowledged"] * 3


@pytest.mark.long
def test_a_window_is_told_the_same_either_way(teams: dict[str, Team], told: Told) -> None:
    """Prompt, tool and stop: what is said, and when a stop is let go."""

    def event(name: str, **more: Any) -> dict[str, tuple[str, set[str]]]:
        given = {"hook_event_name": name, "session_id": "s-1", **more}
        return {route: told(route, "hook", "claude", "--name", "ada", given=given) for route in ROUTES}

    event("SessionStart")
    send_all(teams, "ada", "with the prompt")
    steps = [event("UserPromptSubmit")]
    send_all(teams, "ada", "between two steps", urgent=True)
    steps.append(event("PostToolUse"))
    send_all(teams, "ada", "before you stop")
    steps.append(event("Stop"))
    send_all(teams, "ada", "too late")
    steps.append(event("Stop", stop_hook_active=True))
    steps.append(event("Stop"))
    steps.append(event("UserPromptSubmit"))
    for step in steps:
        assert step["fast"][0].replace("fast", "slow") == step["slow"][0]
        assert fast_is_taken(step["fast"][1])
    assert [bool(step["fast"][0]) for step in steps] == [True, True, True, False, False, True]
    assert left(teams["fast"]) == left(teams["slow"])


@pytest.mark.parametrize("what", ["lead", "offered", "too much", "run", "clock", "schema", "task"])
def test_what_needs_more_is_left_to_the_rest(teams: dict[str, Team], told: Told, what: str) -> None:
    """The answer is the same all the same."""
    name = "lead" if what == "lead" else "ada"
    given = {"hook_event_name": "Stop", "session_id": "s-1"}
    line = ("hook", "claude", "--name", "ada") if what == "task" else ("inject", "--as", name)
    told("fast", *(("hook", "claude", "--name", "ada") if what == "task" else line),
         given={**given, "hook_event_name": "SessionStart"})  # fmt: skip
    team = teams["fast"]
    team.send(to=name, content="x" * 1000)
    environment = {}
    ledger = sqlite3.connect(Path(team.directory) / "ledger.db", isolation_level=None)
    match what:
        case "offered":
            offered = (current().as_text(), "2020-01-01T00:00:00.000Z")
            ledger.execute("UPDATE messages SET stage = 'offered', process = ?, offered_at = ?", offered)
        case "too much":
            for _ in range(101):
                team.send(to=name, content="y")
        case "run":
            environment = {"INTERLOCK_RUN_TOKEN": "t", "INTERLOCK_TEAM": "fast", "INTERLOCK_MEMBER": "ada"}
        case "clock":
            ledger.execute(
                "UPDATE events SET at = '2199-01-01T00:00:00.000Z' WHERE seq = (SELECT max(seq) FROM events)"
            )
        case "schema":
            ledger.execute("PRAGMA user_version = 99")
        case "task":
            task = team.create_task("Report it")
            team.acting("ada", session="s-1").claim(task.id)
    ledger.close()
    text, modules = told("fast", *line, given=given, **environment)
    assert not fast_is_taken(modules)
    assert ("x" * 1000 in text) == (what != "schema")


def test_a_reader_that_is_gone_gives_the_mail_back(teams: dict[str, Team], told: Told, tmp_path: Path) -> None:
    told("fast", "inject", "--as", "ada")
    teams["fast"].send(to="ada", content="x" * 100_000)
    line = [
        sys.executable,
        "-m",
        "interlock",
        "--home",
        str(tmp_path / "home"),
        "--team",
        "fast",
        "inject",
        "--as",
        "ada",
    ]
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as gone:
        assert subprocess.run(line, stdout=gone, stderr=subprocess.PIPE).returncode == 1
    assert left(teams["fast"])["messages"][0][1] == "stored"
    assert 'redelivered="true"' in told("fast", "inject", "--as", "ada")[0]


def test_a_file_that_somebody_edited_is_left_to_the_mirror(teams: dict[str, Team], told: Told) -> None:
    told("fast", "inject", "--as", "ada")
    teams["fast"].send(to="ada", content="hello")
    inbox = Path(teams["fast"].directory) / "inbox" / "ada"
    with (inbox / "messages.jsonl").open("a") as file:
        file.write("mine\n")
    assert "hello" in told("fast", "inject", "--as", "ada")[0]
    assert [path.read_text().splitlines()[-1] for path in inbox.iterdir()] == ["mine"]
    assert left(teams["fast"])["behind"] == 0


def test_the_hooks_name_their_process_as_everybody_does() -> None:
    found = hooks_handover.this_process()
    assert found is not None and ProcessRef.parse(found) == current()


STEPS = """
import os, sys
from interlock.hooks_team import LocalTeam
from interlock.surfaces.cli import main
seen, opened = 0, LocalTeam.open
def step(held):
    global seen
    seen += 1
    if seen == {at}:
        {act}
def watched(self, mode):
    ledger = opened(self, mode)
    if mode == "rw":
        ledger.set_trace_callback(lambda _: step(ledger.in_transaction))
        sys.addaudithook(lambda name, _: step(False) if name in ("open", "os.remove", "os.rename") else None)
    return ledger
LocalTeam.open = watched
main()
"""
"""`interlock`, which does `act` before step `at` of a hand-over: its statements, and each time it touches a file."""


@pytest.fixture
def ada(tmp_path: Path) -> Iterator[Team]:
    """A team with a member whose hook was there before."""
    with interlock.connect(str(tmp_path / "home")) as home:
        team = home.create_team("alpha", lead="agent:main:main")
        team.spawn("ada")
        injecting(tmp_path).communicate()
        yield team


def injecting(place: Path, at: int = 0, act: str = "pass", fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-c", STEPS.format(at=at, act=act), "inject", "--as", "ada", "--team", "alpha"]
    environment = {**os.environ, "INTERLOCK_HOOK_TIMEOUT": "60"}
    line += ["--home", str(place / "home")]
    return subprocess.Popen(line, stdout=subprocess.PIPE, pass_fds=fds, env=environment)


def handed(hook: subprocess.Popen[bytes]) -> list[tuple[str, bool]]:
    """The messages that a hook has printed when it ends, and which of them it says may be known already."""
    found = re.findall(r"<teammate-message([^>]*)>\s*(m\d+)", hook.communicate()[0].decode())
    return [(content, 'redelivered="true"' in attributes) for attributes, content in found]


@pytest.mark.long
def test_a_hook_that_is_killed_at_any_step_neither_loses_nor_doubles_a_message(ada: Team, tmp_path: Path) -> None:
    ends = set()
    for at in count(1):
        ada.send(to="ada", content=f"m{at}")
        killed = injecting(tmp_path, at, "os.kill(os.getpid(), 9)")
        first, second = handed(killed), handed(injecting(tmp_path))
        assert [name for name, _ in first or second] == [f"m{at}"], f"lost at step {at}"
        # What was printed and could not be noted as delivered is given again, and says so.
        assert not (first and second) or second == [(f"m{at}", True)], f"doubled at step {at}"
        ends.add((bool(first), bool(second)))
        if killed.returncode == 0:
            break
    assert at > 10 and ends == {(False, True), (True, True), (True, False)}
    assert left(ada)["behind"] == 0


@pytest.mark.long
def test_two_hooks_at_once_hand_each_message_over_once(ada: Team, tmp_path: Path) -> None:
    for at in count(1):
        ada.send(to="ada", content=f"m{at}")
        (paused, told), (waiting, wake) = os.pipe(), os.pipe()
        act = f"os.write({told}, b'held' if held else b'free'); os.read({waiting}, 1)"
        one = injecting(tmp_path, at, act, (told, waiting))
        os.close(told)
        reached = os.read(paused, 4)
        two = injecting(tmp_path)
        # Who has the ledger's lock is waited for; otherwise the second does all it can before the first continues.
        second = handed(two) if reached == b"free" else None
        os.write(wake, b"!")
        both = handed(one) + (handed(two) if second is None else second)
        assert both == [(f"m{at}", False)], f"step {at}"
        assert (one.returncode, two.returncode) == (0, 0)
        for pipe in (paused, waiting, wake):
            os.close(pipe)
        if not reached:
            break
    assert at > 10 and left(ada)["behind"] == 0
