"""Menus in text: what is one, what only looks like one, and what no text may do."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.menus import forms
from interlock.workflow.menus.detection import THRESHOLD, detect
from interlock.workflow.menus.step_menus import menus_of, same, way_on, ways_on

APC = "[A] Advanced Elicitation [P] Party Mode [C] Continue"
ELICITATION = """\
Choose a number (1-5), [r] to Reshuffle, [a] List All, or [x] to Proceed:

1. Five Whys
2. Pre-mortem
3. Red Team
4. Socratic
5. Inversion
r. Reshuffle the list with 5 new options
a. List all methods with descriptions
x. Proceed / No Further Actions"""


@pytest.mark.parametrize(
    ("text", "form", "keys"),
    [
        (APC, forms.APC, "A P C"),
        ("**Select:** [A] Advanced Elicitation [F] Fix Findings [P] Party Mode [C] Continue", forms.APC, "A F P C"),
        ("[A] Advanced Elicitation [P] Party Mode [X] Exit Workflow", forms.APC, "A P X"),
        ("**Select an Option:**\n[A] Dive deeper\n[P] Party Mode - others\n[C] Continue - save", forms.APC, "A P C"),
        ("[a] Advanced Elicitation  [c] Continue  [p] Party Mode", forms.APC, "a c p"),
        ("[C] Continue to next step", forms.LONE, "C"),
        ("Are you ready to [C] Continue to Discovery?", forms.LONE, "C"),
        ("**Confirm the Requirements are complete and correct to [C] continue:**", forms.LONE, "C"),
        ("[E] Exit Party Mode - End the collaborative session", forms.PARTY, "E"),
        ("Please select: [C]reate / [E]dit / [V]alidate", forms.LETTERED, "C E V"),
        ("**[C]reate** - new\n**[E]dit** - old\n**[V]alidate** - check", forms.UNKNOWN, "C E V"),
        ("**Creation Complete!** [T] Test Workflow [M] Make Adjustments [D] Get Help", forms.LETTERED, "T M D"),
        ("**[t] Plan first** - spec\n**[e] Execute directly** - now", forms.UNKNOWN, "t e"),
        ("Options: Approve [a], Edit [e], Skip [s]", forms.LETTERED, "a e s"),
        ("Review complete proposal. Continue [c] or Edit [e]?", forms.UNKNOWN, "c e"),
        ("Continue to next step? (y/n/edit)", forms.YES_NO, "y n edit"),
        ("Use it as the foundation? (recommended) [y/n]", forms.YES_NO, "y n"),
        ("Continue in standalone mode or exit? (continue/exit)", forms.YES_NO, "continue exit"),
        ("What next?\n1. Fix it\n2. Leave it\n\nChoose [1], [2], or say what:", forms.NUMBERED, "1 2"),
        ("1. **Express** - I know\n2. **Guided** - show me\n\nChoice [1 or 2]:", forms.NUMBERED, "1 2"),
        ("Which approach?\n1) One\n2) Two\n3) Three", forms.NUMBERED, "1 2 3"),
        ("**Ready?**\n[1] Browse\n[2] Random\n[3) Extend Session\n\nWhich one? (Enter 1-3)", forms.NUMBERED, "1 2 3"),
        (ELICITATION, forms.ELICITATION, "1 2 3 4 5 r a x"),
        ("\x1b[1m[C]\x1b[0m Continue", forms.LONE, "C"),
        ("- [A] Again\n- [X] Exit\n", forms.UNKNOWN, "A X"),
        ("1. **[A]** Again\n2. **[C]** Continue\n\nWhich one?", forms.LETTERED, "A C"),
        ("Choose: `[A]` Again `[C]` Continue", forms.LETTERED, "A C"),
        ("| Key | Option |\n|---|---|\n| [A] | Advanced Elicitation |\n| [C] | Continue |", forms.APC, "A C"),
        (f"> a quotation\n{APC}", forms.APC, "A P C"),
    ],
)  # fmt: skip
def test_the_shapes_of_real_menus(text: str, form: str, keys: str) -> None:
    found = detect(text)
    assert found.detected and found.confidence >= THRESHOLD
    assert (found.form, " ".join(option.key for option in found.options)) == (form, keys)


@pytest.mark.parametrize(
    "text",
    [
        "- [x] done\n- [ ] open\n",
        "- [x] Continue the work",
        "1. [x] Continue",
        "identified [X] issues across [Y] categories",
        "Found [X] Critical, [Y] Major, [Z] Minor violations",
        '"Combining [A] with [B] for the first time"',
        "⚠️ Present [C] continue option after scope clarification",
        "✅ [C] continue option presented and handled correctly",
        "Present [B] back option and [C] continue options",
        "Use `[C]` to continue and `[A]` for more.",
        "After user selects [C] to continue, load `./step-02-generate.md`.",
        "[A]ccuracy [P]attern Compliance [C]ompleteness",
        "- **A (Advanced Elicitation)**: use it",
        "- **[a]**: Load and execute it",
        "- IF C: load the next step",
        "✅ Menu [A][P][C] verification passed",
        "stepsCompleted: [1, 2]",
        "return split('T')[0] and match[1] Foo",
        "see [A](a.md) and [B](b.md)",
        "[A] [Continue to Step Foo] [A] [Continue to Step Bar]",
        "**Select:** [A] [menu item A] [P] [menu item P] [C] [menu item C]",
        "1. First do this\n2. Then do that\n",
        "Here is what I did:\n1. Read it\n2. Wrote it\n",
        "Please answer:\n1. What is it?\n2. Who is it for?\n",
        "I used FastAPI (read/write) throughout.",
        "",
        "   \n\n",
    ],
)
def test_what_only_looks_like_a_menu(text: str) -> None:
    assert not detect(text).detected


def test_a_menu_far_above_the_end_has_been_answered() -> None:
    assert not detect(APC + "\n\nMore is told here.\n" * 16).detected


@pytest.mark.parametrize(
    "text",
    [
        f"For example, I kept the first one.\n\n{APC}",
        f"Example: the login page\n\nThat is all.\n\n{APC}",
        f"It shows examples of use.\n\n{APC}",
        f"## Example\n\nText\n\n## Choice\n\n{APC}",
    ],
)
def test_a_menu_below_the_mention_of_an_example_is_a_menu(text: str) -> None:
    assert detect(text).detected


@pytest.mark.parametrize(
    "text",
    [
        f"Example:\n\n{APC}",
        f"Here is an example menu:\n\n{APC}",
        f"**Example**\n\n{APC}",
        f"Example menu\n{APC}",
        f"## Example output\n\nText.\n\n{APC}",
        f"For example:\n{APC}",
        f"A menu, e.g.: {APC}",
    ],
)
def test_a_menu_that_is_called_an_example_is_none(text: str) -> None:
    assert detect(text).guards == ("example",)


def test_of_two_menus_the_last_one_is_asked() -> None:
    found = detect(f"{APC}\n\nYou chose A.\n\n[C] Continue [X] Exit")
    assert [option.key for option in found.options] == ["C", "X"]


def test_the_position_counts_less_the_more_follows() -> None:
    parts = [detect(APC + "\nA line." * count).score_breakdown["position"] for count in (0, 2, 4, 8)]
    assert parts == [20, 20, 10, 0]


STEP = """\
# Step

