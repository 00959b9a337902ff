"""The report as text, Markdown and HTML: complete, and harmless whatever a task or a program has said."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from interlock.model import report as report_text

NASTY = "<script>alert(1)</script> `rm` *x* \x1b[31m\x07"


@pytest.fixture
def found() -> dict[str, Any]:
    """A report with one of everything."""
    brief = {"task_id": "TASK-2026-01-31-001", "subject": NASTY, "key": "one", "state": "done", "priority": "normal"}
    brief |= {"assignee": None, "completed_at": "2026-01-31T10:00:00.000Z"}
    check = {"kind": "verify", "command": "true", "exit_code": 0, "seconds": 0.5, "passed": True, "tail": NASTY}
    spent = {"turns": 3, "input_tokens": 1200, "output_tokens": 34, "cost_usd": 0.5}
    counted = {"spent": spent, "runs": 2, "attempts": 2, "seconds": 61.0, "by": "bob", "failed_checks": 1}
    return {
        "team": "crew",
        "since": None,
        "needs_me": [{"kind": "deadletter", "task_id": "TASK-2026-01-31-002", "text": NASTY, "verb": "retry"}],
        "done": [{**brief, **counted, "evidence": [check], "verified": True, "proof": "verified", "output": NASTY}],
        "failed": [{**brief, **counted, "evidence": [], "reason": f"was killed\n\n```\n{NASTY}"}],
        "incidents": [
            {"task_id": "TASK-2026-01-31-001", "key": "one", "run": 1, "member": "bob", "outcome": "failed",
             "at": "2026-01-31T09:00:00.000Z", "reason": NASTY}
        ],
        "left": [{**brief, "blocked_by": [], "why": "waits for one, which is in deadletter"}],
        "cancelled": [brief],
        "counts": {"done": 1},
        "totals": {"spent": spent, "runs": 4, "seconds": 122.0, "elapsed": 90.0, "began_at": None, "ended_at": None},
    }  # fmt: skip


def test_the_text_says_everything_and_steers_no_terminal(found: dict[str, Any]) -> None:
    text = "\n".join(report_text.as_text(found))
    for wanted in (
        "Needs you",
        "was killed",
        "in deadletter",
        "bob",
        "2 runs",
        "4 runs in 1m",
        "3 turns, 1,234 tokens, 0.50 USD",
        "verified after 1 failed check: true",
    ):
        assert wanted in text
    assert "\x07" not in text
    assert not re.findall(r"\x1b(?!\[[0-9;]*m)", text) and "\x1b[31m\x07" not in text


def test_the_page_is_well_formed_and_runs_nothing(found: dict[str, Any]) -> None:
    page = "\n".join(report_text.as_html(found))
    tags: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)

    Tags().feed(page)
    assert "script" not in tags and "html" in tags and "&lt;script&gt;" in page


def test_markdown_shows_what_was_said_as_it_was(found: dict[str, Any]) -> None:
    lines = report_text.as_markdown(found)
    fences = [line.strip() for line in lines if re.fullmatch(r"\s*`{3,}", line)]
    assert "````" in fences, "a fence longer than the one inside"
    outside = re.sub(r"(?ms)^ *(`{3,})$.*?^ *\1$", "", "\n".join(lines))
    assert "&lt;" not in outside and not re.search(r"(?<!\\)<script>", outside)
