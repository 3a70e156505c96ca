"""Every case of a golden set as a test: `pytest --golden cases/golden.jsonl --agent candidate`.

Each case is replayed against one version with its tools answered from its tape, as `replay check` does it,
and compared with everything it expects that costs nothing to grade; what needs a judge is left out, and
`replay check` grades it. Works with `-k` (ids of cases), `-m` (tags are markers) and xdist, where each worker
starts its own agent. All trials of a case must pass, or the share that its `threshold` names; a case in
quarantine is expected to fail, and fails nothing.

Nothing is stored, and nothing of replaydiff is imported unless `--golden` is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from replaydiff.replay.api.checking import StartedVersion
    from replaydiff.replay.model import Case


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--golden`, `--agent`, `--golden-trials`."""
    group = parser.getgroup("replaydiff", "cases of a golden set as tests")
    group.addoption("--golden", metavar="FILE", help="The golden set; each of its cases is a test.")
    group.addoption("--agent", metavar="VERSION", default=".", help="The version to test; default `.`.")
    group.addoption(
        "--golden-trials",
        metavar="K",
        type=int,
        default=1,
        help="Trials per case; all must pass, or the share of its threshold. Default 1.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the golden set; it alone where no other tests were named."""
    golden = config.getoption("golden")
    if golden is None:
        return
    path = Path(config.invocation_params.dir, golden)
    if not path.is_file():
        raise pytest.UsageError(f"there is no golden set {golden}; name a file with --golden")
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        config.args.append(str(path))
    else:
        config.args[:] = [str(path)]
    for tag in _tags(path):
        config.addinivalue_line("markers", f"{tag}: cases with this tag")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the golden set that was named, and no other file."""
    golden = parent.config.getoption("golden")
    if golden is None or file_path != Path(parent.config.invocation_params.dir, golden).absolute():
        return None
    collected: GoldenFile = GoldenFile.from_parent(parent, path=file_path)
    return collected


class GoldenFile(pytest.File):
    """A golden set: one test for each of its cases, and the agent that all of them share."""

    _version: StartedVersion | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each case.

        Raises:
            CollectError: the file cannot be read; names the line.
        """
        from replaydiff.replay.api.checking import read_cases
        from replaydiff.replay.errors import ReplayError

        try:
            cases = read_cases(self.path)
        except ReplayError as error:
            raise self.CollectError(str(error)) from None
        for single in cases:
            test: CaseTest = CaseTest.from_parent(self, name=single.case.id)
            test.case = single.case
            for tag in single.case.tags:
                test.add_marker(_marker(tag))
            if single.quarantine is not None:
                why = f": {single.quarantine}" if single.quarantine else ""
                test.add_marker(pytest.mark.xfail(reason=f"in quarantine{why}", strict=False))
            yield test

    def version(self) -> StartedVersion:
        """Return the agent's version, started at the first use."""
        if self._version is None:
            from replaydiff.replay.api.project import open as open_project

            project = open_project(self.config.invocation_params.dir)
            trials = self.config.getoption("golden_trials")
            self._version = project.start_version(self.config.getoption("agent"), trials=trials)
            terminal: Any = self.config.pluginmanager.get_plugin("terminalreporter")
            for note in self._version.notes:
                if terminal is not None and note.startswith(("warning:", "boundary:")):
                    terminal.ensure_newline()
                    terminal.write_line(note)
        return self._version

    def teardown(self) -> None:
        """End the agent."""
        if self._version is not None:
            self._version.close()


class CaseFailure(Exception):  # noqa: N818 - a finding about the agent, shown without a traceback
    """A case that did not pass; its text is the report."""


class CaseTest(pytest.Item):
    """One case."""

    case: Case

    def runtest(self) -> None:
        """Replay the case and compare what the agent did with what it expects.

        Raises:
            CaseFailure: a trial did not pass; where the case has a threshold, too many did not.
        """
        assert isinstance(self.parent, GoldenFile)  # noqa: S101 - only a golden set collects cases
        failure = self.parent.version().failure_of(self.case)
        if failure is not None:
            raise CaseFailure(failure)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the report of a failed case; for an error of replaydiff its one sentence."""
        from replaydiff.replay.errors import ReplayError

        if isinstance(excinfo.value, CaseFailure | ReplayError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return where the case is defined."""
        return self.path, None, f"case {self.name}"


def _tags(path: Path) -> set[str]:
    from replaydiff.replay.api.checking import read_cases
    from replaydiff.replay.errors import ReplayError

    try:
        return {_marker(tag) for single in read_cases(path) for tag in single.case.tags}
    except ReplayError:
        # Collecting reports what is wrong with the file.
        return set()


def _marker(tag: str) -> str:
    """Return a tag as a marker's name: `happy-path` is `happy_path`."""
    return re.sub(r"\W+", "_", tag) or "tag"
