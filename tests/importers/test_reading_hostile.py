"""Files that are huge, damaged or made to do harm: a sentence or a reject, and what is good comes in."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replaydiff.importers.base import InputFile
from replaydiff.importers.collect import collected
from replaydiff.importers.reading import RECORD_BYTES, Broken, Record, records
from replaydiff.replay.errors import InputError
from tests.stand_ins.full import examples, full

MB = 1_000_000
A, B, C = '{"a": 1}', '{"b": 2}', '{"c": 3}'


def _read(path: Path) -> list[Record | Broken]:
    with collected([str(path)]) as (file,):
        return list(records(file))


@pytest.fixture
def big_path(tmp_path: Path) -> Iterator[Path]:
    """A folder that does not outlive the test: the folders of the last runs are kept else."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def _good(found: list[Record | Broken]) -> list[object]:
    return [one.value for one in found if isinstance(one, Record)]


def _bad(found: list[Record | Broken]) -> list[tuple[int, str]]:
    return [(one.line, one.reason) for one in found if isinstance(one, Broken)]


def _long(start: str, end: str, size: int) -> Iterator[str]:
    yield start
    for _ in range(size // MB):
        yield "x" * MB
    yield end


def _write(path: Path, *parts: str | Iterator[str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        for part in parts:
            file.writelines(part)
    return path


@pytest.mark.parametrize("name", ["f.jsonl", pytest.param("f.json", marks=full)])
@pytest.mark.slow
def test_a_record_of_200_mb_is_a_reject_between_its_neighbours(name: str, big_path: Path) -> None:
    big = _long('{"b": "', '"}', 2 * RECORD_BYTES)
    if name == "f.json":
        path = _write(big_path / name, "[\n", A, ",\n", big, ",\n", C, "\n]\n")
    else:
        path = _write(big_path / name, A, "\n", big, "\n", C, "\n")
    found = _read(path)
    assert _good(found) == [{"a": 1}, {"c": 3}]
    ((line, reason),) = _bad(found)
    assert line == (3 if name == "f.json" else 2)
    assert reason.startswith("larger than 100 MB")


def test_a_cell_of_200_mb_is_a_reject_between_its_neighbours(big_path: Path) -> None:
    big = _long('"2","', '"\r\n', 2 * RECORD_BYTES)
    found = _read(_write(big_path / "f.csv", '"id","text"\r\n"1",""\r\n', big, '"3","a ""b"""\r\n'))
    assert _good(found) == [{"id": "1", "text": ""}, {"id": "3", "text": 'a "b"'}]
    assert [line for line, _ in _bad(found)] == [3]


def test_a_large_element_of_an_array_on_one_line_ends_it_and_says_so(big_path: Path) -> None:
    big = _long('{"b": "', '"}', 2 * RECORD_BYTES)
    found = _read(_write(big_path / "f.json", "[", A, ",", big, ",", C, "]"))
    assert _good(found) == [{"a": 1}]
    ((_, reason),) = _bad(found)
    assert reason.endswith("nothing after it in the array could be read")


def test_a_broken_element_of_an_array_on_one_line_says_that_the_rest_is_lost(tmp_path: Path) -> None:
    found = _read(_write(tmp_path / "f.json", f'[{A}, {{"b" 2}}, {C}]'))
    assert _good(found) == [{"a": 1}]
    assert [reason.partition(" (")[0] for _, reason in _bad(found)] == ["not JSON: Expecting ':' delimiter"]
    assert "nothing after it" in _bad(found)[0][1]


@pytest.mark.parametrize("deep", ["[" * 10_000 + "]" * 10_000, '{"a":' * 10_000, "[" * 10_000])
def test_ten_thousand_brackets_are_a_reject(deep: str, tmp_path: Path) -> None:
    for name, text in (
        ("f.jsonl", f"{A}\n{deep}\n{C}\n"),
        ("f.json", f"[\n{A},\n{deep},\n{C}\n]"),
        ("g.json", f'{{"a":\n1}}\n{deep}\n{C}\n'),
    ):
        found = _read(_write(tmp_path / name, text))
        assert _good(found) == [{"a": 1}, {"c": 3}]
        assert "nested too deeply" in _bad(found)[0][1]


@pytest.mark.parametrize("depth", [100, 400, 700, 950, 990])
def test_nesting_near_the_limit_is_read_or_rejected(depth: int, tmp_path: Path) -> None:
    deep = "[" * depth + '"\\u0000\\ud800"' + "]" * depth
    for name, text in (("f.jsonl", f"{A}\n{deep}\n{C}\n"), ("f.json", f"[\n{A},\n{deep},\n{C}\n]")):
        found = _read(_write(tmp_path / name, text))
        assert _good(found)[0] == {"a": 1}
        assert _good(found)[-1] == {"c": 3}
        assert len(found) == 3


@pytest.mark.parametrize(
    "byte",
    [b"\x00", b"\n", pytest.param(b"[", marks=full), pytest.param(b" ", marks=full)],
    ids=["NUL", "line ends", "brackets", "spaces"],
)
@pytest.mark.slow
def test_a_gzip_bomb_is_given_up_in_little_memory(byte: bytes, tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(A.encode() + b"\n")
        for _ in range(100):
            file.write(byte * MB)
    found = _read(path)
    assert _good(found) == [{"a": 1}]
    assert "unpacks to more than 200 times its size" in _bad(found)[-1][1]


def test_a_gzip_file_that_shrank_well_is_no_bomb(tmp_path: Path) -> None:
    row = json.dumps({"text": "You are a support agent. " * 40})
    path = tmp_path / "f.jsonl.gz"
    with gzip.open(path, "wt") as file:
        for number in range(70_000):
            file.write(f'{{"n": {number * 7919 % 99_991}, "row": {row}}}\n')
    with collected([str(path)]) as (file_,):
        assert sum(isinstance(record, Record) for record in records(file_)) == 70_000


def test_memory_does_not_depend_on_the_size_of_the_file(tmp_path: Path) -> None:
    cell = json.dumps({"text": "wide " * 1_000})
    with (tmp_path / "f.csv").open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["id", "row"], *[[n, cell] for n in range(4_000)]])
    _write(
        tmp_path / "f.json",
        "[",
        (f'{"," if n else ""}{{"n": {n}, "row": {cell}}}' for n in range(4_000)),
        "]",
    )
    for name in ("f.csv", "f.json"):
        with collected([str(tmp_path / name)]) as (source,):
            tracemalloc.start()
            assert sum(isinstance(record, Record) for record in records(source)) == 4_000
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 3 * MB, name


def test_nul_in_one_record_is_that_records_fault(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'{"a": "\x00"}\n{"b": "\\u0000"}\n' + b"\x00" * 50 + b"\n")
    found = _read(path)
    assert _good(found) == [{"b": "\ufffd"}]
    assert [line for line, _ in _bad(found)] == [1, 3]
    path = tmp_path / "f.csv"
    path.write_bytes(b'"a"\n"x\x00y"\n')
    assert _good(_read(path)) == [{"a": "x\ufffdy"}]


def test_bytes_of_another_encoding_reject_their_row_alone(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes('"id","text"\n"1","für"\n'.encode() + '"2","für"\n"3",""\n'.encode("latin-1"))
    found = _read(path)
    assert _good(found) == [{"id": "1", "text": "für"}, {"id": "3", "text": ""}]
    assert _bad(found) == [(3, "not UTF-8")]


def test_cells_that_spreadsheets_take_for_formulas_are_text(tmp_path: Path) -> None:
    cells = ['=HYPERLINK("http://x","y")', "+1", "-1", "@SUM(A1)", "\t=1", "=cmd|' /C calc'!A0"]
    path = tmp_path / "f.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b"], *[[cell, "x"] for cell in cells]])
    assert _good(_read(path)) == [{"a": cell, "b": "x"} for cell in cells]


