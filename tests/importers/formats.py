"""One run as each format writes it, for tests that compare what is imported with what happened.

The run is one turn of the user, model calls that request tools (several at once too), the tools' results in any
order, and an answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.importers import layouts

TIME = "2026-11-01T10:00:00Z"
Call = tuple[str, dict[str, Any], str]
"""Name, arguments, result."""
Rounds = list[list[Call]]
"""The calls of each model call."""
Record = dict[str, Any]

names = st.sampled_from(["find", "price", "send_mail"])
plain = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
texts = plain.filter(lambda text: text.strip() and text.strip()[0] not in '[{"')
arguments = st.dictionaries(texts, texts | st.integers() | st.none() | st.booleans(), max_size=3)
calls = st.tuples(names, arguments, texts)
rounds = st.lists(st.lists(calls, min_size=1, max_size=3), max_size=3)


def numbered(made: Rounds) -> list[list[tuple[str, Call]]]:
    """The calls with an id each."""
    return [
        [(f"k{turn}-{number}", one) for number, one in enumerate(turn_calls)]
        for turn, turn_calls in enumerate(made)
    ]


def request(call_id: str, call: Call) -> Record:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": call[0], "arguments": json.dumps(call[1])},
    }


def conversations(made: Rounds) -> list[tuple[list[Record], Record]]:
    """Each model call in OpenAI's shape: what it was given, and what it answered."""
    given: list[Record] = [{"role": "user", "content": "Two roses, please."}]
    found = []
    for turn in numbered(made):
        answer: Record = {"role": "assistant", "content": None, "tool_calls": [request(*one) for one in turn]}
        found.append((list(given), answer))
        given += [
            answer,
            *({"role": "tool", "tool_call_id": key, "content": one[2]} for key, one in turn[::-1]),
        ]
    return [*found, (given, {"role": "assistant", "content": "Done."})]


def inspect(made: Rounds) -> list[Record]:
    given, answer = conversations(made)[-1]
    shaped = [
        message
        if not message.get("tool_calls")
        else {
            **message,
            "tool_calls": [
                {
                    "id": call["id"],
                    "function": call["function"]["name"],
                    "arguments": json.loads(call["function"]["arguments"]),
                }
                for call in message["tool_calls"]
            ],
        }
        for message in (*given, answer)
    ]
    sample = {
        "uuid": "t1",
        "id": 1,
        "epoch": 1,
        "input": "Two roses, please.",
        "messages": shaped,
        "started_at": TIME,
    }
    return [{"version": 2, "eval": {"task": "garden", "model": "m"}, "samples": [sample]}]


def atif(made: Rounds) -> list[Record]:
    steps: list[Record] = [
        {"step_id": 1, "source": "user", "message": "Two roses, please.", "timestamp": TIME}
    ]
    for turn in numbered(made):
        steps.append(
            {
                "step_id": len(steps) + 1,
                "source": "agent",
                "message": "",
                "tool_calls": [
                    {"tool_call_id": key, "function_name": one[0], "arguments": one[1]} for key, one in turn
                ],
                "observation": {
                    "results": [{"source_call_id": key, "content": one[2]} for key, one in turn[::-1]]
                },
            }
        )
    steps.append({"step_id": len(steps) + 1, "source": "agent", "message": "Done."})
    return [
        {
            "schema_version": "ATIF-v1.8",
            "session_id": "t1",
            "agent": {"name": "a", "version": "1"},
            "steps": steps,
        }
    ]


def bedrock(made: Rounds) -> list[Record]:
    def converse(message: Record) -> Record:
        if message["role"] == "tool":
            result = {"toolUseId": message["tool_call_id"], "content": [{"text": message["content"]}]}
            return {"role": "user", "content": [{"toolResult": result}]}
        uses = [
            {
                "toolUse": {
                    "toolUseId": one["id"],
                    "name": one["function"]["name"],
                    "input": json.loads(one["function"]["arguments"]),
                }
            }
            for one in message.get("tool_calls") or ()
        ]
        text = [{"text": message["content"]}] if message["content"] else []
        return {"role": message["role"], "content": [*text, *uses]}

    return [
        {
            "schemaType": "ModelInvocationLog",
            "timestamp": f"2026-11-01T10:00:{number:02d}Z",
            "requestId": f"t{number}",
            "operation": "Converse",
            "modelId": "m",
            "input": {"inputBodyJson": {"messages": [converse(one) for one in given]}},
            "output": {"outputBodyJson": {"output": {"message": converse(answer)}}},
        }
        for number, (given, answer) in enumerate(conversations(made), start=1)
    ]


Part = tuple[str, str, Any, Any]
"""What a span is, its name, what went in and what came out."""


def spans(made: Rounds) -> list[Part]:
    """The spans of the run below its root, in the order of their start; the tools of a turn run backwards."""
    found: list[Part] = []
    for turn, (asked, answer) in zip([*numbered(made), []], conversations(made), strict=True):
        found.append(("llm", "completion", asked, answer))
        found += [("tool", one[0], one[1], one[2]) for _, one in turn[::-1]]
    return found


def braintrust(made: Rounds) -> list[Record]:
    def row(number: int, kind: str, name: str, given: Any, output: Any) -> Record:
        return {
            "id": f"row{number}",
            "span_id": f"s{number}",
            "root_span_id": "t1",
            "span_parents": ["s0"] if number else None,
            "span_attributes": {"type": kind, "name": name},
            "metrics": {"start": 1793527200.0 + number, "end": 1793527200.5 + number},
            "input": given,
            "output": [{"index": 0, "message": output}] if kind == "llm" else output,
        }

    root = row(0, "task", "agent", {"question": "Two roses, please."}, "Done.")
    return [root, *(row(number, *part) for number, part in enumerate(spans(made), start=1))]


