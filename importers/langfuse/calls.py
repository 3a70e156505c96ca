"""Which observations asked for tools and which are runs of tools; `importers.joining` makes calls of them."""

from __future__ import annotations

from collections.abc import Sequence

from replaydiff.importers.joining import Run, joined_calls, run_args, run_result
from replaydiff.importers.langfuse.observations import Observation
from replaydiff.replay.model import Message, ToolCall


def tool_calls(
    found: Sequence[Observation], given: dict[str, tuple[Message, ...]], said: dict[str, tuple[Message, ...]]
) -> tuple[ToolCall, ...]:
    """The calls of a trace, each once.

    `given` and `said` are the messages a model call was asked with and answered, by observation id.
    """
    requests = [
        (one.started_at, call)
        for one in found
        if one.is_model_call
        for message in said.get(one.id, ())
        for call in message.tool_calls
    ]
    runs = [_run(one, name) for one, name in tool_runs(found, {call.name for _, call in requests})]
    return joined_calls(requests, runs, given.values())


def tool_runs(found: Sequence[Observation], asked_for: set[str]) -> list[tuple[Observation, str]]:
    """Observations that are runs of tools, with the tool's name; older SDKs leave only its name on a span."""
    runs = []
    for one in found:
        name = one.tool_name
        if name is None and one.type == "SPAN" and one.name in asked_for and not one.is_root:
            name = one.name
        if name:
            runs.append((one, name))
    return runs


def _run(one: Observation, name: str) -> Run:
    result = run_result(one.output)
    return Run(
        name=name,
        args=run_args(one.input),
        call_id=one.call_id,
        result=result,
        error=one.error,
        recorded=result is not None or one.error is not None or one.input is not None,
        started_at=one.started_at,
        ended_at=one.ended_at,
    )
