"""A run's result in a notebook."""

from __future__ import annotations

from html import escape

from replaydiff.diff.result import DiffResult
from replaydiff.reports.terminal import render


def notebook_html(result: DiffResult) -> str:
    """Return the result as a fragment of HTML that needs nothing from elsewhere."""
    return f"<pre>{escape(render(result, width=100, color=False))}</pre>"
