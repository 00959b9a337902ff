"""Waking those who wait for a change of a team: the `Notifier` port and its implementations.

What a waiter needs, `wakeup.notifier` and `wakeup.waiters`, comes with the first one: most only wake others.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name == "notifier":
        import interlock.wakeup.notifier

        return interlock.wakeup.notifier
    if name == "waiters":
        import interlock.wakeup.waiters

        return interlock.wakeup.waiters
    raise AttributeError(f"module 'interlock.wakeup' has no attribute {name!r}")
