"""The rules of SHIP, HOLD and CAN'T TELL, as one ordered table.

`decide` returns the answer of the first rule of `RULES` that matches; docs/statistics.md prints the table
(`make docs`). Nothing else in the package decides: `diff.evidence` collects the facts, `diff.comparison` and
`diff.metrics` the figures, `diff.stopping` the levels of a look, `diff.gate` turns the answer into an exit
code.

To add a rule, write its test and insert an `AnswerRule` where it belongs: rules above it take precedence. A
test takes the `Evidence` and returns None where the rule does not apply, else a `RuleMatch` with the words
that the sentence names in braces, and the metric or cause that the next command is about.

Rules of quality over the gated metrics (those named in `[gate] metrics`, else all that may decide): the
interval covers the worst that trials without a score could have been (`diff.comparison`). Where nothing was
tried twice the noise of an item is unknown, so no item counts as regressed and the interval decides.
Agreement with recordings that nobody vouches for (`diff.behaviour`) decides only where nothing else may.
With a single lane (`replay check`) the share of items that meet their expectation is compared with
`threshold`.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from replaydiff.diff import answer as sentences
from replaydiff.diff.behaviour import RECORDING
from replaydiff.diff.causes import explanation
from replaydiff.diff.evidence import (
    Conclusion,
    Evidence,
    after_ship,
    calls_any_tool,
    more_items,
    more_trials,
    show_cause,
    show_item,
    show_recorded,
    ungraded,
    with_control,
)
from replaydiff.diff.expectations import case_verdict, is_quarantined
from replaydiff.diff.graders import tool_calls
from replaydiff.diff.graders.base import JUDGE, SCORE_PREFIX
from replaydiff.diff.judge.calibration import FEWEST_OF_RUN
from replaydiff.diff.result import (
    Answer,
    Cause,
    CauseState,
    ItemVerdict,
    Kind,
    MetricDelta,
    Slice,
    Verdict,
    scores_of,
)
from replaydiff.diff.statistics import noise
from replaydiff.diff.statistics.alike import FEWEST_PAIRS
from replaydiff.diff.verdicts import combine
from replaydiff.replay.model import Lane, Mode, VersionKind

_NAMED = 2
"""Causes that a reason names."""
_TIE = 1e-9
FOLLOWS = 0.8
"""An old version that does what was recorded in this share of its trials is held to its recordings."""
_IF_INDEPENDENT = "if traces are independent, which no session or user id shows"
_CONTROL = "old is the control: the recorded model, called again"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatch:
    """What made a rule apply."""

    words: Mapping[str, str] = field(default_factory=dict)
    """What the rule's sentence names in braces."""
    metric: MetricDelta | None = None
    """The metric that the next command is about."""
    cause: Cause | None = None
    """The cause that the next command is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCommand:
    """A command to type after an answer."""

    forms: tuple[str, ...]
    """How the documentation shows what it can be: `replay show ITEM --run RUN`."""
    of: Callable[[Evidence, RuleMatch], str]
    """Returns the command of a run, which can be run as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRule:
    """One rule of the answer."""

    name: str
    answer: Answer
    condition: str
    """When the rule applies, in words."""
    test: Callable[[Evidence], RuleMatch | None]
    """Returns None where it does not apply."""
    sentence: str
    """The reason; words in braces are those of the match."""
    next: NextCommand
    names_causes: bool = False
    """Whether the sentence names the causes that decide, so that nothing is added to it."""
    names_slices: bool = False
    """Whether it names the slices that are worse, so that these are not added."""

    def conclude(self, evidence: Evidence) -> Conclusion | None:
        """Return the answer by this rule; None where it does not apply."""
        match = self.test(evidence)
        if match is None:
            return None
        return Conclusion(
            answer=self.answer,
            reason=self.sentence.format_map(match.words),
            next=self.next.of(evidence, match),
        )


# --- next commands ---

SHOW_ITEM = NextCommand(forms=("replay show ITEM --run RUN",), of=lambda evidence, _: show_item(evidence))
SHOW_CAUSE = NextCommand(
    forms=("replay show ITEM --run RUN",), of=lambda evidence, match: show_cause(evidence, match.cause)
)
SHOW_WRITE = NextCommand(
    forms=("replay show ITEM --run RUN",),
    of=lambda evidence, match: show_recorded(evidence, match.words["tool"]),
)
CONTROL = NextCommand(forms=("replay run --mode step … --aa",), of=lambda evidence, _: with_control(evidence))
MORE_TRIALS = NextCommand(
    forms=("replay compare --continue RUN --trials K",), of=lambda evidence, _: more_trials(evidence)
)
MORE_ITEMS = NextCommand(
    forms=(
        "replay compare --continue RUN --size N",
        "replay compare --continue RUN --trials K",
    ),
    of=lambda evidence, match: more_items(evidence, match.metric) if match.metric else more_trials(evidence),
)
RESUME = NextCommand(
    forms=("replay run --resume RUN",), of=lambda evidence, _: f"replay run --resume {_run_id(evidence)}"
)
UNFINISHED = NextCommand(
    forms=(
        "replay run --resume",
        "replay report RUN",
    ),
    of=lambda evidence, _: (
        f"replay report {_run_id(evidence)}" if evidence.run.finished_at else "replay run --resume"
    ),
)
LIST_TRACES = NextCommand(forms=("replay traces",), of=lambda *_: "replay traces")
TRIAGE = NextCommand(
    forms=("replay triage RUN",), of=lambda evidence, _: f"replay triage {_run_id(evidence)}"
)
LABEL = NextCommand(
    forms=("replay calibrate RUN --label", "replay show ITEM --run RUN"),
    # What a model elsewhere scored is labelled elsewhere.
    of=lambda evidence, _: (
        f"replay calibrate {_run_id(evidence)} --label" if JUDGE in evidence.metrics else show_item(evidence)
    ),
)
KEEP = NextCommand(
    forms=(
        "replay promote ITEM … --expect new",
        "replay report RUN",
    ),
    of=lambda evidence, _: after_ship(evidence),
)


def _run_id(evidence: Evidence) -> str:
    return shlex.quote(evidence.run.id)


# --- tests: what comes before any figure ---


def _waits_for_first_look(evidence: Evidence) -> RuleMatch | None:
    look, compared = evidence.comparison.look, evidence.counts.compared
    if look is None or evidence.run.looks or compared >= look.items:
        return None
    return RuleMatch(
        words={"compared": str(compared), "planned": str(look.planned), "first": str(look.items)}
    )


