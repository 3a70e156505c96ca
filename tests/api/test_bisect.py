"""`replay bisect` on real repositories: the commit, its hunks, its settings, and what stands in the way."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

import replaydiff as rd
from replaydiff.replay.errors import ExitCode, InputError, SettingsError, UnknownNameError, VersionError
from tests.engine.project import Project, ended, git
from tests.stand_ins.full import full
from tests.stand_ins.schemas import validator

PROMPT = ["Look it up first.", "Be polite.", "Be brief.", "Never guess.", "Ask for the number."]
AGENT = """
import os, pathlib
HERE = pathlib.Path(__file__).parent
LOOK_UP = True
STYLE = "plain"
SIGN = "."


def get_order(order_id):
    raise RuntimeError("the real tool ran")


def cancel_order(order_id):
    raise RuntimeError("the real tool ran")


def run_agent(text, careful=True, tone="warm"):
    with open(os.environ.get("CALLS", os.devnull), "a") as file:
        file.write(text + "\\n")
    order = text.split()[-1]
    prompt = (HERE / "prompt.txt").read_text()
    if int(order) % 4 == 0 or ((LOOK_UP or "Look it up first." in prompt) and careful):
        get_order(order_id=order)
    cancel_order(order_id=order)
    return STYLE + SIGN
"""
SETTINGS = """
[agent]
entrypoint = "app.agent:run_agent"
tools = ["app.agent:get_order", "app.agent:cancel_order"]

[versions.prod]
git = "c0"
args = { tone = "warm" }

