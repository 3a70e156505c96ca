"""A run's result in a notebook."""

from __future__ import annotations

from replaydiff.diff.result import DiffResult
from replaydiff.reports import causes, phrases
from replaydiff.reports.html.render import TONE, environment

_ITEMS = 20
"""Items of a notebook's table; `Diff.save("report.html")` has all of them."""
_WARNINGS = 5


def notebook_html(result: DiffResult) -> str:
    """Return the result as a fragment of HTML: answer, warnings, metrics, and the items that changed.

    Every text is escaped. The fragment holds no script and loads nothing; its few styles are attributes,
    since a notebook may remove style elements.

    Args:
        result: what `replay diff` computed.

    Returns:
        One `div` element.
    """
    changed = [item for item in result.items if item.verdict.value != "unchanged"]
    return (
        environment()
        .get_template("notebook.html.j2")
        .render(
            result=result,
            color={"better": "#1a7f37", "worse": "#cf222e", "unsure": "#9a6700"}[TONE[result.answer]],
            check=phrases.is_check(result),
            about=[
                " → ".join(
                    f"{lane}: {phrases.version_name(result.lanes[lane].version)}"
                    for lane in phrases.lanes(result)
                ),
                *phrases.run_line(result),
                phrases.compared(result),
            ],
            causes=causes.shown(result, causes.SHOWN),
            causes_summary=causes.summary(result),
            warnings=result.warnings[:_WARNINGS],
            items=[
                (item, phrases.verdict_name(result, item.verdict), phrases.metric_reasons(item))
                for item in changed[:_ITEMS]
            ],
            left_out=len(changed) - len(changed[:_ITEMS]),
        )
    )
