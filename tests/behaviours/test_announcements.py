"""What each verb tells: the events that stay, and the topics by which those who wait are woken."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app.team import Team
from interlock.core.tasks import merge
from interlock.core.tasks.answer import hold, park
from interlock.core.tasks.find import find
from interlock.core.tasks.finish import wait_for_merge
from interlock.core.unit_of_work import Principal, UnitOfWork, close_session
from interlock.wakeup.inprocess import InProcessNotifier


class Hearing(InProcessNotifier):
    """Remembers by which topics it was asked to wake somebody."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: set[str] = set()

    def notify(self, team: str, topics: Collection[str]) -> None:
        self.heard |= set(topics)
        super().notify(team, topics)


class Told:
    """A team with ada and bob, and what their verbs tell."""

    def __init__(self, place: Path) -> None:
        self.hearing = Hearing()
        self.home = interlock.connect(str(place), notifier=self.hearing)
        self.team = self.home.create_team("alpha")
        self.team.spawn("ada")
        self.team.spawn("bob")
        self.ada = self._at_work("ada")
        self.bob = self._at_work("bob")

    def _at_work(self, name: str) -> Team:
        """A member whose session has begun already."""
        found = self.team.acting(name, session=name)
        found.release(found.claim(self.team.create_task("Nothing").id).id)
        self.team.delete(self.team.tasks()[-1].id)
        return found

    def made(self, subject: str, **fields: Any) -> str:
        """A task that ada holds."""
        return self.ada.claim(self.team.create_task(subject, **fields).id).id

    def core(self, name: str, rule: Callable[[UnitOfWork], object]) -> None:
        """Carry out what a runner does for a member."""
        with self.team._workspace.act(Principal(name, name)) as act:  # type: ignore[attr-defined]
            rule(act)

    def by(self, verb: Callable[[], object]) -> str:
        """The events and, after a bar, the topics of a verb."""
        self.hearing.heard.clear()
        before = self.team.head()
        verb()
        topics = " ".join(sorted(self.hearing.heard - {"events"}))
        return f"{' '.join(event.type for event in self.team.events(before)[0])} | {topics}"


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    made = Told(tmp_path / "home")
    yield made
    made.home.close()


def test_a_task_from_its_making_to_its_end(told: Told) -> None:
    team, ada = told.team, told.ada
    assert told.by(lambda: team.create_task("One")) == "task.created | tasks"
    one = team.tasks()[-1].id
    assert told.by(lambda: ada.claim(one)) == "task.transitioned task.claimed | tasks"
    assert told.by(lambda: ada.claim(one)) == " | "
    assert told.by(lambda: ada.heartbeat(one)) == "run.heartbeat | "
    other = team.acting("ada", session="another")
    assert told.by(lambda: other.claim(one, take_over=True)) == "session.began task.claimed | tasks"
    ada.claim(one, take_over=True)
    assert told.by(lambda: ada.update(one, log="half way")) == "task.logged | tasks"
    assert told.by(lambda: ada.release(one)) == "task.transitioned task.released | tasks"
    assert told.by(lambda: ada.release(one)) == " | "
    assert told.by(ada.next_task) == "task.transitioned task.claimed | tasks"
    team.create_task("Two", blocked_by=[one])
    ends = "task.completed task.logged task.transitioned"
    freed = "task.transitioned dependency.met task.transitioned"
    assert told.by(lambda: ada.complete(one, summary="It is done.")) == f"{ends} {freed} | tasks"
    assert told.by(lambda: ada.complete(one)) == " | "


def test_a_check(told: Told) -> None:
    checked = "task.completed task.transitioned verify.started verify.finished task.transitioned | tasks"
    for check in ("true", "false"):
        task = told.made(f"Is it {check}?", verify=check)
        assert told.by(lambda task=task: told.ada.complete(task)) == checked  # type: ignore[misc]


def test_what_people_change(told: Told) -> None:
    team = told.team
    one = team.create_task("One").id
    two = team.create_task("Two", blocked_by=[one]).id
    undepend = told.by(lambda: team.depend(two, on=one, remove=True))
    assert undepend == "dependency.removed task.transitioned | tasks"
    assert told.by(lambda: team.depend(two, on=one)) == "dependency.added task.transitioned | tasks"
    assert told.by(lambda: team.assign(one, to="bob")) == "task.assigned message.sent | inbox:bob tasks"
    blocked = told.by(lambda: team.block(one, reason="No key."))
    assert blocked == "task.transitioned question.asked task.blocked | questions tasks"
    unblocked = told.by(lambda: team.unblock(one))
    assert unblocked == "task.transitioned question.withdrawn task.unblocked | questions tasks"
    assert told.by(lambda: team.cancel(one)) == "task.transitioned task.warning task.cancelled | tasks"
    assert told.by(lambda: team.delete(two)) == "task.transitioned task.deleted | tasks"


