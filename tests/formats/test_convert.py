"""`replay cases convert`: every format and back gives the same cases, and what it cannot say is told."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replaydiff.cases.formats import bridge
from replaydiff.cases.formats.bridge import FORMATS, load
from replaydiff.cases.formats.convert import GOLDEN_FORMS, NAMES, read, write
from replaydiff.replay.golden import case_of, case_to_json, read_golden
from tests.commands.conftest import Replay
from tests.stand_ins.full import examples

CASES: list[dict[str, Any]] = [
    {
        "id": "order", "input": "where is order 7?",
        "expected_tool_calls": [
            {"name": "get_order", "args": {"id": 7}}, {"name": "get_order", "args": {"id": 8}}, {"name": "tell"},
        ],
        "match": {"mode": "in_order", "args": "exact", "tools": {"tell": "ignore"}},
        "expected_response_traits": ["says shipped", "is kind"],
        "max_latency_ms": 1500, "max_cost_usd": 0.01,
        "tape": [{"name": "get_order", "args": {"id": 7}, "result": {"state": "shipped"}}],
        "tags": ["smoke"], "category": "orders", "difficulty": "easy", "tone": "kind",
        "metadata": {"trace_id": "t1", "owner": "Ada", "quarantine": {"owner": "Bo"}, "odd": {"a": [1, None, "é"]}},
    },
    {"id": "no-call", "input": "hi", "expected_tool_calls": []},
    {"id": "paris", "input": "capital of France?", "expected_answer": "Paris", "tolerance": "exact_match"},
    {
        "id": "sum", "input": "2+2", "expected_tools": ["add"], "expected_answer": "4",
        "tolerance": "numeric_close", "metadata": {"category": "theirs", "tags": ["x"]},
    },
    {
        "id": "talk", "input": "and then?",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "and then?"}],
        "expected_answer": "because", "tolerance": "semantic_similar", "criteria": {"grounded": True},
    },
    {"id": "unsaid", "input": 'x\ny "q" ; ,', "expected_answer": "no", "expected_state": {"n": 0.5}},
]  # fmt: skip


def _golden(folder: Path) -> Path:
    file = folder / "golden.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in CASES), encoding="utf-8")
    return file


def _endings() -> list[tuple[str, str]]:
    own = [(name, f".{name}") for name in GOLDEN_FORMS]
    return own + [(name, ending) for name in FORMATS for ending in load(name).ENDINGS]


@pytest.mark.parametrize(("name", "ending"), _endings())
def test_there_and_back_gives_the_same_cases(replay: Replay, tmp_path: Path, name: str, ending: str) -> None:
    golden = _golden(tmp_path)
    there, back = tmp_path / f"there{ending}", tmp_path / "back.jsonl"
    assert replay("cases", "convert", str(golden), str(there), "--to", name).code == 0
    done = replay("cases", "convert", str(there), str(back))
    assert f"read as {name}" in done.err
    assert read_golden(back) == read_golden(golden)


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_word = st.text(string.ascii_letters, min_size=1, max_size=5)
_value = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_word, inner, max_size=2),
    max_leaves=4,
)
_calls = st.lists(st.builds(lambda n, a: {"name": n} | ({} if a is None else {"args": a}),
                            st.sampled_from("ab"), st.none() | st.dictionaries(_word, _value, max_size=2)), max_size=3)  # fmt: skip
_cases = st.fixed_dictionaries(
    {"id": _word, "input": _text.filter(str.strip)},
    optional={
        "expected_tool_calls": _calls,
        "match": st.fixed_dictionaries(
            {},
            optional={
                "mode": st.sampled_from(["in_order", "unordered", "superset"]),
                "args": st.sampled_from(["exact", "ignore"]),
            },
        ),
        "expected_tools": st.lists(_word, max_size=2),
        "expected_response_traits": st.lists(_text, min_size=1, max_size=2),
        "expected_answer": _text,
        "tolerance": st.sampled_from(["exact_match", "numeric_close", "semantic_similar"]),
        "max_latency_ms": st.floats(0, 1e4),
        "tags": st.lists(_word, min_size=1, max_size=2),
        "category": _word,
        "zeal": _value.filter(lambda value: value is not None),
        "metadata": st.dictionaries(
            st.sampled_from(["category", "tags", "tone"]), _value, min_size=1, max_size=2
        ),
    },
)


@settings(max_examples=examples(20, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_cases, st.sampled_from(sorted(FORMATS)))
def test_any_case_survives_any_format(case: dict[str, Any], name: str) -> None:
    ours = case_of(case)
    foreign, _ = bridge.to_foreign(case_to_json(ours), name, load(name))
    assert case_of(bridge.to_case(json.loads(json.dumps(foreign)), name, load(name)).case) == ours


THEIRS: dict[str, Any] = {
    "promptfoo": {
        "vars": {"question": "Who?", "language": "no"}, "options": {"transform": "x"}, "metadata": {"team": "a"},
        "assert": [{"type": "contains", "value": "Bob"}, {"type": "llm-rubric", "value": "polite"},
                   {"type": "equals", "value": 4}, {"type": "latency", "threshold": 90, "weight": 2}],
    },
    "inspect": {"input": "Who?", "target": ["Bob", "Ada"], "choices": ["Bob", "Eve"], "sandbox": "docker"},
    "deepeval": {
        "input": "Who?", "expected_output": "Bob", "context": ["c"], "comments": "mind the gap",
        "expected_tools": [{"name": "find", "inputParameters": {"q": 1}, "reasoning": "why"}],
    },
    "pydantic-evals": {
        "name": "who", "inputs": {"a": 1, "b": 2}, "expected_output": {"x": 1},
        "evaluators": [{"IsInstance": "str"}, {"LLMJudge": {"rubric": "polite", "model": "m"}}, "EqualsExpected"],
    },
    "langfuse": {
        "id": "i1", "datasetName": "d", "status": "ARCHIVED", "input": {"a": "x", "b": 2}, "sourceTraceId": "t",
        "expectedOutput": {"answer": "Bob", "score": 1}, "metadata": {"k": [1]}, "sourceObservationId": "o",
    },
    "openai-evals": {"item": {"question": "Who?", "ideal": ["Bob", "Ada"], "level": 3}},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(THEIRS))
def test_a_foreign_record_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    module = load(name)
    case = case_to_json(case_of(bridge.to_case(THEIRS[name], name, module).case))
    assert bridge.to_foreign(case, name, module)[0] == THEIRS[name]


def test_what_is_changed_in_the_other_tool_counts(tmp_path: Path) -> None:
    module = load("promptfoo")
    foreign, told = bridge.to_foreign(CASES[0], "promptfoo", module)
    assert told == ["match", "tape", "tone"]
    foreign["assert"] = [
        {"type": "trajectory:tool-sequence", "value": {"mode": "exact", "steps": ["cancel"]}}
    ]
    case = bridge.to_case(foreign, "promptfoo", module).case
    assert case["expected_tool_calls"] == [{"name": "cancel"}]
    assert case["tape"] == CASES[0]["tape"]


def test_what_nothing_acts_on_is_told_with_counts(replay: Replay, tmp_path: Path) -> None:
    tests = tmp_path / "promptfooconfig.yaml"
    tests.write_text(
        "providers: [echo]\n"
        "defaultTest: {assert: [{type: latency, threshold: 1}]}\n"
        "tests:\n"
        "  - {description: a, vars: {q: x}, assert: [{type: javascript, value: 'output'}]}\n"
        "  - {description: a, vars: {q: no}, assert: [{type: javascript, value: 'output'}]}\n"
    )
    done = replay("cases", "convert", str(tests), str(tmp_path / "g.jsonl"))
    assert done.code == 0
    assert "2 × assert javascript: kept in metadata.promptfoo; nothing here acts on it" in done.err
    assert "1 × defaultTest: about the whole file, not taken over" in done.err
    assert [(case.id, case.input) for case in read_golden(tmp_path / "g.jsonl")] == [
        ("a", "x"),
        ("a-2", "no"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "words", "said"),
    [
        ("a.json", '[{"input": "x", "target": "y"},\n{"target": "z"}]', (), "a.json:2: a case needs `input`"),
        ("a.yaml", "tests: file://b.yaml\n", (), "name the file that holds the test cases themselves"),
        ("a.yaml", "tests:\n- {vars: {a: 1}}\n- 3\n", (), "a.yaml:2: a record of promptfoo is an object"),
        ("a.jsonl", "", (), "has no cases"),
        ("a.jsonl", '{"id": "a", "input": "x"}', ("--from", "promptfo"), "there is no format 'promptfo'"),
        ("a.csv", 'input,expected_output\na,"b', (), "a.csv:2: not a row"),
        ("a.json", '{"input": "x"', (), "a.json:1: not valid JSON"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_says_where(
    replay: Replay, tmp_path: Path, name: str, text: str, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / name).write_text(text)
    done = replay("cases", "convert", str(tmp_path / name), str(tmp_path / "out.jsonl"), *words)
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "out.jsonl").exists()


def test_nothing_is_replaced_unless_asked(replay: Replay, tmp_path: Path) -> None:
    golden = _golden(tmp_path)
    assert replay("cases", "convert", str(golden), str(golden)).code == 2
    done = replay("cases", "convert", str(golden), "-", "--to", "yaml")
    assert done.out.startswith("- id: order\n")
    assert replay("cases", "convert", str(golden), str(tmp_path / "a.txt"), "--to", "langfuse").code == 2
    assert set(NAMES) == {*GOLDEN_FORMS, *FORMATS}


def _written(folder: Path, name: str, ending: str) -> Path:
    file = folder / f"cases{ending}"
    file.write_text(write(read_golden(_golden(folder)), file, name)[0], encoding="utf-8")
    return file


def test_pydantic_evals_loads_and_saves_it(tmp_path: Path) -> None:
    evals = pytest.importorskip("pydantic_evals")
    file = _written(tmp_path, "pydantic-evals", ".yaml")
    dataset = evals.Dataset[Any, Any, Any].from_file(file)
    assert [case.name for case in dataset.cases] == [case["id"] for case in CASES]
    dataset.to_file(tmp_path / "again.yaml", schema_path=None)
    assert read(tmp_path / "again.yaml").cases == read_golden(_golden(tmp_path))


def test_inspect_loads_and_saves_it(tmp_path: Path) -> None:
    dataset = pytest.importorskip("inspect_ai.dataset")
    samples = list(dataset.json_dataset(str(_written(tmp_path, "inspect", ".jsonl"))))
    assert [sample.target for sample in samples] == [case.get("expected_answer", "") for case in CASES]
    again = tmp_path / "again.jsonl"
    again.write_text("".join(sample.model_dump_json(exclude_none=True) + "\n" for sample in samples))
    assert read(again, "inspect").cases == read_golden(_golden(tmp_path))


def test_deepeval_loads_and_saves_it(tmp_path: Path) -> None:
    deepeval = pytest.importorskip("deepeval.dataset")
    dataset = deepeval.EvaluationDataset()
    dataset.add_goldens_from_json_file(file_path=str(_written(tmp_path, "deepeval", ".json")))
    assert [tool.input_parameters for tool in dataset.goldens[0].expected_tools] == [
        {"id": 7},
        {"id": 8},
        None,
    ]
    dataset.save_as(file_type="json", directory=str(tmp_path), file_name="again")
    assert read(tmp_path / "again.json", "deepeval").cases == read_golden(_golden(tmp_path))


def test_langfuse_takes_it_for_dataset_items(tmp_path: Path) -> None:
    from langfuse.api import DatasetItem
    from langfuse.api.core.pydantic_utilities import parse_obj_as

    rows = json.loads(_written(tmp_path, "langfuse", ".json").read_text())
    theirs = {
        "status": "ACTIVE", "datasetId": "d", "datasetName": "d", "createdAt": "2026-11-01T00:00:00Z",
        "updatedAt": "2026-11-01T00:00:00Z", "mediaReferences": [],
    }  # fmt: skip
    items = [
        parse_obj_as(DatasetItem, {"metadata": None, "expectedOutput": None, **theirs, **row}) for row in rows
    ]
    page = {"data": [json.loads(item.json()) for item in items]}
    (tmp_path / "page.json").write_text(json.dumps(page))
    found = [case_to_json(case) for case in read(tmp_path / "page.json").cases]
    for case in found:
        assert case.get("metadata", {}).pop("langfuse", {"rest": theirs})["rest"].keys() <= theirs.keys()
    wanted = [case_to_json(case) for case in read_golden(_golden(tmp_path))]
    assert [{"metadata": {}, **case} for case in found] == [{"metadata": {}, **case} for case in wanted]


def test_a_task_that_is_graded_by_its_end_state_expects_no_reads(replay: Replay, tmp_path: Path) -> None:
    actions = [
        {"requestor": "assistant", "name": name, "arguments": {"id": "7"}}
        for name in ("get_order", "cancel_order", "transfer_to_human_agents")
    ]
    task = {
        "id": "t",
        "user_scenario": {"instructions": "Cancel order 7."},
        "evaluation_criteria": {"actions": actions, "reward_basis": ["DB"]},
    }
    call = {"role": "assistant", "tool_calls": [{"id": "c", "name": "search_orders", "arguments": {}}]}
    (tmp_path / "results.json").write_text(
        json.dumps({"tasks": [task], "simulations": [{"task_id": "t", "messages": [call]}]})
    )
    done = replay("cases", "convert", str(tmp_path / "results.json"), str(tmp_path / "out.jsonl"))
    assert "1 × actions that change nothing" in done.err
    (case,) = read_golden(tmp_path / "out.jsonl")
    assert [call.name for call in case.expectation.tool_calls or ()] == ["cancel_order"]
    assert case.expectation.match.mode == "unordered"
    assert case.expectation.match.ignore_tools == ("get_order", "search_orders", "transfer_to_human_agents")
