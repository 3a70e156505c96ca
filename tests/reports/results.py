"""Results that every report format must take: the usual ones, the odd ends, hostile text in every field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from replaydiff.diff.result import (
    Answer,
    CaseGroup,
    Counts,
    DiffResult,
    Gate,
    GateCondition,
    GradedTrial,
    ItemMetric,
    ItemVerdict,
    LaneSummary,
    MetricDelta,
    Noise,
    Slice,
    Verdict,
)
from replaydiff.replay.model import (
    Expectation,
    ExpectedCall,
    Grade,
    GradeState,
    Item,
    JsonObject,
    Lane,
    Message,
    Rule,
    RunRecord,
    ServedCall,
    Status,
    ToolCall,
    Trial,
    Version,
    VersionKind,
    Vote,
)

LANES = (Lane.OLD, Lane.NEW, Lane.OLD2)
RUN = "20261120-221305-ab12"

HOSTILE = (
    "<script>document.title='pwned'</script>\"'><img src=x onerror=\"document.title='pwned'\"> "
    "</script><!--<script> ]]> javascript:alert(1) {{7*7}} [a](javascript:alert(1)) @everyone #1 "
    "https://evil.example/ `code` | **bold** \x1b[31mred\x1b]0;title\x07 \r\u202egnp.exe\x00\x9b \ud800 end"
)


def version(name: str, **fields: object) -> JsonObject:
    """A version as a lane summary has it."""
    return {"name": name, "kind": "python", **fields}  # type: ignore[dict-item]


def lane(name: str, trials: int = 150, **changes: object) -> LaneSummary:
    """A lane with plausible figures."""
    fields: dict[str, object] = {
        "version": version(name, commit="a1b2c3d4e5f60718", git="v1.4.0", args={"model": "claude-sonnet-5"}),
        "trials": trials,
        "fidelity": 0.973,
        "statuses": {"ok": trials},
        "cost_usd": 0.4123,
        "latency_p50_ms": 1180.0,
        "latency_p95_ms": 3420.0,
        "input_tokens": 1_240_000,
        "output_tokens": 88_123,
    }
    return LaneSummary(**{**fields, **changes})  # type: ignore[arg-type]


def metric(**changes: object) -> MetricDelta:
    """A metric over the run."""
    fields: dict[str, object] = {
        "old": 0.92,
        "new": 0.85,
        "delta": -0.07,
        "se": 0.03,
        "ci": (-0.15, -0.02),
        "p": 0.031,
        "mde": 0.09,
        "noise": 0.12,
        "bounds": (-0.11, -0.03),
        "sample_delta": -0.07,
        "n": 50,
        "improved": 1,
        "regressed": 4,
        "unchanged": 43,
        "inconclusive": 2,
        "pass_hat_k": {Lane.OLD: {1: 0.92, 3: 0.81}, Lane.NEW: {1: 0.85, 3: 0.7}},
        "gated": True,
    }
    fields["independent"] = fields["covered"] = changes.get("n", fields["n"])
    return MetricDelta(**{**fields, **changes})  # type: ignore[arg-type]


def unscored(**changes: object) -> MetricDelta:
    """A metric without a figure that compares."""
    names = ("old", "new", "delta", "se", "ci", "p", "mde", "noise", "bounds", "sample_delta")
    return metric(**{**dict.fromkeys(names), "pass_hat_k": {}, **changes})


def part(by: str, value: str, **changes: object) -> Slice:
    """A slice of the items."""
    fields: dict[str, object] = {
        "by": by,
        "value": value,
        "items": 16,
        "metric": "tool_calls",
        "old": 0.9,
        "new": 0.9,
        "delta": 0.0,
        "share": 0.32,
        "p": None,
        "regressed": 0,
        "improved": 0,
    }
    return Slice(**{**fields, **changes})  # type: ignore[arg-type]


def counted(total: int, **verdicts: int) -> Counts:
    """Items by their verdict."""
    return Counts(total=total, compared=total, **{**{one.value: 0 for one in Verdict}, **verdicts})


def grade(trial_: Trial, grader: str, score: float, **changes: object) -> Grade:
    """A grade of a trial."""
    fields: dict[str, object] = {
        "run_id": RUN,
        "item_id": trial_.item_id,
        "lane": trial_.lane,
        "trial": trial_.index,
        "grader_version": "1",
        "state": GradeState.SCORED,
    }
    return Grade(**{**fields, "grader": grader, "score": score, **changes})  # type: ignore[arg-type]


def order_call(index: int, order: str = "A-1003") -> ToolCall:
    """The lookup that comes before every cancellation."""
    return ToolCall(
        name="get_order_status",
        index=index,
        args={"order_id": order},
        result='{"status": "processing", "total": 42.5}',
    )


def cancel_call(index: int, order: str = "A-1003") -> ToolCall:
    """A write."""
    args: JsonObject = {"order_id": order, "reason": "customer request", "notify": True}
    return ToolCall(name="cancel_order", index=index, args=args, result={"ok": True, "refund": 42.5})


def trial(
    item: str,
    lane_: Lane,
    index: int = 0,
    *,
    passed: bool | None = True,
    calls: tuple[ServedCall, ...] = (),
    status: Status = Status.OK,
    response: str | None = "Your order A-1003 is cancelled and $42.50 is on its way back to your card.",
    reason: str | None = None,
    judged: tuple[float, ...] = (),
) -> GradedTrial:
    """A trial with a grade of its calls, and the judge's votes where there are any."""
    made = Trial(
        run_id=RUN,
        item_id=item,
        lane=lane_,
        index=index,
        status=status,
        reason=reason,
        final_response=response,
        served=calls,
        cost_usd=0.0031,
        latency_ms=1180.0,
        stderr="Traceback: boom" if status is Status.CRASHED else None,
    )
    grades = {}
    if passed is not None:
        why = None if passed else "called cancel_order without get_order_status first"
        grades["tool_calls"] = grade(made, "tool_calls", float(passed), passed=passed, reason=why)
    if judged:
        mean = sum(judged) / len(judged)
        good, bad = "It names the refund and the order.", "It promises a refund it cannot know."
        votes = tuple(
            Vote(index=number, state=GradeState.SCORED, score=vote, reason=good if vote > 0.5 else bad)
            for number, vote in enumerate(judged)
        )
        facts = {"grader_version": "m/p/r", "passed": mean >= 0.8, "votes": votes}
        grades["judge"] = grade(made, "judge", mean, **facts)
    return GradedTrial(trial=made, grades=grades)


