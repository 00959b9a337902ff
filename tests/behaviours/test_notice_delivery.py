"""Notices arrive at least once, signed, in the form of each program, and what cannot be delivered is listed."""

from __future__ import annotations

import base64
import email
import hashlib
import hmac
import json
import re
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from email.message import Message
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import InvalidRequest
from interlock.runner.notifications import DELAYS, Notifications

KEY = "whsec_" + base64.b64encode(b"a key of thirty-two bytes, as it").decode()


class Receiver(BaseHTTPRequestHandler):
    """Keeps what is sent, and answers with the next of `answers`, or 200."""

    server: Any

    def do_POST(self) -> None:
        self.server.heard.append((self.path, self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
        self.server.reached.set()
        self.server.free.wait(60)
        answers = self.server.answers
        self.send_response(answers.pop(0) if answers else 200)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Where notices are sent; while `free` is not set, it answers nobody."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.heard: list[tuple[str, Message, bytes]] = []
        self.answers: list[int] = []
        self.free = threading.Event()
        self.free.set()
        self.reached = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.heard]


class MailReceiver(socketserver.StreamRequestHandler):
    """As much of an SMTP server as it takes to get mail."""

    server: Any

    def handle(self) -> None:
        self._say("220 ready")
        while line := self.rfile.readline().decode().strip():
            self.server.said.append(line)
            verb = line[:4].upper()
            if verb == "EHLO":
                self._say("250-here\r\n250 AUTH PLAIN")
            elif verb == "AUTH":
                self._say("235 welcome")
            elif verb == "DATA":
                self._say("354 go on")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.mails.append(email.message_from_bytes(b"".join(lines), policy=default))
                self._say("250 taken")
            elif verb == "RCPT" and self.server.refuses:
                self._say("550 nobody of that name")
            elif verb == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 fine")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), MailReceiver)
        self.said: list[str] = []
        self.mails: list[Message] = []
        self.refuses = False


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as one:
        yield one


class Later:
    """The clock of a home, moved on by hand."""

    def __init__(self, home: Home) -> None:
        self._clock = home._clock  # type: ignore[attr-defined]
        self._began = time.time()
        self._on = 0.0
        self._clock.now = lambda: self._began + self._on

    def by(self, seconds: float) -> None:
        self._on += seconds


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with interlock.connect(str(tmp_path / "home")) as opened:
        yield opened


@pytest.fixture
def team(home: Home) -> Team:
    made = home.create_team("alpha")
    made.spawn("ada")
    return made


def ask(team: Team, subject: str) -> str:
    task = team.create_task(subject)
    team.claim(task.id, by="ada")
    team.ask(task.id, "What is the password?", by="ada")
    return task.id


def failed(team: Team) -> list[dict[str, Any]]:
    return [event.payload for event in team.events()[0] if event.type == "notice.failed"]


def listed(home: Home) -> list[str]:
    return [one.what for one in home.doctor().findings if (one.path or "").endswith("notices.json")]


def test_a_webhook_is_signed_as_standard_webhooks_says(home: Home, team: Team, server: Server) -> None:
    home.configure({"notify.webhook": f"{server.url}/hook", "notify.secret": KEY})
    ask(team, "Move the database")
    assert home.notices().tell() == 1
    [(path, headers, body)] = server.heard
    id, at = headers["webhook-id"], headers["webhook-timestamp"]
    key = base64.b64decode(KEY.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()).decode()
    assert path == "/hook" and headers["webhook-signature"] == f"v1,{expected}"
    assert json.loads(body)["id"] == id and abs(int(at) - time.time()) < 60


def test_without_a_key_nothing_is_signed(home: Home, team: Team, server: Server) -> None:
    home.configure({"notify.webhook": server.url})
    ask(team, "Move the database")
    home.notices().tell()
    assert "webhook-signature" not in server.heard[0][1] and server.heard[0][1]["webhook-id"].startswith("msg_")


def test_a_server_that_was_down_gets_it_later_with_the_same_id_and_then_what_came_up_meanwhile(
    home: Home, team: Team, server: Server
) -> None:
    later = Later(home)
    home.configure({"notify.webhook": server.url})
    server.answers = [503, 500]
    ask(team, "first")
    assert home.notices().tell() == 1
    answered = ask(team, "second")
    ask(team, "third")
    assert home.notices().tell() == 0, "the next attempt has its time"
    [said] = listed(home)
    assert "answered 503" in said and "first" in said and server.url not in said
    for delay in DELAYS[:2]:
        later.by(delay + 1)
        # Every time another process, as after a restart.
        with interlock.connect(home.path) as restarted:
            restarted._clock.now = home._clock.now  # type: ignore[attr-defined]
            restarted.notices().tell()
    assert len({one["id"] for one in server.documents}) == 1 and len(server.heard) == 3
    assert [(one["attempt"], one["error"]) for one in failed(team)] == [
        (1, "the address answered 503"), (2, "the address answered 500"),
    ]  # fmt: skip
    assert listed(home) == []
    team.reply(answered, "never mind")
    later.by(31)
    assert home.notices().tell() == 1
    [notice] = server.documents[-1]["notices"]
    assert notice["title"].endswith("third"), "what was answered meanwhile is no news"
    later.by(86_400)
    assert home.notices().tell() == 0 and len(server.heard) == 4


def test_what_fails_for_good_is_given_up_and_stays_listed(home: Home, team: Team, server: Server) -> None:
    later = Later(home)
    home.configure({"notify.webhook": f"{server.url}/s3cr3t"})
    server.answers = [500] * (len(DELAYS) + 1)
    ask(team, "first")
    for delay in (0, *DELAYS):
        later.by(delay + 1)
        home.notices().tell()
    assert len(server.heard) == len(DELAYS) + 1
    assert [one["retry_at"] is None for one in failed(team)] == [False] * len(DELAYS) + [True]
    assert "s3cr3t" not in json.dumps([one.payload for one in team.events()[0]])
    [said] = listed(home)
    assert "was never sent by webhook" in said and "s3cr3t" not in said
    ask(team, "second")
    later.by(31)
    assert home.notices().tell() == 1 and len(server.heard) == len(DELAYS) + 2


def test_a_target_that_is_down_holds_up_no_other(home: Home, team: Team, server: Server) -> None:
    home.configure({"notify.webhook": f"http://127.0.0.1:9/x {server.url}/a slack+{server.url}/b"})
    ask(team, "first")
    assert home.notices().tell(hurry=True) == 3
    assert [path for path, _, _ in server.heard] == ["/a", "/b"]
    assert [one["via"] for one in failed(team)] == ["webhook"]


def test_what_a_killed_process_was_sending_is_sent_again_with_its_id(home: Home, team: Team, server: Server) -> None:
    home.configure({"notify.webhook": server.url})
    ask(team, "first")
    server.free.clear()
    tells = "import sys, interlock; interlock.connect(sys.argv[1]).notices().tell()"
    with subprocess.Popen([sys.executable, "-c", tells, home.path]) as process:
        assert server.reached.wait(60)
        assert home.notices().tell(hurry=True) == 0, "another process is at it"
        process.kill()
    server.free.set()
    Later(home).by(31)
    assert home.notices().tell() == 0, "nothing new"
    assert len(server.heard) == 2 and len({one["id"] for one in server.documents}) == 1
    assert home.notices().tell(hurry=True) == 0 and len(server.heard) == 2


def test_each_program_gets_its_own_form_and_nobody_is_mentioned(home: Home, team: Team, server: Server) -> None:
    login = server.url.replace("://", "://:tk_token@")
    home.configure({
        "notify.webhook": f"slack+{server.url}/services/T/B discord+{server.url}/api/1 ntfy+{login}/base/my-topic"
    })  # fmt: skip
    ask(team, "<!channel> *see* [this](http://evil) @everyone")
    home.notices(link="http://page").tell(hurry=True)
    (_, _, slack), (_, _, discord), (path, headers, ntfy) = server.heard
    said = json.loads(slack)["text"]
    assert re.fullmatch(r"<http://page/projects/alpha/tasks/[^|<>]*\|[^|<>]*>", said) and "&lt;!channel&gt;" in said
    told = json.loads(discord)
    assert told["allowed_mentions"] == {"parse": []} and r"\[this\]\(http\://evil\)" in told["content"]
    assert told["content"].endswith(")") and "](<http://page/projects/alpha/tasks/" in told["content"]
    pushed = json.loads(ntfy)
    assert path == "/base" and pushed["topic"] == "my-topic" and pushed["click"].startswith("http://page/")
    assert headers["Authorization"] == f"Basic {base64.b64encode(b':tk_token').decode()}"


def test_a_message_has_an_end_and_says_how_much_more_there_is(home: Home, team: Team, server: Server) -> None:
    home.configure({"notify.webhook": f"discord+{server.url} {server.url}"})
    team.configure({"subject_chars": 400, "member_parallel": 0})
    for number in range(30):
        ask(team, f"{number} " + "*" * 300)
    home.notices().tell(hurry=True)
    content = json.loads(server.heard[0][2])["content"]
    assert len(content) <= 2000 and content.endswith("more")
    assert len(server.documents[1]["notices"]) == 30


def test_a_mail_has_its_subject_its_link_and_an_id_and_is_sent_once(home: Home, team: Team) -> None:
    with serving(MailServer()) as server:
        port = server.server_address[1]
        home.configure(
            {"notify.email": f"smtp://me:pass%40word@127.0.0.1:{port}/?to=eva@example.org&from=il@example.org"}
        )
        task = ask(team, "Größe, Bcc: evil@example.org")
        assert home.notices(link="http://page").tell(hurry=True) == 1
    [mail] = server.mails
    assert (mail["To"], mail["From"], mail["Bcc"]) == ("eva@example.org", "il@example.org", None)
    assert mail["Subject"].startswith("Waits for you (clarification): Größe")
    assert f"http://page/projects/alpha/tasks/{task}" in mail.get_content()  # type: ignore[attr-defined]
    assert mail["Message-ID"].startswith("<msg_") and mail["Auto-Submitted"] == "auto-generated"
    assert "AUTH PLAIN " + base64.b64encode(b"\0me\0pass@word").decode() in server.said
    assert home.notices().tell(hurry=True) == 0 and failed(team) == []


def test_a_mail_that_is_refused_is_a_failure_without_the_address(home: Home, team: Team) -> None:
    with serving(MailServer()) as server:
        server.refuses = True
        home.configure({"notify.email": f"smtp://127.0.0.1:{server.server_address[1]}/?to=eva@example.org"})
        ask(team, "first")
        home.notices().tell()
    assert [(one["via"], one["error"]) for one in failed(team)] == [("email", "the mail server refused the recipient")]


def test_a_digest_comes_once_a_day_and_says_what_the_day_came_to(home: Home, team: Team, server: Server) -> None:
    later = Later(home)
    at = datetime.now() + timedelta(minutes=90)
    home.configure({"notify.webhook": server.url, "notify.digest": at.strftime("%H:%M")})
    home.create_team("beta")
    task = team.create_task("Move the database")
    team.claim(task.id, by="ada")
    assert home.notices().tell() == 0, "the first comes at its time"
    team.complete(task.id, by="ada")
    later.by(2 * 3600)
    assert home.notices().tell() == 2
    alpha, beta = server.documents[0]["notices"]
    assert alpha["kind"] == "digest" and alpha["text"].startswith("1 done (1 unverified), 0 failed, 0 left, 0 for you")
    assert beta["text"].startswith("0 done, 0 failed")
    later.by(3600)
    assert home.notices().tell() == 0
    later.by(86_400)
    assert home.notices().tell() == 2
    assert server.documents[1]["notices"][0]["id"] != alpha["id"]


def test_the_notice_of_a_run_that_ended_says_what_it_came_to(
    home: Home, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("team: night\nmembers: {ada: {agent: shell}}\ntasks: {good: {run: 'true'}}\n")
    home.configure({"notify.webhook": server.url})
    command = [sys.executable, "-m", "interlock", "run", str(plan)]
    environment = {"INTERLOCK_HOME": home.path, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, timeout=100, stdout=subprocess.DEVNULL)
    [notice] = [one for document in server.documents for one in document["notices"] if one["kind"] == "ended"]
    assert notice["title"] == "The run of night has ended: finished" and notice["text"].startswith("1 done, 0 failed")


def test_no_command_shows_an_address_or_a_key(home: Home, team: Team) -> None:
    secrets = {
        "notify.webhook": "slack+https://hooks.example.org/services/s3cr3t",
        "notify.secret": "s3cr3t",
        "notify.email": "smtps://me:s3cr3t@example.org/?to=eva@example.org",
    }
    home.configure(secrets)
    shown = {one.name: one.value for one in home.settings()}
    assert {shown[name] for name in secrets} == {"(set, not shown)"}
    for words in (["list"], ["list", "--team", "alpha"], ["get", "notify.email"], ["set", "notify.secret", "s3cr3t"]):
        command = [sys.executable, "-m", "interlock", "--home", home.path, "config", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert "s3cr3t" not in done.stdout + done.stderr


def test_a_value_of_the_settings_can_be_given_on_standard_input(home: Home) -> None:
    command = [sys.executable, "-m", "interlock", "--home", home.path, "config", "set", "notify.secret", "-"]
    subprocess.run(command, input="a key\n", text=True, timeout=60, check=True, stdout=subprocess.DEVNULL)
    assert json.loads((Path(home.path) / "settings.json").read_text()) == {"notify.secret": "a key"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("notify.webhook", "slack+file:///etc/passwd"),
        ("notify.webhook", "https://example.org/a gopher://example.org"),
        ("notify.webhook", "ntfy+https://example.org/"),
        ("notify.webhook", "http://[::1/s3cr3t"),
        ("notify.webhook", "http://example.org:port/s3cr3t"),
        ("notify.secret", "whsec_!s3cr3t"),
        ("notify.email", "https://example.org/?to=a@b"),
        ("notify.email", "smtps://example.org/"),
        ("notify.email", "smtps://example.org/?to=a@b%0d%0aBcc:c@d"),
        ("notify.digest", "7 o'clock"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_set_and_not_repeated(home: Home, name: str, value: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        home.configure({name: value})
    assert "s3cr3t" not in refused.value.message and refused.value.details["field"] == name


def test_nothing_is_followed_where_nothing_is_set(home: Home, team: Team) -> None:
    ask(team, "first")
    notices: Notifications = home.notices()
    assert notices.tell(hurry=True) == 0 and not (Path(home.path) / "notices.json").exists()
