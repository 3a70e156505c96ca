"""LangSmith: `runs` (what a run holds) → `trace` (what they mean together); `live` asks a server."""