def test_csv_in_quotes_is_known_whatever_the_file_is_called(tmp_path: Path) -> None:
    path = _write(tmp_path / "export", '"id","text"\r\n"1","two"\r\n')
    assert _good(_read(path)) == [{"id": "1", "text": "two"}]


def test_rows_go_on_after_a_quote_that_does_not_belong(tmp_path: Path) -> None:
    found = _read(_write(tmp_path / "f.csv", '"a","b"\n"1","x"y"\n"2","z"\n\n"3","w"\n'))
    assert _good(found) == [{"a": "2", "b": "z"}, {"a": "3", "b": "w"}]
    assert [line for line, _ in _bad(found)] == [2]
    found = _read(_write(tmp_path / "f.csv", '"a","b"\n"2","z"\n"1","never closed\n'))
    assert _good(found) == [{"a": "2", "b": "z"}]
    assert _bad(found) == [(3, "not CSV: unexpected end of data")]


NAMES = ["it's.jsonl", 'say "hi".jsonl', "a;b --.jsonl", "100%.jsonl", "*[1]?.jsonl", "új\nline.jsonl"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_file_will_do(name: str, tmp_path: Path) -> None:
    assert _good(_read(_write(tmp_path / name, f"{A}\n{B}\n"))) == [{"a": 1}, {"b": 2}]
    packed = tmp_path / name.replace("jsonl", "parquet")
    _parquet(tmp_path / "plain", "SELECT 1 AS a").rename(packed)
    assert _good(_read(packed)) == [{"a": 1}]


def _parquet(path: Path, query: str, options: str = "") -> Path:
    with duckdb.connect() as con:
        con.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet{options})")
    return path


