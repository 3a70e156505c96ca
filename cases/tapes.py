"""The tape of a case that expects what a lane did: the recording, with what else answered that lane's trial.

A call that another trace, a model or the tool itself answered takes its place after the recorded call that
came before it in the trial, so that it is answered in the state in which it was made:

    recorded   get_order -> active,                     cancel -> ok
    trial      get_order [tape],  check_stock [live],   cancel [tape]
    case       get_order -> active,  check_stock -> 3,  cancel -> ok

Where such a tape would not give the trial and the recording the answers that they got, the trial alone is the
case's recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from replaydiff.replay.model import Rule, ServedCall, ToolCall
from replaydiff.replay.tape import Tape, TapeRules

Answered: TypeAlias = tuple[ToolCall, ToolCall | None]
"""A call, and what answered it: a recorded call or itself with its result; None where nothing did."""


def case_tape(
    recording: Sequence[ToolCall], served: Sequence[ServedCall], rules: TapeRules
) -> tuple[ToolCall, ...]:
    """Return a tape that answers a trial as it was answered.

    Args:
        recording: the tape of the trial's item.
        served: the calls of the trial.
        rules: of the tape, as the run had them.
    """
    merged, trial = _merged(recording, served, rules)
    if len(merged) == len(recording):
        return tuple(recording)
    recorded = [(call, call) for call in recording if call.answered]
    if _answers(merged, trial, rules) and _answers(merged, recorded, rules):
        return merged
    return tuple(answer for _, answer in trial if answer is not None)


def _merged(
    recording: Sequence[ToolCall], served: Iterable[ServedCall], rules: TapeRules
) -> tuple[tuple[ToolCall, ...], list[Answered]]:
    """Put each call that the recording did not answer behind the recorded call that was made before it.

    Returns:
        The recording with these calls, and the calls of the trial with what answered them.
    """
    positions = {id(call): position for position, call in enumerate(recording)}
    behind: list[list[ToolCall]] = [[] for _ in range(len(recording) + 1)]
    tape, last, trial = Tape(recording, rules), 0, list[Answered]()
    for call in served:
        recorded = tape.answer(call.call.name, call.call.args).recorded
        if recorded is not None:
            last = positions[id(recorded)] + 1
            trial.append((call.call, recorded))
            continue
        tape.write(call.call.name, call.call.args)
        is_answered = call.call.answered and call.rule is not Rule.MISS
        trial.append((call.call, call.call if is_answered else None))
        if is_answered:
            behind[last].append(call.call)
    merged = [*behind[0]]
    for recorded_call, further in zip(recording, behind[1:], strict=True):
        merged += [recorded_call, *further]
    return tuple(merged), trial


def _answers(recording: Sequence[ToolCall], calls: Iterable[Answered], rules: TapeRules) -> bool:
    """Return whether a tape answers calls, made in their order, in the same way."""
    tape = Tape(recording, rules)
    for call, answer in calls:
        recorded = tape.answer(call.name, call.args).recorded
        if recorded is None:
            tape.write(call.name, call.args)
            if answer is not None:
                return False
        elif answer is None or (recorded.result, recorded.error) != (answer.result, answer.error):
            return False
    return True
