"""Values and rules without I/O."""
