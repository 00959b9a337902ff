"""Waking those who wait for a change of a team: the `Notifier` port and its implementations."""
