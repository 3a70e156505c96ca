"""What an agent adapter is: something that can run an item, and that tells its failures apart.

An adapter never raises for what the agent does: an exception, a hang or a dead process is an `Outcome` with
the status that says so. It raises only where no trial could ever run (`VersionError` from `start`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from replaydiff.replay.model import Item, Lane, ModelCall, ServedCall, Status, Trial, Turn, Usage

if TYPE_CHECKING:
    from replaydiff.replay.gateway.recording import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one attempt at a trial came to. The engine makes it a `Trial`, or tries again."""

    status: Status
    reason: str | None = None
    """Why it did not end `ok`, in one sentence."""
    final_response: str | None = None
    """What the agent answered; None unless `ok`, and where it answered without text."""
    served: tuple[ServedCall, ...] = ()
    """The tool calls in the order they were made; for `diverged` the last one is the miss."""
    usage: Usage | None = None
    """Tokens, where the agent reports them."""
    cost_usd: float | None = None
    """What the agent itself says it cost; None where it does not say."""
    simulation_usd: float = 0.0
    """What tools cost that a model played."""
    latency_ms: float | None = None
    """From calling the agent to its answer; waiting for a worker does not count."""
    started_at: datetime
    """Naive UTC."""
    stderr: str | None = None
    """The tail of what was printed during an attempt that failed; None where it went well."""
    retry_after_s: float | None = None
    """For `infra_error`: the seconds the provider asked to wait; None where it did not say."""
    turns: tuple[Turn, ...] = ()
    """What was done at each of the user's turns, where several were replayed."""
    model_calls: tuple[ModelCall, ...] = ()
    """What the model gateway recorded of it."""
    unpatched: tuple[tuple[str, str], ...] = ()
    """Recorded tools that seem to have run past the patch points, each with the function that shows it."""

    def trial(
        self, run_id: str, item_id: str, lane: Lane, index: int, *, cost_usd: float | None, attempts: int = 1
    ) -> Trial:
        """The trial of a run that this attempt, the last of so many, came to; `cost_usd` is all it cost."""
        return Trial(
            run_id=run_id,
            item_id=item_id,
            lane=lane,
            index=index,
            status=self.status,
            reason=self.reason,
            final_response=self.final_response,
            served=self.served,
            usage=self.usage,
            cost_usd=cost_usd,
            latency_ms=self.latency_ms,
            started_at=self.started_at,
            attempts=attempts,
            stderr=self.stderr,
            turns=self.turns,
        )


class Agent(Protocol):
    """One version, ready to run items. `start`, any number of `run` (also at the same time), `close`."""

    async def start(self) -> None:
        """Get ready, and find out once whether the version can run at all.

        Raises:
            VersionError: it cannot (its entrypoint does not import, a patch point does not exist …).
        """

    async def run(self, item: Item, index: int, line: Line | None = None) -> Outcome:
        """Run the item once. `index` is the trial's number within its lane, from 0.

        What the agent asks of models meanwhile goes to `line`, where there is a gateway.

        Cancelling ends the work (a worker process included) before CancelledError goes on.
        """

    def describe(self) -> dict[str, str]:
        """Interpreter and package versions, once started: `{"python": "3.11.7", "anthropic": "2.11.0"}`."""

    async def close(self) -> None:
        """End everything that was started; no process is left. May be called at any time, and twice."""
