"""Stories by themselves: which there are, what each waits for, the lane that implements one, and what comes of it."""
