"""A run stops before real tools run for every item, and before one failure repeats for every item."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaydiff.replay.model import ToolCall
from tests.commands.conftest import Replay
from tests.engine.project import Project, order
from tests.stand_ins.full import examples, full

CANARY = """
import os, pathlib
def real(text):
    with open(os.environ["CALLS"], "a") as file:
        print(text, file=file)
    return "the real tool ran"
"""
BY_NAME = (
    CANARY
    + """
def unused(name, args): ...
def get_order_status(order_id): return real(order_id)
def run_agent(text): return get_order_status(text)
"""
)
BY_TABLE = (
    CANARY
    + """
def unused(name, args): ...
def dispatch(name, args): return TABLE[name](**args)
TABLE = {"get_order_status": lambda order_id: real(order_id)}
def run_agent(text): return dispatch("get_order_status", {"order_id": text})
"""
)
BY_METHOD = (
    CANARY
    + """
def unused(name, args): ...
class Tools:
    async def call_tool(self, name, arguments=None): return real(arguments["order_id"])
async def run_agent(text): return await Tools().call_tool("get_order_status", arguments={"order_id": text})
"""
)
IN_A_THREAD = (
    CANARY
    + """
import threading
def unused(name, args): ...
def get_order_status(order_id): real(order_id)
def run_agent(text):
    thread = threading.Thread(target=get_order_status, args=(text,)); thread.start(); thread.join()
    return "done"
"""
)
REPORTED = (
    CANARY
    + """
def unused(name, args): ...
def hidden(it): real(it)
def run_agent(text):
    hidden(text)
    return {"text": "done", "tool_calls": [{"name": "get_order_status", "args": {"order_id": text}}]}
"""
)
UNSEEN = (
    CANARY
    + """
def unused(name, args): ...
def hidden(it): real(it)
def run_agent(text):
    hidden(text)
    return "done"
"""
)
ONE_OF_TWO = (
    CANARY
    + """
def unused(name, args): return "shipped"
def cancel_order(order_id): return real(order_id)
def run_agent(text): return unused("get_order_status", {"order_id": text}) + cancel_order(order_id=text)
"""
)
SETTINGS = '[agent]\nentrypoint = "app.agent:run_agent"\ntools = ["app.agent:unused"]\n'


@pytest.fixture
def project(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project(tmp_path / "shop")
    (tmp_path / "tried").touch()
    project.settings(SETTINGS)
    project.sample(12)
    monkeypatch.chdir(project.folder)
    for name, value in project.counting(str(project.folder.parent / "tried")).items():
        monkeypatch.setenv(name, value)
    return project


def real_calls(project: Project) -> int:
    return project.times_called()


@pytest.mark.parametrize(
    ("agent", "trials", "evidence"),
    [
        (BY_NAME, 5, "5 trials of items that were recorded with tool calls passed no patch point"),
        (BY_TABLE, 5, "5 trials of items that were recorded with tool calls passed no patch point"),
        (BY_METHOD, 5, "5 trials of items that were recorded with tool calls passed no patch point"),
        (IN_A_THREAD, 5, "5 trials of items that were recorded with tool calls passed no patch point"),
        (REPORTED, 1, "the agent reports it for item order-"),
    ],
    ids=["named", "dispatched", "async method", "thread", "reported"],
)
@pytest.mark.slow
def test_a_version_whose_calls_reach_no_patch_point_is_stopped(
    replay: Replay, project: Project, agent: str, trials: int, evidence: str
) -> None:
    project.write("v1", agent)
    done = replay("run", "--new", ".", "--sample", "october", "--trials", "2", "--concurrency", "8")
    assert (done.code, project.runs()) == (2, []), done.err
    assert real_calls(project) in (0, trials)
    *_, error = done.err.splitlines()
    assert error.startswith(
        f"error: the run was stopped: get_order_status may have run behind the boundary in lane new (.): {evidence}"
    )
    assert "the patch points are app.agent:unused: name the function that runs the tools in `tools`" in error


def test_a_recorded_tool_behind_a_registry_of_names_stops_the_run_at_its_first_trial(
    replay: Replay, project: Project
) -> None:
    calls = (
        ToolCall(name="get_order_status", args={"order_id": "7"}, result="shipped"),
        ToolCall(name="cancel_order", args={"order_id": "7"}, result="cancelled"),
    )
    project.traces(
        [order(number, trace_id=f"two-{number}", input="7", tool_calls=calls) for number in range(8)]
    )
    assert replay("sample", "--month", "2026-10", "--where", "input = '7'", "--name", "two").code == 0
    project.settings(
        '[agent]\nentrypoint = "app.agent:run_agent"\ntools = ["app.agent:get_order_status", "app.agent:stub"]\n'
    )
    project.write(
        "v1",
        CANARY
        + """
