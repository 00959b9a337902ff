"""Telling people who look neither at the page nor at a terminal that something needs them: `notify.command` and
`notify.webhook`.

The occasions are a question that was asked (and is still open), a task in deadletter, and the end of a run. A
notification holds a title, the team, the task and a link, never what was written in a body, an answer or a message.
Notifications are batched, one in `notify.interval` seconds, by one process per home: the one that holds the lock writes
down how far it came, so that nothing is sent twice, also across a restart. A notification that fails is the event
`notice.failed`. A program or an address gets a few seconds, and is then ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Self
from urllib.parse import quote, urlsplit

from interlock.clock import Clock, iso
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InterlockError, InvalidRequest
from interlock.model.event import Event
from interlock.model.names import SYSTEM
from interlock.processes.commands import words_of
from interlock.storage import files
from interlock.storage.ledger import Rows

FILE = "notices.json"
LOCK = ".notices.lock"
STALE = 3600.0
"""Seconds after which it is no news any more that a run ended or a task failed."""
AT_ONCE = 1000
LOOK_AGAIN = 1.0
SOON = 0.2
SECONDS = 10.0
OWN = ("INTERLOCK_RUN_TOKEN", "INTERLOCK_RUN_WITHIN", "INTERLOCK_SESSION", "INTERLOCK_MEMBER", "INTERLOCK_RUN")
"""Variables that say who acts: a user's program is none of ours."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One thing that needs a human. `kind` is question, failed or ended."""

    kind: str
    title: str
    team: str
    task: str | None = None
    link: str | None = None


