"""What drives a team: the worker that runs tasks, what it lets programs see, and how it checks their results."""
