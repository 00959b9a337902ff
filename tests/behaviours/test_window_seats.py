"""Which member a window of a program is: who takes a seat, who gets it back, and what goes along.

The windows are those of living and of ended processes; their programs and hooks are tested with the integrations.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.app.windows import Window, lineage
from interlock.clock import ManualClock, iso
from interlock.errors import Conflict, InvalidRequest, MemberLimit, MemberNotFound
from interlock.processes.ref import current, identify

FAR = "far|boot|{}|1"
"""A process of another machine."""


class Process:
    """One that lives until it is ended."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        found = identify(self._process.pid)
        assert found is not None
        self.text = found.as_text()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def process() -> Iterator[Callable[[], Process]]:
    started: list[Process] = []

    def start() -> Process:
        started.append(Process())
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture
def opened(home: Home, team: Team) -> Callable[..., Window]:
    """Opens a window of a program by the process that it lives in and the id of its session."""

    def open_(lives_in: Process | str, session: str, name: str = "ada") -> Window:
        text = lives_in if isinstance(lives_in, str) else lives_in.text
        return home.window(team.name, program="claude", session=session, name=name, process=text)

    return open_


Start = Callable[[], Process]
Open = Callable[..., Window]


def told(team: Team, type: str) -> list[tuple[str, str]]:
    """(member, session) of the events of that type."""
    return [(event.payload["member"], event.payload["session"]) for event in team.events()[0] if event.type == type]


def seat(team: Team, *processes: Process) -> tuple[str, str] | None:
    return team.window_seat([one.text for one in processes])


def claimed(team: Team, member: str, session: str) -> str:
    return team.acting(member, session=session).claim(team.create_task("Write the parser").id).id


def held_by(team: Team, task: str) -> tuple[str | None, str | None, str]:
    (run,) = team.runs(task)
    found = team.task(task)
    return found.owner, found.session, run.session


def test_a_window_takes_the_free_member_of_its_name_and_the_next_a_new_one(
    team: Team, process: Start, opened: Open
) -> None:
    assert opened(process(), "s-1").sit() == "ada"
    assert opened(process(), "s-2").sit() == "ada-2"
    assert opened(process(), "s-3").sit() == "ada-3"
    assert [member.type for member in team.members()] == [None, None, None, "claude", "claude"]
    assert told(team, "session.began")[-3:] == [("ada", "s-1"), ("ada-2", "s-2"), ("ada-3", "s-3")]
    assert told(team, "session.ended") == []


def test_a_window_that_sits_already_keeps_its_seat(team: Team, process: Start, opened: Open) -> None:
    lives = process()
    window = opened(lives, "s-1", "eve")
    assert window.sit() == window.sit() == "eve"
    assert told(team, "session.began").count(("eve", "s-1")) == 1
    assert told(team, "session.ended") == []


def test_the_seat_of_a_process_that_is_gone_is_free_and_its_session_over(
    team: Team, process: Start, opened: Open
) -> None:
    one, two = process(), process()
    opened(one, "s-1").sit()
    opened(two, "s-2").sit()
    two.end()
    assert opened(process(), "s-3").sit() == "ada-2"
    assert told(team, "session.ended") == [("ada-2", "s-2")], "that of the one that lives goes on"
    assert seat(team, one) == ("ada", "s-1")


def test_the_seat_of_a_process_on_another_machine_stays_taken(team: Team, process: Start, opened: Open) -> None:
    assert team.acting("ada").window_sits("claude", "far", FAR.format(7)) == "ada"
    assert opened(process(), "s-1").sit() == "ada-2"
    assert told(team, "session.ended") == []


def test_a_resumed_session_gets_its_member_back_in_another_process(team: Team, process: Start, opened: Open) -> None:
    one, two, again = process(), process(), process()
    opened(one, "s-1").sit()
    opened(two, "s-2").sit()
    task = claimed(team, "ada-2", "s-2")
    one.end()
    two.end()
    assert opened(again, "s-2").sit() == "ada-2", "though the first is free, too"
    assert seat(team, again) == ("ada-2", "s-2")
    assert held_by(team, task) == ("ada-2", "s-2", "s-2")
    assert told(team, "session.ended") == [("ada", "s-1")], "its own goes on"
    assert told(team, "session.began").count(("ada-2", "s-2")) == 1


def test_a_resumed_session_whose_seat_was_taken_meanwhile_gets_another(
    team: Team, process: Start, opened: Open
) -> None:
    one = process()
    opened(one, "s-1").sit()
    one.end()
    opened(process(), "s-2").sit()
    assert opened(process(), "s-1").sit() == "ada-2"
    assert told(team, "session.ended") == [("ada", "s-1")]


