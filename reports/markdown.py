"""Markdown for a pull request: the answer, the metrics, and the items that changed, folded away.

The comment begins with `MARKER`, by which a later run finds and updates it, and stays below `LIMIT`. Text
from traces can make no link, mention, reference, image or HTML: what Markdown would read is escaped, and a
character of no width is put where GitHub or GitLab would make a link by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from replaydiff.diff.result import Answer, DiffResult, ItemVerdict, MetricDelta, Verdict
from replaydiff.replay.model import Status
from replaydiff.replay.terminal.text import single_line, visible
from replaydiff.reports import causes, phrases
from replaydiff.reports import format as fmt
from replaydiff.reports.phrases import by_cause

MARKER = "<!-- replaydiff -->"
LIMIT = 65_000
"""GitHub takes 65,536 characters."""

_SIGN = {Answer.SHIP: "✅", Answer.HOLD: "⛔", Answer.CANNOT_TELL: "❔"}
_SPECIAL = re.compile(r"([\\`*_\[\]()#!|~$^])")
_AUTOLINKS = re.compile(r'[@#!~%$^&](?=[\w"*])|://|\bwww\.|\bGH-', re.IGNORECASE)
"""Mentions and references of GitHub and GitLab, and addresses that become links by themselves."""
_NO_WIDTH = "&#8203;"
_SHOWN = (60, 25, 10, 0)
"""How many items of a verdict are listed: as many as fit."""
_CAUSES = 10
_MEMBERS = 20
"""How many items of a cause are listed."""


def render(result: DiffResult, *, width: int, color: bool) -> str:  # noqa: ARG001
    """Return the comment, of fewer than `LIMIT` characters."""
    for shown in _SHOWN:
        text = "\n".join(_lines(result, shown)).rstrip() + "\n"
        if len(text) < LIMIT:
            return text
    # Hundreds of metrics or warnings: the first ones matter most.
    return text[: LIMIT - 40].rpartition("\n")[0] + "\n\n… shortened to fit a comment\n"


def escape(text: str, limit: int = 300) -> str:
    """Escape one line of text so that Markdown shows it unchanged, without link, mention or HTML."""
    parts = []
    at = 0
    line = single_line(text, limit)
    for match in _AUTOLINKS.finditer(line):
        parts += [_plain(line[at : match.start()]), _apart(match[0])]
        at = match.end()
    return "".join([*parts, _plain(line[at:])])


def code(text: str, limit: int = 120, *, in_table: bool = False) -> str:
    """Return one line of text as a code span; inside a table even there a bar would end the cell."""
    line = single_line(text, limit)
    if in_table:
        line = line.replace("|", "\\|")
    if not line:
        return ""
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _lines(result: DiffResult, shown: int) -> Iterator[str]:
    yield MARKER
    yield f"### {_SIGN[result.answer]} {result.answer}: {escape(result.reason, 1000)}"
    if result.ranking:
        yield ""
        yield from _ranking(result)
    if result.causes:
        yield ""
        yield from _causes(result)
    if result.warnings:
        yield ""
        yield f"<details><summary>⚠️ {fmt.plural(len(result.warnings), 'warning')}</summary>"
        yield ""
        for warning in result.warnings[:10]:
            yield f"- {escape(warning, 600)}"
        yield ""
        yield "</details>"
    yield ""
    if result.metrics:
        yield from _metrics(result)
        yield ""
    counts = [f"{fmt.count(number)} {name}" for _, name, number in phrases.verdict_counts(result)]
    yield f"**Items:** {' · '.join(counts)}"
    yield ""
    for verdict in (*phrases.CHANGED, Verdict.INCONCLUSIVE):
        items = [item for item in result.items if item.verdict is verdict]
        if items:
            yield from _items(phrases.verdict_name(result, verdict), items, shown)
    if result.groups:
        yield from _groups(result)
    if result.slices:
        yield from _slices(result)
    if result.lanes:
        yield from _lanes(result)
    yield f"<sub>Where the run was made: {code(visible(result.next), 1000)}</sub>"
    yield ""
    about = [*phrases.run_line(result), phrases.compared(result), phrases.NOISE_SOURCE[result.noise]]
    if phrases.is_check(result):
        about.pop()
    yield f"<sub>replaydiff · {' · '.join(escape(part, 200) for part in about)}</sub>"


def _causes(result: DiffResult) -> Iterator[str]:
    """Render what differs, and each cause with what both versions did in one item."""
    yield f"**{escape(causes.summary(result))}**"
    yield ""
    for cause in causes.shown(result, _CAUSES):
        state = "" if cause.state == "open" else f" **{cause.state}:**"
        yield f"- {code(cause.id)}{state} {escape(cause.text, 600)}: {escape(cause.counts)}"
        if cause.item:
            yield f"  <br>{code(cause.item, 100)} {escape(cause.input, 160)}"
            yield f"  <br>old: {code(cause.old, 240)}"
            yield f"  <br>new: {code(cause.new, 240)}"
    if len(result.causes) > _CAUSES:
        yield f"- … and {causes.more(result, _CAUSES)}"


def _ranking(result: DiffResult) -> Iterator[str]:
    sure = f"{fmt.share(result.confidence)} interval"
    yield f"| lane | version | answer | metric | old → new | delta | {sure} | p | regressed | cost |"
    yield "|:--|:--|:--|:--|--:|--:|--:|--:|--:|--:|"
    for candidate in result.ranking:
        name = code(phrases.version_name(candidate.summary.version), 80, in_table=True)
        lane = f"**{candidate.lane}**" if candidate.shown else str(candidate.lane)
        cost = fmt.dollars(candidate.summary.cost_usd).replace("<", "&lt;")
        for metric, ranked in phrases.main_metrics(candidate):
            figures = [
                f"{fmt.score(ranked.old)} → {fmt.score(ranked.new)}",
                fmt.change(ranked.delta),
                fmt.interval(ranked.ci),
                fmt.p_value(ranked.p_adjusted).replace("<", "&lt;"),
                fmt.count(candidate.counts.regressed),
                cost,
            ]
            head = f"{lane} | {name} | {candidate.answer.value} | {code(metric, 60, in_table=True)}"
            yield f"| {head} | {' | '.join(figures)} |"
    yield ""
    notes = [phrases.ranking_caption(result), *phrases.against_first(result)]
    yield "<sub>" + "<br>".join(escape(note, 600) for note in notes) + "</sub>"


def _usage(result: DiffResult) -> Iterator[str]:
    yield ""
    yield f"| a trial takes | old → new | delta | {fmt.share(result.confidence)} interval |"
    yield "|:--|--:|--:|--:|"
    for row in phrases.usage_rows(result):
        figures = [text.replace("<", "&lt;") for text in (row.values, row.change, row.interval)]
        yield f"| {row.label} | {' | '.join(figures)} |"


def _metrics(result: DiffResult) -> Iterator[str]:
    if phrases.is_check(result):
        yield "| metric | new | passed | failed |"
        yield "|:--|--:|--:|--:|"
        for name, metric in result.metrics.items():
            passed = metric.unchanged + metric.improved
            yield f"| {_name(name, metric)} | {fmt.score(metric.new)} | {passed} | {metric.regressed} |"
    else:
        sure = f"{fmt.share(result.confidence)} interval"
        yield f"| metric | old → new | delta | {sure} | p | improved | regressed |"
        yield "|:--|--:|--:|--:|--:|--:|--:|"
        for name, metric in result.metrics.items():
            figures = [
                f"{fmt.score(metric.old)} → {fmt.score(metric.new)}",
                fmt.change(metric.delta),
                fmt.interval(metric.ci),
                # A bare "<" would begin a tag.
                fmt.p_value(metric.p).replace("<", "&lt;"),
                fmt.count(metric.improved),
                fmt.count(metric.regressed),
            ]
            yield f"| {_name(name, metric)} | {' | '.join(figures)} |"
    notes = [
        f"{code(name, 60)}: {escape(' · '.join(phrases_of_metric), 600)}"
        for name, metric in result.metrics.items()
        if (phrases_of_metric := phrases.metric_notes(name, metric, likeness=result.likeness))
    ]
    if notes:
        yield ""
        yield "<sub>" + "<br>".join(notes) + "</sub>"


def _name(name: str, metric: MetricDelta) -> str:
    label = code(name, 60, in_table=True)
    return f"**{label}**" if metric.gated else label


def _items(verdict: str, items: Sequence[ItemVerdict], shown: int) -> Iterator[str]:
    """Render the items of a verdict, folded; a shared cause appears once."""
    yield f"<details><summary><b>{fmt.count(len(items))} {verdict}</b></summary>"
    yield ""
    left, groups = shown, by_cause(items)
    while groups and left > 0:
        group = groups.pop(0)
        if len(group.items) == 1:
            yield from _item(group.items[0])
            left -= 1
            continue
        why = ": ".join(part for part in (code(group.metric, 40), escape(group.cause, 300)) if part)
        yield f"- **{fmt.count(len(group.items))}**{' · ' if why else ''}{why}"
        listed = group.items[: min(left, _MEMBERS)]
        for item in listed:
            excerpt = f" {escape(item.item.excerpt, 160)}" if item.item.excerpt.strip() else ""
            yield f"  - {code(item.item.id, 100)}{excerpt}"
        if len(group.items) > len(listed):
            yield f"  - … and {fmt.count(len(group.items) - len(listed))} more"
        left -= len(listed)
    if groups:
        yield f"- … and {fmt.count(sum(len(group.items) for group in groups))} more"
    yield ""
    yield "</details>"
    yield ""


def _item(item: ItemVerdict) -> Iterator[str]:
    """Render an item that changed for its own reason."""
    why = "; ".join(
        f"{code(name, 40)} {escape(reason, 300)}" for name, reason in phrases.metric_reasons(item)[:3]
    )
    yield f"- {code(item.item.id, 100)}{': ' if why else ''}{why}"
    if item.item.excerpt.strip():
        yield f"  <br>{escape(item.item.excerpt, 160)}"


def _groups(result: DiffResult) -> Iterator[str]:
    yield "| group | cases | passed | failed | undecided | rate |"
    yield "|:--|--:|--:|--:|--:|--:|"
    for part in result.groups[:40]:
        name = f"{part.by} {code(part.value, 80, in_table=True)}"
        undecided = part.undecided + part.not_graded
        rate = fmt.share(part.rate).replace("<", "&lt;")
        if part.threshold is not None:
            rate += f", {fmt.share(part.threshold)} must"
        yield f"| {name} | {part.items} | {part.passed} | {part.failed} | {undecided} | {rate} |"
    yield ""


def _slices(result: DiffResult) -> Iterator[str]:
    yield f"<details><summary>{fmt.plural(len(result.slices), 'slice')}</summary>"
    yield ""
    yield "| slice | metric | items | delta | p | improved | regressed |"
    yield "|:--|:--|--:|--:|--:|--:|--:|"
    for part in result.slices[:20]:
        p = fmt.p_value(part.p).replace("<", "&lt;")
        name = f"{code(part.by, 40, in_table=True)} = {code(part.value, 80, in_table=True)}"
        figures = f"{part.items} | {fmt.change(part.delta)} | {p} | {part.improved} | {part.regressed}"
        yield f"| {name} | {code(part.metric, 60, in_table=True)} | {figures} |"
    yield ""
    yield f"<sub>{phrases.slices_caption(result)}</sub>"
    yield ""
    yield "</details>"
    yield ""


def _lanes(result: DiffResult) -> Iterator[str]:
    yield "<details><summary>Versions, cost and latency</summary>"
    yield ""
    yield (
        "| lane | version | trials | reached the end | fidelity | calls answered by | cost | p50 | p95 "
        "| tokens in / out |"
    )
    yield "|:--|:--|:--|--:|--:|:--|--:|--:|--:|--:|"
    for lane in phrases.lanes(result):
        summary = result.lanes[lane]
        lost = [
            f"{fmt.count(number)} {code(name, 20, in_table=True)}"
            for name, number in summary.statuses.items()
            if number and name != Status.OK
        ]
        trials = fmt.count(summary.trials) + (f" ({', '.join(lost)})" if lost else "")
        figures = [
            _angles(fmt.share(summary.reached_end)),
            _angles(fmt.share(summary.fidelity)),
            phrases.served(summary),
            _angles(fmt.dollars(summary.cost_usd)),
            fmt.duration(summary.latency_p50_ms),
            fmt.duration(summary.latency_p95_ms),
            f"{fmt.tokens(summary.input_tokens)} / {fmt.tokens(summary.output_tokens)}",
        ]
        name = code(phrases.version_name(summary.version), 120, in_table=True)
        yield f"| {lane} | {name} | {trials} | {' | '.join(figures)} |"
    if result.usage:
        yield from _usage(result)
    for lane, calls in phrases.unrecorded_calls(result, phrases.lanes(result)):
        yield ""
        yield f"Not answered, {lane}: {escape(calls, 600)}"
    yield ""
    yield "</details>"
    yield ""


def _angles(text: str) -> str:
    return text.replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", text)


def _apart(trigger: str) -> str:
    """Return text with a character of no width after the first letter of each link."""
    if len(trigger) > 1:
        return f"{trigger[0]}{_NO_WIDTH}{trigger[1:]}"
    return f"{_plain(trigger)}{_NO_WIDTH}"
