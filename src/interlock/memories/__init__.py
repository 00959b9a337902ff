"""Memories, each an implementation of `interlock.memory`."""
