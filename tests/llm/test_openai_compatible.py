"""Chat completions over real HTTP: what is asked, how it is put more plainly, and what stops everything."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from replaydiff.diff.judge.grading import grade_run
from replaydiff.diff.judge.judge import judge_from
from replaydiff.replay.errors import CredentialsError, ReplayError, SettingsError
from replaydiff.replay.llm import openai_compatible as openai
from replaydiff.replay.llm.base import ModelFailure, ModelReply, ModelRequest, Stop
from replaydiff.replay.model import GradeState, Message
from replaydiff.replay.settings import JudgeSection, Price, Settings, load
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.grades import iter_grades
from tests.diff_judge import records
from tests.stand_ins.chat_completions import Chat, chat, completion, error
from tests.stand_ins.loopback import CUT

SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "additionalProperties": False}
PRICES = {"gpt-test": Price(input=10, output=100, cache_read=1)}


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (openai.KEY, openai.BASE_URL_VARIABLE):
        monkeypatch.delenv(name, raising=False)


def _request(**changes: object) -> ModelRequest:
    fields = {
        "model": "gpt-test",
        "system": "Help.",
        "messages": (Message(role="user", text="Where is order 12345?"),),
        "max_tokens": 100,
    }
    return ModelRequest(**{**fields, **changes})  # type: ignore[arg-type]


def _ask(url: str | None, *requests: ModelRequest, **options: object) -> ModelReply:
    """The reply to the last of the requests, which are asked one after the other."""

    async def ask() -> ModelReply:
        async with openai.connect(base_url=url, **options) as model:  # type: ignore[arg-type]
            for request in requests[:-1]:
                await model.complete(request)
            return await model.complete(requests[-1] if requests else _request())

    return asyncio.run(ask())


def test_what_is_sent_and_what_comes_back() -> None:
    server = Chat()
    with chat(server) as (url, _):
        reply = _ask(url, _request(schema=SCHEMA))
    (sent,) = server.bodies
    assert sent == {
        "model": "gpt-test",
        "max_tokens": 100,
        "messages": [
            {"role": "system", "content": "Help."},
            {"role": "user", "content": "Where is order 12345?"},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
        },
    }
    assert (reply.text, reply.stop, reply.attempts) == ("Hello.", Stop.END, 1)
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cache_read_tokens) == (
        100,
        20,
        40,
    )


def test_loopback_costs_nothing_and_gets_no_key_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(openai.KEY, "sk-secret")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server = Chat()
    with chat(server) as (url, _):
        reply = _ask(url, retries=0, prices=PRICES)
    assert reply.cost_usd == 0
    assert "authorization" not in server.asked[0].headers


def test_the_environment_names_another_place_and_then_it_has_key_and_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Chat()
    with chat(server) as (url, _):
        monkeypatch.setenv(openai.BASE_URL_VARIABLE, url + "/")
        with pytest.raises(CredentialsError, match="OPENAI_API_KEY is not set"):
            _ask(None)
        monkeypatch.setenv(openai.KEY, "sk-secret")
        priced = _ask(None, prices=PRICES)
        unpriced = _ask(None)
    assert server.asked[0].headers["authorization"] == "Bearer sk-secret"
    assert priced.cost_usd == pytest.approx((60 * 10 + 40 * 1 + 20 * 100) / 1e6)
    assert unpriced.cost_usd is None


@pytest.mark.parametrize("url", ["ftp://x/v1", "no address", "https://key@host/v1", "https://h:p/v1"])
def test_an_address_that_is_none_is_told(url: str) -> None:
    with pytest.raises(SettingsError, match="must be an address"):
        openai.check_credentials(url)


@pytest.mark.parametrize(
    ("forms", "status"),
    [(("json_schema",), 400), (("json_object",), 400), ((), 400), (("json_object",), 500)],
)
def test_a_form_that_is_refused_is_asked_for_more_plainly_and_once_only(
    forms: tuple[str, ...], status: int
) -> None:
    server = Chat(forms=forms, refusal=status, say=lambda _: completion('{"score": 1}'))
    with chat(server) as (url, _):
        reply = _ask(url, _request(schema=SCHEMA), _request(schema=SCHEMA))
    refused = 2 - len(forms) if "json_schema" not in forms else 0
    assert len(server.bodies) == 2 + refused
    last = server.bodies[-1]
    assert (last.get("response_format") or {}).get("type") == next(iter(forms), None)
    assert (json.dumps(SCHEMA) in last["messages"][0]["content"]) is bool(refused)
    assert json.loads(reply.text) == {"score": 1}


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ('```json\n{"score": 1}\n```', '{"score": 1}'),
        ('<think>It says {"score": 3}.</think>\n{"score": 1}', '{"score": 1}'),
        ('The user wrote ```json\n{"score": 3}\n```', 'The user wrote ```json\n{"score": 3}\n```'),
    ],
)
def test_what_stands_around_a_plain_answer_is_taken_off_and_nothing_else(said: str, read: str) -> None:
    with chat(Chat(forms=(), say=lambda _: completion(said))) as (url, _):
        assert _ask(url, _request(schema=SCHEMA)).text == read
    with chat(Chat(say=lambda _: completion(said))) as (url, _):
        assert _ask(url, _request(schema=SCHEMA)).text == said


def test_the_length_is_asked_for_by_the_name_that_is_known() -> None:
    server = Chat(length="max_completion_tokens")
    with chat(server) as (url, _):
        _ask(url, _request(), _request())
    assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 100, 100]


def test_many_calls_at_once_find_the_plain_form_together() -> None:
    server = Chat(forms=(), length="max_completion_tokens", say=lambda _: completion("{}"))

    async def ask(url: str) -> list[ModelReply]:
        async with openai.connect(base_url=url, retries=0) as model:
            return await asyncio.gather(*(model.complete(_request(schema=SCHEMA)) for _ in range(12)))

    with chat(server) as (url, _):
        replies = asyncio.run(ask(url))
    assert {reply.text for reply in replies} == {"{}"}


@pytest.mark.parametrize("stumble", [408, 429, 500, 503, 529, CUT])
def test_what_passes_is_tried_again(stumble: int | str) -> None:
    with chat(Chat()) as (url, server):
        server.stumbles = iter([stumble])
        assert _ask(url).attempts == 2


def test_retry_after_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself the third pause alone takes longer than this."""
    pauses, sleep = [], asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)
    with chat(Chat()) as (url, server):
        server.stumbles = iter([429] * 3)
        assert _ask(url).attempts == 4
    assert max(pauses, default=0.0) < 1.4