def served(*calls: ToolCall, miss: bool = False) -> tuple[ServedCall, ...]:
    """Calls answered from the tape; the last one a miss where asked for."""
    answered = [ServedCall(call=call, rule=Rule.TAPE, from_trace_id="trace-1") for call in calls]
    if miss:
        answered[-1] = ServedCall(
            call=replace(calls[-1], result=None, answered=False),
            rule=Rule.MISS,
            note="never recorded; nearest: cancel_order(order_id='A-1003')",
        )
    return tuple(answered)


def item(
    number: int, verdict: Verdict, *, trials: int = 1, lanes: tuple[Lane, ...] = (Lane.OLD, Lane.NEW)
) -> ItemVerdict:
    """An item with trials that fit its verdict."""
    name = f"trace-{number:04d}"
    good = served(order_call(0), cancel_call(1))
    bad = served(cancel_call(0, "A-1004"), miss=True)
    old_ok = verdict is not Verdict.IMPROVED
    new_ok = verdict not in (Verdict.REGRESSED, Verdict.MIXED, Verdict.INCONCLUSIVE)
    made = {}
    for lane_ in lanes:
        ok = new_ok if lane_ == Lane.NEW else old_ok
        made[lane_] = tuple(
            trial(
                name,
                lane_,
                index,
                passed=ok,
                calls=good if ok else bad,
                status=Status.OK if ok else Status.DIVERGED,
                reason=None if ok else "stopped at cancel_order: not on the tape",
                response=trial(name, lane_).trial.final_response if ok else None,
                judged=(1.0, 1.0, 2 / 3) if ok else (),
            )
            for index in range(trials)
        )
    old, new = float(old_ok), float(new_ok)
    why = {
        Verdict.REGRESSED: f"old {trials}/{trials}, new 0/{trials}: "
        "called cancel_order without get_order_status first",
        Verdict.IMPROVED: f"old 0/{trials}, new {trials}/{trials}",
        Verdict.MIXED: f"old {trials}/{trials}, new 0/{trials}",
        Verdict.INCONCLUSIVE: "1 of 3 new trials have no score",
        Verdict.UNCHANGED: "",
    }[verdict]
    single = Verdict.REGRESSED if verdict is Verdict.MIXED else verdict
    metrics = {
        "tool_calls": ItemMetric(
            old=old if Lane.OLD in lanes else None,
            new=new,
            delta=new - old if Lane.OLD in lanes else None,
            verdict=single,
            reason=why,
            cause=why.partition(": ")[2]
            if verdict is Verdict.REGRESSED
            else why
            if why.endswith("score")
            else "",
        )
    }
    if verdict is Verdict.MIXED:
        metrics["judge"] = ItemMetric(
            old=0.33, new=0.89, delta=0.56, verdict=Verdict.IMPROVED, reason="old 0.33, new 0.89"
        )
    return ItemVerdict(
        item=Item(
            id=name,
            input=f"Please cancel my order A-1003, it is the wrong size. This is request number {number}.",
            messages=(Message(role="user", text="Please cancel my order A-1003."),),
            tape=(order_call(0), cancel_call(1)),
            recorded_response="Done: order A-1003 is cancelled.",
            trace_id=name,
            session_id="session-7",
            stratum="get_order_status>cancel_order" if number % 2 else "-",
            weight=12.5,
            tags=("orders", "en" if number % 3 else "de"),
            metadata={"plan": "pro", "url": "https://langfuse.example/trace/1"},
        ),
        verdict=verdict,
        metrics=metrics,
        lanes=made,
    )


