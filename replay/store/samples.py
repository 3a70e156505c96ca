"""Samples in the store: written once, never changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from replaydiff.replay.errors import InputError, UnknownNameError
from replaydiff.replay.model import SampleItem, SampleRecord
from replaydiff.replay.store.connection import transaction
from replaydiff.replay.store.rows import TableRows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SAMPLES = TableRows(SampleRecord, "samples", columns={"where": "where_clause", "by": "by_fields"})
_ITEMS = TableRows(SampleItem, "sample_items")

SAMPLED = "(SELECT unnest(list_prepend(trace_id, turns)) FROM sample_items)"
"""SQL for the ids of the traces that samples hold, all turns of conversations among them."""


def write_sample(con: DuckDBPyConnection, sample: SampleRecord, items: Sequence[SampleItem]) -> bool:
    """Store a drawn sample. Return False if an identical one exists; then nothing is written.

    Raises:
        InputError: another sample has that name.
    """
    if sample.name in [stored.name for stored in list_samples(con)]:
        if is_stored(con, sample, items):
            return False
        raise name_conflict(get_sample(con, sample.name), sample)
    with transaction(con):
        _SAMPLES.insert(con, [sample])
        _ITEMS.insert(con, items)
    return True


def name_conflict(stored: SampleRecord, drawn: SampleRecord) -> InputError:
    """Return the error for a sample that differs from the stored one of its name."""
    same_draw = drawn == replace(
        stored, size=drawn.size, population=drawn.population, created_at=drawn.created_at
    )
    new = f"`--name {drawn.name}-{drawn.size}`"
    if not same_draw or drawn.size == stored.size:
        hint = "choose another --name"
    elif drawn.population != stored.population:
        hint = f"its traces are {drawn.population} now; {new} draws from all of them"
    elif drawn.size > stored.size:
        hint = f"{new} draws these {stored.size} and {drawn.size - stored.size} more"
    else:
        hint = f"{new} draws {drawn.size} of these"
    return InputError(
        f"sample {stored.name!r} exists with {stored.size} of {stored.population} traces, and a sample is "
        "never changed, because runs refer to it",
        hint=hint,
    )


def get_sample(con: DuckDBPyConnection, name: str) -> SampleRecord:
    """Return a sample by name.

    Raises:
        UnknownNameError: there is none of that name.
    """
    samples = {sample.name: sample for sample in list_samples(con)}
    if name not in samples:
        raise UnknownNameError("sample", name, samples, "draw one with `replay sample`")
    return samples[name]


def list_samples(con: DuckDBPyConnection) -> list[SampleRecord]:
    """Return all samples, oldest first."""
    return _SAMPLES.select(con, "ORDER BY created_at, name")


def sample_items(con: DuckDBPyConnection, name: str) -> list[SampleItem]:
    """Return the items of a sample in the order of the draw.

    Raises:
        UnknownNameError: there is no sample of that name.
    """
    get_sample(con, name)
    return _ITEMS.select(con, "WHERE sample = ? ORDER BY position", [name])


def is_stored(con: DuckDBPyConnection, sample: SampleRecord, items: Sequence[SampleItem]) -> bool:
    """Return whether the sample of that name is this very one.

    Raises:
        UnknownNameError: there is no sample of that name.
    """
    stored = get_sample(con, sample.name)
    return stored == replace(sample, created_at=stored.created_at) and sample_items(con, sample.name) == list(
        items
    )
