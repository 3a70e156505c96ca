"""Claude Code and Claude Agent SDK sessions."""
