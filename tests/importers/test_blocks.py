"""Blocks of lines are the same in another process, which reads them from the file."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from replaydiff.importers.base import InputFile
from replaydiff.importers.block import JsonBlock
from replaydiff.importers.reading.json_values import blocks
from replaydiff.replay.errors import UnavailableError

LINES = b'\xef\xbb\xbf{"a": 1}\r\n\n' + b"{}" * 40 + b"\n" + b'  {"b": "\xc3\xa4"}\n\n\n{"c": 3}'


def _file(path: Path) -> InputFile:
    return InputFile(path=str(path), name=path.name, size=0, modified=0.0, lines=True)


def _lines(found: list[JsonBlock]) -> list[tuple[int, bytes]]:
    return [line for block in found for line in block]


@pytest.fixture(params=[1, 10, 25, 1000])
def block_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("replaydiff.importers.reading.json_values.BLOCK_BYTES", request.param)
    return int(request.param)


@pytest.mark.usefixtures("block_bytes")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("record_bytes", [30, 1000])
def test_another_process_reads_the_same_lines(
    packed: bool, record_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A longer line is cut, and the next one is found all the same.
    monkeypatch.setattr("replaydiff.importers.reading.json_values.RECORD_BYTES", record_bytes)
    path = tmp_path / "f.jsonl"
    path.write_bytes(gzip.compress(LINES) if packed else LINES)
    found = list(blocks(_file(path)))
    sent = [pickle.loads(pickle.dumps(block)) for block in found]
    assert _lines(sent) == _lines(found)
    numbers = [number for number, _ in _lines(found)]
    assert numbers == [1, 3, 4, 7]
    assert _lines(found)[0] == (1, b'{"a": 1}')
    assert _lines(found)[2:] == [(4, '{"b": "ä"}'.encode()), (7, b'{"c": 3}')]


def test_the_text_of_a_file_is_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b"{}\n" * 10_000)
    [block] = blocks(_file(path))
    assert len(pickle.dumps(block)) < 1_000


def test_the_folder_of_the_other_process_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.jsonl").write_bytes(b"{}\n")
    [block] = blocks(_file(Path("f.jsonl")))
    sent = pickle.dumps(block)
    monkeypatch.chdir("/")
    assert list(pickle.loads(sent)) == [(1, b"{}")]


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"{}\n")])
def test_a_file_that_is_gone_or_cut_is_named(change: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b"{}\n" * 10)
    [block] = blocks(_file(path))
    sent = pickle.loads(pickle.dumps(block))
    change(path)
    with pytest.raises(UnavailableError, match=r"f\.jsonl was moved or cut while it was read"):
        list(sent)
    assert len(block) == 10
