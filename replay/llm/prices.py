"""Price tokens: by the table `prices.toml`, overridden by `[prices]` of replay.toml.

    cost = uncached input · input + cache writes · cache_write + cache reads · cache_read + output · output

in dollars per million tokens; cache prices that are not given are 1.25 and 0.1 of the input price (the
vendor's rule for five-minute caches). A model's name counts without a date at its end and without what a
gateway puts before it: `anthropic/claude-haiku-4-5`, `claude-haiku-4-5-20251001` cost what
`claude-haiku-4-5` does.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from replaydiff.replay.model import Usage
from replaydiff.replay.settings import Price

TABLE = Path(__file__).with_name("prices.toml")
_MILLION = 1_000_000


def price_of(model: str, configured: Mapping[str, Price] | None = None) -> Price | None:
    """Return the price of a model: the user's own (`[prices]`), else the table's.

    None where neither knows it.
    """
    plain = _plain(model)
    for table in (configured or {}, _table()):
        if price := table.get(model) or table.get(plain):
            return price
    return None


def cost(model: str, usage: Usage, configured: Mapping[str, Price] | None = None) -> float | None:
    """Return the price of these tokens in US dollars; None if the model's price is unknown."""
    price = price_of(model, configured)
    if price is None:
        return None
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    write = price.cache_write if price.cache_write is not None else price.input * 1.25
    read = price.cache_read if price.cache_read is not None else price.input * 0.1
    return (
        max(0, usage.input_tokens - cached) * price.input
        + usage.cache_write_tokens * write
        + usage.cache_read_tokens * read
        + usage.output_tokens * price.output
    ) / _MILLION


def doubt(model: str, configured: Mapping[str, Price] | None = None) -> str | None:
    """Return a warning if the cost of this model is unknown or uncertain; None otherwise."""
    price = price_of(model, configured)
    if price is None:
        return (
            f"the price of {model} is not known, so what it costs is not counted; "
            f'give it in replay.toml: [prices."{model}"] with input and output in dollars per million tokens'
        )
    return f"the price of {model} is not certain: {price.note}" if price.note else None


@functools.cache
def _table() -> dict[str, Price]:
    with TABLE.open("rb") as file:
        return {model: Price(**keys) for model, keys in tomllib.load(file).items()}


def _plain(model: str) -> str:
    """Return `us.anthropic.claude-haiku-4-5-20251001-v1:0` → `claude-haiku-4-5`."""
    match = re.search(r"[a-z]+-[a-z0-9.-]*\d", model.lower().rsplit("/", 1)[-1].split("anthropic.")[-1])
    name = match.group() if match else model
    return re.sub(r"(-v\d+)?$", "", re.sub(r"-20\d{6}(-v\d+)?$", "", name))
