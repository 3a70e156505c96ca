"""Langfuse: `rows` (what a file holds) → `spool` (grouped by trace, on disk) → `observations` → `trace`."""
