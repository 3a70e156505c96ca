"""What genuine instrumentations write of planned runs comes in exactly as it happened.

`make instrumentations` makes the environments in `.venv-frameworks/` and runs this file; without them it is
skipped. A row is a writer and its mode. What a writer does not record cannot come in: it is listed, and a row
that differs in less than its list says fails, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.messages import decode
from replaydiff.replay.model import Trace
from tests.importers.reading import traces
from tests.instrumentations.model import FINAL, INPUT_TOKENS, OUTPUT_TOKENS
from tests.instrumentations.writers.common import SCENARIOS, TOOLS, prompt

ROOT = Path(__file__).parent.parent.parent
FOLDER = Path(os.environ.get("REPLAYDIFF_FRAMEWORKS", ROOT / ".venv-frameworks"))
WRITERS = Path(__file__).parent / "writers"

MODEL_ERROR = "a call that the model refused"
"""No span of it is written, or none that has its prompt."""
TOOL_ERROR = "that a tool failed"
"""It is only a text that the model is told."""
ANSWER = "what the model answered"
INPUT = "the user's words alone"
"""They are within a prompt of the framework's own."""
TOKENS = "tokens"
"""None, or not those that the provider counted."""

Unrecorded = frozenset[str]
_CLIENTS = [f"{kind}{how}" for kind in ("chat", "responses", "messages") for how in ("", "-stream")]
_UNRECORDED: dict[str, Unrecorded] = {
    "openllmetry_clients": frozenset((TOOL_ERROR,)),
    "openllmetry_clients-messages-stream": frozenset((TOOL_ERROR, MODEL_ERROR, TOKENS)),
    "openai_agents-openllmetry-chat": frozenset((ANSWER, TOKENS)),
    "openai_agents-openllmetry-responses": frozenset((MODEL_ERROR,)),
    "openai_agents-openinference-responses-stream": frozenset((MODEL_ERROR,)),
    "langsmith_runs-messages-stream": frozenset((TOKENS,)),
    "crewai_agents": frozenset((INPUT,)),
}
"""Writer and mode → what it does not record, as far as that is known of its newest version."""


_MODES = {
    "openinference_clients": _CLIENTS,
    "openllmetry_clients": _CLIENTS,
    "langsmith_runs": _CLIENTS,
    "mlflow_autolog": ["chat"],
    "opik_traces": [*_CLIENTS, "langchain"],
    "datadog_spans": [*_CLIENTS, "langchain"],
    "langchain_agents": [
        "openinference-openai",
        "openinference-anthropic-stream",
        "openllmetry-openai",
        "openllmetry-anthropic",
    ],
    "openai_agents": [
        "openinference-chat",
        "openinference-responses-stream",
        "openllmetry-chat",
        "openllmetry-responses",
    ],
    "pydantic_agents": [
        "own-chat",
        "own-responses",
        "own-messages-stream",
        "logfire-responses",
        "logfire-chat-stream",
        "openinference-chat",
        "openinference-messages",
    ],
    "litellm_calls": ["chat", "chat-stream"],
    "smolagents_agents": ["chat"],
    "strands_agents": ["chat"],
    "crewai_agents": ["chat"],
    "vercel_sdk": ["otel", "otel-stream", "legacy"],
}
"""Writer → its modes: library and API, streamed or not."""
_SOURCES = {
    "langsmith_runs": "langsmith",
    "mlflow_autolog": "mlflow",
    "opik_traces": "opik",
    "datadog_spans": "datadog",
}
_ENVIRONMENTS = {
    "mlflow_autolog": "mlflow",
    "opik_traces": "opik",
    "datadog_spans": "datadog",
    "strands_agents": "strands-traces",
    "crewai_agents": "crewai-traces",
    "vercel_sdk": "vercel",
}


def _rows() -> Iterator[tuple[str, str, str, str]]:
    """Environment, writer, mode and importer."""
    for writer, modes in _MODES.items():
        for mode in modes:
            yield _ENVIRONMENTS.get(writer, "instrumentations"), writer, mode, _SOURCES.get(writer, "otlp")