REGISTRY = {}
def do_cancel(order_id): return real(order_id)
REGISTRY["cancel_order"] = do_cancel
def stub(order_id): return REGISTRY["cancel_order"](order_id)
def get_order_status(order_id): return real("status")
def run_agent(text):
    REGISTRY["cancel_order"](text)
    return get_order_status(text)
""",
    )
    done = replay("run", "--new", ".", "--sample", "two")
    assert (done.code, project.runs()) == (2, [])
    assert real_calls(project) == 1
    assert (
        "error: the run was stopped: cancel_order may have run behind the boundary in lane new (.): it was "
        "recorded for item two-" in done.err
    )
    assert "name it in `ignore` of [agent]" in done.err


def test_a_tool_beside_a_dispatcher_stops_the_run_after_five_trials(replay: Replay, project: Project) -> None:
    calls = (
        ToolCall(name="get_order_status", args={"order_id": "7"}, result="shipped"),
        ToolCall(name="cancel_order", args={"order_id": "7"}, result="cancelled"),
    )
    project.traces(
        [order(number, trace_id=f"two-{number}", input="7", tool_calls=calls) for number in range(8)]
    )
    assert replay("sample", "--month", "2026-10", "--where", "input = '7'", "--name", "two").code == 0
    project.write("v1", ONE_OF_TWO)
    done = replay("run", "--new", ".", "--sample", "two")
    assert done.code == 2
    assert (
        "cancel_order may have run behind the boundary in lane new (.): 5 trials of items recorded with it asked for "
        "their other tools, and not for it" in done.err
    )


def test_the_stop_says_that_no_boundary_was_around_the_tools(replay: Replay, project: Project) -> None:
    project.write("v1", REPORTED)
    done = replay("run", "--new", ".", "--sample", "october", "--set", "world.boundary=none")
    assert done.code == 2
    assert "get_order_status may have run for real in lane new (.): the agent reports it" in done.err
    assert "behind the boundary" not in done.err


def test_without_any_sign_five_silent_trials_stop_the_run(replay: Replay, project: Project) -> None:
    project.write("v1", UNSEEN)
    done = replay("run", "--new", ".", "--sample", "october", "--trials", "3", "--concurrency", "8")
    assert (done.code, real_calls(project), project.runs()) == (2, 5, [])
    assert "5 trials of items that were recorded with tool calls passed no patch point" in done.err


SOME_WITHOUT_TOOLS = """
def call(name, args): raise SystemError
def run_agent(text):
    if int(text.removeprefix("order-")) % 4:
        return "I would rather not look it up"
    return call("get_order_status", {"order_id": text})
"""


@pytest.mark.parametrize("seed", range(examples(1, 4)))
def test_an_agent_that_answers_items_without_its_tools_is_not_stopped(
    replay: Replay, project: Project, seed: int
) -> None:
    project.settings(SETTINGS.replace("unused", "call"))
    project.write("v1", SOME_WITHOUT_TOOLS.replace("% 4", "% 2"))
    done = replay("run", "--new", ".", "--sample", "october", "--set", f"run.seed={seed}")
    assert (done.code, len(project.trials())) == (0, 12), done.err


def test_a_model_that_needs_no_tools_is_not_stopped_where_the_same_code_reaches_them(
    replay: Replay, project: Project
) -> None:
    agent = SOME_WITHOUT_TOOLS.replace("(text):", "(text, model='old'):").replace(
        'int(text.removeprefix("order-")) % 4', "model == 'new'"
    )
    project.settings(SETTINGS.replace("unused", "call"))
    project.write("v1", agent)
    done = replay("run", "--old", ".", "--new", "model=new", "--sample", "october")
    assert (done.code, len(project.trials())) == (0, 24), done.err


@pytest.mark.parametrize("tools", ["tools = []", 'tools = ["app.agent:unused"]\nlive = ["get_order_status"]'])
def test_tools_that_may_run_run(replay: Replay, project: Project, tools: str) -> None:
    project.settings(SETTINGS.replace('tools = ["app.agent:unused"]', tools))
    project.write("v1", REPORTED)
    assert replay("run", "--new", ".", "--sample", "october").code == 0
    assert real_calls(project) == 12


def test_items_without_recorded_calls_prove_nothing(replay: Replay, project: Project) -> None:
    project.traces(
        [order(number, trace_id=f"none-{number}", input="hi", tool_calls=()) for number in range(8)]
    )
    assert replay("sample", "--month", "2026-10", "--where", "input = 'hi'", "--name", "none").code == 0
    project.write("v1", "def unused(name, args): ...\ndef run_agent(text): return text\n")
    assert replay("run", "--new", ".", "--sample", "none").code == 0


# --- failures that would repeat ---

BROKEN = """
import os, pathlib
def call(name, args): raise SystemError
def run_agent(text):
    with open("TRIED", "a") as file:
        print(text, file=file)
    if not pathlib.Path("mended").exists():
        raise ValueError(f"422 Field required: message (request {os.urandom(8).hex()}, {text})")
    return call("get_order_status", {"order_id": text})
