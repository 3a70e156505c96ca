"""From which of the user's turns the lanes of an item part.

What counts is what is done (tools and arguments), not its wording, and what a lane does in most of its
trials. Only items of which several turns of the user were replayed have such a turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from replaydiff.replay.model import Lane, Trial
from replaydiff.replay.turns import actions_by_turn, most_done


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The first of the user's turns at which the lanes do another thing."""

    turn: int
    """Its place among all turns of the user, from 1."""
    of: int
    """The last turn of the user."""
    actions: dict[Lane, str]
    """What each lane does there in most trials: `cancel_order(order_id="1")`, or `answers`."""

    @property
    def sentence(self) -> str:
        """For people, after what a metric says of the item."""
        return f"the lanes part at the user's turn {self.turn} of {self.of}"


def parting(lanes: Mapping[Lane, Iterable[Trial]]) -> Parting | None:
    """Where the lanes of an item part; None where they do not, or have one turn. `old2` is no other lane."""
    sides = [(lane, trial) for lane, trials in lanes.items() if lane is not Lane.OLD2 for trial in trials]
    if not any(len(trial.turns) > 1 for _, trial in sides):
        return None
    found: dict[int, dict[Lane, list[str]]] = {}
    for lane, trial in sides:
        for number, done in actions_by_turn(trial).items():
            found.setdefault(number, {}).setdefault(lane, []).append(done)
    for number in sorted(found):
        actions = {lane: most_done(done) for lane, done in found[number].items()}
        if len(set(actions.values())) > 1:
            return Parting(turn=number, of=max(found), actions=actions)
    return None
