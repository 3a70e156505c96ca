"""Grade whether a trial made the expected tool calls.

A case that expects calls is compared with them, by the case's own rules (`match`). A sampled trace has no
expectation and is compared with what production did: its recorded calls, by the rules of `[match]`, in any
order where the trace does not show it (`ORDER_UNKNOWN`). Arguments
named in `ignore_args` of `[agent]` or `[tools.NAME]` never count. `match` of `[tools.NAME]` sets how a tool's
arguments are compared where neither the case nor `[match]` does.

A trial that diverged was stopped at a call the tape could not answer. It is graded on its calls up to and
with that one: where no continuation could match any more it failed; otherwise the grade abstains.

`diff.graders.matching` describes what matching means. The score is 1 or 0; `detail["partial"]` is the partial
credit. In a conversation `detail["turns"]` is the score of each of the user's turns by its own calls, where
the expected calls are the recorded ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replaydiff.diff.graders import quality
from replaydiff.diff.graders.arguments import ANY, ArgumentRules, canonical, merge_rules
from replaydiff.diff.graders.base import Grader, abstained, scored
from replaydiff.diff.graders.matching import can_still_match, match
from replaydiff.replay.model import (
    ORDER_UNKNOWN,
    ExpectedCall,
    Grade,
    Item,
    Match,
    Status,
    ToolCall,
    ToolMatch,
    Trial,
)
from replaydiff.replay.settings import Settings
from replaydiff.replay.turns import calls_by_turn

NAME, VERSION = "tool_calls", "2"
TOOLS_NAME, TOOLS_VERSION = "expected_tools", "1"


def applies(item: Item, settings: Settings) -> bool:  # noqa: ARG001
    """Return whether to grade an item: a sampled trace always, a case if it expects calls."""
    return item.expectation is None or item.expectation.tool_calls is not None


def grade(item: Item, trial: Trial, settings: Settings) -> Grade | None:
    """Compare a trial's calls with the expectation or the recording; None for an errored trial."""
    if trial.status.is_error or not applies(item, settings):
        return None
    expected, rules = _expected(item, settings)
    actual = [served.call for served in trial.served]
    ignored = _ignored_by_tool(settings)
    if trial.status is Status.DIVERGED and can_still_match(expected, actual, rules, ignored, settings.root):
        return abstained(
            trial, NAME, VERSION, f"stopped before it could be decided: {trial.reason or 'diverged'}"
        )
    matched = match(expected, actual, rules, ignored, settings.root)
    by_turn = {
        number: match(expected_calls, calls, rules, ignored, settings.root).passed
        for number, expected_calls, calls in calls_by_turn(item, trial, expected)
    }
    failed_turns = [str(number) for number, passed in by_turn.items() if not passed]
    where = f" (user's turn {', '.join(failed_turns)})" if matched.reason and failed_turns else ""
    return scored(
        trial,
        NAME,
        VERSION,
        float(matched.passed),
        reason=f"{matched.reason}{where}" if matched.reason else None,
        detail={
            "partial": matched.partial,
            **(
                {"turns": {str(number): float(passed) for number, passed in by_turn.items()}}
                if by_turn
                else {}
            ),
        },
    )


def written_out(trial: Trial) -> str:
    """Return a trial's calls as one text: equal texts are equal calls."""
    return "\n".join(f"{served.call.name} {canonical(served.call.args)}" for served in trial.served)


def same_calls(item: Item, first: Trial, second: Trial, settings: Settings) -> bool:
    """Return whether two trials of an item made the same calls, by the rules for its recording."""
    _, rules = _expected(item, settings)
    calls_of_trials = [[served.call for served in trial.served] for trial in (first, second)]
    return match(
        calls_of_trials[0], calls_of_trials[1], rules, _ignored_by_tool(settings), settings.root
    ).passed


