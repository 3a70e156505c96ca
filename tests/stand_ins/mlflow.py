"""Traces of a tea shop's agent, and a tracking server that answers for them as MLflow's does, new or old."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.stand_ins.loopback import Request

TOKEN = "dapi-test-token"
EXPERIMENT, EXPERIMENT_ID = "tea", "7"
Trace = dict[str, Any]


def trace(number: int, at: datetime, **tags: str) -> Trace:
    """A question that one tool answers: agent, model call, tool, model call; as an export has it."""
    call = {"id": f"call-{number}", "type": "function", "function": {"name": "brew", "arguments": '{"n": 1}'}}
    question = {"role": "user", "content": f"Tea {number}?"}
    asks = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "hot"}
    answer = {"role": "assistant", "content": f"Tea {number}."}
    spans: list[dict[str, Any]] = []

    def span(name: str, kind: str, start_s: float, end_s: float, given: Any, said: Any) -> None:
        attributes = {"mlflow.spanType": kind, "mlflow.spanInputs": given, "mlflow.spanOutputs": said}
        spans.append(
            {
                "span_id": f"{number:08x}{len(spans):08x}",
                "parent_span_id": spans[0]["span_id"] if spans else None,
                "name": name,
                "start_time_unix_nano": _nano(at, start_s),
                "end_time_unix_nano": _nano(at, end_s),
                "status": {"code": "STATUS_CODE_OK", "message": ""},
                "events": [],
                "attributes": {key: json.dumps(value) for key, value in attributes.items()},
            }
        )

    span("agent", "AGENT", 0, 3, {"question": question["content"]}, answer["content"])
    span("model", "CHAT_MODEL", 0.1, 0.5, {"messages": [question]}, {"choices": [{"message": asks}]})
    span("brew", "TOOL", 0.6, 0.7, {"n": 1}, "hot")
    span(
        "model",
        "CHAT_MODEL",
        2,
        3,
        {"messages": [question, asks, result]},
        {"choices": [{"message": answer}]},
    )
    info = {
        "trace_id": f"tr-{number:032x}",
        "trace_location": {
            "type": "MLFLOW_EXPERIMENT",
            "mlflow_experiment": {"experiment_id": EXPERIMENT_ID},
        },
        "request_time": at.isoformat() + "Z",
        "execution_duration_ms": 3000,
        "state": "OK",
        "trace_metadata": {"mlflow.trace.user": f"u{number % 3}", "mlflow.trace.session": f"c{number}"},
        "tags": {"mlflow.traceName": "agent", **tags},
        "assessments": [],
    }
    return {"info": info, "data": {"spans": spans}}


def _nano(at: datetime, seconds: float) -> int:
    moment = (at + timedelta(seconds=seconds)).replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000) * 1_000_000


@dataclass
class MLflow:
    """What the server has. An old one knows none of the paths of `/api/3.0`, and keeps spans as files."""

    traces: list[Trace]
    is_old: bool = False
    most_traces: int = 1000
    """More traces at once are answered with 504: they take too long."""
    as_files: set[str] = field(default_factory=set)
    """Ids of traces whose spans are files, also on a new server."""

    def answer(self, request: Request) -> tuple[int, Any]:
        """Status and JSON for a request."""
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return 401, {"error_code": "UNAUTHENTICATED", "message": "not you"}
        if request.path.startswith("/api/2.0/mlflow/experiments/"):
            return self._experiments(request)
        if request.path == "/ajax-api/2.0/mlflow/get-trace-artifact":
            found = self._by_id(request.param("request_id"))
            if not self.is_old and request.param("request_id") not in self.as_files:
                return 404, _error("no such file")
            return (200, found["data"]) if found else (404, _error("no such trace"))
        if request.path == "/api/2.0/mlflow/traces":
            asked = {key: values[0] for key, values in request.params.items()}
            return self._search(asked["experiment_ids"], asked, as_old=True)
        if self.is_old:
            return 404, _error("no such endpoint")
        if request.path == "/api/3.0/mlflow/traces/search":
            (location,) = request.body["locations"]
            experiment = location["mlflow_experiment"]["experiment_id"]
            return self._search(experiment, request.body, as_old=False)
        assert request.path == "/api/3.0/mlflow/traces/batchGet"
        ids = request.params["trace_ids"]
        if len(ids) > self.most_traces:
            return 504, _error("timed out")
        whole = [found for found in map(self._by_id, ids) if found]
        kept = [one for one in whole if one["info"]["trace_id"] not in self.as_files]
        return 200, {"traces": [_new(one) for one in kept]}

    def _by_id(self, trace_id: str | None) -> Trace | None:
        return next((one for one in self.traces if one["info"]["trace_id"] == trace_id), None)

    def _experiments(self, request: Request) -> tuple[int, Any]:
        known = {"experiment_id": EXPERIMENT_ID, "name": EXPERIMENT}
        if request.path.endswith("/search"):
            return 200, {"experiments": [known]}
        wanted = request.param("experiment_name") or request.param("experiment_id")
        if wanted == known["experiment_id" if request.path.endswith("/get") else "name"]:
            return 200, {"experiment": known}
        return 404, _error("Could not find experiment")

    def _search(self, experiment: str, asked: Mapping[str, Any], *, as_old: bool) -> tuple[int, Any]:
        assert experiment == EXPERIMENT_ID
        assert "timestamp_ms ASC" in asked["order_by"]
        bounds = dict(re.findall(r"timestamp_ms (>=|<) (\d+)", asked["filter"]))
        first, last = int(bounds.get(">=", 0)), int(bounds["<"])
        found = [one for one in self.traces if first <= _milliseconds(one) < last]
        found.sort(key=_milliseconds)
        start, size = int(asked.get("page_token") or 0), int(asked["max_results"])
        page = [_old(one) if as_old else _new(one)["trace_info"] for one in found[start : start + size]]
        more = {"next_page_token": str(start + size)} if start + size < len(found) else {}
        # Protobuf leaves out what is empty.
        return 200, {**({"traces": page} if page else {}), **more}


def _milliseconds(one: Trace) -> int:
    moment = datetime.fromisoformat(one["info"]["request_time"])
    return int(moment.timestamp() * 1000)


def _error(message: str) -> dict[str, str]:
    return {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": message}


def _old(one: Trace) -> dict[str, Any]:
    """What an old server says of a trace."""
    info = one["info"]
    tables = {"request_metadata": info["trace_metadata"], "tags": info["tags"]}
    return {
        "request_id": info["trace_id"],
        "experiment_id": EXPERIMENT_ID,
        "timestamp_ms": _milliseconds(one),
        "execution_time_ms": info["execution_duration_ms"],
        "status": info["state"],
        **{
            name: [{"key": key, "value": value} for key, value in own.items()] for name, own in tables.items()
        },
        "assessments": info["assessments"],
    }


def _new(one: Trace) -> dict[str, Any]:
    """A trace as a new server writes it: protobuf as JSON."""
    info = {key: value for key, value in one["info"].items() if key != "execution_duration_ms"}
    spans = [
        {
            **{key: value for key, value in span.items() if value not in (None, [])},
            "attributes": [
                {"key": key, "value": _value(json.loads(value))} for key, value in span["attributes"].items()
            ],
        }
        for span in one["data"]["spans"]
    ]
    seconds = one["info"]["execution_duration_ms"] / 1000
    return {"trace_info": {**info, "execution_duration": f"{seconds}s"}, "spans": spans}


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {
            "kvlist_value": {"values": [{"key": key, "value": _value(own)} for key, own in value.items()]}
        }
    if isinstance(value, list):
        return {"array_value": {"values": [_value(own) for own in value]}}
    kinds = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}
    return {} if value is None else {kinds[type(value)]: value}