def run(lanes: tuple[Lane, ...] = (Lane.OLD, Lane.NEW), **changes: object) -> RunRecord:
    """A finished run of a sample."""
    fields: dict[str, object] = {
        "id": RUN,
        "created_at": datetime(2026, 11, 20, 22, 13, 5),
        "finished_at": datetime(2026, 11, 20, 22, 31),
        "lanes": {lane_: Version(name=str(lane_), kind=VersionKind.PYTHON) for lane_ in lanes},
        "trials": 3,
        "seed": 0,
        "sample": "2026-10",
    }
    return RunRecord(**{**fields, **changes})  # type: ignore[arg-type]


def result(numbers: dict[Verdict, int], **changes: object) -> DiffResult:
    """A result with so many items of each verdict."""
    order = (Verdict.REGRESSED, Verdict.MIXED, Verdict.INCONCLUSIVE, Verdict.IMPROVED, Verdict.UNCHANGED)
    lanes = tuple(changes.get("lanes", {Lane.OLD: 0, Lane.NEW: 0}))  # type: ignore[arg-type,var-annotated]
    items, number = [], 0
    for verdict in order:
        for _ in range(numbers.get(verdict, 0)):
            number += 1
            items.append(item(number, verdict, trials=3, lanes=lanes))
    counts = counted(number, **{verdict.value: count for verdict, count in numbers.items()})
    fields: dict[str, object] = {
        "answer": Answer.HOLD,
        "reason": "tool_calls 0.92 → 0.85 on 50 items (95% interval -0.15 to -0.02): worse by more than 0.05",
        "next": f"replay show trace-0001 --run {RUN}",
        "run": run(),
        "noise": Noise.AA,
        "lanes": {Lane.OLD: lane("prod"), Lane.NEW: lane("candidate", statuses={"ok": 141, "diverged": 9})},
        "counts": counts,
        "metrics": {"tool_calls": metric()},
        "items": tuple(items),
    }
    return DiffResult(**{**fields, **changes})  # type: ignore[arg-type]


USUAL = {
    Verdict.REGRESSED: 4,
    Verdict.MIXED: 1,
    Verdict.INCONCLUSIVE: 2,
    Verdict.IMPROVED: 3,
    Verdict.UNCHANGED: 40,
}
JUDGE = {
    "judge": metric(
        old=0.81,
        new=0.86,
        delta=0.05,
        ci=(-0.01, 0.11),
        p=0.11,
        regressed=0,
        improved=3,
        gated=False,
        bounds=(0.05, 0.05),
        sample_delta=0.041,
        pass_hat_k={},
    )
}


def hold() -> DiffResult:
    """HOLD, with a judge that is not calibrated, slices and a warning."""
    return result(
        USUAL,
        metrics={"tool_calls": metric(), **JUDGE},
        slices=(
            part(
                "tool_path",
                "get_order_status>cancel_order",
                items=25,
                old=0.96,
                new=0.8,
                delta=-0.16,
                share=0.5,
                p=0.012,
                regressed=4,
            ),
            part("tags", "de"),
        ),
        gate=Gate(
            conditions=(
                GateCondition(expression="regressed<=2", value=4.0, is_met=False),
                GateCondition(expression="tool_calls.delta>=-0.1", value=-0.07, is_met=True),
            ),
            requested=True,
            is_met=False,
        ),
        warnings=("9 of 150 new trials made a tool call that no recording answers and were stopped there",),
    )


