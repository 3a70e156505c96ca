"""The golden set as a Langfuse dataset, so that a team who looks there sees what it is held against."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replay.errors import CredentialsError, ReplayError
from replay.model import Case, JsonObject

if TYPE_CHECKING:
    from langfuse.api import LangfuseAPI

DEFAULT_URL = "https://cloud.langfuse.com"
RETRIES = 4


@dataclass(frozen=True, slots=True)
class LangfuseKeys:
    """Access to one Langfuse project, from the environment alone."""

    public_key: str
    secret_key: str
    base_url: str

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> LangfuseKeys:
        """Read `LANGFUSE_PUBLIC_KEY`, `LANGFUSE_SECRET_KEY` and `LANGFUSE_BASE_URL` (or `LANGFUSE_HOST`).

        Raises:
            CredentialsError: a key is not set.
        """
        missing = [n for n in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY") if not environ.get(n)]
        if missing:
            raise CredentialsError(
                f"{' and '.join(missing)} not set; create a key pair in the project's settings on Langfuse "
                "and export it"
            )
        base_url = environ.get("LANGFUSE_BASE_URL") or environ.get("LANGFUSE_HOST") or DEFAULT_URL
        return cls(environ["LANGFUSE_PUBLIC_KEY"], environ["LANGFUSE_SECRET_KEY"], base_url)

    def client(self) -> LangfuseAPI:
        """The SDK's plain API client: no tracing, no background threads."""
        from langfuse.api import LangfuseAPI

        return LangfuseAPI(
            base_url=self.base_url,
            username=self.public_key,
            password=self.secret_key,
            x_langfuse_public_key=self.public_key,
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
