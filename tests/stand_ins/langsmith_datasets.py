"""LangSmith on loopback, as far as a push and its SDK need it: datasets, examples, experiments, feedback."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.stand_ins.loopback import Request

KEY = "lsv2_very-secret"
Row = dict[str, Any]
_AT = "2026-11-01T00:00:00+00:00"


@dataclass
class LangSmithDatasets:
    """One workspace."""

    datasets: dict[str, Row] = field(default_factory=dict)
    examples: dict[str, Row] = field(default_factory=dict)
    sessions: dict[str, Row] = field(default_factory=dict)
    runs: dict[str, Row] = field(default_factory=dict)
    feedback: dict[str, Row] = field(default_factory=dict)
    refuses: str | None = None
    """What is in an example that is not taken."""

    def answer(self, request: Request) -> tuple[int, Any]:
        """Status and body."""
        if request.headers.get("x-api-key") != KEY:
            return 401, {"detail": "Invalid token"}
        parts = request.path.removeprefix("/api/v1").strip("/").split("/")
        if parts[:2] == ["api", "v2"]:
            return self._query(request.body, str(request.body["project_ids"][0]))
        match request.method, parts:
            case "GET", ["info"]:
                return 200, {"version": "0.12.0", "batch_ingest_config": None, "instance_flags": {}}
            case "POST", ["runs", "batch"]:
                for run in request.body["post"]:
                    assert run["dotted_order"].endswith(run["id"]), "the order ends with the run"
                    UUID(run["id"])
                    session = next(s for s in self.sessions.values() if s["name"] == run["session_name"])
                    self.runs.setdefault(run["id"], {**run, "session_id": session["id"]})
                return 202, {"message": "Runs batch ingested"}
            case "POST", ["runs", "query"]:
                return self._query(request.body, str(request.body["session"][0]))
        table: dict[str, Row] | None = getattr(self, parts[0], None)
        if not isinstance(table, dict):
            return 404, {"detail": f"no route {request.path}"}
        return self._rows(request, parts, table)

    def _rows(self, request: Request, parts: list[str], table: dict[str, Row]) -> tuple[int, Any]:
        body = request.body
        match request.method, parts[1:]:
            case "GET", []:
                return 200, _listed(request, table.values())
            case "GET", [key]:
                return (200, table[key]) if key in table else (404, {"detail": "not there"})
            case "POST", []:
                if self.refuses and self.refuses in str(body):
                    return 422, {"detail": "not taken"}
                key = str(UUID(body["id"])) if "id" in body else str(UUID(int=len(table) + 1))
                if key in table:
                    return 409, {"detail": "already there"}
                table[key] = {"created_at": _AT, "modified_at": _AT, **_defaults(parts[0]), **body, "id": key}
                return 200, table[key]
            case "PATCH", [key]:
                if key not in table:
                    return 404, {"detail": "not there"}
                table[key] |= body
                return 200, table[key]
            case "DELETE", []:
                for key in request.params["example_ids"]:
                    del table[key]
                return 200, {}
        return 405, {"detail": "no such method"}

    def _query(self, body: Row, session: str) -> tuple[int, Any]:
        runs = [run for run in self.runs.values() if run["session_id"] == session]
        if body.get("is_root"):
            runs = [run for run in runs if run["id"] == run["trace_id"]]
        shown = [{"status": "success", "tags": [], **run} for run in runs]
        return 200, {"runs": shown, "cursors": {}, "items": shown, "next_cursor": None}


def _defaults(table: str) -> Row:
    tenant = str(UUID(int=7))
    return {
        "datasets": {"tenant_id": tenant, "data_type": "kv"},
        "examples": {"metadata": {}},
        "sessions": {"tenant_id": tenant, "end_time": None},
        "feedback": {},
    }[table]


_FILTERS = {
    "dataset": "dataset_id",
    "name": "name",
    "run": "run_id",
    "reference_dataset": "reference_dataset_id",
}


def _listed(request: Request, rows: Iterable[Row]) -> list[Row]:
    for name, field_name in _FILTERS.items():
        if name in request.params:
            rows = [row for row in rows if row.get(field_name) in request.params[name]]
    start, limit = int(request.param("offset") or 0), int(request.param("limit") or 100)
    return list(rows)[start : start + limit]
