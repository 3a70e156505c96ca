"""What agents ask their models is recorded, keyed to their trials, and repeated without a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.model import Rule, Status, Trial, Usage
from replaydiff.replay.store.connection import open_store
from tests.commands.conftest import Replay
from tests.engine.project import Project, order
from tests.stand_ins.full import full
from tests.stand_ins.loopback import Request, serving
from tests.stand_ins.models import Models, models

KEY = "sk-secret-of-a-person"
POSTING = """
import json, os, sys, urllib.error, urllib.request

def post(base, path, body):
    headers = {
        "content-type": "application/json",
        "x-api-key": os.environ["ANTHROPIC_API_KEY"],
        "authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
    }
    request = urllib.request.Request(base + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()
"""
LOOPING = (
    POSTING
    + """
def run_agent(text, model="claude-haiku-4-5"):
    turns = [{"role": "user", "content": text}]
    while True:
        body = {"model": model, "max_tokens": 100, "messages": turns}
        answer = json.loads(post(os.environ["ANTHROPIC_BASE_URL"], "/v1/messages", body))
        if answer["stop_reason"] != "tool_use":
            return answer["content"][0]["text"]
        call = answer["content"][0]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "it is shipped"}
        turns += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": [result]}]
"""
)
STREAMING = """
import anthropic

async def run_agent(text):
    async with anthropic.AsyncAnthropic() as client:
        asked = [{"role": "user", "content": text}]
        async with client.messages.stream(model="claude-haiku-4-5", max_tokens=9, messages=asked) as stream:
            return "".join([part async for part in stream.text_stream])
"""
PROGRAM = (
    POSTING
    + """