def _rejected(evidence: Evidence) -> RuleMatch | None:
    rejected = [cause for cause in evidence.causes if cause.state is CauseState.REJECTED]
    if not rejected:
        return None
    named = "; ".join(f"{cause.text} ({cause.counts})" for cause in rejected[:_NAMED])
    causes = "a cause was" if len(rejected) == 1 else f"{len(rejected)} causes were"
    return RuleMatch(words={"causes": causes, "named": named}, cause=rejected[0])


def _no_pair(evidence: Evidence) -> RuleMatch | None:
    observed = any(version.kind is VersionKind.OBSERVED for version in evidence.run.lanes.values())
    return RuleMatch() if not evidence.counts.compared and observed else None


def _no_finished_item(evidence: Evidence) -> RuleMatch | None:
    return None if evidence.counts.compared else RuleMatch()


def _distrusted(evidence: Evidence) -> RuleMatch | None:
    return RuleMatch(words={"why": evidence.distrust}) if evidence.distrust else None


def _required_may_not(evidence: Evidence) -> RuleMatch | None:
    missing = [name for name in evidence.gate.metrics if name not in evidence.gated]
    if not missing:
        return None
    return RuleMatch(words={"metrics": " and ".join(missing), "why": sentences.why_not(evidence, missing[0])})


def _none_may(evidence: Evidence) -> RuleMatch | None:
    if evidence.gated:
        return None
    shown = next(iter(evidence.metrics), None)
    return RuleMatch(words={"why": sentences.why_not(evidence, shown) if shown else ungraded(evidence)})


def _same_recordings(evidence: Evidence) -> RuleMatch | None:
    versions = list(evidence.run.lanes.values())
    observed = all(version.kind is VersionKind.OBSERVED for version in versions)
    return (
        RuleMatch() if observed and len(versions) > 1 and len({v.condition for v in versions}) == 1 else None
    )


def _compares_with_recordings(evidence: Evidence) -> bool:
    """Return whether all that decides is likeness to the items' recordings."""
    sampled = all(item.item.case_id is None for item in evidence.items)
    return sampled and set(evidence.gated) <= {tool_calls.NAME, RECORDING}


def _recording_with_itself(evidence: Evidence) -> RuleMatch | None:
    versions = list(evidence.run.lanes.values())
    single = len(versions) == 1 and versions[0].kind is VersionKind.OBSERVED
    return RuleMatch() if single and _compares_with_recordings(evidence) else None


def _no_tool_call(evidence: Evidence) -> RuleMatch | None:
    return RuleMatch() if _compares_with_recordings(evidence) and not calls_any_tool(evidence) else None


def _unscored(evidence: Evidence) -> RuleMatch | None:
    unscored = next((name for name, metric in evidence.gated.items() if not metric.n), None)
    if unscored is None:
        return None
    return RuleMatch(words={"metric": unscored, "failure": sentences.failure(unscored, evidence)})


def _write_not_requested(evidence: Evidence) -> RuleMatch | None:
    writes = evidence.unexplained_writes
    if not writes:
        return None
    write = writes[0]
    several = f" (like {len(writes) - 1} more tools)" if len(writes) > 1 else ""
    return RuleMatch(
        words={
            "tool": write.tool,
            "several": several,
            "trials": f"{write.trials} trial{'' if write.trials == 1 else 's'}",
            "lane": f"{write.lane} ({evidence.run.lanes[write.lane].name})",
            "silence": f"trials that did not ask for it wrote {write.files[0]}"
            if write.files
            else "it writes, and none of its trials asked for it",
        }
    )


# --- tests: a single lane ---


def _share_passed(answer: Answer) -> Callable[[Evidence], RuleMatch | None]:
    """Return the test of a rule on the share of cases that passed: over all, and over those with a tag."""

    def test(evidence: Evidence) -> RuleMatch | None:
        if len(evidence.run.lanes) > 1:
            return None
        shares = _shares(evidence)
        return next(
            (RuleMatch(words={"share": text}) for share_answer, text in shares if share_answer is answer),
            None,
        )

    return test


def _shares(evidence: Evidence) -> list[tuple[Answer, str]]:
    ended = [
        (item, case_verdict(item, names, evidence.cases.case_threshold))
        for item in evidence.items
        if not is_quarantined(item.item)
        and (names := [name for name in item.metrics if name in evidence.gated])
    ]
    left = evidence.left
    parts = [_share("items", [verdict for _, verdict in ended], evidence.cases.threshold, len(left))]
    for tag, threshold in sorted(evidence.cases.thresholds.items()):
        tagged = [verdict for item, verdict in ended if tag in item.item.tags]
        more = sum(tag in item.tags for item in left)
        if tagged or more:
            parts.append(_share(f"items with the tag {tag}", tagged, threshold, more))
    return parts


def _share(what: str, verdicts: Sequence[Verdict], threshold: float, left: int) -> tuple[Answer, str]:
    """Return whether enough of these items passed, and the sentence; `left` are still to be replayed."""
    total, passed = len(verdicts) + left, verdicts.count(Verdict.UNCHANGED)
    unclear = verdicts.count(Verdict.INCONCLUSIVE) + left
    share, must = f"{passed} of {total} {what} passed", f"{threshold:.0%}"
    if total and passed / total >= threshold:
        return Answer.SHIP, f"{share}, and {must} must"
    if total and (passed + unclear) / total < threshold:
        return Answer.HOLD, f"{share}, and {must} must"
    return (
        Answer.CANNOT_TELL,
        f"{share} and {sentences.items(unclear)} could be either, where {must} must pass",
    )


# --- tests: agreement with recordings that nobody vouches for ---


def _agreement(evidence: Evidence) -> Mapping[str, MetricDelta]:
    """Return the gated metrics where likeness to unvouched recordings is all that decides; else none."""
    if all(metric.kind is Kind.AGREEMENT for metric in evidence.gated.values()):
        return evidence.gated
    return {}


def _agreement_too_few(evidence: Evidence) -> RuleMatch | None:
    for name, metric in _agreement(evidence).items():
        if metric.changed_share is None or metric.changed_ci is None:
            return RuleMatch(words={"why": sentences.too_few(name, metric)})
    return None


