"""The golden set as a Langfuse dataset, so that a team who looks there sees what it is held against."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from replay.errors import CredentialsError, ReplayError
from replay.langfuse_keys import LangfuseKeys
from replay.model import Case, JsonObject

if TYPE_CHECKING:
    from langfuse.api import LangfuseAPI

RETRIES = 4


def client_of(keys: LangfuseKeys) -> LangfuseAPI:
    """The SDK's plain API client: no tracing, no background threads."""
    from langfuse.api import LangfuseAPI

    return LangfuseAPI(
        base_url=keys.base_url,
        username=keys.public_key,
        password=keys.secret_key,
        x_langfuse_public_key=keys.public_key,
        timeout=60,
    )


def push_cases(client: LangfuseAPI, dataset: str, cases: Iterable[Case]) -> int:
    """Create or update the dataset and one item a case; returns how many items were sent.

    Sending the same cases again changes nothing: an item's id is `DATASET/CASE`, and Langfuse upserts by id
    (ids are unique over a whole project, hence the prefix).

    Raises:
        CredentialsError: Langfuse refuses the keys.
        ReplayError: Langfuse cannot be reached, or refuses an item; items before it stay.
    """
    import httpx
    from langfuse.api.core.api_error import ApiError

    sent = 0
    where = "the dataset"
    try:
        client.datasets.create(name=dataset, request_options={"max_retries": RETRIES})
        for case in cases:
            where = f"case {case.id!r}"
            client.dataset_items.create(
                dataset_name=dataset,
                id=f"{dataset}/{case.id}",
                input=_input(case),
                expected_output=_expected(case),
                metadata=_metadata(case),
                source_trace_id=case.provenance.trace_id,
                request_options={"max_retries": RETRIES},
            )
            sent += 1
    except ApiError as error:
        if error.status_code in (401, 403):
            raise CredentialsError(
                f"Langfuse refuses the keys (HTTP {error.status_code}); check LANGFUSE_PUBLIC_KEY, "
                "LANGFUSE_SECRET_KEY, and that LANGFUSE_BASE_URL names their region"
            ) from None
        raise ReplayError(
            f"Langfuse answered HTTP {error.status_code} to {where}; {sent} items went before it, "
            "and stay: run it again to go on"
        ) from None
    except httpx.HTTPError as error:
        raise ReplayError(
            f"Langfuse cannot be reached ({type(error).__name__}) for {where}; {sent} items went before it "
            "and stay: run it again to go on"
        ) from None
    return sent


def _input(case: Case) -> JsonObject | str:
    if not case.messages:
        return case.input
    return {"messages": [{"role": message.role, "content": message.text} for message in case.messages]}


def _expected(case: Case) -> JsonObject:
    expected, found = case.expectation, JsonObject()
    if expected.tool_calls is not None:
        found["tool_calls"] = [{"name": call.name, "args": call.args} for call in expected.tool_calls]
    if expected.tools is not None:
        found["tools"] = list(expected.tools)
    if expected.response_traits:
        found["response_traits"] = list(expected.response_traits)
    if expected.answer is not None:
        found["answer"] = expected.answer
    return found


def _metadata(case: Case) -> JsonObject:
    return {
        "case": case.id,
        "tags": list(case.tags),
        "run": case.provenance.run,
        "reviewer": case.provenance.reviewer,
    }
