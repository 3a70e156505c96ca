"""`replay push langsmith` and `braintrust` over real HTTP, and what their own SDKs read back.

`make platforms` sets REPLAYDIFF_TEST_SDKS to a Python that has both SDKs; without it stand-ins are looked into.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cases.conftest import RUN, Command
from tests.stand_ins import braintrust, langsmith_datasets
from tests.stand_ins.braintrust import Braintrust
from tests.stand_ins.langsmith_datasets import LangSmithDatasets
from tests.stand_ins.loopback import Loopback, serving

SDKS = os.environ.get("REPLAYDIFF_TEST_SDKS")
DATASET = "replay-shop-golden"


@dataclass
class Server:
    """A platform that runs on loopback."""

    name: str
    holds: Any
    loopback: Loopback

    @property
    def items(self) -> dict[str, dict[str, Any]]:
        """The golden set as it is there: id of a case → the row."""
        if self.name == "langsmith":
            rows = self.holds.examples.values()
        else:
            rows = [
                row for key, table in self.holds.rows.items() for row in table.values() if "dataset" in key
            ]
        return {row["metadata"].get("case", row["id"]): row for row in rows}

    @property
    def trials(self) -> list[dict[str, Any]]:
        """The trials of all experiments."""
        if self.name == "langsmith":
            return [run for run in self.holds.runs.values() if "parent_run_id" not in run]
        rows = [
            row for key, table in self.holds.rows.items() for row in table.values() if "experiment" in key
        ]
        return [row for row in rows if not row["span_parents"]]

    @property
    def writes(self) -> int:
        """Requests that changed something."""
        reads = ("/runs/query", "/btql", "/v1/project", "/v1/dataset", "/v1/experiment")
        return sum(
            request.method != "GET" and not request.path.endswith(reads) for request in self.loopback.answered
        )


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


@pytest.fixture(params=["langsmith", "braintrust"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    holds = LangSmithDatasets() if request.param == "langsmith" else Braintrust()
    with serving(holds.answer) as loopback:
        monkeypatch.setenv("LANGSMITH_API_KEY", langsmith_datasets.KEY)
        monkeypatch.setenv("LANGSMITH_ENDPOINT", loopback.url)
        monkeypatch.setenv("BRAINTRUST_API_KEY", braintrust.KEY)
        monkeypatch.setenv("BRAINTRUST_API_URL", loopback.url)
        if isinstance(holds, Braintrust):
            holds.url = loopback.url
        yield Server(request.param, holds, loopback)


def test_cases_become_items_and_leave_with_the_golden_set(
    server: Server, golden: Path, command: Command
) -> None:
    code, out = command("push", server.name)
    assert (code, "3 dataset items" in out) == (0, True), out
    assert server.items.keys() == {"late", "weather", "ü/1"}
    before = server.writes
    assert command("push", server.name)[1].startswith("nothing changed")
    assert server.writes == before
    lines = golden.read_text().splitlines()
    golden.write_text("\n".join((lines[0].replace("Late", "Very late"), lines[2])) + "\n")
    assert "1 dataset item, 1 deleted item; unchanged: 1 dataset item" in command("push", server.name)[1]
    assert server.items.keys() == {"late", "ü/1"}
    assert "Very late" in json.dumps(server.items["late"])


def test_edits_and_additions_come_back_and_are_not_overwritten(
    server: Server, golden: Path, command: Command
) -> None:
    command("push", server.name)
    key = "inputs" if server.name == "langsmith" else "input"
    server.items["weather"][key] = {"input": "Will it snow?"} if key == "inputs" else "Will it snow?"
    added = {
        "id": "00000000-0000-7000-8000-000000000042",
        "metadata": {},
        "expected": "Roses",
        "input": "Which flowers?",
    }
    if server.name == "langsmith":
        added |= {"inputs": {"question": "Which flowers?"}, "outputs": {"answer": "Roses"}}
        added["dataset_id"] = server.items["late"]["dataset_id"]
        server.holds.examples[added["id"]] = added
    else:
        server.holds.rows["dataset-0"][added["id"]] = added
    assert "left alone: 1 items that were edited" in command("push", server.name)[1]
    code, out = command("cases", "pull", server.name, "--yes")
    assert code == 0, out
    cases = {case["id"]: case for case in map(json.loads, golden.read_text().splitlines())}
    assert cases["weather"]["input"] == "Will it snow?"
    assert (cases[added["id"]]["input"], cases[added["id"]]["expected_answer"]) == (
        "Which flowers?",
        "Roses",
    )
    code, out = command("push", server.name)
    assert code == 0, out
    assert len(server.items) == 4


def test_a_run_is_an_experiment_a_lane_and_again_changes_nothing(
    server: Server, replayed: None, command: Command
) -> None:
    code, out = command("push", server.name, RUN)
    assert code == 0, out
    assert "12 traces" in out
    assert out.count("experiment: ") == 2
    trials = server.trials
    assert len(trials) == 12
    assert sum(trial["error"] is not None for trial in trials) == 1
    before = server.writes
    code, out = command("push", server.name, RUN)
    assert (code, out.startswith("nothing changed")) == (0, True), out
    assert server.writes == before
    if server.name == "langsmith":
        verdicts = [row for row in server.holds.feedback.values() if row["key"] == "replay_verdict"]
        assert len(verdicts) == 3
        assert {trial["reference_example_id"] for trial in trials} == server.holds.examples.keys()
    else:
        assert sum("replay_verdict" in trial["metadata"] for trial in trials) == 3
        assert {trial["scores"].get("tool_calls") for trial in trials} == {0.0, 1.0, None}


def test_what_is_refused_is_named_and_wrong_keys_are_a_sentence(
    server: Server, golden: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.holds.refuses = "rain"
    code, out = command("push", server.name)
    assert (code, "not accepted: " in out) == (3 if server.name == "langsmith" else 2, True), out
    variable = "LANGSMITH_API_KEY" if server.name == "langsmith" else "BRAINTRUST_API_KEY"
    monkeypatch.setenv(variable, "wrong")
    code, out = command("push", server.name)
    assert (code, variable in out) == (2, True)
    monkeypatch.delenv(variable)
    assert command("push", server.name)[0] == 2


_READ = {
    "langsmith": """
