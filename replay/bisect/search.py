"""Which trials to make next, and when to stop: the search for a commit, without running anything.

`Search.next` returns the next batch of trials, `add` takes in how each ended, `skip` a commit that cannot be
tested. Everything is decided by the counts alone, so a search that is given the counts of an earlier one goes
on where that stopped.

First the ends are compared, a few items at a time, until it is known (to 99.5 %) that they differ. Then each
batch is the commit and the items of which the outcome is expected to say most about the commit. It stops when
one commit has the wanted probability and both it and its parents were tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from replaydiff.replay.bisect.history import History, groups
from replaydiff.replay.bisect.inference import Belief, Floats, entropy, infer, information

DIFFERENT = 0.995
"""Probability from which on the ends are known to differ."""
_CHUNK = 8
"""Items that are compared at both ends at a time."""
_ROUNDS, _MOST_ROUNDS = 4, 12
"""Trials an item at each end after which ends that do not differ are given up: those where no item looks
affected, and all."""
_FEW = 40
"""With few items there are more rounds: at least so many trials at each end."""
_LEAST = 1e-4
"""Bits; where no trial is expected to tell more, none is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Trials to make at one commit, one of each of these items."""

    point: int
    """Place of the commit in `History.points`."""
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search."""

    commit: int | None
    """Place in `History.commits`; None where none was found."""
    confidence: float
    """Probability of the commit, or of the most likely group of commits that cannot be distinguished."""
    reason: str
    group: tuple[int, ...] = ()
    """Where `commit` is None: the commits of which one made the change."""


