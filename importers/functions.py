"""Importers that are one function: it turns one record of a file into a trace.

@importer("acme", keys=("run", "question"))
def acme(record):
    return {"trace_id": record["run"], "started_at": record["at"], "input": record["question"]}
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note, RecordError, Skipped
from replaydiff.importers.convert import converted
from replaydiff.importers.sources import jsonl
from replaydiff.replay.model import Json, Trace

Converted = Trace | Mapping[str, Any] | Skipped | Note | None
"""What the function may return: a trace, or an object in the format of `replay import jsonl`; None leaves the
record out."""
Function = Callable[[dict[str, Any]], Converted | Iterable[Converted]]
SINGLE_TYPES = (Trace, Skipped, Note, Mapping)
LEFT_OUT = "left out by the importer"


def importer(name: str, *, keys: Collection[str] = ()) -> Callable[[Function], FunctionImporter]:
    """Make an importer of a function that converts one record.

    The function gets one record (an object of a JSON, CSV or Parquet file) and returns a `Trace`, an object
    in the format of `replay import jsonl`, `Skipped(reason)`, or several of these. It rejects a record by
    raising `RecordError`; so does a missing key. The first line of its docstring is the summary.

    Args:
        name: what a person types, `replay import NAME`; the same as the name of the entry point.
        keys: fields that every record has; `auto` recognises records by them. Without any, it never does.
    """

    def declare(function: Function) -> FunctionImporter:
        return FunctionImporter(name, frozenset(keys), function)

    return declare


@dataclass(frozen=True, slots=True)
class FunctionImporter:
    """An importer made of a function; see `replaydiff.importers.base.Importer`."""

    NAME: str
    keys: frozenset[str]
    function: Function

    @property
    def RECOGNISED_BY(self) -> str:  # noqa: N802 - a constant of the modules that are importers
        """Return what distinguishes its records from others."""
        return f"records have {', '.join(sorted(self.keys))}"

    def recognises(self, record: Json) -> float:
        """Return 0.95 where the record has all keys, else 0."""
        has_keys = bool(self.keys) and isinstance(record, dict) and self.keys <= record.keys()
        return 0.95 if has_keys else 0.0

    def read_files(self, files: Sequence[InputFile]) -> Iterator[Imported]:
        """Yield what the function makes of each record, and a reject for each that it refuses."""
        return converted(self.NAME, files, self._convert)

    def _convert(self, record: Json, file: InputFile) -> Iterator[Imported]:
        record = fields.object_of(record, "a record")
        for returned in self._returned(record):
            if isinstance(returned, Mapping):
                for item in jsonl.read(dict(returned), file):
                    yield replace(item, source=self.NAME) if isinstance(item, Trace) else item
            else:
                yield Skipped(LEFT_OUT) if returned is None else returned

    def _returned(self, record: dict[str, Any]) -> list[Converted]:
        try:
            returned = self.function(record)
            values = [returned] if returned is None or isinstance(returned, SINGLE_TYPES) else list(returned)
        except RecordError:
            raise
        except KeyError as error:
            raise RecordError(f"{error.args[0]} is missing") from None
        except Exception as error:  # noqa: BLE001 - whatever the function raises is about this one record
            raise RecordError(f"the importer failed ({type(error).__name__}: {error})") from None
        for value in values:
            if value is not None and not isinstance(value, SINGLE_TYPES):
                raise RecordError(f"the importer returned {type(value).__name__}, which is not a trace")
        return values