"""


def test_a_process_that_ends_again_and_again_is_reported_with_what_it_printed(
    replay: Replay, project: Project
) -> None:
    project.settings(SETTINGS.replace("unused", "call"))
    project.write(
        "v1",
        "import os, sys\ndef call(name, args): ...\ndef run_agent(text):\n"
        "    print('loading', 'no libfoo.so', sep='\\n', file=sys.stderr, flush=True)\n    os._exit(9)\n",
    )
    done = replay("run", "--new", ".", "--sample", "october")
    assert done.code == 75
    assert "(crashed: the agent's process ended: exit code 9: no libfoo.so); correct that" in done.err


def test_a_failure_that_repeats_stops_the_run_and_is_repeated_when_it_is_resumed(
    replay: Replay, project: Project
) -> None:
    tried = project.folder.parent / "tried"
    tried.touch()
    project.settings(SETTINGS.replace("unused", "call") + f'[world]\nwritable = ["{tried}"]\n')
    (project.folder / ".gitignore").write_text(".replay/\n__pycache__/\nmended\n")
    project.write("v1", BROKEN.replace("TRIED", str(tried)))
    done = replay("run", "--new", ".", "--sample", "october", "--trials", "3", "--concurrency", "8")
    run = project.run()
    assert (done.code, project.trials()) == (75, [])
    assert len(tried.read_text().splitlines()) == 5
    assert (
        "the first 5 trials of lane new (.) failed in the same way (agent_error: ValueError: 422 Field required"
        in done.err
    )
    assert f"`replay run --resume {run.id}`" in done.err
    (project.folder / "mended").touch()
    assert replay("run", "--resume", run.id).code == 0
    assert {trial.status.value for trial in project.trials()} == {"ok"}
    assert len(project.trials()) == 36


@pytest.mark.parametrize(
    "condition",
    ["int(text[6:]) % 4", pytest.param("int(text[6:]) in (1, 2, 3, 4)", marks=full)],
    ids=["three of four", "the first ones"],
)
@pytest.mark.slow
def test_an_agent_that_fails_on_some_items_is_not_stopped(
    replay: Replay, project: Project, condition: str
) -> None:
    agent = f"""
def call(name, args): raise SystemError
def run_agent(text):
    if {condition}:
        raise KeyError("status")
    return call("get_order_status", {{"order_id": text}})