def _is_recorded(evidence: Evidence) -> bool:
    """Return whether one of the versions is a recording, which always agrees with itself."""
    lanes = (evidence.run.lanes.get(lane) for lane in (Lane.OLD, Lane.NEW))
    return any(version is not None and version.kind is VersionKind.OBSERVED for version in lanes)


def _may_hold(evidence: Evidence) -> bool:
    """Return whether a version that leaves the recordings may be held by that alone."""
    effects = None if evidence.agreement is None else evidence.agreement.effects
    return effects is not None and effects.may_hold and not _is_recorded(evidence)


def _effects_lost(evidence: Evidence) -> RuleMatch | None:
    tolerance = evidence.gate.tolerance
    for name, metric in _agreement(evidence).items() if _may_hold(evidence) else ():
        follows = metric.old is not None and metric.old >= FOLLOWS
        if follows and _is_worse(metric, tolerance):
            words = {
                "figures": sentences.figures(name, metric, evidence),
                "tolerance": f"{100 * tolerance:g}",
                "causes": _effect_causes(evidence),
            }
            return RuleMatch(words=words, metric=metric)
    return None


def _effect_causes(evidence: Evidence) -> str:
    """Return the causes that change something, else the other ones, as the end of a sentence."""
    worse = [cause for cause in evidence.open_causes if not cause.is_better and not cause.is_answers]
    causes = [cause for cause in worse if cause.is_effect] or worse
    named = "; ".join(f"{cause.text}: {cause.counts}" for cause in causes[:_NAMED])
    return f"; new: {named}" if named else ""


def _new_effect(evidence: Evidence) -> RuleMatch | None:
    """Return an open cause that changes something which neither recording nor old version does."""
    return _without_precedent(evidence, [cause for cause in evidence.open_causes if cause.is_effect])


def _new_write_beside_distrust(evidence: Evidence) -> RuleMatch | None:
    """Return an open cause that writes what neither recording nor old version does, in an unlike replay."""
    if not evidence.distrust:
        return None
    return _without_precedent(evidence, [cause for cause in evidence.open_causes if cause.adds_write])


def _without_precedent(evidence: Evidence, causes: Sequence[Cause]) -> RuleMatch | None:
    """Return the first of these causes that the old version hardly shows, where agreement decides."""
    if not _agreement(evidence) or not _may_hold(evidence):
        return None
    for cause in causes:
        before = [counts for lane, counts in cause.trials.items() if lane != Lane.NEW]
        follows = all(number <= (1 - FOLLOWS) * total for number, total in before)
        if follows and cause.difference > evidence.gate.tolerance:
            words = {"cause": f"{cause.text}: {cause.counts}", "why": evidence.distrust or ""}
            return RuleMatch(words=words, cause=cause)
    return None


def _recorded(evidence: Evidence) -> RuleMatch | None:
    metrics = _agreement(evidence)
    is_estimated = any(metric.alike is not None for metric in metrics.values())
    if not metrics or not _is_recorded(evidence) or is_estimated:
        return None
    parts = [_changed_words(metric) for metric in metrics.values()]
    return RuleMatch(words={key: "; ".join(part[key] for part in parts) for key in parts[0]})


def _beyond_allowed(evidence: Evidence) -> tuple[str, MetricDelta] | None:
    """Return the first metric whose share of changed items may exceed `max_changed`."""
    for name, metric in _agreement(evidence).items():
        if metric.changed_ci is not None and metric.changed_ci[1] > evidence.gate.max_changed:
            return name, metric
    return None


def _change_not_excluded(evidence: Evidence) -> RuleMatch | None:
    beyond = _beyond_allowed(evidence)
    if beyond is None or beyond[1].changed:
        return None
    name, metric = beyond
    words = {
        "behaviour": metric.behaviour,
        "items": sentences.items(metric.n),
        "allowed": f"{evidence.gate.max_changed:.0%}",
        "figures": sentences.figures(name, metric, evidence),
    }
    return RuleMatch(words=words, metric=metric)


def _open_causes(evidence: Evidence) -> RuleMatch | None:
    beyond = _beyond_allowed(evidence)
    open_causes = evidence.open_causes
    if beyond is None or not open_causes:
        return None
    return RuleMatch(words=_changed_words(beyond[1]) | {"causes": _number_of_causes(open_causes)})


def _number_of_causes(causes: Sequence[Cause]) -> str:
    return f"{len(causes)} cause{'' if len(causes) == 1 else 's'}"


def _no_shared_cause(evidence: Evidence) -> RuleMatch | None:
    beyond = _beyond_allowed(evidence)
    return None if beyond is None else RuleMatch(words=_changed_words(beyond[1]))


def _changed_words(metric: MetricDelta) -> dict[str, str]:
    otherwise = metric.changed - metric.regressed - metric.improved
    moved = {
        "no longer do what production did": metric.regressed,
        "do it again": metric.improved,
        "differ in another way": otherwise,
    }
    return {
        "changed": f"{metric.behaviour} changed in {metric.changed} of "
        f"{sentences.items(metric.changed + metric.unchanged + metric.inconclusive)}",
        "moved": ", ".join(f"{number} {what}" for what, number in moved.items() if number) or "none moved",
    }


def _no_alike_recordings(evidence: Evidence) -> RuleMatch | None:
    for metric in _agreement(evidence).values():
        if metric.alike is not None and not metric.alike.is_enough:
            pairs = f"{metric.alike.pairs} pair{'' if metric.alike.pairs == 1 else 's'}"
            return RuleMatch(words=_changed_words(metric) | {"pairs": pairs, "needed": str(FEWEST_PAIRS)})
    return None


def _answers_differ(evidence: Evidence) -> RuleMatch | None:
    return _answers_cause(evidence) if _agreement(evidence) else None


def _answers_show_nothing(evidence: Evidence) -> RuleMatch | None:
    likeness = evidence.likeness
    if not _agreement(evidence) or likeness is None or likeness.is_yardstick:
        return None
    if likeness.compared and likeness.old is not None:
        return RuleMatch(words={"why": f"the old version's answers to one input are too unlike each other "
                                   f"({likeness.old:.2f}) to show whether the new ones differ"})  # fmt: skip
    return RuleMatch(words={"why": likeness.sentence})


