"""What runs leave in memory: the Memory Bridge writes it, the Post-Workflow Curator finds out what is worth it."""
