"""`replay accept` and `replay reject`: decisions on causes, and the answer that follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import replaydiff
from replaydiff.replay.model import Item
from tests.commands.conftest import Replay
from tests.diff.build import RUN_ID, item, store, trials


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A run in which 12 of 50 items cancel without looking first; its cause's id."""
    items: list[Item] = [item(f"t{n:02}") for n in range(50)]
    done = [
        made
        for place, one in enumerate(items)
        for made in trials(one, old="111", old2="111", new="000" if place < 12 else "111")
    ]
    (tmp_path / ".replay").mkdir()
    store(tmp_path / ".replay", items, done, golden_path=None)
    (tmp_path / "replay.toml").write_text("")
    (cause,) = replaydiff.open(tmp_path).diff().causes
    return cause.id


def test_accept_and_reject_change_the_answer_and_are_kept(replay: Replay, run: str, tmp_path: Path) -> None:
    first = json.loads(replay("diff", "--json").out)
    assert first["answer"] == "CAN'T TELL"
    assert first["reason"].startswith("accept or reject 1 cause: calls cancel_order without calling")
    assert first["next"] == f"replay triage {RUN_ID}"
    accepted = replay("accept", run[:5])
    assert accepted.code == 0
    assert f"accepted {run}: calls cancel_order without calling get_order_status first" in accepted.out
    assert "new 36 of 150 trials, old 0, old2 0" in accepted.out
    assert "SHIP: " in accepted.out
    assert "next: git add cases/causes.jsonl; " in accepted.out
    line = json.loads((tmp_path / "cases" / "causes.jsonl").read_text())
    assert (line["id"], line["decision"], line["run"]) == (run, "accepted", RUN_ID)
    assert line["by"]
    assert line["at"]
    rejected = json.loads(replay("reject", run, "--json").out)
    assert rejected["answer"] == "HOLD"
    assert rejected["causes"][0]["state"] == "rejected"
    assert replay("diff", "--gate", "default").code == 1
    assert "open" in replay("reject", run, "--undo").out
    assert json.loads(replay("diff", "--json").out)["answer"] == "CAN'T TELL"


def test_the_items_of_a_rejected_cause_become_cases(replay: Replay, run: str, tmp_path: Path) -> None:
    assert "promoted t00" in replay("reject", run, "--promote").out
    case = json.loads((tmp_path / "cases" / "golden.jsonl").read_text().splitlines()[0])
    assert [call["name"] for call in case["expected_tool_calls"]] == ["get_order_status", "cancel_order"]


def test_an_accepted_cause_makes_cases_of_what_the_new_version_does(
    replay: Replay, run: str, tmp_path: Path
) -> None:
    replay("accept", run, "--promote")
    case = json.loads((tmp_path / "cases" / "golden.jsonl").read_text().splitlines()[0])
    assert [call["name"] for call in case["expected_tool_calls"]] == ["cancel_order"]


def test_an_unknown_cause_is_refused_with_those_there_are(replay: Replay, run: str, tmp_path: Path) -> None:
    refused = replay("accept", "nothing")
    assert refused.code == 2
    assert "there is no cause" in refused.err or "unknown cause" in refused.err
    assert run in refused.err
    assert not (tmp_path / "cases" / "causes.jsonl").exists()
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "causes.jsonl").write_text("{}\n")
    broken = replay("diff")
    assert broken.code == 2
    assert "causes.jsonl line 1 is no decision on a cause" in broken.err


async def _twins(project: replaydiff.Project, cause: str) -> list[str]:
    accepted = await project.aaccept(cause)
    rejected = await project.areject(cause)
    return [accepted.diff.answer, rejected.diff.answer]


def test_both_have_an_asynchronous_twin(run: str, tmp_path: Path) -> None:
    import asyncio

    assert asyncio.run(_twins(replaydiff.open(tmp_path), run)) == ["SHIP", "HOLD"]