def test_what_never_passes_is_that_calls_failure() -> None:
    with chat(Chat()) as (url, server):
        server.stumbles = iter([500] * 2)
        with pytest.raises(ModelFailure, match=r"500 stumbled \(2 tries\)"):
            _ask(url, retries=1)
    with pytest.raises(ModelFailure, match=r"http://127\.0\.0\.1:9/v1 cannot be reached"):
        _ask("http://127.0.0.1:9/v1", retries=0)


def _says(status: int, body: Any) -> Chat:
    return Chat(say=lambda _: (status, body))


@pytest.mark.parametrize(
    ("server", "kind", "words"),
    [
        (_says(401, error("Incorrect API key")), CredentialsError, "does not accept the key"),
        (_says(402, error("no credit")), ReplayError, "wants to be paid"),
        (_says(429, error("quota", code="insufficient_quota")), ReplayError, "wants to be paid"),
        (_says(403, error("not yours")), CredentialsError, "may not use gpt-test"),
        (_says(404, error("no such model")), SettingsError, "does not know gpt-test"),
        (_says(307, {}), SettingsError, "not where chat completions are"),
        (_says(200, error("bad key", code=401)), CredentialsError, "does not accept the key"),
        (_says(400, error("too long")), ModelFailure, "refused: 400 too long"),
        (_says(422, {"detail": "max_tokens must be positive"}), ModelFailure, "refused: 422 max_tokens"),
    ],
)
def test_what_no_further_try_would_change_is_sent_once(
    server: Chat, kind: type[Exception], words: str
) -> None:
    server.asked.clear()
    with chat(server) as (url, _), pytest.raises(kind, match=words):
        _ask(url, _request(schema=SCHEMA))
    assert len(server.asked) == 1