def _answers_not_excluded(evidence: Evidence) -> RuleMatch | None:
    likeness = evidence.likeness
    metrics = [*_agreement(evidence).values()]
    accepted = any(cause.is_answers for cause in evidence.causes)
    if not metrics or likeness is None or not likeness.differs or accepted:
        return None
    words = {"likeness": likeness.sentence, "allowed": f"{evidence.gate.max_changed:.0%}"}
    return RuleMatch(words=words, metric=metrics[0])


def _answers_collapsed(evidence: Evidence) -> RuleMatch | None:
    return None if _agreement(evidence) else _answers_cause(evidence)


def _answers_cause(evidence: Evidence) -> RuleMatch | None:
    cause = next((cause for cause in evidence.open_causes if cause.is_answers), None)
    return None if cause is None else RuleMatch(words={"answers": cause.text}, cause=cause)


def _open_behaviour(evidence: Evidence) -> RuleMatch | None:
    if not _agreement(evidence):
        return None
    causes = [cause for cause in evidence.open_causes if not cause.is_better and not cause.is_read]
    if not causes:
        return None
    words = {"causes": _number_of_causes(causes), "named": f"{causes[0].text}: {causes[0].counts}"}
    return RuleMatch(words=words, cause=causes[0])


def _equivalent(evidence: Evidence) -> RuleMatch | None:
    metrics = _agreement(evidence)
    if not metrics:
        return None
    parts = [
        f"{sentences.figures(name, metric, evidence)}: {_changed_words(metric)['changed']}, at most "
        f"{metric.changed_ci[1] if metric.changed_ci else 1:.0%} of conversations"
        f"{sentences.beyond_repeat(metric, evidence)} (limit {evidence.gate.max_changed:.0%})"
        for name, metric in metrics.items()
    ]
    return RuleMatch(words={"figures": "; ".join(parts), "answers": sentences.not_graded(evidence.likeness)})


# --- tests: quality ---


def _chosen_by(evidence: Evidence, name: str, *, recorded: bool) -> str | None:
    """Return the condition on a score that chose the items, or (`recorded`) the recordings of a lane."""
    run, sample = evidence.run, evidence.comparison.sample
    observed = [version for version in run.lanes.values() if version.kind is VersionKind.OBSERVED]
    conditions = [version.condition for version in observed] if recorded else []
    if sample is not None and (observed or not recorded):
        conditions.append(sample.where)
    # That a trace has a score chooses no value of it.
    named = rf"\bscores\W+{re.escape(name.removeprefix(SCORE_PREFIX))}\b(?!\W*\s+IS\s+NOT\s+NULL\b)"
    score = re.compile(named, re.IGNORECASE)
    return next((condition for condition in conditions if condition and score.search(condition)), None)


def _chosen_recordings(evidence: Evidence) -> RuleMatch | None:
    for name, metric in evidence.gated.items():
        if condition := _chosen_by(evidence, name, recorded=True):
            words = {
                "metric": name,
                "condition": condition,
                "figures": sentences.figures(name, metric, evidence),
            }
            return RuleMatch(words=words, metric=metric)
    return None


def _contradiction(evidence: Evidence) -> RuleMatch | None:
    beyond = _beyond_chance(evidence)
    sure = {name: metric.ci for name, metric in evidence.gated.items() if name in beyond and metric.ci}
    worse = [name for name, ci in sure.items() if ci[1] < 0]
    better = [name for name, ci in sure.items() if ci[0] > 0]
    if not worse or not better:
        return None
    worst, best = (sentences.figures(name, evidence.gated[name], evidence) for name in (worse[0], better[0]))
    return RuleMatch(words={"worse": worst, "better": best})


def _loss(evidence: Evidence) -> RuleMatch | None:
    beyond = _beyond_chance(evidence)
    for name, metric in evidence.gated.items():
        if name in beyond and _is_worse(metric, evidence.tolerance(name)):
            words = {
                "figures": sentences.figures(name, metric, evidence),
                "tolerance": f"{evidence.tolerance(name):g}",
                "why": _explained(name, evidence),
            }
            return RuleMatch(words=words, metric=metric)
    return None


def _explained(name: str, evidence: Evidence) -> str:
    """Return which behaviours the metric sees on its fallen items, the one that explains most first."""
    fall = explanation(name, evidence.items, evidence.causes)
    parts = [f"{count} of {fall.items}: {cause.text}" for cause, count in fall.causes[:_NAMED]]
    return f"; of the items that fell, {'; '.join(parts)}" if parts else ""


def _items_fell(evidence: Evidence) -> RuleMatch | None:
    look, gate = evidence.comparison.look, evidence.gate
    # Before the last look it takes more than all the planned items may have.
    limit = gate.allowed_regressions(evidence.counts.compared if look is None else look.planned)
    return _too_many_fell(evidence, limit)


def _items_fell_by_now(evidence: Evidence) -> RuleMatch | None:
    return _too_many_fell(evidence, evidence.gate.allowed_regressions(evidence.counts.compared))


def _too_many_fell(evidence: Evidence, limit: int) -> RuleMatch | None:
    certain = _certain(evidence)
    fell = _with_verdict(evidence, certain, Verdict.REGRESSED)
    if len(fell) <= limit:
        return None
    rose = _with_verdict(evidence, certain, Verdict.IMPROVED)
    allowed = evidence.gate.allowed_regressions(evidence.counts.compared)
    names = [
        name
        for name in certain
        if any(name in item.metrics and item.metrics[name].verdict is Verdict.REGRESSED for item in fell)
    ]
    why = next((why for name in names if (why := _explained(name, evidence))), "")
    return RuleMatch(words={"items": sentences.too_many(fell, rose, allowed, evidence), "why": why})


def _no_control(evidence: Evidence) -> RuleMatch | None:
    """Return whether HOLD would compare a model with a recording, and nothing shows what chance does."""
    old = evidence.run.lanes.get(Lane.OLD)
    alone = (
        evidence.run.mode is Mode.STEP
        and old is not None
        and old.kind is VersionKind.OBSERVED
        and not evidence.run.has_control
    )
    conclusion = (LOSS.conclude(evidence) or ITEMS_FELL.conclude(evidence)) if alone else None
    return None if conclusion is None else RuleMatch(words={"reason": conclusion.reason})


def _no_interval(evidence: Evidence) -> RuleMatch | None:
    for name, metric in evidence.gated.items():
        if metric.ci is None or metric.delta is None:
            return RuleMatch(words={"why": sentences.too_few(name, metric)})
    return None


