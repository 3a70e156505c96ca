"""Makes rows of a check's report: `python rows.py reports/latest.json logs > reports/rows.csv`.

One row a problem: question, expected, prediction, log file (the newest whose problem it is), correctness.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path


def logs(folder: Path) -> dict[str, str]:
    """Problem → the file of its newest log."""
    newest = {}
    for file in sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime):
        first = json.loads(file.read_text())[0]
        newest[first["data"]["messages"][-1]["content"]] = str(file)
    return newest


def main(report: str, folder: str) -> None:
    """Write the rows to stdout."""
    document, log_of = json.loads(Path(report).read_text()), logs(Path(folder))
    correct = {case["id"]: case["metrics"]["correctness"]["new"] for case in document["cases"]}
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["question", "expected", "prediction", "log_file", "correctness"])
    for row in document["check"]["rows"]:
        values = [
            row["input"],
            row["expected_answer"],
            row["response"],
            log_of.get(row["input"]),
            correct[row["id"]],
        ]
        rows.writerow(values)


if __name__ == "__main__":
    main(*sys.argv[1:])
