"""How it is known that the work of a task is good: rows of evidence, and the only words that are made of them.

A row is `{kind, command, exit_code, tree, at, by, red_before}`; what is not known is null. `kind` is `verify` (a check
that Interlock ran itself; it also has `passed`, `seconds`, `timed_out`, `tail`, and, where it ran on the merged tree,
`merged` and `changed_check`, the files of the check itself that the work has changed or deleted), `exit_code` (the
task's own command), `approval`, `diff` (what was merged) or `artifact`. `tree` is the git tree that the row is about,
`red_before` whether the same check failed on the tree before the work.
"""

from __future__ import annotations

from interlock.model.names import SYSTEM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

UNVERIFIED = "unverified"
NOT_STARTED = "could not start"
GREEN_BEFORE = "verified (green before the work, too)"


def row(kind: str, at: str, by: str | None, **known: Any) -> dict[str, Any]:
    """A row of that kind, with null for what is not known."""
    head: dict[str, Any] = {"kind": kind, "command": None, "exit_code": None, "tree": None, "at": at, "by": by}
    return {**head, "red_before": None, **known}


def check(found: Mapping[str, Any], at: str) -> dict[str, Any]:
    """The row of a check that Interlock ran, which ended as `found` says."""
    return {**row("verify", at, SYSTEM), **found}


def ended(found: Mapping[str, Any]) -> str:
    """How a check ended, in words."""
    if found.get("ended"):
        return str(found["ended"])
    if found.get("timed_out"):
        return "took too long"
    if "exit_code" in found and found["exit_code"] is None:
        return NOT_STARTED
    return f"ended with exit code {found.get('exit_code')}"


def latest_check(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The newest check; it is the one that counts."""
    return next((one for one in reversed(rows) if one["kind"] == "verify"), None)


def is_verified(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a check passed, and none has failed since."""
    found = latest_check(rows)
    return bool(found and found.get("passed"))


def in_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """What these rows show of finished work, neither more nor less."""
    told = []
    if is_verified(rows):
        found = latest_check(rows) or {}
        told.append(GREEN_BEFORE if found.get("red_before") is False else "verified")
        if found.get("changed_check"):
            told.append(f"the work changed its check: {', '.join(found['changed_check'][:3])}")
    elif any(one["kind"] == "exit_code" and one["exit_code"] == 0 for one in rows):
        told.append("exit code 0")
    told += [f"approved by {one['by']}" for one in rows if one["kind"] == "approval"]
    return ", ".join(dict.fromkeys(told)) or UNVERIFIED
