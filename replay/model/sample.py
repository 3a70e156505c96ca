"""A named, seeded, reproducible selection of traces."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """A sample as the store keeps it: the same fields over the same traces draw the same items."""

    name: str
    created_at: datetime
    month: str | None
    """`YYYY-MM`, UTC; None for all months."""
    where: str | None
    """The condition on traces, as the person typed it."""
    by: tuple[str, ...]
    """Fields whose values make a stratum: `tool_path`, `model`, `metadata.plan` …"""
    size: int
    """How many items were asked for; the population may have had fewer."""
    seed: int
    population: int
    """How many traces fitted month and condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleItem:
    """One drawn trace. The weights of a sample add up to its population."""

    sample: str
    trace_id: str
    position: int
    """Order of the draw from 0: the first n positions are the sample of size n."""
    stratum: str
    weight: float
    """How many traces of the population this one stands for."""