def test_a_session_that_was_closed_is_resumed_where_its_seat_is_free(team: Team, process: Start, opened: Open) -> None:
    windows = [opened(process(), "s-1"), opened(process(), "s-2")]
    assert [window.sit() for window in windows] == ["ada", "ada-2"]
    for window in windows:
        with window.hear("end"):
            pass
    assert opened(process(), "s-2").sit() == "ada-2", "though the first is free, too, and its own process lives"
    assert told(team, "session.began").count(("ada-2", "s-2")) == 2


def test_two_windows_with_the_id_of_one_session_are_two_members(team: Team, process: Start, opened: Open) -> None:
    """A session that is resumed while it is open."""
    first, second = process(), process()
    assert [opened(one, "s-1").sit() for one in (first, second)] == ["ada", "ada-2"]
    assert (seat(team, first), seat(team, second)) == (("ada", "s-1"), ("ada-2", "s-1"))
    assert [opened(one, "s-1").sit() for one in (first, second)] == ["ada", "ada-2"], "each stays who it is"
    assert told(team, "session.ended") == []


def test_a_window_without_a_living_process_is_whoever_has_its_session(team: Team, process: Start, opened: Open) -> None:
    """The commands of a window may be out of its processes' sight."""
    opened(process(), "s-1").sit()
    team.send(to="ada", content="hello")
    with opened(process(), "s-1").hear("prompt") as reply:
        assert (reply.member, [message.content for message in reply.messages]) == ("ada", ["hello"])


@pytest.mark.parametrize("number", [0, 1])
def test_of_two_windows_with_one_session_the_one_is_meant_that_the_caller_descends_from(
    team: Team, process: Start, opened: Open, number: int
) -> None:
    above = lineage()[0]
    places = [above, process().text] if number == 0 else [process().text, above]
    members = [opened(place, "s-1").sit() for place in places]
    with opened(above, "s-1").hear("prompt") as reply:
        assert reply.member == members[number]


def test_a_process_that_begins_a_new_session_stays_its_member_and_takes_its_work_along(
    team: Team, process: Start, opened: Open
) -> None:
    opened(process(), "s-1").sit()
    lives = process()
    opened(lives, "s-2").sit()
    task, done = claimed(team, "ada-2", "s-2"), claimed(team, "ada-2", "s-2")
    other = claimed(team, "ada", "s-1")
    team.acting("ada-2", session="s-2").complete(done)
    assert opened(lives, "s-3").sit() == "ada-2"
    assert held_by(team, task) == ("ada-2", "s-3", "s-3")
    assert held_by(team, done)[2] == "s-2", "what is over stays as it was"
    assert held_by(team, other) == ("ada", "s-1", "s-1")
    assert told(team, "session.ended") == [("ada-2", "s-2")]
    assert seat(team, lives) == ("ada-2", "s-3")
    assert team.acting("ada-2", session="s-3").complete(task).state == "done"


def test_a_session_that_was_closed_before_its_process_began_another_has_ended_once(
    team: Team, process: Start, opened: Open
) -> None:
    lives = process()
    window = opened(lives, "s-1")
    window.sit()
    task = claimed(team, "ada", "s-1")
    with window.hear("end"):
        pass
    opened(lives, "s-2").sit()
    assert told(team, "session.ended") == [("ada", "s-1")]
    assert held_by(team, task) == ("ada", "s-2", "s-2")


def test_a_process_that_resumes_the_session_of_another_member_leaves_its_own_work(
    team: Team, process: Start, opened: Open
) -> None:
    first, second = process(), process()
    opened(first, "s-1").sit()
    opened(second, "s-2").sit()
    task = claimed(team, "ada", "s-1")
    second.end()
    assert opened(first, "s-2").sit() == "ada-2"
    assert held_by(team, task) == ("ada", "s-1", "s-1")
    assert seat(team, first) == ("ada-2", "s-2")
    assert told(team, "session.ended") == [("ada", "s-1")]


def test_a_process_whose_member_was_removed_gets_a_new_one(team: Team, process: Start, opened: Open) -> None:
    team.spawn("cleo")
    lives = process()
    opened(lives, "s-1", "cleo").sit()
    team.remove("cleo")
    assert opened(lives, "s-1").sit() == "ada"
    assert opened(lives, "s-2").sit() == "ada"


def test_a_numbered_member_that_somebody_made_for_another_purpose_is_passed_by(
    team: Team, process: Start, opened: Open
) -> None:
    team.spawn("ada-2")
    team.spawn("ada-3", type="claude")
    opened(process(), "s-1").sit()
    assert opened(process(), "s-2").sit() == "ada-3"


