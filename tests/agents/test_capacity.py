"""What agents say when they cannot work now, and when they say that they can again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from interlock.agents.capacity import recognise, retry_at
from interlock.agents.profiles import load

NOW = datetime(2026, 11, 21, 14, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("Claude AI usage limit reached|1795280000", 1795280000 - NOW),
        ("resets at 2026-11-21T15:00:00Z", 1800),
        ("Try again in 2 hours 13 minutes.", 2 * 3600 + 13 * 60),
        ("try again in 3 days 4 hours", 3 * 86400 + 4 * 3600),
        ("Please retry after 30s", 30),
        ("Please try again in 1m30s.", 90),
        ("Rate limit reached, try again in 350ms", 0),
        ("Please retry in 239.45s.", 239),
        ('{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "734s"}', 734),
        ('429 {"retry-after": "400", "x": "1"}', 400),
        ("status 429, Retry-After: Sat, 21 Nov 2026 15:00:00 GMT", 1800),
        ("You've hit your limit · resets 3pm (UTC)", 1800),
        ("Your limit will reset at 2:29pm (UTC)", 86400 - 60),
        # So says Codex in the last minute before the reset. Waiting a day costs a night, trying too early a minute.
        ("or try again at 2:30 PM (UTC).", 0),
        ("or try again at Nov 22nd, 2026 2:30 PM (UTC)", 86400),
        ("session limit reached, resets 9am (Europe/Berlin)", (8 - 14.5 + 24) * 3600),
    ],
)
def test_the_time_of_a_new_try_is_read_from_the_words(text: str, after: float) -> None:
    found = retry_at(text, NOW)
    assert found is not None and abs(found - NOW - after) < 61


@pytest.mark.parametrize("text", ["", "overloaded", "see https://x.example/2019", "resets soon", "in 5000 days"])
def test_no_time_is_made_up(text: str) -> None:
    assert retry_at(text, NOW) is None


@pytest.mark.parametrize(
    ("agent", "reason", "login"),
    [
        ("claude", "API Error: Request rejected (429) · too many\nrate_limit", False),
        ("claude", "You've hit your session limit · resets 3pm (UTC)", False),
        ("claude", "API Error: Repeated 529 Overloaded errors.", False),
        ("claude", "Invalid API key · Fix external API key\nauthentication_failed", True),
        ("codex", "You've hit your usage limit. Try again in 2 hours.", False),
        ("codex", "exceeded retry limit, last status: 429 Too Many Requests", False),
        ("codex", "unexpected status 401 Unauthorized: invalid key", True),
        ("gemini", "You have exhausted your daily quota on this model.", False),
        ("opencode", "AI_APICallError: Overloaded", False),
    ],
)
def test_the_words_of_each_program_are_known(agent: str, reason: str, login: bool) -> None:
    found = recognise(load()[agent].limits, reason, "", NOW)
    assert found is not None and found.login is login
    assert (found.retry_at is None) is login


def test_too_many_requests_are_no_usage_limit() -> None:
    """As Claude Code 2.1 says it where it was told `retry-after`, of which its words say nothing: a minute, not 15."""
    said = "API Error: Request rejected (429) · This request would exceed your account's rate limit.\nrate_limit"
    found = recognise(load()["claude"].limits, said, "", NOW)
    assert found is not None and found.retry_at == NOW + 60


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "opencode"])
def test_an_agent_that_talks_of_limits_has_not_hit_one(agent: str) -> None:
    limits = load()[agent].limits
    assert recognise(limits, "", "I have raised the usage limit to 5 and handled the 429.", NOW) is None
    assert recognise(limits, "the file src/limits.py does not exist", "", NOW) is None