def _gains(evidence: Evidence) -> list[str]:
    """Return the deciding metrics that are significantly better."""
    beyond = _beyond_chance(evidence)
    return [
        name for name, metric in evidence.gated.items() if name in beyond and metric.ci and metric.ci[0] > 0
    ]


def _gain_without_loss(evidence: Evidence) -> RuleMatch | None:
    """Return whether one metric is better and no other one shows any sign of a loss.

    Metrics that `[gate] metrics` names must all be proven.
    """
    gains = _gains(evidence)
    unclear = {
        name: metric
        for name, metric in evidence.gated.items()
        if metric.ci is not None and metric.ci[0] < -evidence.tolerance(name)
    }
    is_proof = gains and evidence.gated.keys() - evidence.judges and not evidence.gate.metrics
    if not is_proof or not unclear:
        return None
    for name, metric in unclear.items():
        hidden = metric.bounds is not None and metric.bounds[0] < -evidence.tolerance(name)
        differs = metric.aa is not None and metric.aa.differs
        if metric.delta is None or metric.delta < 0 or hidden or differs:
            return None
    words = {
        "gains": "; ".join(sentences.figures(name, evidence.gated[name], evidence) for name in gains),
        "unclear": "; ".join(sentences.figures(name, metric, evidence) for name, metric in unclear.items()),
        "items": _no_loss(evidence).words["items"],
    }
    return RuleMatch(words=words, metric=next(iter(unclear.values())))


def _not_excluded(evidence: Evidence) -> tuple[str, MetricDelta] | None:
    """Return the first metric whose loss may exceed the tolerance; none where a gain makes up for it."""
    for name, metric in evidence.gated.items():
        if metric.ci is not None and metric.ci[0] < -evidence.tolerance(name):
            return None if _gain_without_loss(evidence) else (name, metric)
    return None


def _unscored_trials(evidence: Evidence) -> RuleMatch | None:
    open_ = _not_excluded(evidence)
    if open_ is None or open_[1].delta is None or open_[1].bounds is None:
        return None
    name, metric = open_
    low, high = open_[1].bounds
    if open_[1].delta - low <= evidence.tolerance(name) or low >= -evidence.tolerance(name):
        return None
    words = {"metric": name, "low": f"{low:+.2f}", "high": f"{high:+.2f}", "headline": f"{metric.delta:+.2f}"}
    return RuleMatch(words=words, metric=metric)


def _differs_from_itself(evidence: Evidence) -> RuleMatch | None:
    open_ = _not_excluded(evidence)
    repeat = open_[1].aa if open_ else None
    if open_ is None or repeat is None or not repeat.differs:
        return None
    name, metric = open_
    tolerance = evidence.tolerance(name)
    words = {
        "metric": name,
        "repeat": f"{repeat.delta:+.2f}",
        "p": f"{repeat.p:.2g}",
        "figures": sentences.figures(name, metric, evidence),
        "shows": "prove" if metric.delta is not None and metric.delta < -tolerance else "exclude",
        "tolerance": f"{tolerance:g}",
    }
    return RuleMatch(words=words, metric=metric)


def _hidden_by_unscored(evidence: Evidence) -> RuleMatch | None:
    open_ = _not_excluded(evidence)
    if open_ is None or open_[1].ci is None or open_[1].delta is None or open_[1].bounds is None:
        return None
    hidden, tolerance = open_[1].delta - open_[1].bounds[0], evidence.tolerance(open_[0])
    return _open_loss(evidence) if hidden and open_[1].ci[0] + hidden >= -tolerance else None


def _open_loss(evidence: Evidence) -> RuleMatch | None:
    open_ = _not_excluded(evidence)
    if open_ is None:
        return None
    words = {
        "figures": sentences.figures(*open_, evidence),
        "tolerance": f"{evidence.tolerance(open_[0]):g}",
    }
    return RuleMatch(words=words, metric=open_[1])


def _judge_barely_labelled(evidence: Evidence) -> RuleMatch | None:
    """Return whether a judge alone decides, and too few labels of this run speak for it."""
    if not evidence.gated or not evidence.gated.keys() <= evidence.judges:
        return None
    for name, metric in evidence.gated.items():
        of_run = metric.labels.of_run if metric.labels else 0
        if of_run < FEWEST_OF_RUN:
            words = {
                "figures": sentences.figures(name, metric, evidence),
                "labels": f"{of_run} of {metric.labels.n if metric.labels else 0}",
                "metric": name,
                "fewest": str(FEWEST_OF_RUN),
            }
            return RuleMatch(words=words, metric=metric)
    return None


def _harmed_slice(evidence: Evidence) -> RuleMatch | None:
    if evidence.gate.slices == "report" or not evidence.harmed:
        return None
    return RuleMatch(words={"figures": _all_figures(evidence), "slices": _named(evidence.harmed)})


