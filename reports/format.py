"""Numbers as every report writes them.

Rules:
- a missing figure is a dash `–`, never 0, never "None" or "nan";
- minus is `−`, and a signed figure always carries its sign, but zero has none;
- a score has two decimals up to 10, then three significant digits; a change of a score that is not zero but
  would round to zero gets more decimals, up to four, and beyond that is `~0`;
- a share is a percentage without decimals; 100 % and 0 % are written only where they are exact;
- p has two significant digits from 0.001 on, below that `<0.001`;
- dollars have cents; below a dime, two significant digits (`$0.0042`); from a thousand on, no cents;
- durations: `840 ms`, `1.24 s`, `2 min 05 s`;
- whole numbers carry thousands separators; tokens are short from ten thousand on (`88k`, `1.24M`);
- no figure contains a space that a line may break at: the spaces are no-break spaces.
"""

from __future__ import annotations

import math
from datetime import datetime

ABSENT = "–"
"""Shown where there is no figure."""

_SPACE = "\u00a0"
_MINUS = "−"


def score(value: float | None) -> str:
    """Format a mean or a single score: `0.82`, `1.00`, `12.4`, `1,240`."""
    if value is None or not math.isfinite(value):
        return ABSENT
    return _with_minus(_digits(abs(value)), negative=value < 0)


def figure(value: float | None) -> str:
    """Format a figure of any kind, such as a gate's: `4`, `−0.07`, `1,240`."""
    if value is not None and math.isfinite(value) and value == int(value) and abs(value) >= 2:
        return _with_minus(f"{abs(value):,.0f}", negative=value < 0)
    return score(value)


def change(value: float | None) -> str:
    """Format a signed difference of scores: `−0.07`, `+0.004`, `0.00`, `~0`."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if value == 0:
        return _digits(0.0)
    if abs(value) < 0.00005:
        return "~0"
    text = _digits(abs(value))
    for decimals in (3, 4):
        if float(text.replace(",", "")) != 0:
            break
        text = f"{abs(value):.{decimals}f}"
    return (_MINUS if value < 0 else "+") + text


def interval(value: tuple[float, float] | None) -> str:
    """Format the two ends of a change: `[−0.15, −0.02]`."""
    if value is None:
        return ABSENT
    return f"[{change(value[0])},{_SPACE}{change(value[1])}]"


def p_value(value: float | None) -> str:
    """Format a p-value: `0.21`, `0.031`, `<0.001`."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if value < 0.001:
        return "<0.001"
    if value < 0.01:
        return f"{value:.4f}"
    if value < 0.1:
        return f"{value:.3f}"
    return f"{value:.2f}"


def share(value: float | None) -> str:
    """Format a share from 0 to 1 as a percentage: `97 %`, `<1 %`, `>99 %`."""
    if value is None or not math.isfinite(value):
        return ABSENT
    percent = value * 100
    if 0 < percent < 1:
        return f"<1{_SPACE}%"
    if 99 < percent < 100:
        return f">99{_SPACE}%"
    return f"{_with_minus(f'{abs(percent):.0f}', negative=percent < 0)}{_SPACE}%"


def count(value: int | None) -> str:
    """Format a whole number: `1,240`."""
    return ABSENT if value is None else _with_minus(f"{abs(value):,}", negative=value < 0)


def plural(value: int, noun: str, many: str | None = None) -> str:
    """Format a number with its noun: `1 item`, `1,240 items`, `2 retries`."""
    return f"{count(value)}{_SPACE}{noun if value == 1 else many or noun + 's'}"


def dollars(value: float | None) -> str:
    """Format US dollars: `$0.0042`, `$0.41`, `$12.30`, `$1,240`."""
    if value is None or not math.isfinite(value):
        return ABSENT
    size = abs(value)
    if size >= 999.995:
        text = f"{size:,.0f}"
    elif size == 0 or size >= 0.0995:
        text = f"{size:.2f}"
    elif size < 0.00001:
        text = "0.00001"
        return f"<${text}"
    else:
        text = f"{size:.{1 - math.floor(math.log10(size))}f}"
    return _with_minus(f"${text}", negative=value < 0)


def duration(milliseconds: float | None) -> str:
    """Format a duration in milliseconds: `840 ms`, `1.24 s`, `2 min 05 s`, `1 h 04 min`."""
    if milliseconds is None or not math.isfinite(milliseconds):
        return ABSENT
    if milliseconds < 999.5:
        return f"{milliseconds:.0f}{_SPACE}ms"
    seconds = milliseconds / 1000
    if seconds < 9.995:
        return f"{seconds:.2f}{_SPACE}s"
    if seconds < 59.95:
        return f"{seconds:.1f}{_SPACE}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}{_SPACE}min{_SPACE}{whole % 60:02d}{_SPACE}s"
    minutes = round(seconds / 60)
    return f"{minutes // 60}{_SPACE}h{_SPACE}{minutes % 60:02d}{_SPACE}min"


def tokens(value: int | None) -> str:
    """Format a number of tokens: `840`, `8,400`, `88k`, `1.24M`."""
    if value is None:
        return ABSENT
    if value < 10_000:
        return f"{value:,}"
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M")):
        if value >= size * 0.9995:
            return f"{_three_digits(value / size)}{unit}"
    return f"{value / 1000:.0f}k"


def moment(value: datetime | None) -> str:
    """Format a time in UTC: `2026-11-20 22:13`."""
    return ABSENT if value is None else f"{value:%Y-%m-%d}{_SPACE}{value:%H:%M}"


def _digits(size: float) -> str:
    if size < 9.995:
        return f"{size:.2f}"
    if size < 999.5:
        return _three_digits(size)
    return f"{size:,.0f}" if size < 1e12 else f"{size:.2e}"


def _three_digits(size: float) -> str:
    return f"{size:.2f}" if size < 9.995 else f"{size:.1f}" if size < 99.95 else f"{size:.0f}"


def _with_minus(text: str, *, negative: bool) -> str:
    zero = not any(digit in text for digit in "123456789")
    return f"{_MINUS}{text}" if negative and not zero else text