def answer(asked):
    body = {"model": "gpt-known", "stream": True, "messages": asked["messages"]}
    told = post(os.environ["OPENAI_BASE_URL"], "/chat/completions", body)
    chunks = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: {")]
    assert told.endswith("data: [DONE]\\n\\n") and all(chunk["choices"] for chunk in chunks), told
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    return {"trial": asked["trial"], "final_response": text}

for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
"""
)
PRICES = "\n[prices.gpt-known]\ninput = 10.0\noutput = 100.0\n"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Models]:
    with models() as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.url}/v1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield running


@pytest.fixture
def project(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project(tmp_path / "shop")
    project.settings('[agent]\nentrypoint = "app.agent:run_agent"\ntools = []\n')
    project.write("v1", LOOPING)
    project.sample(3)
    monkeypatch.chdir(project.folder)
    return project


def calls(project: Project) -> list[dict[str, Any]]:
    with open_store(project.store, read_only=True) as con:
        rows = con.execute("SELECT * FROM model_calls ORDER BY run_id, item_id, lane, trial, index")
        names = [column[0] for column in rows.description or ()]
        return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


def told(trials: list[Trial]) -> list[tuple[Any, ...]]:
    """All of the trials that a repetition must repeat."""
    return [(t.item_id, t.lane, t.index, t.final_response, t.served, t.usage, t.cost_usd) for t in trials]


def test_any_agent_is_recorded_and_repeated_exactly_without_a_model_or_key(
    replay: Replay, project: Project, stand_in: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = ("--old", ".", "--new", "model=claude-opus-5-5", "--trials", "2", "--aa")
    done = replay("run", *both, "--set", "run.record=true")
    assert done.code == 0, done.err
    assert "  recorded: 36 requests to models\n" in done.out
    first = project.trials()
    assert len({trial.final_response for trial in first}) == 18, "no two answers are alike"
    for trial in first:
        assert trial.usage == Usage(input_tokens=2000, output_tokens=20, cache_read_tokens=1800)
        assert trial.cost_usd == pytest.approx(2 * (100 * 1 + 900 * 0.1 + 10 * 5) / 1e6)
        [served] = trial.served
        assert (served.call.name, served.call.args, served.rule) == ("look_up", {"order_id": "7"}, Rule.LIVE)
        assert served.call.result == "it is shipped"
    kept = calls(project)
    assert all(headers["x-api-key"] == KEY for _, _, headers in stand_in.asked)
    assert KEY not in json.dumps(kept, default=str)
    assert [(call["path"], call["status"], call["error"]) for call in kept] == [
        ("/v1/messages", 200, None)
    ] * 36
    for call in kept:
        assert json.loads(call["request"])["messages"][0]["content"] == call["item_id"]
        assert call["latency_ms"] > 0

    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name)
    done = replay(
        "run",
        *both,
        "--set",
        "run.replay_model=latest",
        "--budget",
        "0",
        "--set",
        "run.max_tokens=0",
        "--json",
    )
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert (done.code, document["paid_usd"]) == (0, 0.0)
    assert document["cost_usd"] == pytest.approx(sum(trial.cost_usd or 0 for trial in first))
    assert told(project.trials()) == told(first)
    assert len(stand_in.asked) == 36, "nobody was asked again"
    assert len(calls(project)) == 36


def test_a_request_that_was_not_recorded_is_an_error_and_not_a_poor_answer(
    replay: Replay, project: Project, stand_in: Models
) -> None:
    replay("run", "--new", ".", "--set", "run.record=true")
    recorded = project.run().id
    project.write("v2", LOOPING.replace('"max_tokens": 100', '"max_tokens": 101'))
    done = replay("run", "--new", ".", "--set", f"run.replay_model={recorded}")
    assert done.code == 3
    assert {(trial.status, trial.reason) for trial in project.trials()} == {
        (
            Status.AGENT_ERROR,
            f"the agent asked its model something that run {recorded} did not record for trial 0 (anthropic "
            "/v1/messages); record again: --set run.record=true",
        )
    }
    assert len(stand_in.asked) == 6


def test_a_run_that_recorded_nothing_cannot_be_repeated(
    replay: Replay, project: Project, stand_in: Models
) -> None:
    assert (
        "no run has recorded its models yet"
        in replay("run", "--new", ".", "--set", "run.replay_model=latest").err
    )
    replay("run", "--new", ".")
    run = project.run().id
    assert (
        f"run {run} recorded no model" in replay("run", "--new", ".", "--set", f"run.replay_model={run}").err
    )
    assert (
        "exclude each other"
        in replay("run", "--new", ".", "--set", "run.record=true", "--set", f"run.replay_model={run}").err
    )
    assert len(project.runs()) == 1


@full
def test_async_agents_that_stream_are_told_apart(
    replay: Replay, project: Project, stand_in: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("v1", STREAMING)
    done = replay("run", "--new", ".", "--set", "run.record=true", "--concurrency", "2")
    assert done.code == 0, done.err
    first = project.trials()
    for trial, call in zip(sorted(first, key=lambda trial: trial.item_id), calls(project), strict=True):
        assert trial.item_id == call["item_id"] == json.loads(call["request"])["messages"][0]["content"]
        assert trial.final_response is not None
        assert trial.usage == Usage(input_tokens=100, output_tokens=10)
        assert f'"{trial.final_response}"' in call["response"]
        assert trial.served[0].call.args == {"order_id": "7"}
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    replay("run", "--new", ".", "--set", "run.replay_model=latest")
    assert told(project.trials()) == told(first)
    assert len(stand_in.asked) == 3


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.slow
def test_programs_stream_chat_completions_and_their_tokens_are_known(
    replay: Replay, project: Project, stand_in: Models, persistent: bool
) -> None:
    (project.folder / "agent.py").write_text(PROGRAM)
    project.settings(
        f'[agent]\ncommand = "{sys.executable} agent.py"\ntools = []\npersistent = {str(persistent).lower()}\n'
        + PRICES
    )
    done = replay("run", "--new", ".", "--set", "run.record=true")
    assert done.code == 0, done.err
    first = project.trials()
    for trial in first:
        assert trial.usage == Usage(input_tokens=200, output_tokens=20)
        assert trial.cost_usd == pytest.approx(0.004)
        assert [served.call.args for served in trial.served] == [{"order_id": "7"}]
    assert all(body["stream_options"] == {"include_usage": True} for _, body, _ in stand_in.asked)
    assert {path for path, _, _ in stand_in.asked} == {"/v1/chat/completions"}
    replay("run", "--new", ".", "--set", "run.replay_model=latest")
    assert told(project.trials()) == told(first)
    assert len(stand_in.asked) == 3


RESPONSES = (
    POSTING
    + """
def run_agent(text, stream=False):
    items = [{"role": "user", "content": text}]
    while True:
        body = {"model": "gpt-known", "input": items, "stream": stream}
        told = post(os.environ["OPENAI_BASE_URL"], "/responses", body)
        lines = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: ")]
        answer = lines[-1]["response"] if stream else json.loads(told)
        [made] = answer["output"]
        if made["type"] == "message":
            return made["content"][0]["text"]
        result = {"type": "function_call_output", "call_id": made["call_id"], "output": "it is shipped"}
        items += [made, result]
"""
)


@pytest.mark.parametrize("stream", ["true", "false"])
@pytest.mark.slow
def test_openais_responses_are_read_too(
    replay: Replay, project: Project, stand_in: Models, stream: str
) -> None:
    project.settings(
        f'[agent]\nentrypoint = "app.agent:run_agent"\ntools = []\nargs = {{ stream = {stream} }}\n' + PRICES
    )
    project.write("v1", RESPONSES)
    done = replay("run", "--new", ".", "--set", "run.record=true")
    assert done.code == 0, done.err
    first = project.trials()
    for trial in first:
        assert trial.usage == Usage(input_tokens=600, output_tokens=60, cache_read_tokens=200)
        assert trial.cost_usd == pytest.approx(2 * (200 * 10 + 100 * 1 + 30 * 100) / 1e6)
        assert [(one.call.name, one.call.args, one.call.result) for one in trial.served] == [
            ("look_up", {"order_id": "7"}, "it is shipped")
        ]
    assert {call["path"] for call in calls(project)} == {"/responses"}
    replay("run", "--new", ".", "--set", "run.replay_model=latest")
    assert told(project.trials()) == told(first)
    assert len(stand_in.asked) == 6


@pytest.mark.slow
def test_what_was_recorded_is_shown_with_its_trial_and_exported(
    replay: Replay, project: Project, stand_in: Models
) -> None:
    replay("run", "--old", ".", "--new", ".", "--set", "run.record=true")
    run = project.run().id
    shown = replay("show", "order-0", "--run", run, "--lane", "new").out
    first, second = calls(project)[0], calls(project)[1]
    assert "model 1    claude-haiku-4-5: 1 message; 1,000 tokens read, 10 written, $0.0002" in shown
    assert '  → look_up(order_id="7")' in shown
    assert "  prompt   order-0" in shown
    assert "model 2    claude-haiku-4-5: 3 messages; 1,000 tokens read" in shown
    assert "  prompt   it is shipped" in shown
    assert shown.count("model 1") == 1, "that of the other lane is not shown"
    document = json.loads(replay("show", "order-0", "--run", run, "--lane", "old", "--json").out)
    assert [call["index"] for call in document["model_calls"]] == [0, 1]
    assert document["model_calls"][0]["request"]["messages"][0]["content"] == "order-0"

    lines = replay("export", "model-calls", "--run", run).out.splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 12
    assert {row["version"] for row in rows} == {"."}
    row = next(row for row in rows if (row["item_id"], row["lane"]) == (first["item_id"], first["lane"]))
    assert row["request"] == json.loads(first["request"])
    assert row["response"] == first["response"]
    assert row["tool_calls"][0]["name"] == "look_up"
    assert (row["input_tokens"], row["output_tokens"]) == (1000, 10)
    assert second["response"] != first["response"]
    assert KEY not in json.dumps(rows)
    assert replay("export", "model-calls", "-o", "calls.parquet").code == 0


@pytest.mark.slow
def test_the_text_of_a_stream_is_shown(replay: Replay, project: Project, stand_in: Models) -> None:
    project.write("v1", STREAMING)
    replay("run", "--new", ".", "--set", "run.record=true")
    shown = replay("show", "order-0", "--run", project.run().id).out
    [trial] = [one for one in project.trials() if one.item_id == "order-0"]
    assert f"  answer   {trial.final_response}" in shown


def test_a_service_is_told_the_base_urls(replay: Replay, project: Project, stand_in: Models) -> None:
    import urllib.request

    def answer(request: Request) -> tuple[int, Any]:
        body = {"model": "gpt-known", "messages": [{"role": "user", "content": request.body["item"]}]}
        url = request.body["model_urls"]["OPENAI_BASE_URL"] + "/chat/completions"
        headers = {"content-type": "application/json"}
        asked = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(asked) as told:
            return 200, json.loads(told.read())["choices"][0]["message"]["content"]

    with serving(answer) as service:
        project.settings(f'[agent]\nurl = "{service.url}/agent"\ntools = []\n' + PRICES)
        done = replay("run", "--new", ".", "--set", "run.record=true")
        assert "version '.' names code" in done.err
        done = replay("run", "--new", "model=gpt-known", "--set", "run.record=true")
    assert done.code == 0, done.err
    asked = [json.loads(call["request"])["messages"][0]["content"] for call in calls(project)]
    assert asked == [call["item_id"] for call in calls(project)] == ["order-0", "order-1", "order-2"]


def test_messages_goes_through_the_gateway_too(
    replay: Replay, project: Project, stand_in: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = [{"name": "look_up", "input_schema": {"type": "object"}}]
    tape = order(0).tool_calls
    project.traces([order(number, metadata={"tools": tools}, tool_calls=tape) for number in range(3)])
    replay(
        "run",
        "--new",
        "messages:model=claude-haiku-4-5",
        "--set",
        "run.record=true",
        "--set",
        "run.on_miss=error",
    )
    first = project.trials()
    assert {trial.status for trial in first} == {Status.OK}
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    done = replay(
        "run",
        "--new",
        "messages:model=claude-haiku-4-5",
        "--set",
        "run.replay_model=latest",
        "--set",
        "run.on_miss=error",
    )
    assert done.code == 0, done.err
    assert told(project.trials()) == told(first)
    assert len(stand_in.asked) == len(calls(project)) == 6


def test_errors_pass_through_and_are_repeated_as_what_came_after_them(
    replay: Replay, project: Project, stand_in: Models
) -> None:
    stand_in.statuses = [529]
    done = replay(
        "run", "--new", ".", "--set", "run.record=true", "--concurrency", "1", "--set", "run.retries=1"
    )
    assert done.code == 0, done.err
    assert sum(trial.attempts for trial in project.trials()) == 4
    first = project.trials()
    assert replay("run", "--new", ".", "--set", "run.replay_model=latest").code == 0
    assert told(project.trials()) == told(first)


def test_a_model_that_cannot_be_reached_is_said(
    replay: Replay, project: Project, stand_in: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    replay("run", "--new", ".", "--set", "run.record=true", "--set", "run.retries=0")
    assert {trial.status for trial in project.trials()} == {Status.INFRA_ERROR}
    assert all("cannot be reached" in call["error"] for call in calls(project))


def test_an_agent_past_the_gateway_is_said(replay: Replay, project: Project, stand_in: Models) -> None:
    project.write("v1", "def run_agent(text): return text\n")
    done = replay("run", "--new", ".", "--set", "run.record=true")
    assert "note: lane new (.) sent no request through the gateway" in done.err


def test_what_was_recorded_survives_kill_9(project: Project, stand_in: Models) -> None:
    project.write(
        "v1", LOOPING.replace("turns = [", "open(os.environ['CALLS'], 'a').write('x\\n'); turns = [", 1)
    )
    process = project.start(
        "run", "--new", ".", "--set", "run.record=true", "--trials", "4", "--concurrency", "1"
    )
    project.wait_for_calls(6)
    process.kill()
    process.communicate()
    assert project.replay("run", "--resume").code == 0
    trials = project.trials()
    assert len(trials) == 12
    keys = [(call["item_id"], call["trial"], call["index"]) for call in calls(project)]
    assert keys == sorted((trial.item_id, trial.index, index) for trial in trials for index in (0, 1))