from langsmith import Client
client = Client(api_url=url + "/api/v1", api_key=key, auto_batch_tracing=False)
(golden,) = client.list_datasets(dataset_name=name)
items = [[e.inputs, e.outputs] for e in client.list_examples(dataset_id=golden.id)]
(project,) = [p for p in client.list_projects(reference_dataset_id=golden.id) if "new" in p.name]
runs = list(client.list_runs(project_id=project.id))
scores = list(client.list_feedback(run_ids=[run.id for run in runs]))
print(json.dumps([len(items), len([r for r in runs if r.parent_run_id is None]), len(scores)]))
""",
    "braintrust": """
import braintrust
golden = braintrust.init_dataset(project=name, name=name, api_key=key, app_url=url)
items = list(golden)
rows = braintrust.init(project=name, experiment=sys.argv[4], open=True, api_key=key, app_url=url).fetch()
roots = [row for row in rows if not row.get("span_parents")]
print(json.dumps([len(items), len(roots), sum(len(row.get("scores") or {}) for row in roots)]))
""",
}


@pytest.mark.skipif(SDKS is None, reason="`make platforms` runs it")
def test_the_genuine_sdk_reads_back_what_was_sent(server: Server, replayed: None, command: Command) -> None:
    assert command("push", server.name, RUN)[0] == 0
    key = langsmith_datasets.KEY if server.name == "langsmith" else braintrust.KEY
    experiment = f"{RUN} new (next)"
    script = "import json, sys\nurl, key, name = sys.argv[1:4]\n" + _READ[server.name]
    name = "replay-shop-monthly"
    done = subprocess.run(
        [str(SDKS), "-c", script, server.loopback.url, key, name, experiment],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    items, runs, scores = json.loads(done.stdout.splitlines()[-1])
    assert (items, runs) == (3, 6)
    assert scores > 6
