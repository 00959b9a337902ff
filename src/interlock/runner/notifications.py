"""Telling people who look neither at the page nor at a terminal that something needs them: the settings `notify.*`.

The occasions are a question that was asked (and is still open), a task in deadletter, the end of a run, and once a day
a digest. A notification holds a title, the team, the task and a link, never what was written in a body, an answer or a
message.

Each target is told at least once. What is sent comes from the events of the ledgers: a file of the home holds how far
each target was told, and the one batch that is on its way to it, so that neither a restart nor a server that is down
loses anything. A batch keeps its id when it is sent again, after a failure or because the process that sent it died. It
is given up after `DELAYS`; until then what comes up waits in the ledger, so that the file stays small. One process at a
time sends to a target. Each failure is the event `notice.failed`; `failures` is what `interlock doctor` lists.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from interlock.clock import Clock, iso
from interlock.core.reports import night
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InterlockError, InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.model.event import Event
from interlock.model.names import SYSTEM
from interlock.model.report import headline
from interlock.runner.event_follower import EventFollower
from interlock.runner.notification_targets import SECONDS, NotificationSender, NotificationTarget
from interlock.storage.ledger import Rows
from interlock.storage.shared_state import read_state, shared_state

FILE = "notices.json"
STALE = 86_400.0
"""Seconds after which it is no news any more that a run ended or a task failed."""
DELAYS = (30.0, 120.0, 600.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0)
"""Seconds from one attempt to the next; what has failed once more is given up, after 16 hours."""
SENDING = 3 * SECONDS
"""Seconds that a process has for one attempt; then another may make it."""
KEPT_FAILURES = 20
AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Notification:
    """One thing that needs a human. `kind` is question, failed, ended or digest; `id` is the same whenever it is
    sent."""

    id: str
    kind: str
    title: str
    team: str
    task: str | None = None
    link: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """Where to send to, and when. `interval` in seconds; `digest` is a time of day here, as HH:MM, or empty."""

    targets: list[NotificationTarget]
    interval: float = 30.0
    digest: str = ""

    def __post_init__(self) -> None:
        """Raises InvalidRequest: `digest` is no time of day."""
        self.digest_before(datetime.now())

    def digest_before(self, now: datetime) -> datetime | None:
        """When the newest digest was due, at the local time `now`."""
        if not self.digest:
            return None
        try:
            at = datetime.strptime(self.digest, "%H:%M")
        except ValueError:
            raise InvalidRequest("notify.digest must be a time of day, such as 07:00.", field="notify.digest") from None
        today = now.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
        return today if today <= now else today - timedelta(days=1)


class Notifications(EventFollower):
    """Sends what needs a human. Safe to start where nothing is set: it then does nothing but look for the settings.

    Args:
        settings: as they are now.
        link: where the page is served, None while it is not.
    """

    def __init__(
        self,
        home: str,
        names: Callable[[], Iterable[str]],
        workspace: Callable[[str], Workspace],
        settings: Callable[[], NotificationSettings],
        clock: Clock,
        link: Callable[[], str | None] = lambda: None,
    ) -> None:
        super().__init__(names, workspace, clock)
        self._path = os.path.join(home, FILE)
        self._settings = settings
        self._link = link
        self._sender = NotificationSender()

    def start(self) -> None:
        """Begin; what happened before in a team that was not followed yet is no news.

        Raises:
            InvalidRequest: a setting `notify.*` makes no sense.
        """
        self._settings()
        super().start()

    def stop(self, *, last: bool = False) -> None:
        """End. With `last`, what has come up is sent first, which takes as long as a notification may take."""
        if not last:
            self._sender.end()
        super().stop(last=last)

    def tell(self, *, hurry: bool = False) -> int:
        """Send what there is, if it is time; how many things were taken up, for all targets together. `hurry`: wait
        neither for the interval nor for the next attempt."""
        taken = 0
        try:
            settings = self._settings()
            for target in settings.targets:
                # In a hurry, what waits behind a batch that failed before is sent after it.
                for _ in range(2 if hurry else 1):
                    batch = self._take(target, settings, hurry)
                    if batch is None:
                        break
                    taken += batch["document"]["count"] if batch["attempts"] == 1 else 0
                    error = self._sender.send(target, batch["document"])
                    if self._sender.ended and error is not None:
                        return taken  # We ended it: whoever comes next sends it again.
                    self._settle(target, batch, error)
                    if error is not None:
                        break
        except (InterlockError, OSError):
            pass  # Busy, full or gone: there is another time.
        return taken

    def _take(self, target: NotificationTarget, settings: NotificationSettings, hurry: bool) -> dict[str, Any] | None:
        """The batch that this process is to send now; None where there is nothing, or another process is at it."""
        with shared_state(self._path) as position:
            if position is None:
                return None
            known = position.setdefault("targets", {})
            for gone in known.keys() - {one.id for one in settings.targets}:
                del known[gone]
            state = known.setdefault(target.id, {"kind": target.kind, "teams": {}, "digests": {}})
            now, batch = self._clock.now(), state.get("pending")
            if batch is None:
                if not hurry and 0 <= now - float(state.get("told_at", 0)) < settings.interval:
                    return None
                found = self._found(state["teams"], now) + self._digest(state["digests"], settings, now)
                if not found:
                    return None
                batch = state["pending"] = {"document": document(found), "attempts": 0, "next_at": now}
            # A clock that was set back makes nothing wait longer than it would have.
            elif 0 < batch["until"] - now <= SENDING or (not hurry and 0 < batch["next_at"] - now <= DELAYS[-1]):
                return None
            batch.update(attempts=batch["attempts"] + 1, until=now + SENDING)
            state["told_at"] = now
            return dict(batch)

    def _settle(self, target: NotificationTarget, batch: dict[str, Any], error: str | None) -> None:
        """Write down what came of an attempt."""
        now, attempts, said = self._clock.now(), batch["attempts"], batch["document"]
        retry_at = now + DELAYS[attempts - 1] if attempts <= len(DELAYS) else None
        with shared_state(self._path, wait=True) as position:
            state = (position or {}).get("targets", {}).get(target.id, {})
            pending = state.get("pending")
            if pending is None or (pending["document"]["id"], pending["attempts"]) != (said["id"], attempts):
                return  # It took too long, and another process made the next attempt.
            if error is None or retry_at is None:
                del state["pending"]
            else:
                pending.update(until=0, next_at=retry_at, error=error, failed_at=iso(now))
            if error is not None and retry_at is None:
                given_up = {"id": said["id"], "title": said["title"], "error": error, "at": iso(now)}
                state["given_up"] = [*state.get("given_up", []), given_up][-KEPT_FAILURES:]
        teams = sorted({notice["team"] for notice in said["notices"]}) if error is not None else []
        for name in teams:
            # Where that cannot be written down now, no work may stop for it.
            with suppress(InterlockError), self._workspace(name).act(Principal(SYSTEM)) as act:
                act.event(
                    "notice.failed", via=target.kind, id=said["id"], attempt=attempts, error=error,
                    retry_at=None if retry_at is None else iso(retry_at),
                )  # fmt: skip

    def _found(self, places: dict[str, int], now: float) -> list[Notification]:
        found: list[Notification] = []

        def new(workspace: Workspace, rows: Rows) -> None:
            place, page = self._place(places, rows), _page(self._link(), workspace.name)
            # What is left comes with the next batch.
            while len(found) < AT_ONCE and (events := rows.events.since(place, AT_ONCE)):
                place = events[-1].seq
                for one in _notices(rows, workspace.name, events, iso(now - STALE), page):
                    began = rows.events.latest(None, 1, ("runner.started",)) if one.kind == "ended" else []
                    text = _summary(workspace, rows, began[-1].at, now) if began else None
                    found.append(replace(one, text=text))
            places[rows.team.get().id] = place

        for _ in self._each(new):
            pass
        return found

    def _digest(self, sent: dict[str, float], settings: NotificationSettings, now: float) -> list[Notification]:
        """What each team came to since its last digest, where one is due; the first is due a day after it is set."""
        due = settings.digest_before(datetime.fromtimestamp(now))
        if due is None:
            return []

        def digest(workspace: Workspace, rows: Rows) -> Notification | None:
            team, name = rows.team.get().id, workspace.name
            since = sent.setdefault(team, now)
            if since >= due.timestamp():
                return None
            sent[team] = now
            id, link = f"{team}-digest-{int(due.timestamp())}", _page(self._link(), name)
            return Notification(
                id, "digest", f"Digest of {name}", name, None, link, _summary(workspace, rows, iso(since), now)
            )

        return [one for one in self._each(digest) if one is not None]


def _summary(workspace: Workspace, rows: Rows, since: str, now: float) -> str:
    return headline(night.report(rows, workspace.name, since, iso(now), workspace.settings(rows), limit=0))


def failures(home: str) -> list[str]:
    """What could not be delivered, a sentence each."""
    found = []
    for state in read_state(os.path.join(home, FILE)).get("targets", {}).values():
        pending = state.get("pending", {})
        if pending.get("error"):
            what = f"{pending['document']['title']!r} could not be sent by {state['kind']} ({pending['error']})"
            found.append(
                f"{what}, {pending['attempts']} times so far; the next attempt is at {iso(pending['next_at'])}."
            )
        for one in state.get("given_up", ()):
            found.append(
                f"{one['title']!r} was never sent by {state['kind']} ({one['error']}); given up at {one['at']}."
            )
    return found


def document(found: list[Notification]) -> dict[str, Any]:
    """What a command reads on stdin and a webhook gets: each thing, and all of them in one title."""
    digest = hashlib.sha256("\n".join(notice.id for notice in found).encode()).hexdigest()
    first = found[0]
    one = len(found) == 1
    same_team = len({notice.team for notice in found}) == 1
    return {
        "id": f"msg_{digest[:32]}",
        "title": first.title if one else f"{len(found)} things need you: {first.title}, …",
        "team": first.team if same_team else None,
        "task": first.task if one else None,
        "link": first.link if one else None,
        "count": len(found),
        "notices": [asdict(notice) for notice in found],
    }


def _page(link: str | None, team: str) -> str | None:
    return None if link is None else f"{link}/projects/{quote(team)}"


def _notices(rows: Rows, team: str, events: list[Event], oldest: str, base: str | None) -> list[Notification]:
    questions: dict[str, Notification] = {}
    others: list[Notification] = []
    for event in events:
        id = f"{rows.team.get().id}-{event.seq}"
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
            questions[question.task_id] = Notification(id, "question", title, team, event.task_id, page)
        elif event.at < oldest:
            continue
        elif event.type == "task.transitioned" and event.payload.get("to") == "deadletter":
            if task is not None and failed:
                others.append(Notification(id, "failed", f"Failed for good: {task.subject}", team, task.id, page))
        elif event.type == "runner.stopped" and not event.payload.get("endless"):
            title = f"The run of {team} has ended: {event.payload.get('reason')}"
            others.append(Notification(id, "ended", title, team, None, base))
    return [*questions.values(), *(notice for notice in others if notice.task not in questions)]
