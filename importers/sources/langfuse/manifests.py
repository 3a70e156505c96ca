"""Manifests of a scheduled blob export: which of its files are whole, and how many rows they have.

An export writes `{project}/{table}/TIME.ext` for each table and last of all `{project}/manifests/TIME.json`.
A file that no manifest names is of a run that failed or is not done: the run is repeated under the same name.
Where there are no manifests (older servers), or a file was named by itself, it is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from replaydiff.importers.base import Imported, InputFile, Note, Skipped
from replaydiff.importers.reading import Record, records
from replaydiff.replay.model import Json

FOLDER = "manifests"
TABLES = frozenset(("observations_v2", "observations", "traces", "scores"))
_NOT_NAMED = (
    "files of a blob export that no manifest names: their run failed or is not done; to import one all the "
    "same, name the file itself"
)
_NOT_HERE = "files that a manifest of the blob export names are not here; fetch them and import again"

Named = tuple[Path, str, str]
"""Folder of the project, table, and name of the file without `.gz`, which some tools take off."""


@dataclass(frozen=True, slots=True)
class ExportManifest:
    """The files of an import, as far as they are to be read."""

    files: list[InputFile] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    """Path of a file → rows it has, by its manifest."""
    remarks: list[Imported] = field(default_factory=list)
    """What a person should know of files that are not read."""


def export(files: Sequence[InputFile]) -> ExportManifest:
    """The files without manifests, and without what no manifest names where there are some."""
    entries: dict[Named, int | None] = {}
    data = []
    for file in files:
        listed = _manifest(file)
        if listed is None:
            data.append(file)
        else:
            entries.update(_entries(Path(file.path).parent.parent, listed))
    projects = {project for project, _, _ in entries}
    found = ExportManifest()
    for file in data:
        named = _named(Path(file.path))
        rows = entries.get(named)
        if named[0] in projects and named[1] in TABLES and named not in entries:
            found.remarks.append(Skipped(_NOT_NAMED))
        else:
            found.files.append(file)
            if rows is not None:
                found.rows[file.path] = rows
    found.remarks.extend(Note(_NOT_HERE) for named in entries if not _is_here(named))
    return found


def _manifest(file: InputFile) -> list[Json] | None:
    """The files that a manifest lists; None where it is none."""
    if Path(file.path).parent.name != FOLDER:
        return None
    for found in islice(records(file), 1):
        if isinstance(found, Record) and isinstance(found.value, dict) and "window" in found.value:
            listed = found.value.get("files")
            return listed if isinstance(listed, list) else None
    return None


def _entries(project: Path, listed: Sequence[Json]) -> Iterator[tuple[Named, int | None]]:
    for entry in listed:
        if not isinstance(entry, dict):
            continue
        key, rows = entry.get("key"), entry.get("rowCount")
        if isinstance(key, str) and ".." not in key and "\x00" not in key:
            yield _named(project / Path(*key.split("/")[-2:])), rows if isinstance(rows, int) else None


def _named(path: Path) -> Named:
    return path.parent.parent, path.parent.name, path.name.removesuffix(".gz")


def _is_here(named: Named) -> bool:
    project, table, name = named
    return any((project / table / one).exists() for one in (name, f"{name}.gz"))
