"""One record of a golden set as a case, with the field named that is wrong, and a case as its record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime
from typing import Any, cast, get_args

from replaydiff.replay.errors import InputError
from replaydiff.replay.messages import canonical_args, conversation, decode, read_messages
from replaydiff.replay.model import (
    ASSERTIONS,
    Assertion,
    Case,
    Expectation,
    ExpectedCall,
    Item,
    JsonObject,
    Match,
    Message,
    NamedRule,
    PathRule,
    Provenance,
    Quarantine,
    ToolCall,
    ToolMatch,
)
from replaydiff.replay.model.sample import CONTENT_ID

_CASE_KEYS = {
    "id", "input", "question", "messages", "tape", "tags", "category", "difficulty", "metadata",
    "expected_tool_calls", "match", "expected_tools", "expected_response_traits", "expected_answer",
    "tolerance", "expected_fields", "criteria", "expected_state", "max_latency_ms", "max_cost_usd",
    "threshold", "assert",
}  # fmt: skip
_PROVENANCE = {field.name for field in fields(Provenance)} - {"extra"}
_MODES = ("strict", "in_order", "unordered", "subset", "superset")
_ARGS = ("exact", "subset", "ignore")


class CaseError(InputError):
    """A record is not a case; `field` is the dotted path of the error, empty for the whole record."""

    def __init__(self, where: str, field: str, reason: str) -> None:
        """Create the error; `where` is file and line, or empty."""
        super().__init__(f"{where}: {reason}" if where else reason)
        self.field = field
        self.reason = reason


def case_of(record: Any, where: str = "") -> Case:
    """Return the case of a record. Without an id it gets its content id, so that a run can name it.

    Raises:
        CaseError: it is none.
    """
    return _CaseReader(where, record).case()


def item_of(case: Case) -> Item:
    """Return a case as an item: its tape answers the tools, and its expectation is compared."""
    return Item(
        id=case.id,
        input=case.input,
        messages=case.messages,
        tape=case.tape,
        expectation=case.expectation,
        trace_id=case.provenance.trace_id,
        case_id=case.id,
        tags=case.tags,
        category=case.category,
        difficulty=case.difficulty,
        quarantine=case.provenance.quarantine,
        metadata=case.provenance.extra,
    )


def content_id(case: Case) -> str:
    """Return the hash by which duplicates are found: of input and expectation alone."""
    import msgspec

    hashed: JsonObject = {
        "input": case.input,
        "messages": [
            [message.role, message.text, *([message.parts] if message.parts is not None else [])]
            for message in case.messages
        ],
        # What is not expected does not count, so that a new kind of expectation leaves old ids as they are.
        "expectation": {
            key: value for key, value in msgspec.to_builtins(case.expectation).items() if value is not None
        },
    }
    return f"{CONTENT_ID}{hashlib.sha256(canonical_args(hashed).encode()).hexdigest()[:16]}"


class _CaseReader:
    """Reads one record, naming the place and the field of whatever is wrong with it."""

    def __init__(self, where: str, record: Any) -> None:
        if not isinstance(record, dict):
            raise CaseError(where, "", f"a case is a JSON object, not {type(record).__name__}")
        self._where, self._record = where, record

    def _wrong(self, field: str, requirement: str) -> CaseError:
        return CaseError(self._where, field, f"{field} must be {requirement}")

    def _get(self, field: str, kind: type | tuple[type, ...], requirement: str) -> Any:
        value = self._record.get(field)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise self._wrong(field, requirement)
        return value

    def _texts(self, field: str) -> tuple[str, ...]:
        values = self._get(field, list, "a list of texts") or []
        if not all(isinstance(value, str) for value in values):
            raise self._wrong(field, "a list of texts")
        return tuple(values)

    def case(self) -> Case:
        text = self._get("input", str, "text") or self._get("question", str, "text")
        messages = self._get("messages", list, "a list of messages")
        read = read_messages(messages) if messages else ()
        if text is None and not read:
            raise CaseError(self._where, "", "a case needs `input` (text) or `messages`")
        # What a case asks is its last turn, answered in its messages or not.
        run = conversation(read, input_only=True) if read else None
        provenance = self._provenance()
        expectation = self._expectation()
        name = self._get("id", (str, int), "text")
        case = Case(
            id="" if name is None else str(name),
            input=text if text is not None else run.input if run else "",
            messages=(run.messages or read or ()) if run else (),
            expectation=expectation,
            tape=self._tape(),
            tags=self._texts("tags"),
            category=self._get("category", str, "text"),
            difficulty=self._get("difficulty", str, "text"),
            provenance=provenance,
        )
        if case.id:
            return case
        # Older sets have no ids; the content id stands in, so that a run can name the case.
        return Case(**{f.name: getattr(case, f.name) for f in fields(Case)} | {"id": content_id(case)})

    def _expectation(self) -> Expectation:
        # Sets of `question` and `answer` rows are older than the longer name.
        older = "question" in self._record and "expected_answer" not in self._record
        allowed_keys = {*_CASE_KEYS, "answer"} if older else _CASE_KEYS
        answer = self._record.get("answer" if older else "expected_answer")
        return Expectation(
            tool_calls=self._expected_calls(),
            match=self._match(),
            tools=self._texts("expected_tools") if self._record.get("expected_tools") is not None else None,
            response_traits=self._texts("expected_response_traits"),
            answer=None if answer is None else answer if isinstance(answer, str) else json.dumps(answer),
            tolerance=self._choice(
                "tolerance",
                self._record.get("tolerance"),
                ("exact_match", "numeric_close", "semantic_similar"),
            ),
            fields=self._texts("expected_fields"),
            criteria=self._get("criteria", dict, "an object") or {},
            state=self._record.get("expected_state"),
            assertions=self._assertions(),
            max_latency_ms=self._get("max_latency_ms", (int, float), "a number of milliseconds"),
            max_cost_usd=self._get("max_cost_usd", (int, float), "a number of US dollars"),
            threshold=self._share("threshold"),
            extra={key: value for key, value in self._record.items() if key not in allowed_keys},
        )

    def _assertions(self) -> tuple[Assertion, ...] | None:
        import msgspec

        assertions = []
        for number, entry in enumerate(self._get("assert", list, "a list of assertions") or []):
            field = f"assert[{number}]"
            if not isinstance(entry, dict) or not entry.keys() <= set(ASSERTIONS):
                raise self._wrong(field, f"an object with one of {', '.join(ASSERTIONS)}")
            try:
                assertions.append(msgspec.convert(entry, Assertion))
            except msgspec.ValidationError as error:
                raise CaseError(self._where, field, f"{field}: {error}") from None
        return tuple(assertions) or None

    def _share(self, field: str) -> float | None:
        value = self._get(field, (int, float), "a share from 0 to 1")
        if value is not None and not 0 <= value <= 1:
            raise self._wrong(field, "a share from 0 to 1")
        return None if value is None else float(value)

    def _choice(self, field: str, value: Any, allowed: tuple[str, ...]) -> Any:
        if value is not None and value not in allowed:
            raise self._wrong(field, f"one of {', '.join(allowed)}")
        return value

    def _expected_calls(self) -> tuple[ExpectedCall, ...] | None:
        calls = self._get("expected_tool_calls", list, "a list of {name, args}")
        if calls is None:
            return None
        return tuple(
            ExpectedCall(name=name, args=args) for name, args, _ in self._calls("expected_tool_calls", calls)
        )

    def _calls(self, field: str, calls: list[Any]) -> Iterator[tuple[str, JsonObject | None, JsonObject]]:
        for index, call in enumerate(calls):
            if not isinstance(call, dict) or not isinstance(call.get("name"), str):
                raise self._wrong(f"{field}[{index}]", 'an object with a "name"')
            args = decode(call.get("args", call.get("arguments")))
            if args is not None and not isinstance(args, dict):
                raise self._wrong(f"{field}[{index}].args", "an object")
            yield call["name"], args, call

    def _match(self) -> Match:
        match = self._record.get("match")
        if match is None:
            return Match()
        if isinstance(match, str):
            match = {"mode": match}
        if not isinstance(match, dict):
            raise self._wrong("match", f"a mode ({', '.join(_MODES)}) or an object")
        self._only("match", match, Match)
        self._choice("match.mode", match.get("mode"), _MODES)
        self._choice("match.args", match.get("args"), _ARGS)
        options: dict[str, Any] = {}
        for key, value in match.items():
            if key in ("only_tools", "ignore_tools", "ignore_args"):
                if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
                    raise self._wrong(f"match.{key}", "a list of names")
                options[key] = tuple(value)
            elif key == "tools":
                if not isinstance(value, dict):
                    raise self._wrong("match.tools", "an object of tool → how its arguments are compared")
                options[key] = {
                    tool: self._tool_match(f"match.tools.{tool}", rule) for tool, rule in value.items()
                }
            else:
                options[key] = value
        return Match(**options)

    def _tool_match(self, field: str, rule: Any) -> str | ToolMatch:
        if isinstance(rule, str) and rule in _ARGS:
            return rule
        if not isinstance(rule, dict):
            raise self._wrong(field, f"one of {', '.join(_ARGS)}, or an object of args, paths and function")
        self._only(field, rule, ToolMatch)
        self._choice(f"{field}.args", rule.get("args"), _ARGS)
        paths = rule.get("paths", {})
        if not isinstance(paths, dict):
            raise self._wrong(f"{field}.paths", "an object of dotted path → rule")
        rules = {path: self._path_rule(f"{field}.paths.{path}", rule) for path, rule in paths.items()}
        try:
            return ToolMatch(args=rule.get("args"), paths=rules, function=rule.get("function"))
        except ValueError as error:
            raise CaseError(self._where, field, f"{field}: {error}") from None

    def _path_rule(self, field: str, rule: Any) -> NamedRule | PathRule:
        if not isinstance(rule, dict):
            named = get_args(NamedRule)
            if not isinstance(rule, str) or rule not in named:
                raise self._wrong(field, f"one of {', '.join(named)}, or an object with a rule")
            return cast("NamedRule", rule)
        self._only(field, rule, PathRule)
        try:
            return PathRule(**rule)
        except ValueError as error:
            raise CaseError(self._where, field, f"{field}: {error}") from None

    def _only(self, field: str, record: dict[str, Any], kind: type) -> None:
        allowed_keys = {kind_field.name for kind_field in fields(kind)}
        for key in record:
            if key not in allowed_keys:
                raise self._wrong(f"{field}.{key}", f"left out; known are {', '.join(sorted(allowed_keys))}")

    def _tape(self) -> tuple[ToolCall, ...]:
        calls = self._get("tape", list, "a list of {name, args, result}") or []
        return tuple(
            ToolCall(
                name=name,
                args=args or {},
                index=index,
                result=call.get("result"),
                error=None if call.get("error") is None else str(call["error"]),
                answered="result" in call or call.get("error") is not None,
            )
            for index, (name, args, call) in enumerate(self._calls("tape", calls))
        )

    def _provenance(self) -> Provenance:
        metadata = self._get("metadata", dict, "an object") or {}
        provenance = {key: value for key, value in metadata.items() if key in _PROVENANCE}
        when = provenance.get("promoted_at")
        if when is not None:
            try:
                provenance["promoted_at"] = datetime.fromisoformat(str(when)).replace(tzinfo=None)
            except ValueError:
                raise self._wrong("metadata.promoted_at", "a time such as 2026-11-20T09:30:00") from None
        if provenance.get("quarantine") is not None:
            provenance["quarantine"] = self._quarantine(provenance["quarantine"])
        extra = {key: value for key, value in metadata.items() if key not in _PROVENANCE}
        return Provenance(**provenance, extra=extra)

    def _quarantine(self, quarantine: Any) -> Quarantine:
        if not isinstance(quarantine, dict):
            raise self._wrong("metadata.quarantine", "an object of owner, since and reason")
        self._only("metadata.quarantine", quarantine, Quarantine)
        for key, value in quarantine.items():
            if value is not None and not isinstance(value, str):
                raise self._wrong(f"metadata.quarantine.{key}", "text")
        return Quarantine(**quarantine)


def case_to_json(case: Case) -> dict[str, Any]:
    """Return the case as the object of its line, keys in a fixed order, what is not expected left out."""
    import msgspec

    expected = case.expectation
    record: dict[str, Any] = {"id": case.id, "input": case.input}
    if case.messages:
        record["messages"] = [_message(message) for message in case.messages]
    if expected.tool_calls is not None:
        record["expected_tool_calls"] = [
            {"name": call.name} if call.args is None else {"name": call.name, "args": call.args}
            for call in expected.tool_calls
        ]
    if expected.match != Match():
        plain = msgspec.to_builtins(Match())
        record["match"] = {k: v for k, v in msgspec.to_builtins(expected.match).items() if v != plain[k]}
        if "tools" in record["match"]:
            record["match"]["tools"] = _without_empty(record["match"]["tools"])
    optional = {
        "expected_tools": None if expected.tools is None else list(expected.tools),
        "expected_response_traits": list(expected.response_traits) or None,
        "expected_answer": expected.answer,
        "tolerance": expected.tolerance,
        "expected_fields": list(expected.fields) or None,
        "criteria": expected.criteria or None,
        "expected_state": expected.state,
        "assert": [
            {kind: value for kind, value in assertion.items() if value is not None}
            for assertion in msgspec.to_builtins(expected.assertions or ())
        ]
        or None,
        "max_latency_ms": expected.max_latency_ms,
        "max_cost_usd": expected.max_cost_usd,
        "threshold": expected.threshold,
        "tape": [_taped(call) for call in case.tape] or None,
        "tags": list(case.tags) or None,
        "category": case.category,
        "difficulty": case.difficulty,
    }
    record |= {key: value for key, value in optional.items() if value is not None} | expected.extra
    provenance = msgspec.to_builtins(case.provenance)
    extra = provenance.pop("extra")
    if case.provenance.quarantine is not None:
        provenance["quarantine"] = _without_empty(provenance["quarantine"])
    metadata = {key: value for key, value in provenance.items() if value is not None} | extra
    if metadata:
        record["metadata"] = metadata
    return record


def _message(message: Message) -> dict[str, Any]:
    """Return a message in OpenAI's shape."""
    content = message.text if message.parts is None else message.parts
    record: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        record["tool_calls"] = [
            {
                "id": call.call_id or f"call_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.args, ensure_ascii=False)},
            }
            for index, call in enumerate(message.tool_calls)
        ]
    named = {"tool_call_id": message.tool_call_id, "name": message.name}
    return record | {key: value for key, value in named.items() if value is not None}


def _taped(call: ToolCall) -> dict[str, Any]:
    recorded: dict[str, Any] = {"name": call.name, "args": call.args}
    if call.error is not None:
        return recorded | {"error": call.error}
    return recorded | ({"result": call.result} if call.answered else {})


def _without_empty(value: Any) -> Any:
    """Return a value, without an object's keys whose value is null or empty."""
    if not isinstance(value, dict):
        return value
    return {key: _without_empty(item) for key, item in value.items() if item is not None and item != {}}
