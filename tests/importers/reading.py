"""What the tests of importers share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from replaydiff.importers.base import Imported, find_importer
from replaydiff.importers.collect import collected
from replaydiff.replay.model import Trace

SAMPLES = Path(__file__).parent / "samples"
SAMPLE_FILES = sorted(
    file for file in SAMPLES.rglob("*") if file.is_file() and not file.name.endswith(".expected.json")
)


def items(source: str, *paths: Path) -> list[Imported]:
    """Everything an importer says of these files."""
    with collected([str(path) for path in paths]) as files:
        return list(find_importer(source).read_files(files))


def traces(source: str, *paths: Path) -> list[Trace]:
    """The traces of these files."""
    return [item for item in items(source, *paths) if isinstance(item, Trace)]


def others(found: Iterable[Imported]) -> list[Imported]:
    """What is no trace."""
    return [item for item in found if not isinstance(item, Trace)]


GOOD = json.loads((Path(__file__).parent / "good.json").read_text())


def good_record(source: str, number: int) -> dict[str, Any]:
    """A small record of a source; records of different numbers are different traces."""
    record: dict[str, Any] = json.loads(json.dumps(GOOD[source]).replace("{number}", str(number)))
    return record


def place(record: dict[str, Any], what: str) -> tuple[dict[str, Any], str]:
    """Where a good record keeps its `input`, `answer`, `metadata` or `time`: an object, and the key in it."""
    names = {
        "input": ("input",),
        "answer": ("output",),
        "metadata": ("metadata",),
        "time": ("started_at", "created", "startTime"),
    }[what]
    if "resourceSpans" in record:
        span = record["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        if what == "time":
            return span, "startTimeUnixNano"
        return next(pair["value"] for pair in span["attributes"] if pair["key"] == names[0]), "stringValue"
    if "span_kind" in record:
        own = {"input": "input.value", "answer": "output.value", "metadata": "metadata"}
        return (record, "start_time") if what == "time" else (record["attributes"], own[what])
    if "run_type" in record:
        return {
            "input": (record["inputs"], "question"),
            "answer": (record["outputs"], "output"),
            "metadata": (record["extra"], "metadata"),
            "time": (record, "start_time"),
        }[what]
    if "simulations" in record:
        simulation = record["simulations"][0]
        if what in ("input", "answer"):
            return simulation["messages"][0 if what == "input" else -1], "content"
        return simulation, {"metadata": "metadata", "time": "start_time"}[what]
    if "info" in record:
        span = record["data"]["spans"][0]
        return {
            "input": (span["attributes"], "mlflow.spanInputs"),
            "answer": (span["attributes"], "mlflow.spanOutputs"),
            "metadata": (record["info"], "trace_metadata"),
            "time": (span, "start_time_unix_nano"),
        }[what]
    if "messages" in record and what in ("input", "answer"):
        return record["messages"][0 if what == "input" else -1], "content"
    return record, next((name for name in names if name in record), names[0])
