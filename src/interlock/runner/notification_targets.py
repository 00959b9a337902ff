"""Where notifications are sent, and in which form: a program, an address that takes our JSON (signed), Slack, Discord,
ntfy, a mailbox, or a browser that somebody subscribed.

An address may hold a secret, so no error, event or log has its path, its query or its login. What agents wrote into
a subject is data everywhere: it mentions nobody, makes no link, and begins no header line. A program or a server gets a
few seconds, and is then ended, or left to itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import field
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

from interlock.errors import InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.processes.commands import words_of
from interlock.runner import web_push

SECONDS = 10.0
SHOWN = 20
"""How many notices a chat message or a mail names."""
CHATS = ("slack", "discord", "ntfy")
MOST = {"slack": 3500, "discord": 1900, "ntfy": 3500}
"""Longest text of a message, in characters; each program takes a little more."""
KEY_PREFIX = "whsec_"
OWN = ("INTERLOCK_RUN_TOKEN", "INTERLOCK_RUN_WITHIN", "INTERLOCK_SESSION", "INTERLOCK_MEMBER", "INTERLOCK_RUN")
"""Variables that say who acts: a user's program is none of ours."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class NotificationTarget:
    """`command`, `webhook`, `slack`, `discord`, `ntfy`, `email` or `push`; a program's words or an address, the `key`
    that signs what a webhook gets, and the `browser` that a push is for."""

    kind: str
    words: tuple[str, ...] = ()
    url: str = field(default="", repr=False)
    key: bytes = field(default=b"", repr=False)
    browser: web_push.PushSubscription | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        """The same as long as it is the same target; tells nothing of its address."""
        return f"{self.kind}-{hashlib.sha256(repr((self.words, self.url)).encode()).hexdigest()[:12]}"


def targets(command: str, webhook: str, email: str = "", secret: str = "") -> list[NotificationTarget]:
    """What these settings ask for; empty texts ask for nothing.

    Raises:
        InvalidRequest: the command, an address or the key makes no sense. The message does not repeat it.
    """
    found = []
    if command.strip():
        found.append(NotificationTarget("command", tuple(words_of(command, "notify.command"))))
    key = _key(secret.strip())
    for address in webhook.split():
        scheme, plus, rest = address.partition("+")
        kind, url = (scheme, rest) if plus and scheme in CHATS else ("webhook", address)
        parts = _split(url, "notify.webhook")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequest(
                "notify.webhook must be addresses that begin with https:// or http://, with slack+, discord+ or ntfy+ "
                "before it where one of these is meant.",
                field="notify.webhook",
            )
        if kind == "ntfy" and not parts.path.strip("/"):
            raise InvalidRequest("notify.webhook: the address of ntfy must end with a topic.", field="notify.webhook")
        found.append(NotificationTarget(kind, url=url, key=key if kind == "webhook" else b""))
    for url in email.split():
        parts = _split(url, "notify.email")
        asked = parse_qs(parts.query)
        ends = [asked.get("to", [""])[0], asked.get("from", asked.get("to", [""]))[0]]
        if parts.scheme not in ("smtp", "smtps") or not parts.hostname or not all(map(_is_mailbox, ends)):
            raise InvalidRequest(
                "notify.email must be smtps://USER:PASSWORD@HOST/?to=YOU@EXAMPLE.ORG, with &from=… where the sender is "
                "another; smtp:// where the server offers STARTTLS or is this machine.",
                field="notify.email",
            )
        found.append(NotificationTarget("email", url=url))
    return found


def browsers(home: str, push: str) -> list[NotificationTarget]:
    """The browsers that are subscribed, while the setting `notify.push` is on.

    Raises:
        InvalidRequest: the setting makes no sense.
    """
    return [NotificationTarget("push", url=one.endpoint, browser=one) for one in web_push.subscriptions(home, push)]


def _split(url: str, setting: str) -> Any:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InvalidRequest(f"{setting} holds an address that makes no sense.", field=setting) from error
    return parts


def _is_mailbox(text: str) -> bool:
    return bool(re.fullmatch(r"[^\s@<>,;:\"]+@[^\s@<>,;:\"]+", text)) and text.isascii()


