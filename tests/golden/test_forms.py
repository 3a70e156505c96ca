"""A golden set in any form is the same cases; writing one leaves the others alone; hostile files are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from replaydiff.cases.golden import add_cases, take_back
from replaydiff.replay.errors import InputError
from replaydiff.replay.golden import case_of, csv_form, read_golden, yaml_form
from replaydiff.replay.golden.splicing import pieces_of, with_case, without
from tests.stand_ins.full import examples

YAML = """\
# The golden set of the shop.

# asked by Ada
- id: a
  input: where is order 7?   # the first one
  expected_tools: [get_order]
  metadata: {last_reviewed: 2026-11-01}
# of Norway
- id: c
  input: |
    # not a comment
    x
  expected_answer: no
"""
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["no", "2026-11-20", "0o14", "1_000", "12:30", "~", "- a", "a: b", "x\n y\n", "\n", "a\n\n\nb", ".5", "=", "a\n#b\n"]
)  # fmt: skip
_value = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-99, 99)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)
_records = st.lists(
    st.builds(
        lambda i, t, x: {"id": i, "input": t, "x": x}, st.text("abc", min_size=1, max_size=3), _text, _value
    ),
    max_size=4,
    unique_by=lambda record: record["id"],
)


@settings(max_examples=examples(25, 100), deadline=None)
@given(_value)
def test_yaml_reads_back_here_and_by_the_older_rules(value: Any) -> None:
    written = yaml_form.dump([value])
    assert yaml_form.load(written).value == [value]
    assert json.dumps(yaml.safe_load(written)) == json.dumps([value])


@settings(max_examples=examples(25, 100), deadline=None)
@given(
    _records, st.sampled_from(["g.jsonl", "g.json", "g.yaml"]), st.sampled_from(["", "[]\n", "[\r\n]\r\n"])
)
def test_cases_go_in_sorted_and_out_again(records: list[dict[str, Any]], name: str, text: str) -> None:
    path, text = Path(name), text if name == "g.json" else ""
    for record in records:
        text = with_case(path, text, record)
    pieces = pieces_of(path, text)
    assert [piece.record for piece in pieces] == sorted(records, key=lambda record: record["id"])
    for place, piece in enumerate(pieces):
        left = [found.record for found in pieces_of(path, without(path, text, piece))]
        assert left == [found.record for at, found in enumerate(pieces) if at != place]


@settings(max_examples=examples(25, 100), deadline=None)
@given(_records)
def test_a_table_reads_back(records: list[dict[str, Any]]) -> None:
    said = [
        {name: value for name, value in one.items() if value is not None and str(value).strip()}
        for one in records
    ]
    wanted = [{"input": "x", **record} for record in said]
    assert [piece.record for piece in csv_form.rows(csv_form.table(wanted))] == wanted


def test_a_promotion_into_yaml_is_added_lines_and_undone(tmp_path: Path) -> None:
    golden = tmp_path / "golden.yaml"
    golden.write_text(YAML)
    case = case_of({"id": "b", "input": "two\nlines", "expected_tools": ["t"], "metadata": {"owner": "no"}})
    add_cases(golden, [case])
    block = (
        '- id: b\n  input: |-\n    two\n    lines\n  expected_tools:\n    - t\n  metadata:\n    owner: "no"\n'
    )
    assert golden.read_text() == YAML.replace("# of Norway\n", f"{block}# of Norway\n")
    assert [one.expectation.answer for one in read_golden(golden)] == [None, None, "no"]
    take_back(golden, case)
    assert golden.read_text() == YAML


def test_line_ends_and_marks_stay_as_they_are(tmp_path: Path) -> None:
    golden = tmp_path / "golden.jsonl"
    before = b'\xef\xbb\xbf{"id": "a", "input": "x \xe2\x80\xa8 y"}\r\n'
    golden.write_bytes(before)
    add_cases(golden, [case_of({"id": "b", "input": "z"})])
    assert golden.read_bytes() == before + b'{"id": "b", "input": "z"}\r\n'


def test_a_flat_table_is_a_golden_set(tmp_path: Path) -> None:
    table = tmp_path / "golden.csv"
    table.write_text(
        "\ufeffid;question;expected_answer;tags;max_latency_ms;expected_tool_calls;metadata.owner\r\n"
        'a;"who; ""you""?";3;smoke, x;1500;[];Ada\r\n'
    )
    (case,) = read_golden(table)
    assert (case.input, case.expectation.answer, case.tags) == ('who; "you"?', "3", ("smoke, x",))
    assert (case.expectation.max_latency_ms, case.expectation.tool_calls) == (1500, ())
    assert case.provenance.owner == "Ada"


_BOMB = "- &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"- &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("g.jsonl", b"\xff\xfe{\x00", "g.jsonl is UTF-16 text; save it as UTF-8"),
        ("g.jsonl", b'{"id":"a","input":"x"}\n{"id":"b\xe9"}\n', "g.jsonl:2: not UTF-8 text"),
        ("g.jsonl", b'{"id":"a","input":"x"}\n{"id":"b","inp', "g.jsonl:2: not valid JSON: the file ends within this line"),
        ("g.jsonl", b'{"id":"a","input":"x","id":"b"}', "g.jsonl:1: not valid JSON: the key 'id' comes twice"),
        ("g.jsonl", b'{"id":"a","input":"x","criteria":{"n":NaN}}', "NaN is not a JSON number"),
        ("g.jsonl", b'{"id":"a","input":"\\ud83d"}', "half a character"),
        ("g.jsonl", b'{"id":"a","input":' + b"[" * 99_999 + b"}", "nested deeper than 100"),
        ("g.jsonl", b'{"id":"a","input":1' + b"0" * 5000 + b"}", "a number has too many digits"),
        ("g.json", b'[{"id":"a","input":"x"},\n\n{"id":"b"}]', "g.json:3: a case needs `input`"),
        ("g.json", b'[{"id":"a","input":"x"}\n', "g.json:2: not valid JSON: the array has no end"),
        ("g.yaml", _BOMB.encode(), "g.yaml:7: not valid YAML: more than 2,000,000 values"),
        ("g.yaml", b'- id: a\n  input: !!python/object/apply:os.system ["id"]\n', "g.yaml:2: not valid YAML: tags such as"),
        ("g.yaml", b"- id: a\n  input: x\n  id: b\n", "g.yaml:3: not valid YAML: the key 'id' comes twice"),
        ("g.yaml", b"- id: a\n  max_cost_usd: .nan\n", "g.yaml:2: not valid YAML: .nan is not a JSON number"),
        ("g.yaml", b"[" * 900, "nested deeper than 100"),
        ("g.yaml", b"cases:\n- a\n", "g.yaml:1: a golden set in YAML is a list of cases"),
        ("g.csv", b'id,input\na,"x\n', "g.csv:2: not a row"),
        ("g.csv", b"id,input\na,x\nb,z,w\n", "g.csv:3: the row has 3 cells and the first line 2 names"),
        ("g.csv", b"id,prompt\na,x\n", "g.csv:1: not a table of cases"),
        ("g.csv", b"input,tape\na,nope\n", "g.csv:2: column tape: not valid JSON"),
    ],
)  # fmt: skip
def test_a_hostile_file_ends_with_a_sentence(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_golden(tmp_path / name)
    assert said in str(caught.value)
