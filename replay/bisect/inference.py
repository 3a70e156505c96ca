"""The posterior over the commit that changed an agent, from repeated trials that also fail by chance.

Every item has a failure rate before the change and one after it. An item is *affected* where the second is
higher by at least `SMALLEST`; else both are one rate. All rates have Jeffreys priors (on a grid), the share
of affected items has a prior of its own, and all of them are integrated out. So the counts of the two ends
say how noisy each item is, and every other trial refines that: for one hypothesis an item's counts are

    affected      beta-binomial(trials before) x beta-binomial(trials after), restricted to after > before
    unaffected    beta-binomial(all trials)

The hypotheses are the commits, and *none*: nothing changed between the ends at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SMALLEST = 0.1
"""The smallest rise of a failure rate that counts as a change."""
_POINTS = 25
_NO_CHANGE = 0.5
"""Prior of: nothing changed."""
_SHARES = (0.1, 0.3, 0.6, 0.9)
"""Shares of affected items, equally likely; beside them one item alone."""
_TINY = 1e-300

# Evenly spaced in the arcsine of the root, where the Jeffreys prior of a rate is flat.
RATES: Floats = np.sin((np.arange(_POINTS) + 0.5) / _POINTS * np.pi / 2) ** 2
_PAIRS = (RATES[None, :] - RATES[:, None] >= SMALLEST).astype(np.float64)
_PAIRS /= _PAIRS.sum()
_LOG = np.log(RATES)
_LOG_COMPLEMENT = np.log1p(-RATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """The probabilities after the trials so far. Hypotheses are the commits in their order, then none."""

    probability: Floats
    """Of each hypothesis; they sum to 1."""
    before: Floats
    """Expected failure rate before the change, by hypothesis and item."""
    after: Floats
    """The same after the change."""
    affected: Floats
    """Probability that the item is affected, by hypothesis and item; 0 for none."""

    @property
    def unchanged(self) -> float:
        """Return the probability that nothing changed between the ends."""
        return float(self.probability[-1])


def infer(failures: Floats, trials: Floats, contains: NDArray[np.bool_]) -> Belief:
    """Return the posterior over commits and rates.

    Args:
        failures: by point of the history and item.
        trials: the same shape.
        contains: by commit and point, as `History.contains` returns it.
    """
    inside = contains.astype(np.float64)
    failed_after, trials_after = inside @ failures, inside @ trials
    before, scale_before = _likelihood(failures.sum(0) - failed_after, trials.sum(0) - trials_after)
    after, scale_after = _likelihood(failed_after, trials_after)
    reached = before @ _PAIRS
    joint = (reached * after).sum(-1) + _TINY
    rate_before = (((before * RATES) @ _PAIRS) * after).sum(-1) / joint
    rate_after = (reached * after * RATES).sum(-1) / joint
    log_affected = np.log(joint) + scale_before + scale_after

    pooled, scale = _likelihood(failures.sum(0), trials.sum(0))
    single = pooled.mean(-1)
    rate = (pooled * RATES).mean(-1) / single
    log_single = np.log(single) + scale

    items = trials.shape[1]
    shares = np.array(sorted({1 / (items + 1), *_SHARES}))
    log_share, log_complement = np.log(shares)[:, None, None], np.log1p(-shares)[:, None, None]
    mixed = np.logaddexp(log_share + log_affected, log_complement + log_single)
    by_share = mixed.sum(-1)
    log_evidence = np.logaddexp.reduce(by_share, axis=0) - np.log(len(shares))
    weight = np.exp(by_share - np.logaddexp.reduce(by_share, axis=0))
    affected = (weight[:, :, None] * np.exp(log_share + log_affected - mixed)).sum(0)

    log_prior = np.full(len(contains) + 1, np.log((1 - _NO_CHANGE) / len(contains)))
    log_prior[-1] = np.log(_NO_CHANGE)
    log_posterior = log_prior + np.append(log_evidence, log_single.sum())
    probability = np.exp(log_posterior - np.logaddexp.reduce(log_posterior))
    return Belief(
        probability=probability,
        before=np.vstack([affected * rate_before + (1 - affected) * rate, rate]),
        after=np.vstack([affected * rate_after + (1 - affected) * rate, rate]),
        affected=np.vstack([affected, np.zeros(items)]),
    )


def information(belief: Belief, contains: NDArray[np.bool_]) -> Floats:
    """Return the expected information of one more trial about the commit, in bits, by point and item."""
    changed = np.vstack([contains, np.zeros(contains.shape[1], dtype=np.bool_)]).T.astype(np.float64)
    weight = belief.probability[:, None]
    expected = changed @ (weight * belief.after) + (1 - changed) @ (weight * belief.before)
    left = changed @ (weight * entropy(belief.after)) + (1 - changed) @ (weight * entropy(belief.before))
    return np.maximum(entropy(expected) - left, 0.0)


def entropy(share: Floats) -> Floats:
    """Return the entropy of events of these probabilities, in bits."""
    inside = np.clip(share, 1e-12, 1 - 1e-12)
    return -(inside * np.log2(inside) + (1 - inside) * np.log2(1 - inside))


def changed(failures: Floats, trials: Floats, before: Floats, after: Floats) -> float:
    """Return the probability that trials of one version come from the rates after a change, not before it.

    Args:
        failures: by item.
        trials: by item.
        before: the known failure rate of each item before the change.
        after: the same after it.
    """
    low, high = np.clip(before, 0.01, 0.99), np.clip(after, 0.01, 0.99)
    passed = trials - failures
    log_odds = (failures * np.log(high / low) + passed * np.log((1 - high) / (1 - low))).sum()
    return float(1 / (1 + np.exp(-np.clip(log_odds, -500, 500))))


def _likelihood(failures: Floats, trials: Floats) -> tuple[Floats, Floats]:
    """Return the likelihood of each rate, scaled so that its largest is 1, and the logarithm of the scale."""
    likelihood = failures[..., None] * _LOG + (trials - failures)[..., None] * _LOG_COMPLEMENT
    scale = likelihood.max(-1)
    return np.exp(likelihood - scale[..., None]), scale
