"""Langfuse as a source: files, and a server asked over its API."""

from __future__ import annotations

from replaydiff.importers.langfuse.files import NAME, SUMMARY, TELL, read_files, recognises
from replaydiff.importers.langfuse.live import origin, read_live

__all__ = ["NAME", "SUMMARY", "TELL", "origin", "read_files", "read_live", "recognises"]
