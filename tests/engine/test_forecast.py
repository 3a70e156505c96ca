"""What a run will likely cost is said before it starts; tokens and dollars stop it at whole blocks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replaydiff.replay.demo.stand_in import StandIn
from replaydiff.replay.model import Usage
from tests.commands.conftest import Replay
from tests.engine.project import SETTINGS, Project, order, two_revisions

USAGE = Usage(input_tokens=9_000, output_tokens=1_000)
PRICES = """
[prices.known]
input = 10.0
output = 100.0
"""
SPENDING = """
def run_agent(text, model="small"):
    return {"final_response": text, "usage": {"input_tokens": 90, "output_tokens": 10}}
"""


@pytest.fixture
def project(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = two_revisions(tmp_path / "shop")
    project.settings(SETTINGS + PRICES)
    monkeypatch.chdir(project.folder)
    for name, value in project.counting().items():
        monkeypatch.setenv(name, value)
    return project


def sampled(project: Project, *fields: dict[str, object]) -> None:
    project.sample(len(fields))
    project.traces([order(number, **one) for number, one in enumerate(fields)])


def line(text: str) -> str:
    [found] = [line for line in text.splitlines() if line.startswith("likely cost")]
    return found


def test_tokens_of_the_traces_at_the_price_of_each_versions_model(replay: Replay, project: Project) -> None:
    paid = {"usage": USAGE, "model": "known", "cost_usd": 0.05}
    sampled(project, paid, {"usage": USAGE, "model": "known"})
    done = replay("run", "--old", "git:v1", "--new", "model=claude-haiku-4-5", "--trials", "2", "--json")
    # Old: the cost that was recorded, and 9,000 at $10 and 1,000 at $100 a million; new: at $1 and $5.
    cost = 2 * (0.05 + 0.19) + 4 * 0.014
    assert json.loads(done.out)["forecast"] == {
        "trials": 8,
        "tokens": 80_000,
        "cost_usd": pytest.approx(cost),
        "guessed_trials": 0,
        "unpriced_trials": 0,
        "unpriced_models": [],
        "judge_votes": 0,
        "judge_usd": None,
        "user_turns": 0,
        "user_usd": None,
    }
    assert line(done.err) == f"likely cost: agents ${cost:.4f} for 80,000 tokens"


def test_what_is_not_known_is_said_and_never_counted_as_free(replay: Replay, project: Project) -> None:
    sampled(project, {"usage": USAGE, "model": "known"}, {"usage": USAGE, "model": "strange"})
    assert line(replay("run", "--new", "git:v2").err) == (
        "likely cost: agents $0.1900 for 20,000 tokens; 1 of 2 trials are not counted: no known price of strange"
    )
    sampled(project, {"usage": USAGE, "model": "known"}, {})
    assert line(replay("run", "--new", "model=known").err) == (
        "likely cost: agents $0.3800 for 20,000 tokens; 1 trials without recorded tokens are taken to be like "
        "the others"
    )


def test_the_votes_of_the_judge_are_part_of_it(
    replay: Replay, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled(project, {"usage": USAGE, "model": "known"})
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    with StandIn() as stand_in:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", stand_in.url)
        monkeypatch.setenv("REPLAY_JUDGE_MODEL", "claude-haiku-4-5")
        done = replay("run", "--old", "git:v1", "--new", "git:v2", "--json")
        foretold = json.loads(done.out)["forecast"]
        assert foretold["judge_votes"] == 2 * 3
        assert 6 * 0.0014 < foretold["judge_usd"] < 6 * 0.005
        assert f"judge ${foretold['judge_usd']:.4f} for 6 votes" in line(done.err)
        monkeypatch.setenv("REPLAY_JUDGE_MODEL", "claude-unpriced-1")
        said = line(replay("run", "--new", "git:v2").err)
    assert "judge of unknown cost for 3 votes" in said
    assert said.endswith("the price of the judge's model claude-unpriced-1 is not known")


def test_only_what_is_missing_is_foretold_of_a_resumed_run(replay: Replay, project: Project) -> None:
    sampled(project, *({"usage": USAGE, "model": "known"} for _ in range(3)))
    replay("run", "--new", "git:v2", "--budget", "0.01", "--concurrency", "1")
    assert line(replay("run", "--resume", "--budget", "9").err) == (
        "likely cost: agents $0.3800 for 20,000 tokens"
    )


def test_max_tokens_stops_at_whole_blocks_and_more_go_on(replay: Replay, project: Project) -> None:
    sampled(project, *({} for _ in range(4)))
    project.write("v3", SPENDING)
    project.settings('[agent]\nentrypoint = "app.agent:run_agent"\ntools = []\n')
    done = replay("run", "--new", ".", "--trials", "2", "--set", "run.max_tokens=300", "--concurrency", "1")
    assert len(project.trials()) == 2, "a block takes 200 tokens"
    run = project.run()
    assert (
        "the limit of 300 tokens has no room for more (200 are spent): 6 trials did not start; continue with "
        f"`replay run --resume {run.id} --set run.max_tokens=N`" in done.err
    )
    assert run.finished_at is None
    replay("run", "--resume")
    assert len(project.trials()) == 2, "the run's own limit still holds"
    done = replay("run", "--resume", "--set", "run.max_tokens=5000", "--json")
    assert json.loads(done.out)["tokens"] == 800
    assert len(project.trials()) == 8


def test_agents_that_report_no_tokens_are_not_held_to_them_and_that_is_said(
    replay: Replay, project: Project
) -> None:
    sampled(project, {}, {})
    done = replay("run", "--new", "git:v2", "--set", "run.max_tokens=10")
    assert len(project.trials()) == 2
    assert "note: 2 trials report no tokens, and they did not count against max_tokens" in done.err


def test_a_conversation_costs_what_all_its_traces_took(
    replay: Replay, project: Project, tmp_path: Path
) -> None:
    def turn(number: int, **fields: object) -> dict[str, object]:
        usage = {"input_tokens": 9_000, "output_tokens": 1_000}
        fields = {"usage": usage, "model": "known", "final_response": f"answer {number}", **fields}
        return {
            "trace_id": f"t{number}",
            "session_id": "s",
            "started_at": f"2026-10-01T10:0{number}:00Z",
            "ended_at": f"2026-10-01T10:0{number}:10Z",
            "input": f"question {number}",
            **fields,
        }

    rows = [turn(0), turn(1), turn(2, cost_usd=0.05)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert replay("import", "jsonl", str(tmp_path / "t.jsonl")).code == 0
    assert replay("sample", "--name", "talks").code == 0
    done = replay("run", "--sample", "talks", "--old", "git:v1", "--new", "git:v2", "--trials", "1", "--json")
    forecast = json.loads(done.out)["forecast"]
    # A cost that one of three traces names is not the conversation's.
    assert (forecast["trials"], forecast["tokens"]) == (2, 60_000)
    assert forecast["cost_usd"] == pytest.approx(2 * 3 * 0.19)