ROWS = list(_rows())


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """The address of a model that does what prompts plan."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.instrumentations.model"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


@pytest.mark.parametrize(
    ("environment", "writer", "mode", "source"), ROWS, ids=[f"{writer}-{mode}" for _, writer, mode, _ in ROWS]
)
def test_what_happened_comes_in(
    environment: str, writer: str, mode: str, source: str, model: str, tmp_path: Path
) -> None:
    found, errors = written(environment, writer, mode, source, model, tmp_path)
    wrong = [(name, kind, text) for name in SCENARIOS for kind, text in differences(name, found)]
    shown = "\n".join(": ".join(one) for one in wrong) + errors[-1000:]
    assert {kind for _, kind, _ in wrong} == unrecorded(writer, mode), shown


def written(
    environment: str, writer: str, mode: str, source: str, model: str, folder: Path
) -> tuple[list[Trace], str]:
    """The traces that a writer makes, and what it printed on stderr."""
    python = FOLDER / environment / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{environment} is not installed: make instrumentations")
    file = folder / "traces.jsonl"
    done = subprocess.run(
        [python, WRITERS / f"{writer}.py", model, file, mode],
        capture_output=True,
        text=True,
        timeout=400,
        cwd=folder,
        env={**os.environ, **_QUIET, "HOME": str(folder)},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return traces(source, file), done.stderr


@pytest.mark.parametrize(
    ("environment", "mode"), [("instrumentations", "openai-agents"), ("strands-traces", "strands")]
)
def test_calls_of_a_sub_agent_are_steps_of_the_tool_that_runs_it(
    environment: str, mode: str, model: str, tmp_path: Path
) -> None:
    (trace,), _ = written(environment, "sub_agents", mode, "otlp", model, tmp_path)
    assert [(call.name, call.args, call.result) for call in trace.tool_calls] == [
        ("ask_expert", {"input": prompt("one")}, "Answer to one.")
    ]
    assert trace.final_response == "Answer to outer."
    assert "get_weather" in {step.name for step in trace.steps}


@pytest.mark.parametrize("mode", ["chat", "responses", "messages"])
def test_an_image_beside_the_text_changes_neither_text_nor_calls(
    mode: str, model: str, tmp_path: Path
) -> None:
    (trace,), _ = written("instrumentations", "images", mode, "otlp", model, tmp_path)
    assert not list(differences("parallel", [trace]))
    assert trace.input == prompt("parallel")


_QUIET = {"DO_NOT_TRACK": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "MLFLOW_DISABLE_TELEMETRY": "true"}
"""Libraries that look for the internet when they start do not, here."""


def unrecorded(writer: str, mode: str) -> Unrecorded:
    """What this writer does not record in this mode."""
    return _UNRECORDED.get(f"{writer}-{mode}", _UNRECORDED.get(writer, frozenset()))


def differences(name: str, found: list[Trace]) -> Iterator[tuple[str, str]]:
    """How the trace of a scenario differs from what happened: of what kind, and a sentence."""
    own = [trace for trace in found if re.search(rf"\b{name}: please help\.", trace.input)]
    plan = SCENARIOS[name]
    if plan is None:
        if not own or own[0].error is None:
            yield MODEL_ERROR, f"traces: {len(own)}, with the error {[trace.error for trace in own]}"
        return
    if len(own) != 1:
        yield "traces", f"{len(own)} of them; inputs: {[trace.input[:60] for trace in found]}"
        return
    (trace,) = own
    if not trace.input.startswith(name):
        yield INPUT, trace.input[:60]
    wanted = [_happened(call, args) for planned in plan for call, args in planned]
    calls = [
        (call.name, call.args, "error" if call.error else decode(call.result))
        for call in trace.tool_calls
        if call.name != FINAL
    ]
    if len(calls) != len(wanted):
        yield "calls", f"{len(calls)} calls instead of {len(wanted)}: {calls}"
    for call, other in zip(calls, wanted, strict=False):
        if call != other:
            is_text = other[2] == "error" and isinstance(call[2], str) and "no such city" in call[2]
            yield TOOL_ERROR if is_text else "calls", f"{call} instead of {other}"
    if trace.final_response != f"Answer to {name}.":
        yield ANSWER, f"{trace.final_response!r}"
    rounds = len(plan) + 1
    tokens = (trace.usage.input_tokens, trace.usage.output_tokens) if trace.usage else None
    if tokens != (rounds * INPUT_TOKENS, rounds * OUTPUT_TOKENS):
        yield TOKENS, f"{tokens} instead of {rounds} times {INPUT_TOKENS}, {OUTPUT_TOKENS}"


def _happened(name: str, args: dict[str, Any]) -> tuple[str, dict[str, Any], Any]:
    try:
        return name, args, TOOLS[name](**args)
    except ValueError:
        return name, args, "error"
