"""The front door for people: projects, chat sessions with their task groups, and what a chat message means."""
