"""Lists over HTTP: `?limit=` items behind `?after=`, and `next`, the `after` of the following page, null at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import Depends, Query

from interlock.app.base import place_after
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json

MOST = 10_000


@dataclass(frozen=True, slots=True)
class ListPage:
    """The part of a list that is asked for: all of it where nothing is said."""

    limit: int | None = None
    after: str | None = None

    def of(self, under: str, found: Sequence[Any], name: Callable[[Any], Any] | None = None) -> Json:
        """Return that part of a list as an answer.

        Args:
            name: tells an item from all others; by default its place, which is for lists that only grow at their end.

        Raises:
            InvalidRequest: nothing in the list has the name `after`.
        """
        names = [str(place) for place in range(len(found))] if name is None else [name(one) for one in found]
        start = place_after(names, self.after)
        end = len(found) if self.limit is None else start + self.limit
        return {under: found[start:end], "next": names[end - 1] if end < len(found) else None}


def _page(
    limit: Annotated[int | None, Query(ge=1, le=MOST)] = None,
    after: Annotated[str | None, Query(max_length=1000)] = None,
) -> ListPage:
    return ListPage(limit, after)


Paged = Annotated[ListPage, Depends(_page)]