def ship() -> DiffResult:
    """SHIP, and better."""
    return result(
        {Verdict.IMPROVED: 6, Verdict.UNCHANGED: 44},
        answer=Answer.SHIP,
        reason="tool_calls 0.85 → 0.97 on 50 items (95% interval +0.04 to +0.21); no item regressed",
        next=f"replay promote trace-0001 trace-0002 --run {RUN}",
        metrics={
            "tool_calls": metric(
                old=0.85,
                new=0.97,
                delta=0.12,
                ci=(0.04, 0.21),
                p=0.0004,
                improved=6,
                regressed=0,
                sample_delta=0.11,
            )
        },
    )


def cannot_tell() -> DiffResult:
    """CAN'T TELL: the replay cannot be trusted."""
    return result(
        {Verdict.INCONCLUSIVE: 3, Verdict.UNCHANGED: 7},
        answer=Answer.CANNOT_TELL,
        reason="the replay cannot be trusted: only 41% of the old version's tool calls were answered from "
        "the recording (at least 80% is needed), so the replay does not reproduce production",
        next=f"replay show trace-0001 --run {RUN}",
        noise=Noise.UNKNOWN,
        run=run(trials=1, finished_at=None),
        lanes={Lane.OLD: lane("prod", 10, fidelity=0.41), Lane.NEW: lane("candidate", 10, fidelity=0.43)},
        metrics={"tool_calls": unscored(old=0.92, new=0.85, delta=-0.07, n=0)},
        warnings=(
            "the replay cannot be trusted: only 41% of the old version's tool calls were answered from the "
            "recording",
        ),
    )


def no_items() -> DiffResult:
    """Nothing was replayed."""
    return result(
        {},
        answer=Answer.CANNOT_TELL,
        reason="no item has finished trials in every lane",
        next="replay run --resume",
        metrics={},
        lanes={
            lane_: LaneSummary(
                version=version(str(lane_)),
                trials=0,
                fidelity=None,
                statuses={},
                cost_usd=None,
                latency_p50_ms=None,
                latency_p95_ms=None,
                input_tokens=None,
                output_tokens=None,
            )
            for lane_ in (Lane.OLD, Lane.NEW)
        },
        run=run(finished_at=None),
    )


def all_errors() -> DiffResult:
    """Every trial ended in an error; no metric has a figure."""
    statuses = (Status.AGENT_ERROR, Status.INFRA_ERROR, Status.TIMEOUT, Status.CRASHED)
    items = []
    for number, status in enumerate(statuses, start=1):
        base = item(number, Verdict.INCONCLUSIVE)
        failed = {
            lane_: (
                trial(
                    base.item.id,
                    lane_,
                    passed=None,
                    status=status,
                    response=None,
                    reason=f"it ended in {status}",
                ),
            )
            for lane_ in (Lane.OLD, Lane.NEW)
        }
        none = ItemMetric(
            old=None,
            new=None,
            delta=None,
            verdict=Verdict.INCONCLUSIVE,
            reason="1 of 1 old trials have no score",
            cause=f"1 of 1 old trials have no score: {status}: it ended in {status}",
        )
        items.append(
            ItemVerdict(item=base.item, verdict=base.verdict, metrics={"tool_calls": none}, lanes=failed)
        )
    lost = {status.value: 1 for status in statuses}
    nothing = {"fidelity": None, "cost_usd": None, "latency_p50_ms": None, "latency_p95_ms": None}
    return result(
        {},
        answer=Answer.CANNOT_TELL,
        reason="tool_calls has fewer than two items with a score in both lanes",
        items=tuple(items),
        counts=counted(4, inconclusive=4),
        noise=Noise.UNKNOWN,
        metrics={"tool_calls": unscored(improved=0, regressed=0, unchanged=0, inconclusive=4)},
        lanes={
            lane_: lane(str(lane_), 4, statuses=lost, input_tokens=None, output_tokens=None, **nothing)
            for lane_ in (Lane.OLD, Lane.NEW)
        },
        errors=8,
    )


