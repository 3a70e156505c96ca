"""Send a golden set and the result of a run to an observability platform."""

from __future__ import annotations

from typing import NamedTuple


class PlatformEntry(NamedTuple):
    """A platform in the table."""

    title: str
    module: str
    """Opens a dataset by its function `connect`; see `replaydiff.cases.push.platform`."""


PLATFORMS = {
    "langfuse": PlatformEntry("Langfuse", "replaydiff.cases.push.langfuse"),
    "phoenix": PlatformEntry("Phoenix", "replaydiff.cases.push.phoenix"),
    "mlflow": PlatformEntry("MLflow", "replaydiff.cases.push.mlflow"),
    "langsmith": PlatformEntry("LangSmith", "replaydiff.cases.push.langsmith"),
    "braintrust": PlatformEntry("Braintrust", "replaydiff.cases.push.braintrust"),
}
"""Name → title and module."""
