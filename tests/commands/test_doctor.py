"""`replay doctor`: where the agent is, and with --probe whether its tools are answered."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import replaydiff
from replaydiff.replay.model import ToolCall
from tests.commands.conftest import Replay
from tests.engine.project import Project, order
from tests.stand_ins.full import full

AGENT = """
import pathlib
MARKER = pathlib.Path(__file__).parents[1] / "imported"
MARKER.touch()
TOOLS = {}

def real(name):
    with (MARKER.parent / "real").open("a") as file:
        print(name, file=file)

def get_order_status(order_id: str) -> str:
    real("get_order_status")

class Shop:
    def cancel_order(self, order_id): real("cancel_order")

def run_agent(text: str, model="small"):
    Shop().cancel_order(order_id=text)
    return get_order_status(text)
"""
BOTH = 'tools = ["app.agent:get_order_status", "app.agent:Shop.cancel_order"]\n'


@pytest.fixture
def project(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project(tmp_path / "shop")
    project.write("v1", AGENT)
    calls = tuple(
        ToolCall(name=name, args={"order_id": "two"}, result=f"{name} of two")
        for name in ("cancel_order", "get_order_status")
    )
    project.traces([order(0), order(1), order(2, trace_id="two", input="two", tool_calls=calls)])
    monkeypatch.chdir(project.folder)
    return project


def settings(project: Project, tools: str = BOTH, entrypoint: str = "app.agent:run_agent") -> None:
    project.settings(f'[agent]\nentrypoint = "{entrypoint}"\n{tools}')


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.split()[1] in NAMES]


PYTHON = sys.version.split()[0]
NAMES = ("entrypoint", "tools", "start", "recorded", "trace")


def test_the_agent_is_found_in_its_source_and_not_imported(replay: Replay, project: Project) -> None:
    settings(project)
    done = replay("doctor")
    assert (done.code, lines(done.out)) == (
        0,
        [
            "ok     entrypoint   app.agent:run_agent is in app/agent.py:17",
            "ok     tools        app.agent:get_order_status is in app/agent.py:11",
            "ok     tools        app.agent:Shop.cancel_order is in app/agent.py:15",
        ],
    )
    assert not (project.folder / "imported").exists()


@pytest.mark.parametrize(
    ("entrypoint", "tools", "line"),
    [
        ("shop.agent:run", BOTH, "wrong  entrypoint   there is no module 'shop' in "),
        pytest.param(
            "app.agents:run", BOTH, "wrong  entrypoint   there is no module 'app.agents' in ", marks=full
        ),
        (
            "app.agent:run_agnet",
            BOTH,
            "wrong  entrypoint   app.agent (app/agent.py) has no 'run_agnet'; did you mean 'run_agent'?",
        ),
        (
            "app.agent:run_agent",
            'tools = ["app.agent:Shop.cancel"]\n',
            "wrong  tools        app.agent.Shop (app/agent.py) has no 'cancel'; did you mean 'cancel_order'?",
        ),
        pytest.param(
            "app.agent", BOTH, "wrong  entrypoint   'app.agent' must be written `module:attr`", marks=full
        ),
        pytest.param(
            "app.agent:run_agent",
            f'path = "src"\n{BOTH}',
            "wrong  agent        there is no folder ",
            marks=full,
        ),
    ],
)
@pytest.mark.slow
def test_what_is_not_there_is_wrong(
    replay: Replay, project: Project, entrypoint: str, tools: str, line: str
) -> None:
    settings(project, tools, entrypoint)
    done = replay("doctor")
    assert done.code == 2
    assert line in done.out


@pytest.mark.parametrize(
    "source",
    [
        "from somewhere import *",
        pytest.param("def __getattr__(name): ...", marks=full),
        pytest.param("from elsewhere import run", marks=full),
    ],
)
@pytest.mark.slow
def test_what_the_source_cannot_show_is_left_to_the_probe(
    replay: Replay, project: Project, source: str
) -> None:
    (project.folder / "app" / "other.py").write_text(source)
    settings(project, BOTH, "app.other:run")
    done = replay("doctor")
    assert done.code == 0
    assert "wrong" not in done.out


def test_the_probe_replays_the_trace_with_the_most_tools(replay: Replay, project: Project) -> None:
    settings(project)
    done = replay("doctor", "--probe")
    assert (done.code, lines(done.out)[3:]) == (
        0,
        [
            f"ok     start        version '.' starts with Python {PYTHON}; it is called as "
            "app.agent.run_agent(text: str, model='small')",
            "ok     tools        patched: app.agent:get_order_status, app.agent:Shop.cancel_order",
            "ok     trace        two: ok; 2 tool calls passed the patch points: cancel_order, get_order_status",
            "ok     recorded     asked for and answered: cancel_order and get_order_status",
        ],
    )
    assert not (project.folder / "real").exists()
    assert [run.id for run in project.runs()] == []


def test_a_recorded_tool_that_nothing_answers_is_wrong_and_nothing_is_replayed(
    replay: Replay, project: Project
) -> None:
    settings(project, 'tools = ["app.agent:get_order_status"]\n')
    done = replay("doctor", "--probe", "--json")
    checks = {check["name"]: check for check in json.loads(done.out)["checks"] if check["state"] == "wrong"}
    assert (done.code, set(checks)) == (2, {"recorded"})
    assert checks["recorded"]["text"] == (
        "traces call cancel_order (recorded 1×), and no patch point answers that; nothing was replayed; name its "
        "function in `tools` of [agent]"
    )
    assert not (project.folder / "real").exists()


PREVIEW = """
import pathlib
FOLDER = pathlib.Path(__file__).parents[1]
def get_order_status(order_id): return "open"
class Cancel:
    def run(self, order_id): return "it would be cancelled"
    def confirm(self, order_id):
        with (FOLDER / "real").open("a") as file: print("cancel_order", file=file)
