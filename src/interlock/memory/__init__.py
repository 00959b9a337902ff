"""What earlier work has learned: the `MemoryStore` port and its implementations."""
