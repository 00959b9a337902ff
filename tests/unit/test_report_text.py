"""The report as text, Markdown and HTML: complete, and harmless whatever a task or a program has said."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from interlock.model import report as report_text
from interlock.model.json import Json
from interlock.model.report import DoneTask, EndedTask, FailedTask, Incident, LeftTask, RunTotals, TeamReport
from interlock.model.status import Need

NASTY = "<script>alert(1)</script> `rm` *x* \x1b[31m\x07"


@pytest.fixture
def found() -> TeamReport:
    """A report with one of everything."""
    brief = ("TASK-2026-01-31-001", NASTY, "done", "one", "normal", None, "2026-01-31T10:00:00.000Z")
    check = {"kind": "verify", "command": "true", "exit_code": 0, "seconds": 0.5, "passed": True, "tail": NASTY}
    spent = {"turns": 3, "input_tokens": 1200, "output_tokens": 34, "cost_usd": 0.5}
    counted: Json = {"spent": spent, "runs": 2, "attempts": 2, "seconds": 61.0, "by": "bob"}
    return TeamReport(
        team="crew",
        since=None,
        needs_me=[Need("deadletter", "TASK-2026-01-31-002", NASTY, "retry")],
        done=[
            DoneTask(
                *brief, **counted, merged=None, delivered=None, files=[], only_files=False, failed_checks=1,
                evidence=[check], verified=True, proof="verified", output=NASTY,
            )
        ],
        failed=[FailedTask(*brief, **counted, evidence=[], reason=f"was killed\n\n```\n{NASTY}")],
        incidents=[Incident(brief[0], "one", 1, "bob", "2026-01-31T09:00:00.000Z", "failed", NASTY)],
        left=[LeftTask(*brief, blocked_by=[], why="blocked by one (failed)")],
        cancelled=[EndedTask(*brief)],
        integration=None,
        kept=[],
        counts={"done": 1},
        totals=RunTotals(4, 122.0, spent, 90.0, None, None),
    )  # fmt: skip


def test_the_text_says_everything_and_steers_no_terminal(found: TeamReport) -> None:
    text = "\n".join(report_text.as_text(found))
    for wanted in (
        "Needs you",
        "was killed",
        "blocked by one (failed)",
        "bob",
        "2 runs",
        "4 runs in 1m",
        "3 turns, 1,234 tokens, 0.50 USD",
        "verified after 1 failed check: true",
    ):
        assert wanted in text
    assert "\x07" not in text
    assert not re.findall(r"\x1b(?!\[[0-9;]*m)", text) and "\x1b[31m\x07" not in text


def test_the_page_is_well_formed_and_runs_nothing(found: TeamReport) -> None:
    page = "\n".join(report_text.as_html(found))
    tags: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)

    Tags().feed(page)
    assert "script" not in tags and "html" in tags and "&lt;script&gt;" in page


def test_markdown_shows_what_was_said_as_it_was(found: TeamReport) -> None:
    lines = report_text.as_markdown(found)
    fences = [line.strip() for line in lines if re.fullmatch(r"\s*`{3,}", line)]
    assert "````" in fences, "a fence longer than the one inside"
    outside = re.sub(r"(?ms)^ *(`{3,})$.*?^ *\1$", "", "\n".join(lines))
    assert "&lt;" not in outside and not re.search(r"(?<!\\)<script>", outside)
