"""Whatever the standard library's dataclass does, ours does, though nothing of it is compiled before it is called."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import InitVar, field
from typing import Any, ClassVar

import pydantic
import pytest

from interlock import lazy_dataclass

FROZEN, SLOTS, BOTH = {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}
SHAPES = ({}, FROZEN, SLOTS, BOTH, {"eq": False}, {"kw_only": True, **BOTH}, {"eq": False, **SLOTS})


def makers() -> tuple[Callable[..., Any], Callable[..., Any]]:
    return dataclasses.dataclass, vars(lazy_dataclass)["dataclass"]


def both(declare: Callable[[Callable[..., Any]], type]) -> tuple[type, type]:
    """What `declare` makes with the standard library's decorator and with ours."""
    first, second = (declare(made) for made in makers())
    return first, second


def point(made: Callable[..., Any], **options: Any) -> type:
    @made(**options)
    class Point:
        """A place."""

        kept: ClassVar[int] = 3
        x: int
        y: float = 0.5
        tags: list[str] = field(default_factory=list, compare=False)
        hidden: str = field(default="no", repr=False)

    return Point


def outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", SHAPES, ids=str)
def test_objects_do_the_same(options: dict[str, bool]) -> None:
    def told(cls: Any) -> list[Any]:
        one, same, other = cls(x=1), cls(x=1, tags=["a"]), cls(x=2, y=1.0)
        return [
            repr(one).removeprefix("both.<locals>."),
            one == same,
            one != other,
            one == (1, 0.5, [], "no"),
            outcome(lambda: hash(one) == hash(same)) if cls.__hash__ is not object.__hash__ else "by identity",
            dataclasses.asdict(same),
            dataclasses.astuple(other),
            dataclasses.asdict(dataclasses.replace(one, y=9.0)),
            dataclasses.asdict(copy.copy(same)),
            dataclasses.asdict(copy.deepcopy(same)),
            [(each.name, each.type, each.kw_only) for each in dataclasses.fields(cls)],
            cls.__match_args__,
            getattr(cls, "__slots__", None),
            hasattr(one, "__dict__"),
            cls.__doc__,
            cls.kept,
            dataclasses.is_dataclass(cls),
            cls.__dataclass_params__.frozen,
            outcome(lambda: setattr(one, "x", 5)),
            outcome(lambda: delattr(one, "y")),
            outcome(lambda: setattr(one, "unknown", 5))[0] if "slots" in options and "frozen" not in options else "",
            outcome(lambda: cls()),
            outcome(lambda: cls(1, 2, 3, 4, 5)),
            outcome(lambda: cls(x=1, z=2)),
            str(inspect.signature(cls.__init__)),
            outcome(lambda: pydantic.TypeAdapter(cls).validate_python({"x": "7"}).x),
        ]

    standard, ours = both(lambda made: point(made, **options))
    assert told(ours) == told(standard)


def test_what_a_class_says_itself_stays() -> None:
    def declare(made: Callable[..., Any]) -> type:
        @made(frozen=True)
        class Own:
            """Says some of it itself."""

            x: int

            def __init__(self, text: str) -> None:
                object.__setattr__(self, "x", int(text))

            def __repr__(self) -> str:
                return f"<{self.x}>"

            def __eq__(self, other: object) -> bool:
                return True

        return Own

    for cls in both(declare):
        assert repr(cls("4")) == "<4>" and cls("4") == 17 and hash(cls("4")) == hash((4,))  # type: ignore[call-arg]


def test_what_is_for_the_beginning_only_and_what_follows_it() -> None:
    def declare(made: Callable[..., Any]) -> type:
        @made(slots=True)
        class Watch:
            """Has something to do at the beginning."""

            quiet: InitVar[float] = 2.0
            ends: float = field(init=False)

            def __post_init__(self, quiet: float) -> None:
                self.ends = quiet * 2

        return Watch

    for cls in both(declare):
        assert cls().ends == 4.0 and cls(5.0).ends == 10.0  # type: ignore[call-arg, attr-defined]
        assert [each.name for each in dataclasses.fields(cls)] == ["ends"]  # type: ignore[arg-type]


def test_an_heir_has_the_fields_of_its_line() -> None:
    def declare(made: Callable[..., Any]) -> type:
        @made(frozen=True)
        class Elder:
            """First."""

            x: int
            y: int = 2

        @made(frozen=True)
        class Younger(Elder):
            """Second."""

            z: int = 3

        assert Elder(1) != Younger(1)  # type: ignore[call-arg]
        return Younger

    for cls in both(declare):
        assert repr(cls(1)).endswith("Younger(x=1, y=2, z=3)") and hash(cls(1)) == hash(cls(1))  # type: ignore[call-arg]
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'z'"):
            cls(1).z = 4  # type: ignore[call-arg, attr-defined]
    for made in makers():
        with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
            made(type("Loose", (declare(made),), {}))


def test_an_heir_without_fields_sets_what_is_its_own() -> None:
    for made in makers():

        class Heir(point(made, frozen=True)):  # type: ignore[misc]
            """No dataclass."""

        heir = Heir(1)
        heir.own = 4
        assert heir.own == 4
        del heir.own
        assert not hasattr(heir, "own")
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
            heir.x = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
            del heir.x


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Sent:
    """Goes to another process."""

    x: int
    y: tuple[str, ...] = ()


def test_it_is_pickled_before_anything_of_it_was_called() -> None:
    assert pickle.loads(pickle.dumps(Sent(1, ("a",)))) == Sent(1, ("a",))
    with pytest.raises(dataclasses.FrozenInstanceError):
        pickle.loads(pickle.dumps(Sent(1))).x = 2


def test_nothing_is_compiled_until_it_is_called_and_then_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = makers()[1]
    cls = point(made, frozen=True, slots=True)
    late = {name: vars(cls)[name] for name in ("__init__", "__repr__", "__eq__", "__hash__")}
    assert {each.__code__.co_name for each in late.values()} == {"write"}
    one = cls(1)  # type: ignore[call-arg]
    written = vars(cls)["__init__"]
    assert written is not late["__init__"] and vars(cls)["__repr__"] is late["__repr__"]
    assert cls(1) == one and vars(cls)["__init__"] is written  # type: ignore[call-arg]
    early = late["__init__"]
    early(object.__new__(cls), 3)  # whoever took the method before it was written has one that works