def _expected(item: Item, settings: Settings) -> tuple[Sequence[ExpectedCall | ToolCall], Match]:
    never = settings.agent.ignore_args
    if item.expectation is not None and item.expectation.tool_calls is not None:
        item_match = item.expectation.match
        rules = Match(
            mode=item_match.mode,
            args=item_match.args,
            only_tools=item_match.only_tools,
            ignore_tools=item_match.ignore_tools,
            ignore_args=(*item_match.ignore_args, *never),
            tools=_tools(item_match.tools, settings),
        )
        return item.expectation.tool_calls, rules
    run_match = settings.match
    rules = Match(
        mode=unordered(run_match.mode) if ORDER_UNKNOWN in item.metadata else run_match.mode,
        args=run_match.args,
        only_tools=run_match.only_tools,
        ignore_tools=run_match.ignore_tools,
        ignore_args=never,
        tools=_tools(run_match.tools, settings),
    )
    return item.tape, rules


def unordered(mode: str) -> str:
    """Return the mode of matching that compares the same calls whatever their order."""
    return {"strict": "unordered", "in_order": "superset"}.get(mode, mode)


def match_rules(item: Item, settings: Settings) -> Match:
    """Return the rules by which an item's calls are compared: those of its case, else of `[match]`."""
    return _expected(item, settings)[1]


def _tools(rules: Mapping[str, str | ToolMatch], settings: Settings) -> dict[str, str | ToolMatch]:
    """Return the rules of single tools, with `[tools.NAME]` as fallback."""
    tools = dict(rules)
    for name, tool in settings.tools.items():
        if (merged := merge_rules(tools.get(name), tool.match)) is not None:
            tools[name] = merged
    return tools


def ignores(tool: str, argument: str, settings: Settings) -> bool:
    """Return whether a tool's argument never counts against a recording, whatever its value."""
    if argument in settings.agent.ignore_args or argument in _ignored_by_tool(settings).get(tool, ()):
        return True
    merged = _merged(tool, settings)
    return (merged.args or settings.match.args) == "ignore" or merged.paths.get(argument) == "ignore"


def argument_rules(tool: str, settings: Settings) -> ArgumentRules | None:
    """Return how two calls of a tool are compared argument by argument; None where arguments never count."""
    merged = _merged(tool, settings)
    if (merged.args or settings.match.args) == "ignore":
        return None
    ignored = (*settings.agent.ignore_args, *_ignored_by_tool(settings).get(tool, ()))
    return ArgumentRules(merged, "exact", ignored, settings.root)


def _merged(tool: str, settings: Settings) -> ToolMatch:
    """Return the rules of a tool, those for every tool included."""
    rules = _tools(settings.match.tools, settings)
    return merge_rules(rules.get(tool), rules.get(ANY)) or ToolMatch()


def _ignored_by_tool(settings: Settings) -> Mapping[str, Sequence[str]]:
    return {name: tool.ignore_args for name, tool in settings.tools.items() if tool.ignore_args}


def _names_expected(item: Item, settings: Settings) -> bool:
    """Return whether a case names tools whose calls decide it; graded quality may accept a share of them."""
    named = item.expectation is not None and item.expectation.tools is not None
    return named and not quality.applies(item, settings)


def _grade_names(item: Item, trial: Trial, settings: Settings) -> Grade | None:  # noqa: ARG001
    """Return whether every tool a case names was called, in any order, others allowed."""
    if trial.status.is_error or item.expectation is None or item.expectation.tools is None:
        return None
    named_tools = dict.fromkeys(item.expectation.tools)
    called = {served.call.name for served in trial.served}
    missing = [name for name in named_tools if name not in called]
    if missing and trial.status is Status.DIVERGED:
        return abstained(trial, TOOLS_NAME, TOOLS_VERSION, f"stopped before it called {', '.join(missing)}")
    partial = 1 - len(missing) / len(named_tools) if named_tools else 1.0
    reason = f"never called {', '.join(missing)}" if missing else None
    return scored(
        trial, TOOLS_NAME, TOOLS_VERSION, float(not missing), reason=reason, detail={"partial": partial}
    )


GRADER = Grader(name=NAME, version=VERSION, applies=applies, grade=grade)
EXPECTED_TOOLS = Grader(name=TOOLS_NAME, version=TOOLS_VERSION, applies=_names_expected, grade=_grade_names)