def test_parquet_gives_its_rows_as_json(tmp_path: Path) -> None:
    query = """
        SELECT 'plain' AS text, '[1, {"a": 2}]' AS json, map {'k': 'v'} AS map, [1, NULL] AS list,
               {'x': {'y': 1.5}} AS struct, NULL AS nothing, true AS yes, 12.5::DECIMAL(9, 2) AS price,
               TIMESTAMP '2026-11-01 10:00:00.5' AS naive,
               TIMESTAMPTZ '2026-11-01 10:00:00+02' AS zoned,
               'text as bytes'::BLOB AS bytes, '\\xff'::BLOB AS noise, 'nan'::DOUBLE AS nan, 'a' AS "x""y'z"
    """
    (row,) = _good(_read(_parquet(tmp_path / "f.parquet", query)))
    assert row == {
        "text": "plain",
        "json": '[1, {"a": 2}]',
        "map": {"k": "v"},
        "list": [1, None],
        "struct": {"x": {"y": 1.5}},
        "nothing": None,
        "yes": True,
        "price": 12.5,
        "naive": "2026-11-01 10:00:00.5",
        "zoned": "2026-11-01 08:00:00+00",
        "bytes": "text as bytes",
        "noise": "/w==",
        "nan": None,
        "x\"y'z": "a",
    }


def test_parquet_is_read_in_order_over_row_groups_and_progress_follows(tmp_path: Path) -> None:
    query = "SELECT n, repeat('x', 2000) AS text FROM range(20000) AS found(n)"
    path = _parquet(tmp_path / "f.parquet", query, ", row_group_size 2048, compression zstd")
    with collected([str(path)]) as (file,):
        seen = []
        for number, found in enumerate(records(file), start=1):
            assert isinstance(found, Record)
            assert found.line == number
            assert isinstance(found.value, dict)
            seen.append(found.value["n"])
            if number == 10_000:
                assert 0.4 < file.position / file.size < 0.6
        assert seen == list(range(20_000))
        assert file.position == file.size


@pytest.mark.slow
def test_a_row_of_parquet_that_is_too_large_is_a_reject(tmp_path: Path) -> None:
    query = (
        "SELECT n, repeat('x', CASE WHEN n = 1 THEN 120000000 ELSE 3 END) AS text FROM range(3) AS found(n)"
    )
    found = _read(_parquet(tmp_path / "f.parquet", query))
    assert _good(found) == [{"n": 0, "text": "xxx"}, {"n": 2, "text": "xxx"}]
    assert [line for line, _ in _bad(found)] == [2]


