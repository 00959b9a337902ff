"""Whoever hosts a discussion writes its voices as it likes: they are told apart, and nobody else becomes one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.workflow.party import contributions
from interlock.workflow.party.speakers import speakers
from tests.workflow.test_party_runs import line

CAST = ("Winston", "Amelia", "Dr. Quinn", "John", "Johnny", "architect", "dev", "Meal Prep & Nutrition")

FORMS = (
    *("{name}:", "{name} (role):", "{name} [role]:", "{name} says:", "- {name}:", "> {name}:", "1. {name}:"),
    *("**{name}**:", "**{name}:**", "**{name}** (role):", "**{name} (role):**", "**{name}, role:**", "__{name}__:"),
    *("**{name} — role**:", "*{name}:*", "_{name}_:", "**{name}**", "**{name}** (role)", "- **{name}**:"),
    *("### {name}", "## {name}:", "### 🏗️ {name}", "### {name} (role)", "### {name} — role", "#### **{name}**"),
    *("🧙 {name}:", "🧙 **{name}**:", "🧙 **{name}:**", "👨‍💻 {name}", "🏗️ **{name}** (role):", "🏗️ **{name} (role)**"),
    *("> **{name}:**", "> 🧙 {name}:", "> ### {name}", "1️⃣ **{name}**:", "2. **{name}** (role):", "> > {name}:"),
)
PROSE = (
    *("Note: this is nobody.", "**Note:** this is nobody.", "### Findings", "**Decision**: as above", "Summary:"),
    *(
        "I agree with {name}: split it.",
        "{name} is right: split it.",
        "As {name} says: split it.",
        "{name}'s point: no",
    ),
    *("**{name}** is right, and I follow.", "{name}", "{name}, I disagree: it is too large.", "{name}-like: no"),
    *(
        "### What {name} left open",
        "- {name}",
        "see https://x.example/{name}: there",
        "{name}s: many",
        "| {name} | A |",
    ),
    *(
        "```yaml\n{name}: 1\n```",
        "Risk (high): it breaks",
        "[E] Exit Party Mode",
        "🎉 **Session:** welcome!",
        "{name}://x",
    ),
    *("**{name}** — as ever — is right: split it.", "> quoted: text", "**What {name} says**: no", "the {name}: no"),
)


@pytest.mark.req("BMAD-5.1.2", "BMAD-5.2.1")
@pytest.mark.parametrize("form", FORMS)
def test_a_voice_is_heard_however_its_name_is_written(form: str) -> None:
    text = f"We begin.\n\n{form.format(name='Winston')} Split it.\n\n{form.format(name='Dr. Quinn')}\nKeep it whole.\n"
    if form.endswith(("}", "**", "(role)", "role")):
        text = text.replace(" Split it.", "\nSplit it.")
    found = contributions.hosted(text, CAST)
    assert [one.agent for one in found] == ["Winston", "Dr. Quinn"]
    assert "Split it." in found[0].text and "Keep it whole." in found[1].text


@pytest.mark.parametrize("prose", PROSE)
def test_nobody_else_becomes_a_voice(prose: str) -> None:
    text = f"**Amelia**: No.\n\n{prose.format(name='Winston')}\n\nThat is all.\n"
    assert [one.agent for one in contributions.hosted(text, CAST)] == ["Amelia"]


def test_where_nobody_is_known_labels_are_nobody() -> None:
    text = "**Note**: a start.\n🎲 **Ann:** no.\n**Recommendation**: leave it\n**Round 1**: x\n**Ben** (dev): yes.\n"
    assert [one.agent for one in contributions.hosted(text)] == ["Ann", "Ben"]
    assert contributions.hosted(text)[0].recommendation == "leave it"


def test_who_names_itself_in_its_line_is_heard_from_its_name_on() -> None:
    text = f"**Amelia**: No.\n\n### Zed\nI came late.\n{line('Wait', agent='Zed')}\n"
    found = contributions.hosted(text, CAST)
    assert [(one.agent, one.recommendation) for one in found] == [("Amelia", ""), ("Zed", "Wait")]
    assert "I came late." in found[1].text and "late" not in found[0].text


def test_a_discussion_that_is_shown_as_code_is_heard_too() -> None:
    text = "Here it is:\n\n```\nWinston: Split it.\nAmelia: Keep it.\n```\n"
    assert [one.agent for one in contributions.hosted(text, CAST)] == ["Winston", "Amelia"]


WORDS = st.sampled_from(
    [
        "it is large",
        "we need more time",
        "no: never",
        "(perhaps) so",
        "Note: mind the gap",
        "**bold** words",
        "- a point",
    ]
)
TURN = st.tuples(st.sampled_from(CAST), st.sampled_from(FORMS), st.lists(st.sampled_from(PROSE) | WORDS, max_size=3))


@settings(max_examples=300, deadline=None)
@given(st.lists(TURN, max_size=5), st.lists(WORDS | st.sampled_from(PROSE[:5]), max_size=2))
def test_every_voice_and_no_other_is_heard_in_the_order_in_which_it_spoke(
    turns: list[tuple[str, str, list[str]]], before: list[str]
) -> None:
    parts = list(before)
    for name, form, said in turns:
        other = CAST[(CAST.index(name) + 3) % len(CAST)]
        parts.append(form.format(name=name))
        parts += [one.format(name=other) for one in said]
    text = "\n\n".join(parts)
    assert [name for _, name in speakers(text, CAST)] == [name for name, _, _ in turns]
    places = [start for start, _ in speakers(text, CAST)]
    assert places == sorted(places)


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from("#*_>-: \n(.[)1Winston🧙|`—"), max_size=300))
def test_whatever_is_written_is_read_and_no_name_is_made_up(text: str) -> None:
    assert {name for _, name in speakers(text, CAST)} <= {"Winston"}
