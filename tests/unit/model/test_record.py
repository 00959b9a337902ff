"""Records: what a dataclass would be."""

from __future__ import annotations

import copy

import pytest

from interlock.model.record import Record, anew


class Made(Record):
    """A field may be called as anything is, and a default may be of each value's own."""

    n: int
    type: str
    set: str | None = None
    notes: list[str] = anew(default_factory=list)


def test_fields_come_in_their_order_and_defaults_are_not_shared() -> None:
    one, other = Made(1, "a"), Made(n=1, type="a", set=None)
    assert one == other and one.notes is not other.notes
    one.notes.append("x")
    assert one != other and Made(1, "a", notes=["x"]) == one and copy.copy(one) == one
    assert repr(other) == "Made(n=1, type='a', set=None, notes=[])"


def test_what_it_does_not_have_it_does_not_take() -> None:
    with pytest.raises(TypeError, match="type"):
        Made(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Made(1, "a", None, [], 5)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Made(1, "a").other = 1  # type: ignore[attr-defined]


def test_a_field_with_a_default_comes_last() -> None:
    with pytest.raises(TypeError, match="without a default"):
        type(Record)("Wrong", (Record,), {"__annotations__": {"a": "int", "b": "int"}, "a": 1})
