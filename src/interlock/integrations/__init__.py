"""`interlock join` and `leave`: a project's agent program gets our hooks and MCP entry, and gives them back.

plugin.py         what the plugins of Claude Code and Codex hold, and whether a project loads one
entries.py        which entries go into which files of which program
settings_text.py  putting them in and taking them out, so that the rest of the file stays as it is, to the byte
project.py        both verbs, with what git has to know

`HOOKS`, which every hook loads, says what happens in a program, by the names its hooks have for it (`Window.hear`).
"""

from __future__ import annotations

import os

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
SESSION_VARIABLES = ("CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID", "CODEX_THREAD_ID")
"""In which Claude Code (from 2.1.132 on) and Codex tell the commands they run the session that they tell hooks, too.
Gemini CLI and OpenCode only say that it is them."""
RECORD = os.path.join(".interlock", "join")
"""Where a project keeps what `join` did, from its own directory."""
