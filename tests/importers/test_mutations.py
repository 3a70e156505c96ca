"""Whatever happens to a key of a record, no tool call of it is lost without a word.

Each key of each sample is renamed, deleted, put into an object or a list, or written as JSON text, in all
records at once, also within texts that are JSON. A call is kept where a stored call has its name and all the
values of its arguments that the record still has. Where one is not, the import must say so: by a note, a
rejected record, or a reason why it was left out, which it does not give for the sample itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from replaydiff.importers.base import find_importer
from replaydiff.importers.collect import collected
from replaydiff.importers.reading import Record, records
from replaydiff.replay.errors import InputError
from replaydiff.replay.messages import decode
from replaydiff.replay.model import Json, Trace
from tests.importers.reading import SAMPLE_FILES, SAMPLES
from tests.stand_ins.full import full

pytestmark = pytest.mark.slow
MARK = "zz"
Change = Callable[[str, Json], dict[str, Json]]
CHANGES: dict[str, Change] = {
    "renamed": lambda key, value: {MARK + key: value},
    "deleted": lambda _key, _value: {},
    "in an object": lambda key, value: {key: {MARK: value}},
    "in a list": lambda key, value: {key: [value]},
    "as text": lambda key, value: {key: value if isinstance(value, str) else json.dumps(value)},
}
KNOWN = {
    ("adk/sessions.jsonl", "args", "deleted"),
    ("langsmith/nested.json", "messages", "deleted"),
    ("langsmith/nested.json", "outputs", "deleted"),
    ("openai/openhands.json", "tool_call_metadata", "deleted"),
    ("openai/responses.jsonl", "action", "deleted"),
}
"""The calls are gone from the record, and another trace of the file has equal ones, or the same words; without
its metadata an action of OpenHands is a call itself."""
FILES = [file for file in SAMPLE_FILES if file.suffix in (".json", ".jsonl")]


class Call(NamedTuple):
    """A stored call, as far as it is compared."""

    name: str
    values: Counter[str]
    args: Json
    call_id: str | None


class Outcome(NamedTuple):
    """What an import stored, and what it said of the rest."""

    calls: list[Call]
    reasons: Counter[str]


# Each file with two of the changes in turn, and with all of them in a full run.
ROWS = [
    pytest.param(
        file,
        how,
        id=f"{file.relative_to(SAMPLES)}-{how}",
        marks=() if (number + place) % len(CHANGES) < 2 else full,
    )
    for number, file in enumerate(FILES)
    for place, how in enumerate(CHANGES)
]


@pytest.mark.parametrize(("file", "how"), ROWS)
def test_no_call_is_lost_without_a_word(file: Path, how: str, tmp_path: Path) -> None:
    source, name = file.relative_to(SAMPLES).parts[0], str(file.relative_to(SAMPLES))
    with collected([str(file)]) as files:
        whole = [found.value for found in records(files[0]) if isinstance(found, Record)]
    true = _imported(source, file)
    lost = set()
    for key in sorted(set(_keys(whole))):
        changed = [_changed(record, key, CHANGES[how]) for record in whole]
        if changed == whole:
            continue
        target = tmp_path / file.name
        is_lines = file.suffix == ".jsonl" or len(changed) == 1
        target.write_text("\n".join(map(json.dumps, changed)) if is_lines else json.dumps(changed), "utf-8")
        try:
            found = _imported(source, target)
        except InputError:
            continue
        if not found.reasons - true.reasons and _lost(true.calls, found.calls, changed, key, how):
            lost.add((name, key, how))
    assert lost == {one for one in KNOWN if one[0] == name and one[2] == how}


def _imported(source: str, file: Path) -> Outcome:
    with collected([str(file)]) as files:
        found = list(find_importer(source).read_files(files))
    calls = [
        Call(call.name.replace(MARK, ""), Counter(_values(call.args)), call.args, call.call_id)
        for one in found
        if isinstance(one, Trace)
        for call in one.tool_calls
    ]
    others = [one for one in found if not isinstance(one, Trace)]
    return Outcome(calls, Counter(getattr(other, "text", getattr(other, "reason", "")) for other in others))


def _lost(true: list[Call], stored: list[Call], changed: list[Json], key: str, how: str) -> list[Call]:
    """The true calls that have no stored one of their own."""
    there = set(_values(changed))
    is_deleted = how == "deleted"
    args = {place: _changed(call.args, key, CHANGES[how]) for place, call in enumerate(true)}
    wanted = {place: call.values for place, call in enumerate(true)}
    if is_deleted:
        # A deleted argument is not of the call any more; a short value may stand anywhere by chance.
        wanted = {
            place: Counter(value for value in _values(own) if value in there and len(value) > 2)
            for place, own in args.items()
        }
    left, lost = list(stored), []
    # Calls that are stored as they are take their own before others look for one.
    for place in sorted(wanted, key=lambda place: all(args[place] != one.args for one in stored)):
        call, values = true[place], wanted[place]
        fitting = [one for one in left if one.name == call.name and not values - one.values]
        if fitting:
            left.remove(min(fitting, key=lambda one: (one.args != args[place], one.values.total())))
        elif values or not is_deleted or call.call_id in there:
            lost.append(call)
    return lost


def _changed(value: Json, key: str, change: Change) -> Any:
    """The value with each field of this name changed, and those in JSON texts."""
    if isinstance(value, dict):
        found: dict[str, Json] = {}
        for name, inner in value.items():
            own = _changed(inner, key, change)
            found.update(change(name, own) if name == key else {name: own})
        return found
    if isinstance(value, list):
        return [_changed(one, key, change) for one in value]
    inner = _in_text(value)
    if inner is None:
        return value
    changed = _changed(inner, key, change)
    return value if changed == inner else json.dumps(changed)


def _keys(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    inner = _in_text(value)
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in (*within, *([inner] if inner is not None else [])):
        yield from _keys(one)


def _values(value: Json) -> Iterator[str]:
    """All plain values, as text."""
    found = decode(value)
    if isinstance(found, dict | list):
        for one in found.values() if isinstance(found, dict) else found:
            yield from _values(one)
    elif found is not None:
        yield str(found)


def _in_text(value: Json) -> Json:
    """The object or list that a JSON text holds; None for anything else."""
    found = decode(value) if isinstance(value, str) and value[:1] in ("{", "[") else None
    return found if isinstance(found, dict | list) else None