def one_lane() -> DiffResult:
    """`replay check`: the new lane alone, held against a golden set."""
    base = result(
        {Verdict.REGRESSED: 2, Verdict.INCONCLUSIVE: 1, Verdict.UNCHANGED: 17},
        answer=Answer.SHIP,
        reason="17 of 20 items passed, and 80% must",
        lanes={Lane.NEW: lane("candidate", 20)},
        run=run((Lane.NEW,), sample=None, golden_path="cases/golden.jsonl"),
        metrics={
            "tool_calls": unscored(
                new=0.87,
                mde=0.09,
                noise=0.12,
                improved=0,
                regressed=2,
                unchanged=17,
                inconclusive=1,
                pass_hat_k={Lane.NEW: {1: 0.87, 3: 0.85}},
            )
        },
    )
    first = base.items[0]
    expectation = Expectation(
        tool_calls=(
            ExpectedCall(name="get_order_status"),
            ExpectedCall(name="cancel_order", args={"order_id": "A-1003"}),
        ),
        response_traits=("names the refund",),
        answer="42.50",
    )
    expected = replace(first, item=replace(first.item, expectation=expectation, case_id="case-1"))
    group = CaseGroup(
        by="category", value="orders", items=20, passed=17, failed=2, undecided=1, not_graded=0, threshold=0.8
    )
    return replace(base, items=(expected, *base.items[1:]), groups=(group,))


def three_lanes() -> DiffResult:
    """With the A/A lane."""
    return result(
        USUAL,
        lanes={Lane.OLD: lane("prod"), Lane.NEW: lane("candidate"), Lane.OLD2: lane("prod")},
        run=run((Lane.OLD, Lane.NEW, Lane.OLD2)),
    )


def many(items: int = 1200) -> DiffResult:
    """A large run."""
    part = items // 40
    numbers = {
        Verdict.REGRESSED: part,
        Verdict.MIXED: part,
        Verdict.IMPROVED: part,
        Verdict.INCONCLUSIVE: part,
    }
    return result({**numbers, Verdict.UNCHANGED: items - 4 * part})


def hostile() -> DiffResult:
    """Text that was written to do harm, in every field that can carry it."""
    bad = HOSTILE
    call = ToolCall(name=bad, args={bad: [bad, {bad: bad}]}, call_id=bad, result=bad, error=bad)
    votes = (Vote(index=0, state=GradeState.SCORED, score=0.33, reason=bad),)
    lanes = {}
    for lane_ in LANES:
        made = Trial(
            run_id=RUN,
            item_id=bad,
            lane=lane_,
            index=0,
            status=Status.CRASHED if lane_ == Lane.OLD2 else Status.OK,
            reason=bad,
            final_response=bad,
            served=(ServedCall(call=call, rule=Rule.MISS, from_trace_id=bad, note=bad),),
            stderr=bad,
        )
        facts = {"grader_version": bad, "passed": False, "reason": bad, "detail": {bad: bad}, "votes": votes}
        lanes[lane_] = (GradedTrial(trial=made, grades={bad: grade(made, bad, 0.33, **facts)}),)
    worst = ItemVerdict(
        item=Item(
            id=bad,
            input=bad,
            messages=(Message(role=bad, text=bad, tool_calls=(call,)),),
            tape=(call,),
            recorded_response=bad,
            expectation=Expectation(
                tool_calls=(ExpectedCall(name=bad, args={bad: bad}),), response_traits=(bad,), answer=bad
            ),
            trace_id=bad,
            case_id=bad,
            session_id=bad,
            stratum=bad,
            tags=(bad,),
            category=bad,
            difficulty=bad,
            metadata={
                bad: bad,
                "url": "javascript:document.title='pwned'",
                "page": f"https://evil.example/{bad}",
            },
        ),
        verdict=Verdict.REGRESSED,
        metrics={bad: ItemMetric(old=1.0, new=0.0, delta=-1.0, verdict=Verdict.REGRESSED, reason=bad)},
        lanes=lanes,
    )
    names = {bad: bad, "name": bad, "kind": bad, "args": {bad: bad}, "packages": {bad: bad}}
    return result(
        {},
        reason=bad,
        next=f"replay show {bad}",
        run=run(LANES, sample=bad),
        lanes={lane_: lane("x", version=names, statuses={"ok": 1}) for lane_ in LANES},
        counts=counted(1, regressed=1),
        metrics={bad: metric(calibration={bad: bad})},
        items=(worst,),
        slices=(
            part(bad, bad, items=1, share=1.0, metric=bad, old=1.0, new=0.0, delta=-1.0, p=0.5, regressed=1),
        ),
        gate=Gate(conditions=(GateCondition(expression=bad, value=1.0, is_met=None),), requested=True),
        warnings=(bad,),
    )


ALL: dict[str, Callable[[], DiffResult]] = {
    "hold": hold,
    "ship": ship,
    "cannot_tell": cannot_tell,
    "no_items": no_items,
    "all_errors": all_errors,
    "one_lane": one_lane,
    "three_lanes": three_lanes,
    "many": many,
    "hostile": hostile,
}