def test_questions(told: Told) -> None:
    team, ada, task = told.team, told.ada, told.made("Deploy")
    asked = told.by(lambda: ada.ask(task, "Which port?", held=True))
    assert asked == "task.transitioned question.asked | questions tasks"
    assert told.by(lambda: ada.ask(task, "Which host?")) == "question.asked | questions"
    assert told.by(lambda: told.core("ada", lambda act: hold(act, find(act.rows, task)))) == " | questions"
    first, second = team.questions()
    one = told.by(lambda: team.reply(task, "80", question=first.id))
    assert one == "question.answered | questions tasks", "the next one is asked"
    both = told.by(lambda: team.reply(task, "here", question=second.id))
    assert both == "question.answered task.transitioned message.sent | inbox:ada questions tasks"
    parked = told.by(lambda: told.core("ada", lambda act: park(act, find(act.rows, task), "it is gone")))
    assert parked == "run.parked | questions tasks"
    ada.claim(task)
    ada.ask(task, "Which user?")
    withdrawn = told.by(lambda: team.cancel(task))
    assert withdrawn == ("task.transitioned question.withdrawn message.sent task.cancelled | inbox:ada questions tasks")


def test_reviews(told: Told) -> None:
    team, ada, bob = told.team, told.ada, told.bob
    task = told.made("Write", review="bob")
    handed = "task.completed task.transitioned message.sent | inbox:bob tasks"
    assert told.by(lambda: ada.complete(task)) == handed
    back = "task.rejected task.logged task.transitioned task.claimed message.sent | inbox:ada"
    assert told.by(lambda: bob.reject(task, reason="No test.")) == f"{back} tasks"
    assert [run.member for run in team.runs(task)][-1] == "ada", "who did it goes on"
    assert told.by(lambda: ada.complete(task)) == handed
    assert told.by(lambda: bob.approve(task)) == "task.approved task.transitioned | tasks"
    task = told.made("Publish", review="human")
    for_a_person = "task.completed task.transitioned question.asked | questions tasks"
    assert told.by(lambda: ada.complete(task)) == for_a_person
    assert told.by(lambda: team.reply(task, "changes: more")) == f"question.answered {back} questions tasks"
    assert told.by(lambda: ada.complete(task)) == for_a_person
    approved = told.by(lambda: team.reply(task, "approve"))
    assert approved == "question.answered task.approved task.transitioned | questions tasks"


def test_mail(told: Told) -> None:
    team, ada, bob = told.team, told.ada, told.bob
    assert told.by(lambda: ada.send(to="bob", content="hello")) == "message.sent | inbox:bob"
    everyone = told.by(lambda: team.broadcast(content="all"))
    assert everyone == "message.sent message.sent message.sent | inbox:ada inbox:bob inbox:lead"
    assert told.by(bob.read) == "message.offered message.delivered | "
    assert told.by(bob.read) == "message.acknowledged | ", "whoever reads on has seen it"
    (letter,) = ada.inbox()
    ada.read()
    assert told.by(lambda: ada.acknowledge([letter.id])) == "message.acknowledged | inbox:ada"
    team.send(to="bob", content="not seen")
    bob.read()
    again = told.by(team.acting("bob", session="another").read)
    assert again == "session.began message.requeued message.offered message.delivered | inbox:bob"
    ended = told.by(lambda: told.core("ada", lambda act: close_session(act, "bob", "another")))
    assert ended == "session.ended message.requeued | inbox:bob"


def test_a_file_that_somebody_edited(told: Told) -> None:
    team, task = told.team, told.team.create_task("One").id
    (Path(team.directory) / "tasks" / "ready" / f"{task}.md").write_text("My own words.")
    assert told.by(team._workspace.rebuild_mirror) == "mirror.conflict | "  # type: ignore[attr-defined]
    assert told.hearing.heard == {"events"}, "whoever follows the events is woken"


def test_the_team(told: Told) -> None:
    team = told.team
    assert told.by(lambda: team.spawn("cyd")) == "member.spawned | members"
    assert told.by(lambda: team.pause("cyd")) == "member.paused | members"
    assert told.by(lambda: team.resume("cyd")) == "member.resumed | members"
    assert told.by(lambda: team.remove("cyd")) == "member.removed | members"
    assert told.by(lambda: team.configure({"parallel": 3})) == "team.updated | members"
    assert told.by(lambda: team.request_shutdown("bob")) == "shutdown.requested message.sent | inbox:bob"


def test_a_merge(told: Told) -> None:
    task, me = told.made("Write"), "here|boot|7|1"

    def by(rule: Callable[..., object], *words: Any, **more: Any) -> str:
        return told.by(lambda: told.core("lead", lambda act: rule(act, find(act.rows, task), *words, **more)))

    told.core("lead", lambda act: None)
    assert by(wait_for_merge, {}) == "task.transitioned merge.queued | tasks"
    assert by(merge.begin, me, alive=lambda process: False) == "merge.started | tasks"
    assert by(merge.postpone, me, "stopped") == "merge.finished | tasks"
    by(merge.begin, me, alive=lambda process: False)
    assert by(merge.failed, me, "failed", "It cannot be had.") == "merge.finished question.asked | questions tasks"
