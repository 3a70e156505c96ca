"""Traces that came without content: who can turn it on, and where.

Importers of spans say which setting it is for the instrumentation that wrote them. Here is what holds for a
whole source.
"""

from __future__ import annotations

from replaydiff.replay.model import Trace, TraceState

TURNED_ON_BY = {
    "langfuse": "@observe(capture_input=True, capture_output=True), "
    "LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED not false, or a mask function that leaves text",
    "langsmith": "LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS not true",
    "mlflow": "set_inputs and set_outputs on spans made by hand, and no span processor that empties them",
}
"""Source → the setting of the user's instrumentation that puts content into traces."""


def missing_content(trace: Trace) -> bool:
    """Whether what the agent was asked is not in the trace, so that there is nothing to replay."""
    return trace.state is TraceState.NO_CONTENT
