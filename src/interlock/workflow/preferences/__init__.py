"""What people prefer: overrides, profiles, feedback, pace and progress."""
