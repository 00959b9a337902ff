"""Names, keys and texts from outside are checked before anything is made of them."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import InvalidMemberName, InvalidRequest, InvalidTeamName
from interlock.model import names

ALLOWED = string.ascii_lowercase + string.digits + "-_"


@given(st.text(st.sampled_from(ALLOWED + "A.é/ \n"), max_size=60))
def test_a_name_is_1_to_50_lower_case_letters_digits_hyphens_and_underscores(name: str) -> None:
    expected = 0 < len(name) <= 50 and set(name) <= set(ALLOWED) and name[0] not in "-_"
    assert names.fits_name_rule(name) is expected


@pytest.mark.parametrize("name", [None, 7, b"alpha", ["alpha"], "../../etc", "a/b", "a\x00", "alpha\n", "ａ", "²"])
def test_what_is_no_plain_text_is_no_name(name: object) -> None:
    with pytest.raises(InvalidTeamName, match="alphanumeric") as refused:
        names.check_team_name(name)
    assert refused.value.details == {"name": str(name)}
    with pytest.raises(InvalidMemberName, match="alphanumeric"):
        names.check_member_name(name)


def test_a_refusal_carries_the_name_as_it_is_cut_where_it_is_long() -> None:
    for name, shown in (("A b", "A b"), ("it's", "it's"), ("x" * 10_000, "x" * 100), ("\ud800", "?")):
        with pytest.raises(InvalidTeamName) as refused:
            names.check_team_name(name)
        assert refused.value.details == {"name": shown}


@pytest.mark.parametrize("name", ["lead", "human", "interlock"])
def test_a_name_that_already_stands_for_somebody_is_no_members(name: str) -> None:
    with pytest.raises(InvalidMemberName, match="reserved"):
        names.check_member_name(name)


@given(st.text())
def test_a_sanitized_key_is_one_plain_directory_name(key: str) -> None:
    found = names.sanitized(key)
    assert len(found) == len(key)
    assert set(found) <= set(string.ascii_letters + string.digits + "-_")


@pytest.mark.parametrize("key", ["agent:main:main", "x", "k" * 200, "agent:main:user@example.com", "lead"])
def test_a_session_key_is_accepted(key: str) -> None:
    assert names.check_session_key(key) == key


@pytest.mark.parametrize(
    "key", [None, "", "two words", "k" * 201, "a\tb", "a\x00b", "human", "Human", "interlock", "person:ann", "\ud800"]
)
def test_a_session_key_is_refused(key: object) -> None:
    with pytest.raises(InvalidRequest):
        names.check_session_key(key)


def test_texts_count_in_characters_and_hold_what_a_file_can_hold() -> None:
    assert names.check_text("é" * 200, "subject", limit=200) == "é" * 200
    for value in ["é" * 201, "a\x00b", "\ud800", None, 3]:
        with pytest.raises(InvalidRequest) as refused:
            names.check_text(value, "subject", limit=200)
        assert refused.value.details["field"] == "subject"
    with pytest.raises(InvalidRequest, match="required"):
        names.check_text(" \n", "subject", limit=200, required=True)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=10), values, max_size=5))
def test_metadata_comes_back_as_it_went_in(value: dict[str, object]) -> None:
    if "\ud800" not in repr(value):
        assert names.check_metadata(value) == value


@pytest.mark.parametrize(
    "value", [None, [], "x", {"a": float("nan")}, {"a": {1}}, {"a": "\ud800"}, {"a": "x" * 65_536}]
)
def test_metadata_that_no_ledger_could_hold_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest, match="JSON object"):
        names.check_metadata(value)


def test_metadata_nested_without_end_is_refused() -> None:
    deep: dict[str, object] = {}
    here = deep
    for _ in range(100_000):
        here["a"] = here = {}
    with pytest.raises(InvalidRequest):
        names.check_metadata(deep)