TOOLS = {"get_order_status": get_order_status, "cancel_order": Cancel()}
def run_agent(text):
    status = TOOLS["get_order_status"](order_id=text)
    TOOLS["cancel_order"].confirm(order_id=text)
    return status
"""


def test_a_tool_that_is_asked_for_less_often_than_it_was_recorded_is_wrong(
    replay: Replay, project: Project
) -> None:
    project.write("v1", PREVIEW)
    settings(project, 'tools = ["app.agent:TOOLS"]\n')
    done = replay("doctor", "--probe")
    assert done.code == 2
    assert lines(done.out)[2:] == [
        f"ok     start        version '.' starts with Python {PYTHON}; it is called as "
        "app.agent.run_agent(text)",
        "ok     tools        patched: app.agent:TOOLS['get_order_status'], app.agent:TOOLS['cancel_order'].run",
        'ok     trace        two: diverged (get_order_status(order_id="two"): stale; it was recorded after '
        'cancel_order(order_id="two"), which the trial has not made); 1 tool calls passed the patch points: '
        "get_order_status",
        "wrong  recorded     fewer calls passed the patch points than were recorded: cancel_order (recorded 1× in "
        "two, asked for 0×); a tool runs past them, or the version calls it less: probe the one that recorded it",
    ]


CHAT = """
SESSIONS = {}
def cancel_order(order_id): return "cancelled"
def reply(session_id, message):
    if message != "yes":
        SESSIONS[session_id] = message
        return "Shall I cancel it?"
    return cancel_order(order_id=SESSIONS[session_id])
"""


def test_the_probe_replays_the_conversation_of_a_trace(replay: Replay, project: Project) -> None:
    project.write("v1", CHAT)
    settings(project, 'tools = ["app.agent:cancel_order"]\n', "app.agent:reply")
    cancel = ToolCall(name="cancel_order", args={"order_id": "order-10"}, result="cancelled")
    asked = order(10, session_id="s", tool_calls=(), final_response="Shall I cancel it?")
    agreed = order(11, session_id="s", input="yes", tool_calls=(cancel,), final_response="cancelled")
    (project.folder / ".replay" / "replay.duckdb").unlink()
    project.traces([asked, agreed])
    done = replay("doctor", "--probe")
    assert (done.code, lines(done.out)[-2:]) == (
        0,
        [
            "ok     trace        order-10: ok; 1 tool calls passed the patch points: cancel_order",
            "ok     recorded     asked for and answered: cancel_order",
        ],
    )


def test_an_agent_that_does_not_start_is_one_sentence(replay: Replay, project: Project) -> None:
    settings(project)
    project.write("v1", "import os\nKEY = os.environ['SHOP_KEY']\n" + AGENT)
    done = replay("doctor", "--probe")
    assert done.code == 2
    assert (
        "wrong  start        version '.' does not start: the entrypoint's module 'app.agent' does not import"
        in done.out
    )
    assert "KeyError: 'SHOP_KEY'" in done.out


def test_the_api_diagnoses_a_named_version(project: Project) -> None:
    settings(project, BOTH + '[versions.candidate]\nmodel = "large"\n')
    diagnosis = replaydiff.open(project.folder).doctor(probe="candidate")
    assert diagnosis.ok
    assert [finding.text for finding in diagnosis.findings if finding.name == "start"] == [
        f"version 'candidate' starts with Python {PYTHON}; it is called as "
        "app.agent.run_agent(text: str, model='small')"
    ]
    assert not replaydiff.open(project.folder).doctor(probe="missing").ok
