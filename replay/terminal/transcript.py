"""A trace, a trial or a case as a transcript a person can read, at any width, without colour."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from replaydiff.replay.gateway.recording import read_answer
from replaydiff.replay.messages import missing_reason, read_messages
from replaydiff.replay.model import (
    Case,
    Item,
    Message,
    ModelCall,
    Rule,
    ServedCall,
    ToolCall,
    Trace,
    Trial,
    Witness,
    WrittenFile,
    described,
    media_in,
)
from replaydiff.replay.terminal.text import single_line, wrapped
from replaydiff.replay.turns import simulated_turns, user_turns

FOLDED = 12
"""Lines of one text that are shown unless everything is asked for."""
_LABEL = 11


class Transcript:
    """Lines of a transcript, `width` columns wide; `full` shows long texts to their end."""

    def __init__(self, width: int, *, full: bool = False) -> None:
        self._width, self._full = max(width, 40), full

    def trace(self, trace: Trace) -> str:
        """Return the transcript of a trace."""
        facts = {
            "source": trace.source,
            "started": f"{trace.started_at:%Y-%m-%d %H:%M:%S} UTC",
            "model": trace.model,
            "release": trace.release,
            "session": trace.session_id,
            "tool path": trace.tool_path,
            "latency": None if trace.latency_ms is None else f"{trace.latency_ms:.0f} ms",
            "cost": None if trace.cost_usd is None else f"${trace.cost_usd:.4f}",
            "missing": ", ".join(trace.media_missing) or None,
            "scores": ", ".join(f"{name}={value}" for name, value in trace.scores.items()) or None,
            "error": trace.error,
        }
        lines = [f"trace {single_line(trace.trace_id)}", *self._facts(facts), ""]
        if trace.messages:
            lines += self._messages(trace.messages, trace.tool_calls)
        else:
            lines += [*self._text("user", trace.input), *self._calls(trace.tool_calls)]
        last = trace.messages[-1] if trace.messages else None
        if trace.final_response is not None and (last is None or last.text != trace.final_response):
            lines += self._text("assistant", trace.final_response)
        return "\n".join(lines)

    def item(
        self,
        item: Item,
        trials: Sequence[Trial],
        grades: Mapping[tuple[str, int], Sequence[str]],
        model_calls: Sequence[ModelCall] = (),
    ) -> str:
        """Return an item of a run: its recording, then each trial; `grades` is (lane, index) → lines,
        `model_calls` what the gateway recorded of its trials."""
        lines = [f"item {single_line(item.id)}", *self._facts({"stratum": item.stratum}), ""]
        turns = user_turns(item.messages, item.tape, item.metadata)
        lines += self._text("user", item.messages[turns[0].end].text if len(turns) > 1 else item.input)
        lines += [line for turn in turns[:1] for line in self._turn_media(item.messages, turn.end)]
        lines += ["", "recording"]
        lines += self._calls(item.tape) or ["  no tool call"]
        if item.recorded_response is not None:
            lines += self._text("assistant", item.recorded_response)
        if item.expectation is not None and item.expectation.tool_calls is not None:
            expected_calls = [
                ToolCall(name=call.name, args=call.args or {}) for call in item.expectation.tool_calls
            ]
            lines += ["", "expected", *(self._call_line(call) for call in expected_calls)]
        alike: dict[tuple[str, ...], list[Trial]] = {}
        for trial in trials:
            shown = [f"{trial.status}", *self._trial(item, trial, grades, model_calls)]
            alike.setdefault(tuple(shown), []).append(trial)
        for (status, *shown_lines), equal_trials in alike.items():
            first = equal_trials[0]
            head = f"{first.lane} trial {first.index + 1}: {status}"
            if simulated := simulated_turns(first.simulated_turns):
                head += f", {simulated}"
            head += ", as recorded" if _as_recorded(item, first) else ""
            head += f" (the same: {_numbered(equal_trials[1:])})" if len(equal_trials) > 1 else ""
            lines += ["", head, *shown_lines]
        return "\n".join(lines)

    def _trial(
        self,
        item: Item,
        trial: Trial,
        grades: Mapping[tuple[str, int], Sequence[str]],
        model_calls: Sequence[ModelCall],
    ) -> Iterator[str]:
        """Yield what a trial did and how it was graded.

        A reason that the missed call repeats is left out.
        """
        if trial.reason and not any(served.note == trial.reason for served in trial.served):
            yield from self._text("reason", trial.reason)
        yield from self._done(item, trial)
        for call in model_calls:
            if (call.lane, call.trial) == (trial.lane, trial.index):
                yield from self._model_call(call)
        for file in trial.files:
            yield from self._text("wrote", describe_file(file))
        for line in grades.get((str(trial.lane), trial.index), []):
            yield from self._text("grade", line)
        for event in trial.blocked:
            yield from self._text("blocked", str(event).removeprefix("blocked: "))
        if trial.stderr:
            yield from self._text("printed", trial.stderr)

    def _done(self, item: Item, trial: Trial) -> Iterator[str]:
        """Yield what a trial did, turn by turn where several turns of the user were replayed."""
        places = {turn.number: turn.end for turn in user_turns(item.messages, item.tape, item.metadata)}
        at = 0
        for turn in trial.turns:
            if turn.user is not None:
                yield from self._text(f"user {turn.number}", f"(simulated) {turn.user}")
            else:
                end = places.get(turn.number)
                text = item.input if end is None else item.messages[end].text
                yield from self._text(f"user {turn.number}", text)
                yield from () if end is None else self._turn_media(item.messages, end)
            yield from self._served(trial.served[at : at + turn.calls])
            at += turn.calls
            if turn is not trial.turns[-1] and turn.response is not None:
                yield from self._text("assistant", turn.response)
        if trial.misfit:
            yield from self._text("ended", trial.misfit)
        yield from self._served(trial.served[at:])
        if trial.final_response is not None:
            yield from self._text("assistant", trial.final_response)

    def _model_call(self, call: ModelCall) -> Iterator[str]:
        summary, prompt, answer = describe_model_call(call)
        yield from self._text(f"model {call.index + 1}", summary)
        if prompt:
            yield from self._text("  prompt", prompt)
        for requested in call.tool_calls:
            yield self._call_line(requested)
        if answer:
            yield from self._text("  answer", answer)

    def case(self, case: Case) -> str:
        """Return the transcript of a case."""
        lines = [f"case {single_line(case.id)}"]
        facts = {
            "tags": ", ".join(case.tags) or None,
            "from trace": case.provenance.trace_id,
            "run": case.provenance.run,
            "reviewer": case.provenance.reviewer,
        }
        lines += [*self._facts(facts), "", *self._text("user", case.input)]
        lines += [line for message in case.messages for line in self._media(message)]
        expected = case.expectation
        if expected.tool_calls is not None:
            expected_calls = [ToolCall(name=call.name, args=call.args or {}) for call in expected.tool_calls]
            lines += ["", f"expected calls ({expected.match.mode}, arguments {expected.match.args})"]
            lines += [self._call_line(call) for call in expected_calls] or ["  no tool call"]
        for trait in expected.response_traits:
            lines += self._text("trait", trait)
        if expected.answer is not None:
            lines += self._text("answer", expected.answer)
        if case.tape:
            lines += ["", "tape", *self._calls(case.tape)]
        return "\n".join(lines)

    def _facts(self, facts: dict[str, str | None]) -> Iterator[str]:
        for label, value in facts.items():
            if value:
                yield f"  {label:<{_LABEL}}{single_line(value, self._width - _LABEL - 2)}"

    def _messages(self, messages: Iterable[Message], calls: Sequence[ToolCall]) -> Iterator[str]:
        answered = iter(calls)
        for message in messages:
            if message.role == "tool":
                continue
            if message.text:
                yield from self._text(message.role, message.text)
            yield from self._media(message)
            for call in message.tool_calls:
                yield from self._call(next(answered, call))

    def _media(self, message: Message) -> Iterator[str]:
        """Yield a line for each picture, document or recording of a message."""
        for media in media_in(message.parts):
            yield from self._text(message.role, f"[{media.description}]")
        for part in message.parts if isinstance(message.parts, list) else ():
            if reason := missing_reason(part):
                yield from self._text(message.role, f"[a picture or file that is missing: {reason}]")

    def _turn_media(self, messages: Sequence[Message], end: int) -> Iterator[str]:
        """Yield the media of a turn of the user, which may be several messages, up to its last."""
        begin = end
        while begin and messages[begin - 1].role == "user":
            begin -= 1
        for message in messages[begin : end + 1]:
            yield from self._media(message)

    def _calls(self, calls: Iterable[ToolCall]) -> list[str]:
        return [line for call in calls for line in self._call(call)]

    def _served(self, served: Iterable[ServedCall]) -> Iterator[str]:
        for served_call in served:
            yield f"{self._call_line(served_call.call)}  [{served_call.rule.value}]"
            if served_call.rule is not Rule.MISS:
                yield from self._result(served_call.call)
            if served_call.explanation:
                yield from self._text("  why", served_call.explanation)

    def _call(self, call: ToolCall) -> Iterator[str]:
        yield self._call_line(call)
        yield from self._result(call)

    def _call_line(self, call: ToolCall) -> str:
        args = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in call.args.items())
        return f"  → {single_line(f'{call.name}({args})', None if self._full else self._width - 14)}"

    def _result(self, call: ToolCall) -> Iterator[str]:
        if call.error is not None:
            yield from self._text("  error", call.error)
        elif not call.answered:
            yield "    no result was recorded"
        else:
            result = (
                call.result if isinstance(call.result, str) else json.dumps(call.result, ensure_ascii=False)
            )
            yield from self._text("  ←", result)
        if call.witness == Witness.NAME:
            yield "    paired with this call by the tool's name alone: it may be another call's result"
        if call.conflict is not None:
            yield from self._text("  doubt", call.conflict)

    def _text(self, label: str, text: str) -> Iterator[str]:
        lines = wrapped(described(text), self._width - _LABEL, None if self._full else FOLDED)
        for index, line in enumerate(lines):
            hint = " (-v shows them)" if not self._full and index == FOLDED else ""
            yield f"{label if index == 0 else '':<{_LABEL}}{line}{hint}"


def _as_recorded(item: Item, trial: Trial) -> bool:
    """Return whether a trial made the recorded calls and gave the recorded answer."""
    replayed_calls = [(served.call.name, served.call.args) for served in trial.served]
    recorded = [(call.name, call.args) for call in item.tape]
    return replayed_calls == recorded and trial.final_response == item.recorded_response is not None


def _numbered(trials: Iterable[Trial]) -> str:
    """Return `old 2-3, old2 1-3`: trials by lane, runs of numbers as ranges."""
    parts: list[list[Any]] = []
    for trial in trials:
        number = trial.index + 1
        if parts and parts[-1][0] == trial.lane and parts[-1][2] == number - 1:
            parts[-1][2] = number
        else:
            parts.append([trial.lane, number, number])
    return ", ".join(f"{lane} {low}" + (f"–{high}" if high > low else "") for lane, low, high in parts)


def describe_file(file: WrittenFile) -> str:
    """Return a file that a trial wrote, in a line."""
    if file.size is None:
        return f"{file.path} (deleted)"
    digest = f", sha256 {file.sha256[:12]}" if file.sha256 else ""
    return f"{file.path} ({file.size:,} bytes{digest}{', kept' if file.has_content else ''})"


def describe_model_call(call: ModelCall) -> tuple[str, str, str]:
    """Return a model call that the gateway recorded, in words.

    Returns:
        Model, size and cost (`claude-haiku-4-5: 3 messages, 2 tools; 1,000 tokens read, 10 written …`); the
        last message of the request, empty where it cannot be read; the model's answer, or why there is none.
    """
    request: Any = call.request if isinstance(call.request, dict) else {}
    turns = read_messages(request.get("messages", request.get("input"))) or ()
    tools = request.get("tools")
    sizes = [
        _counted(len(turns), "message") if turns else "",
        _counted(len(tools), "tool") if isinstance(tools, list) and tools else "",
    ]
    costs = [
        f"{call.usage.input_tokens:,} tokens read, {call.usage.output_tokens:,} written"
        if call.usage
        else "",
        f"${call.cost_usd:.4f}" if call.cost_usd is not None else "",
        f"{call.latency_ms:.0f} ms" if call.latency_ms is not None else "",
    ]
    summary = "; ".join(filter(None, (", ".join(filter(None, part)) for part in (sizes, costs))))
    prompt = turns[-1].text if turns else request.get("input")
    failed = call.error or (f"status {call.status}" if (call.status or 0) >= 400 else "")
    text = "" if call.response is None else read_answer(call.content_type or "", call.response).text
    return (
        f"{call.model or call.path}: {summary}",
        prompt if isinstance(prompt, str) else "",
        failed or text or ("" if call.tool_calls else call.response or ""),
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