def _key(secret: str) -> bytes:
    if not secret.startswith(KEY_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(KEY_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(
            f"notify.secret begins with {KEY_PREFIX}, and what follows is no base64.", field="notify.secret"
        ) from None


def signed(key: bytes, id: str, at: int, body: bytes) -> str:
    """The header `webhook-signature` of Standard Webhooks: HMAC-SHA256 over `id.at.body`, `at` in seconds."""
    digest = hmac.digest(key, f"{id}.{at}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


class NotificationSender:
    """Sends one notification after the other. `end` ends what is under way, from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.ended = False

    def send(self, target: NotificationTarget, document: Mapping[str, Any]) -> str | None:
        """Send it; what went wrong, or None. Takes at most `SECONDS`, and a little to end a program."""
        if target.kind == "command":
            return self._run(target.words, document)
        send = {"email": _mail, "push": _push}.get(target.kind, _post)
        return _within(SECONDS, lambda: send(target, document))

    def end(self) -> None:
        """End the program that is running now, and start no other."""
        with self._lock:
            self.ended = True
            if self._process is not None:
                _kill(self._process)

    def _run(self, words: tuple[str, ...], document: Mapping[str, Any]) -> str | None:
        environment = {name: value for name, value in os.environ.items() if name not in OWN}
        for name in ("id", "title", "team", "task", "link", "count"):
            environment[f"INTERLOCK_NOTICE_{name.upper()}"] = str(document[name] if document[name] is not None else "")
        try:
            with self._lock:
                if self.ended:
                    return "it was ended"
                self._process = process = subprocess.Popen(
                    words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    env=environment, start_new_session=True,
                )  # fmt: skip
        except (OSError, ValueError) as error:
            return f"{words[0]} could not be started: {getattr(error, 'strerror', None) or error}"
        try:
            process.communicate(json.dumps(document, ensure_ascii=False).encode() + b"\n", timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"{words[0]} did not end within {SECONDS:.0f} s and was ended"
        except BrokenPipeError:
            process.wait()  # It reads nothing, which is its affair.
        finally:
            with self._lock:
                _kill(process)
                self._process = None
        return None if process.returncode == 0 else f"{words[0]} ended with {process.returncode}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program with everything in its group; it was started as the leader of one and is not yet waited for, or
    what it left behind is."""
    try:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    except (ProcessLookupError, PermissionError):
        pass


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What is for one address goes nowhere else."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """See urllib."""
        return


def _post(target: NotificationTarget, document: Mapping[str, Any]) -> str | None:
    # The address may hold a secret: errors are reported without it.
    parts = urlsplit(target.url)
    path = parts.path
    message: Mapping[str, Any] = document
    if target.kind == "slack":
        message = {"text": _lines(document, "slack", _for_slack)}
    elif target.kind == "discord":
        text = _lines(document, "discord", _for_discord)
        message = {"content": text, "allowed_mentions": {"parse": []}, "flags": 4}  # 4: no previews of links
    elif target.kind == "ntfy":
        path, _, topic = path.rstrip("/").rpartition("/")
        text = _lines(document, "ntfy", _words)
        message = {"topic": unquote(topic), "title": document["title"][:200], "message": text, "priority": 4}
        message |= {"click": document["link"]} if document["link"] else {}
    body = json.dumps(message).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "interlock"}
    if target.kind == "webhook":
        at = int(time.time())
        headers |= {"webhook-id": document["id"], "webhook-timestamp": str(at)}
        headers |= {"webhook-signature": signed(target.key, document["id"], at, body)} if target.key else {}
    login, at_sign, host = parts.netloc.rpartition("@")
    if at_sign:
        headers["Authorization"] = f"Basic {base64.b64encode(unquote(login).encode()).decode()}"
    return _sent(urlunsplit((parts.scheme, host, path or "/", parts.query, "")), body, headers)


def _push(target: NotificationTarget, document: Mapping[str, Any]) -> str | None:
    assert target.browser is not None
    answers: list[int] = []
    error = _sent(target.url, *web_push.message(target.browser, document), answers)
    if error is not None and answers and answers[0] in web_push.GONE:
        web_push.unsubscribe(target.browser.home, target.url)
        return "the browser is subscribed no more"
    return error


def _sent(url: str, body: bytes, headers: Mapping[str, str], answers: list[int] | None = None) -> str | None:
    """What went wrong with a POST, without the address; a refusal's number is added to `answers`."""
    try:
        request = urllib.request.Request(url, body, dict(headers), method="POST")
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=SECONDS):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        if answers is not None:
            answers.append(error.code)
        return f"the address answered {error.code}"
    except urllib.error.URLError as error:
        why = getattr(error.reason, "strerror", None) or type(error.reason).__name__
        return f"the address could not be reached: {why}"
    except (OSError, HTTPException, ValueError) as error:
        return f"the address could not be reached: {type(error).__name__}"


def _lines(document: Mapping[str, Any], kind: str, form: Callable[[Mapping[str, Any]], str]) -> str:
    """A notice a line, as many as a message holds, and how many more there are."""
    lines: list[str] = []
    for notice in document["notices"][:SHOWN]:
        line = form(notice)
        if len("\n".join([*lines, line])) > MOST.get(kind, 100_000):
            break
        lines.append(line)
    more = document["count"] - len(lines)
    return "\n".join([*lines, *([f"… and {more} more"] if more else [])])


def _words(notice: Mapping[str, Any]) -> str:
    said = f"{notice['title']}: {notice['text']}" if notice["text"] else str(notice["title"])
    return " ".join(said.split())


def _for_slack(notice: Mapping[str, Any]) -> str:
    text = _words(notice).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<{notice['link']}|{text.replace('|', '¦')}>" if notice["link"] else text


def _for_discord(notice: Mapping[str, Any]) -> str:
    text = re.sub(r"([\\`*_~|>\[\]()#<@:-])", r"\\\1", _words(notice))
    return f"[{text}](<{notice['link']}>)" if notice["link"] else text


def _mail(target: NotificationTarget, document: Mapping[str, Any]) -> str | None:
    import smtplib
    import ssl
    from email.message import EmailMessage
    from email.utils import formatdate

    parts = urlsplit(target.url)
    asked = parse_qs(parts.query)
    to = asked["to"][0]
    mail = EmailMessage()
    mail["From"], mail["To"] = asked.get("from", [to])[0], to
    mail["Subject"] = "".join(one if one.isprintable() else " " for one in str(document["title"]))[:200]
    mail["Date"], mail["Message-ID"] = formatdate(), f"<{document['id']}@interlock>"
    mail["Auto-Submitted"] = "auto-generated"
    links = list(dict.fromkeys(notice["link"] for notice in document["notices"][:SHOWN] if notice["link"]))
    mail.set_content("\n".join([_lines(document, "email", _words), *(["", *links] if links else [])]) + "\n")
    host, context = str(parts.hostname), ssl.create_default_context()
    try:
        if parts.scheme == "smtps":
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, parts.port or 465, timeout=SECONDS, context=context)
        else:
            server = smtplib.SMTP(host, parts.port or 587, timeout=SECONDS)
        with server:
            server.ehlo()
            private = parts.scheme == "smtps" or host in LOOPBACK
            if parts.scheme == "smtp" and server.has_extn("starttls"):
                server.starttls(context=context)
                private = True
            if parts.username and not private:
                return "the mail server offers no encryption, so it was told no password"
            if parts.username:
                server.login(unquote(parts.username), unquote(parts.password or ""))
            server.send_message(mail)
    except smtplib.SMTPRecipientsRefused:
        return "the mail server refused the recipient"
    except smtplib.SMTPResponseException as error:
        return f"the mail server answered {error.smtp_code}"
    except (smtplib.SMTPException, OSError, ValueError) as error:
        return f"the mail server could not be used: {type(error).__name__}"
    return None


def _within(limit: float, do: Callable[[], str | None]) -> str | None:
    """What `do` answers, or that it took too long; it is then left to itself."""
    answer: list[str | None] = []
    thread = threading.Thread(target=lambda: answer.append(do()), name="notice", daemon=True)
    thread.start()
    thread.join(limit)
    return answer[0] if answer else f"no answer within {limit:.0f} s"
