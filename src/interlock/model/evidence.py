"""How it is known that the work of a task is good: rows of evidence, and the only words that are made of them.

A row is `{kind, command, exit_code, tree, at, by, red_before}`; what is not known is null. `kind` is `verify` (a check
that Interlock ran itself; it also has `passed`, `seconds`, `timed_out`, `tail`, `changed_check`, the files of the check
itself that the work has changed, and, where it ran on the merged tree, `merged` and `earlier`, whether it passes with
the earlier ones as well; shown with `own_check`, which sums these up), `exit_code` (the task's own command),
`approval`, `diff` (what was merged) or `artifact`. `tree` is the git tree that the row is about, `red_before` whether
the same check failed on the tree before the work.
"""

from __future__ import annotations

from interlock.model.names import SYSTEM
from interlock.model.text import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

UNVERIFIED = "unverified"
NOT_STARTED = "could not start"
GREEN_BEFORE = "green before the work, too"
EARLIER_PASS = "its tests changed; the earlier ones pass, too"
ONLY_CHANGED = "verified only by tests it changed"


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


def changed_check(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The files of its own check that the work has changed, as far as the newest check tells."""
    return list((latest_check(rows) or {}).get("changed_check") or ())


def shown(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows as they are shown. Those of checks have `own_check`: null where the work has left its check alone,
    `earlier_passes` where the earlier files of the check pass as well, else `changed`."""
    return [{**one, "own_check": _own_check(one)} if one["kind"] == "verify" else dict(one) for one in rows]


def _own_check(one: Mapping[str, Any]) -> str | None:
    if not one.get("changed_check"):
        return None
    return "earlier_passes" if one.get("earlier") else "changed"


def in_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """What these rows show of finished work, neither more nor less."""
    told = []
    if is_verified(rows):
        found = latest_check(rows) or {}
        changed, earlier = changed_check(rows), found.get("earlier")
        beside = [GREEN_BEFORE] if found.get("red_before") is False else []
        beside += [EARLIER_PASS] if changed and earlier else []
        word = ONLY_CHANGED if changed and earlier is False else "verified"
        told.append(f"{word} ({'; '.join(beside)})" if beside else word)
        if changed:
            told.append(f"{'the work changed its check' if earlier is None else 'namely'} {named(changed, 3)}")
    elif any(one["kind"] == "exit_code" and one["exit_code"] == 0 for one in rows):
        told.append("exit code 0")
    told += [f"approved by {one['by']}" for one in rows if one["kind"] == "approval"]
    return ", ".join(dict.fromkeys(told)) or UNVERIFIED
