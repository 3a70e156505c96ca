"""Runs that stop once their answer is known: through the Python API, with real workers and a real store."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

import replaydiff as rd
from replaydiff.replay.api.channel import Channel
from replaydiff.replay.errors import ExitCode, InputError, Interrupted, SettingsError, UnavailableError
from tests.api.project import SETTINGS, V1
from tests.stand_ins.messages_api import Fault, StandIn

WORSE = V1.replace(
    "status = look_up(order_id=order)", 'status = "lost" if int(order) % 3 == 0 else look_up(order_id=order)'
)
CASES = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, code in (("v1", V1), ("v2", WORSE), ("same", V1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.py").write_text(code)
    (tmp_path / "replay.toml").write_text(f'{SETTINGS}\n[versions.same]\npath = "same"\n')
    (tmp_path / "golden.jsonl").write_text("".join(f"{json.dumps(_case(n))}\n" for n in range(CASES)))
    return tmp_path


def _case(number: int) -> dict[str, object]:
    call = {"name": "look_up", "args": {"order_id": str(number)}}
    return {
        "id": f"c{number}",
        "input": f"where is order {number}",
        "expected_tool_calls": [call],
        "tape": [call | {"result": "shipped"}],
    }


def compared(project: rd.Project, new: str) -> tuple[rd.Run, rd.Diff]:
    cases = project.settings.root / "golden.jsonl"
    return project.compare(cases=cases, old="v1", new=new, trials=1, until_known=True)


def test_a_run_stops_at_hold_and_says_what_it_saved(folder: Path) -> None:
    run, diff = compared(rd.open(folder), "v2")
    looks = diff.to_dict()["run"]["looks"]
    assert diff.answer == "HOLD"
    assert looks[-1] == {"items": looks[-1]["items"], "answer": "HOLD", "stopped": "answer"}
    assert [look["stopped"] for look in looks[:-1]] == [None] * (len(looks) - 1)
    seen = diff.to_dict()["items"]["compared"]
    assert seen == looks[-1]["items"] < CASES
    assert f"after {seen} of {CASES} items: {1 - seen / CASES:.0%} of the calls saved" in diff.reason
    assert "95% interval, adjusted for looks," in diff.reason
    # The rest is not missing: there is nothing to resume.
    assert run.to_dict()["missing"] == 0
    with pytest.raises(rd.ReplayError, match="no unfinished run"):
        rd.open(folder).resume()


def test_an_interrupted_run_goes_on_with_the_same_looks(folder: Path) -> None:
    def stop_at_the_second(sentence: str) -> None:
        if sentence.startswith("look 2"):
            raise KeyboardInterrupt

    whole, _ = compared(rd.open(folder), "same")
    project = rd.open(folder)
    interrupted = rd.Project(
        project.settings, project.store.path, channel=Channel(message=stop_at_the_second)
    )
    with pytest.raises(Interrupted):
        compared(interrupted, "same")
    resumed = project.resume()
    assert [look.items for look in resumed.ended.report.run.looks] == [
        look.items for look in whole.ended.report.run.looks
    ]
    answers = {(look.answer, look.stopped) for look in resumed.ended.report.run.looks[:1]}
    assert answers == {(look.answer, look.stopped) for look in whole.ended.report.run.looks[:1]}


def test_a_look_whose_judge_finds_no_provider_says_how_the_run_goes_on(folder: Path) -> None:
    with StandIn(faults=itertools.repeat(Fault(status=503, retry_after=0))) as judge:
        (folder / "rubric.md").write_text("3 is good.")
        section = f'[judge]\nmodel = "claude-opus-5-5"\nrubric = "rubric.md"\nbase_url = "{judge.url}"\n'
        with (folder / "replay.toml").open("a") as file:
            file.write(f"\n{section}")
        project, messages = rd.open(folder), list[str]()
        stopped = rd.Project(project.settings, project.store.path, channel=Channel(message=messages.append))
        with pytest.raises(UnavailableError, match="the judge was stopped"):
            compared(stopped, "same")
    assert any("are kept; `replay run --resume " in message for message in messages)


@pytest.mark.parametrize(("version", "code"), [("v1", ExitCode.OK), ("v2", ExitCode.GATE_FAILED)])
def test_a_check_stops_once_the_other_cases_cannot_change_it(
    folder: Path, version: str, code: ExitCode
) -> None:
    found = rd.open(folder).check(folder / "golden.jsonl", new=version, until_known=True)
    assert found.exit_code == code
    document = found.to_dict()
    passed = document["check"]["passed"]
    seen = document["items"]["compared"]
    assert seen < CASES
    assert passed >= 0.8 * CASES if version == "v1" else passed + CASES - seen < 0.8 * CASES
    whole = rd.open(folder).check(folder / "golden.jsonl", new=version)
    assert whole.exit_code == code


def test_recordings_alone_need_no_stopping(folder: Path) -> None:
    with pytest.raises(SettingsError, match="recordings need no run"):
        rd.open(folder).compare(
            cases=folder / "golden.jsonl", old="observed", new="observed:release = 'x'", until_known=True
        )


def test_a_run_that_continues_another_keeps_its_trials_and_shares_one_error(folder: Path) -> None:
    project = rd.open(folder)
    (folder / "few.jsonl").write_text("".join(f"{json.dumps(_case(n))}\n" for n in range(12)))
    first, diff = project.compare(cases=folder / "few.jsonl", old="v1", new="same", trials=1, aa=False)
    assert diff.answer == "CAN'T TELL"
    assert diff.next == f"replay compare --continue {first.id} --trials 4"
    with pytest.raises(InputError, match="has all these items and trials already"):
        project.compare(continues=first.id)
    second, diff = project.compare(continues=first.id, trials=4)
    run = second.ended.report.run
    assert run.trials == 4
    assert {lane: taken["trials"] for lane, taken in run.settings["reused"].items()} == {"old": 12, "new": 12}  # type: ignore[union-attr,index,call-overload]
    assert {str(lane): sum(counts.values()) for lane, counts in second.statuses.items()} == {
        "old": 48,
        "new": 48,
    }
    plan = run.settings["until_known"]
    assert isinstance(plan, dict)
    assert plan["earlier"] == [[3.0, 1.0, 1.0]]
    assert plan["limit"] == pytest.approx(1.18)
    assert (diff.answer, [look["items"] for look in diff.to_dict()["run"]["looks"]]) == ("CAN'T TELL", [12])
    assert "95% interval, adjusted for looks," in diff.reason
    with pytest.raises(InputError, match="compared other versions"):
        project.compare(continues=first.id, new="v2", trials=4)


def test_a_larger_sample_holds_the_items_of_the_run_that_it_continues(folder: Path) -> None:
    project = rd.open(folder)
    lines = [
        {"trace_id": f"t{n}", "started_at": f"2026-10-{1 + n % 28:02}T10:00:00Z", "input": f"where is order {n}",
         "tool_calls": [{"name": "look_up", "args": {"order_id": str(n)}, "result": "shipped"}],
         "final_response": f"order {n}: shipped"}
        for n in range(60)
    ]  # fmt: skip
    (folder / "traces.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    project.import_(folder / "traces.jsonl")
    draw: rd.SampleOptions = {"month": "2026-10", "size": 20}
    first, diff = project.compare(draw=draw, old="v1", new="same", trials=1, aa=False)
    assert diff.next == f"replay compare --continue {first.id} --size 60"
    second, diff = project.compare(continues=first.id, draw={"size": 60})
    assert diff.to_dict()["run"]["sample"] == "2026-10-60"
    assert second.ended.report.run.settings["reused"]["old"]["trials"] == 20  # type: ignore[index,call-overload]
    assert diff.answer == "SHIP"
    with pytest.raises(InputError, match="--size must be larger to continue it, not 20"):
        project.compare(continues=first.id, draw={"size": 20})


def test_the_next_command_after_no_answer_continues_the_plan(folder: Path) -> None:
    project = rd.open(folder)
    (folder / "few.jsonl").write_text("".join(f"{json.dumps(_case(n))}\n" for n in range(12)))
    run, diff = project.compare(cases=folder / "few.jsonl", old="v1", new="same", trials=1, until_known=True)
    assert diff.answer == "CAN'T TELL"
    assert diff.next == f"replay compare --continue {run.id} --until-known --trials 4"
