"""Implementations of the notifier port; only `interlock.app` names them."""
