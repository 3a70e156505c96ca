"""An accepted cause makes cases also of examples in which the new version was stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import replaydiff as rd
from replaydiff.replay.errors import SettingsError
from replaydiff.replay.golden import read_golden
from tests.api.project import V1, make

TOOLS = """
[agent]
entrypoint = "agent:run_agent"
tools = ["agent:look_up", "agent:notify", "agent:note"]
[versions.v1]
path = "v1"
[versions.v2]
path = "v2"
"""
NOTIFY = """
def notify(order_id):
    raise RuntimeError("the real tool")


def note(text):
    raise RuntimeError("the real tool")

"""


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> tuple[rd.Project, str]:
    """A run whose new version notifies somebody and takes a note: calls that no trace has."""
    folder = tmp_path_factory.mktemp("completing")
    make(folder, traces=12)
    (folder / "replay.toml").write_text(TOOLS)
    (folder / "v1" / "agent.py").write_text(NOTIFY + V1)
    again = '    answer = notify(order_id=order)\n    note(text=answer["to"])\n    return f"order'
    (folder / "v2" / "agent.py").write_text(NOTIFY + V1.replace('    return f"order', again))
    found = rd.open(folder)
    found.import_(folder / "traces.jsonl")
    return found, found.run(found.sample(size=12), old="v1", new="v2", trials=1).id


@pytest.mark.slow
def test_hand_written_results_complete_what_was_stopped(replayed: tuple[rd.Project, str]) -> None:
    project, run = replayed
    [cause] = project.diff(run).causes
    stopped = project.accept(cause.id, promote=True, run=run)
    examples = {example.item for example in cause.examples}
    assert stopped.promoted == ()
    assert set(stopped.unfinished) == {name for name, _ in stopped.not_promoted} == examples

    results = {"notify": {"to": "Ada"}, "note": "kept"}
    first = project.accept(cause.id, promote=True, run=run, results={"notify": results["notify"]})
    assert set(first.unfinished) == examples, "the note was never recorded either"
    done = project.accept(cause.id, promote=True, run=run, results=results)
    assert done.unfinished == ()
    [case, *_] = read_golden(project.settings.golden_path)
    made = [call.name for call in case.expectation.tool_calls or ()]
    assert made == ["look_up", "notify", "note"]
    assert [call.result for call in case.tape] == ["shipped", {"to": "Ada"}, "kept"]
    assert project.check(new="v2").passed
    assert not project.check(new="v1").passed


@pytest.mark.slow
def test_every_item_of_a_cause_is_promoted_also_in_a_run_with_several_new_versions(tmp_path: Path) -> None:
    make(tmp_path, traces=12)
    (tmp_path / "replay.toml").write_text(TOOLS)
    (tmp_path / "v1" / "agent.py").write_text(NOTIFY + V1)
    again = '    notify(order_id=order)\n    return f"order'
    (tmp_path / "v2" / "agent.py").write_text(NOTIFY + V1.replace('    return f"order', again))
    project = rd.open(tmp_path)
    project.import_(tmp_path / "traces.jsonl")
    run = project.run(project.sample(size=12), old="v1", new=["v1", "v2"], trials=1).id
    [cause] = project.diff(run, lane="new2").causes
    assert cause.items == 12 > len(cause.examples)
    with pytest.raises(SettingsError, match="add promote"):
        project.accept(cause.id, everything=True, run=run, lane="new2")
    done = project.accept(
        cause.id, promote=True, everything=True, run=run, lane="new2", results={"notify": "sent"}
    )
    assert done.unfinished == ()
    assert len(done.promoted) + len(done.not_promoted) == 12
    cases = read_golden(project.settings.golden_path)
    assert len(cases) == len(done.promoted) > 0
    assert all(
        [call.name for call in case.expectation.tool_calls or ()] == ["look_up", "notify"] for case in cases
    )
    assert project.check(new="v2").passed


def test_the_command_takes_results_and_names_what_is_missing(
    replayed: tuple[rd.Project, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from replaydiff.replay.cli import cli

    project, run = replayed
    monkeypatch.chdir(project.settings.root)
    [cause] = project.diff(run).causes
    stopped = CliRunner().invoke(cli, ["accept", cause.id, "--run", run, "--promote"])
    assert "(--set run.on_miss=simulate) or --result" in stopped.output
    done = CliRunner().invoke(
        cli,
        ["accept", cause.id, "--run", run, "--promote", "--json", "--result", 'notify={"to": "Bo"}',
         "--result", "note=kept"],
    )  # fmt: skip
    document = json.loads(done.stdout)
    # They were completed: what refuses them is that such cases are there.
    reasons = [one["reason"] for one in document["not_promoted"]]
    assert not any("ended ok" in reason for reason in reasons), reasons


def test_another_run_is_for_promoting_alone(replayed: tuple[rd.Project, str]) -> None:
    project, run = replayed
    [cause] = project.diff(run).causes
    with pytest.raises(SettingsError, match="add promote"):
        project.accept(cause.id, run=run, rerun=True)
    with pytest.raises(SettingsError, match="stop or simulate"):
        project.accept(cause.id, promote=True, run=run, rerun=True, on_miss="error")