"""
    project.settings(SETTINGS.replace("unused", "call"))
    project.write("v1", agent)
    done = replay("run", "--new", ".", "--sample", "october", "--trials", "2")
    assert (done.code, len(project.trials())) == (3, 24), done.err


def test_an_item_that_always_fails_is_not_taken_for_a_lane_that_does(
    replay: Replay, project: Project
) -> None:
    project.settings(SETTINGS.replace("unused", "call"))
    agent = SOME_WITHOUT_TOOLS.replace("% 4:", "!= 99:").replace('return "I would rather', "raise KeyError #")
    project.write("v1", agent.replace("!= 99", "== 3"))
    done = replay("run", "--new", ".", "--sample", "october", "--trials", "8")
    assert (done.code, len(project.trials())) == (3, 96), done.err


# --- what is known only later ---

LATER = REPORTED.replace(
    "def run_agent(text):",
    'def run_agent(text):\n    if text != "order-3":\n        return unused("get_order_status", {"order_id": text})',
)


def test_a_later_call_past_the_patch_points_ends_the_run_and_is_not_repeated(
    replay: Replay, project: Project
) -> None:
    project.write("v1", LATER)
    done = replay("run", "--new", ".", "--sample", "october", "--set", "run.seed=5", "--concurrency", "1")
    assert (done.code, real_calls(project)) == (2, 1)
    assert (
        "get_order_status may have run behind the boundary in lane new (.): the agent reports it" in done.err
    )
    kept = {trial.item_id for trial in project.trials()}
    assert "order-3" in kept
    again = replay("run", "--resume")
    assert (again.code, real_calls(project)) == (2, 1)
    assert "the agent reported it for item order-3" in again.err
    assert {trial.item_id for trial in project.trials()} == kept


def test_a_recorded_tool_that_writes_and_is_never_asked_for_is_named(
    replay: Replay, project: Project
) -> None:
    calls = (
        ToolCall(name="get_order_status", args={"order_id": "7"}, result="shipped"),
        ToolCall(name="cancel_order", args={"order_id": "7"}, result="cancelled"),
    )
    project.traces(
        [order(number, trace_id=f"two-{number}", input="7", tool_calls=calls) for number in range(4)]
    )
    assert replay("sample", "--month", "2026-10", "--where", "input = '7'", "--name", "two").code == 0
    project.write(
        "v1",
        'def unused(name, args): ...\ndef run_agent(text): return unused("get_order_status", {"order_id": text})',
    )
    project.settings(SETTINGS + '[tools.cancel_order]\neffect = "write"\n')
    done = replay("run", "--new", ".", "--sample", "two", "--trials", "1")
    assert done.code == 0
    assert (
        "warning: cancel_order was recorded 4 times and called 0 times in lane new (.); make sure that it "
        in done.err
    )
    project.settings(SETTINGS + '[tools.get_order_status]\neffect = "write"\n')
    assert "called 0 times" not in replay("run", "--new", ".", "--sample", "two").err


@pytest.mark.slow
def test_a_tool_that_writes_and_that_no_version_answers_stops_the_start(
    project: Project, replay: Replay
) -> None:
    two = BY_NAME + "def cancel_order(order_id): return real(order_id)\n"
    writes = SETTINGS.replace(":unused", ":get_order_status") + '[tools.cancel_order]\neffect = "write"\n'
    project.settings(writes)
    project.commit("v1", two)
    words = ("run", "--old", "git:v1", "--new", ".", "--trials", "1", "--no-aa")
    done = replay(*words)
    assert done.code == 2
    assert 'cancel_order would run behind the boundary: it has effect = "write" in replay.toml' in done.err
    assert "remove [tools.cancel_order] if no version has it" in done.err
    assert real_calls(project) == 0
    # `tools = []` states that tools may run; it may be a slip, so it is said.
    project.settings(writes.replace('["app.agent:get_order_status"]', "[]"))
    assert "warning: cancel_order may run behind the boundary: `tools = []`" in replay(*words).err
    # An earlier name of the tool answers it, and so does a dispatcher.
    project.settings(writes + 'renamed_from = "get_order_status"\n')
    assert replay(*words).code == 0
    project.settings(writes.replace(":get_order_status", ":unused"))
    assert "would run behind" not in replay(*words).err


# --- a tool that is answered in a part, and does its work in another ---

PREVIEW = """
import logging, sqlite3
class Status:
    def run(self, order_id): return f"{order_id} is shipped"
    def confirm(self, order_id): WRITE
    def describe(self):
        logging.warning("described")
        return "looks an order up"
TOOLS = {"get_order_status": Status()}
LOGS = logging.FileHandler("tools.log", delay=True)
logging.getLogger().addHandler(LOGS)
def log(text): open("agent.log", "a").write(text)
def run_agent(text):
    log(TOOLS["get_order_status"].describe())
    answer = TOOLS["get_order_status"].run(order_id=text)
    CONFIRM
    return answer
"""
PREVIEW_SETTINGS = SETTINGS.replace(":unused", ":TOOLS")


@pytest.mark.parametrize(
    "write", ["open('orders', 'a').write(order_id)", pytest.param("sqlite3.connect('orders.db')", marks=full)]
)
def test_a_part_of_a_tool_that_writes_unanswered_stops_at_the_first_such_trial(
    replay: Replay, project: Project, write: str
) -> None:
    project.settings(PREVIEW_SETTINGS)
    confirm = 'if text == "order-3": TOOLS["get_order_status"].confirm(text)'
    project.write("v1", PREVIEW.replace("WRITE", write).replace("CONFIRM", confirm))
    done = replay("run", "--new", ".", "--sample", "october", "--trials", "1", "--concurrency", "1")
    assert done.code == 2
    assert (
        "the boundary blocked a write by app.agent:TOOLS['get_order_status'].confirm, a part of a listed tool "
        "at app/agent.py:5" in done.err
    )
    assert "list that function in `tools` of [agent] as well" in done.err


def test_what_else_an_agent_writes_in_its_folder_stops_nothing(replay: Replay, project: Project) -> None:
    project.settings(PREVIEW_SETTINGS)
    project.write("v1", PREVIEW.replace("WRITE", "pass").replace("CONFIRM", "pass"))
    done = replay("run", "--new", ".", "--sample", "october", "--trials", "1")
    assert done.code == 0, done.err