def _named(parts: Sequence[Slice]) -> str:
    """Return the slices that are worse, the surest first."""
    more = len(parts) - _NAMED
    return "; ".join(part.sentence for part in parts[:_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _worse_than_all(evidence: Evidence) -> list[Slice]:
    """Return the harmed slices that lose more than all items together by more than the tolerance."""
    return [
        part
        for part in evidence.harmed
        if (part.delta or 0.0)
        < min(0.0, evidence.metrics[part.metric].delta or 0.0) - evidence.tolerance(part.metric)
    ]


def _all_figures(evidence: Evidence) -> str:
    return "; ".join(sentences.figures(name, metric, evidence) for name, metric in evidence.gated.items())


def _no_loss(evidence: Evidence) -> RuleMatch:
    certain = _certain(evidence)
    fell, rose = (_with_verdict(evidence, certain, side) for side in (Verdict.REGRESSED, Verdict.IMPROVED))
    unknown = _with_verdict(evidence, [*evidence.gated.keys() - {*certain}], Verdict.REGRESSED)
    harm = f" on average, but worse where {_named(evidence.harmed)}" if evidence.harmed else ""
    balance = sentences.balance(fell, rose, unknown) + sentences.elsewhere(evidence)
    balance += sentences.not_graded(evidence.likeness)
    return RuleMatch(words={"figures": _all_figures(evidence), "harm": harm, "items": balance})


# --- what the tests of quality share ---


def _is_worse(metric: MetricDelta, tolerance: float) -> bool:
    """Return whether the change is a loss of more than `tolerance`, as far as trials and items show."""
    return bool(metric.ci and metric.ci[1] < 0 and (metric.delta or 0.0) < -tolerance)


def _beyond_chance(evidence: Evidence) -> Collection[str]:
    """Return the metrics whose change is not what one of several shows by chance.

    Where one decides, its interval shows it. Where several do, one of their intervals leaves out 0 more
    often by chance: the change must also survive Holm over those on which anything changed.
    """
    look = evidence.comparison.look
    error = 1 - evidence.comparison.confidence if look is None else 2 * look.hold
    changed = {
        name: metric.p
        for name, metric in evidence.gated.items()
        if metric.p is not None and (metric.se or metric.delta)
    }
    if len(changed) < 2:
        return set(evidence.gated)
    corrected = noise.holm([*changed.values()])
    return {name for name, p in zip(changed, corrected, strict=True) if p <= error}


def _certain(evidence: Evidence) -> list[str]:
    """Return the metrics whose verdicts on items count: with known noise, and no shock of a lane."""
    return [
        name
        for name, metric in evidence.gated.items()
        if name not in evidence.unknown_noise and not _regressions_may_be_shocks(name, metric, evidence)
    ]


def _with_verdict(evidence: Evidence, metrics: Sequence[str], verdict: Verdict) -> list[ItemVerdict]:
    """Return the items that have this verdict on these metrics together."""
    return [
        item
        for item in evidence.items
        if combine(item.metrics[name].verdict for name in metrics if name in item.metrics) is verdict
    ]


def _regressions_may_be_shocks(name: str, metric: MetricDelta, evidence: Evidence) -> bool:
    """Return whether what hits all trials of a lane may be what makes items of a metric look regressed.

    It may where the old version's lanes differ significantly, unless the regressed items are most of the loss
    and no item differs between the old lanes by as much: a shock takes a little from many items, or shows
    between the old lanes, too.
    """
    if metric.aa is None or not metric.aa.differs:
        return False
    changes = [
        (change, evidence.comparison.weight(item.item) * change.delta)
        for item in evidence.items
        if (change := item.metrics.get(name)) is not None and change.delta is not None
    ]
    falls = [(change, weighted) for change, weighted in changes if change.verdict is Verdict.REGRESSED]
    lost, total = (math.fsum(weighted for _, weighted in weights) for weights in (falls, changes))
    if not falls or lost > total / 2:
        return True
    least = min(abs(change.delta or 0.0) for change, _ in falls)
    return any(
        abs(fmean(repeat) - fmean(old)) >= least - _TIE
        for old, repeat in (
            [scores_of(item.lanes.get(lane, ()), name) for lane in (Lane.OLD, Lane.OLD2)]
            for item in evidence.items
        )
        if old and repeat
    )


# --- the table ---

_HOLD, _CANNOT, _SHIP = Answer.HOLD, Answer.CANNOT_TELL, Answer.SHIP

LOSS = AnswerRule(
    name="loss",
    answer=_HOLD,
    condition="the interval of a deciding metric lies below 0, its change is below −`tolerance`, and (where "
    "several metrics decide) its p survives Holm's correction over them",
    test=_loss,
    sentence="{figures}: worse by more than {tolerance}{why}",
    next=SHOW_ITEM,
)
ITEMS_FELL = AnswerRule(
    name="items regressed",
    answer=_HOLD,
    condition="more items regressed beyond the noise than `max_regressed` allows",
    test=_items_fell,
    sentence="{items}{why}",
    next=SHOW_ITEM,
)

EFFECTS_LOST = AnswerRule(
    name="effects lost",
    answer=_HOLD,
    condition="agreement alone decides, the old version was re-run and does what was recorded in 80 % of "
    "its trials, and the new version does it less often, beyond `tolerance` and noise, in ways that nobody "
    "accepted",
    test=_effects_lost,
    sentence="{figures}: less by more than {tolerance} points{causes}; if that is intended, accept the cause",
    next=TRIAGE,
    names_causes=True,
)
NEW_EFFECT = AnswerRule(
    name="new effect",
    answer=_HOLD,
    condition="the same, and an open cause is a call that writes and was not recorded, is missing or has "
    "other arguments, in more than `tolerance` more of the trials, and in at most 20 % of the old version's",
    test=_new_effect,
    sentence="{cause}; if that is intended, accept the cause",
    next=SHOW_CAUSE,
    names_causes=True,
)

NEW_WRITE = AnswerRule(
    name="new write beside distrust",
    answer=_HOLD,
    condition="the next rule matches, but agreement alone decides and an open cause is a call that is known "
    "to write and was not recorded, in more than `tolerance` more of the trials, and in at most 20 % of the "
    "old version's: a replay that is unlike production does not explain what only the new version does",
    test=_new_write_beside_distrust,
    sentence="{cause}; if that is intended, accept the cause ({why})",
    next=SHOW_CAUSE,
    names_causes=True,
)


def _write_rule(part: str, applies: Callable[[Evidence], object]) -> AnswerRule:
    """Return the rule that keeps SHIP from a run in which a recorded write was not asked for.

    Args:
        part: what decides: the rules of a check, of agreement, or of quality; one follows for each.
        applies: whether that part decides.
    """
    return AnswerRule(
        name=f"write not requested ({part})",
        answer=_CANNOT,
        condition="a tool that writes was recorded, and no trial of a replayed lane asked for it; or trials "
        "that did not ask for a recorded tool, not known to read, wrote files that no trial with it wrote; "
        "nobody accepted that as a cause or named the tool in `[agent] ignore`",
        test=lambda evidence: _write_not_requested(evidence) if applies(evidence) else None,
        sentence="{tool}{several} was recorded for {trials} of lane {lane}; {silence}: it may have run past "
        "the patch points, or the version does not do it any more; if that is intended, accept the cause or "
        "name the tool in [agent] ignore",
        next=SHOW_WRITE,
    )


RULES: tuple[AnswerRule, ...] = (
    AnswerRule(
        name="first look pending",
        answer=_CANNOT,
        condition="a run that may stop early has not reached its first look",
        test=_waits_for_first_look,
        sentence="{compared} of {planned} items have finished, and the first look is after {first}",
        next=RESUME,
    ),
    AnswerRule(
        name="rejected cause",
        answer=_HOLD,
        condition="a person rejected a cause (`replay reject`), whatever the figures are",
        test=_rejected,
        sentence="{causes} rejected: {named}",
        next=SHOW_CAUSE,
        names_causes=True,
    ),
    AnswerRule(
        name="no pair",
        answer=_CANNOT,
        condition="a lane is observed, and no item has a trace in every lane",
        test=_no_pair,
        sentence="no item has a trace in every lane; look at the lanes' conditions and --pair-by",
        next=LIST_TRACES,
    ),
    AnswerRule(
        name="nothing finished",
        answer=_CANNOT,
        condition="no item has finished trials in every lane",
        test=_no_finished_item,
        sentence="no item has finished trials in every lane",
        next=UNFINISHED,
    ),
    NEW_WRITE,
    AnswerRule(
        name="distrust",
        answer=_CANNOT,
        condition="the replay cannot be trusted ([fidelity](tape.md#fidelity))",
        test=_distrusted,
        sentence="{why}",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="required metric may not decide",
        answer=_CANNOT,
        condition="a metric of `[gate] metrics` has no grades, or may not decide",
        test=_required_may_not,
        sentence="{metrics} must decide, but {why}",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="no metric may decide",
        answer=_CANNOT,
        condition="no metric of the run may decide",
        test=_none_may,
        sentence="no metric may decide: {why}",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="same recordings",
        answer=_CANNOT,
        condition="both lanes are the same recordings",
        test=_same_recordings,
        sentence="both versions are the same recordings; name other traces with observed:CONDITION",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="recording with itself",
        answer=_CANNOT,
        condition="the single lane is a recording that is compared with itself",
        test=_recording_with_itself,
        sentence="a recording was compared with itself; name a version to replay, or a golden set",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="no tool call",
        answer=_CANNOT,
        condition="only agreement with tool calls decides, and no item has a tool call",
        test=_no_tool_call,
        sentence="no item has a tool call, recorded or replayed, so agreement with production's tool calls "
        "shows nothing; name what decides: a grader, a judge, a golden set",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="nothing scored",
        answer=_CANNOT,
        condition="a deciding metric scored no item",
        test=_unscored,
        sentence="{metric} must decide, but scored no item{failure}",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="check failed",
        answer=_HOLD,
        condition="one lane (`replay check`): even if all undecided cases passed, fewer than `threshold` "
        "would, over all cases or those with a tag",
        test=_share_passed(_HOLD),
        sentence="{share}",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="check undecided",
        answer=_CANNOT,
        condition="one lane: undecided cases could make it either",
        test=_share_passed(_CANNOT),
        sentence="{share}",
        next=SHOW_ITEM,
    ),
    _write_rule("check", lambda evidence: len(evidence.run.lanes) == 1),
    AnswerRule(
        name="check passed",
        answer=_SHIP,
        condition="one lane: at least `threshold` of the cases passed, over all and over those with a tag",
        test=_share_passed(_SHIP),
        sentence="{share}",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="too few items to agree",
        answer=_CANNOT,
        condition="agreement alone decides, and has no interval",
        test=_agreement_too_few,
        sentence="{why}",
        next=SHOW_ITEM,
    ),
    EFFECTS_LOST,
    NEW_EFFECT,
    AnswerRule(
        name="old is the recording",
        answer=_CANNOT,
        condition="agreement alone decides, a version is a recording, which always agrees with itself, and "
        "its noise is not estimated from recordings that are alike",
        test=_recorded,
        sentence="{changed}: {moved}; a recording is no evidence that the other version is better or worse, "
        "so look at these items in order, re-run the old version, or name what is right: [match] trust, a "
        "grader, a judge, a golden set",
        next=TRIAGE,
    ),
    AnswerRule(
        name="change not excluded",
        answer=_CANNOT,
        condition="agreement alone decides, no item changed, and the interval of the share of changed items "
        "ends above `max_changed`",
        test=_change_not_excluded,
        sentence="{behaviour} changed in none of {items}, and a change in more than {allowed} cannot be "
        "excluded ({figures})",
        next=MORE_ITEMS,
    ),
    AnswerRule(
        name="open causes",
        answer=_CANNOT,
        condition="agreement alone decides, the share of changed items may exceed `max_changed`, and causes "
        "of it are open",
        test=_open_causes,
        sentence="{changed}: accept or reject {causes} ({moved}; if production was right, set [match] trust)",
        # Triage asks for each cause; a command that accepted one would answer in the user's favour.
        next=TRIAGE,
    ),
    AnswerRule(
        name="changed without a shared cause",
        answer=_CANNOT,
        condition="the same, and no cause is open",
        test=_no_shared_cause,
        sentence="{changed} and no cause is shared by several items: {moved}; look at them, or name what is "
        "right: [match] trust, a grader, a judge, a golden set",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="noise of recordings unknown",
        answer=_CANNOT,
        condition="agreement alone decides, the old version is one recording of each item, and too few pairs "
        "of recordings are alike to estimate how much it differs from itself",
        test=_no_alike_recordings,
        sentence="{changed}, but how much the old version differs from itself was not measured and cannot be "
        "estimated: its recordings have {pairs} of nearly the same request, and {needed} are needed; name "
        "what decides: [match] trust, a grader, a judge, a golden set",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="answers differ",
        answer=_CANNOT,
        condition="agreement alone decides, nothing grades the answers, and the new version's are less "
        "like the old version's than these are like each other",
        test=_answers_differ,
        sentence="{answers}, and nothing grades them; look at them and accept or reject, or name a judge or "
        "grader",
        next=SHOW_CAUSE,
    ),
    AnswerRule(
        name="answers show nothing",
        answer=_CANNOT,
        condition="agreement alone decides, nothing grades the answers, and the old version's own answers to "
        "one input have little in common",
        test=_answers_show_nothing,
        sentence="{why}, and nothing grades them; name a judge or grader",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="answers not excluded",
        answer=_CANNOT,
        condition="agreement alone decides, nothing grades the answers, and that those of more than "
        "`max_changed` of the items differ cannot be excluded",
        test=_answers_not_excluded,
        sentence="nothing grades the answers, and that they differ for more than {allowed} of the "
        "conversations cannot be excluded ({likeness})",
        next=MORE_ITEMS,
    ),
    AnswerRule(
        name="open behaviour",
        answer=_CANNOT,
        condition="agreement alone decides and did not change, but causes are open that are more than reads "
        "or improvements",
        test=_open_behaviour,
        sentence="accept or reject {causes}: {named}",
        next=TRIAGE,
    ),
    _write_rule("agreement", _agreement),
    AnswerRule(
        name="equivalent",
        answer=_SHIP,
        condition="agreement alone decides, and the interval of the share of changed items, beyond the old "
        "version's difference from itself, ends at or below `max_changed`",
        test=_equivalent,
        sentence="{figures}{answers}",
        next=KEEP,
    ),
    AnswerRule(
        name="chosen by its score",
        answer=_CANNOT,
        condition="a lane is observed, and a condition on a deciding score chose its recordings: they score "
        "low, or high, by that choice alone, and any other trial of the same version differs from them",
        test=_chosen_recordings,
        sentence="{metric} chose the recordings ({condition}), so {figures} would differ without any change: "
        "re-run the old version, or choose traces without that score",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="contradiction",
        answer=_CANNOT,
        condition="a deciding metric is significantly worse, and another significantly better",
        test=_contradiction,
        sentence="metrics contradict each other: {worse}, and {better}; choose which decides with [gate] "
        "metrics",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="no control",
        answer=_CANNOT,
        condition="step mode: one of the next two rules matches, but the old version is a recording, which "
        "always agrees with itself, and no control lane was run",
        test=_no_control,
        sentence="{reason}, but old is a recording, which always agrees with itself, and this run has no "
        "control lane",
        next=CONTROL,
    ),
    LOSS,
    ITEMS_FELL,
    AnswerRule(
        name="too few items",
        answer=_CANNOT,
        condition="a deciding metric has no interval",
        test=_no_interval,
        sentence="{why}",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="unscored trials",
        answer=_CANNOT,
        condition="a metric's interval ends below −`tolerance`, and with every trial without a score counted "
        "against the new version its change does so, too",
        test=_unscored_trials,
        sentence="trials without a score leave {metric} anywhere from {low} to {high} (headline {headline})",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="old differs from itself",
        answer=_CANNOT,
        condition="a metric's interval ends below −`tolerance`, and the old version's two lanes differ "
        "significantly: the interval includes the noise between lanes",
        test=_differs_from_itself,
        sentence="the old version differs from itself: {metric} changed by {repeat} between its two lanes "
        "(p {p}), so {figures} does not {shows} a loss of more than {tolerance}",
        next=MORE_TRIALS,
    ),
    AnswerRule(
        name="loss hidden by unscored trials",
        answer=_CANNOT,
        condition="a metric's interval ends below −`tolerance` only because of trials without a score",
        test=_hidden_by_unscored,
        sentence="{figures}: a loss of more than {tolerance} cannot be excluded, since trials without a "
        "score may hide it",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="loss not excluded",
        answer=_CANNOT,
        condition="a metric's interval ends below −`tolerance`",
        test=_open_loss,
        sentence="{figures}: a loss of more than {tolerance} cannot be excluded",
        next=MORE_ITEMS,
    ),
    AnswerRule(
        name="items regressed so far",
        answer=_CANNOT,
        condition="at an early look: more of the items seen regressed than may",
        test=_items_fell_by_now,
        sentence="{items}",
        next=SHOW_ITEM,
    ),
    AnswerRule(
        name="judge of other runs",
        answer=_CANNOT,
        condition="a judge alone decides, and fewer than 12 labelled pairs are of this run: labels prove a "
        "judge for the answers they were drawn from",
        test=_judge_barely_labelled,
        sentence="{figures}, but {labels} labelled pairs are of this run, so {metric} may hold a version "
        "and not ship it: label {fewest} pairs of this run",
        next=LABEL,
    ),
    AnswerRule(
        name="harmed slice",
        names_slices=True,
        answer=_CANNOT,
        condition="a slice of the items is significantly worse on a deciding metric, nobody accepted that, "
        'and `[gate] slices` is `"decide"`',
        test=_harmed_slice,
        sentence="{figures} on average, but worse where {slices}: accept or reject that",
        next=TRIAGE,
    ),
    AnswerRule(
        name="answers lost",
        answer=_CANNOT,
        condition="nothing that decides grades the answers, and they certainly differ: more than "
        "`max_changed` of them are unlike the old ones, or 15 % of their likeness is lost",
        test=_answers_collapsed,
        sentence="{answers}, and nothing that decides grades them; look at them and accept or reject, or "
        "name a judge or grader",
        next=SHOW_CAUSE,
    ),
    _write_rule("quality", lambda _: True),
    AnswerRule(
        name="gain without loss",
        answer=_SHIP,
        condition="no `[gate] metrics` are named, a deciding metric is significantly better, and those whose "
        "interval ends below −`tolerance` show no sign of a loss: their change is not below 0, the old "
        "version does not differ from itself on them, and no trial without a score hides one",
        test=_gain_without_loss,
        sentence="{gains}: better; {unclear} shows neither a loss nor that there is none: more items settle "
        "it, or [gate] metrics names what must be proven; {items}",
        next=MORE_ITEMS,
    ),
    AnswerRule(
        name="no loss",
        names_slices=True,
        answer=_SHIP,
        condition="every deciding metric's interval ends at or above −`tolerance`, trials without a score "
        "at their worst, and no more items regressed than may",
        test=_no_loss,
        sentence="{figures}{harm}; {items}",
        next=KEEP,
    ),
)
"""Every rule, in the order in which they are tried. The last one always matches."""


def decide(evidence: Evidence) -> Conclusion:
    """Return the answer of the first rule that matches, with who is harmed.

    Args:
        evidence: what is known of the run.
    """
    conclusions = ((rule, rule.conclude(evidence)) for rule in RULES)
    rule, conclusion = next((rule, conclusion) for rule, conclusion in conclusions if conclusion is not None)
    if rule.names_causes:
        return conclusion
    additions = [_CONTROL] if evidence.run.has_control else []
    if not rule.names_slices and (parts := _worse_than_all(evidence)):
        additions.append(f"worse where {_named(parts)}")
    additions += [part.sentence for part in evidence.broken[:_NAMED]]
    if conclusion.answer is Answer.SHIP:
        chosen = [_chosen_by(evidence, name, recorded=False) for name in evidence.gated]
        additions += [f"for traces where {condition}" for condition in chosen[:1] if condition]
        additions += [_IF_INDEPENDENT] if evidence.comparison.hides_links else []
    return replace(conclusion, reason="; ".join([conclusion.reason, *additions]))
