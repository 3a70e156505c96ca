"""A version that can never run says so once, before any trial, in one sentence."""

import asyncio
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.agents import Rules, build, worker
from replaydiff.replay.errors import VersionError
from replaydiff.replay.model import Version, VersionKind
from tests.agents.running import AGENTS, agent

GOOD = """
def execute_tool(name, args): ...
def run_agent(user_message, model="small"): return user_message
class Needy:
    def __init__(self, client): self.client = client
    def run(self, text): return text
class Bare:
    size = 1
number = 3
"""


def refusal(entrypoint: str, folder: Path, **options: Any) -> str:
    """The sentence with which a version is refused."""

    async def start() -> None:
        running = agent(entrypoint, folder=folder, **options)
        try:
            await running.start()
        finally:
            await running.close()

    with pytest.raises(VersionError) as caught:
        asyncio.run(start())
    sentence = str(caught.value)
    assert "\n" not in sentence
    prefix = "version 'candidate' does not start: "
    assert sentence.startswith(prefix)
    return sentence.removeprefix(prefix)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "agent.py").write_text(GOOD)
    (tmp_path / "broken.py").write_text("x = 1\nfrom app import nothing_here\n")
    (tmp_path / "needs.py").write_text("import a_package_nobody_has\n")
    (tmp_path / "bad_syntax.py").write_text("def f(:\n")
    (tmp_path / "exiting.py").write_text("import sys\nsys.exit('no key')\n")
    (tmp_path / "dying.py").write_text("import os\nprint('cannot go on')\nos._exit(9)\n")
    return tmp_path


@pytest.mark.parametrize(
    ("entrypoint", "sentence"),
    [
        (
            "nowhere:run",
            "the entrypoint's module 'nowhere' is not in {folder}; check `entrypoint` and `path`",
        ),
        (
            "app.nowhere:run",
            "the entrypoint's module 'app.nowhere' is not in {folder}; check `entrypoint` and `path`",
        ),
        (
            "needs:run",
            "the entrypoint's module 'needs' does not import: ModuleNotFoundError: No module named "
            "'a_package_nobody_has' (needs.py:1); a_package_nobody_has is not installed for {python}",
        ),
        (
            "broken:run",
            "the entrypoint's module 'broken' does not import: ImportError: cannot import name "
            "'nothing_here' from 'app' (unknown location) (broken.py:2)",
        ),
        (
            "bad_syntax:run",
            "the entrypoint's module 'bad_syntax' does not import: SyntaxError: invalid syntax "
            "(bad_syntax.py, line 1) (bad_syntax.py:1)",
        ),
        ("exiting:run", "importing 'exiting' calls sys.exit('no key') (exiting.py:2)"),
        ("dying:run", "{python} ended while importing the agent, exit code 9: cannot go on"),
        ("app.agent", "the entrypoint 'app.agent' must be written `module:attr`"),
        ("app.agent:run_agnt", "app.agent has no 'run_agnt'; did you mean 'run_agent'?"),
        ("app.agent:run_agent.step", "app.agent.run_agent has no 'step'; it has nothing"),
        (
            "app.agent:number",
            "app.agent.number is an int (3) and cannot be called; an agent is a function, or an object with "
            "run, solve, answer, chat, invoke, ainvoke or __call__",
        ),
        (
            "app.agent:Needy",
            "app.agent.Needy() does not give an agent: TypeError: Needy.__init__() missing 1 required "
            "positional argument: 'client'",
        ),
        (
            "app.agent:execute_tool",
            "app.agent.execute_tool() also needs args; give them as args of the version, or name an "
            "entrypoint that needs the user's message alone",
        ),
    ],
)
def test_an_entrypoint_that_cannot_be_used(entrypoint: str, sentence: str, folder: Path) -> None:
    expected = sentence.format(folder=folder, python=sys.executable)
    assert refusal(entrypoint, folder) == expected


