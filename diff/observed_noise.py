"""The noise of an old version that cannot run any more, estimated from recordings that are alike.

Two recordings are alike where they are of one month, release and model, and ask the same: their inputs and
earlier messages are equal but for words with a digit in them (ids, dates, amounts). Such a pair counts unless
tools answered it differently before it acted differently: then it is not the version that differs. In what is
compared each such word of the input is replaced by its number, so that `cancel order 7` and `cancel order 8`
act alike when both cancel their own order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from replaydiff.diff.comparison import Comparison
from replaydiff.diff.graders import tool_calls
from replaydiff.diff.result import MetricDelta
from replaydiff.diff.statistics.alike import AlikeNoise
from replaydiff.replay.conversations import input_messages
from replaydiff.replay.model import Item, Json, Lane, Rule, ServedCall, Status, ToolCall, Trace, Trial
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.traces import alike_traces, iter_traces

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_WITH_DIGIT = re.compile(r"[\w#-]*\d[\w-]*")

Recording = tuple[str, Sequence[ToolCall]]
"""A trace's id, and its calls with the words of its input replaced."""


def noise_of_recordings(con: DuckDBPyConnection, comparison: Comparison, settings: Settings) -> AlikeNoise:
    """Return how often alike recordings of the old version act differently.

    Args:
        con: the store.
        comparison: of a recorded old version, in its own traces.
        settings: the rules by which calls are compared.
    """
    items = {block.item.trace_id: block.item for block in comparison.read.blocks if block.item.trace_id}
    if not items:
        return AlikeNoise(pairs=0, differing=0, covered=0.0)
    members = alike_traces(con, items)
    groups: dict[tuple[str, ...], list[Recording]] = defaultdict(list)
    for key, trace in zip(members.values(), iter_traces(con, members), strict=True):
        groups[key, *_questions(trace)].append((trace.trace_id, masked_calls(trace.input, trace.tool_calls)))
    pairs = [pair for group in groups.values() for pair in alike_pairs(group)]
    example = next(iter(items.values()))
    paired_groups = [group for group in groups.values() if next(alike_pairs(group), None)]
    covered = {trace_id for group in paired_groups for trace_id, _ in group}
    total = sum(comparison.weight(item) for item in items.values())
    return AlikeNoise(
        pairs=len(pairs),
        differing=sum(_differ(example, first, second, settings) for first, second in pairs),
        covered=sum(comparison.weight(item) for key, item in items.items() if key in covered) / total,
    )


def without_recording_noise(metric: MetricDelta, noise: AlikeNoise, tail: float) -> MetricDelta:
    """Return an agreement metric with its share of changed items beyond the old version's own noise."""
    if metric.changed_share is None or metric.changed_ci is None:
        return metric
    if not noise.is_enough:
        return replace(metric, alike=noise)
    share, ends = noise.beyond(metric.changed_share, metric.changed_ci, tail)
    return replace(metric, changed_share=share, changed_ci=ends, alike=noise)


def alike_pairs(group: Sequence[Recording]) -> Iterator[tuple[Recording, Recording]]:
    """Yield pairs of alike recordings, each recording in one pair at most.

    Args:
        group: recordings that ask the same.
    """
    waiting: list[Recording] = []
    for recording in group:
        match = next((earlier for earlier in waiting if _is_comparable(earlier[1], recording[1])), None)
        if match is None:
            waiting.append(recording)
        else:
            waiting.remove(match)
            yield match, recording


def _is_comparable(first: Sequence[ToolCall], second: Sequence[ToolCall]) -> bool:
    """Return whether the tools answered two recordings alike until these acted differently, if they did."""
    for call, counterpart in zip(first, second, strict=False):
        if (call.name, call.args) != (counterpart.name, counterpart.args):
            return True
        if (call.result, call.error) != (counterpart.result, counterpart.error):
            return False
    return True


def _differ(item: Item, first: Recording, second: Recording, settings: Settings) -> bool:
    first_trial, second_trial = (
        Trial(
            run_id="",
            item_id=item.id,
            lane=Lane.OLD,
            index=0,
            status=Status.OK,
            served=tuple(ServedCall(call=call, rule=Rule.TAPE) for call in calls),
        )
        for _, calls in (first, second)
    )
    return not tool_calls.same_calls(item, first_trial, second_trial, settings)


def _questions(trace: Trace) -> tuple[str, ...]:
    """Return the texts of a conversation before its last user turn, words with a digit left out."""
    return tuple(_WITH_DIGIT.sub("#", message.text) for message in input_messages(trace))


def masked_calls(text: str, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """Return calls in which words with a digit that come from the input are replaced by their number.

    Args:
        text: the input.
        calls: the tool calls that answered it.
    """
    words = {word: f"#{number}" for number, word in enumerate(dict.fromkeys(_WITH_DIGIT.findall(text)), 1)}
    if not words:
        return tuple(calls)
    longest_first = sorted(map(re.escape, words), key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)({'|'.join(longest_first)})(?!\w)")

    def mask(value: Json) -> Json:
        if isinstance(value, str):
            return pattern.sub(lambda match: words[match[1]], value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return words.get(str(value), value)
        if isinstance(value, list):
            return [mask(entry) for entry in value]
        if isinstance(value, dict):
            return {key: mask(entry) for key, entry in value.items()}
        return value

    return tuple(
        replace(
            call,
            args={key: mask(value) for key, value in call.args.items()},
            result=mask(call.result),
            error=None if call.error is None else str(mask(call.error)),
        )
        for call in calls
    )
