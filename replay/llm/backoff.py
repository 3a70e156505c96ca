"""When a provider that failed is asked again: one waiting for all its calls."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping

RETRIES = 6
"""Tries after the first."""
LONGEST_WAIT_S = 60.0
"""The longest pause before a further try, whatever the provider asks for."""
PASSING = frozenset((408, 409, 429))
"""Statuses below 500 after which a request is tried again."""


class Backoff:
    """When to try again, for all calls of one provider together.

    After the n-th failure of a call it waits 0.5·2ⁿ seconds up to 8, less up to a quarter; or, where the
    provider says how long, that long up to `LONGEST_WAIT_S`, and then every other call waits as well.
    """

    def __init__(self) -> None:
        self._not_before = 0.0
        # Spreads the tries of many calls; nothing is decided by it.
        self._random = random.Random()  # noqa: S311

    async def clear(self) -> None:
        """Wait until the provider may be asked."""
        while (wait := self._not_before - time.monotonic()) > 0:
            await asyncio.sleep(wait)

    async def pause(self, failures: int, retry_after_s: float | None) -> None:
        """Wait after a failure.

        Args:
            failures: how many there were, from 1.
            retry_after_s: seconds that the provider asked for; None where it sent none.
        """
        if retry_after_s is not None:
            wait = min(retry_after_s, LONGEST_WAIT_S)
            self._not_before = max(self._not_before, time.monotonic() + wait)
        else:
            wait = min(8.0, 0.25 * 2**failures) * self._random.uniform(0.75, 1.0)
        await asyncio.sleep(wait)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds asked for by `retry-after-ms` or `retry-after`; None where neither is a number of seconds."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) / unit)
        except (KeyError, ValueError):
            continue
    return None
