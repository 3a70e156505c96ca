"""The user's own glue: it runs the agent, answers its tools, and fails in one sentence."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.agents import Outcome
from replaydiff.replay.errors import VersionError
from replaydiff.replay.model import Status
from tests.agents.running import calls, item, recorded, run_one

APP = """
import pathlib, subprocess, sys

class Client:
    def post(self, name, body):
        pathlib.Path("real").open("a").write(name)
        return "the real tool ran"

    async def post_async(self, name, body):
        return self.post(name, body)

def run(text):
    return Client().post("cancel", {"order_id": text})
"""
PATCH = """
import app
def patch(answer):
    app.Client.post = lambda self, name, body: answer(name, body)
    async def post_async(self, name, body):
        return answer(name, body)
    app.Client.post_async = post_async
"""
RUN = """
import app
async def run_agent(text, order="7"):
    return await app.Client().post_async("cancel", {"order_id": order})
"""


def replay(folder: Path, adapter: str, *, digest: str | None = None, **options: Any) -> Outcome:
    """Replay an agent with an adapter that lies outside its folder."""
    code = folder / "code"
    code.mkdir()
    (code / "app.py").write_text(APP)
    file = folder / "replay_adapter.py"
    file.write_text(adapter)
    options = {
        "entrypoint": "app:run",
        "tools": ("adapter",),
        "input_": item("7", recorded("cancel", "cancelled", order_id="7")),
        "folder": code,
        "adapter": str(file),
        "adapter_digest": digest or hashlib.sha256(adapter.encode()).hexdigest(),
        **options,
    }
    return run_one(options.pop("entrypoint"), options.pop("input_"), **options)


@pytest.mark.parametrize("entrypoint", ["app:run", None])
def test_an_adapter_answers_tools_and_runs_the_agent(entrypoint: str | None, tmp_path: Path) -> None:
    outcome = replay(tmp_path, PATCH + RUN, entrypoint=entrypoint)
    assert (outcome.status, outcome.final_response) == (Status.OK, "cancelled"), outcome.reason
    assert calls(outcome) == [("cancel", {"order_id": "7"}, "tape")]
    assert not (tmp_path / "code" / "real").exists()


def test_a_miss_stops_the_trial_and_arguments_reach_run_agent(tmp_path: Path) -> None:
    outcome = replay(tmp_path, PATCH + RUN, entrypoint=None, args={"order": "8"})
    assert outcome.status is Status.DIVERGED
    assert calls(outcome) == [("cancel", {"order_id": "8"}, "miss")]
    assert not (tmp_path / "code" / "real").exists()


def test_a_tool_that_may_run_is_run_by_the_function_it_was_given(tmp_path: Path) -> None:
    adapter = """
import app
real = app.Client.post
def patch(answer):
    app.Client.post = lambda self, name, body: answer(name, body, lambda: real(self, name, body))
"""
    outcome = replay(tmp_path, adapter, input_=item("9"), live=("cancel",))
    assert (outcome.status, outcome.final_response) == (Status.OK, "the real tool ran"), outcome.reason
    assert calls(outcome) == [("cancel", {"order_id": "9"}, "live")]


@pytest.mark.parametrize(
    ("adapter", "options", "sentence"),
    [
        ("def patch(:", {}, r"replay_adapter.py does not load: SyntaxError: .*\(.*replay_adapter.py:1\)"),
        ("import nowhere", {}, "replay_adapter.py does not load: ModuleNotFoundError: No module named 'now"),
        ("raise SystemExit(3)", {}, "replay_adapter.py does not load: SystemExit: 3"),
        ("X = 1", {}, "replay_adapter.py defines neither run_agent nor patch"),
        (RUN, {}, r"`tools` names \"adapter\", and .* defines no patch\(answer\); define it, or take it out"),
        (PATCH, {"tools": ()}, r"defines patch\(answer\), and `tools` does not name \"adapter\"; add it"),
        (PATCH, {"entrypoint": None}, "defines no run_agent, and no `entrypoint` is set"),
        ("def patch(answer): 1 / 0", {}, r"patch\(answer\) of the adapter .* fails: ZeroDivisionError: "),
        ("def patch(): pass", {}, r"patch\(answer\) of the adapter .* fails: TypeError: patch\(\) takes 0"),
        (PATCH, {"digest": "0"}, "replay_adapter.py was changed since the run began; start another run"),
    ],
)
def test_an_adapter_that_fails_stops_the_start(
    adapter: str, options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(VersionError, match=sentence):
        replay(tmp_path, adapter, **options)
    assert not (tmp_path / "code" / "real").exists()