class Notifications:
    """A thread that follows the events of teams and sends what needs a human. Safe to start where nothing is set: it
    then does nothing but look for the settings.

    Args:
        names: the teams to follow.
        ways: where to send to, and the interval in seconds, as they are set now.
        link: where the page is served, None while it is not.
    """

    def __init__(
        self,
        home: str,
        names: Callable[[], Iterable[str]],
        workspace: Callable[[str], Workspace],
        ways: Callable[[], tuple[list[NotificationTarget], float]],
        clock: Clock,
        link: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._home = home
        self._names = names
        self._workspace = workspace
        self._ways = ways
        self._clock = clock
        self._link = link
        self._heads: dict[str, int] = {}
        self._ending = threading.Event()
        self._sender = NotificationSender()

        def follow() -> None:
            while not self._ending.wait(LOOK_AGAIN):
                self.tell()

        self._thread = threading.Thread(target=follow, name="notices", daemon=True)

    def start(self) -> None:
        """Begin; what happened before in a team that was not followed yet is no news.

        Raises:
            InvalidRequest: `notify.command` or `notify.webhook` makes no sense.
        """
        self._ways()
        for name in self._names():
            try:
                with self._workspace(name).ledger.snapshot() as rows:
                    self._heads[rows.team.get().id] = rows.events.head()
            except InterlockError:
                continue  # Deleted this instant, or busy.
        self._thread.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(last=True)

    def stop(self, *, last: bool = False) -> None:
        """End. With `last`, what has come up is sent first, which takes as long as a notification may take."""
        self._ending.set()
        if not last:
            self._sender.end()
        if self._thread.is_alive():
            self._thread.join(None if last else SOON)
        if last:
            self.tell(hurry=True)

    def tell(self, *, hurry: bool = False) -> int:
        """Send what there is, if it is time; how many things were sent. `hurry`: do not wait for the interval."""
        try:
            ways, interval = self._ways()
            if not ways:
                return 0
            with self._position() as position:
                now = self._clock.now()
                if position is None or (not hurry and 0 <= now - float(position.get("told_at", 0)) < interval):
                    return 0
                found = self._found(position)
                if found:
                    position["told_at"] = now
        except (InterlockError, OSError):
            return 0  # Busy, full or gone: there is another time.
        # The position was written down first: a notification that hangs must not be sent again by the next process.
        for way in ways if found else ():
            error = self._sender.send(way, document(found))
            for name in sorted({notice.team for notice in found}) if error is not None else ():
                # Where that cannot be written down now, no work may stop for it.
                with suppress(InterlockError), self._workspace(name).act(Principal(SYSTEM)) as act:
                    act.event("notice.failed", via=way.kind, error=error)
        return len(found)

    def _found(self, position: dict[str, Any]) -> list[Notification]:
        found: list[Notification] = []
        places = position.setdefault("teams", {})
        oldest = iso(self._clock.now() - STALE)
        for name in sorted(self._names()):
            try:
                with self._workspace(name).ledger.snapshot() as rows:
                    id = rows.team.get().id
                    place = int(places.get(id, self._heads.get(id, 0)))
                    while events := rows.events.since(place, AT_ONCE):
                        found += _notices(rows, name, events, oldest, self._link())
                        place = events[-1].seq
                    places[id] = place
            except InterlockError:
                continue  # Deleted this instant, or busy: the others do not wait for it.
        return found

    @contextmanager
    def _position(self) -> Iterator[dict[str, Any] | None]:
        """How far was told, written when the block ends; None while another process sends."""
        lock = os.open(os.path.join(self._home, LOCK), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield None
                return
            path = os.path.join(self._home, FILE)
            before, position = "{}", {}
            with suppress(OSError, ValueError), open(path, encoding="utf-8") as file:  # Else from the beginning.
                before = file.read()
                known = json.loads(before)
                position = known if isinstance(known, dict) else {}
            yield position
            after = json.dumps(position)
            if after != before:
                files.replace(path, after.encode())
        finally:
            os.close(lock)


def document(found: list[Notification]) -> dict[str, Any]:
    """What a command reads on stdin and a webhook gets: each thing, and all of them in one title."""
    first = found[0]
    one = len(found) == 1
    same_team = len({notice.team for notice in found}) == 1
    return {
        "title": first.title if one else f"{len(found)} things need you: {first.title}, …",
        "team": first.team if same_team else None,
        "task": first.task if one else None,
        "link": first.link if one else None,
        "count": len(found),
        "notices": [asdict(notice) for notice in found],
    }


def _notices(rows: Rows, team: str, events: list[Event], oldest: str, link: str | None) -> list[Notification]:
    questions: dict[str, Notification] = {}
    others: list[Notification] = []
    base = None if link is None else f"{link}/projects/{quote(team)}"
    for event in events:
        task = rows.tasks.get(event.task_id) if event.task_id is not None else None
        page = None if base is None or event.task_id is None else f"{base}/tasks/{quote(event.task_id)}"
        failed = task is not None and task.state == "deadletter"
        if event.type in ("question.asked", "question.reminded"):
            question = rows.questions.get(str(event.payload.get("id")))
            again = event.type == "question.reminded"
            if (
                question is None
                or question.state != "open"
                or (
                    not again and failed and question.kind == "escalation"  # Reported as a failure.
                )
            ):
                continue
            subject = task.subject if task is not None else str(event.task_id)
            title = f"{'Still waits' if again else 'Waits'} for you ({question.kind}): {subject}"
            questions[question.task_id] = Notification("question", title, team, event.task_id, page)
        elif event.at < oldest:
            continue
        elif event.type == "task.transitioned" and event.payload.get("to") == "deadletter":
            if task is not None and failed:
                others.append(Notification("failed", f"Failed for good: {task.subject}", team, task.id, page))
        elif event.type == "runner.stopped" and not event.payload.get("endless"):
            title = f"The run of {team} has ended: {event.payload.get('reason')}"
            others.append(Notification("ended", title, team, None, base))
    return [*questions.values(), *(notice for notice in others if notice.task not in questions)]


@dataclass(frozen=True, slots=True)
class NotificationTarget:
    """`command` or `webhook`, and the program's words or the address."""

    kind: str
    words: tuple[str, ...] = ()
    url: str = ""


def targets(command: str, webhook: str) -> list[NotificationTarget]:
    """What these settings ask for; empty texts ask for nothing.

    Raises:
        InvalidRequest: the command or the address makes no sense.
    """
    found = []
    if command.strip():
        found.append(NotificationTarget("command", tuple(words_of(command, "notify.command"))))
    if webhook.strip():
        parts = urlsplit(webhook.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequest(
                "notify.webhook must be an address that begins with https:// or http://.", field="notify.webhook"
            )
        found.append(NotificationTarget("webhook", url=webhook.strip()))
    return found


class NotificationSender:
    """Sends one notification after the other. `end` ends what is under way, from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def send(self, way: NotificationTarget, document: Mapping[str, Any]) -> str | None:
        """Send it; what went wrong, or None. Takes at most `SECONDS`, and a little to end a program."""
        if way.kind == "command":
            return self._run(way.words, document)
        return _within(SECONDS, lambda: _post(way.url, document))

    def end(self) -> None:
        """End the program that is running now, and start no other."""
        with self._lock:
            self._ended = True
            if self._process is not None:
                _kill(self._process)

    def _run(self, words: tuple[str, ...], document: Mapping[str, Any]) -> str | None:
        environment = {name: value for name, value in os.environ.items() if name not in OWN}
        for name in ("title", "team", "task", "link", "count"):
            environment[f"INTERLOCK_NOTICE_{name.upper()}"] = str(document[name] if document[name] is not None else "")
        try:
            with self._lock:
                if self._ended:
                    return None
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
        return None if process.returncode == 0 or self._ended else f"{words[0]} ended with {process.returncode}"


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


def _post(url: str, document: Mapping[str, Any]) -> str | None:
    # The address may hold a secret: errors are reported without it.
    request = urllib.request.Request(
        url,
        json.dumps(document).encode(),
        {"Content-Type": "application/json", "User-Agent": "interlock"},
        method="POST",
    )
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=SECONDS):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        return f"the address answered {error.code}"
    except urllib.error.URLError as error:
        return f"the address could not be reached: {error.reason}"
    except (OSError, HTTPException, ValueError) as error:
        return f"the address could not be reached: {type(error).__name__}"


def _within(limit: float, do: Any) -> str | None:
    """What `do` answers, or that it took too long; it is then left to itself."""
    answer: list[str | None] = []
    thread = threading.Thread(target=lambda: answer.append(do()), name="notice", daemon=True)
    thread.start()
    thread.join(limit)
    return answer[0] if answer else f"no answer within {limit:.0f} s"
