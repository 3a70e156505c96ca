"""JUnit XML held against the schema that CI systems use, and its counts against its nodes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from replaydiff.reports import registry
from tests.reports import results


@cache
def schema() -> Any:
    # Half a second, which only the process that runs these tests has to pay.
    import xmlschema

    return xmlschema.XMLSchema(Path(__file__).parent / "junit.xsd")


def parse(name: str) -> ElementTree.Element:
    return ElementTree.fromstring(registry.render(results.ALL[name](), "junit").encode())


@pytest.mark.parametrize("name", results.ALL)
def test_it_follows_the_schema(name: str) -> None:
    root = parse(name)
    assert root.tag == "testsuites"
    schema().validate(root)


@pytest.mark.parametrize(
    ("find", "attribute", "value"),
    [("testsuite", "tests", "many"), (".//testcase", "time", "1 s"), (".//failure", "colour", "red")],
)
def test_the_schema_takes_not_everything(find: str, attribute: str, value: str) -> None:
    root = parse("hold")
    root.find(find).set(attribute, value)
    assert not schema().is_valid(root)


@pytest.mark.parametrize("name", results.ALL)
def test_counts_are_those_of_the_nodes(name: str) -> None:
    root = parse(name)
    suite = root.find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    nodes = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    assert int(suite.get("tests", "")) == len(cases) == len(results.ALL[name]().items)
    for attribute, tag in nodes.items():
        assert int(suite.get(attribute, "")) == len(suite.findall(f"testcase/{tag}"))
    assert all(sum(child.tag in nodes.values() for child in case) <= 1 for case in cases)
    assert {key: root.get(key) for key in ("tests", "failures", "errors")} == {
        key: suite.get(key) for key in ("tests", "failures", "errors")
    }


@pytest.mark.parametrize(
    ("name", "failures", "errors", "skipped"),
    [("hold", 5, 0, 2), ("all_errors", 0, 4, 0), ("one_lane", 2, 0, 1)],
)
def test_verdicts_become_outcomes(name: str, failures: int, errors: int, skipped: int) -> None:
    suite = parse(name)[0]
    figures = [int(suite.get(key, "")) for key in ("failures", "errors", "skipped")]
    assert figures == [failures, errors, skipped]


def test_a_failure_says_why() -> None:
    failure = parse("one_lane").find(".//failure")
    assert failure is not None
    assert failure.get("type") == "failed"
    assert "called cancel_order without get_order_status first" in failure.get("message", "")
    skipped = parse("hold").find(".//skipped")
    assert skipped is not None
    assert skipped.get("message") == "inconclusive: tool_calls: 1 of 3 new trials have no score"


def test_an_error_names_how_the_trial_ended() -> None:
    errors = parse("all_errors").findall(".//error")
    assert "new trial 1 ended agent_error: it ended in agent_error" in errors[0].get("message", "")
