"""What is done when some of several validators could not be heard (BMAD-6.3, FR47c).

A validator *fails* when it died, took too long, or said nothing that can be read; one that finds issues has done its
work. For six the rows are those of the specification. For fewer the same shares hold: all heard, at least two thirds,
more than one, one, none. One alone is always the context of the others' second try, however few they are.
"""

from __future__ import annotations

PROCEED = "proceed"
RETRY_FAILED = "retry_failed_sequentially"
RETRY_ALL = "retry_all"
WITH_CONTEXT = "retry_failed_with_context"
SEQUENTIAL = "sequential_fallback"
ENOUGH = 4 / 6


def handling(heard: int, of: int) -> str:
    """What follows when `heard` of so many validators were heard."""
    if heard >= of:
        return PROCEED
    if heard == 0:
        return SEQUENTIAL
    if heard == 1:
        return WITH_CONTEXT
    return RETRY_FAILED if heard / of >= ENOUGH else RETRY_ALL
