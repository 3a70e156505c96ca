"""The report formats, built in and of plugins.

What a report format is, and where the formats are.

A format is a function `render(result, *, width, color)` of a `diff.result.DiffResult` that returns text, or
bytes where it is none. It computes no
figure and decides nothing: it shows what was computed. It must take every result there is: no items, one lane
alone (`replay check`), errors only, and text that someone wrote to do harm. A new format is one module with
such a function and one line in `BUILTIN`; one that lives in another package is an entry point in the group
`replaydiff.reports`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

from replaydiff.diff.result import DiffResult
from replaydiff.replay.errors import InputError, UnknownNameError

GROUP = "replaydiff.reports"
"""Entry points of this group are formats of other packages: name → `module:function`."""


class ReportFormat(Protocol):
    """A report format: a function of a result."""

    def __call__(self, result: DiffResult, *, width: int, color: bool) -> str | bytes:
        """Return the report; `width` (columns) and `color` are for formats that a terminal shows."""
        ...


class BuiltinFormat(NamedTuple):
    """A built-in format."""

    target: str
    """`module:function`, imported when the format is asked for."""
    suffix: str
    """Of the file's name, where a file is written."""
    to_file: bool
    """Whether it is for a program or browser and goes to a file by default."""


BUILTIN: dict[str, BuiltinFormat] = {
    "terminal": BuiltinFormat("replaydiff.reports.terminal:render", ".txt", to_file=False),
    "markdown": BuiltinFormat("replaydiff.reports.markdown:render", ".md", to_file=False),
    "json": BuiltinFormat("replaydiff.reports.data:render_json", ".json", to_file=False),
    "csv": BuiltinFormat("replaydiff.reports.data:render_csv", ".csv", to_file=False),
    "parquet": BuiltinFormat("replaydiff.reports.data:render_parquet", ".parquet", to_file=True),
    "junit": BuiltinFormat("replaydiff.reports.junit:render", ".xml", to_file=True),
    "html": BuiltinFormat("replaydiff.reports.html.render:render", ".html", to_file=True),
}


def render(result: DiffResult, format: str, *, width: int = 100, color: bool = False) -> str | bytes:  # noqa: A002
    """Return the result in this format.

    Raises:
        UnknownNameError: no format has this name.
    """
    return find_format(format)(result, width=width, color=color)


def format_of(path: Path) -> str:
    """Return the built-in format that a file's suffix names.

    Raises:
        InputError: it names none.
    """
    formats = {format_of_name.suffix: name for name, format_of_name in BUILTIN.items()}
    if path.suffix not in formats:
        raise InputError(f"{path} names no format; end it in {', '.join(sorted(formats))}")
    return formats[path.suffix]


def parts(result: DiffResult, format: str, *, width: int) -> Iterator[str | bytes]:  # noqa: A002
    """Yield the result in this format, part by part where it can be far larger than the result.

    Raises:
        UnknownNameError: no format has this name.
    """
    if format == "json":
        from replaydiff.reports.data import rendered_json_parts

        yield from rendered_json_parts(result)
    else:
        yield render(result, format, width=width)


def find_format(name: str) -> ReportFormat:
    """Return the format of this name: a built-in one, else an entry point of the group `replaydiff.reports`.

    Raises:
        UnknownNameError: there is none.
    """
    if name in BUILTIN:
        module, _, attribute = BUILTIN[name].target.partition(":")
        built_in: ReportFormat = getattr(import_module(module), attribute)
        return built_in
    from importlib.metadata import entry_points

    plugins = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in plugins:
        raise UnknownNameError("report format", name, [*BUILTIN, *plugins])
    loaded: ReportFormat = plugins[name].load()
    return loaded
