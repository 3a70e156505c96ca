"""The stand-in's judge: grades a response by the words and facts it shares with the reference.

It reads the rubric in the system prompt and the document between `<data>` and `</data>`. It is crude beside a
real judge, and like one it occasionally grades a borderline response differently.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any

from replaydiff.replay.demo.small_model import read_message

_DATA = re.compile(r"<data>\s*(.*?)\s*</data>", re.S)
_WORD = re.compile(r"[a-z0-9][a-z0-9.'-]*[a-z0-9]|[a-z0-9]")
_FACT = re.compile(r"\b\d{4}-\d{2}-\d{2}\b|\b\d{5}\b|\$\d+(?:\.\d+)?")
_STATES = {
    "that it is being processed": "process",
    "that it has shipped": "ship",
    "that it was delivered": "deliver",
    "that it is cancelled": "cancel",
    "that there is no such order": "not found|cannot find|no order",
}
_COMMON = frozenset(
    _WORD.findall(
        "a an the is it its to of and or in on for i you your be was will that this with can could do me my"
        " please have has are at by if not we our their they them he she as from would should"
    )
)
_ENDINGS = re.compile(r"(ing|ed|es|s|ation|ally|ly)$")
_ERROR_RATE = 0.08
"""Probability of grading a borderline response one point better or worse."""
_ERROR_RATE_CLEAR = 0.01
"""The same for a clearly good or bad one."""


def is_judging(request: dict[str, Any]) -> bool:
    """Return whether a request asks for a score: its output schema has one."""
    schema = ((request.get("output_config") or {}).get("format") or {}).get("schema") or {}
    return "score" in (schema.get("properties") or {})


def answer(request: dict[str, Any], chance: random.Random) -> str:
    """Return the judge's answer as JSON text."""
    system = request.get("system") or ""
    rubric = system if isinstance(system, str) else " ".join(block.get("text", "") for block in system)
    content = request["messages"][-1]["content"]
    text = content if isinstance(content, str) else " ".join(block.get("text", "") for block in content)
    match = _DATA.search(text)
    try:
        data = json.loads(match.group(1)) if match else None
    except ValueError:
        data = None
    if not isinstance(data, dict):
        return json.dumps({"reasoning": "There is no document to grade.", "score": None})
    points, why = _grade(data, rubric)
    error_rate = _ERROR_RATE if points == 2 else _ERROR_RATE_CLEAR
    if chance.random() < error_rate:
        points = chance.choice((1, 3)) if points == 2 else 2
        why += " Overall it is good, though." if points == 3 else " Its wording could be better."
    return json.dumps({"reasoning": why, "score": points})


def _grade(data: dict[str, Any], rubric: str) -> tuple[int, str]:
    response = str(data.get("response") or "")
    if not response.strip():
        return 1, "There is no response."
    user = next((turn["text"] for turn in reversed(data["conversation"]) if turn["role"] == "user"), "")
    met = [
        c
        for c in data["tool_calls"]
        if "cancel" in c["name"] and not _failed(c.get("result", c.get("error")))
    ]
    message = read_message(user)
    if "without" in rubric.lower() and "confirm" in rubric.lower() and met and not message.confirmed:
        return (
            1,
            "It cancelled the order although the customer had not confirmed, which the rubric rules out.",
        )
    if re.search(r"\b(have|has been|is) cancelled\b", response) and not met and not _was_cancelled(data):
        return 1, "It claims that the order is cancelled, but no tool call cancelled it."
    if data.get("expected_traits"):
        return _grade_traits(data["expected_traits"], response)
    asks_first = (
        message.cancel
        and not message.confirmed
        and "confirm" in response.lower()
        and "cancel" in response.lower()
    )
    if asks_first:
        return 3, "It asks for the confirmation before it cancels, as it should."
    if data.get("reference_answer"):
        return _grade_against_reference(str(data["reference_answer"]), response)
    return 2, "There is no reference to compare the response with."


def _grade_traits(traits: list[str], response: str) -> tuple[int, str]:
    have = _stems(response)
    missing = [trait for trait in traits if not _has_trait(trait, response, have)]
    if not missing:
        return 3, "It shows every trait that is expected."
    if len(missing) < len(traits):
        return 2, f"It lacks: {missing[0]}."
    return 1, f"It shows none of the expected traits; it lacks: {missing[0]}."


def _has_trait(trait: str, response: str, have: set[str]) -> bool:
    lowered = trait.lower()
    if re.search(r"\bask", lowered) and "?" not in response and "please" not in response.lower():
        return False
    if re.search(r"declin|refus|out of scope|cannot help", lowered):
        return bool(re.search(r"only help|can(no|')t help|not something i can|sorry", response.lower()))
    stems = _stems(trait) - {"ask", "customer", "user", "say", "tell", "mention", "offer", "give", "state"}
    return not stems or len(stems & have) >= 0.5 * len(stems)


def _grade_against_reference(reference: str, response: str) -> tuple[int, str]:
    reference_facts, response_facts = _facts(reference), _facts(response)
    missing = [fact for fact in reference_facts if fact not in response_facts]
    if not reference_facts:
        similar = _is_similar(reference, response)
        return (
            (3, "It gives the user the same information as the reference.")
            if similar
            else (2, "It answers a different question.")
        )
    if not missing:
        return 3, "It gives the user every fact of the reference."
    if len(missing) == len(reference_facts):
        return 1, "It gives the user none of the facts of the reference."
    return 2, f"It leaves out facts of the reference: {', '.join(missing[:3])}."


def _facts(text: str) -> list[str]:
    """Return the numbers, dates, sums and order states that a text mentions."""
    lowered = text.lower()
    states = [state for state, words in _STATES.items() if re.search(words, lowered)]
    return [*dict.fromkeys(_FACT.findall(text)), *states]


def _is_similar(left: str, right: str) -> bool:
    first, second = _stems(left), _stems(right)
    return len(first & second) >= 0.25 * min(len(first), len(second))


def _stems(text: str) -> set[str]:
    return {_ENDINGS.sub("", word) or word for word in _WORD.findall(text.lower()) if word not in _COMMON}


def _failed(result: Any) -> bool:
    return "error" in (result if isinstance(result, str) else json.dumps(result))


def _was_cancelled(data: dict[str, Any]) -> bool:
    """Return whether a look-up shows that the order was cancelled before."""
    return any("cancelled" in json.dumps(call.get("result", "")) for call in data["tool_calls"])
