"""A recorded tool that may write and is not asked for, while its item's other tools are."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from replaydiff.replay.agents import Outcome
from replaydiff.replay.clock import utc_now
from replaydiff.replay.engine.probe import TRIALS, UnaskedTools
from replaydiff.replay.model import Item, Lane, Rule, ServedCall, Status, ToolCall, Version, VersionKind

LOOKUP, CANCEL = (ToolCall(name=name, args={"order_id": "7"}, result="done") for name in ("lookup", "cancel"))
ITEM = Item(id="7", input="7", tape=(LOOKUP, CANCEL))
CODE = Version(name="v1", kind=VersionKind.PYTHON, tools=("app:TOOLS",))
OTHER_CODE = Version(name="v2", kind=VersionKind.PYTHON, tools=("app:TOOLS",))


def outcome(*calls: ToolCall, status: Status = Status.OK, rule: Rule = Rule.TAPE) -> Outcome:
    served = tuple(ServedCall(call=call, rule=rule) for call in calls)
    return Outcome(status=status, started_at=utc_now(), served=served)


def unasked(
    *names: str, harmless: Collection[str] = (), lanes: Collection[Lane] = (Lane.NEW,)
) -> UnaskedTools:
    versions = {lane: CODE if lane is Lane.OLD else OTHER_CODE for lane in lanes}
    patched = dict.fromkeys(lanes, frozenset(names) if names else None)
    return UnaskedTools(versions, patched, harmless)


def test_a_tool_without_a_patch_point_of_its_name_is_reported_at_the_first_trial() -> None:
    assert unasked("lookup", "stub").add(Lane.NEW, ITEM, outcome(LOOKUP)) == ("cancel", 1)


@pytest.mark.parametrize(
    "trial",
    [
        outcome(LOOKUP, CANCEL),
        outcome(),
        outcome(CANCEL),
        outcome(LOOKUP, status=Status.DIVERGED),
        outcome(LOOKUP, status=Status.AGENT_ERROR),
    ],
    ids=["asked for", "nothing asked for", "it alone", "diverged", "failed"],
)
def test_trials_that_show_nothing_report_nothing(trial: Outcome) -> None:
    assert unasked("lookup").add(Lane.NEW, ITEM, trial) is None


def test_a_call_that_only_the_agent_reports_was_not_asked_for() -> None:
    trial = outcome(LOOKUP)
    reported = ServedCall(call=CANCEL, rule=Rule.LIVE)
    trial = Outcome(status=Status.OK, started_at=trial.started_at, served=(*trial.served, reported))
    assert unasked("lookup").add(Lane.NEW, ITEM, trial) == ("cancel", 1)


def test_a_tool_that_reads_may_run_or_was_removed_need_not_be_asked_for() -> None:
    assert unasked("lookup", harmless={"cancel"}).add(Lane.NEW, ITEM, outcome(LOOKUP)) is None


def test_a_new_version_may_call_a_patched_tool_no_more() -> None:
    tools = unasked("lookup", "cancel")
    assert [tools.add(Lane.NEW, ITEM, outcome(LOOKUP)) for _ in range(2 * TRIALS)] == [None] * 2 * TRIALS


def test_behind_a_dispatcher_some_version_must_ask_for_it() -> None:
    tools = unasked()
    reports = [tools.add(Lane.NEW, ITEM, outcome(LOOKUP)) for _ in range(TRIALS)]
    assert reports == [None] * (TRIALS - 1) + [("cancel", TRIALS)]
    tools = unasked(lanes=(Lane.OLD, Lane.NEW))
    assert tools.add(Lane.OLD, ITEM, outcome(LOOKUP, CANCEL)) is None
    assert [tools.add(Lane.NEW, ITEM, outcome(LOOKUP)) for _ in range(2 * TRIALS)] == [None] * 2 * TRIALS


def test_the_old_version_must_ask_for_it_in_one_of_its_first_trials() -> None:
    tools = unasked("lookup", "cancel", lanes=(Lane.OLD, Lane.NEW))
    reports = [tools.add(Lane.OLD, ITEM, outcome(LOOKUP)) for _ in range(TRIALS)]
    assert reports == [None] * (TRIALS - 1) + [("cancel", TRIALS)]
    tools = unasked("lookup", "cancel", lanes=(Lane.OLD, Lane.NEW))
    assert tools.add(Lane.OLD, ITEM, outcome(LOOKUP, CANCEL)) is None
    assert [tools.add(Lane.OLD, ITEM, outcome(LOOKUP)) for _ in range(TRIALS)] == [None] * TRIALS