@pytest.mark.parametrize(
    ("point", "sentence"),
    [
        ("app.agent:exec_tool", "app.agent has no 'exec_tool'; did you mean 'execute_tool'?"),
        ("app.agent:zzz", "app.agent has no 'zzz'; it has Bare, Needy, execute_tool, number, run_agent"),
        (
            "app.tools:_exec",
            "the patch point's module 'app.tools' is not in {folder}; check `tools` and `path`",
        ),
        (
            "app.agent",
            "the patch point 'app.agent' must be written `module:attr`, or be a framework: langchain, openai-agents, "
            "pydantic-ai, mcp, crewai, llama-index, google-adk, strands, smolagents, autogen, "
            "claude-agent-sdk; check "
            "`tools`",
        ),
        (
            "app.agent:number",
            "the patch point app.agent:number is an int (3); it must be a function, a method, a class or "
            "object that is called as a tool, or a table of them",
        ),
        (
            "app.agent:Bare",
            "the patch point app.agent:Bare is the class Bare; it must be a function, a method, a class or "
            "object that is called as a tool, or a table of them",
        ),
    ],
)
def test_a_patch_point_that_cannot_be_used(point: str, sentence: str, folder: Path) -> None:
    assert refusal("app.agent:run_agent", folder, tools=(point,)) == sentence.format(folder=folder)


def test_arguments_the_entrypoint_does_not_take(folder: Path) -> None:
    said = refusal("app.agent:run_agent", folder, args={"modle": "x"})
    assert said == "app.agent.run_agent() takes no argument 'modle'; it takes user_message, model"


def test_an_interpreter_that_is_not_there(folder: Path) -> None:
    missing = folder / "venv" / "bin" / "python"
    said = refusal("app.agent:run_agent", folder, python=str(missing))
    assert said == f"its interpreter {missing} cannot be started: No such file or directory; check `python`"


def test_an_interpreter_that_is_none(folder: Path) -> None:
    script = folder / "python"
    script.write_text("#!/bin/sh\necho 'I am no Python' >&2\nexit 4\n")
    script.chmod(0o755)
    said = refusal("app.agent:run_agent", folder, python=str(script))
    assert said == f"{script} ended while importing the agent, exit code 4: I am no Python"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    said = refusal("app.agent:run_agent", tmp_path / "gone")
    assert said == f"its folder {tmp_path / 'gone'} cannot be used: No such file or directory; check `path`"


def test_an_import_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "START_TIMEOUT_S", 0.5)
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")
    said = refusal("slow:run", tmp_path)
    assert (
        said
        == "importing slow:run took more than 0.5 seconds; a module must not start work when it is imported"
    )


def test_a_version_of_another_kind_is_not_built() -> None:
    observed = Version(name="observed", kind=VersionKind.OBSERVED)
    with pytest.raises(VersionError, match="nothing is run for it"):
        build(observed, Rules(timeout_s=1))


def test_a_started_agent_describes_its_interpreter() -> None:
    async def describe() -> dict[str, str]:
        running = agent("shop:run_agent", folder=AGENTS)
        await running.start()
        await running.close()
        await running.close()
        return running.describe()

    packages = asyncio.run(describe())
    assert packages["python"] == ".".join(map(str, sys.version_info[:3]))
    assert packages["anthropic"].split(".")[0] == "2"


def test_the_versions_of_packages_are_found_in_every_form_of_installation(tmp_path: Path) -> None:
    for name, version in (("openai", "1.2.3"), ("langchain_core", "0.3.1+cpu"), ("other", "1")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (tmp_path / "groq-0.4-py3.11.egg-info").write_text("Metadata-Version: 1.1\nName: groq\nVersion: 0.4\n")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr(
            "cohere-5.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: cohere\nVersion: 5.0\n"
        )

    async def describe() -> dict[str, str]:
        path = f"{tmp_path}:{tmp_path / 'packed.zip'}"
        running = agent("shop:run_agent", folder=AGENTS, env={"PYTHONPATH": path})
        await running.start()
        await running.close()
        return running.describe()

    found = asyncio.run(describe())
    assert (found["openai"], found["langchain-core"], found["groq"], found["cohere"]) == (
        "1.2.3", "0.3.1+cpu", "0.4", "5.0"
    )  # fmt: skip
    assert "other" not in found
