"""Evaluation datasets, runs, traces and assessments of MLflow on loopback, by the answers of MLflow 3.17.

Like the real one it keeps one record of an input, merges expectations and tags into it, answers spans with an
empty message, and adds assessments to those that a trace has.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.stand_ins.loopback import Request

Answer = tuple[int, Any]


@dataclass
class MlflowDatasets:
    """What is there; an instance answers requests."""

    experiments: dict[str, str] = field(default_factory=dict)
    """Name → id."""
    datasets: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Name, which is also the id, → its records by id."""
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    spans: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    infos: dict[str, dict[str, Any]] = field(default_factory=dict)
    refuses: str | None = None
    """An input that is not taken."""

    def __call__(self, request: Request) -> Answer:
        parts = request.path.strip("/").split("/")
        if request.path == "/v1/traces":
            for span in request.body["resourceSpans"][0]["scopeSpans"][0]["spans"]:
                self.spans[f"tr-{span['traceId']}"].append(span)
            return 200, {}
        kind, rest = parts[3], parts[4:]
        return {
            "experiments": self._experiment,
            "datasets": self._dataset,
            "runs": self._run,
            "traces": self._trace,
        }[kind](rest, request)

    def _experiment(self, rest: list[str], request: Request) -> Answer:
        if rest == ["get-by-name"]:
            found = self.experiments.get(str(request.param("experiment_name")))
            return (200, {"experiment": {"experiment_id": found}}) if found else (404, {"message": "none"})
        name = request.body["name"]
        self.experiments[name] = str(len(self.experiments) + 1)
        return 200, {"experiment_id": self.experiments[name]}

    def _dataset(self, rest: list[str], request: Request) -> Answer:
        if rest == ["search"]:
            named = [name for name in self.datasets if request.body["filter_string"] == f"name = '{name}'"]
            return 200, {"datasets": [{"dataset_id": name, "name": name} for name in named]}
        if rest == ["create"]:
            self.datasets[request.body["name"]] = {}
            return 200, {"dataset": {"dataset_id": request.body["name"], "digest": "d1"}}
        records = self.datasets[rest[0]]
        if request.method == "GET":
            return 200, {"records": json.dumps(list(records.values()))}
        if request.method == "DELETE":
            for key in request.body["dataset_record_ids"]:
                del records[key]
            return 200, {"deleted_count": len(request.body["dataset_record_ids"])}
        rows = json.loads(request.body["records"])
        if any(row["inputs"] == {"input": self.refuses} for row in rows):
            return 400, {"message": "not a record"}
        for row in rows:
            same = [record for record in records.values() if record["inputs"] == row["inputs"]]
            held = same[0] if same else {"dataset_record_id": f"dr-{len(records)}", "inputs": row["inputs"]}
            records[held["dataset_record_id"]] = held
            for name in ("expectations", "tags"):
                held[name] = {**held.get(name, {}), **row.get(name, {})}
        return 200, {"inserted_count": len(rows)}

    def _run(self, rest: list[str], request: Request) -> Answer:
        body = request.body
        if rest == ["search"]:
            found = [
                run
                for run in self.runs.values()
                if all(
                    f"tags.`{tag['key']}` = '{tag['value']}'" in body["filter"]
                    for tag in run["data"]["tags"]
                    if tag["key"] in ("replay.run", "replay.lane", "replay.dataset")
                )
            ]
            return 200, {"runs": found}
        if rest == ["create"]:
            name = f"r{len(self.runs)}"
            run = {"info": {"run_id": name, "run_name": body["run_name"]}, "data": {"tags": body["tags"]}}
            self.runs[name] = run
            return 200, {"run": run}
        run = self.runs[body["run_id"]]
        if rest == ["log-batch"]:
            for kind in ("tags", "metrics"):
                held = {one["key"]: one for one in [*run["data"].get(kind, []), *body[kind]]}
                run["data"][kind] = list(held.values())
        elif rest == ["log-inputs"]:
            run["inputs"] = {"dataset_inputs": body["datasets"]}
        else:
            run["info"] |= body
        return 200, {}

    def _trace(self, rest: list[str], request: Request) -> Answer:
        if rest == ["batchGet"]:
            wanted = request.params["trace_ids"]
            return 200, {"traces": [{"trace_info": self.infos[key]} for key in wanted if key in self.infos]}
        if not rest:
            info = request.body["trace"]["trace_info"]
            for one in info["assessments"]:
                if text := one.get("expectation", {}).get("serialized_value"):
                    text["value"] = json.dumps(json.loads(text["value"]), indent=1)
            self.infos[info["trace_id"]] = info
            return 200, {}
        held = self.infos[rest[0]]["assessments"]
        if request.method == "PATCH":
            (one,) = (one for one in held if one["assessment_id"] == rest[2])
            one.update(request.body["assessment"])
        else:
            held.append(request.body["assessment"])
        return 200, {}
