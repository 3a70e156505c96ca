"""Every layout of a file gives the same records; what is broken is told by its line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.importers.base import InputFile
from replaydiff.importers.collect import collected
from replaydiff.importers.reading import Broken, Record, records
from replaydiff.replay.errors import InputError

ROWS = [{"id": n, "text": "ä\n\"'[{" * n, "list": [1, {"a": None}]} for n in range(4)]


def _read(path: Path) -> list[Record | Broken]:
    with collected([str(path)]) as (file,):
        return list(records(file))


def _values(path: Path) -> list[object]:
    return [found.value if isinstance(found, Record) else found for found in _read(path)]


LAYOUTS = {
    "lines": "\n".join(map(json.dumps, ROWS)),
    "lines, CRLF": "\r\n".join(map(json.dumps, ROWS)) + "\r\n",
    "lines, blank ones between": "\n\n  \n" + "\n\n".join(map(json.dumps, ROWS)) + "\n\n",
    "array, compact": json.dumps(ROWS),
    "array, one a line": "[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n",
    "array, pretty": json.dumps(ROWS, indent=2),
    "arrays, one after another": json.dumps(ROWS[:1], indent=2)
    + json.dumps(ROWS[1:3])
    + json.dumps(ROWS[3:]),
    "arrays, one a line": "[]\n" + "\n".join(json.dumps([row]) for row in ROWS) + "\n",
    "array, then texts": json.dumps(ROWS[:2]) + "\n" + "\n".join(map(json.dumps, ROWS[2:])),
    "texts, pretty": "\n".join(json.dumps(row, indent=2) for row in ROWS),
    "texts without anything between": "".join(json.dumps(row) for row in ROWS),
    "not ASCII": "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS),
}


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "with a UTF-8 mark"])
@pytest.mark.parametrize("packed", [False, True], ids=["", "gzip"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_records(layout: str, packed: bool, mark: bytes, tmp_path: Path) -> None:
    data = mark + LAYOUTS[layout].encode()
    file = tmp_path / "f.json"
    file.write_bytes(gzip.compress(data) if packed else data)
    assert _values(file) == ROWS


def test_an_array_of_messages_is_one_record_on_a_line_and_over_lines(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    file = tmp_path / "f.json"
    file.write_text(json.dumps(chat) + "\n" + json.dumps(chat))
    assert _values(file) == [chat, chat]
    file.write_text(json.dumps(chat, indent=1))
    assert _values(file) == [chat]
    file.write_text(json.dumps([chat, chat]))
    assert _values(file) == [chat, chat]


def test_one_value_longer_than_what_is_read_at_a_time(tmp_path: Path) -> None:
    rows = [{"text": "x" * 300_000}, {"text": "ä" * 300_000}, {"n": 1}]
    file = tmp_path / "f.json"
    file.write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
    assert _values(file) == rows


def test_a_broken_element_of_a_pretty_array_is_told_by_its_line(tmp_path: Path) -> None:
    text = json.dumps([{"a": 1}, {"a": 2}, {"a": 3}], indent=2).replace('"a": 2', '"a" 2')
    file = tmp_path / "f.json"
    file.write_text(text)
    first, broken, last = _read(file)
    assert (first, last) == (Record(2, {"a": 1}), Record(8, {"a": 3}))
    assert isinstance(broken, Broken)
    assert (broken.line, broken.reason) == (5, "not JSON: Expecting ':' delimiter (line 6)")


def test_what_follows_an_array_is_read_or_reported(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    file.write_text('[{"a": 1}]\n]\n[{"a": 2}]\n[{"a": 3}, {"a"\n')
    *read, broken = _read(file)
    assert read == [Record(1, {"a": 1}), Record(3, {"a": 2}), Record(4, {"a": 3})]
    assert isinstance(broken, Broken)
    assert broken.line == 4


def test_a_cut_gzip_file_gives_what_is_readable_and_says_where_it_ends(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"n": n, "text": str(n) * 50}) + "\n" for n in range(20_000)).encode()
    packed = gzip.compress(lines)
    file = tmp_path / "f.jsonl.gz"
    file.write_bytes(packed[: len(packed) // 2])
    found = _read(file)
    assert len(found) > 1000
    assert all(isinstance(one, Record) for one in found[:-1])
    assert isinstance(found[-1], Broken)
    assert "cut or damaged" in found[-1].reason


def test_rows_of_csv_with_a_cut_last_one(tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text('"id","text"\r\n"1","two\nlines"\r\n"2"\r\n', newline="")
    first, broken = _read(file)
    assert first == Record(2, {"id": "1", "text": "two\nlines"})
    assert isinstance(broken, Broken)
    assert (broken.line, broken.reason) == (4, "the row does not have the 2 cells of the header")


def test_a_cell_of_csv_may_be_longer_than_pythons_limit(tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text('"id"\n"' + "x" * 200_000 + '"\n')
    assert _values(file) == [{"id": "x" * 200_000}]


@given(lines=st.lists(st.binary(max_size=40), max_size=6))
def test_no_bytes_stop_the_reading(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(b"\n".join([b'{"a": 1}', *lines, b'{"b": 2}']))
    file = InputFile(path=str(path), name="any", size=1, modified=0)
    values = [record.value for record in records(file) if isinstance(record, Record)]
    assert values[0] == {"a": 1}
    assert values[-1] == {"b": 2}


BAD_FILES = {
    "empty": (b"", "is empty"),
    "only white": (b" \n \n", "is empty"),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\x00\x00", "is a binary file"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "is UTF-16"),
    "Latin-1": ('{"ä": "ö"}'.encode("latin-1"), "is not UTF-8 text"),
    "prose": (b"Dear all,\nplease find attached\n", "is neither JSON nor CSV"),
    "Parquet": (b"PAR1" + bytes(20), "is Parquet"),
    "damaged gzip": (b"\x1f\x8b\x08\x00broken", "is not a readable gzip file"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_file_that_cannot_be_used_at_all_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    data, reason = BAD_FILES[kind]
    file = tmp_path / "f.jsonl"
    file.write_bytes(data)
    with pytest.raises(InputError, match=reason) as refused, collected([str(file)]):
        pass
    assert str(file) in str(refused.value)


def test_a_missing_path_and_a_folder_without_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"), collected([str(tmp_path / "no")]):
        pass
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(InputError, match="has no file to import"), collected([str(tmp_path)]):
        pass


def test_a_folder_is_walked_in_order_for_known_names(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a/z.json", "a/y.NDJSON.gz", "c.csv", ".hidden.json", "notes.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        data = b'{"a": 1}'
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with collected([str(tmp_path)]) as files:
        names = [str(Path(file.name).relative_to(tmp_path)) for file in files]
    assert names == ["a/y.NDJSON.gz", "a/z.json", "b.jsonl", "c.csv"]
