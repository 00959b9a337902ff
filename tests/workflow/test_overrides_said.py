"""What is understood as a wish about care, and which of several counts."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from interlock.errors import InvalidRequest
from interlock.workflow.engine.adaptive_settings import adapt
from interlock.workflow.engine.checkpoint_pace import batch_size
from interlock.workflow.errors import SafetyOverrideBlocked
from interlock.workflow.preferences import overrides, profiles, safety
from interlock.workflow.preferences.overrides import apply, inline_of, layered, resolved, shifted
from interlock.workflow.preferences.wishes import Blocked, Override, inline, understood

AT = "2026-11-21T10:00:00.000Z"


def said(*texts: str) -> dict[str, Any]:
    """The document after somebody said these things, in this order."""
    document: dict[str, Any] = {}
    for number, text in enumerate(texts):
        found = understood(text)
        assert isinstance(found, tuple), text
        apply(document, found, at=f"2026-11-21T10:00:{number:02d}.000Z", by="ada")
    return dict(document[overrides.KEY])


def told(text: str) -> Any:
    found = understood(text)
    return found.code if isinstance(found, Blocked) else found and [(one.kind, one.value) for one in found]


@pytest.mark.req("BMAD-FR48", "BMAD-E7.1", "BMAD-7.1.1")
@pytest.mark.parametrize(
    ("text", "shift"),
    [
        ("I want minimal interruptions", -2),
        ("I prefer minimal interruptions", -2),
        ("As few questions as possible, please", -2),
        ("Don\u2019t interrupt me", -2),
        ("stop asking me", -2),
        ("only ask me when necessary", -2),
        ("don't stop so often", -1),
        ("Please don't ask me so much", -1),
        ("I don't want any questions", -2),
        ("I don't want so many questions", -1),
        ("fewer checkpoints", -1),
        ("less babysitting", -1),
        ("be less careful", -1),
        ("Could you work faster?", -1),
        ("be careful", 1),
        ("be more thorough from now on", 1),
        ("ask me more often", 1),
        ("slow down", 1),
        ("more checkpoints please", 1),
        ("be very careful", 2),
        ("ask me before each step", 2),
    ],
)
def test_natural_language_shifts_care(text: str, shift: int) -> None:
    assert told(text) == [("hint", shift)]


@pytest.mark.req("BMAD-FR48", "BMAD-E7.1", "BMAD-7.1.2", "BMAD-7.1.3", "BMAD-7.1.5")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("use tier 3", [("tier", 3)]),
        ("tier: 0", [("tier", 0)]),
        ("Please switch to tier 4", [("tier", 4)]),
        ("tier: 7", "invalid_request"),
        ("tier: auto", [("clear", None)]),
        ("batch_size: 2", [("setting", 2)]),
        ("set the batch size to all", [("setting", None)]),
        ("confidence = 85 %", [("setting", 85)]),
        ("confidence: 20", "invalid_request"),
        ("batch_size: 0", "invalid_request"),
        ("use tier 3, batch_size: 2 and be careful", [("tier", 3), ("setting", 2), ("hint", 1)]),
        ("[thorough]", [("inline", None)]),
        ("clear overrides", [("clear", None)]),
    ],
)
def test_exact_words_are_taken_exactly(text: str, found: Any) -> None:
    assert told(text) == found


@pytest.mark.req("BMAD-7.1.3")
@pytest.mark.parametrize("name", [*profiles.PROFILES, "night"])
def test_a_profile_is_named(name: str) -> None:
    for text in (f"profile: {name}", f"Use the {name} profile", f"switch to profile {name}"):
        (found,) = understood(text) or ()
        assert isinstance(found, Override) and (found.kind, found.name) == ("profile", name)


@pytest.mark.parametrize(
    "text",
    [
        "be careful with the names of the tables",
        "Fix the login, and be careful",
        "stop",
        "continue",
        "cancel",
        "approve",
        "what is tier 3?",
        "tier list",
        "my profile page is broken",
        "confidence is important",
        "remove the approval step from the form",
        "skip the tests",
        "final_approval: true",
        "why is there a final approval",
        "The user wants no interruptions while typing in the editor, so debounce the autosave",
        "",
        "x" * 500,
    ],
)
def test_work_is_no_wish_about_care(text: str) -> None:
    assert understood(text) is None


BYPASS = [
    "skip final approval",
    "Please skip the final approval",
    "can you skip the final review?",
    "bypass the final checkpoint",
    "no final approval from now on",
    "don't ask me for approval",
    "don't wait for the final sign-off",
    "approve everything automatically",
    "auto-approve everything",
    "finish it without my approval",
    "final approval is not needed",
    "final_approval: false",
    "skip_final_approval: true",
    "pre_final_review = off",
    "turn off oversight",
    "disable stall detection",
    "Turn stall detection off",
    "I don't want stall detection",
    "stop the loop detection",
    "stall_detection: off",
    "detect_stalls=false",
    "ignore the safety checks",
    "disable all safeguards",
    "use tier 0 and skip final approval",
    "tier: 1, stall_detection: off",
]


@pytest.mark.req("BMAD-7.2.4", "BMAD-7.2.5", "BMAD-FR50", "BMAD-E7.11")
@pytest.mark.parametrize("text", BYPASS)
def test_what_would_bypass_safety_is_refused_with_an_explanation(text: str) -> None:
    found = understood(text)
    assert isinstance(found, Blocked) and found.code == "safety_override_blocked"
    assert "cannot be bypassed" in found.error.message and "can be changed" in found.error.message


@pytest.mark.req("BMAD-E7.11", "BMAD-7.2.4")
@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"stall_detection": "off"}, [safety.STALL_DETECTION]),
        ({"thresholds": {"high": 80, "final_approval": False}}, [safety.FINAL_APPROVAL]),
        ({"Skip-Final-Approval": True}, [safety.FINAL_APPROVAL]),
        ({"stall_detection": {"enabled": False}}, [safety.STALL_DETECTION]),
        ({"loop_detection": 0, "stall_detection": "disabled"}, [safety.LOOP_DETECTION, safety.STALL_DETECTION]),
        ({"stall_detection": True, "final_approval": "required", "skip_final_approval": False}, []),
        ({"high": 70, "oversight": "required"}, []),
    ],
)
def test_the_configuration_cannot_switch_it_off_either(settings: dict[object, object], found: list[str]) -> None:
    assert safety.in_settings(settings) == found


@pytest.mark.req("BMAD-7.1.4")
@pytest.mark.parametrize(
    ("text", "word", "left"),
    [
        ("C [thorough]", "thorough", "C"),
        ("[quick] Apple trees.", "quick", "Apple trees."),
        ("Use [Thorough] pears", "thorough", "Use pears"),
        ("read [quick](start.md) first", None, "read [quick](start.md) first"),
        ("`[thorough]` is a modifier", None, "`[thorough]` is a modifier"),
        ("```\n[quick]\n```", None, "```\n[quick]\n```"),
        ("array[quick]", None, "array[quick]"),
    ],
)
def test_an_inline_modifier_stands_anywhere_but_in_code_and_links(text: str, word: str | None, left: str) -> None:
    assert inline(text) == (word, left)


@given(some.text(max_size=200))
def test_any_text_is_understood_or_not_and_quickly(text: str) -> None:
    began = time.process_time()
    found = understood(text)
    inline(text)
    assert found is None or isinstance(found, (tuple, Blocked))
    assert time.process_time() - began < 5


PARTS = some.sampled_from(
    ["please", "the", "no", "any", "you", "to", "for", "now", "i want", "skip", "all", ",", "and", "tier", "more", "so"]
)


@given(some.lists(PARTS, max_size=30).map(" ".join))
def test_words_without_end_take_no_time(text: str) -> None:
    began = time.process_time()
    understood(text)
    assert time.process_time() - began < 5


TIERS = some.integers(0, 4)
SETTING = some.fixed_dictionaries(
    {}, optional={"batch_size": some.integers(1, 100), "confidence": some.integers(50, 100)}
)


@pytest.mark.req("BMAD-7.2.1", "BMAD-FR49", "BMAD-E7.2")
@given(
    project=TIERS, tier=some.none() | TIERS, profile=some.none() | some.sampled_from(list(profiles.PROFILES)),
    settings=SETTING, hint=some.sampled_from([None, "be careful", "minimal interruptions"]),
)  # fmt: skip
def test_the_strongest_that_names_a_value_decides_it(
    project: int, tier: int | None, profile: str | None, settings: dict[str, int], hint: str | None
) -> None:
    texts = [*([hint] if hint else []), *(f"{name}: {value}" for name, value in settings.items())]
    texts += [*([f"profile: {profile}"] if profile else []), *([f"use tier {tier}"] if tier is not None else [])]
    care = resolved(project, said(*texts) if texts else {})
    known = profiles.PROFILES[profile] if profile else None
    by_hint = shifted(project, {"be careful": 1, "minimal interruptions": -2}[hint]) if hint else None
    ways = [tier, known.tier if known else None, by_hint, project]
    assert care.tier == next(one for one in ways if one is not None)
    stated = tier if tier is not None else known.tier if known else None
    if stated is not None:
        assert care.values["batch_size"] == batch_size(stated)
    elif "batch_size" in settings:
        assert care.values["batch_size"] == settings["batch_size"]
    else:
        assert care.values["batch_size"] == batch_size(care.tier)
    wanted = known.confidence if known else settings.get("confidence")
    assert care.values.get("confidence") == wanted
    assert care.lasting_tier >= project


@pytest.mark.req("BMAD-7.2.1", "BMAD-7.2.2", "BMAD-FR49")
def test_a_setting_counts_beside_what_does_not_name_it() -> None:
    care = resolved(2, said("use tier 3", "batch_size: 2", "confidence: 85"))
    assert (care.values["batch_size"], care.values["confidence"]) == (3, 85)
    assert {name: one["method"] for name, one in care.sources.items()} == {
        "tier": "tier", "batch_size": "tier", "confidence": "setting",
    }  # fmt: skip
    left = overrides.unheard(understood("batch_size: 2") or (), care)  # type: ignore[arg-type]
    assert "batch_size: 2" in left and "use tier 3" in left
    assert resolved(2, said("batch_size: 2")).values == {"tier": 2, "batch_size": 2}


@pytest.mark.req("BMAD-7.2.3")
def test_of_the_same_kind_the_later_one_counts_and_clearing_takes_it_back() -> None:
    assert resolved(2, said("use tier 3", "use tier 1")).tier == 1
    assert resolved(2, said("be careful", "minimal interruptions")).tier == 1
    assert resolved(2, said("use tier 3", "profile: quick", "tier: auto")).tier == 0
    assert resolved(2, said("use tier 3", "batch_size: 2", "be careful", "clear overrides")).values == {
        "tier": 2, "batch_size": 5,
    }  # fmt: skip
    early, late = said("use tier 1"), said("be careful", "use tier 4")
    assert layered(early, late)["tier"]["value"] == layered(late, early)["tier"]["value"] == 4


@given(TIERS, some.integers(-2, 2))
def test_a_hint_shifts_by_what_changes_something(tier: int, by: int) -> None:
    there = shifted(tier, by)
    assert 0 <= there <= 4
    assert (there >= tier) if by >= 0 else (there <= tier)
    if by > 0 and tier < 4:
        assert batch_size(there) != batch_size(tier)
    if by < 0 and tier > 1:
        assert batch_size(there) != batch_size(tier)


@pytest.mark.req("BMAD-7.1.4")
def test_a_modifier_is_about_one_operation_and_stronger_than_all_else() -> None:
    document: dict[str, Any] = {}
    overrides.apply_inline(document, "run-1", "thorough", 3, at=AT, by="ada")
    kept = document[overrides.KEY]
    assert inline_of(kept, "run-1", 3) == "thorough"
    assert inline_of(kept, "run-1", 4) is None and inline_of(kept, "run-2", 3) is None
    care = resolved(1, said("use tier 2"), operation="thorough")
    assert (care.tier, care.sources["tier"]["method"]) == (4, "inline")
    assert care.lasting_tier == 2, "one operation calls for no review of the whole"


@pytest.mark.req("BMAD-FR50", "BMAD-E7.11")
@given(
    project=TIERS, text=some.sampled_from(["use tier 0", "profile: quick", "minimal interruptions", "batch_size: all"])
)
def test_safety_goes_by_the_projects_own_tier_whatever_is_said(project: int, text: str) -> None:
    settings = adapt(project, care=resolved(project, said(text)))
    assert settings.safety_tier >= project
    assert adapt(1, care=resolved(1, said(text), own_tier=4)).safety_tier == 4
    regulated = adapt(project, domain="healthcare", care=resolved(project, said(text)))
    assert regulated.gates and regulated.batch is not None and regulated.batch <= 5


@pytest.mark.req("BMAD-7.1.3")
def test_a_project_adds_profiles_of_its_own() -> None:
    own = profiles.read({"night": {"tier": 1, "batch_size": 10, "confidence": "85"}, "slow": {"batch": 1}})
    care = resolved(2, said("profile: night"), own=own)
    assert care.values == {"tier": 1, "batch_size": 10, "confidence": 85} and care.profile == "night"
    assert resolved(2, said("profile: slow"), own=own).values == {"tier": 2, "batch_size": 1}
    assert resolved(2, said("profile: night")).values == {"tier": 2, "batch_size": 5}, "it has gone from the file"
    with pytest.raises(InvalidRequest, match="cautious, thorough, balanced"):
        profiles.find("nonsense", own)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"cautious": {"tier": 0}}, InvalidRequest),
        ({"n": {"tier": 9}}, InvalidRequest),
        ({"n": {"colour": "red"}}, InvalidRequest),
        ({"n": 3}, InvalidRequest),
        ([1], InvalidRequest),
        ({"n": {"final_approval": False}}, SafetyOverrideBlocked),
        ({"n": {"tier": 1, "stall-detection": "off"}}, SafetyOverrideBlocked),
        ({"n": {"oversight": "none"}}, SafetyOverrideBlocked),
    ],
)
@pytest.mark.req("BMAD-E7.11")
def test_a_profile_that_cannot_be_used_is_refused(settings: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        profiles.read(settings)
