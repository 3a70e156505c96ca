"""Datasets, experiments and evaluations of Phoenix on loopback, by the answers of Phoenix 20.26.

Like the real one it versions datasets, keeps ids of examples, refuses a second run of a repetition, and
takes evaluations of runs that exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.stand_ins.loopback import Request

Answer = tuple[int, Any]


@dataclass
class PhoenixDatasets:
    """What is there; an instance answers requests."""

    versions: dict[str, list[dict[str, dict[str, Any]]]] = field(default_factory=dict)
    """Dataset → its versions, oldest first: id of an example → the example."""
    experiments: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    evaluations: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    refuses: str | None = None
    """An id of an example that is not taken."""
    writes: int = 0

    def __call__(self, request: Request) -> Answer:
        if request.method != "GET":
            self.writes += 1
        parts = request.path.strip("/").split("/")[1:]
        if parts == ["datasets"]:
            listed = [{"id": name, "name": name} for name in self.versions if name == request.param("name")]
            return 200, {"data": listed, "next_cursor": None}
        if parts == ["datasets", "upload"]:
            return self._upload(request.body)
        if parts[0] == "datasets":
            return self._dataset(parts[1], parts[2], request)
        if parts == ["experiment_evaluations"]:
            return self._evaluate(request.body)
        return self._experiment(parts[1], parts[2:], request)

    def _upload(self, body: dict[str, Any]) -> Answer:
        if self.refuses in body["example_ids"]:
            return 422, "Invalid request body"
        versions = self.versions.setdefault(body["name"], [])
        now = dict(versions[-1]) if versions and body["action"] == "append" else {}
        columns = (body["example_ids"], body["inputs"], body["outputs"], body["metadata"])
        for key, given, output, metadata in zip(*columns, strict=True):
            if not isinstance(given, dict):
                return 422, "inputs must be objects"
            row = {"id": key, "node_id": f"node:{key}", "input": given, "output": output}
            now[key] = {**row, "metadata": metadata}
        if not versions or versions[-1] != now:
            versions.append(now)
        return 200, {"data": {"dataset_id": body["name"], "version_id": str(len(versions) - 1)}}

    def _dataset(self, name: str, what: str, request: Request) -> Answer:
        versions = self.versions[name]
        if what == "examples":
            chosen = versions[int(request.param("version_id") or -1)]
            return 200, {"data": {"dataset_id": name, "examples": list(chosen.values())}}
        if what == "versions":
            listed = [{"version_id": str(place)} for place in reversed(range(len(versions)))]
            return 200, {"data": listed, "next_cursor": None}
        if request.method == "POST":
            made = {**request.body, "id": f"experiment{len(self.experiments)}", "dataset_id": name}
            self.experiments[made["id"]] = made
            return 200, {"data": made}
        return 200, {"data": list(self.experiments.values()), "next_cursor": None}

    def _experiment(self, name: str, rest: list[str], request: Request) -> Answer:
        if request.method == "PATCH":
            self.experiments[name] |= request.body
            return 200, {"data": self.experiments[name]}
        own = {key: run for key, run in self.runs.items() if run["experiment_id"] == name}
        if rest == ["json"]:
            return 200, [self._flat(key, run) for key, run in own.items()]
        if request.method == "GET":
            return 200, {"data": list(own.values()), "next_cursor": None}
        key = f"{name}:{request.body['dataset_example_id']}:{request.body['repetition_number']}"
        if key in self.runs:
            return 409, "Experiment run already exists with a successful result and cannot be updated"
        self.runs[key] = {**request.body, "id": key, "experiment_id": name}
        return 200, {"data": {"id": key}}

    def _flat(self, key: str, run: dict[str, Any]) -> dict[str, Any]:
        listed = [
            {"name": name, **one["result"]} for (of, name), one in self.evaluations.items() if of == key
        ]
        return {
            "example_id": run["dataset_example_id"],
            "repetition_number": run["repetition_number"],
            "annotations": listed,
        }

    def _evaluate(self, body: dict[str, Any]) -> Answer:
        if body["experiment_run_id"] not in self.runs:
            return 404, "ExperimentRun does not exist"
        self.evaluations[body["experiment_run_id"], body["name"]] = body
        return 200, {"data": {"id": f"evaluation{len(self.evaluations)}"}}
