"""What happens in a program, by the names its hooks have for it (see `joined.EVENTS`). Loaded by every hook."""

from __future__ import annotations

HOOKS: dict[str, dict[str, str]] = {
    "claude": {
        "SessionStart": "start",
        "UserPromptSubmit": "prompt",
        "PostToolUse": "tool",
        "Stop": "stop",
        "SessionEnd": "end",
    },
    "codex": {"SessionStart": "start", "UserPromptSubmit": "prompt", "PostToolUse": "tool", "Stop": "stop"},
    "gemini": {
        "SessionStart": "start",
        "BeforeAgent": "prompt",
        "AfterTool": "tool",
        "AfterAgent": "stop",
        "SessionEnd": "end",
    },
    # Its hooks are plugins in its own language; it takes part over MCP alone.
    "opencode": {},
}
"""For each program that can join, the hooks we put into its settings."""