@settings(max_examples=examples(25, 60), deadline=None)
@given(place=st.floats(0, 1), noise=st.binary(min_size=1, max_size=30))
@pytest.mark.slow
def test_damage_anywhere_in_a_parquet_file_is_told(
    place: float, noise: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = folder / "whole.parquet"
    if not whole.exists():
        _parquet(whole, "SELECT n, 'text ' || n AS text FROM range(500) AS found(n)", ", row_group_size 100")
    data = bytearray(whole.read_bytes())
    start = 4 + int(place * (len(data) - 8))
    data[start : start + len(noise)] = noise
    path = folder / "damaged.parquet"
    path.write_bytes(data)
    file = InputFile(path=str(path), name="damaged.parquet", size=len(data), modified=0)
    for record in records(file):
        assert isinstance(record, Record | Broken)
        assert str(folder) not in getattr(record, "reason", "")


@given(noise=st.binary(max_size=80), name=st.sampled_from(["f.json", "f.csv", "f.jsonl.gz", "f"]))
def test_no_noise_stops_the_reading(
    noise: bytes, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    data = b'[{"a": 1},\n' + noise + b'\n{"b": 2}]\n"x","y"\n' + noise
    path.write_bytes(gzip.compress(data)[: len(noise) - 90] if name.endswith(".gz") else data)
    file = InputFile(path=str(path), name=name, size=len(data), modified=0)
    assert all(isinstance(record, Record | Broken) for record in records(file))


REFUSED = {
    "Parquet without an end": (b"PAR1" + bytes(20), "is Parquet whose end is missing"),
    "Parquet inside gzip": (gzip.compress(b"PAR1" + bytes(20)), "is Parquet inside gzip"),
    "zstd": (b"\x28\xb5\x2f\xfd\x00\x00", "is packed .zstd.; unpack it first, e.g. with `zstd -d`"),
    "ZIP": (b"PK\x03\x04\x14\x00", "is packed .a ZIP archive."),
    "UTF-16 without a mark": ('{"a": 1}'.encode("utf-16-le"), "is UTF-16"),
    "an array of nothing": (b"[ ]".replace(b" ", b""), "is empty"),
    "binary CSV": (b"\x00\x01\x02,\x00\n1,2\n", "is a binary file"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_read_at_all_is_refused_with_what_to_do(kind: str, tmp_path: Path) -> None:
    data, reason = REFUSED[kind]
    path = tmp_path / ("f.csv" if "CSV" in kind else "f.json")
    path.write_bytes(data)
    with pytest.raises(InputError, match=reason) as refused, collected([str(path)]):
        pass
    assert str(path) in str(refused.value)


def test_empty_files_of_a_folder_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    (tmp_path / "b.json").write_bytes(b"\xef\xbb\xbf[]\n")
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(InputError, match="are all empty"), collected([str(tmp_path)]):
        pass
    (tmp_path / "d.jsonl").write_text(A)
    with collected([str(tmp_path)]) as files:
        assert [Path(file.name).name for file in files] == ["d.jsonl"]


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    folder, secret = tmp_path / "traces", tmp_path / "secret.jsonl"
    folder.mkdir()
    line = '{"trace_id": "a", "input": "x"}\n'
    (folder / "a.jsonl").write_text(line)
    secret.write_text('{"password": "p"}\n')
    (folder / "b.jsonl").symlink_to(secret)
    (folder / "c.jsonl").symlink_to("/dev/zero")
    (folder / "d.jsonl").symlink_to("a.jsonl")
    os.mkfifo(folder / "e.jsonl")
    with collected([str(folder)]) as found:
        assert [Path(file.name).name for file in found] == ["a.jsonl", "d.jsonl"]
    # A link that is named itself is meant.
    with collected([str(folder / "b.jsonl")]) as found:
        assert len(found) == 1


def test_a_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    for name in ("/dev/zero", str(tmp_path / "zero.jsonl")):
        with pytest.raises(InputError, match="is a device"), collected([name]):
            pass
