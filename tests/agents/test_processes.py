"""Worker processes: their own interpreter, folder and modules; as many as are wanted; none left over."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import venv
from pathlib import Path

import pytest

from replaydiff.replay.model import Item, Status
from tests.agents.conftest import processes_with
from tests.agents.running import AGENTS, agent, run, run_one
from tests.stand_ins.processes import PATIENCE_S


def write(folder: Path, name: str, source: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(textwrap.dedent(source))


def test_two_versions_of_one_module_never_meet(tmp_path: Path) -> None:
    for which in ("old", "new"):
        write(tmp_path / which, "app/__init__.py", "")
        write(tmp_path / which, "app/words.py", f"word = '{which}'\n")
        write(tmp_path / which, "app/agent.py", "from app.words import word\ndef run(text): return word\n")

    async def both() -> list[str | None]:
        old, new = (agent("app.agent:run", folder=tmp_path / which) for which in ("old", "new"))
        await asyncio.gather(old.start(), new.start())
        outcomes = await asyncio.gather(*(one.run(Item(id="x"), 0) for one in (old, new, old, new)))
        await asyncio.gather(old.close(), new.close())
        return [outcome.final_response for outcome in outcomes]

    assert asyncio.run(both()) == ["old", "new", "old", "new"]


def test_modules_named_like_the_workers_own_are_the_agents(tmp_path: Path) -> None:
    names = ("main", "patch", "shapes", "calls", "answers", "failures", "replies", "holders")
    for name in names:
        write(tmp_path, f"{name}.py", f"word = 'my {name}'\n")
    imports = "\n".join(f"import {name}" for name in names)
    words = ", ".join(f"{name}.word" for name in names)
    write(tmp_path, "agent.py", f"{imports}\ndef run(text): return ' '.join([{words}])\n")
    assert run_one("agent:run", folder=tmp_path).final_response == " ".join(f"my {name}" for name in names)


def test_the_standard_library_is_not_hidden(tmp_path: Path) -> None:
    write(
        tmp_path,
        "agent.py",
        "import http.client, urllib.request\ndef run(text): return http.client.__file__\n",
    )
    answer = run_one("agent:run", folder=tmp_path).final_response
    assert answer is not None
    assert answer.endswith("http/client.py")
    assert "replay" not in Path(answer).parts


def test_nothing_of_ours_is_imported(tmp_path: Path) -> None:
    source = """
        import sys
        def run(text):
            ours = ("replay", "importers", "diff", "cases", "reports", "msgspec", "duckdb")
            return repr([name for name in sys.modules if name.split(".")[0] in ours])
    """
    write(tmp_path, "agent.py", source)
    assert run_one("agent:run", folder=tmp_path).final_response == "[]"


def test_another_interpreter_runs_the_agent(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    write(tmp_path, "agent.py", "import sys\ndef run(text): return sys.prefix\n")

    async def start() -> tuple[dict[str, str], str | None]:
        running = agent("agent:run", folder=tmp_path, python=str(tmp_path / "venv" / "bin" / "python"))
        await running.start()
        outcome = await running.run(Item(id="x"), 0)
        await running.close()
        return running.describe(), outcome.final_response

    packages, prefix = asyncio.run(start())
    assert packages == {"python": ".".join(map(str, sys.version_info[:3]))}
    assert prefix == str(tmp_path / "venv")


def test_the_environment_is_ours_and_the_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import os, json\ndef run(text): return json.dumps([os.environ.get(n) for n in text.split()])\n"
    write(tmp_path, "agent.py", source)
    monkeypatch.setenv("OURS", "1")
    monkeypatch.setenv("BOTH", "ours")
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    ours = ["OURS", "BOTH", "THEIRS", "LANGSMITH_TRACING"]
    names = " ".join([*ours, "LANGFUSE_TRACING_ENABLED", "ANTHROPIC_OPEN_TELEMETRY", "OTEL_SDK_DISABLED"])
    outcome = run_one(
        "agent:run",
        names,
        folder=tmp_path,
        env={"BOTH": "theirs", "THEIRS": "2", "OTEL_SDK_DISABLED": "false"},
    )
    assert json.loads(outcome.final_response or "") == ["1", "theirs", "2", "true", "false", "false", "false"]


def test_standard_input_is_empty_and_output_is_the_agents(tmp_path: Path) -> None:
    source = """
        import os, sys
        def run(text):
            print('{"trial": 0, "ms": 1, "answer": {"text": "forged"}}')
            os.system("echo from a child")
            return repr(sys.stdin.read())
    """
    write(tmp_path, "agent.py", source)
    assert run_one("agent:run", folder=tmp_path).final_response == "''"


def test_slow_trials_get_a_process_each_and_fast_ones_share(tmp_path: Path) -> None:
    source = """
        import os, pathlib, time
        def run(text):
            pathlib.Path(f"here-{os.getpid()}").touch()
            while len(list(pathlib.Path().glob("here-*"))) < 4:
                time.sleep(0.05)
            return str(os.getpid())
    """
    write(tmp_path, "waits.py", source)
    slow = run("waits:run", *["x"] * 4, folder=tmp_path, concurrency=4, timeout_s=120.0)
    assert len({outcome.final_response for outcome in slow}) == 4
    fast = run("misbehaving:sleeps", *["0"] * 20, concurrency=20)
    assert len({outcome.final_response for outcome in fast}) <= 4


def test_cancelling_a_trial_ends_its_work() -> None:
    async def cancel_one() -> Status:
        running = agent("misbehaving:sleeps", concurrency=1)
        await running.start()
        trial = asyncio.create_task(running.run(Item(id="x", input="60"), 0))
        await asyncio.sleep(0.2)
        trial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trial
        outcome = await running.run(Item(id="x", input="0"), 0)
        await running.close()
        return outcome.status

    began = time.monotonic()
    assert asyncio.run(cancel_one()) is Status.OK
    assert time.monotonic() - began < 50


@pytest.mark.parametrize("entrypoint", ["sleeps", "sleeps_async"])
def test_closing_ends_what_runs(entrypoint: str) -> None:
    async def close_early() -> list[Status]:
        running = agent(f"misbehaving:{entrypoint}", concurrency=2)
        await running.start()
        trials = [asyncio.create_task(running.run(Item(id="x", input="60"), 0)) for _ in range(3)]
        await asyncio.sleep(0.3)
        await running.close()
        outcomes = [*await asyncio.gather(*trials), await running.run(Item(id="x", input="0"), 0)]
        return [outcome.status for outcome in outcomes]

    began = time.monotonic()
    assert asyncio.run(close_early()) == [Status.CANCELLED] * 4
    assert time.monotonic() - began < 50


def test_an_interrupted_program_leaves_nothing_behind() -> None:
    async def interrupted() -> None:
        running = agent("misbehaving:sleeps", concurrency=2)
        await running.start()
        trial = asyncio.create_task(running.run(Item(id="x", input="60"), 0))
        await asyncio.sleep(0.2)
        trial.cancel()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(interrupted())


def test_workers_die_with_the_program_that_was_killed(tmp_path: Path) -> None:
    source = """
        import asyncio
        from replaydiff.replay.model import Item
        from tests.agents.running import agent

        async def main():
            running = agent("misbehaving:leaves_children")
            await running.start()
            trial = asyncio.create_task(running.run(Item(id="x", input="hang"), 0))
            await asyncio.sleep(0.3)
            print("running", flush=True)
            await trial

        asyncio.run(main())
    """
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(source))
    root = AGENTS.parent.parent.parent
    program = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)}
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"running\n"
    program.send_signal(signal.SIGKILL)
    program.wait()
    program.stdout.close()
    token = f"REPLAY_TEST_TOKEN={os.environ['REPLAY_TEST_TOKEN']}"
    deadline = time.monotonic() + PATIENCE_S
    # The child that left session and group with nobody left to look for it is beyond reach.
    while len(left := processes_with(token)) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(left) <= 1
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


STARTS_ONCE = """
import os, pathlib, time

flag = pathlib.Path("started")
if flag.exists():
    raise RuntimeError("only one at a time")
flag.touch()

def run(text):
    if text == "die":
        os._exit(1)
    time.sleep(0.4)
    return text
"""


def test_where_only_one_process_can_start_it_serves_all(tmp_path: Path) -> None:
    write(tmp_path, "agent.py", STARTS_ONCE)
    outcomes = run("agent:run", "a", "b", "c", folder=tmp_path, concurrency=3)
    assert [outcome.final_response for outcome in outcomes] == ["a", "b", "c"]


def test_where_no_process_can_be_started_again_the_trials_say_so(tmp_path: Path) -> None:
    write(tmp_path, "agent.py", STARTS_ONCE)
    first, second = run("agent:run", "die", "b", folder=tmp_path, concurrency=1)
    assert first.status is Status.CRASHED
    assert second.status is Status.INFRA_ERROR
    assert second.reason == (
        "no worker could be started: the entrypoint's module 'agent' does not import: "
        "RuntimeError: only one at a time (agent.py:6)"
    )