def test_members_that_interlock_drives_and_people_are_no_seats(team: Team, process: Start, opened: Open) -> None:
    team.spawn("cleo", command=["true"])
    assert opened(process(), "s-1", "cleo").sit() == "cleo-2"
    team.acting("dora", person=True).create_task("T")
    assert opened(process(), "s-2", "dora").sit() == "dora-2"


def test_one_window_alone_is_the_lead_and_the_others_are_called_by_their_program(
    team: Team, process: Start, opened: Open
) -> None:
    names = [opened(process(), f"s-{number}", "lead").sit() for number in range(3)]
    assert names == ["lead", "claude", "claude-2"]


def test_a_numbered_name_is_no_longer_than_a_name_may_be(team: Team, process: Start, opened: Open) -> None:
    name = "a" * 50
    assert opened(process(), "s-1", name).sit() == name
    assert opened(process(), "s-2", name).sit() == f"{'a' * 48}-2"


def test_where_every_numbered_name_is_taken_a_window_gets_no_seat(home: Home, team: Team, opened: Open) -> None:
    team.configure({"member_limit": 1000})
    team.acting("ada").window_sits("claude", "far", FAR.format(7))
    for number in range(2, 99):
        team.spawn(f"ada-{number}")
    assert opened(current().as_text(), "s-1").sit() == "ada-99"
    other = home.window(team.name, program="claude", session="s-2", name="ada", process=FAR.format(8))
    with pytest.raises(MemberLimit, match="100 windows are called ada"):
        other.sit()


def test_a_team_that_is_full_has_no_seat_for_another_window(team: Team, process: Start, opened: Open) -> None:
    team.configure({"member_limit": 3})
    opened(process(), "s-1").sit()
    with pytest.raises(MemberLimit):
        opened(process(), "s-2").sit()


def test_the_id_of_a_session_is_a_text_of_1_to_200_characters(team: Team, process: Start, opened: Open) -> None:
    lives = process()
    for session in ("", " ", "s" * 201):
        with pytest.raises(InvalidRequest):
            opened(lives, session).sit()
        with pytest.raises(InvalidRequest):
            team.acting("ada").window_sits("claude", session, FAR.format(7))
    assert seat(team, lives) is None and team.window_seat([FAR.format(7)]) is None
    assert opened(process(), "s" * 200).sit() == "ada"


def test_a_window_is_found_by_the_nearest_of_the_processes_above_it(team: Team, process: Start, opened: Open) -> None:
    one, two, other = process(), process(), process()
    opened(one, "s-1").sit()
    opened(two, "s-2").sit()
    assert seat(team, other, two, one) == ("ada-2", "s-2")
    assert seat(team, other, one, two) == ("ada", "s-1")
    assert seat(team, other) is None


def test_a_window_hears_its_mail_until_it_is_closed(team: Team, process: Start, opened: Open) -> None:
    window = opened(process(), "s-1")
    team.send(to="ada", content="hello")
    with window.hear("start") as reply:
        assert (reply.member, reply.team, reply.fresh) == ("ada", team.name, True)
        assert "hello" in reply.as_xml()
    team.send(to="ada", content="later")
    with window.hear("prompt") as reply:
        assert (reply.member, reply.fresh, reply.unreported, reply.state) == ("ada", False, (), "")
        assert [message.content for message in reply.messages] == ["later"]
    with window.hear("end") as reply:
        assert (reply.member, reply.as_xml()) == ("", "")
    assert told(team, "session.ended") == [("ada", "s-1")]


def test_a_stop_names_the_tasks_in_progress_that_the_window_has_not_reported_on(
    team: Team, process: Start, opened: Open
) -> None:
    window = opened(process(), "s-1")
    window.sit()
    ada = team.acting("ada", session="s-1")
    with window.hear("stop") as reply:
        assert reply.unreported == []
    done, taken, left = (claimed(team, "ada", "s-1") for _ in range(3))
    claimed(team, "bob", "s-2")
    ada.complete(done)
    team.release(taken)
    team.claim(taken, by="bob")
    with window.hear("stop") as reply:
        assert reply.unreported == [(left, "Write the parser")]
    with window.hear("stop") as reply:
        assert (reply.unreported, reply.fresh) == ((), False)
    idle = [event for event in team.events()[0] if event.type == "agent.idle_without_report"]
    assert [(event.task_id, event.payload) for event in idle] == [(left, {"run": f"{left}.1", "member": "ada"})]


