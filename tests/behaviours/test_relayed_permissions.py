"""What a program asks at its own prompt is asked of people as well; the first answer decides, and nothing waits."""

from __future__ import annotations

import pytest

from interlock.app.team import Team
from interlock.errors import NotAwaitingResponse


@pytest.fixture
def window(team: Team) -> Team:
    """The team, as a session of ada sees it."""
    return team.acting("ada", session="s-1")


def claimed(team: Team, window: Team) -> str:
    return window.claim(team.create_task("Release it").id).id


def payloads(team: Team, type: str) -> list[tuple[str | None, dict[str, object]]]:
    return [(event.task_id, event.payload) for event in team.events()[0] if event.type == type]


def test_a_prompt_is_a_question_about_the_task_in_progress_which_goes_on(team: Team, window: Team) -> None:
    task = claimed(team, window)
    made = window.relay_permission("r-1", tool="Bash", title="Push it", preview="git push")
    (question,) = team.questions()
    assert made is not None and (made.id, made.task_id) == (question.id, task)
    assert (question.kind, question.text, question.context) == ("permission", "May ada use Bash: Push it?", "git push")
    assert (question.options, question.held) == (["allow", "refuse"], True)
    assert team.task(task).state == "in-progress"
    assert payloads(team, "permission.asked") == [
        (task, {"id": question.id, "run": f"{task}.1", "tool": "Bash", "title": "Push it", "paths": []})
    ]


def test_a_prompt_that_shows_nothing_has_no_context(team: Team, window: Team) -> None:
    claimed(team, window)
    made = window.relay_permission("r-1", tool="Bash", title="Push it")
    assert made is not None and made.context is None


def test_a_long_prompt_is_cut_short(team: Team, window: Team) -> None:
    claimed(team, window)
    made = window.relay_permission("r-1", tool="Bash", title="t" * 501, preview="p" * 2001)
    assert made is not None and made.text == f"May ada use Bash: {'t' * 500}?"
    assert made.context == "p" * 2000 and made.data["title"] == "t" * 500


def test_a_prompt_that_comes_again_is_the_same_question_and_another_is_another(team: Team, window: Team) -> None:
    claimed(team, window)
    first, again, other = (
        window.relay_permission(request, tool="Bash", title="Push it") for request in ("r-1", "r-1", "r-2")
    )
    assert first is not None and again is not None and other is not None
    assert first.id == again.id != other.id
    assert len(payloads(team, "permission.asked")) == 2


def test_a_session_that_works_on_nothing_asks_nobody(team: Team, window: Team) -> None:
    assert window.relay_permission("r-1", tool="Bash", title="Push it") is None
    task = claimed(team, window)
    assert team.acting("ada", session="s-2").relay_permission("r-1", tool="Bash", title="Push it") is None
    window.complete(task)
    assert window.relay_permission("r-1", tool="Bash", title="Push it") is None
    assert team.questions() == []


def test_of_several_tasks_it_is_about_the_newest(team: Team, window: Team) -> None:
    tasks = [claimed(team, window) for _ in range(3)]
    made = window.relay_permission("r-1", tool="Bash", title="Push it")
    assert made is not None and made.task_id == tasks[-1]


@pytest.mark.parametrize("answer", ["allow", "refuse"])
def test_the_session_that_asked_is_told_the_answer_and_its_use_is_written_down_once(
    team: Team, window: Team, answer: str
) -> None:
    task = claimed(team, window)
    made = window.relay_permission("r-1", tool="Bash", title="Push it")
    assert made is not None and window.relayed_verdict(made.id) is None
    team.reply(task, answer, question=made.id)
    assert [window.relayed_verdict(made.id) for _ in range(2)] == [answer, answer]
    assert payloads(team, "permission.answered") == [
        (
            task,
            {
                "id": made.id, "answer": answer, "by": "human", "face": "python", "run": f"{task}.1", "tool": "Bash",
                "paths": [],
            },
        )
    ]  # fmt: skip


def test_no_other_session_is_told_the_answer_or_takes_the_question_back(team: Team, window: Team) -> None:
    task = claimed(team, window)
    made = window.relay_permission("r-1", tool="Bash", title="Push it")
    assert made is not None
    others = (team.acting("ada", session="s-2"), team.acting("bob", session="s-1"), team)
    for other in others:
        other.withdraw_relayed(made.id, "over")
    assert [question.id for question in team.questions()] == [made.id]
    team.reply(task, "allow", question=made.id)
    assert [other.relayed_verdict(made.id) for other in others] == [None, None, None]
    assert window.relayed_verdict("QST-none") is None
    assert payloads(team, "permission.answered") == []


def test_a_question_that_was_not_relayed_is_no_prompt(team: Team, window: Team) -> None:
    task = claimed(team, window)
    asked = window.ask(task, "Which port?", held=True)
    window.withdraw_relayed(asked.id, "over")
    assert [question.id for question in team.questions()] == [asked.id]
    team.reply(task, "80", question=asked.id)
    assert window.relayed_verdict(asked.id) is None


def test_a_prompt_that_was_answered_at_its_terminal_is_asked_no_longer(team: Team, window: Team) -> None:
    task = claimed(team, window)
    made = window.relay_permission("r-1", tool="Bash", title="Push it")
    assert made is not None
    window.withdraw_relayed(made.id, "answered at its own prompt")
    assert team.questions() == [] and team.conversation(task)[0].state == "withdrawn"
    with pytest.raises(NotAwaitingResponse):
        team.reply(task, "allow", question=made.id)
    assert window.relayed_verdict(made.id) is None
    head = team.head()
    window.withdraw_relayed(made.id, "once more")
    assert team.head() == head
