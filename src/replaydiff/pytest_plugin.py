"""Every case of a golden set as a test: `pytest --golden cases/golden.jsonl --agent candidate`.

Each case is replayed against one version with its tools answered from its tape, as `replay check` does it,
and held against everything it expects that costs nothing to know. Traits and other things that only a judge
can tell are not looked at: `replay check` asks it. Works with `-k` (ids of cases), `-m` (tags are markers)
and xdist, where each worker starts its own agent. All trials of a case must pass, or the share that its
`threshold` says; a case in quarantine is expected to fail, and fails nothing.

Nothing is stored, and nothing heavy is imported unless `--golden` is given.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from replaydiff.replay.agents import Agent
    from replaydiff.replay.model import Case, Item, Trial
    from replaydiff.replay.settings import Settings

T = TypeVar("T")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--golden`, `--agent`, `--golden-trials`."""
    group = parser.getgroup("replaydiff", "cases of a golden set as tests")
    group.addoption("--golden", metavar="FILE", help="The golden set; each of its cases is a test.")
    group.addoption("--agent", metavar="VERSION", default=".", help="The version to test; default `.`.")
    group.addoption(
        "--golden-trials",
        metavar="K",
        type=int,
        default=1,
        help="Trials a case; all must pass, or the share of its threshold. Default 1.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the golden set: alone, where no other tests were named."""
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
    """The golden set that was named, and no other file."""
    golden = parent.config.getoption("golden")
    if golden is None or file_path != Path(parent.config.invocation_params.dir, golden).absolute():
        return None
    collected: GoldenSet = GoldenSet.from_parent(parent, path=file_path)
    return collected


class GoldenSet(pytest.File):
    """A golden set: one test for each of its cases, and the agent that all of them share."""

    _stage: Stage | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """One test a case.

        Raises:
            CollectError: the file cannot be read; names the line.
        """
        from replaydiff.diff.expectations import is_quarantined
        from replaydiff.replay.errors import ReplayError
        from replaydiff.replay.golden import item_of, read_golden

        try:
            cases = read_golden(self.path)
        except ReplayError as error:
            raise self.CollectError(str(error)) from None
        for case in cases:
            test: CaseTest = CaseTest.from_parent(self, name=case.id)
            test.case = case
            for tag in case.tags:
                test.add_marker(_marker(tag))
            if is_quarantined(item_of(case)):
                said = case.provenance.quarantine
                why = f": {said.reason}" if said is not None and said.reason else ""
                test.add_marker(pytest.mark.xfail(reason=f"in quarantine{why}", strict=False))
            yield test

    def stage(self) -> Stage:
        """The agent, started when the first case asks for it."""
        if self._stage is None:
            self._stage = Stage(self.config)
        return self._stage

    def teardown(self) -> None:
        """End the agent."""
        if self._stage is not None:
            self._stage.close()


class Stage:
    """One version of the agent, running on a loop of its own."""

    def __init__(self, config: pytest.Config) -> None:
        from replaydiff.replay import settings as settings_module
        from replaydiff.replay.commands.replaying import Asked, choose_lanes
        from replaydiff.replay.engine.starting import crew_of, rules_of, start_crew
        from replaydiff.replay.model import Lane, Run
        from replaydiff.replay.store.clock import utc_now

        asked = Asked(new=(config.getoption("agent"),))
        self.settings: Settings = asked.settings(settings_module.load())
        self.trials: int = config.getoption("golden_trials")
        lanes = choose_lanes(asked, self.settings)
        run = Run(id="pytest", created_at=utc_now(), lanes=lanes, trials=self.trials, seed=0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._crew = crew_of(run, self.settings, rules_of(self.settings))
        self._agent: Agent = self._crew.agents[Lane.NEW]
        self._version = lanes[Lane.NEW]
        try:
            self._call(start_crew(self._crew))
        except BaseException:
            self.close()
            raise

    def trial(self, item: Item, index: int) -> Trial:
        """One trial of an item."""
        from replaydiff.replay.engine.conversation import converse
        from replaydiff.replay.engine.costs import cost_of
        from replaydiff.replay.model import Lane

        outcome = self._call(converse(self._agent, item, index))
        cost = cost_of(self._version, outcome, self.settings.prices)
        return outcome.trial("pytest", item.id, Lane.NEW, index, cost_usd=cost)

    def close(self) -> None:
        """End the agent and its loop."""
        self._call(self._crew.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class CaseFailure(Exception):  # noqa: N818 - a finding about the agent, told without a traceback
    """A case that did not pass; its text is the report."""


class CaseTest(pytest.Item):
    """One case."""

    case: Case

    def runtest(self) -> None:
        """Replay the case and hold what the agent did against what it expects.

        Raises:
            CaseFailure: a trial did not pass; where the case has a threshold, too many did not.
        """
        from replaydiff.diff.expectations import threshold_of
        from replaydiff.diff.graders.registry import free_grades
        from replaydiff.replay.golden import item_of
        from replaydiff.replay.model import Status

        assert isinstance(self.parent, GoldenSet)  # noqa: S101 - who collected it
        stage = self.parent.stage()
        item = item_of(self.case)
        failures: list[str] = []
        for index in range(stage.trials):
            trial = stage.trial(item, index)
            wrong = [] if trial.status is Status.OK else [f"{trial.status.value}: {trial.reason}"]
            for name, grade in free_grades(item, trial, stage.settings).items():
                if grade.passed is not True:
                    wrong.append(f"{name}: {grade.reason or grade.state.value}")
            if wrong:
                failures.append(_report(self.case, trial, wrong, stage.trials))
        share = threshold_of(item, stage.settings.cases.case_threshold)
        must = 1.0 if share is None else share
        passed = stage.trials - len(failures)
        if passed < must * stage.trials - 1e-9:
            told = (
                f"{passed} of {stage.trials} trials passed, and {must:.0%} must\n"
                if share is not None
                else ""
            )
            raise CaseFailure(told + failures[0])

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What was asked, expected and done; for an error of ours its one sentence."""
        from replaydiff.replay.errors import ReplayError

        if isinstance(excinfo.value, CaseFailure | ReplayError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where the case stands."""
        return self.path, None, f"case {self.name}"


def _report(case: Case, trial: Trial, wrong: list[str], trials: int) -> str:
    from replaydiff.replay.tape import show_call
    from replaydiff.replay.terminal.plain import one_line, visible

    expected = case.expectation.tool_calls
    calls = [show_call(one.call.name, one.call.args) for one in trial.served]
    lines = [*wrong, f"input:    {one_line(case.input, 200)}"]
    if expected is not None:
        shown = [call.name if call.args is None else show_call(call.name, call.args) for call in expected]
        lines.append(f"expected: {', '.join(shown) or 'no call'}")
    lines.append(f"made:     {', '.join(calls) or 'no call'}")
    if trial.final_response is not None:
        lines.append(f"answer:   {one_line(trial.final_response, 200)}")
    if trials > 1:
        lines.append(f"trial:    {trial.index + 1} of {trials}")
    if trial.stderr:
        lines.append(f"printed:  {trial.stderr}")
    return visible("\n".join(lines))


def _tags(path: Path) -> set[str]:
    from replaydiff.replay.errors import ReplayError
    from replaydiff.replay.golden import read_golden

    try:
        return {_marker(tag) for case in read_golden(path) for tag in case.tags}
    except ReplayError:
        # Collecting says what is wrong with the file.
        return set()


def _marker(tag: str) -> str:
    """A tag as a marker's name: `happy-path` is `happy_path`."""
    return re.sub(r"\W+", "_", tag) or "tag"