### Menu

Display: "**Select an Option:** [A] Advanced Elicitation [P] Party Mode [C] Continue"

#### Menu Handling Logic:

- IF A: Execute {advancedElicitationTask}, then redisplay the menu
- IF P: Execute {project-root}/_bmad/core/workflows/party-mode/workflow.md, then redisplay the menu
- IF C: Save it, only then load, read entire file, then execute {nextStepFile}
"""


def test_a_step_says_which_menus_it_shows_and_which_option_leads_on() -> None:
    menus = menus_of(STEP)
    assert [menu.keys for menu in menus] == [("A", "P", "C")]
    assert ways_on(STEP) == ("c",) and way_on(STEP) == "c"


def test_headings_and_quoted_letters_are_handlers_too() -> None:
    step = "#### If 'A' (Deeper):\n\n- Think\n\n#### If 'C' (Continue):\n\n- Save it\n- Load `./step-04-journeys.md`\n"
    assert ways_on(step) == ("c",)


def test_a_step_menu_is_recognised_through_emphasis_and_explanations() -> None:
    shown = detect("**[A] Advanced Elicitation** - deeper\n[P] Party Mode - others\n[C] Continue - save")
    assert shown.menu and same(shown.menu, menus_of(STEP)[0])
    other = detect("[A] Accept [P] Pivot [C] Clarify")
    assert other.menu and not same(other.menu, menus_of(STEP)[0])


LETTERS = st.lists(st.sampled_from(string.ascii_uppercase), min_size=2, max_size=8, unique=True)
LABEL = (
    st.text(string.ascii_lowercase + " ", min_size=1, max_size=20)
    .map(lambda text: f"Do {text.strip() or 'it'}")
    .filter(lambda label: not label.endswith((" or", " and")))  # a word that joins options belongs to none of them
)


@given(LETTERS, st.lists(LABEL, min_size=8, max_size=8), st.booleans())
def test_any_letters_with_any_labels_are_read_as_they_are_written(
    keys: list[str], labels: list[str], inline: bool
) -> None:
    written = [f"[{key}] {label}" for key, label in zip(keys, labels, strict=False)]
    found = detect("Please select an option:\n" + (" " if inline else "\n").join(written))
    assert [option.key for option in found.options] == keys
    assert [option.label for option in found.options] == labels[: len(keys)]


@given(LETTERS, st.lists(LABEL, min_size=8, max_size=8), st.sampled_from(["```", "~~~", "````"]))
def test_no_menu_is_ever_detected_within_a_fence_or_a_quotation(keys: list[str], labels: list[str], fence: str) -> None:
    lines = [f"[{key}] {label}" for key, label in zip(keys, labels, strict=False)]
    menu = "\n".join(["Select an option:", *lines])
    assert not detect(f"{fence}\n{menu}\n{fence}").detected
    assert not detect(f"Text.\n\n{fence}\n{menu}").detected  # left open
    assert not detect("\n".join(f"> {line}" for line in menu.splitlines())).detected


@given(st.text(alphabet=st.sampled_from("[]ACPx123.)>`-* \n:?(y/n)eExample"), max_size=400))
def test_no_text_breaks_detection(text: str) -> None:
    found = detect(text, menus_of(text))
    assert 0 <= found.confidence <= 100 and found.confidence == sum(found.score_breakdown.values())
    assert found.detected == (found.menu is not None) and (not found.detected or found.confidence >= THRESHOLD)


@given(st.text(max_size=300))
def test_nor_does_any_text_at_all(text: str) -> None:
    detect(text)
    menus_of(text)


@pytest.mark.parametrize(
    "text", ["[A] x " * 40_000, "> " * 60_000, "```\n" * 50_000, "1. a\n" * 50_000, "(" * 100_000, "`" * 100_000,
             "[A] Foo\n" * 30_000, "* " * 50_000 + "[A] b", "a/" * 100_000 + "(y/n)"]
)  # fmt: skip
def test_a_flood_takes_no_time(text: str) -> None:
    start = time.process_time()
    detect(text)
    assert time.process_time() - start < 10