[versions.hasty]
git = "c0"
args = { tone = "cold", careful = false }
"""
HOSTILE = "\x1b[31mred\x1b[0m <b>x</b> | [y](z) \u202e ::error::"


def call(name: str, order: int) -> dict[str, object]:
    return {"name": name, "args": {"order_id": str(order)}, "result": "ok"}


def write_cases(folder: Path, number: int = 6) -> None:
    lines = []
    for order in range(number):
        calls = [call("get_order", order), call("cancel_order", order)]
        expected = [{"name": one["name"], "args": one["args"]} for one in calls]
        case = {"id": f"i{order}", "input": f"cancel {order}", "expected_tool_calls": expected, "tape": calls}
        lines.append(json.dumps(case))
    (folder / "golden.jsonl").write_text("\n".join(lines) + "\n")


def commit(folder: Path, name: str, files: Mapping[str, str], subject: str = "") -> None:
    for file, content in files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(content)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", subject or name)
    git(folder, "tag", name)


def prompt(*without: str) -> str:
    return "".join(f"{line}\n" for line in PROMPT if line not in without)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """c0 … c9; c4 does not import, c5 and c6 are two sides of a merge, c8 changes three things and breaks it.

    Only the prompt's first line and LOOK_UP together make the agent leave out the look-up.
    """
    project = Project(tmp_path_factory.mktemp("bisect") / "shop")
    folder = project.folder
    project.settings(SETTINGS)
    write_cases(folder)
    commit(folder, "c0", {"app/__init__.py": "", "app/agent.py": AGENT, "app/prompt.txt": prompt()})
    commit(folder, "c1", {"notes.txt": "1"}, HOSTILE)
    commit(folder, "c2", {"app/prompt.txt": prompt("Be polite.")})
    commit(folder, "c3", {"app/agent.py": AGENT.replace('"plain"', '"fancy"')})
    commit(folder, "c4", {"app/agent.py": AGENT.replace("import os", "import nothing_like_it, os")})
    commit(folder, "c5", {"app/agent.py": AGENT})
    git(folder, "checkout", "--quiet", "-b", "side", "c3")
    commit(folder, "c6", {"notes.txt": "side"})
    git(folder, "checkout", "--quiet", "main")
    git(folder, "merge", "--quiet", "--no-edit", "side")
    git(folder, "tag", "c7")
    broken = AGENT.replace("LOOK_UP = True", "LOOK_UP = False").replace('SIGN = "."', 'SIGN = "!"')
    commit(
        folder, "c8",
        {"app/agent.py": broken, "app/prompt.txt": prompt("Be polite.", PROMPT[0]), "new.txt": "x"},
    )  # fmt: skip
    commit(folder, "c9", {"notes.txt": "9"})
    # The work tree is dirty, and nothing of that is searched or changed.
    (folder / "app" / "agent.py").write_text("raise ImportError")
    return project


@pytest.mark.slow
def test_the_commit_and_the_two_hunks_that_belong_together_are_found(shop: Project) -> None:
    before = git(shop.folder, "status", "--porcelain"), git(shop.folder, "rev-parse", "HEAD")
    found = rd.open(shop.folder).bisect("c0", "c9", cases=shop.folder / "golden.jsonl", hunks=True)
    assert found.commit == git(shop.folder, "rev-parse", "c8").strip()
    assert found.confidence >= 0.95
    assert found.exit_code == ExitCode.OK
    assert {(one.file, one.lines): one.reproduces for one in found.hunks or ()} == {
        ("app/agent.py", "4"): True,
        ("app/agent.py", "6"): False,
        ("app/prompt.txt", "1"): True,
        ("new.txt", "all"): False,
    }
    assert (git(shop.folder, "status", "--porcelain"), git(shop.folder, "rev-parse", "HEAD")) == before
    document = found.to_dict()
    validator("bisect").validate(document)
    assert list(document) == [
        "schema", "commit", "confidence", "reason", "trials", "cost_usd", "metric", "history", "hunks",
        "settings",
    ]  # fmt: skip
    assert document["trials"] == len(shop.trials(found.run))
    assert sum(one["probability"] for one in document["history"]) == pytest.approx(1, abs=0.01)
    for text in (found.to_text(80), found.to_markdown(), json.dumps(document, ensure_ascii=False)):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<b>" not in found.to_markdown()
    assert max(map(len, found.to_text(80).splitlines()[2:])) <= 80


@full
def test_a_commit_that_does_not_import_is_skipped_with_its_reason(shop: Project) -> None:
    project = rd.open(shop.folder)
    found = asyncio.run(project.abisect("c3", "c5", cases=shop.folder / "golden.jsonl"))
    assert found.commit is None
    assert found.exit_code == ExitCode.CANNOT_TELL
    assert "no item fails at either end" in found.reason
    broken = project.bisect("c2", "c9", cases=shop.folder / "golden.jsonl", items=["i1", "i2"])
    assert broken.commit == git(shop.folder, "rev-parse", "c8").strip()
    assert {one.skipped is None for one in broken.history} <= {True, False}
    with pytest.raises(VersionError, match="nothing_like_it"):
        project.bisect("c3", "c4", cases=shop.folder / "golden.jsonl")


def test_what_cannot_be_searched_is_refused_before_anything_is_stored(shop: Project) -> None:
    project = rd.open(shop.folder)
    cases = shop.folder / "golden.jsonl"
    # The store may be missing: tests of this module share it, and this one may come first.
    runs = len(shop.runs()) if shop.store.exists() else 0
    with pytest.raises(VersionError, match="exchange them"):
        project.bisect("c9", "c0", cases=cases)
    with pytest.raises(VersionError, match="both revisions are commit"):
        project.bisect("c1", "c1", cases=cases)
    with pytest.raises(VersionError, match="does not contain"):
        project.bisect("c6", "c5", cases=cases)
    with pytest.raises(UnknownNameError, match="git revision"):
        project.bisect("nowhere", "c5", cases=cases)
    with pytest.raises(VersionError, match="name HEAD"):
        project.bisect("c0", ".", cases=cases)
    with pytest.raises(UnknownNameError, match="item"):
        project.bisect("c0", "c9", cases=cases, items=["i77"])
    with pytest.raises(UnknownNameError, match="metric"):
        project.bisect("c0", "c9", cases=cases, metric="judge")
    with pytest.raises(InputError, match="golden set"):
        project.bisect("c0", "c9", cases=shop.folder / "none.jsonl")
    with pytest.raises(SettingsError, match="--good"):
        project.bisect("c0")
    assert (len(shop.runs()) if shop.store.exists() else 0) == runs


def test_the_setting_that_makes_the_change_is_found(shop: Project) -> None:
    found = rd.open(shop.folder).bisect("prod", "hasty", cases=shop.folder / "golden.jsonl", settings=True)
    validator("bisect").validate(found.to_dict())
    assert {one.name: one.reproduces for one in found.settings or ()} == {
        "args.careful": True,
        "args.tone": False,
    }
    assert found.commit is None
    assert found.exit_code == ExitCode.OK
    assert "args.careful made the change" in found.headline()


@pytest.mark.slow
def test_the_command_prints_one_document_and_resumes_after_a_limit(shop: Project) -> None:
    limited = shop.replay(
        "bisect", "--good", "c0", "--bad", "c9", "--cases", "golden.jsonl", "--calls", "4", "--json"
    )
    assert limited.code == ExitCode.CANNOT_TELL, limited.err
    assert json.loads(limited.out)["commit"] is None
    more = shop.replay("bisect", "--resume", "--calls", "200", "--json", "-o", "found.md")
    assert more.code == 0, more.err
    found = json.loads(more.out)
    assert found["commit"] == git(shop.folder, "rev-parse", "c8").strip()
    assert found["trials"] > json.loads(limited.out)["trials"]
    assert "made the change" in (shop.folder / "found.md").read_text()
    nothing = shop.replay("bisect", "--resume")
    assert nothing.code == 2
    assert "no unfinished bisection" in nothing.err


def test_no_search_follows_chance_where_no_item_regressed(shop: Project) -> None:
    project = rd.open(shop.folder)
    cases = shop.folder / "golden.jsonl"
    worse = project.run(old="git:c0", new="git:c9", cases=cases, trials=2)
    equal = project.run(old="git:c0", new="git:c1", cases=cases, trials=2)
    runs = len(shop.runs())
    with pytest.raises(InputError, match=f"{equal.id}, compares git:c1") as other:
        project.bisect("c0", "c9")
    assert other.value.hint.endswith(f"add --run {worse.id}")
    with pytest.raises(InputError, match=f"no item of run {equal.id} regressed") as nothing:
        project.bisect("c0", "c1")
    assert "--cause" in nothing.value.hint
    with pytest.raises(InputError, match="would follow chance"):
        project.bisect("c0", "c9", run=equal.id)
    assert len(shop.runs()) == runs, "nothing was stored"
    done = shop.replay("bisect", "--good", "c0", "--bad", "c9")
    assert (done.code, done.out) == (2, ""), done.err


@full
def test_the_commit_that_made_a_cause_is_found_by_its_behaviour_alone(shop: Project) -> None:
    project = rd.open(shop.folder)
    compared = project.run(old="git:c0", new="git:c9", cases=shop.folder / "golden.jsonl", trials=3)
    causes = {one.text: one for one in project.diff(compared.id).causes}
    skipped = causes["calls cancel_order without calling get_order first"]
    found = project.bisect("c0", "c9", run=compared.id, cause=skipped.id[:6])
    assert found.commit == git(shop.folder, "rev-parse", "c8").strip()
    assert found.metric == f"cause:{skipped.id}"
    assert {trial.item_id for trial in shop.trials(found.run)} <= {"i1", "i2", "i3", "i5"}
    validator("bisect").validate(found.to_dict())
    with pytest.raises(UnknownNameError, match="no cause 'c0'"):
        project.bisect("c0", "c9", run=compared.id, cause="c0")
    with pytest.raises(SettingsError, match="leave --run and --cause out"):
        project.bisect("c0", "c9", cases=shop.folder / "golden.jsonl", cause=skipped.id)


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=full)])
@pytest.mark.slow
def test_a_search_that_was_killed_loses_no_trial(shop: Project, number: signal.Signals) -> None:
    start = shop.times_called()
    process = shop.start(
        "bisect", "--good", "c0", "--bad", "c9", "--cases", "golden.jsonl", "--concurrency", "1"
    )
    shop.wait_for_calls(start + 6)
    killed = ended(process, number)
    if number == signal.SIGINT:
        assert killed.code == ExitCode.INTERRUPTED
        assert "replay bisect --resume" in killed.err
    done = shop.replay("bisect", "--resume", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["commit"] == git(shop.folder, "rev-parse", "c8").strip()
    # At most the one in flight was repeated.
    assert shop.times_called() - start <= found["trials"] + 1


@full
def test_errors_are_the_change_where_only_the_bad_end_has_them(tmp_path: Path) -> None:
    project = Project(tmp_path / "shop")
    project.settings(SETTINGS)
    write_cases(project.folder, 3)
    commit(project.folder, "c0", {"app/__init__.py": "", "app/agent.py": AGENT, "app/prompt.txt": prompt()})
    commit(project.folder, "c1", {"notes.txt": "1"})
    failing = AGENT.replace("    order = text", "    raise ValueError('no')\n    order = text")
    commit(project.folder, "c2", {"app/agent.py": failing})
    commit(project.folder, "c3", {"notes.txt": "3"})
    found = rd.open(project.folder).bisect("c0", "c3", cases=project.folder / "golden.jsonl")
    assert found.commit == git(project.folder, "rev-parse", "c2").strip()


@full
def test_a_search_stops_at_its_budget_and_goes_on_with_a_larger_one(tmp_path: Path) -> None:
    project = Project(tmp_path / "shop")
    priced = 'args = { model = "m" }\n[prices."m"]\ninput = 1000000\noutput = 1000000\n'
    project.settings(SETTINGS.split("[versions", maxsplit=1)[0] + priced)
    write_cases(project.folder, 3)
    counted = 'return {"text": STYLE + SIGN, "usage": {"input_tokens": 1, "output_tokens": 0}}'
    agent = AGENT.replace("careful=True", "model='', careful=True").replace("return STYLE + SIGN", counted)
    careless = agent.replace("LOOK_UP = True", "LOOK_UP = False")
    commit(project.folder, "c0", {"app/__init__.py": "", "app/agent.py": agent, "app/prompt.txt": ""})
    commit(project.folder, "c1", {"notes.txt": "1"})
    commit(project.folder, "c2", {"app/agent.py": careless})
    commit(project.folder, "c3", {"notes.txt": "3"})
    cases, opened = project.folder / "golden.jsonl", rd.open(project.folder)
    stopped = opened.bisect("c0", "c3", cases=cases, budget=4.0, concurrency=1)
    assert stopped.commit is None
    assert stopped.exit_code == ExitCode.CANNOT_TELL
    assert "the budget of $4.00 is spent" in stopped.reason
    # Every trial costs a dollar; what was in flight when the fourth ended is paid for, too.
    assert stopped.cost_usd is not None
    assert 4 <= stopped.cost_usd == stopped.trials <= 6
    found = opened.bisect(resume=True, budget=200.0)
    assert found.commit == git(project.folder, "rev-parse", "c2").strip()
    assert found.trials > stopped.trials


@full
def test_a_commit_that_moves_a_submodule_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # git fetches a submodule from a folder only where this allows it.
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "file")
    shared, project = Project(tmp_path / "shared"), Project(tmp_path / "shop")
    commit(shared.folder, "s0", {"rules.py": "LOOK_UP = True\n"})
    project.settings(SETTINGS)
    write_cases(project.folder, 3)
    agent = AGENT.replace("LOOK_UP = True", "from app.shared.rules import LOOK_UP")
    git(project.folder, "submodule", "--quiet", "add", str(shared.folder), "app/shared")
    commit(project.folder, "c0", {"app/__init__.py": "", "app/agent.py": agent, "app/prompt.txt": ""})
    commit(project.folder, "c1", {"notes.txt": "1"})
    commit(shared.folder, "s1", {"rules.py": "LOOK_UP = False\n"})
    git(project.folder / "app" / "shared", "fetch", "--quiet")
    git(project.folder / "app" / "shared", "checkout", "--quiet", "s1")
    commit(project.folder, "c2", {"notes.txt": "2"})
    commit(project.folder, "c3", {"notes.txt": "3"})
    found = rd.open(project.folder).bisect("c0", "c3", cases=project.folder / "golden.jsonl")
    assert found.commit == git(project.folder, "rev-parse", "c2").strip()
