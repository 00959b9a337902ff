"""What a workflow run remembers: its document, where that is kept, checkpoints, the queue, what is watched."""
