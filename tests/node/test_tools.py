"""Tools of agents in JavaScript, answered from the tape by a Node worker, with Node alone."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.agents.boundary import resolve
from replaydiff.replay.agents.node import WORKER
from replaydiff.replay.errors import VersionError
from replaydiff.replay.model import Item, Status
from tests.agents.running import agent, calls, item, recorded, run, run_one
from tests.node import AGENTS, needs_node

pytestmark = needs_node

TOOLS = (
    "./shop.mjs#getOrder",
    "./shop.mjs#cancelOrder as cancel_order",
    "./shop.mjs#noteOrder",
    "./shop.mjs#TOOLS",
    "./shop.mjs#Service.ship",
    "./shop.mjs#find as find_order",
    "./shop.mjs#dispatch",
    "./orders.mjs#orders",
    "./orders.mjs#default",
)
TAPE = (
    recorded("getOrder", {"id": "1"}, orderId="1"),
    recorded("noteOrder", "noted", order_id="1", text="x"),
    recorded("get_status", "open", order_id="1"),
    recorded("ship", "shipped", order_id="1"),
    recorded("find_order", "here", order_id="1"),
    recorded("lookup", "other", a=1),
    recorded("list", ["1"], state="open"),
    recorded("cancel_order", "cancelled", order_id="1"),
    recorded("close_order", None, order_id="1"),
)
FAILED = recorded("refund", error="too late", order_id="1")
ORDER = {"order_id": "1"}
STEPS = [
    ("getOrder", {"orderId": "1"}),
    ("noteOrder", {"order_id": "1", "text": "x"}),
    ("get_status", ORDER),
    ("ship", ORDER),
    ("find", ORDER),
    ("dispatch", {"name": "lookup", "args": {"a": 1}}),
    ("listOrders", {"state": "open"}),
    ("cancelOrder", ORDER),
    ("close", ORDER),
]
ANSWERS = '[{"id":"1"},"noted","open","shipped","here","other",["1"],"cancelled",null]'


def run_shop(entrypoint: str, trial: Item, canary: Path, **options: Any) -> Any:
    options = {"tools": TOOLS, "env": {"CANARY": str(canary)}, **options}
    outcome = run_one(f"./shop.mjs#{entrypoint}", trial, folder=AGENTS, **options)
    assert not canary.exists()
    return outcome


@pytest.mark.parametrize("entrypoint", ["runAgent", "together"])
@pytest.mark.parametrize("boundary", ["none", resolve("auto")])
def test_every_kind_of_tool_is_answered(entrypoint: str, boundary: str, tmp_path: Path) -> None:
    outcome = run_shop(entrypoint, item(STEPS, *TAPE), tmp_path / "canary", boundary=boundary)
    assert outcome.status is Status.OK, outcome
    assert outcome.final_response == ANSWERS
    assert [(name, rule) for name, _, rule in calls(outcome)] == [(call.name, "tape") for call in TAPE]


def test_a_recorded_error_is_thrown_by_a_tool_behind_an_index_file(tmp_path: Path) -> None:
    outcome = run_shop("runAgent", item([("refundOrder", ORDER)], FAILED), tmp_path / "canary")
    assert (outcome.status, outcome.reason) == (Status.AGENT_ERROR, "Error: too late (shop.mjs:48)")


def test_a_call_without_a_recording_ends_the_trial_whatever_the_agent_catches(tmp_path: Path) -> None:
    steps = [("cancelOrder", {"order_id": "2"}), ("getOrder", {"orderId": "1"})]
    outcome = run_shop("stubborn", item(steps, *TAPE), tmp_path / "canary")
    assert outcome.status is Status.DIVERGED
    assert outcome.reason.startswith('cancel_order(order_id="2"): never recorded')
    assert len(outcome.served) == 1


def test_common_js_is_answered_also_within_its_module() -> None:
    trial = item("1", recorded("get_order", "open", **ORDER), recorded("cancel_order", "done", **ORDER))
    tools = ("./common.cjs#cancel_order", "./common_tools.cjs#get_order")
    outcome = run_one("./common.cjs#runAgent", trial, folder=AGENTS, tools=tools)
    assert outcome.final_response == "true open done"


def test_a_tool_does_not_run_in_a_thread_or_process_of_the_agent() -> None:
    trials = [
        Item(id=name, input=name, tape=(recorded("cancel_order", "done", **ORDER),))
        for name in ("here", "thread", "process")
    ]
    here, *apart = run("./apart.mjs#runAgent", *trials, folder=AGENTS, tools=("./apart.mjs#cancel_order",))
    assert here.final_response == "done"
    for outcome in apart:
        text = (outcome.final_response or "").strip()
        assert text == "cancel_order was called in a thread or process that the agent started; it was not run"


def test_a_generator_yields_what_was_recorded() -> None:
    trial = Item(id="w", input="watch", tape=(recorded("watch_order", ["packed", "sent"], **ORDER),))
    outcome = run_one("./apart.mjs#runAgent", trial, folder=AGENTS, tools=("./apart.mjs#watch_order",))
    assert outcome.final_response == "packed,sent"


def test_what_the_boundary_blocks_is_named_with_its_line() -> None:
    outcome = run_one("./apart.mjs#runAgent", "connect", folder=AGENTS, tools=(), boundary=resolve("auto"))
    assert [(event.what, event.at) for event in outcome.blocked] == [("198.51.100.7:25", "apart.mjs:18")]


def test_failures_are_each_trial_s_own() -> None:
    inputs = ("exit", "throw", "rejection", "overloaded", "nothing", "cycle", "fine", "busy", "hang")
    outcomes = dict(
        zip(
            inputs,
            run("./misbehaving.mjs#runAgent", *inputs, folder=AGENTS, tools=(), timeout_s=2.0),
            strict=True,
        )
    )
    assert {name: outcome.status.value for name, outcome in outcomes.items()} == {
        "exit": "crashed",
        "throw": "agent_error",
        "rejection": "crashed",
        "overloaded": "infra_error",
        "nothing": "agent_error",
        "cycle": "agent_error",
        "fine": "ok",
        "busy": "timeout",
        "hang": "timeout",
    }
    assert outcomes["exit"].reason == "the agent's process ended: exit code 3"
    assert outcomes["throw"].reason == "TypeError: no such order (misbehaving.mjs:7)"
    assert "nobody awaits this" in (outcomes["rejection"].stderr or "")
    assert outcomes["overloaded"].retry_after_s == 7


@pytest.mark.parametrize(
    ("entrypoint", "tools", "sentence"),
    [
        ("./shop.mjs#runAgnet", (), "the entrypoint ./shop.mjs#runAgnet is not there; it exports"),
        ("./shap.mjs#runAgent", (), "has no file ./shap.mjs"),
        ("./shop.mjs#runAgent", ("./shop.mjs#gone",), "the tool ./shop.mjs#gone is not there"),
        ("./shop.mjs#runAgent", ("./index.mjs#refund",), "name the file that defines it"),
        ("./shop.mjs#runAgent", ("a-framework",), "or be one of"),
        ("./shop.mjs#runAgent", ("mastra",), "@mastra/core is not installed"),
        ("./shop.mjs#TOOLS", (), "cannot be called; an agent is a function"),
    ],
)
def test_what_cannot_run_is_refused_in_one_sentence(
    entrypoint: str, tools: tuple[str, ...], sentence: str
) -> None:
    async def start() -> None:
        running = agent(entrypoint, folder=AGENTS, tools=tools)
        try:
            await running.start()
        finally:
            await running.close()

    with pytest.raises(VersionError, match="does not start") as refused:
        asyncio.run(start())
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_process_ends_with_its_engine() -> None:
    """A worker whose agent is in a loop ends when the pipe of its parent closes."""
    order = {
        "entrypoint": "./misbehaving.mjs#runAgent",
        "factory": False,
        "tools": [],
        "live": [],
        "args": {},
    }
    with contextlib.ExitStack() as stack:
        control, theirs = (stack.enter_context(end) for end in socket.socketpair())
        life_theirs, life = os.pipe()
        stack.callback(os.close, life_theirs)
        fds = (theirs.fileno(), theirs.fileno(), life_theirs)
        command = [str(shutil.which("node")), str(WORKER), *map(str, fds)]
        process = stack.enter_context(
            subprocess.Popen(command, cwd=AGENTS, pass_fds=set(fds), start_new_session=True)
        )
        control.sendall(json.dumps(order).encode() + b"\n")
        assert control.recv(4096).startswith(b'{"ready"')
        control.sendall(b'{"trial": 1, "input": "busy"}\n')
        assert control.recv(4096).startswith(b'{"began"')
        os.close(life)
        assert process.wait(10) == -signal.SIGKILL
