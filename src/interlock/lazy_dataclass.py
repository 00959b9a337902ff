"""Dataclasses whose methods are written when they are first called.

The standard library writes the source of each method of a dataclass and compiles it as the class is made: about a
millisecond for each frozen class on Python 3.11, where a command loads hundreds of classes and makes objects of a few.
Here the standard library still makes the class; only what it would compile waits for its first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import copy
    import dataclasses

    WRITTEN = {"__init__": "init", "__repr__": "repr", "__eq__": "eq", "__hash__": "unsafe_hash"}
    """The methods that the standard library writes, and the option that asks for each."""

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, kw_only=False):
        """`dataclasses.dataclass`, with those of its options that are in use here and the same results."""

        def decorate(cls: type) -> type:
            return _made(cls, frozen=frozen, slots=slots, eq=eq, kw_only=kw_only)

        return decorate if cls is None else decorate(cls)

    def _made(cls: type, *, frozen: bool, slots: bool, eq: bool, kw_only: bool) -> type:
        own = {name for name, value in vars(cls).items() if value is not None}  # `__hash__` is null beside an `__eq__`
        heir = any(base.__dataclass_params__.frozen for base in cls.__mro__ if dataclasses.is_dataclass(base))
        options = {"frozen": frozen and heir, "slots": slots, "kw_only": kw_only}
        cls = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
        cls.__dataclass_params__.frozen = frozen
        late = {method: _written_when_called(cls, method, frozen) for method in WRITTEN}
        if not eq:
            del late["__eq__"], late["__hash__"]
        elif not frozen:
            late["__hash__"] = None
        if frozen:
            late |= _refusals(cls)
            if slots:
                late |= {"__getstate__": _state, "__setstate__": _set_state}
        for method in late.keys() - own:
            setattr(cls, method, late[method])
        return cls

    def _written_when_called(cls: type, method: str, frozen: bool) -> Any:
        def write(self: Any, *args: Any, **kwargs: Any) -> Any:
            fields = cls.__dataclass_fields__
            body = {
                **{name: copy.copy(field) for name, field in fields.items()},
                "__annotations__": {name: field.type for name, field in fields.items()},
                **{name: getattr(cls, name) for name in ("__doc__", "__module__", "__qualname__")},
            }
            if hasattr(cls, "__post_init__"):
                body["__post_init__"] = cls.__post_init__
            options = {"init": False, "repr": False, "eq": False, WRITTEN[method]: True}
            twin = dataclasses.dataclass(frozen=frozen and method == "__init__", **options)(
                type(cls.__name__, (), body)
            )
            written = vars(twin)[method]
            setattr(cls, method, written)
            return written(self, *args, **kwargs)

        write.__name__, write.__qualname__ = method, f"{cls.__qualname__}.{method}"
        return write

    def _refusals(cls: type) -> dict[str, Any]:
        """An heir that is no dataclass may still set what is its own, as with the standard library."""

        def refuse(self: Any, name: str, what: str) -> None:
            if type(self) is cls or name in cls.__dataclass_fields__:
                raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")

        def set_own(self: Any, name: str, value: object) -> None:
            refuse(self, name, "assign to")
            super(cls, self).__setattr__(name, value)

        def delete_own(self: Any, name: str) -> None:
            refuse(self, name, "delete")
            super(cls, self).__delattr__(name)

        return {"__setattr__": set_own, "__delattr__": delete_own}

    def _state(self: Any) -> list[Any]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def _set_state(self: Any, state: list[Any]) -> None:
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)
