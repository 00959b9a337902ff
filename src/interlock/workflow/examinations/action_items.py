"""The findings of a review as items in the story, `- [ ] [High] …`, and their ticks once they are no longer found.

Ticked is only what was certainly written here: a line that is, letter for letter, the item of a finding that the run
knows, below the heading of the round that it belongs to, in the section of the review. Items that a developer or the
package's own review wrote are left to them, and so is what a round may only have worded differently. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.workflow.agents import reviewers
from interlock.workflow.control.examination import APPROVE, BLOCKED, CHANGES, MINOR, Examined, Finding

OUTCOMES = {APPROVE: "Approve", CHANGES: "Changes Requested", BLOCKED: "Blocked"}
OPEN_BOX, TICKED = "- [ ] ", "- [x] "
HEADING = re.compile(r"#{1,6}[ \t]")


def title(round: int, day: str, verdict: str, run: str) -> str:
    """The heading of a round, without its marks."""
    return f"Round {round}, {day}: {OUTCOMES[verdict]} ({run})"


def item(one: Finding, verdict: str) -> str:
    """The line of a finding. What an approval leaves open is no work to do."""
    place = f" [{one.location}]" if one.location else ""
    mend = f" {one.fix}" if one.fix else ""
    box = TICKED if verdict == APPROVE and one.severity == MINOR else OPEN_BOX
    return f"{box}[{one.data.get('level', one.severity)}] {one.title}{place}.{mend}"


def ticked(text: str, section: str, run: str, rounds: Sequence[Mapping[str, Any]], found: Examined) -> str:
    """`text` of a story with the items of a run's earlier rounds ticked that are settled: all of them by an approval,
    else those that are not found again. `section` is the heading that the rounds stand below."""
    lines = text.split("\n")
    for number, kept in enumerate(rounds, 1):
        earlier = Examined.of(kept)
        if kept.get("own") or earlier.verdict not in OUTCOMES:
            continue
        block = _block(lines, section, title(number, "DAY", earlier.verdict, run))
        for one in earlier.findings:
            wanted = item(one, earlier.verdict)
            places = [place for place in block if lines[place].rstrip("\r") == wanted]
            if len(places) == 1 and wanted.startswith(OPEN_BOX) and _settled(one, found):
                lines[places[0]] = TICKED + lines[places[0]].removeprefix(OPEN_BOX)
    return "\n".join(lines)


def _block(lines: Sequence[str], section: str, title: str) -> range:
    """The lines below the heading of a round; none where it is not there exactly once, or not in its section."""
    pattern = re.compile("### " + re.escape(title).replace("DAY", r"\d{4}-\d{2}-\d{2}", 1) + r"\r?")
    starts = [place for place, line in enumerate(lines) if pattern.fullmatch(line)]
    if len(starts) != 1:
        return range(0)
    start = starts[0]
    above = (line for line in reversed(lines[:start]) if re.match(r"#{1,2}[ \t]", line))
    if section.lower() not in next(above, "").lower():
        return range(0)
    end = next((place for place in range(start + 1, len(lines)) if HEADING.match(lines[place])), len(lines))
    return range(start + 1, end)


def _settled(one: Finding, found: Examined) -> bool:
    """Whether a finding is certainly no longer there: approved, or every reviewer has looked and names nothing like it,
    and nothing in its file that might be the same in other words."""
    if found.verdict == APPROVE:
        return True
    if found.details.get("lost"):
        return False
    again = [*found.findings, *(Finding.of(given) for given in found.details.get("further", ()))]
    return bool(one.location) and not any(reviewers.akin(one, other) for other in again)
