"""Processes: which is which, the programs that Interlock runs, and how everything that they start is ended."""
