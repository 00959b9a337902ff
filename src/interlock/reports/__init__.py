"""What people want to know of a team, as data: now (`status`), over a night (`report`), and what waits for them.

Faces turn it into text, Markdown or a page (`report_text`); nothing here formats for one of them.
"""

from __future__ import annotations

from interlock.reports.needs import folded, in_team, may_take, needs_me
from interlock.reports.night import report
from interlock.reports.present import in_words, last_words, status, unable

__all__ = ["folded", "in_team", "in_words", "last_words", "may_take", "needs_me", "report", "status", "unable"]