def test_an_error_does_not_repeat_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(openai.KEY, "sk-secret")
    with chat(_says(401, error("the key sk-secret is wrong"))) as (url, _):
        monkeypatch.setenv(openai.BASE_URL_VARIABLE, url)
        with pytest.raises(CredentialsError) as told:
            _ask(None)
    assert "sk-secret" not in str(told.value)


@pytest.mark.parametrize(
    ("said", "stop"),
    [
        (completion("x", stop="length"), Stop.TRUNCATED),
        (completion(None, stop="content_filter"), Stop.REFUSED),
        (completion(None, refusal="I cannot."), Stop.REFUSED),
        (completion([{"type": "text", "text": "x"}], stop="eos"), Stop.UNKNOWN),
    ],
)
def test_refusal_and_truncation_are_states(said: object, stop: Stop) -> None:
    with chat(Chat(say=lambda _: said)) as (url, _):
        reply = _ask(url)
    assert reply.stop is stop
    assert reply.text in ("", "x")


@pytest.mark.parametrize("body", [[], {}, {"choices": []}, {"choices": [3]}, "x", error("hiccup")])
def test_an_answer_of_another_kind_is_a_failure_and_no_traceback(body: object) -> None:
    with chat(_says(200, body)) as (url, _), pytest.raises(ModelFailure, match=r"\(1 tries\)"):
        _ask(url, retries=0)


def test_usage_that_is_not_told_has_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(openai.KEY, "sk-secret")
    with chat(_says(200, completion("x") | {"usage": None})) as (url, _):
        monkeypatch.setenv(openai.BASE_URL_VARIABLE, url)
        assert _ask(None, prices=PRICES).cost_usd is None


def test_a_run_is_judged_by_it(tmp_path: Path) -> None:
    """From the settings to the grade; the grade is bound to what answered."""
    item = records.item()
    path = records.store(tmp_path / "s.duckdb", [item], [records.trial(item)], "gpt-4.1")
    server = Chat(forms=(), say=lambda _: completion(records.points(3)))
    with chat(server) as (url, _), open_store(path) as con:
        (tmp_path / "replay.toml").write_text(
            f'[judge]\nprovider = "openai"\nmodel = "gpt-test"\nbase_url = "{url}"\n'
        )
        judge = judge_from(load(tmp_path, {}))
        assert judge is not None
        report = grade_run(con, records.RUN, judge)
        (grade,) = iter_grades(con, records.RUN)
    assert (grade.state, grade.score, report.calls, report.cost_usd) == (GradeState.SCORED, 1.0, 3, 0.0)
    assert grade.grader_version.startswith("gpt-test on loopback/")
    assert any("GPT" in warning for warning in report.warnings)


def test_a_judge_is_named_with_its_host_where_it_is_not_the_vendors(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(base_url: str | None) -> str:
        section = JudgeSection(provider="openai", model="gpt-test", base_url=base_url)
        judge = judge_from(Settings(judge=section))
        assert judge is not None
        return judge.id.model

    with pytest.raises(CredentialsError, match="OPENAI_API_KEY"):
        named(None)
    monkeypatch.setenv(openai.KEY, "sk-secret")
    assert named(None) == "gpt-test"
    assert named("https://llm.example.com/v1") == "gpt-test at llm.example.com"
