"""The judge in batches: half the price, nothing paid twice, whatever dies and whenever."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replaydiff.diff.judge import batch
from replaydiff.replay.cli import main
from replaydiff.replay.model import Grade, GradeState, Lane, VersionKind
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.grades import iter_grades
from tests.diff_judge.records import RUN, item, store, trial
from tests.stand_ins.batches import CUT, REFUSE, BatchServer, errored, good, message, serving
from tests.stand_ins.processes import PATIENCE_S, start

PRICE = 'prices."claude-opus-5-5" = { input = 10, output = 50 }\n'


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with serving(BatchServer()) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: BatchServer) -> Path:
    """Six responses, of three items in two lanes, and a judge that is asked in batches."""
    items = [item(0), item(1), item(2)]
    trials = [
        trial(one, lane, final_response=f"{one.id} {lane}") for one in items for lane in (Lane.OLD, Lane.NEW)
    ]
    path = store(tmp_path / "s.duckdb", items, trials, kind=VersionKind.OBSERVED)
    (tmp_path / "replay.toml").write_text(
        PRICE + f'[judge]\nmodel = "claude-opus-5-5"\nbase_url = "{server.url}"\nbatch = true\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(batch, "FIRST_PAUSE_S", 0.01)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return path


def _judge(path: Path, *args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["--db", str(path), "run", "--resume", RUN, *args])
    return int(ended.value.code or 0)


def _grades(path: Path) -> list[Grade]:
    with open_store(path, read_only=True) as con:
        return list(iter_grades(con, RUN))


def _waiting(path: Path) -> int:
    with open_store(path, read_only=True) as con:
        return len(con.execute("FROM judge_batches").fetchall())


def test_all_votes_are_asked_for_at_once_and_found_whatever_their_order(
    project: Path, server: BatchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def by_response(params: dict[str, Any]) -> str:
        score = 1 if '"response": "t-001 new"' in params["messages"][0]["content"] else 3
        return json.dumps({"reasoning": "So it is.", "score": score})

    server.say = by_response
    assert _judge(project) == 0
    assert len(server.batches) == 1
    assert len(server.sent) == 6 * 3
    assert server.sent[0]["params"]["output_config"]["format"]["type"] == "json_schema"
    scores = {(grade.item_id, grade.lane): grade.score for grade in _grades(project)}
    assert scores.pop(("t-001", Lane.NEW)) == pytest.approx(1 / 3)
    assert set(scores.values()) == {1.0}
    said = capsys.readouterr().err
    assert "sent the judge a batch of 18 questions (msgbatch_0000)" in said
    assert "the judge's batch has answered 18 of 18 questions" in said
    assert _judge(project) == 0
    assert len(server.batches) == 1
    assert _waiting(project) == 0


def test_it_costs_half_and_the_estimate_says_so(
    project: Path, server: BatchServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The address comes from the environment, as a gateway's does, so that prices count."""
    text = Path("replay.toml").read_text().replace(f'base_url = "{server.url}"\n', "")
    Path("replay.toml").write_text(text)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    assert _judge(project, "--json") == 0
    out, err = capsys.readouterr()
    # 1,000 tokens in and 100 out at $10 and $50 a million are $0.015; eighteen of them at half the price.
    assert json.loads(out)["judge"]["cost_usd"] == pytest.approx(18 * 0.015 / 2)
    assert "at half the price" in err
    assert sum(grade.cost_usd or 0 for grade in _grades(project)) == pytest.approx(18 * 0.015 / 2)
    for grade in _grades(project):
        assert grade.detail["model"] == "claude-opus-5-5"


