"""Runs of a tea shop's agent, and an API that answers for them as LangSmith's does, in either generation."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.stand_ins.loopback import Request

KEY = "lsv2_test_key"
PROJECT, PROJECT_ID = "tea", "00000000-0000-7000-8000-00000000abcd"
JUDGES_ID = "00000000-0000-7000-8000-00000000dcba"
"""The project of LangSmith's own evaluators."""
BEGUN = datetime(2026, 11, 1)
Run = dict[str, Any]


def _id(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012x}"


def trace(number: int, at: datetime, *, lasts_s: float = 3.0, ended: bool = True, **root: Any) -> list[Run]:
    """A question that one tool answers: agent, model call, tool, model call. `root` is put over its fields."""
    runs: list[Run] = []

    def run(place: int, name: str, kind: str, start_s: float, end_s: float | None, **own: Any) -> None:
        moment = at + timedelta(seconds=start_s)
        run_id = _id(number * 16 + place)
        order = f"{moment:%Y%m%dT%H%M%S%f}Z{run_id}"
        above = runs[0] if runs else None
        runs.append(
            {
                "id": run_id,
                "trace_id": above["id"] if above else run_id,
                "parent_run_id": above["id"] if above else None,
                "dotted_order": f"{above['dotted_order']}.{order}" if above else order,
                "session_id": PROJECT_ID,
                "name": name,
                "run_type": kind,
                "status": "success" if end_s is not None else "pending",
                "start_time": moment.isoformat(),
                "end_time": None if end_s is None else (at + timedelta(seconds=end_s)).isoformat(),
                "error": None,
                "tags": [],
                "extra": {"metadata": {"user_id": f"u{number % 3}", "thread_id": f"c{number}"}},
                "reference_example_id": None,
                "feedback_stats": {},
                **own,
            }
        )

    call = {"id": f"call-{number}", "type": "function", "function": {"name": "brew", "arguments": '{"n": 1}'}}
    question = {"role": "user", "content": f"Tea {number}?"}
    answer = {"role": "assistant", "content": f"Tea {number}."}
    asks = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "hot"}
    run(
        0,
        "agent",
        "chain",
        0,
        lasts_s if ended else None,
        **{"inputs": {"question": question["content"]}, "outputs": {"output": answer["content"]}, **root},
    )
    messages = [question]
    run(1, "model", "llm", 0.1, 0.5, inputs={"messages": messages}, outputs={"choices": [{"message": asks}]})
    run(2, "brew", "tool", 0.6, 0.7, inputs={"n": 1}, outputs={"output": "hot"})
    run(
        3,
        "model",
        "llm",
        lasts_s - 0.2,
        lasts_s,
        inputs={"messages": [*messages, asks, result]},
        outputs={"choices": [{"message": answer}]},
    )
    return runs


@dataclass
class LangSmith:
    """What the server has. `has_new` and `has_old` say which generations of the API it serves."""

    runs: list[Run]
    feedback: list[dict[str, Any]] = field(default_factory=list)
    has_new: bool = True
    has_old: bool = True
    most_runs: int = 1000
    """Pages of more runs are answered with 504: they take too long."""

    def answer(self, request: Request) -> tuple[int, Any]:
        """Status and JSON for a request."""
        if request.headers.get("x-api-key") != KEY:
            return 403, {"detail": "Forbidden"}
        if request.path == "/api/v1/sessions":
            known = [
                {
                    "id": project_id,
                    "tenant_id": PROJECT_ID,
                    "name": name,
                    "start_time": BEGUN.isoformat(),
                    "reference_dataset_id": None,
                }
                for name, project_id in ((PROJECT, PROJECT_ID), ("evaluators", JUDGES_ID))
            ]
            return 200, [one for one in known if request.param("name") in (None, one["name"])]
        if request.path.startswith("/api/v1/sessions/"):
            return 404, {"detail": "Session not found"}
        if request.path == "/api/v1/feedback":
            offset, limit = int(request.param("offset") or 0), int(request.param("limit") or 20)
            own = [row for row in self.feedback if row["run_id"] in request.params["run"]]
            return 200, own[offset : offset + limit]
        if request.path == "/api/v2/runs/query" and self.has_new:
            return self._query_new(request.body)
        if request.path == "/api/v1/runs/query" and self.has_old:
            return self._query_old(request.body)
        return 404, {"detail": "Not Found"}

    def _query_new(self, body: dict[str, Any]) -> tuple[int, Any]:
        if body["project_ids"] != [PROJECT_ID]:
            return 200, {"items": [_new(run) for run in trace(900, BEGUN)], "next_cursor": None}
        if body["page_size"] > self.most_runs:
            return 504, {"detail": "upstream request timeout"}
        found = _between(self.runs, body["min_start_time"], body.get("max_start_time"), body.get("trace_id"))
        found = _of_roots(self.runs, found, body.get("trace_filter"))
        page, cursor = _page(found, body["page_size"], body.get("cursor"))
        selected = {field.lower() for field in body["selects"]}
        items = [{key: value for key, value in _new(run).items() if key in selected} for run in page]
        return 200, {"items": items, "next_cursor": cursor}

    def _query_old(self, body: dict[str, Any]) -> tuple[int, Any]:
        assert body["session"] == [PROJECT_ID]
        before = re.fullmatch(r'lt\(start_time, "(.*)"\)', body.get("filter", ""))
        found = _between(self.runs, body["start_time"], before[1] if before else None, body.get("trace"))
        found = _of_roots(self.runs, found, body.get("trace_filter"))
        page, cursor = _page(found, body.get("limit", 100), body.get("cursor"))
        runs = [{key: value for key, value in run.items() if key in body["select"]} for run in page]
        return 200, {"runs": runs, "cursors": {"next": cursor}}


def _between(runs: Sequence[Run], start: str, end: str | None, trace_id: str | None) -> list[Run]:
    """By start, the latest first."""
    given = (start, end or "9999-12-31")
    first, last = (datetime.fromisoformat(bound).replace(tzinfo=None) for bound in given)
    found = [run for run in runs if first <= datetime.fromisoformat(run["start_time"]) < last]
    own = [run for run in found if trace_id in (None, run["trace_id"])]
    return sorted(own, key=lambda run: (run["start_time"], run["id"]), reverse=True)


def _of_roots(runs: Sequence[Run], found: list[Run], wanted: str | None) -> list[Run]:
    if wanted is None:
        return found
    term = re.fullmatch(r"(has\(tags|eq\(name), (.*)\)", wanted)
    assert term, f"the stand-in does not know the filter {wanted}"
    value = json.loads(term[2])
    roots = {run["id"] for run in runs if value in (run["tags"] if "tags" in term[1] else [run["name"]])}
    return [run for run in found if run["trace_id"] in roots]


def _page(found: list[Run], size: int, cursor: str | None) -> tuple[list[Run], str | None]:
    start = int(base64.b64decode(cursor)) if cursor else 0
    more = start + size < len(found)
    return found[start : start + size], base64.b64encode(
        str(start + size).encode()
    ).decode() if more else None


def _new(run: Run) -> Run:
    """A run as the new API writes it."""
    above = [part[-36:] for part in run["dotted_order"].split(".")[:-1]]
    ended = run["end_time"] and run["end_time"] + "Z"
    renamed = {"project_id": run["session_id"], "parent_run_ids": above, "end_time": ended}
    shouted = {key: run[key].upper() for key in ("run_type", "status")}
    kept = {key: value for key, value in run.items() if key not in ("session_id", "parent_run_id")}
    return {**kept, **renamed, **shouted, "start_time": run["start_time"] + "Z"}
