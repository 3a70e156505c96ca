"""Braintrust on loopback, as far as a push, a live import and its SDK need it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.stand_ins.loopback import Request

KEY = "sk-very-secret"
Row = dict[str, Any]


@dataclass
class Braintrust:
    """One organisation."""

    projects: dict[str, Row] = field(default_factory=dict)
    datasets: dict[str, Row] = field(default_factory=dict)
    experiments: dict[str, Row] = field(default_factory=dict)
    rows: dict[str, dict[str, Row]] = field(default_factory=dict)
    """Id of a dataset, an experiment or a project → its rows by id."""
    page: int = 1000
    """The most rows of an answer."""
    refuses: str | None = None
    """What is in an event that is not taken."""
    writes: int = 0
    xact: int = 1000
    url: str = ""

    def answer(self, request: Request) -> tuple[int, Any]:
        """Status and body."""
        parts = request.path.strip("/").split("/")
        if parts == ["api", "apikey", "login"]:
            return 200, {
                "org_info": [{"id": "org", "name": "cafe", "api_url": self.url, "proxy_url": self.url}]
            }
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return 401, {"error": "invalid key"}
        match request.method, parts:
            case "GET", ["v1", "project"]:
                name = request.param("project_name")
                return 200, {"objects": [row for key, row in self.projects.items() if name in (None, key)]}
            case "POST", ["v1", "project" | "dataset" | "experiment"]:
                table = {"project": self.projects, "dataset": self.datasets, "experiment": self.experiments}
                key = f"{request.body.get('project_id', '')}/{request.body['name']}"
                key = key if parts[1] != "project" else request.body["name"]
                rows = table[parts[1]]
                return 200, rows.setdefault(key, {"id": f"{parts[1]}-{len(rows)}", **request.body})
            case "GET", ["v1", "experiment"]:
                named = [
                    row
                    for row in self.experiments.values()
                    if row["name"] == request.param("experiment_name")
                ]
                return 200, {"objects": named}
            case "POST", ["v1", "dataset" | "experiment", object_id, "insert"]:
                return self._insert(object_id, request.body["events"])
            case "POST", ["v1", _, object_id, "fetch"]:
                rows_there = list(self.rows.get(object_id, {}).values())
                return 200, {"events": rows_there, "cursor": None}
            case "POST", ["btql"]:
                return self._btql(request.body["query"])
        return 404, {"error": f"no route {request.method} {request.path}"}

    def _insert(self, object_id: str, events: list[Row]) -> tuple[int, Any]:
        if self.refuses and self.refuses in str(events):
            return 400, {"error": "not taken"}
        self.writes += 1
        self.xact += 1
        rows = self.rows.setdefault(object_id, {})
        for event in events:
            scores = event.get("scores") or {}
            assert all(0 <= score <= 1 for score in scores.values()), "scores are between 0 and 1"
            if event.get("_object_delete"):
                rows.pop(event["id"], None)
            else:
                rows[event["id"]] = {"created": "2026-11-01T00:00:00Z", **event, "_xact_id": str(self.xact)}
        return 200, {"row_ids": [event["id"] for event in events]}

    def _btql(self, query: Row) -> tuple[int, Any]:
        object_id = query["from"]["args"][0]["value"]
        rows = [row for row in self.rows.get(object_id, {}).values() if _fits(row, query.get("filter"))]
        start = int(query["cursor"] or 0)
        limit = min(query["limit"], self.page)
        more = start + limit < len(rows)
        return 200, {"data": rows[start : start + limit], "cursor": str(start + limit) if more else None}


def _fits(row: Row, condition: Row | None) -> bool:
    if condition is None:
        return True
    if condition["op"] == "and":
        return all(_fits(row, child) for child in condition["children"])
    value, bound = row[condition["left"]["name"][0]], condition["right"]["value"]
    return {"ge": value >= bound, "lt": value < bound}[condition["op"]]