def test_a_window_elsewhere_is_its_member_whoever_has_another_window_of_it_open(team: Team) -> None:
    ada, bob = team.acting("ada"), team.acting("bob")
    assert ada.window_sits("claude", "s-1", FAR.format(7)) == "ada"
    assert ada.window_sits("claude", "s-2", FAR.format(8)) == "ada"
    assert bob.window_sits("claude", "s-3", FAR.format(7)) == "bob"
    assert told(team, "session.ended") == [], "each sees its own"
    assert ada.window_sits("claude", "s-4", FAR.format(8)) == "ada"
    assert told(team, "session.ended") == [("ada", "s-2")]
    heard = ada.window_hears("start", "claude", "s-4", FAR.format(8))
    assert (heard.member, heard.fresh) == ("ada", True)


def test_a_session_that_began_without_a_window_gets_one(team: Team) -> None:
    ada = team.acting("ada", session="s-1")
    task = ada.claim(team.create_task("T").id).id
    assert team.window_seat([FAR.format(7)]) is None
    team.acting("ada").window_sits("claude", "s-1", FAR.format(7))
    assert team.window_seat([FAR.format(7)]) == ("ada", "s-1")
    assert told(team, "session.began").count(("ada", "s-1")) == 1
    assert held_by(team, task) == ("ada", "s-1", "s-1")


def test_a_window_elsewhere_is_no_person_and_no_member_that_interlock_drives(team: Team) -> None:
    team.spawn("cleo", command=["true"])
    team.acting("dora", person=True).create_task("T")
    for name in ("cleo", "dora", "human"):
        with pytest.raises(Conflict, match="no window of a program can be that member") as refused:
            team.acting(name).window_sits("claude", "s-1", FAR.format(7))
        assert refused.value.details["member"] == name
        assert ("a person" in str(refused.value)) == (name != "cleo")
    with pytest.raises(MemberNotFound):
        team.acting("eve").window_sits("claude", "s-1", FAR.format(7))
    assert team.window_seat([FAR.format(7)]) is None


def test_a_window_elsewhere_hears_which_processes_to_look_for(team: Team) -> None:
    ada, own = team.acting("ada"), FAR.format(10)
    others = [FAR.format(9), FAR.format(12), "far|another boot|13|1", "near|boot|14|1"]
    for number, text in enumerate([*others, own]):
        ada.window_sits("claude", f"s-{number}", text)
    team.acting("bob").window_sits("claude", "s-9", FAR.format(15))
    assert ada.window_hears("start", "claude", "s-4", own).beside == sorted(others[:2])
    assert ada.window_hears("prompt", "claude", "s-4", own).beside == []


def test_windows_elsewhere_that_are_gone_end_by_the_word_of_their_member(team: Team) -> None:
    ada = team.acting("ada")
    for number in (7, 8, 9):
        ada.window_sits("claude", f"s-{number}", FAR.format(number))
    team.acting("bob").window_sits("claude", "s-0", FAR.format(7))
    assert sorted(ada.windows_gone([FAR.format(7), FAR.format(9), FAR.format(11)])) == ["s-7", "s-9"]
    assert sorted(told(team, "session.ended")) == [("ada", "s-7"), ("ada", "s-9")]
    assert ada.windows_gone([FAR.format(7)]) == []
    assert team.window_seat([FAR.format(8)]) == ("ada", "s-8")


def test_what_a_window_elsewhere_claimed_is_its_own_as_long_as_it_is_heard_of(timed: Team, clock: ManualClock) -> None:
    timed.configure({"claim_ttl": 100, "heartbeat_ttl": 30})
    ada = timed.acting("ada")
    window = timed.acting("ada", session="s-1")
    ada.window_sits("claude", "s-1", FAR.format(7))
    by_hand, beating, other = (timed.create_task("T").id for _ in range(3))
    window.claim(by_hand)
    window.claim(beating)
    window.heartbeat(beating)
    timed.claim(other, by="bob")
    before = timed.runs(other)[0].expires_at
    clock.advance(20)
    ada.window_hears("prompt", "claude", "s-1", FAR.format(7))
    assert timed.runs(by_hand)[0].expires_at == iso(clock.now() + 100)
    assert timed.runs(beating)[0].expires_at == iso(clock.now() + 30)
    assert timed.runs(other)[0].expires_at == before


def test_what_has_no_lease_gets_none_by_being_heard_of(timed: Team, clock: ManualClock) -> None:
    ada = timed.acting("ada")
    ada.window_sits("claude", "s-1", FAR.format(7))
    task = timed.acting("ada", session="s-1").claim(timed.create_task("T").id).id
    timed.configure({"claim_ttl": 100})
    ada.window_hears("prompt", "claude", "s-1", FAR.format(7))
    assert timed.runs(task)[0].expires_at is None
