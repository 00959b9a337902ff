"""Values with named fields for the modules that every command loads: written like a dataclass, made without one.

`dataclasses` matches, writes and compiles a handful of methods for each class at each start, which for the values of
the ledger took a tenth of a short command (decision 0220). Here only `__init__` is compiled; comparing and showing,
which commands hardly do, walk over the fields.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, dataclass_transform

    T = TypeVar("T")
else:

    def dataclass_transform(**_: object) -> Callable[[type], type]:
        """What tells type checkers of the constructor; at run time nothing."""
        return lambda made: made


class _Anew:
    """A default that is made anew for each value."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make


def anew(*, default_factory: Callable[[], T]) -> T:
    """The default of a field that must not be shared, such as a list."""
    return _Anew(default_factory)  # type: ignore[return-value]


@dataclass_transform(field_specifiers=(anew,))
class _Fields(type):
    """Makes slots and `__init__` of a class's annotations."""

    def __new__(metacls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        fields = tuple(body.get("__annotations__", ()))
        defaults = {field: body.pop(field) for field in fields if field in body}
        if fields[len(fields) - len(defaults) :] != tuple(defaults):
            raise TypeError(f"{name}: a field without a default follows one that has one")
        if fields:
            body["__slots__"] = fields
            lines = [
                f" self.{field} = {field}.make() if {field}.__class__ is _Anew else {field}"
                if type(defaults.get(field)) is _Anew
                else f" self.{field} = {field}"
                for field in fields
            ]
            exec("\n".join([f"def __init__(self, {', '.join(fields)}):", *lines]), {"_Anew": _Anew}, body)
            body["__init__"].__defaults__ = tuple(defaults.values())
        return super().__new__(metacls, name, bases, body)


class Record(metaclass=_Fields):
    """A value with the fields that its class annotates, in their order; those with defaults come last."""

    __slots__ = tuple[str, ...]()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{field}={getattr(self, field)!r}" for field in self.__slots__)
        return f"{type(self).__name__}({shown})"
