"""Party Mode: discussions of several voices about a run's work, led by the Party Mode Driver."""