class Search:
    """The search for the first bad commit of a history."""

    def __init__(
        self,
        history: History,
        items: int,
        *,
        confidence: float = 0.95,
        max_trials: int = 600,
        batch: int = 4,
    ) -> None:
        """Start a search without trials.

        Args:
            history: the commits.
            items: how many items may be tried at each.
            confidence: the probability from which on a commit is named.
            max_trials: no further batch is begun from here on.
            batch: the most trials in a batch.
        """
        self.history, self.confidence, self.max_trials, self.batch = history, confidence, max_trials, batch
        self.contains = history.contains()
        self.failures = np.zeros((len(history.points), items))
        self.trials = np.zeros_like(self.failures)
        self.skipped: dict[int, str] = {}
        """Places of commits that cannot be tested, with the reason."""
        self._voided = 0
        """Trials without a result."""

    @property
    def trial_count(self) -> int:
        """Return how many trials were made, those without a result included."""
        return int(self.trials.sum()) + self._voided

    def add(self, point: int, item: int, failed: bool | None) -> None:
        """Take in a trial; `failed` is None where it has no result."""
        if failed is None:
            self._voided += 1
            return
        self.trials[point, item] += 1
        self.failures[point, item] += failed
        self.__dict__.pop("belief", None)

    def skip(self, point: int, reason: str) -> None:
        """Leave a commit out; what it is tested with so far does not count."""
        self.skipped[point] = reason
        self._voided += int(self.trials[point].sum())
        self.trials[point] = self.failures[point] = 0
        self.__dict__.pop("belief", None)

    @cached_property
    def belief(self) -> Belief:
        """Return the posterior after all trials."""
        return infer(self.failures, self.trials, self.contains)

    def next(self) -> Batch | None:
        """Return the next batch; None where the search has ended: see `finding`."""
        if self.trial_count >= self.max_trials:
            return None
        if 1 - self.belief.unchanged < DIFFERENT:
            return None if self._is_hopeless() else self._at_ends()
        likely, probability = self._likeliest()
        if probability >= self.confidence:
            return self._confirmation(likely)
        return self._most_informative()

    def finding(self) -> SearchResult:
        """Return what the trials so far say."""
        if 1 - self.belief.unchanged < DIFFERENT:
            return SearchResult(commit=None, confidence=0.0, reason=self._alike())
        group, probability = self._likeliest()
        if probability >= self.confidence and len(group) == 1:
            return SearchResult(commit=group[0], confidence=probability, reason=self._rates(group[0]))
        named = tuple(group)
        if probability >= self.confidence:
            reason = (
                f"the change is in one of {len(group)} commits that the trials cannot distinguish, since "
                f"{len(set(self.skipped))} could not be tested"
            )
        elif self.trial_count >= self.max_trials:
            reason = f"the limit of {self.max_trials} trials is reached and no commit is certain enough"
        else:
            reason = "no further trial of these items tells the remaining commits apart"
        return SearchResult(commit=None, confidence=probability, reason=reason, group=named)

    def end_rates(self) -> tuple[float, float]:
        """Return the shares of failed trials at the good and the bad end."""
        good, bad = (
            float(self.failures[position].sum() / max(self.trials[position].sum(), 1)) for position in (0, -1)
        )
        return good, bad

    def _likeliest(self) -> tuple[list[int], float]:
        """Return the likeliest commits that no test can tell apart, and their probability."""
        testable = [position not in self.skipped for position in range(len(self.history.points))]
        classes = groups(self.contains, testable)
        shares = [float(self.belief.probability[group].sum()) for group in classes]
        best = int(np.argmax(shares))
        return classes[best], shares[best]

    def _at_ends(self) -> Batch:
        """Return trials at the end with fewer of them.

        After each item was tried once at both ends, half of a batch are the items that most likely fail more
        often at the bad end, and half those with the fewest trials.
        """
        last = len(self.history.points) - 1
        good, bad = self.trials[0], self.trials[last]
        if good.sum() > bad.sum():
            order = np.argsort(bad - good, kind="stable")[:_CHUNK]
            return Batch(point=last, items=tuple(int(item) for item in order))
        fewest = [int(item) for item in np.argsort(good, kind="stable")[:_CHUNK]]
        if not good.all():
            return Batch(point=0, items=tuple(fewest))
        likely = [int(item) for item in np.argsort(-self._affected(), kind="stable")[: _CHUNK // 2]]
        return Batch(point=0, items=tuple(dict.fromkeys([*likely, *fewest]))[:_CHUNK])

    def _is_hopeless(self) -> bool:
        """Return whether the ends were compared long enough, and do not differ."""
        items = self.trials.shape[1]
        rounds = (self.trials[0].sum() + self.trials[-1].sum() + self._voided) / (2 * items)
        few = _FEW / items
        if rounds >= max(_MOST_ROUNDS, few):
            return True
        return bool(rounds >= max(_ROUNDS, few) and self._affected().max() < 0.5)

    def _affected(self) -> Floats:
        """Return the probability of each item to be affected, given that the ends differ."""
        weight = self.belief.probability[:-1] + 1e-12
        shares: Floats = (weight @ self.belief.affected[:-1]) / weight.sum()
        return shares

    def _confirmation(self, group: list[int]) -> Batch | None:
        """Return a trial at the found commit or a parent that was not tested yet."""
        if len(group) > 1:
            return None
        commit = group[0]
        spread = self.belief.after[commit] - self.belief.before[commit]
        for position in (commit + 1, *self.history.parents(commit)):
            if position not in self.skipped and not self.trials[position].any():
                return Batch(point=position, items=(int(np.argmax(spread)),))
        return None

    def _most_informative(self) -> Batch | None:
        bits = information(self.belief, self.contains)
        bits[list(self.skipped)] = 0.0
        # The same item at the same commit again tells less than it seems: what else varies there is shared.
        gain = bits / (1 + self.trials)
        position = int(np.argmax(gain.max(1)))
        if gain[position].max() < _LEAST:
            return None
        order = np.argsort(-gain[position], kind="stable")[: self.batch]
        shown = float(self.contains[:, position] @ self.belief.probability[:-1])
        remaining, chosen = float(entropy(np.array(shown))), [int(order[0])]
        for item in order[1:]:
            if bits[position, chosen].sum() >= remaining or gain[position, item] < _LEAST:
                break
            chosen.append(int(item))
        return Batch(point=position, items=tuple(chosen))

    def _alike(self) -> str:
        good, bad = self.end_rates()
        if not self.trials[0].any() or not self.trials[-1].any():
            return "the ends have no trial with a result"
        shares = f"{good:.0%} of {int(self.trials[0].sum())} trials at the good end"
        shares += f", {bad:.0%} of {int(self.trials[-1].sum())} at the bad end"
        if good > 0.5 and bad > 0.5:
            return f"the items fail at both ends: {shares}"
        if not good and not bad:
            return f"no item fails at either end: {shares}"
        return f"the two ends do not differ beyond chance: failures in {shares}"

    def _rates(self, commit: int) -> str:
        """Return how many of all trials failed, as the table of commits counts them."""
        inside = self.contains[commit]

        def share(points: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> str:
            return f"{int(self.failures[points].sum())} of {int(self.trials[points].sum())}"

        changed = int((self.belief.affected[commit] > 0.5).sum())
        items = f"; {changed} item{'s' * (changed != 1)} changed" if changed else ""
        return f"{share(~inside)} trials fail before it, and {share(inside)} from it on{items}"