def test_a_batch_is_no_larger_than_the_budget(
    project: Path, server: BatchServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("replay.toml").read_text().replace(f'base_url = "{server.url}"\n', "max_tokens = 100\n")
    Path("replay.toml").write_text(text)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    assert _judge(project, "--budget", "0.05") == 3
    spent = sum(grade.cost_usd or 0 for grade in _grades(project))
    assert 0 < spent <= 0.05
    assert len(server.sent) < 18
    assert "the budget is spent" in capsys.readouterr().err
    assert _judge(project, "--budget", "10") == 0
    assert len(server.sent) == 18
    assert {grade.state for grade in _grades(project)} == {GradeState.SCORED}


UNANSWERED = {
    "t-000 old": ({"type": "expired"}, GradeState.EXPIRED),
    "t-000 new": ({"type": "canceled"}, GradeState.CANCELLED),
    "t-001 old": (errored("api_error", "an internal error"), GradeState.ERROR),
    "t-001 new": (message("I would rather not."), GradeState.ERROR),
    "t-002 old": (message("", "refusal"), GradeState.REFUSED),
    "t-002 new": (message('{"reas', "max_tokens"), GradeState.TRUNCATED),
}


def test_what_has_no_answer_is_a_state_of_its_own_and_what_may_be_mended_is_asked_again(
    project: Path, server: BatchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(params: dict[str, Any]) -> dict[str, Any]:
        said = params["messages"][0]["content"]
        return next(result for name, (result, _) in UNANSWERED.items() if f'"response": "{name}"' in said)

    server.say = say
    assert _judge(project) == 3
    expected = {name: state for name, (_, state) in UNANSWERED.items()}
    assert {f"{grade.item_id} {grade.lane}": grade.state for grade in _grades(project)} == expected
    assert "judge: 6 of 6 grades failed: " in capsys.readouterr().err
    server.say = good
    assert _judge(project) == 0
    assert len(server.sent) == 18 + 4 * 3
    stay = (GradeState.REFUSED, GradeState.TRUNCATED)
    assert {f"{grade.item_id} {grade.lane}": grade.state for grade in _grades(project)} == {
        name: state if state in stay else GradeState.SCORED for name, state in expected.items()
    }


def test_more_questions_than_a_batch_takes_are_several(
    project: Path, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MOST_REQUESTS", 8)
    assert _judge(project) == 0
    assert [len(sent.requests) for sent in server.batches.values()] == [8, 8, 2]
    assert {grade.state for grade in _grades(project)} == {GradeState.SCORED}


def test_pairs_go_in_a_batch_too(project: Path, server: BatchServer) -> None:
    Path("replay.toml").write_text(Path("replay.toml").read_text() + "pairwise = true\nvotes = 1\n")

    def say(params: dict[str, Any]) -> str:
        if '"better"' not in json.dumps(params["output_config"]):
            return good(params)
        return json.dumps({"reasoning": "It is first.", "better": "first"})

    server.say = say
    assert _judge(project) == 0
    assert sorted(len(sent.requests) for sent in server.batches.values()) == [6, 6]
    pairwise = [grade for grade in _grades(project) if grade.grader == "pairwise"]
    assert [grade.score for grade in pairwise] == [0.5] * 6
    assert all(len(grade.votes) == 2 for grade in pairwise)


def _kill_at(path: Path, server: BatchServer, moment: str) -> None:
    """Run until the server is at this moment, and kill the process there, as a power cut would."""
    reached, dead = threading.Event(), threading.Event()

    def at(now: str) -> str | None:
        if now != moment or dead.is_set():
            return None
        reached.set()
        dead.wait(PATIENCE_S)
        return CUT

    server.at = at
    with start(Path.cwd(), "--db", str(path), "run", "--resume", RUN) as process:
        try:
            assert reached.wait(PATIENCE_S)
        finally:
            process.kill()
            process.wait()
            dead.set()


@pytest.mark.parametrize("moment", ["created", "looked", "half"])
@pytest.mark.slow
def test_a_process_killed_at_any_moment_pays_nothing_twice(
    project: Path, server: BatchServer, moment: str
) -> None:
    """It was taken and its id never came; it was waited for; its answers were half read."""
    _kill_at(project, server, moment)
    assert len(server.batches) == 1
    assert _waiting(project) == 1
    assert _judge(project) == 0
    assert len(server.batches) == 1
    assert len(server.sent) == 18
    assert {grade.state for grade in _grades(project)} == {GradeState.SCORED}
    assert _waiting(project) == 0


def test_a_waiting_batch_is_fetched_without_the_flag_too(project: Path, server: BatchServer) -> None:
    _interrupted(project, server)
    assert _judge(project, "--set", "judge.batch=false") == 0
    assert len(server.sent) == 18
    assert {grade.state for grade in _grades(project)} == {GradeState.SCORED}
    assert "POST /v1/messages" not in server.asked


def _interrupted(project: Path, server: BatchServer) -> None:
    """Ctrl-C while the batch is waited for."""

    def at(now: str) -> str | None:
        if now == "looked":
            server.at = lambda _: None
            os.kill(os.getpid(), signal.SIGINT)
        return None

    server.at = at
    assert _judge(project) == 130
    assert _waiting(project) == 1


def test_ctrl_c_leaves_the_batch_and_says_how_to_fetch_it(
    project: Path, server: BatchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    _interrupted(project, server)
    assert f"`replay run --resume {RUN}` continues with the judge" in capsys.readouterr().err
    assert len(server.batches) == 1


@pytest.mark.parametrize("happens", [CUT, REFUSE])
@pytest.mark.slow
def test_a_batch_whose_answer_was_lost_is_looked_for_and_not_sent_again(
    project: Path, server: BatchServer, happens: str
) -> None:
    """A batch of the same size that somebody else sent meanwhile is not taken for it."""
    other = {"custom_id": "somebody-elses", "params": {"model": "m", "max_tokens": 1, "messages": []}}
    server.create({"requests": [{**other, "custom_id": f"other-{n}"} for n in range(18)]})
    once = iter([happens])
    server.at = lambda now: next(once, None) if now == "created" else None
    assert _judge(project) == 0
    assert len(server.batches) == 2
    assert {grade.state for grade in _grades(project)} == {GradeState.SCORED}


def test_a_batch_that_was_never_taken_is_sent_again(project: Path, server: BatchServer) -> None:
    taken, once = (
        server.create,
        iter([(500, {"type": "error", "error": {"type": "api_error", "message": "x"}})]),
    )
    server.create = lambda body: next(once, None) or taken(body)  # type: ignore[method-assign]
    assert _judge(project) == 0
    assert len(server.batches) == 1
    assert {grade.state for grade in _grades(project)} == {GradeState.SCORED}


def test_answers_that_break_off_are_fetched_again(project: Path, server: BatchServer) -> None:
    once = iter([CUT])
    server.at = lambda now: next(once, None) if now == "half" else None
    assert _judge(project) == 0
    assert len(server.sent) == 18
    assert {grade.state for grade in _grades(project)} == {GradeState.SCORED}


@pytest.mark.parametrize("gone", ["deleted", "archived"])
@pytest.mark.slow
def test_a_batch_that_the_provider_no_longer_has_is_asked_again(
    project: Path, server: BatchServer, gone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _interrupted(project, server)
    server.patience = 0
    if gone == "deleted":
        server.batches.clear()
    else:
        server.archived = True
        only = next(iter(server.batches.values()))
        at = server.shown

        def shown(one: Any) -> dict[str, Any]:
            server.archived = one is only
            return at(one)

        server.shown = shown  # type: ignore[method-assign]
    assert _judge(project) == 0
    assert "the provider no longer has batch" in capsys.readouterr().err
    assert {grade.state for grade in _grades(project)} == {GradeState.SCORED}


@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (400, 2, "the judge's batch was not taken: the request was refused: 400 invalid_request_error: no"),
        (404, 2, "takes no Message Batches; leave batch in [judge] out"),
        (401, 75, "does not accept the key"),
    ],
)
@pytest.mark.slow
def test_a_refused_batch_is_one_sentence_and_nothing_waits(
    project: Path,
    server: BatchServer,
    capsys: pytest.CaptureFixture[str],
    status: int,
    code: int,
    sentence: str,
) -> None:
    with open_store(project) as con:
        con.execute("UPDATE runs SET finished_at = created_at")
    refused = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    server.create = lambda _: (status, refused)  # type: ignore[method-assign]
    assert _judge(project) == code
    assert sentence in capsys.readouterr().err
    assert _waiting(project) == 0


def test_other_providers_take_no_batches(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("replay.toml").write_text(Path("replay.toml").read_text() + 'provider = "openai"\n')
    assert _judge(project) == 2
    assert "needs the Message Batches of Anthropic" in capsys.readouterr().err
