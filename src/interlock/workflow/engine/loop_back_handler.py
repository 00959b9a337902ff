"""Loop-Back Handler: validate, edit, validate again, and know when to stop (FR24, FR25, stories 5.9 and 5.10).

Pure, over a record that can be kept as JSON: `validated` takes a loop and what a validation found, and gives the loop
as it is then with what it calls for. A loop begins at iteration 0; each validation that follows an edit ends one
iteration more. Whatever errors come, in whatever order, it calls for another edit at most ten times.

- ten iterations, and still errors: the run ends (`max_iterations_exceeded`) with a summary of the attempts;
- the same error three times in a row: a human is asked (`persistent_error`);
- the same error three times within five iterations: edits undo one another (`oscillation_detected`), likewise;
- as the last iteration but one begins, people are warned.

Errors are told apart one by one, by what `stalls` leaves of them, so that one that stays is noticed among others that
come and go.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import takewhile
from typing import Any, Literal

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of
from interlock.workflow.engine.stalls import issue_hash

MAX_VALIDATION_ITERATIONS = 10
MAX_SAME_ERROR_RETRIES = 3
WINDOW = 5
RECURRENCES = 3

MAX_ITERATIONS = "max_iterations_exceeded"
PERSISTENT = "persistent_error"
OSCILLATION = "oscillation_detected"

KEPT_ERRORS = 20  # of one iteration
KEPT_TEXT = 500  # characters of one of them

LINE = re.compile(r"(?::\d+(?:[-:,]\d+)*)+$")

Error = str | Mapping[str, Any]
"""What a validation found wrong: a sentence, or fields; `title` is what is shown of those, if there is one."""


@dataclass(frozen=True)
class Loop:
    """One loop. `errors_by_iteration` is what each validation found, that of iteration 0 being the first;
    `signatures` are those of the latest ones since a human last said what to do. `same_error_count` is how many
    validations in a row found the error that has stood longest. `open`: errors are being fixed."""

    current_iteration: int = 0
    max_iterations: int = MAX_VALIDATION_ITERATIONS
    errors_by_iteration: Mapping[str, Sequence[str]] = field(default_factory=dict)
    same_error_count: int = 0
    signatures: list[list[str]] = field(default_factory=list)
    open: bool = False

    def as_dict(self) -> Json:
        """As it is kept."""
        return fields_of(self, self.__dataclass_fields__)

    @classmethod
    def of(cls, kept: Mapping[str, Any] | None) -> Loop:
        """The loop that `as_dict` gave; a new one of none."""
        return cls(**{name: value for name, value in (kept or {}).items() if name in cls.__dataclass_fields__})

    def status(self) -> Json:
        """What is shown to whoever asks how far it is (BMAD-5.9.3)."""
        return {name: value for name, value in self.as_dict().items() if name not in ("signatures", "open")}


@dataclass(frozen=True)
class Judgement:
    """What a validation calls for: `passed`, another `edit`, to `escalate` to a human, or to `end` the run.

    `error` is the code of the last two, `details` what people are told of it. `iterated`: it ended an iteration.
    `warning` is a sentence for people, where one more iteration fits and no further.
    """

    action: Literal["passed", "edit", "escalate", "end"]
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    iterated: bool = False
    warning: str | None = None


def validated(loop: Loop, errors: Iterable[Error]) -> tuple[Loop, Judgement]:
    """The loop after a validation that found `errors`, none where it passed, and what that calls for."""
    found = list(errors)
    if not found and not loop.open:
        return loop, Judgement("passed")
    marks = list(dict.fromkeys(signature(one) for one in found))
    recent = [*loop.signatures, marks][-max(WINDOW, loop.max_iterations) :]
    iteration = loop.current_iteration + loop.open
    after = Loop(
        iteration,
        loop.max_iterations,
        {**loop.errors_by_iteration, str(iteration): [_shown(one) for one in found[:KEPT_ERRORS]]},
        max((_run_of(mark, recent) for mark in marks), default=0),
        recent,
        bool(found),
    )
    return after, _judged(after, found, iterated=loop.open)


def advised(loop: Loop) -> Loop:
    """After a human has said what to do: what came before is no sign of a loop any more. Iterations go on counting."""
    return Loop(loop.current_iteration, loop.max_iterations, loop.errors_by_iteration, 0, [], loop.open)


def signature(error: Error) -> str:
    """By what an error is known again: without times, durations, places in /tmp, case and white space. Of one that has
    a title, by that and its file: the line moves with every edit."""
    if not isinstance(error, str) and error.get("title"):
        place = LINE.sub("", str(error.get("location") or ""))
        return issue_hash([{"title": error["title"], "location": place}])[:16]
    return issue_hash([error])[:16]


def attempts(loop: Loop) -> str:
    """The summary of a loop for people: what each validation found."""
    lines = []
    for key, errors in loop.errors_by_iteration.items():
        when = "at first" if key == "0" else f"iteration {key}"
        said = "; ".join(errors[:5]) or "nothing"
        lines.append(f"- {when}: {said}{f' (and {len(errors) - 5} more)' if len(errors) > 5 else ''}")
    return "\n".join(lines)


def _judged(loop: Loop, found: Sequence[Error], *, iterated: bool) -> Judgement:
    if not found:
        return Judgement("passed", iterated=iterated)
    if loop.current_iteration >= loop.max_iterations:
        details = {**loop.status(), "attempts": attempts(loop)}
        return Judgement("end", MAX_ITERATIONS, details, iterated)
    if loop.same_error_count >= MAX_SAME_ERROR_RETRIES:
        standing = [_shown(one) for one in found if _run_of(signature(one), loop.signatures) >= MAX_SAME_ERROR_RETRIES]
        details = {"errors": standing, "same_error_count": loop.same_error_count, "attempts": attempts(loop)}
        return Judgement("escalate", PERSISTENT, details, iterated)
    latest = loop.signatures[-WINDOW:]
    counts = Counter(mark for marks in latest for mark in marks)
    back = frozenset(mark for mark, count in counts.items() if count >= RECURRENCES and mark in latest[-1])
    if back:
        details = {"errors": [_shown(one) for one in found if signature(one) in back], "attempts": attempts(loop)}
        details |= {"window": WINDOW, "pattern": pattern(loop.signatures[-WINDOW:])}
        return Judgement("escalate", OSCILLATION, details, iterated)
    warning = None
    if loop.current_iteration == loop.max_iterations - 2:
        begins = loop.current_iteration + 1
        warning = f"iteration {begins} of {loop.max_iterations} begins: after {loop.max_iterations} the run ends"
    return Judgement("edit", iterated=iterated, warning=warning)


def pattern(signatures: Sequence[Sequence[str]]) -> str:
    """The order in which errors came, a letter for each: `A, B, A, B, A`; `-` for none, `A+B` for both at once."""
    letters: dict[str, str] = {}
    for marks in signatures:
        for mark in marks:
            letters.setdefault(mark, _letter(len(letters)))
    return ", ".join("+".join(letters[mark] for mark in marks) or "-" for marks in signatures)


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else f"#{number + 1}"


def _run_of(mark: str, signatures: Sequence[Sequence[str]]) -> int:
    """In how many of the latest validations, one after another, that error was found."""
    return sum(1 for _ in takewhile(lambda marks: mark in marks, reversed(signatures)))


def _shown(error: Error) -> str:
    if isinstance(error, str):
        text = error
    else:
        text = str(error.get("title") or error.get("message") or dict(error))
        place = error.get("location")
        text = f"{text} ({place})" if place else text
    text = " ".join(text.split())
    return text if len(text) <= KEPT_TEXT else text[: KEPT_TEXT - 1] + "…"