def weave(made: Rounds) -> list[Record]:
    def call(number: int, kind: str, name: str, given: Any, output: Any) -> Record:
        return {
            "id": f"c{number}",
            "trace_id": "t1",
            "parent_id": "c0" if number else None,
            "op_name": f"weave:///shop/prod/op/{name}:abc",
            "started_at": f"2026-11-01T10:00:{number:02d}Z",
            "ended_at": f"2026-11-01T10:00:{number:02d}.5Z",
            "inputs": {"model": "m", "messages": given} if kind == "llm" else given,
            "output": {"choices": [{"index": 0, "message": output}]} if kind == "llm" else output,
            "summary": {"usage": {"m": {"prompt_tokens": 3, "completion_tokens": 2}}}
            if kind == "llm"
            else {},
        }

    root = call(0, "op", "agent", {"question": "Two roses, please."}, "Done.")
    return [root, *(call(number, *part) for number, part in enumerate(spans(made), start=1))]


def openai_agents(made: Rounds) -> list[Record]:
    def span(number: int, kind: str, name: str, given: Any, output: Any) -> Record:
        if kind == "llm":
            data = {"type": "generation", "input": given, "output": [output], "model": "m"}
        elif kind == "tool":
            data = {"type": "function", "name": name, "input": json.dumps(given), "output": output}
        else:
            data = {"type": "agent", "name": name}
        return {
            "object": "trace.span",
            "id": f"c{number}",
            "trace_id": "t1",
            "parent_id": "c0" if number else None,
            "started_at": f"2026-11-01T10:00:{number:02d}Z",
            "ended_at": f"2026-11-01T10:00:{number:02d}.5Z",
            "span_data": data,
            "error": None,
        }

    inner = [span(number, *part) for number, part in enumerate(spans(made), start=1)]
    return [{"object": "trace", "id": "t1", "workflow_name": "shop"}, span(0, "agent", "main", 0, 0), *inner]


def opik(made: Rounds) -> list[Record]:
    def row(number: int, kind: str, name: str, given: Any, output: Any) -> Record:
        return {
            "id": f"s{number}",
            "project_name": "shop",
            "trace_id": "t1",
            "parent_span_id": "s0" if number else None,
            "name": name,
            "type": kind,
            "start_time": f"2026-11-01 10:00:{number:02d}+00:00",
            "end_time": f"2026-11-01 10:00:{number:02d}.500000+00:00",
            "input": {"messages": given} if kind == "llm" else given,
            "output": {"choices": [{"message": output}]} if kind == "llm" else {"output": output},
        }

    asked = {"question": "Two roses, please."}
    inner = [row(number, *part) for number, part in enumerate(spans(made), start=1)]
    rows = [row(0, "general", "agent", asked, "Done."), *inner]
    trace = {"id": "t1", "project_name": "shop", "name": "agent", "start_time": TIME, "end_time": TIME}
    trace |= {"input": asked, "output": {"output": "Done."}, "span_count": len(rows)}
    return [trace, *rows]


def datadog(made: Rounds) -> list[Record]:
    def message(one: Record) -> Record:
        if one["role"] == "tool":
            result = {"name": "", "result": one["content"], "tool_id": one["tool_call_id"]}
            return {"role": "tool", "content": "", "tool_results": [result]}
        calls = [
            {
                "name": call["function"]["name"],
                "arguments": json.loads(call["function"]["arguments"]),
                "tool_id": call["id"],
                "type": "function",
            }
            for call in one.get("tool_calls", ())
        ]
        return {"role": one["role"], "content": one["content"] or "", "tool_calls": calls}

    def span(number: int, kind: str, name: str, given: Any, output: Any) -> Record:
        is_model = kind == "llm"
        return {
            "trace_id": "t1",
            "span_id": f"{number + 1}",
            "parent_id": "1" if number else "undefined",
            "name": name,
            "start_ns": (1793527200 + number) * 10**9,
            "duration": 5 * 10**8,
            "status": "ok",
            "meta": {
                "span": {"kind": kind},
                "input": {"messages": list(map(message, given))}
                if is_model
                else {"value": json.dumps(given)},
                "output": {"messages": [message(output)]} if is_model else {"value": output},
            },
        }

    asked = {"question": "Two roses, please."}
    rows = [span(0, "agent", "agent", asked, "Done.")]
    rows += [span(number, *part) for number, part in enumerate(spans(made), start=1)]
    return [{"event_type": "span", "_dd.stage": "raw", "spans": [row]} for row in rows]


def one_turn(write: Callable[[str, list[layouts.Turn]], list[Record]]) -> Callable[[Rounds], list[Record]]:
    """Return what writes the run as the only turn of a session."""
    return lambda made: write("s1", [layouts.Turn("Two roses, please.", made, "Done.")])


WRITERS: dict[str, Callable[[Rounds], list[Record]]] = {
    "inspect": inspect,
    "atif": atif,
    "bedrock": bedrock,
    "litellm": one_turn(layouts.litellm),
    "braintrust": braintrust,
    "weave": weave,
    "openai-agents": openai_agents,
    "opik": opik,
    "datadog": datadog,
    "adk": one_turn(layouts.adk),
    "gemini-cli": one_turn(layouts.gemini_cli),
}


def write(folder: Path, records: list[Record]) -> Path:
    file = folder / "f.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return file


ROUNDS: Rounds = [
    [("find", {"plant": "rose"}, "4"), ("find", {"plant": "tulip"}, "9")],
    [("price", {}, "12")],
]
