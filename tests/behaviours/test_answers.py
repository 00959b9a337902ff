"""An answer outside of what was offered is refused, or is said to be taken as words; never silently."""

from __future__ import annotations

from interlock.app.team import Team
from interlock.model.question import Question
from interlock.model.text import plain


def asked(team: Team, *options: str) -> Question:
    task = team.create_task("Choose a port").id
    bob = team.acting("bob", session="s")
    bob.claim(task)
    return bob.ask(task, "Which port?", options=options)


def answer_of(team: Team, question: Question) -> str:
    return str(team.conversation(question.task_id)[-1].answer)


def test_words_of_ones_own_are_passed_on_and_said_to_be_none_of_the_options(team: Team) -> None:
    question = asked(team, "80", "8080")
    said = team.reply(question.task_id, "9999").warnings
    assert said == ["“9999” is none of the answers offered (80, 8080); it was passed on in your own words."]
    assert answer_of(team, question) == "9999"
    assert team.reply(asked(team).task_id, "whatever").warnings == [], "nothing was offered"


def test_an_option_is_taken_as_it_is_written_there_whatever_its_case(team: Team) -> None:
    question = asked(team, "Red", "Blue")
    assert team.reply(question.task_id, " red ").warnings == []
    assert answer_of(team, question) == "Red"


def test_an_option_cannot_be_turned_round_to_look_like_another() -> None:
    assert plain("\u202esey") == "sey" and plain("\u2066a\u2069") == "a"
    assert plain("שלום") == "שלום"
