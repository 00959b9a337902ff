"""What is known before a workflow starts: which one is meant, where, how big the work is, and what is missing."""
