"""A framework that is named and cannot be answered: one sentence, and nothing runs."""

from pathlib import Path

import pytest

from replaydiff.replay.errors import VersionError
from tests.agents.running import run_one


@pytest.mark.parametrize(
    ("tools", "sentence"),
    [
        (("langchain",), r"`tools` names 'langchain', and langchain-core is not installed for .*python"),
        (
            ("lang-chain",),
            r"the patch point 'lang-chain' must be written `module:attr`, or be a framework: lan",
        ),
        (("agent:tool", "langchain"), "langchain-core is not installed"),
    ],
)
def test_a_framework_that_is_not_there_stops_the_start(
    tools: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(
        "open('imported', 'w')\ndef run(text): return text\ndef tool(): pass\n"
    )
    with pytest.raises(VersionError, match=sentence):
        run_one("agent:run", folder=tmp_path, tools=tools)
    assert not (tmp_path / "imported").exists()


def test_another_version_of_a_framework_stops_the_start(tmp_path: Path) -> None:
    core = tmp_path / "langchain_core"
    for module in ("tools/base.py", "language_models/chat_models.py", "__init__.py"):
        (core / module).parent.mkdir(parents=True, exist_ok=True)
        (core / module).write_text("")
    info = tmp_path / "langchain_core-7.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: langchain-core\nVersion: 7.1\n")
    (tmp_path / "agent.py").write_text("def run(text): return text\n")
    with pytest.raises(VersionError, match=r"langchain-core 7\.1 is installed .* replay knows version 1"):
        run_one("agent:run", folder=tmp_path, tools=("langchain",))


def test_a_framework_without_its_call_sites_stops_the_start(tmp_path: Path) -> None:
    core = tmp_path / "langchain_core"
    for module in ("tools/base.py", "language_models/chat_models.py", "__init__.py"):
        (core / module).parent.mkdir(parents=True, exist_ok=True)
        (core / module).write_text("class BaseTool: pass\nclass BaseChatModel: pass\n")
    info = tmp_path / "langchain_core-1.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: langchain-core\nVersion: 1.9\n")
    (tmp_path / "agent.py").write_text("def run(text): return text\n")
    with pytest.raises(VersionError, match="has no call site that replay knows"):
        run_one("agent:run", folder=tmp_path, tools=("langchain",))
